"""Op types of 1.8.5 that FluidLite leaves out on purpose, each with its reason."""

from __future__ import annotations

__all__ = ["why_refused"]

_REASONS = {
    "belongs to imperative mode, and FluidLite runs static graphs only": "run_program",
    "belongs to Paddle's closed parameter servers (pslib, BoxPS)": (
        "pull_box_extended_sparse pull_box_sparse pull_sparse pull_sparse_v2 push_box_extended_sparse "
        "push_box_sparse push_dense push_sparse push_sparse_v2"
    ),
    "belongs to federated learning, which 1.8.5 does not finish": "fl_listen_and_serv",
    "compresses gradients for NCCL on CUDA devices only": "dgc",
    "runs an engine of another vendor": (
        "anakin_engine conv2d_inception_fusion lite_engine ngraph_engine tensorrt_engine"
    ),
    "exists on CUDA devices with cuDNN only": (
        "conv2d_fusion fused_bn_activation fused_conv2d_add_act fused_dconv_drelu_dbn "
        "fused_scale_bias_add_relu fused_scale_bias_relu_conv_bn fusion_group "
        "fusion_transpose_flatten_concat"
    ),
    "computes on CUDA devices only": (
        "batch_fc bilateral_slice block_multihead_attention correlation flash_attn flash_attn_unpadded "
        "fused_bias_act fused_bias_dropout_residual_layer_norm fused_bias_residual_layernorm "
        "fused_dropout_add fused_linear_param_grad_add fused_rotary_position_embedding fused_token_prune "
        "llm_int8_linear masked_multihead_attention memory_efficient_attention quant_linear rms_norm "
        "top_p_sampling variable_length_memory_efficient_attention weight_dequantize weight_only_linear "
        "weight_quantize"
    ),
    "computes on Kunlun devices only": (
        "add_act_xpu add_layernorm_xpu addcmul_xpu bn_act_xpu conv1d_xpu conv2d_transpose_xpu conv2d_xpu "
        "dequantize_xpu embedding_with_eltwise_add_xpu fast_layernorm_xpu fast_where_xpu fc_xpu "
        "fused_multi_transformer_int8_xpu fused_multi_transformer_xpu generate_sequence_xpu "
        "layer_norm_act_xpu multi_encoder_xpu quantize_xpu squeeze_excitation_block yolo_box_xpu"
    ),
    "belongs to sparse tensors, which only imperative mode has": (
        "sparse_abs sparse_acos sparse_acosh sparse_add sparse_addmm sparse_asin sparse_asinh sparse_atan "
        "sparse_atanh sparse_batch_norm sparse_cast sparse_coalesce sparse_conv3d sparse_divide "
        "sparse_divide_scalar sparse_expm1 sparse_full_like sparse_fused_attention sparse_indices "
        "sparse_isnan sparse_leaky_relu sparse_log1p sparse_masked_matmul sparse_matmul sparse_maxpool "
        "sparse_multiply sparse_mv sparse_pow sparse_relu sparse_relu6 sparse_reshape sparse_scale "
        "sparse_sin sparse_sinh sparse_slice sparse_softmax sparse_sparse_coo_tensor sparse_sqrt "
        "sparse_square sparse_subtract sparse_sum sparse_sync_batch_norm sparse_tan sparse_tanh "
        "sparse_to_dense sparse_to_sparse_coo sparse_to_sparse_csr sparse_transpose sparse_values"
    ),
    "is a step of 2.x's composite gradients, which are never written to a file": (
        "abs_p add_p bernoulli_p broadcast_p cast_p concat_p cos_p div_p eq_p erf_p exp_p fill_constant_p "
        "gather_p ge_p gt_p log_p matmul_p max_p mul_p ne_p pow_p reduce_sum_p reshape_p rsqrt_p "
        "scatter_add_p select_p sin_p slice_assign_p slice_select_p split_p sqrt_p sub_p tanh_p transpose_p "
        "uniform_random_p"
    ),
    "is written by 2.x's executor when it runs, and never to a file": (
        "check_memory_continue copy_cross_scope data fetch_v2 full_int_array nop shadow_output share_buffer"
    ),
    "shows memory under another shape, which only imperative mode does": (
        "as_strided index_select_strided tensor_unfold view_dtype view_shape"
    ),
    "spreads a mixture of experts over devices": (
        "assign_pos limit_by_capacity moe number_count prune_gate_by_capacity random_routing"
    ),
    "belongs to heterogeneous or pipelined jobs of 2.x on devices": (
        "alloc_float_status c_comm_init_multitrainer clear_float_status dequeue dist_concat "
        "distributed_push_sparse enqueue get_float_status heter_listen_and_serv p_recv p_recv_array p_send "
        "p_send_array pull_gpups_sparse queue_generator reduce send_and_recv unzip"
    ),
    "updates many parameters at once on devices: `use_multi_tensor=False` is the same": (
        "distributed_fused_lamb distributed_fused_lamb_init fused_adam merged_adam merged_momentum "
        "sparse_momentum"
    ),
    "needs what Paddle alone brings": "faster_tokenizer",
}
_REASON_OF = {op_type: reason for reason, types in _REASONS.items() for op_type in types.split()}


def why_refused(op_type: str) -> str:
    """The reason as a clause, "" for a type that is not refused; a gradient op's is that of its op."""
    stem = op_type
    while stem.endswith("_grad") and stem not in _REASON_OF:
        stem = stem.removesuffix("_grad")
    return _REASON_OF.get(stem, "")
