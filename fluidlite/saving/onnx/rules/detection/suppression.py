"""ONNX for non-maximum suppression.

Of two boxes without area at one place both stay, where the ops keep the first.
"""

from __future__ import annotations

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.detection.boxes import overlaps
from fluidlite.saving.onnx.values import Value, counted, joined, values_of

__all__ = ["kept_by_loop"]

_LOWEST = float("-inf")


def _checked(op: OpView) -> tuple[Value, Value]:
    """Boxes [N, M, 4] and scores [N, classes, M]."""
    if op.rank("Scores") != 3 or op.shape("BBoxes")[2] != 4:
        shapes = f"BBoxes{list(op.shape('BBoxes'))} and Scores{list(op.shape('Scores'))}"
        raise op.error(f"{shapes}, and the rule knows boxes of 4 numbers that all classes have")
    if op.has("RoisNum"):
        raise op.error("RoisNum belongs to boxes by class")
    boxes, scores = values_of(op, "BBoxes", "Scores")
    background = int(op.attr("background_label"))
    if background >= 0:
        classes = counted(scores.dims(1, 2)).reshape(1, -1, 1)
        # nothing is above a threshold there
        scores = classes.compare("Equal", background).where(Value.constant(op, _LOWEST, scores.dtype), scores)
    return boxes, scores


def _of_best(scores: Value, most: int) -> Value:
    """The scores, but for each class those beyond the `most` largest as low as can be."""
    if most < 0:
        return scores
    count = scores.dims(2, 3).at_most(_number(scores.op, most))
    best, places = scores.top(count)
    lowest = Value.constant(scores.op, _LOWEST, scores.dtype).expand(scores.shape())
    return lowest.node("ScatterElements", places, best, axis=2)


def _number(op: OpView, number: int) -> Value:
    return Value.constant(op, [number], np.int64)


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
    _put_rows(op, found, boxes, scores.take_nd(found))


def _by_node(op: OpView, boxes: Value, scores: Value) -> Value:
    """Rows (image, class, box) of what remains, by classes, the best of each first."""
    best = _of_best(scores, int(op.attr("nms_top_k")))
    limits = [op.graph.constant([op.attr(name)], np.float32) for name in ("nms_threshold", "score_threshold")]
    most = op.dims(boxes.name, 1, 2)
    return Value(op, op.add("NonMaxSuppression", boxes.name, best.name, most, *limits), np.int64)


def _candidates(op: OpView, boxes: Value, scores: Value) -> tuple[Value, Value, Value, Value]:
    """Of each class the best scores [N, classes, K], which of them are above the threshold, their places
    among the boxes, and the boxes themselves [N, classes, K, 4].
    """
    most = int(op.attr("nms_top_k"))
    count = scores.dims(2, 3) if most < 0 else scores.dims(2, 3).at_most(_number(op, most))
    best, places = scores.top(count)
    is_there = best.compare("Greater", float(op.attr("score_threshold")))
    every = boxes.unsqueeze(1).expand(scores.shape(), 4)
    rows = every.node("GatherElements", places.unsqueeze(3).expand(places.shape(), 4), axis=2)
    return best, is_there, places, rows


def _by_loop(op: OpView, boxes: Value, scores: Value) -> Value:
    """As `_by_node`, candidate after candidate of all classes at once."""
    _, is_there, places, rows = _candidates(op, boxes, scores)
    kept = kept_by_loop(
        rows, is_there, op.attr("nms_threshold"), bool(op.attr("normalized")), float(op.attr("nms_eta"))
    )
    at = kept.node("NonZero", dtype=np.int64).transpose(1, 0)
    return joined([at.part(1, 0, 2), places.take_nd(at).unsqueeze(1)], 1)


def kept_by_loop(rows: Value, is_there: Value, threshold: float, normalized: bool, eta: float) -> Value:
    """True for the candidates [N, classes, K] that remain of boxes [N, classes, K, 4], the best first, of
    which those count that are there; K may be shortened to the most that are. The threshold falls by `eta`.
    """
    op, graph = rows.op, rows.op.graph
    steps = is_there.cast(np.int64).reduce("Sum", 2).reshape(-1).reduce("Max", 0, keep=True)
    worst = Value.constant(op, _LOWEST, rows.dtype).expand(rows.dims(0, 3))
    limits = Value.constant(op, threshold, rows.dtype).expand(rows.dims(0, 2))
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("step", "running", "worst", "limits")]
        step = Value(op, names[0], np.int64)
        before, limit = (Value(op, name, rows.dtype) for name in names[2:])
        row = rows.take(step, axis=2).unsqueeze(2)
        is_kept = is_there.take(step, axis=2) & before.take(step, axis=2).compare("LessOrEqual", limit)
        nearer = before.at_least(overlaps(row, rows, normalized, 3))
        after = is_kept.unsqueeze(2).where(nearer, before)
        falls = is_kept & limit.compare("Greater", 0.5)
        lower = falls.where(limit * eta, limit)
        last = [op.add("Identity", value) for value in (names[1], after.name, lower.name, is_kept.name)]
    kinds = [(np.int64, 0), (np.bool_, 0), (rows.dtype, 3), (rows.dtype, 2)]
    inputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(names, kinds, strict=True)]
    kinds = [*kinds[1:], (np.bool_, 2)]
    outputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(last, kinds, strict=True)]
    # one step at least: of no steps nobody knows how many classes there are
    count = op.add("Reshape", steps.at_least(1).name, op.scalar_shape())
    yes = graph.constant(True, np.bool_)
    body = graph.subgraph(nodes, inputs, outputs)
    _, _, kept = op.add("Loop", count, yes, worst.name, limits.name, outputs=3, body=body)
    return Value(op, op.add("Transpose", kept, perm=[1, 2, 0]), np.bool_)


