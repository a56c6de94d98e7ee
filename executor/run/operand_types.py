"""The check that operands have the data types that kernels of 1.8.5 demand: one type, or floats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base.errors import KernelError
from fluidlite.ir.operator import Operator

__all__ = ["check_operand_types", "checked_slots"]

# with operands of several types NumPy would compute in a third one, which no variable declares
_PAIRS = ("add", "div", "floordiv", "max", "min", "mod", "mul", "pow", "sub")
_ONE_TYPE = (
    *(f"elementwise_{name}" for name in _PAIRS),
    *("equal", "greater_equal", "greater_than", "less_equal", "less_than", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "matmul", "mul", "concat", "stack", "sum"),
)
_CONVOLUTIONS = (
    *("conv2d", "depthwise_conv2d", "conv3d"),
    *("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose"),
)
_OPERANDS = {**dict.fromkeys(_ONE_TYPE, ("X", "Y")), **dict.fromkeys(_CONVOLUTIONS, ("Input", "Filter"))}
# Ops for which 1.8.5 has no kernel in whole numbers or truth values, by the slots that choose the kernel or
# have to have its type. Recorded from 1.8.5: each slot was given int64 values, and stopped the run. Slots of
# which an op reads no more than the shape are left out.
_FLOATING = {
    "X": (
        "acos add_position_encoding asin atan bicubic_interp bilinear_interp bpr_loss brelu ceil clip "
        "clip_by_norm cos cross_entropy cross_entropy2 cvm dropout elu erf "
        "fake_channel_wise_quantize_abs_max fake_quantize_abs_max floor frobenius_norm "
        "fusion_seqpool_concat fusion_seqpool_cvm_concat gelu hard_shrink hard_sigmoid hard_swish "
        "im2sequence inplace_abn l1_norm leaky_relu log log1p logsigmoid lrn max_pool2d_with_index "
        "max_pool3d_with_index maxout mean mish nearest_interp norm p_norm pixel_shuffle pool2d pool3d "
        "reciprocal relu relu6 round rsqrt sampling_id selu sequence_pool sequence_softmax "
        "shuffle_channel sigmoid sigmoid_focal_loss sign similarity_focus sin soft_relu softmax softplus "
        "softshrink softsign split_byref spp sqrt squared_l2_norm stanh swish tanh tanh_shrink "
        "temporal_shift thresholded_relu top_k transpose trilinear_interp unfold unpool yolo_box"
    ),
    "X Y": (
        "bmm conv_shift cos_sim dist fsp fused_elemwise_activation fusion_squared_mat_sub huber_loss "
        "iou_similarity matmul minus modified_huber_loss mul squared_l2_distance"
    ),
    "Input Filter": (
        "conv2d conv2d_transpose conv3d conv3d_transpose depthwise_conv2d depthwise_conv2d_transpose"
    ),
    "BBoxes Scores": "locality_aware_nms matrix_nms multiclass_nms multiclass_nms2",
    "X Scale Bias": "affine_channel group_norm instance_norm layer_norm",
    "Logits": "sample_logits softmax_with_cross_entropy warpctc",
    "Param Grad LearningRate Moment": "adagrad decayed_adagrad proximal_adagrad",
    "X InAccum InState": (
        "fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max "
        "moving_average_abs_max_scale"
    ),
    "X Label": "bce_loss sigmoid_cross_entropy_with_logits teacher_student_sigmoid_loss",
    "Anchor GtBoxes ImInfo": "retinanet_target_assign rpn_target_assign",
    "Emission Transition": "crf_decoding linear_chain_crf",
    "Input": "polygon_box_transform quantize",
    "Input Weight Bias": "gru lstm",
    "Param Grad LearningRate": "dpsgd proximal_gd",
    "Param Grad LearningRate Velocity": "lars_momentum momentum",
    "X Filter": "row_conv sequence_conv",
    "X ROIs": "psroi_pool roi_perspective_transform",
    "X W Bias": "fusion_repeated_fc_relu hierarchical_sigmoid",
    "BBoxes Scores Anchors ImInfo": "retinanet_detection_output",
    "ClsLoss MatchDist LocLoss": "mine_hard_examples",
    "DistMat": "bipartite_match",
    "Embeddings WeightH Bias H0 C0": "fused_embedding_fc_lstm",
    "FpnRois": "distribute_fpn_proposals",
    "Input HiddenPrev Weight Bias": "gru_unit",
    "Input ImInfo": "box_clip",
    "Input Offset": "deformable_conv_v1",
    "Input Offset Mask": "deformable_conv",
    "Input ROIs Trans": "deformable_psroi_pooling",
    "Input W Bias": "fc",
    "Input Weight Bias ProjWeight": "lstmp",
    "Input Weight Bias SampleWeight": "nce",
    "Input X Y": "addmm",
    "Label Left Right": "rank_loss",
    "Logits Labels": "hinge_loss",
    "MultiLevelRois": "collect_fpn_proposals",
    "NodesVector Filter": "tree_conv",
    "Out": "accuracy",
    "Param Grad": "sgd",
    "Param Grad AvgSquaredGrad AvgSquaredUpdate": "adadelta",
    "Param Grad LearningRate Beta1Pow Beta2Pow Moment1 Moment2": "lamb",
    "Param Grad LearningRate Beta1Pow Beta2Pow Moment1 Moment2 Beta1Tensor Beta2Tensor": "adam",
    "Param Grad LearningRate Beta1Pow Moment InfNorm": "adamax",
    "Param Grad LearningRate Moment MeanSquare": "rmsprop",
    "Param Grad LearningRate SquaredAccumulator LinearAccumulator": "ftrl",
    "Predict": "auc",
    "Predicted Labels": "log_loss",
    "PriorBox PriorBoxVar TargetBox": "box_coder",
    "PriorBox PriorBoxVar TargetBox BoxScore": "box_decoder_and_assign",
    "RpnRois GtBoxes ImInfo": "generate_proposal_labels",
    "Scores BboxDeltas ImInfo Anchors Variances": "generate_proposals",
    "Theta": "affine_grid",
    "Weight U V": "spectral_norm",
    "X Alpha": "prelu",
    "X BatchSize BatchSum BatchSquareSum": "data_norm",
    "X C_prev": "lstm_unit",
    "X Centers CenterUpdateRate": "center_loss",
    "X FCWeight FCBias": "fusion_seqexpand_concat_fc",
    "X Filter Bias": "fusion_seqconv_eltadd_relu",
    "X GTBox GTScore": "yolov3_loss",
    "X Grid": "grid_sampler",
    "X InScale": "fake_quantize_range_abs_max",
    "X PriorDist": "label_smooth",
    "X ROW COLUMN": "sequence_topk_avg_pooling",
    "X ROW COLUMN W": "var_conv_2d",
    "X Scale": "fake_dequantize_max_abs",
    "X Scale Bias Mean Variance": "batch_norm",
    "X Scales": "fake_channel_wise_dequantize_max_abs",
    "X Target": "kldiv_loss",
    "X Weight": "nll_loss",
    "X WeightX WeightH Bias H0": "fusion_gru",
    "X WeightX WeightH Bias H0 C0": "fusion_lstm",
    "X Y InsideWeight OutsideWeight": "smooth_l1_loss",
    "X Y W": "match_matrix_tensor",
    "X Y Weight Bias": "bilinear_tensor_product",
    "X1 X2 Label": "margin_rank_loss",
}
_CLASS_READERS = ("cross_entropy", "softmax_with_cross_entropy")
_FLOATS = {op: tuple(slots.split()) for slots, ops in _FLOATING.items() for op in ops.split()}


def checked_slots(op: Operator) -> tuple[str, ...]:
    """The input slots of an op of fluid whose values have to be of certain data types."""
    if op.block.program.is_of_2x:
        return ()
    labels = ("Label",) if _reads_classes(op) else ()
    return tuple(dict.fromkeys((*_OPERANDS.get(op.type, ()), *_FLOATS.get(op.type, ()), *labels)))


def _reads_classes(op: Operator) -> bool:
    """True if the labels are numbers of classes, not a probability for each."""
    if op.type == "cross_entropy2":  # has no other form
        return True
    return op.type in _CLASS_READERS and not op.value_for_kernels("soft_label")


def check_operand_types(op: Operator, found: Iterable[tuple[str, str, Any]]) -> None:
    """KernelError where operands (slot, name, dtype or None) differ in their types, or no kernel has them."""
    known = [(slot, name, dtype) for slot, name, dtype in found if dtype is not None]
    alike = _OPERANDS.get(op.type, ())
    _check_alike(op, [(name, dtype) for slot, name, dtype in known if slot in alike])
    for slot, name, dtype in known:
        if slot == "Label" and dtype.kind == "f" and _reads_classes(op):
            raise KernelError(
                f"Tensor holds the wrong type: op {op.type!r} takes numbers of classes, but {name!r} comes "
                f"as {dtype}; feed int64, or set soft_label\n  {op.call_text()}\n  built at {op.where}"
            )
        # single bytes belong to quantised programs
        is_whole = dtype.kind in "iub" and (dtype.itemsize > 1 or dtype.kind == "b")
        if is_whole and slot in _FLOATS.get(op.type, ()):
            raise KernelError(
                f"Operator {op.type} does not have kernel for {dtype}, as which {name!r} comes; cast it to a "
                f"floating-point type (fluid.layers.cast)\n  {op.call_text()}\n  built at {op.where}"
            )


def _check_alike(op: Operator, found: list[tuple[str, Any]]) -> None:
    """KernelError where two operands (name, dtype) differ in their types.

    Half precision is left to `half`, which computes in a wider type on purpose.
    """
    known = [(name, dtype) for name, dtype in found if dtype.itemsize != 2]
    for name, dtype in known[1:]:
        first, expected = known[0]
        if dtype != expected:
            raise KernelError(
                f"Tensor holds the wrong type: op {op.type!r} takes {first!r} as {expected} and {name!r} as "
                f"{dtype}; cast one of them (fluid.layers.cast)\n  {op.call_text()}\n  built at {op.where}"
            )
