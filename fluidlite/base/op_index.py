"""The family that declares each op, a module below `fluidlite.ops`; a gradient op stands with its op."""

# written by tests/house/op_index.py
FAMILIES = {
    "detection.anchor_targets": "retinanet_target_assign rpn_target_assign",
    "detection.boxes": "box_clip box_coder box_decoder_and_assign iou_similarity polygon_box_transform",
    "detection.deformable_conv": "deformable_conv deformable_conv_v1",
    "detection.deformable_roi": "deformable_psroi_pooling",
    "detection.mask_targets": "generate_mask_labels",
    "detection.matching": "bipartite_match mine_hard_examples target_assign",
    "detection.priors": "anchor_generator density_prior_box prior_box",
    "detection.proposal_targets": "generate_proposal_labels",
    "detection.proposals": (
        "collect_fpn_proposals distribute_fpn_proposals generate_proposals generate_proposals_v2"
    ),
    "detection.retinanet": "retinanet_detection_output",
    "detection.roi_average": "prroi_pool psroi_pool roi_align",
    "detection.roi_max": "roi_pool",
    "detection.roi_perspective": "roi_perspective_transform",
    "detection.suppression": (
        "locality_aware_nms matrix_nms multiclass_nms multiclass_nms2 multiclass_nms3 nms"
    ),
    "detection.yolo": "yolo_box yolov3_loss",
    "flow.branches": "conditional_block conditional_block_infer is_empty select_input select_output",
    "flow.debug": "assert print py_func",
    "flow.io": (
        "create_double_buffer_reader create_py_reader delete_var feed fetch get_places load load_combine "
        "read save save_combine"
    ),
    "flow.loops": "increment while",
    "flow.py_layer": "pylayer",
    "flow.recurrent": "recurrent rnn_memory_helper",
    "kernels.recurrent_cells": "lstm_unit",
    "losses.detection_map": "detection_map",
    "losses.loss": (
        "bce_loss bpr_loss hinge_loss huber_loss identity_loss kldiv_loss label_smooth log_loss "
        "margin_rank_loss modified_huber_loss rank_loss sigmoid_cross_entropy_with_logits sigmoid_focal_loss "
        "smooth_l1_loss teacher_student_sigmoid_loss"
    ),
    "losses.metric": "accuracy auc mean_iou positive_negative_pair precision_recall",
    "losses.sampling": "hierarchical_sigmoid nce sample_logits",
    "math.activation": (
        "abs acos asin atan brelu ceil celu conj cos cos_double_grad cosh elu erf exp expm1 floor gelu "
        "hard_shrink hard_sigmoid hard_swish imag leaky_relu log log10 log1p log2 logsigmoid mish pow prelu "
        "real reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sin_double_grad sinh soft_relu "
        "softplus softshrink softsign sqrt square stanh swish tan tanh tanh_shrink thresholded_relu"
    ),
    "math.algebra": "add_position_encoding addmm cholesky cross inverse kron",
    "math.clip": "clip clip_by_norm dgc_clip_by_norm",
    "math.compare": (
        "bitwise_and bitwise_not bitwise_or bitwise_xor equal equal_all greater_equal greater_than "
        "less_equal less_than logical_and logical_not logical_or logical_xor not_equal"
    ),
    "math.conv_shift": "conv_shift",
    "math.decompositions": "eig eigh eigvals eigvalsh lu lu_unpack qr svd",
    "math.diagonal": (
        "diag diag_embed diag_v2 diagonal fill_diagonal fill_diagonal_tensor trace tril_indices tril_triu "
        "triu_indices"
    ),
    "math.distance": "center_loss cos_sim dist fsp l1_norm p_norm renorm squared_l2_distance squared_l2_norm",
    "math.einsum": "einsum",
    "math.elementwise": (
        "elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min "
        "elementwise_mod elementwise_mul elementwise_pow elementwise_sub minus"
    ),
    "math.finite": "allclose check_numerics isclose isfinite isfinite_v2 isinf isinf_v2 isnan isnan_v2",
    "math.fourier": "as_complex as_real complex fft_c2c fft_c2r fft_r2c frame overlap_add",
    "math.matmul": "bilinear_tensor_product bmm dot matmul matmul_v2 mul mv",
    "math.order": "bincount cummax cummin kthvalue mode nanmedian searchsorted unique_consecutive",
    "math.pairs": "atan2 elementwise_fmax elementwise_fmin elementwise_heaviside lerp nextafter",
    "math.quantize": (
        "dequantize dequantize_abs_max dequantize_linear dequantize_log fake_channel_wise_dequantize_max_abs "
        "fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max "
        "fake_dequantize_max_abs fake_quantize_abs_max fake_quantize_dequantize_abs_max "
        "fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max "
        "fake_quantize_range_abs_max lookup_table_dequant moving_average_abs_max_scale quantize "
        "quantize_linear requantize"
    ),
    "math.reduce": (
        "frobenius_norm logsumexp mean reduce_all reduce_amax reduce_amin reduce_any reduce_max reduce_mean "
        "reduce_min reduce_prod reduce_sum"
    ),
    "math.running": "cumprod logcumsumexp",
    "math.search": "arg_max arg_min argsort cumsum top_k top_k_v2",
    "math.special": "acosh angle asinh atanh digamma erfinv i0 i0e i1 i1e lgamma logit polygamma trunc",
    "math.systems": (
        "cholesky_solve determinant lstsq matrix_power matrix_rank multi_dot slogdeterminant solve "
        "triangular_solve"
    ),
    "neural.batch_norm": "batch_norm inplace_abn sync_batch_norm",
    "neural.click_through": "cvm filter_by_instag rank_attention",
    "neural.conv": "conv2d conv3d depthwise_conv2d",
    "neural.conv_transpose": "conv2d_transpose conv3d_transpose depthwise_conv2d_transpose",
    "neural.cudnn_lstm": "cudnn_lstm",
    "neural.dropout": "dropout dropout_nd",
    "neural.embedding": "lookup_table lookup_table_v2",
    "neural.fused": "fused_elemwise_activation fused_embedding_seq_pool",
    "neural.fused_inference": (
        "attention_lstm equal_reduce fc fused_embedding_fc_lstm fused_seqpool_cvm fusion_gru fusion_lstm "
        "fusion_repeated_fc_relu fusion_seqconv_eltadd_relu fusion_seqexpand_concat_fc fusion_seqpool_concat "
        "fusion_seqpool_cvm_concat fusion_squared_mat_sub multi_gru"
    ),
    "neural.grid": "affine_grid grid_sampler",
    "neural.group_norm": "group_norm",
    "neural.gru": "gru gru_unit",
    "neural.interpolate": (
        "bicubic_interp bicubic_interp_v2 bilinear_interp bilinear_interp_v2 linear_interp linear_interp_v2 "
        "nearest_interp nearest_interp_v2 trilinear_interp trilinear_interp_v2"
    ),
    "neural.lstm": "lstm lstmp",
    "neural.noisy": "gumbel_softmax rrelu",
    "neural.norm": "affine_channel data_norm instance_norm layer_norm lrn norm spectral_norm",
    "neural.pool": "max_pool2d_with_index max_pool3d_with_index pool2d pool3d unpool unpool3d",
    "neural.rearranged": "channel_shuffle fold pixel_unshuffle",
    "neural.rnn": "rnn",
    "neural.similarity_focus": "similarity_focus",
    "neural.softmax": (
        "cross_entropy cross_entropy2 cross_entropy_grad2 fused_softmax_mask "
        "fused_softmax_mask_upper_triangle log_softmax nll_loss softmax softmax_with_cross_entropy"
    ),
    "neural.spp": "spp",
    "neural.tree": "tdm_child tdm_sampler tree_conv",
    "neural.vision": "im2sequence maxout pixel_shuffle shuffle_channel space_to_depth temporal_shift unfold",
    "sequences.beam_search": "beam_search beam_search_decode",
    "sequences.crf": "chunk_eval crf_decoding linear_chain_crf",
    "sequences.ctc": "ctc_align edit_distance warpctc",
    "sequences.matching": "match_matrix_tensor var_conv_2d",
    "sequences.pyramid_hash": "pyramid_hash",
    "sequences.sequence_conv": "row_conv sequence_conv",
    "sequences.sequence_ids": "sequence_enumerate sequence_erase sequence_scatter sequence_topk_avg_pooling",
    "sequences.sequence_pad": "sequence_mask sequence_pad sequence_unpad",
    "sequences.sequence_pool": "sequence_pool sequence_softmax",
    "sequences.sequence_shape": (
        "sequence_concat sequence_expand sequence_expand_as sequence_reshape sequence_reverse sequence_slice"
    ),
    "sequences.transducer": "warprnnt",
    "sequences.viterbi": "viterbi_decode",
    "tensors.along_axis": "put_along_axis take_along_axis",
    "tensors.arrange": "flip meshgrid partial_concat partial_sum roll unbind",
    "tensors.array": (
        "array_to_lod_tensor lod_array_length lod_rank_table lod_tensor_to_array max_sequence_len "
        "merge_lod_tensor merge_lod_tensor_infer read_from_array reorder_lod_tensor_by_rank "
        "shrink_rnn_memory split_lod_tensor tensor_array_to_tensor write_to_array"
    ),
    "tensors.creation": (
        "assign assign_value cast empty eye fill fill_any_like fill_constant fill_constant_batch_size_like "
        "fill_zeros_like fill_zeros_like2 linspace logspace memcpy range scale shape share_data size sum"
    ),
    "tensors.crop": "crop crop_tensor",
    "tensors.draws": "bernoulli class_center_sample dirichlet exponential multinomial poisson",
    "tensors.expansion": "broadcast_tensors expand expand_as expand_as_v2 expand_v2 tile",
    "tensors.ids": "gather_tree hash histogram shard_index unique unique_with_counts",
    "tensors.indexing": (
        "gather gather_nd index_sample index_select multiplex one_hot one_hot_v2 reverse scatter "
        "scatter_nd_add where where_index"
    ),
    "tensors.joining": "concat split stack unstack",
    "tensors.lod": "lod_reset",
    "tensors.neighbours": "graph_khop_sampler graph_sample_neighbors weighted_sample_neighbors",
    "tensors.pad": "pad pad2d pad3d pad_constant_like",
    "tensors.pictures": "decode_jpeg read_file",
    "tensors.random": (
        "gaussian_random gaussian_random_batch_size_like randint random_crop randperm sampling_id seed "
        "shuffle_batch truncated_gaussian_random uniform_random uniform_random_batch_size_like"
    ),
    "tensors.segments": "graph_reindex graph_send_recv graph_send_ue_recv graph_send_uv segment_pool",
    "tensors.selecting": "index_add index_put masked_select repeat_interleave",
    "tensors.setting": "set_value",
    "tensors.shaping": (
        "flatten flatten2 flatten_contiguous_range reshape reshape2 squeeze squeeze2 transpose transpose2 "
        "unsqueeze unsqueeze2"
    ),
    "tensors.slicing": "slice strided_slice",
    "training.collective": (
        "all_gather all_reduce all_to_all allreduce alltoall barrier broadcast c_allgather c_allreduce_max "
        "c_allreduce_min c_allreduce_prod c_allreduce_sum c_broadcast c_comm_init c_comm_init_all "
        "c_gen_nccl_id c_gen_xccl_id c_reduce_max c_reduce_min c_reduce_prod c_reduce_sum c_reducescatter "
        "c_scatter c_sync_calc_stream c_sync_comm_stream c_wait_comm c_wait_compute coalesce_tensor depend "
        "gen_nccl_id global_gather global_scatter partial_allgather partial_recv partial_send recv_v2 "
        "reduce_scatter send_v2"
    ),
    "training.distributed": (
        "checkpoint_notify distributed_lookup_table fake_init fetch_barrier listen_and_serv "
        "lookup_sparse_table merge_ids prefetch recv recv_save ref_by_trainer_id send send_barrier "
        "split_byref split_ids split_selected_rows"
    ),
    "training.learning_rate": "pow2_decay_with_linear_warmup",
    "training.loss_scaling": "check_finite_and_unscale update_loss_scaling",
    "training.model_parallel": (
        "c_concat c_embedding c_identity c_softmax_with_cross_entropy c_split margin_cross_entropy "
        "mp_allreduce_sum"
    ),
    "training.optimizer": (
        "adadelta adagrad adam adamax adamw decayed_adagrad ftrl momentum proximal_adagrad proximal_gd "
        "rmsprop sgd"
    ),
    "training.selected_rows": "correct_delayed_rows get_tensor_from_selected_rows merge_selected_rows",
    "training.whole_parameter": "average_accumulates dgc_momentum dpsgd lamb lars_momentum",
}
# field and word -> the ops that have it
FACTS = {
    "amp black": (
        "cos_sim cross_entropy cross_entropy2 exp log mean sigmoid_cross_entropy_with_logits softmax "
        "softmax_with_cross_entropy square sum"
    ),
    "amp gray": (
        "batch_norm cast dropout elementwise_add elementwise_div elementwise_floordiv elementwise_max "
        "elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub fill_constant "
        "flatten2 gather gaussian_random gaussian_random_batch_size_like get_tensor_from_selected_rows "
        "leaky_relu lookup_table pool2d pool3d relu relu6 reshape2 scale sigmoid sign slice soft_relu stack "
        "tanh top_k transpose2 uniform_random_batch_size_like unstack"
    ),
    "amp white": "conv2d matmul mul",
    "amp_bf16 black": (
        "acos asin atanh c_softmax_with_cross_entropy cosh cross_entropy cross_entropy2 cumprod cumsum dist "
        "erfinv exp expm1 fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max "
        "frobenius_norm group_norm huber_loss log log10 log2 log_loss log_softmax mean nll_loss pow "
        "reciprocal reduce_mean reduce_prod reduce_sum renorm rsqrt sigmoid_cross_entropy_with_logits sinh "
        "softmax softmax_with_cross_entropy softplus square tan tanh_shrink"
    ),
    "amp_bf16 gray": (
        "batch_norm c_allreduce_sum c_concat c_identity cast concat dropout elementwise_add elementwise_div "
        "elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_mul "
        "elementwise_pow elementwise_sub fill_constant flatten2 gather gaussian_random "
        "get_tensor_from_selected_rows layer_norm leaky_relu pool2d pool3d relu relu6 reshape2 scale sigmoid "
        "sign slice soft_relu split stack tanh top_k transpose2 uniform_random "
        "uniform_random_batch_size_like unstack"
    ),
    "amp_bf16 white": "conv2d einsum matmul matmul_v2 max_pool2d_with_index mul",
    "amp_fp16 black": (
        "acos asin atanh bicubic_interp_v2 bilinear_interp_v2 c_softmax_with_cross_entropy cosh "
        "cross_entropy cross_entropy2 cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm "
        "huber_loss layer_norm linear_interp_v2 log log10 log2 log_loss log_softmax lookup_table "
        "lookup_table_v2 mean nearest_interp_v2 nll_loss pow reciprocal reduce_mean reduce_prod reduce_sum "
        "renorm rsqrt scatter sigmoid_cross_entropy_with_logits sinh softmax softmax_with_cross_entropy "
        "softplus square tan tanh_shrink trilinear_interp_v2"
    ),
    "amp_fp16 gray": (
        "batch_norm c_allreduce_sum c_concat c_identity cast concat dropout elementwise_add elementwise_div "
        "elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_mul "
        "elementwise_pow elementwise_sub fill_constant flatten2 gather gaussian_random "
        "get_tensor_from_selected_rows layer_norm leaky_relu pool2d pool3d relu relu6 reshape2 scale sigmoid "
        "sign slice soft_relu split stack tanh top_k transpose2 uniform_random "
        "uniform_random_batch_size_like unstack"
    ),
    "amp_fp16 white": (
        "conv2d einsum fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max "
        "matmul matmul_v2 max_pool2d_with_index mul"
    ),
}
