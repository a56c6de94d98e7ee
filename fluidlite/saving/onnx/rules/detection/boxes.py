"""ONNX for ops on boxes one by one: priors, anchors, codes, overlaps, predictions."""

from __future__ import annotations

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import Array
from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.values import GraphValue, counted, joined, values_of

__all__ = ["overlaps"]


# ----------------------------------------------------------------------- priors and anchors
@exports("prior_box", "density_prior_box", "anchor_generator")
def _priors(op: OpView) -> None:
    """Boxes that follow from sizes alone: constants where those are known."""
    slots = [slot for slot in registry.get(op.type).inputs if op.has(slot)]
    names = list(registry.get(op.type).outputs)
    if all(min(op.shape(slot)[2:]) >= 0 for slot in slots):
        for slot, array in zip(names, _computed(op, slots), strict=True):
            made = op.graph.constant(array)
            op.put(made, slot)
    elif op.type == "density_prior_box":
        raise op.error("the sizes of its images are not known: give them with --shape")
    else:
        _priors_of_any_size(op, names)


def _computed(op: OpView, slots: list[str]) -> tuple[Array, Array]:
    """The results of the op's kernel for images of those sizes."""
    definition = registry.get(op.type)
    assert definition.compute is not None
    attrs = {name: op.attr(name) for name in definition.attr_defs}
    arrays = {slot: np.zeros((1, 1, *op.shape(slot)[2:]), op.dtype(slot)) for slot in slots}
    made: tuple[Array, Array] = definition.compute(xp=np, **arrays, **attrs)
    return made


def _priors_of_any_size(op: OpView, names: list[str]) -> None:
    """Boxes around one place, as the kernel makes them for one, moved to all places."""
    (x,) = values_of(op, "Input")
    rows = x.dims(2, 3)
    columns = x.dims(3, 4)
    is_prior = op.type == "prior_box"
    sides = _prior_halves(op) if is_prior else _anchor_halves(op)
    halves = GraphValue.constant(op, sides, np.float32)
    centers = []
    for axis, count in ((1, columns), (0, rows)):
        at = counted(count).cast(np.float32)
        if is_prior:
            sizes = values_of(op, "Image")[0].dims(3 - (1 - axis), 4 - (1 - axis))
            whole = sizes.cast(np.float32)
            step = op.attr("step_w" if axis else "step_h")
            known = op.attr("step_w") and op.attr("step_h")
            width: GraphValue | float = step if known else whole / count.cast(np.float32)
            at = (at + op.attr("offset")) * width / whole
            part = halves.part(1, 1 - axis, 2 - axis)
            half = part.reshape(-1) / whole
        else:
            step = op.attr("stride")[1 - axis]
            at = at * step + op.attr("offset") * (step - 1)
            part = halves.part(1, 1 - axis, 2 - axis)
            half = part.reshape(-1)
        shape = (1, -1, 1, 1) if axis else (-1, 1, 1, 1)
        centers.append((at.reshape(*shape), half.reshape(1, 1, -1, 1)))
    grid = (rows, columns, len(sides), 1)
    parts = [(at - half).expand(*grid) for at, half in centers]
    parts += [(at + half).expand(*grid) for at, half in centers]
    boxes = joined(parts, 3)
    if is_prior and op.attr("clip"):
        boxes = boxes.at_least(0.0)
        boxes = boxes.at_most(1.0)
    dtype = op.dtype("Input")
    op.put(boxes.cast(dtype).name, names[0])
    variances = GraphValue.constant(op, op.attr("variances"), dtype)
    op.put(variances.expand(rows, columns, len(sides), 4).name, names[1])


def _prior_halves(op: OpView) -> Array:
    """(width, height) halves, of a image of one pixel and a map of one place."""
    attrs = {name: op.attr(name) for name in registry.get(op.type).attr_defs}
    definition = registry.get(op.type)
    assert definition.compute is not None
    one = np.zeros((1, 1, 1, 1), np.float32)
    attrs.update(clip=False, step_w=1.0, step_h=1.0, offset=0.0)
    boxes, _ = definition.compute(xp=np, Input=one, Image=one, **attrs)
    halves: Array = boxes[0, 0, :, 2:]
    return halves


