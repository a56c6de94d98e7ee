"""Targets of anchors: rpn_target_assign (Faster R-CNN) and retinanet_target_assign.

On the host, as in PaddlePaddle, whatever the device: how many anchors take part depends on the boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, KernelContext, Lod, Op, Spec, required
from fluidlite.ops.detection.boxes import check_boxes
from fluidlite.ops.kernels.boxes import codes, overlaps
from fluidlite.ops.kernels.regions import images_of, joined
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

Attrs: TypeAlias = "dict[str, Any]"
Sample: TypeAlias = "Callable[[Array, bool, int], Array]"

_SAME = np.float32(1e-5)  # overlaps that differ by less count as equal

_SLOTS = "LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight"
_RPN = {
    "rpn_batch_size_per_im": 256,
    "rpn_straddle_thresh": required(AttrType.FLOAT),
    "rpn_positive_overlap": 0.699999988079071,
    "rpn_negative_overlap": 0.30000001192092896,
    "rpn_fg_fraction": 0.25,
    "use_random": True,
}
rpn_target_assign = Op(
    "rpn_target_assign",
    f"Anchor. GtBoxes. IsCrowd ImInfo. -> {_SLOTS}",
    attrs=_RPN,
    lod=None,
    random=True,
    makes_lod=True,
)
_RETINANET = {"positive_overlap": 0.5, "negative_overlap": 0.4000000059604645}
retinanet_target_assign = Op(
    "retinanet_target_assign",
    f"Anchor. GtBoxes. GtLabels IsCrowd ImInfo. -> {_SLOTS} ForegroundNumber",
    attrs=_RETINANET,
    lod=None,
    makes_lod=True,
)


def _specs(op: str, Anchor: Spec, GtBoxes: Spec, ImInfo: Spec) -> dict[str, Spec]:
    check_boxes(op, "Anchor", Anchor)
    check_boxes(op, "GtBoxes", GtBoxes)
    if len(ImInfo.shape) != 2:
        raise ShapeError(f"op {op!r}: ImInfo has the shape {list(ImInfo.shape)}, wanted [N, 3]")
    return {
        "LocationIndex": Spec((-1,), VarType.INT32),
        "ScoreIndex": Spec((-1,), VarType.INT32),
        "TargetBBox": Anchor.with_shape((-1, 4)),
        "TargetLabel": Spec((-1, 1), VarType.INT32),
        "BBoxInsideWeight": Anchor.with_shape((-1, 4)),
    }


@rpn_target_assign.shape
def _(Anchor: Spec, GtBoxes: Spec, ImInfo: Spec) -> dict[str, Spec]:
    return _specs("rpn_target_assign", Anchor, GtBoxes, ImInfo)


@retinanet_target_assign.shape
def _(Anchor: Spec, GtBoxes: Spec, GtLabels: Spec, ImInfo: Spec) -> dict[str, Spec]:
    if len(GtLabels.shape) != 2:
        raise ShapeError(
            f"op 'retinanet_target_assign': GtLabels has the shape {list(GtLabels.shape)}, wanted [N, 1]"
        )
    specs = _specs("retinanet_target_assign", Anchor, GtBoxes, ImInfo)
    return {**specs, "ForegroundNumber": Spec((-1, 1), VarType.INT32)}


class _LearningAnchors(NamedTuple):
    """The anchors of one image that learn something.

    `located` learn a box, with the weights `inside`; `scored` learn a label, `positive` of them that they
    show an object; `matches` is the object that each of those that learn a box overlaps most.
    """

    located: Array
    scored: Array
    positive: int
    inside: Array
    matches: Array


def _choose(anchors: Array, objects: Array, limits: tuple[float, float], sample: Sample) -> _LearningAnchors:
    """The anchors that overlap an object by at least limits[0], or more than any other anchor does, show it;
    those that overlap all objects by less than limits[1] show none.

    `sample` takes (anchors in rising order, True if they show objects, how many others learn already) and
    gives those that learn, in that order.
    """
    # a row an object: a few long rows take a sixth of the time of many short ones
    shared = overlaps(np, objects, anchors, normalized=False)
    if not len(objects):
        shared = np.full((1, len(anchors)), -1, anchors.dtype)
    most = shared.max(axis=0)
    best = (shared.max(axis=1, keepdims=True, initial=-1) - shared < _SAME).any(axis=0) & (most >= 0)
    shown = np.flatnonzero(best | (most >= np.float32(limits[0])))
    shown = sample(shown, True, 0)
    none = sample(np.flatnonzero(most < np.float32(limits[1])), False, len(shown))
    # an anchor that is in both shows nothing. 1.8.5 keeps the number of located anchors: the first of those
    # that showed something takes the place of each such one, with no weight
    shows_none = np.zeros(len(anchors), bool)
    shows_none[none] = True
    both = shown[shows_none[shown]]
    rest = shown[~shows_none[shown]]
    located = np.concatenate((np.repeat(shown[:1], len(both)), rest))
    inside = np.repeat((0.0, 1.0), (len(both), len(rest))).astype(anchors.dtype)
    matches = np.zeros(len(anchors), np.int64)
    matches[shown] = shared[:, shown].argmax(axis=0)
    return _LearningAnchors(located, np.concatenate((rest, none)), len(rest), inside, matches)


def _targets(xp: Any, anchors: Array, found: list[tuple[_LearningAnchors, Array, Array]]) -> dict[str, Any]:
    """The outputs of both ops, from what was chosen in each image, its objects, and its located anchors'
    labels.
    """
    parts: dict[str, list[Array]] = {slot: [] for slot in _SLOTS.split()}
    for number, (chosen, objects, labels) in enumerate(found):
        first = number * len(anchors)
        parts["LocationIndex"].append((chosen.located + first).astype(np.int32))
        parts["ScoreIndex"].append((chosen.scored + first).astype(np.int32))
        matched = objects[chosen.matches[chosen.located]]
        parts["TargetBBox"].append(codes(np, anchors[chosen.located], matched))
        none = np.zeros(len(chosen.scored) - chosen.positive, np.int32)
        parts["TargetLabel"].append(np.concatenate((labels, none)).astype(np.int32)[:, None])
        parts["BBoxInsideWeight"].append(np.repeat(chosen.inside[:, None], 4, axis=1))
    return {slot: joined(xp, arrays) for slot, arrays in parts.items()}


def _within(anchors: Array, info: Array, margin: float) -> Array:
    """The anchors that stand over the edges of the image by no more than `margin`; all if it is negative."""
    if margin < 0:
        return np.arange(len(anchors))
    left, top, right, bottom = anchors.T
    low = (left >= -margin) & (top >= -margin)
    return np.flatnonzero(low & (right < info[1] + margin) & (bottom < info[0] + margin))


def sampled(rows: Array, count: int, rng: Any) -> Array:
    """`count` of the rows, if there are more: the first, or with a random source any."""
    if len(rows) <= count:
        return rows
    if rng is None:
        return rows[:count]
    return np.sort(rng.choice(rows, count, replace=False))


@rpn_target_assign.kernel
@with_attrs(_RPN)
def _(
    xp: Any,
    Anchor: Array,
    GtBoxes: Array,
    GtBoxes_lod: Lod,
    IsCrowd: Array,
    ImInfo: Array,
    ctx: KernelContext,
    attrs: Attrs,
) -> dict[str, Any]:
    anchors = host(Anchor)
    found = []
    size = attrs["rpn_batch_size_per_im"]
    rng = ctx.rng(0) if attrs["use_random"] else None

    def sample(rows: Array, shows: bool, before: int) -> Array:
        return sampled(rows, int(attrs["rpn_fg_fraction"] * size) if shows else size - before, rng)

    limits = (attrs["rpn_positive_overlap"], attrs["rpn_negative_overlap"])
    for (boxes, crowd), info in zip(images_of(GtBoxes_lod, GtBoxes, IsCrowd), host(ImInfo), strict=True):
        objects = boxes[crowd.reshape(-1) == 0] * info[2]
        inside = _within(anchors, info, attrs["rpn_straddle_thresh"])
        chosen = _choose(anchors[inside], objects, limits, sample)
        matches = np.zeros(len(anchors), np.int64)
        matches[inside] = chosen.matches
        chosen = chosen._replace(
            located=inside[chosen.located], scored=inside[chosen.scored], matches=matches
        )
        found.append((chosen, objects, np.ones(chosen.positive)))
    return _targets(xp, anchors, found)


@retinanet_target_assign.kernel
@with_attrs(_RETINANET)
def _(
    xp: Any,
    Anchor: Array,
    GtBoxes: Array,
    GtBoxes_lod: Lod,
    GtLabels: Array,
    IsCrowd: Array,
    ImInfo: Array,
    attrs: Attrs,
) -> dict[str, Any]:
    anchors = host(Anchor)
    found = []
    limits = (attrs["positive_overlap"], attrs["negative_overlap"])
    rows = images_of(GtBoxes_lod, GtBoxes, GtLabels, IsCrowd)
    for (boxes, labels, crowd), info in zip(rows, host(ImInfo), strict=True):
        counted = crowd.reshape(-1) == 0
        objects = boxes[counted] * info[2]
        labels = labels.reshape(-1)[counted]
        chosen = _choose(anchors, objects, limits, lambda rows, shows, before: rows)
        found.append((chosen, objects, labels[chosen.matches[chosen.scored[: chosen.positive]]]))
    # one more than there are, so that nothing divides by zero
    numbers = np.array([[len(chosen.located) + 1] for chosen, _, _ in found], np.int32)
    return {**_targets(xp, anchors, found), "ForegroundNumber": joined(xp, list(numbers[:, None]))}
