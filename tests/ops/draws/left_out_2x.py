"""Names of the 2.x door that have no generator, and why (`tests/beside/test_draws_2x.py`)."""

from __future__ import annotations

# reason -> module -> names
REASONS: dict[str, dict[str, str]] = {
    "a dtype, a place or a class, which computes nothing by itself": {
        "paddle": (
            "CPUPlace CUDAPinnedPlace CUDAPlace DataParallel LazyGuard Model Tensor bfloat16 bool "
            "complex128 complex64 dtype float16 float32 float64 int16 int32 int64 int8 uint8 finfo "
            "iinfo batch check_shape flops summary"
        ),
        "paddle.nn": "Layer RNNCellBase",
        "paddle.optimizer": "Optimizer",
        "paddle.optimizer.lr": "LRScheduler",
        "paddle.metric": "Accuracy Auc Metric Precision Recall",
        "paddle.static": (
            "BuildStrategy CompiledProgram ExecutionStrategy Executor InputSpec IpuCompiledProgram "
            "IpuStrategy Program Variable"
        ),
    },
    "says something of programs, scopes, files or the process; no op is made": {
        "paddle": (
            "disable_signal_handler disable_static enable_grad enable_static get_cuda_rng_state "
            "get_flags get_rng_state in_dynamic_mode is_grad_enabled load no_grad save seed "
            "set_cuda_rng_state set_flags set_grad_enabled set_printoptions set_rng_state"
        ),
        "paddle.static": (
            "cpu_places cuda_places data default_main_program default_startup_program "
            "deserialize_persistables deserialize_program device_guard global_scope ipu_shard_guard "
            "load load_from_file load_inference_model load_program_state name_scope normalize_program "
            "program_guard save save_inference_model save_to_file scope_guard serialize_persistables "
            "serialize_program set_ipu_shard set_program_state xpu_places"
        ),
        "paddle.text": "Conll05st Imdb Imikolov Movielens UCIHousing WMT14 WMT16",
        "paddle.vision.ops": "read_file decode_jpeg",
        "paddle.Tensor": (
            "attr attr_names backward belong_to_optimizer block clear_gradient cpu create_parameter "
            "create_tensor cuda desc dist_attr dtype element_size error_clip get_value grad_name "
            "gradient indices is_data is_parameter is_view_var item lod_level name numpy op persistable "
            "place register_hook set_value stop_gradient to_dense to_string type values"
        ),
    },
    "2.6.2 takes it in dynamic mode alone": {
        "paddle": "as_strided cauchy_ geometric_ normal_ tolist unfold view view_as",
        "paddle.Tensor": "as_strided cauchy_ geometric_ normal_ uniform_ unfold view view_as",
        "paddle.nn.utils": (
            "clip_grad_norm_ clip_grad_value_ parameters_to_vector spectral_norm vector_to_parameters"
        ),
        "paddle.optimizer": "LBFGS",
    },
    "2.6.2 refuses all arguments in a program": {
        "paddle": "gcd_ lcm_",
        "paddle.Tensor": "gcd_ lcm_ __div__ __rdiv__",
        "paddle.audio.functional": "compute_fbank_matrix hz_to_mel mel_frequencies mel_to_hz",
    },
    "ends the process of 2.6.2, or throws in all runs": {
        "paddle.geometric": "sample_neighbors weighted_sample_neighbors",
        "paddle.incubate": "graph_khop_sampler graph_sample_neighbors",
        "paddle.vision.ops": "psroi_pool PSRoIPool",
    },
    "2.6.2 has it on GPUs alone": {
        "paddle.nn": "SyncBatchNorm",
        "paddle.nn.functional": "margin_cross_entropy sparse_attention",
        "paddle.incubate": "softmax_mask_fuse_upper_triangle",
        "paddle.incubate.nn": (
            "FusedBiasDropoutResidualLayerNorm FusedDropoutAdd FusedEcMoe FusedFeedForward FusedLinear "
            "FusedMultiHeadAttention FusedMultiTransformer FusedTransformerEncoderLayer"
        ),
        "paddle.incubate.nn.functional": (
            "block_multihead_attention fused_bias_dropout_residual_layer_norm fused_ec_moe "
            "fused_feedforward fused_layer_norm fused_linear_activation fused_multi_head_attention "
            "fused_multi_transformer fused_rms_norm fused_rotary_position_embedding "
            "masked_multihead_attention variable_length_memory_efficient_attention"
        ),
        "paddle.Tensor": "top_p_sampling",
    },
    "asks for parameter servers": {"paddle.static.nn": "sparse_embedding"},
    "draws its own start vectors, on which all results depend": {
        "paddle.linalg": "pca_lowrank",
        "paddle.Tensor": "pca_lowrank",
    },
    "takes a list, or a shape, first: the method is the function": {
        "paddle.Tensor": (
            "append broadcast_shape broadcast_tensors concat multi_dot multiplex polar pop stack where_"
        )
    },
}


def left_out() -> dict[str, str]:
    """Name -> why it has no generator."""
    return {
        f"{module}.{name}": reason
        for reason, modules in REASONS.items()
        for module, names in modules.items()
        for name in names.split()
    }