def _anchor_halves(op: OpView) -> Array:
    attrs = {name: op.attr(name) for name in registry.get(op.type).attr_defs}
    definition = registry.get(op.type)
    assert definition.compute is not None
    attrs["offset"] = 0.0
    one_cell = np.zeros((1, 1, 1, 1), np.float32)
    boxes, _ = definition.compute(xp=np, Input=one_cell, **attrs)
    halves: Array = boxes[0, 0, :, 2:]
    return halves


# ----------------------------------------------------------------------- codes and overlaps
def _centers_and_sizes(corners: list[GraphValue], one: float) -> list[tuple[GraphValue, GraphValue]]:
    """Center and size along x and y; a pixel's center lies half a pixel beyond its corner."""
    found = []
    for low, high in ((0, 2), (1, 3)):
        size = corners[high] - corners[low] + one
        found.append((corners[low] + size / 2.0, size))
    return found


@exports("box_coder")
def _box_coder(op: OpView) -> None:
    prior, target = values_of(op, "PriorBox", "TargetBox")
    one = 0.0 if op.attr("box_normalized") else 1.0
    axis = op.attr("axis")
    is_encoder = op.attr("code_type") == "encode_center_size"
    scales = None
    if op.has("PriorBoxVar"):
        (scales,) = values_of(op, "PriorBoxVar")
        op.idle("variance")
    elif op.attr("variance"):
        scales = GraphValue.constant(op, op.attr("variance"), op.dtype("TargetBox"))
    is_table = op.has("PriorBoxVar")
    if is_encoder:
        op.idle("axis")
        made = _encoded(prior, target, one)
        made = made / scales if scales is not None else made
    else:
        # priors stand for columns, or for rows
        place = 1 if axis == 1 else 0
        prior = prior.unsqueeze(place)
        if scales is not None:
            target = target * (scales.unsqueeze(place) if is_table else scales)
        made = _decoded(prior, target, one)
    op.put(made.name, "OutputBox")


def _encoded(prior: GraphValue, target: GraphValue, one: float) -> GraphValue:
    of_prior = _centers_and_sizes([each.reshape(1, -1, 1) for each in prior.columns(1, 4)], one)
    corners = [each.reshape(-1, 1, 1) for each in target.columns(1, 4)]
    offsets = []
    ratios = []
    for (center, size), (low, high) in zip(of_prior, ((0, 2), (1, 3)), strict=True):
        middle = (corners[high] + corners[low]) / 2.0
        offsets.append((middle - center) / size)
        node = ((corners[high] - corners[low] + one) / size).node("Abs")
        log = node.node("Log")
        ratios.append(log)
    return joined([*offsets, *ratios], 2)


def _decoded(prior: GraphValue, codes: GraphValue, one: float) -> GraphValue:
    parts = codes.columns(2, 4)
    lows = []
    highs = []
    for place, (center, size) in enumerate(_centers_and_sizes(prior.columns(2, 4), one)):
        middle = parts[place] * size + center
        node = parts[place + 2].node("Exp")
        half = node * size / 2.0
        lows.append(middle - half)
        highs.append(middle + half - one)
    return joined([*lows, *highs], 2)


def overlaps(left: GraphValue, right: GraphValue, normalized: bool, axis: int) -> GraphValue:
    """Intersection over union of boxes [..., 4] that broadcast, without the last dimension; 0 for two empty
    boxes. Boxes of whole pixels with a gap between them share nothing.
    """
    one = 0.0 if normalized else 1.0
    first = left.columns(axis, 4)
    second = right.columns(axis, 4)
    both = None
    for low, high in ((0, 2), (1, 3)):
        least = first[high].at_most(second[high])
        most = first[low].at_least(second[low])
        side = least - most
        if not normalized:
            is_there = side.compare("Less", 0.0)
            chosen = is_there.where(side * 0.0 - one, side)
            side = chosen + one
        side = side.at_least(0.0)
        both = side if both is None else both * side
    areas = [(each[2] - each[0] + one) * (each[3] - each[1] + one) for each in (first, second)]
    assert both is not None
    union = areas[0] + areas[1] - both
    union = union.compare("Equal", 0.0).where(union * 0.0 + 1.0, union)
    return (both / union).squeeze(axis)


