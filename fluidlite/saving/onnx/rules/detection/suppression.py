"""ONNX for non-maximum suppression.

Of two boxes without area at one place both stay, where the ops keep the first.
"""

from __future__ import annotations

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.detection.boxes import overlaps
from fluidlite.saving.onnx.values import GraphValue, counted, joined, values_of

__all__ = ["kept_by_loop"]

_LOWEST = float("-inf")


def _checked(op: OpView) -> tuple[GraphValue, GraphValue]:
    """Boxes [N, M, 4] and scores [N, classes, M]."""
    if op.rank("Scores") != 3 or op.shape("BBoxes")[2] != 4:
        shapes = f"BBoxes{list(op.shape('BBoxes'))} and Scores{list(op.shape('Scores'))}"
        raise op.error(f"{shapes}, and the rule knows boxes of 4 numbers that all classes have")
    if op.has("RoisNum"):
        raise op.error("RoisNum belongs to boxes by class")
    boxes, scores = values_of(op, "BBoxes", "Scores")
    background = int(op.attr("background_label"))
    if background >= 0:
        sizes = scores.dims(1, 2)
        classes = counted(sizes).reshape(1, -1, 1)
        # nothing is above a threshold there
        constant = GraphValue.constant(op, _LOWEST, scores.dtype)
        is_there = classes.compare("Equal", background)
        scores = is_there.where(constant, scores)
    return boxes, scores


def _of_best(scores: GraphValue, most: int) -> GraphValue:
    """The scores, but for each class those beyond the `most` largest as low as can be."""
    if most < 0:
        return scores
    sizes = scores.dims(2, 3)
    count = sizes.at_most(_number(scores.op, most))
    best, places = scores.top(count)
    constant = GraphValue.constant(scores.op, _LOWEST, scores.dtype)
    shape = scores.shape()
    lowest = constant.expand(shape)
    node = lowest.node("ScatterElements", places, best, axis=2)
    return node


def _number(op: OpView, number: int) -> GraphValue:
    return GraphValue.constant(op, [number], np.int64)


@exports("multiclass_nms", "multiclass_nms2", "multiclass_nms3")
def _multiclass_nms(op: OpView) -> None:
    boxes, scores = _checked(op)
    falls = op.attr("nms_eta") < 1 and op.attr("nms_threshold") > 0.5
    if op.attr("normalized") and not falls:
        found = _by_node(op, boxes, scores)
    else:
        # ONNX knows neither boxes of whole pixels nor a threshold that falls
        found = _by_loop(op, boxes, scores)
    found = _kept(found, scores, int(op.attr("keep_top_k")))
    taken = scores.take_nd(found)
    _put_rows(op, found, boxes, taken)


def _by_node(op: OpView, boxes: GraphValue, scores: GraphValue) -> GraphValue:
    """Rows (image, class, box) of what remains, by classes, the best of each first."""
    best = _of_best(scores, int(op.attr("nms_top_k")))
    limits = [op.graph.constant([op.attr(name)], np.float32) for name in ("nms_threshold", "score_threshold")]
    most = op.dims(boxes.name, 1, 2)
    made = op.add("NonMaxSuppression", boxes.name, best.name, most, *limits)
    return GraphValue(op, made, np.int64)


def _candidates(
    op: OpView, boxes: GraphValue, scores: GraphValue
) -> tuple[GraphValue, GraphValue, GraphValue, GraphValue]:
    """Of each class the best scores [N, classes, K], which of them are above the threshold, their places
    among the boxes, and the boxes themselves [N, classes, K, 4].
    """
    most = int(op.attr("nms_top_k"))
    count = scores.dims(2, 3) if most < 0 else scores.dims(2, 3).at_most(_number(op, most))
    best, places = scores.top(count)
    is_there = best.compare("Greater", float(op.attr("score_threshold")))
    column = boxes.unsqueeze(1)
    shape = scores.shape()
    every = column.expand(shape, 4)
    copies = places.unsqueeze(3).expand(places.shape(), 4)
    rows = every.node("GatherElements", copies, axis=2)
    return best, is_there, places, rows