def _kept(found: Value, scores: Value, most: int) -> Value:
    """Rows of (image, class, box), without those beyond the `most` best of their image."""
    if most < 0:
        return found
    lowest = Value.constant(scores.op, _LOWEST, scores.dtype).expand(scores.shape())
    chosen = lowest.node("ScatterND", found, scores.take_nd(found)).node("Flatten", axis=1)
    count = chosen.dims(1, 2).at_most(_number(scores.op, most))
    _, places = chosen.top(count)
    ones = places * 0 + 1
    zeros = Value.constant(scores.op, 0, np.int64).expand(chosen.shape())
    marked = zeros.node("ScatterElements", places, ones, axis=1)
    is_best = marked.reshape(scores.shape()).take_nd(found).compare("Greater", 0)
    return found.compress(is_best)


def _put_rows(op: OpView, found: Value, boxes: Value, scores: Value) -> None:
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
    op.put(index.cast(np.int32).name, "Index")
    images = counted(boxes.dims(0, 1)).reshape(1, -1)
    counts = image.compare("Equal", images).cast(np.int64).reduce("Sum", 0).cast(np.int32)
    for slot in ("NmsRoisNum", "RoisNum"):
        op.put(counts.name, slot)


def _never_empty(rows: Value) -> Value:
    """Rows, or [[-1]] where there are none."""
    op = rows.op
    branches = []
    for none in (True, False):
        with op.graph.branch() as nodes:
            constant = op.graph.constant([[-1]], rows.dtype)
            made = op.add("Identity", constant if none else rows.name)
        branches.append(op.graph.subgraph(nodes, [], [op.graph.info(made, rows.dtype)]))
    is_empty = op.add("Equal", op.add("Size", rows.name), op.whole(0))
    return Value(op, op.add("If", is_empty, then_branch=branches[0], else_branch=branches[1]), rows.dtype)


@exports("matrix_nms")
def _matrix_nms(op: OpView) -> None:
    """The scores of boxes fall with their overlaps with better ones: dense, for the best of each class."""
    op.idle("of_2x", "gaussian_sigma")
    boxes, scores = _checked(op)
    keep = int(op.attr("keep_top_k"))
    best, is_there, places, rows = _candidates(op, boxes, scores)
    count = places.dims(2, 3)
    factors = _factors(op, rows, count)
    decayed = best * factors.reduce("Min", 2)
    is_kept = is_there & decayed.compare("Greater", float(op.attr("post_threshold")))
    decayed = is_kept.where(decayed, _LOWEST)
    flat = decayed.node("Flatten", axis=1)
    number = flat.dims(1, 2) if keep < 0 else flat.dims(1, 2).at_most(_number(op, keep))
    values, order = flat.top(number)
    # rows (image, class, box) in the order of the scores
    images = counted(boxes.dims(0, 1)).reshape(-1, 1)
    images = images.expand(order.shape())
    box = places.node("Flatten", axis=1).node("GatherElements", order, axis=1)
    parts = [each.reshape(-1, 1) for each in (images, order / count, box)]
    is_row = values.compare("Greater", _LOWEST).reshape(-1)
    found = joined(parts, 1).compress(is_row)
    _put_rows(op, found, boxes, values.reshape(-1).compress(is_row))


def _factors(op: OpView, rows: Value, count: Value) -> Value:
    """The factor of each box [..., j] with regard to each better one [..., i]: [N, classes, i, j]."""
    shared = overlaps(rows.unsqueeze(3), rows.unsqueeze(2), bool(op.attr("normalized")), 4)
    places = counted(count)
    is_better = places.reshape(-1, 1).compare("Less", places.reshape(1, -1))
    shared = is_better.where(shared, 0.0)
    before = shared.reduce("Max", 2).unsqueeze(3)
    if op.attr("use_gaussian"):
        made = ((before * before - shared * shared) * float(op.attr("gaussian_sigma"))).node("Exp")
    else:
        made = (1.0 - shared) / (1.0 - before)
    # a box that lies on a better one exactly has no factor with regard to what lies on both
    is_number = ~made.node("IsNaN", dtype=np.bool_)
    return (is_better & is_number).where(made, 1.0)
