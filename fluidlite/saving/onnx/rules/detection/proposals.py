"""ONNX for proposals of regions, their levels in a pyramid of feature maps, and what is read in them."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.detection.suppression import kept_by_loop
from fluidlite.saving.onnx.values import Value, counted, joined, values_of

_LOWEST = float("-inf")
_LARGEST_STRETCH = math.log(1000.0 / 16.0)  # a box grows by no more than this, in logarithms


# ----------------------------------------------------------------------- proposals
@exports("generate_proposals", "generate_proposals_v2")
def _generate(op: OpView) -> None:
    """The best boxes of each image, decoded, cut at its edges, and suppressed."""
    is_v2 = op.type.endswith("_v2")
    end = 1.0 if not is_v2 or op.attr("pixel_offset") else 0.0
    scores, deltas = values_of(op, "Scores", "BboxDeltas")
    scores = scores.transpose(0, 2, 3, 1).reshape(0, -1)
    deltas = deltas.transpose(0, 2, 3, 1).reshape(deltas.dims(0, 1), -1, 4)
    most = int(op.attr("pre_nms_topN"))
    count = scores.dims(1, 2)
    if most > 0:
        count = count.at_most(Value.constant(op, [most], np.int64))
    best, order = scores.top(count)
    of_deltas = deltas.node("GatherElements", order.unsqueeze(2).expand(order.shape(), 4), axis=1)
    anchors, variances = (each.reshape(-1, 4).take(order) for each in values_of(op, "Anchors", "Variances"))
    (info,) = values_of(op, "ImShape" if is_v2 else "ImInfo")
    boxes, is_large = _decoded(op, anchors, of_deltas, variances, info, end, is_v2)
    is_kept = _suppressed(op, boxes, is_large, end)
    _put_proposals(op, boxes, best, is_kept, is_v2)


def _decoded(
    op: OpView, anchors: Value, deltas: Value, variances: Value, info: Value, end: float, is_v2: bool
) -> tuple[Value, Value]:
    """Boxes [N, K, 4] within their images, and which of them are large enough."""
    corner, codes, factors = (each.columns(2, 4) for each in (anchors, deltas, variances))
    sides = [info.part(1, place, place + 1).reshape(-1, 1, 1) for place in (1, 0)]
    scale = None if is_v2 else info.part(1, 2, 3).reshape(-1, 1, 1)
    least = max(float(op.attr("min_size")), 1.0)
    lows, highs, is_large = [], [], None
    for axis in (0, 1):
        size = corner[axis + 2] - corner[axis] + end
        center = factors[axis] * codes[axis] * size + (corner[axis] + size * 0.5)
        stretch = (factors[axis + 2] * codes[axis + 2]).at_most(_LARGEST_STRETCH).node("Exp")
        half = stretch * size / 2.0
        low, high = (
            value.at_most(sides[axis] - end).at_least(0.0) for value in (center - half, center + half - end)
        )
        length = high - low
        real = length if scale is None else length / scale
        large = (real + end).compare("GreaterOrEqual", least)
        if end:
            large = large & (low + (length + 1.0) / 2.0).compare("LessOrEqual", sides[axis])
        is_large = large if is_large is None else is_large & large
        lows.append(low)
        highs.append(high)
    assert is_large is not None
    return joined([*lows, *highs], 2), is_large.squeeze(2)


def _suppressed(op: OpView, boxes: Value, is_large: Value, end: float) -> Value:
    """Which boxes [N, K] remain, no more than post_nms_topN of an image."""
    threshold, eta, most = float(op.attr("nms_thresh")), float(op.attr("eta")), int(op.attr("post_nms_topN"))
    if threshold <= 0:
        return is_large
    # those that are too small neither stay nor suppress
    kept = kept_by_all(boxes, is_large, threshold, end == 0, eta)
    if most > 0:
        axis = Value.constant(op, 1, np.int64)
        rank = kept.cast(np.int64).node("CumSum", axis)
        kept = kept & rank.compare("LessOrEqual", most)
    return kept


def kept_by_all(boxes: Value, is_there: Value, threshold: float, normalized: bool, eta: float) -> Value:
    """As `kept_by_loop`, of one class, where those that are not there may lie between others."""
    # those that are there come first, in their order
    order = is_there.cast(np.int64).top(is_there.dims(1, 2))[1]
    rows = boxes.node("GatherElements", order.unsqueeze(2).expand(order.shape(), 4), axis=1)
    first = is_there.cast(np.int64).node("GatherElements", order, axis=1).cast(np.bool_)
    kept = kept_by_loop(rows.unsqueeze(1), first.unsqueeze(1), threshold, normalized, eta).squeeze(1)
    zeros = Value.constant(boxes.op, 0, np.int64).expand(order.shape())
    steps = kept.dims(1, 2)
    back = zeros.node("ScatterElements", order.part(1, 0, steps), kept.cast(np.int64), axis=1)
    return back.cast(np.bool_)


def _put_proposals(op: OpView, boxes: Value, scores: Value, is_kept: Value, is_v2: bool) -> None:
    counts = is_kept.cast(np.int64).reduce("Sum", 1)
    if is_v2:
        # an image without proposals has one of no size
        is_none = counts.compare("Equal", 0)
        column = is_none.unsqueeze(1)
        first = counted(is_kept.dims(1, 2)).reshape(1, -1).compare("Equal", 0)
        is_kept = is_kept | (column & first)
        boxes = is_none.reshape(-1, 1, 1).where(boxes * 0.0, boxes)
        scores = column.where(scores * 0.0, scores)
        counts = counts.at_least(1)
        op.put(counts.cast(np.int32).name, "RpnRoisNum")
    mask = is_kept.reshape(-1)
    op.put(boxes.reshape(-1, 4).compress(mask).name, "RpnRois")
    op.put(scores.reshape(-1, 1).compress(mask).name, "RpnRoiProbs")
    if not is_v2:
        op.put(counts.node("CumSum", Value.constant(op, 0, np.int64)).name, "RpnRoisLod")


# ----------------------------------------------------------------------- levels of a pyramid
def _owners(counts: Value) -> Value:
    """The image of each region, of those that images have."""
    ends = counts.cast(np.int64).reshape(-1).node("CumSum", Value.constant(counts.op, 0, np.int64))
    every = counted(ends.reduce("Max", 0, keep=True)).reshape(-1, 1)
    return ends.compare("LessOrEqual", every).cast(np.int64).reduce("Sum", 1)


@exports("distribute_fpn_proposals")
def _distribute(op: OpView) -> None:
    """Regions by the root of their area."""
    (rois,) = values_of(op, "FpnRois")
    left, top, right, bottom = rois.columns(1, 4)
    one = 1.0 if op.attr("pixel_offset") else 0.0
    is_empty = right.compare("Less", left) | bottom.compare("Less", top)
    area = (right - left + one) * (bottom - top + one)
    side = is_empty.where(area * 0.0, area).node("Sqrt")
    ratio = side / float(op.attr("refer_scale")) + 1e-6
    level = (ratio.node("Log") / math.log(2.0)).node("Floor") + float(op.attr("refer_level"))
    low, high = int(op.attr("min_level")), int(op.attr("max_level"))
    # that of a box which is no number is the lowest
    is_number = ~level.node("IsNaN", dtype=np.bool_)
    level = is_number.where(level, float(low)).at_least(float(low)).at_most(float(high)).reshape(-1)
    owners = _owners(values_of(op, "RoisNum")[0]) if op.has("RoisNum") else None
    orders = []
    for place in range(high - low + 1):
        is_here = level.compare("Equal", float(low + place))
        op.put(rois.compress(is_here).name, "MultiFpnRois", place)
        orders.append(is_here.node("NonZero", dtype=np.int64).reshape(-1))
        if "MultiLevelRoIsNum" in op.op.outputs:
            op.put(_counts(op, is_here, owners).name, "MultiLevelRoIsNum", place)
    order = joined(orders, 0)
    places = counted(order.dims(0, 1))
    restore = (places * 0).node("ScatterElements", order, places, axis=0)
    op.put(restore.cast(np.int32).reshape(-1, 1).name, "RestoreIndex")


def _counts(op: OpView, is_here: Value, owners: Value | None) -> Value:
    """How many of the chosen regions each image has."""
    if owners is None:
        return is_here.cast(np.int32).reduce("Sum", 0, keep=True)
    (counts,) = values_of(op, "RoisNum")
    images = counted(counts.dims(0, 1)).reshape(1, -1)
    each = owners.reshape(-1, 1).compare("Equal", images) & is_here.reshape(-1, 1)
    return each.cast(np.int64).reduce("Sum", 0).cast(np.int32)


@exports("collect_fpn_proposals")
def _collect(op: OpView) -> None:
    """The best regions of one image, of all levels."""
    if op.has("MultiLevelRoIsNum"):
        raise op.error("the regions belong to several images")
    levels = [
        joined([Value(op, name, np.float32) for name in op.all(slot)], 0)
        for slot in ("MultiLevelRois", "MultiLevelScores")
    ]
    rois, scores = levels[0], levels[1].reshape(-1)
    most = Value.constant(op, [int(op.attr("post_nms_topN"))], np.int64)
    _, best = scores.top(scores.dims(0, 1).at_most(most), axis=0)
    op.put(rois.take(best).name, "FpnRois")


# ----------------------------------------------------------------------- regions of feature maps
@exports("roi_align")
def _roi_align(op: OpView) -> None:
    aligned = bool(op.attr("aligned"))
    x, rois = values_of(op, "X", "ROIs")
    if op.has("RoisLod"):
        raise op.error("RoisLod says where the regions of images begin")
    if op.has("RoisNum"):
        images = _owners(values_of(op, "RoisNum")[0])
    else:
        # all regions are those of one picture; it fails as it runs with more
        x = x.reshape(1, x.dims(1, 4))
        images = counted(rois.dims(0, 1)) * 0
    way = {}
    if op.graph.opset >= 16:
        way["coordinate_transformation_mode"] = "half_pixel" if aligned else "output_half_pixel"
    elif aligned:
        op.needs_opset(16)
    made = x.node(
        "RoiAlign",
        rois,
        images,
        output_height=int(op.attr("pooled_height")),
        output_width=int(op.attr("pooled_width")),
        sampling_ratio=max(int(op.attr("sampling_ratio")), 0),
        spatial_scale=float(op.attr("spatial_scale")),
        **way,
    )
    op.put(made.name)


@exports("deformable_conv", "deformable_conv_v1")
def _deformable_conv(op: OpView) -> None:
    op.needs_opset(19)
    op.idle("im2col_step")
    pads = list(op.attr("paddings"))
    inputs = [op.x("Input"), op.x("Filter"), op.x("Offset")]
    if op.type == "deformable_conv":
        inputs += ["", op.x("Mask")]
    made = op.add(
        "DeformConv",
        *inputs,
        kernel_shape=list(op.shape("Filter")[2:]),
        strides=list(op.attr("strides")),
        pads=[*pads, *pads],
        dilations=list(op.attr("dilations")),
        group=int(op.attr("groups")),
        offset_group=int(op.attr("deformable_groups")),
    )
    op.put(made, "Output")
