"""Facts of 1.8.5 about op types, told by `fluid.core`: harnesses of operator tests choose checks by them.

Plans find for themselves which buffers may be overwritten and which inputs die unread; these tables are
1.8.5's declarations, and nothing else reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluidlite.base import registry
from fluidlite.base.proto_marks import words

__all__ = ["has_infer_inplace", "infer_no_need_buffer_slots"]

# an output of these may take the place of an input
_INPLACE = words(
    "abs_grad acos_grad affine_channel affine_channel_grad asin_grad assign atan_grad bce_loss "
    "bce_loss_grad brelu_grad ceil ceil_grad clip clip_grad cos_grad elementwise_add "
    "elementwise_add_grad elementwise_add_grad_grad elementwise_div_grad_grad elementwise_mul_grad_grad "
    "elementwise_sub elementwise_sub_grad elementwise_sub_grad_grad elu elu_grad elu_grad_grad exp "
    "exp_grad flatten flatten2 flatten2_grad flatten_grad floor floor_grad group_norm group_norm_grad "
    "hard_shrink_grad hard_sigmoid hard_sigmoid_grad hard_swish_grad instance_norm_grad_grad leaky_relu "
    "leaky_relu_grad leaky_relu_grad_grad lod_reset lod_reset_grad log1p_grad log_grad logsigmoid_grad "
    "pow_grad reciprocal reciprocal_grad relu relu6 relu6_grad relu_grad relu_grad_grad reshape "
    "reshape2 reshape2_grad reshape2_grad_grad reshape_grad round round_grad rsqrt rsqrt_grad scale "
    "scatter scatter_grad sigmoid sigmoid_cross_entropy_with_logits "
    "sigmoid_cross_entropy_with_logits_grad sigmoid_grad sin_grad soft_relu soft_relu_grad softmax "
    "softmax_grad softmax_with_cross_entropy softmax_with_cross_entropy_grad softplus_grad "
    "softshrink_grad softsign_grad sqrt sqrt_grad sqrt_grad_grad square square_grad square_grad_grad "
    "squeeze2 squeeze2_grad stanh_grad sum swish_grad tanh tanh_grad tanh_shrink_grad "
    "thresholded_relu_grad unsqueeze2 unsqueeze2_grad "
)

# inputs of which only the shape is read, as `op type.slot`
_ONLY_SHAPES = words(
    "affine_channel_grad.X argsort_grad.X bicubic_interp_grad.X bilinear_interp_grad.X "
    "center_loss_grad.X concat_grad.X crop.Y cvm.CVM cvm_grad.X elementwise_add_grad.X "
    "elementwise_add_grad.Y elementwise_add_grad_grad.DOut elementwise_add_grad_grad.Y "
    "elementwise_sub_grad.X elementwise_sub_grad.Y elementwise_sub_grad_grad.DOut "
    "elementwise_sub_grad_grad.Y expand_as_grad.X expand_grad.X fill_constant_batch_size_like.Input "
    "fill_zeros_like2.X flatten_grad.X gather_grad.X gather_nd_grad.X "
    "gaussian_random_batch_size_like.Input gru_grad.Bias gru_grad.Input gru_unit_grad.Bias "
    "hierarchical_sigmoid_grad.Bias index_sample_grad.X index_select_grad.X kldiv_loss_grad.X "
    "layer_norm_grad.Bias linear_chain_crf_grad.Emission linear_chain_crf_grad.Transition "
    "lod_reset_grad.X lookup_table_grad.W lookup_table_v2_grad.W max_pool2d_with_index_grad.X "
    "max_pool3d_with_index_grad.X mean_grad.X nce_grad.Bias nearest_interp_grad.X pad2d_grad.X "
    "reduce_mean_grad.X reduce_sum_grad.X reshape2_grad_grad.DOut roi_align_grad.X roll_grad.X "
    "scatter_grad.Updates scatter_nd_add_grad.Updates sequence_concat_grad.X sequence_expand.Y "
    "sequence_expand_as.Y sequence_expand_as_grad.X sequence_expand_as_grad.Y sequence_expand_grad.X "
    "sequence_expand_grad.Y sequence_pad_grad.X sequence_pool_grad.X sequence_scatter_grad.Updates "
    "sequence_slice_grad.X sequence_softmax_grad.X sequence_unpad_grad.X slice_grad.Input "
    "space_to_depth_grad.X squared_l2_distance_grad.X squared_l2_distance_grad.Y squeeze_grad.X "
    "strided_slice_grad.Input trace_grad.Input trilinear_interp_grad.X unfold_grad.X "
    "uniform_random_batch_size_like.Input unsqueeze_grad.X warpctc_grad.Logits where_grad.X "
    "where_grad.Y "
)


def has_infer_inplace(op_type: str) -> bool:
    """True if 1.8.5 lets ops of that type overwrite an input; UnknownOpError for a type that is not there."""
    return registry.get(op_type).type in _INPLACE


def infer_no_need_buffer_slots(
    op_type: str,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, object],
) -> set[str]:
    """Slots of which only shapes are read; the variables' names and the attributes decide nothing."""
    op = registry.get(op_type)
    return {slot for slot in op.inputs if f"{op.type}.{slot}" in _ONLY_SHAPES}


def _get_all_register_op_kernels() -> dict[str, list[str]]:
    """Op type -> its kernels, spelled as 1.8.5 spells them: one for each kind of floating-point number."""
    kernels = [
        f"data_type[{number}]:data_layout[ANY_LAYOUT]:place[CPUPlace]:library_type[PLAIN]"
        for number in ("double", "float")
    ]
    types = [op_type for op_type in registry.known_types() if registry.get(op_type).compute is not None]
    return {op_type: list(kernels) for op_type in types}