def _by_loop(op: OpView, boxes: GraphValue, scores: GraphValue) -> GraphValue:
    """As `_by_node`, candidate after candidate of all classes at once."""
    _, is_there, places, rows = _candidates(op, boxes, scores)
    nms_threshold = op.attr("nms_threshold")
    normalized = op.attr("normalized")
    kept = kept_by_loop(rows, is_there, nms_threshold, bool(normalized), float(op.attr("nms_eta")))
    node = kept.node("NonZero", dtype=np.int64)
    at = node.transpose(1, 0)
    return joined([at.part(1, 0, 2), places.take_nd(at).unsqueeze(1)], 1)


def kept_by_loop(
    rows: GraphValue, is_there: GraphValue, threshold: float, normalized: bool, eta: float
) -> GraphValue:
    """True for the candidates [N, classes, K] that remain of boxes [N, classes, K, 4], the best first, of
    which those count that are there; K may be shortened to the most that are. The threshold falls by `eta`.
    """
    op = rows.op
    graph = rows.op.graph
    counts = is_there.cast(np.int64)
    counts = counts.reduce("Sum", 2)
    counts = counts.reshape(-1)
    steps = counts.reduce("Max", 0, keep=True)
    worst = GraphValue.constant(op, _LOWEST, rows.dtype)
    worst = worst.expand(rows.dims(0, 3))
    limits = GraphValue.constant(op, threshold, rows.dtype)
    limits = limits.expand(rows.dims(0, 2))
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("step", "running", "worst", "limits")]
        step = GraphValue(op, names[0], np.int64)
        before, limit = (GraphValue(op, name, rows.dtype) for name in names[2:])
        made = _one_step(rows, is_there, step, before, limit, normalized, eta)
        last = [op.add("Identity", value) for value in (names[1], *(each.name for each in made))]
    kinds = [(np.int64, 0), (np.bool_, 0), (rows.dtype, 3), (rows.dtype, 2)]
    inputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(names, kinds, strict=True)]
    kinds = [*kinds[1:], (np.bool_, 2)]
    outputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(last, kinds, strict=True)]
    # one step at least: of no steps nobody knows how many classes there are
    count = op.add("Reshape", steps.at_least(1).name, op.scalar_shape())
    yes = graph.constant(True, np.bool_)
    body = graph.subgraph(nodes, inputs, outputs)
    _, _, kept = op.add("Loop", count, yes, worst.name, limits.name, outputs=3, body=body)
    turned = op.add("Transpose", kept, perm=[1, 2, 0])
    return GraphValue(op, turned, np.bool_)