@exports("iou_similarity")
def _iou_similarity(op: OpView) -> None:
    x, y = values_of(op, "X", "Y")
    one = 0.0 if op.attr("box_normalized") else 1.0
    first = [each.reshape(-1, 1) for each in x.columns(1, 4)]
    second = [each.reshape(1, -1) for each in y.columns(1, 4)]
    both = None
    for low, high in ((0, 2), (1, 3)):
        least = first[high].at_most(second[high])
        most = first[low].at_least(second[low])
        side = least - most + one
        both = side.at_least(0.0) if both is None else both * side.at_least(0.0)
    areas = [(each[2] - each[0] + one) * (each[3] - each[1] + one) for each in (first, second)]
    assert both is not None
    union = areas[0] + areas[1] - both
    is_there = union.compare("Equal", 0.0)
    union = is_there.where(union * 0.0 + 1.0, union)
    made = both / union
    op.put(made.name)


@exports("box_clip")
def _box_clip(op: OpView) -> None:
    """Boxes of one image, within its size before it was scaled."""
    boxes, info = values_of(op, "Input", "ImInfo")
    row = info.part(0, 0, 1)
    height, width, scale = row.columns(1, 3)
    sides = [(side / scale + 0.5).node("Floor") - 1.0 for side in (width, height)]
    limits = joined([*sides, *sides], 1).cast(op.dtype("Input"))
    shape = [*[1] * (op.rank("Input") - 1), 4]
    op.put(boxes.at_most(limits.reshape(*shape)).at_least(0.0).name, "Output")


# ----------------------------------------------------------------------- predictions
@exports("yolo_box")
def _yolo_box(op: OpView) -> None:
    """Boxes [N, boxes, 4] and scores [N, boxes, classes] of maps [N, anchors x (5 + classes), H, W]."""
    x, sizes = values_of(op, "X", "ImgSize")
    anchors = np.reshape(op.attr("anchors"), (-1, 2))
    count = len(anchors)
    classes = int(op.attr("class_num"))
    rows = x.dims(2, 3)
    columns = x.dims(3, 4)
    grid = x.reshape(0, count, 5 + classes, rows, columns)
    sizes = sizes.cast(x.dtype)
    sizes = sizes.reshape(-1, 2, 1, 1, 1)
    across = counted(columns).reshape(1, 1, 1, 1, -1)
    down = counted(rows).reshape(1, 1, 1, -1, 1)
    lows = []
    highs = []
    for axis, at in ((0, across), (1, down)):
        size = sizes.part(1, 1 - axis, 2 - axis)
        # rows count for the width as well where the map is no square: so they do in 1.8.5
        cells = columns if op.attr("of_2x") and axis == 0 else rows
        low, high = _yolo_sides(op, grid, axis, at, size, cells.cast(x.dtype))
        lows.append(low)
        highs.append(high)
    confidence = grid.part(2, 4, 5)
    confidence = confidence.node("Sigmoid")
    is_sure = confidence.compare("GreaterOrEqual", float(op.attr("conf_thresh")))
    boxes = is_sure.where(joined([*lows, *highs], 2), 0.0)
    by_class = grid.part(2, 5)
    by_class = by_class.node("Sigmoid")
    scores = is_sure.where(confidence * by_class, 0.0)
    for value, width, slot in ((boxes, 4, "Boxes"), (scores, classes, "Scores")):
        made = value.transpose(0, 1, 3, 4, 2).reshape(0, -1, width)
        op.put(made.name, slot)


def _yolo_sides(
    op: OpView, grid: GraphValue, axis: int, at: GraphValue, size: GraphValue, number: GraphValue
) -> tuple[GraphValue, GraphValue]:
    """The ends of boxes along x (axis 0) or y, of cells at `at`, of which there are `number`, in images of a
    `size`.
    """
    anchors = np.reshape(op.attr("anchors"), (-1, 2))
    stretch = float(op.attr("scale_x_y"))
    cell = grid.part(2, axis, axis + 1)
    cell = cell.node("Sigmoid")
    cell = cell * stretch - 0.5 * (stretch - 1)
    center = (at.cast(grid.dtype) + cell) * size / number
    column = anchors[:, axis].reshape(1, -1, 1, 1, 1)
    anchor = GraphValue.constant(op, column, grid.dtype)
    ratio = grid.part(2, 2 + axis, 3 + axis)
    ratio = ratio.node("Exp")
    pixels = number * float(2 * op.attr("downsample_ratio"))
    half = ratio * anchor * size
    half = half / pixels
    low = center - half
    high = center + half
    if op.attr("clip_bbox"):
        low = low.at_least(0.0)
        high = high.at_most(size - 1.0)
    return low, high
