"""The module below `fluidlite.executor.compile.lowering` that declares the rule of each op that has one."""

# written by tests/house/op_index.py
RULES = {
    "activation": "gelu gelu_grad leaky_relu leaky_relu_grad relu relu_grad",
    "batch_norm": "batch_norm batch_norm_grad",
    "collective": (
        "c_allreduce_max c_allreduce_min c_allreduce_prod c_allreduce_sum c_broadcast c_reduce_max "
        "c_reduce_min c_reduce_prod c_reduce_sum c_sync_calc_stream c_sync_comm_stream coalesce_tensor "
        "depend"
    ),
    "compare": (
        "equal greater_equal greater_than isfinite less_equal less_than logical_and logical_not logical_or "
        "logical_xor not_equal"
    ),
    "constants": "assign_value cast fill_constant fill_zeros_like increment scale shape sum",
    "conv": (
        "conv2d conv2d_grad conv2d_transpose conv2d_transpose_grad conv3d conv3d_grad conv3d_transpose "
        "conv3d_transpose_grad depthwise_conv2d depthwise_conv2d_grad depthwise_conv2d_transpose "
        "depthwise_conv2d_transpose_grad"
    ),
    "dense": "bmm bmm_grad matmul matmul_grad matmul_v2 matmul_v2_grad mul mul_grad",
    "dropout": "dropout dropout_grad",
    "elementwise": (
        "elementwise_add elementwise_add_grad elementwise_div elementwise_div_grad elementwise_max "
        "elementwise_min elementwise_mod elementwise_mul elementwise_mul_grad elementwise_pow "
        "elementwise_sub elementwise_sub_grad"
    ),
    "embedding": "lookup_table lookup_table_grad lookup_table_v2 lookup_table_v2_grad",
    "expansion": (
        "expand expand_as expand_as_grad expand_as_v2 expand_as_v2_grad expand_grad expand_v2 expand_v2_grad "
        "tile tile_grad"
    ),
    "flow": "rnn_memory_helper rnn_memory_helper_grad select_input select_output",
    "interpolate": (
        "bicubic_interp bicubic_interp_grad bilinear_interp bilinear_interp_grad bilinear_interp_v2 "
        "bilinear_interp_v2_grad nearest_interp nearest_interp_grad nearest_interp_v2 nearest_interp_v2_grad"
    ),
    "joining": "slice slice_grad split stack stack_grad unstack unstack_grad",
    "loss": "cross_entropy2 cross_entropy_grad2 hierarchical_sigmoid mean mean_grad",
    "loss_scaling": "check_finite_and_unscale update_loss_scaling",
    "metric": "accuracy auc top_k",
    "optimizer": (
        "adadelta adagrad adam adamax adamw decayed_adagrad ftrl momentum proximal_adagrad proximal_gd "
        "rmsprop sgd"
    ),
    "pool": "pool2d pool2d_grad pool3d pool3d_grad",
    "reduce": "reduce_max reduce_mean reduce_mean_grad reduce_min reduce_sum reduce_sum_grad",
    "responses": "elementwise_pow_grad log_loss log_loss_grad lrn lrn_grad",
    "servers": "fetch_barrier recv split_byref",
    "shape": (
        "assign concat concat_grad flatten flatten2 flatten2_grad flatten_contiguous_range "
        "flatten_contiguous_range_grad flatten_grad reshape reshape2 reshape2_grad reshape_grad squeeze "
        "squeeze2 squeeze2_grad squeeze_grad transpose transpose2 transpose2_grad transpose_grad unsqueeze "
        "unsqueeze2 unsqueeze2_grad unsqueeze_grad"
    ),
    "whole_parameter": "lamb lars_momentum",
}