def _one_step(
    rows: GraphValue,
    is_there: GraphValue,
    step: GraphValue,
    before: GraphValue,
    limit: GraphValue,
    normalized: bool,
    eta: float,
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """The largest overlaps with boxes that are kept, the limits, and whether the candidates of this step are
    kept; `before` are the overlaps before it.
    """
    row = rows.take(step, axis=2)
    row = row.unsqueeze(2)
    is_candidate = is_there.take(step, axis=2)
    nearest = before.take(step, axis=2)
    is_apart = nearest.compare("LessOrEqual", limit)
    is_kept = is_candidate & is_apart
    nearer = before.at_least(overlaps(row, rows, normalized, 3))
    after = is_kept.unsqueeze(2)
    after = after.where(nearer, before)
    may_fall = limit.compare("Greater", 0.5)
    falls = is_kept & may_fall
    lower = falls.where(limit * eta, limit)
    return after, lower, is_kept


def _kept(found: GraphValue, scores: GraphValue, most: int) -> GraphValue:
    """Rows of (image, class, box), without those beyond the `most` best of their image."""
    if most < 0:
        return found
    constant = GraphValue.constant(scores.op, _LOWEST, scores.dtype)
    shape = scores.shape()
    lowest = constant.expand(shape)
    taken = scores.take_nd(found)
    node = lowest.node("ScatterND", found, taken)
    chosen = node.node("Flatten", axis=1)
    sizes = chosen.dims(1, 2)
    count = sizes.at_most(_number(scores.op, most))
    _, places = chosen.top(count)
    ones = places * 0 + 1
    zeros = GraphValue.constant(scores.op, 0, np.int64).expand(chosen.shape())
    marked = zeros.node("ScatterElements", places, ones, axis=1)
    reshaped = marked.reshape(scores.shape())
    is_best = reshaped.take_nd(found).compare("Greater", 0)
    return found.compress(is_best)


def _put_rows(op: OpView, found: GraphValue, boxes: GraphValue, scores: GraphValue) -> None:
    """The outputs: rows (class, score, box), the place of each box among those of all images, and how many
    rows each image has.
    """
    image, label, place = found.columns(1, 3)
    rows = boxes.take_nd(joined([image, place], 1))
    out = joined([label.cast(boxes.dtype), scores.reshape(-1, 1), rows], 1)
    if op.type == "multiclass_nms":
        out = _never_empty(out)
    op.put(out.name)
    index = image * boxes.dims(1, 2) + place
    made = index.cast(np.int32)
    op.put(made.name, "Index")
    sizes = boxes.dims(0, 1)
    images = counted(sizes).reshape(1, -1)
    is_there = image.compare("Equal", images)
    cast = is_there.cast(np.int64)
    reduced = cast.reduce("Sum", 0)
    counts = reduced.cast(np.int32)
    for slot in ("NmsRoisNum", "RoisNum"):
        op.put(counts.name, slot)


def _never_empty(rows: GraphValue) -> GraphValue:
    """Rows, or [[-1]] where there are none."""
    op = rows.op
    branches = []
    for none in (True, False):
        with op.graph.branch() as nodes:
            made = op.add("Identity", op.graph.constant([[-1]], rows.dtype) if none else rows.name)
        inner = op.graph.subgraph(nodes, [], [op.graph.info(made, rows.dtype)])
        branches.append(inner)
    size = op.add("Size", rows.name)
    is_empty = op.add("Equal", size, op.whole(0))
    chosen = op.add("If", is_empty, then_branch=branches[0], else_branch=branches[1])
    return GraphValue(op, chosen, rows.dtype)


@exports("matrix_nms")
def _matrix_nms(op: OpView) -> None:
    """The scores of boxes fall with their overlaps with better ones: dense, for the best of each class."""
    op.idle("of_2x", "gaussian_sigma")
    boxes, scores = _checked(op)
    keep = int(op.attr("keep_top_k"))
    best, is_there, places, rows = _candidates(op, boxes, scores)
    count = places.dims(2, 3)
    factors = _factors(op, rows, count)
    reduced = factors.reduce("Min", 2)
    decayed = best * reduced
    is_kept = is_there & decayed.compare("Greater", float(op.attr("post_threshold")))
    decayed = is_kept.where(decayed, _LOWEST)
    flat = decayed.node("Flatten", axis=1)
    number = flat.dims(1, 2) if keep < 0 else flat.dims(1, 2).at_most(_number(op, keep))
    values, order = flat.top(number)
    # rows (image, class, box) in the order of the scores
    sizes = boxes.dims(0, 1)
    images = counted(sizes).reshape(-1, 1)
    shape = order.shape()
    images = images.expand(shape)
    node = places.node("Flatten", axis=1)
    box = node.node("GatherElements", order, axis=1)
    parts = [each.reshape(-1, 1) for each in (images, order / count, box)]
    is_row = values.compare("Greater", _LOWEST).reshape(-1)
    found = joined(parts, 1).compress(is_row)
    reshaped = values.reshape(-1)
    rest = reshaped.compress(is_row)
    _put_rows(op, found, boxes, rest)


def _factors(op: OpView, rows: GraphValue, count: GraphValue) -> GraphValue:
    """The factor of each box [..., j] with regard to each better one [..., i]: [N, classes, i, j]."""
    column = rows.unsqueeze(3)
    shared = overlaps(column, rows.unsqueeze(2), bool(op.attr("normalized")), 4)
    places = counted(count)
    reshaped = places.reshape(1, -1)
    is_better = places.reshape(-1, 1).compare("Less", reshaped)
    shared = is_better.where(shared, 0.0)
    reduced = shared.reduce("Max", 2)
    before = reduced.unsqueeze(3)
    if op.attr("use_gaussian"):
        made = ((before * before - shared * shared) * float(op.attr("gaussian_sigma"))).node("Exp")
    else:
        made = (1.0 - shared) / (1.0 - before)
    # a box that lies on a better one exactly has no factor with regard to what lies on both
    is_number = ~made.node("IsNaN", dtype=np.bool_)
    chosen = (is_better & is_number).where(made, 1.0)
    return chosen
