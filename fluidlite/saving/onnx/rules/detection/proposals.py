"""ONNX for proposals of regions, their levels in a pyramid of feature maps, and what is read in them."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.detection.suppression import kept_by_loop
from fluidlite.saving.onnx.values import GraphValue, counted, joined, values_of

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
    sizes = deltas.dims(0, 1)
    deltas = deltas.transpose(0, 2, 3, 1).reshape(sizes, -1, 4)
    most = int(op.attr("pre_nms_topN"))
    count = scores.dims(1, 2)
    if most > 0:
        count = count.at_most(GraphValue.constant(op, [most], np.int64))
    best, order = scores.top(count)
    column = order.unsqueeze(2)
    shape = order.shape()
    copies = column.expand(shape, 4)
    of_deltas = deltas.node("GatherElements", copies, axis=1)
    anchors, variances = (each.reshape(-1, 4).take(order) for each in values_of(op, "Anchors", "Variances"))
    (info,) = values_of(op, "ImShape" if is_v2 else "ImInfo")
    boxes, is_large = _decoded(op, anchors, of_deltas, variances, info, end, is_v2)
    is_kept = _suppressed(op, boxes, is_large, end)
    _put_proposals(op, boxes, best, is_kept, is_v2)


def _decoded(
    op: OpView,
    anchors: GraphValue,
    deltas: GraphValue,
    variances: GraphValue,
    info: GraphValue,
    end: float,
    is_v2: bool,
) -> tuple[GraphValue, GraphValue]:
    """Boxes [N, K, 4] within their images, and which of them are large enough."""
    corner, codes, factors = (each.columns(2, 4) for each in (anchors, deltas, variances))
    sides = [info.part(1, place, place + 1).reshape(-1, 1, 1) for place in (1, 0)]
    scale = None if is_v2 else info.part(1, 2, 3).reshape(-1, 1, 1)
    least = max(float(op.attr("min_size")), 1.0)
    lows = []
    highs = []
    is_large = None
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
            is_there = (low + (length + 1.0) / 2.0).compare("LessOrEqual", sides[axis])
            large = large & is_there
        is_large = large if is_large is None else is_large & large
        lows.append(low)
        highs.append(high)
    assert is_large is not None
    return joined([*lows, *highs], 2), is_large.squeeze(2)


def _suppressed(op: OpView, boxes: GraphValue, is_large: GraphValue, end: float) -> GraphValue:
    """Which boxes [N, K] remain, no more than post_nms_topN of an image."""
    threshold = float(op.attr("nms_thresh"))
    eta = float(op.attr("eta"))
    most = int(op.attr("post_nms_topN"))
    if threshold <= 0:
        return is_large
    # those that are too small neither stay nor suppress
    kept = kept_by_all(boxes, is_large, threshold, end == 0, eta)
    if most > 0:
        axis = GraphValue.constant(op, 1, np.int64)
        cast = kept.cast(np.int64)
        rank = cast.node("CumSum", axis)
        is_there = rank.compare("LessOrEqual", most)
        kept = kept & is_there
    return kept


def kept_by_all(
    boxes: GraphValue, is_there: GraphValue, threshold: float, normalized: bool, eta: float
) -> GraphValue:
    """As `kept_by_loop`, of one class, where those that are not there may lie between others."""
    # those that are there come first, in their order
    order = is_there.cast(np.int64).top(is_there.dims(1, 2))[1]
    column = order.unsqueeze(2)
    shape = order.shape()
    copies = column.expand(shape, 4)
    rows = boxes.node("GatherElements", copies, axis=1)
    cast = is_there.cast(np.int64)
    node = cast.node("GatherElements", order, axis=1)
    first = node.cast(np.bool_)
    candidates = rows.unsqueeze(1)
    kept = kept_by_loop(candidates, first.unsqueeze(1), threshold, normalized, eta).squeeze(1)
    zeros = GraphValue.constant(boxes.op, 0, np.int64).expand(order.shape())
    steps = kept.dims(1, 2)
    part = order.part(1, 0, steps)
    back = zeros.node("ScatterElements", part, kept.cast(np.int64), axis=1)
    return back.cast(np.bool_)


def _put_proposals(
    op: OpView, boxes: GraphValue, scores: GraphValue, is_kept: GraphValue, is_v2: bool
) -> None:
    cast = is_kept.cast(np.int64)
    counts = cast.reduce("Sum", 1)
    if is_v2:
        # an image without proposals has one of no size
        is_none = counts.compare("Equal", 0)
        column = is_none.unsqueeze(1)
        sizes = is_kept.dims(1, 2)
        reshaped = counted(sizes).reshape(1, -1)
        first = reshaped.compare("Equal", 0)
        is_kept = is_kept | (column & first)
        boxes = is_none.reshape(-1, 1, 1).where(boxes * 0.0, boxes)
        scores = column.where(scores * 0.0, scores)
        counts = counts.at_least(1)
        result = counts.cast(np.int32)
        op.put(result.name, "RpnRoisNum")
    mask = is_kept.reshape(-1)
    made = boxes.reshape(-1, 4).compress(mask)
    op.put(made.name, "RpnRois")
    found = scores.reshape(-1, 1).compress(mask)
    op.put(found.name, "RpnRoiProbs")
    if not is_v2:
        value = counts.node("CumSum", GraphValue.constant(op, 0, np.int64))
        op.put(value.name, "RpnRoisLod")


# ----------------------------------------------------------------------- levels of a pyramid
def _owners(counts: GraphValue) -> GraphValue:
    """The image of each region, of those that images have."""
    constant = GraphValue.constant(counts.op, 0, np.int64)
    cast = counts.cast(np.int64)
    reshaped = cast.reshape(-1)
    ends = reshaped.node("CumSum", constant)
    reduced = ends.reduce("Max", 0, keep=True)
    every = counted(reduced).reshape(-1, 1)
    is_there = ends.compare("LessOrEqual", every)
    return is_there.cast(np.int64).reduce("Sum", 1)


@exports("distribute_fpn_proposals")
def _distribute(op: OpView) -> None:
    """Regions by the root of their area."""
    (rois,) = values_of(op, "FpnRois")
    low = int(op.attr("min_level"))
    high = int(op.attr("max_level"))
    level = _levels(op, rois, low, high)
    owners = _owners(values_of(op, "RoisNum")[0]) if op.has("RoisNum") else None
    orders = []
    for place in range(high - low + 1):
        is_here = level.compare("Equal", float(low + place))
        found = rois.compress(is_here)
        op.put(found.name, "MultiFpnRois", place)
        order = is_here.node("NonZero", dtype=np.int64)
        orders.append(order.reshape(-1))
        if "MultiLevelRoIsNum" in op.op.outputs:
            result = _counts(op, is_here, owners)
            op.put(result.name, "MultiLevelRoIsNum", place)
    order = joined(orders, 0)
    places = counted(order.dims(0, 1))
    restore = (places * 0).node("ScatterElements", order, places, axis=0)
    made = restore.cast(np.int32).reshape(-1, 1)
    op.put(made.name, "RestoreIndex")


def _levels(op: OpView, rois: GraphValue, low: int, high: int) -> GraphValue:
    """The level of each region."""
    left, top, right, bottom = rois.columns(1, 4)
    one = 1.0 if op.attr("pixel_offset") else 0.0
    is_narrow = right.compare("Less", left)
    is_flat = bottom.compare("Less", top)
    is_empty = is_narrow | is_flat
    area = (right - left + one) * (bottom - top + one)
    area = is_empty.where(area * 0.0, area)
    side = area.node("Sqrt")
    ratio = side / float(op.attr("refer_scale")) + 1e-6
    octaves = ratio.node("Log") / math.log(2.0)
    level = octaves.node("Floor") + float(op.attr("refer_level"))
    # that of a box which is no number is the lowest
    is_number = ~level.node("IsNaN", dtype=np.bool_)
    level = is_number.where(level, float(low))
    level = level.at_least(float(low))
    level = level.at_most(float(high))
    return level.reshape(-1)


def _counts(op: OpView, is_here: GraphValue, owners: GraphValue | None) -> GraphValue:
    """How many of the chosen regions each image has."""
    if owners is None:
        cast = is_here.cast(np.int32)
        reduced = cast.reduce("Sum", 0, keep=True)
        return reduced
    (counts,) = values_of(op, "RoisNum")
    sizes = counts.dims(0, 1)
    images = counted(sizes).reshape(1, -1)
    reshaped = owners.reshape(-1, 1)
    is_there = reshaped.compare("Equal", images)
    each = is_there & is_here.reshape(-1, 1)
    return each.cast(np.int64).reduce("Sum", 0).cast(np.int32)


@exports("collect_fpn_proposals")
def _collect(op: OpView) -> None:
    """The best regions of one image, of all levels."""
    if op.has("MultiLevelRoIsNum"):
        raise op.error("the regions belong to several images")
    levels = [
        joined([GraphValue(op, name, np.float32) for name in op.all(slot)], 0)
        for slot in ("MultiLevelRois", "MultiLevelScores")
    ]
    rois = levels[0]
    scores = levels[1].reshape(-1)
    most = GraphValue.constant(op, [int(op.attr("post_nms_topN"))], np.int64)
    sizes = scores.dims(0, 1)
    least = sizes.at_most(most)
    _, best = scores.top(least, axis=0)
    made = rois.take(best)
    op.put(made.name, "FpnRois")


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
        # all regions are those of one image; it fails as it runs with more
        sizes = x.dims(1, 4)
        x = x.reshape(1, sizes)
        images = counted(rois.dims(0, 1)) * 0
    way = {}
    if op.graph.opset >= 16:
        way["coordinate_transformation_mode"] = "half_pixel" if aligned else "output_half_pixel"
    elif aligned:
        op.needs_opset(16)
    pooled_height = op.attr("pooled_height")
    pooled_width = op.attr("pooled_width")
    sampling_ratio = op.attr("sampling_ratio")
    made = x.node(
        "RoiAlign",
        rois,
        images,
        output_height=int(pooled_height),
        output_width=int(pooled_width),
        sampling_ratio=max(int(sampling_ratio), 0),
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
    strides = op.attr("strides")
    dilations = op.attr("dilations")
    groups = op.attr("groups")
    made = op.add(
        "DeformConv",
        *inputs,
        kernel_shape=list(op.shape("Filter")[2:]),
        strides=list(strides),
        pads=[*pads, *pads],
        dilations=list(dilations),
        group=int(groups),
        offset_group=int(op.attr("deformable_groups")),
    )
    op.put(made, "Output")
