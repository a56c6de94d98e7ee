"""Non-maximum suppression: of boxes that overlap, the best are kept.

Which boxes remain decides every further step, so the kernels run on the host. They go over images and
classes one by one, and over the boxes that are kept; overlaps are computed in blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import (
    OF_2X_ATTR,
    AttrType,
    KernelContext,
    Lod,
    Op,
    Spec,
    WithLod,
    later,
    required,
)
from fluidlite.ops.kernels.boxes import overlaps
from fluidlite.ops.kernels.regions import counts_of_images
from fluidlite.ops.kernels.suppression import kept_boxes, neighbour_overlaps, overlap_of
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

_INT, _FLOAT = required(AttrType.INT), required(AttrType.FLOAT)
_ATTRS: dict[str, Any] = {
    "background_label": 0,
    "score_threshold": _FLOAT,
    "nms_top_k": _INT,
    "nms_threshold": 0.30000001192092896,
    "nms_eta": 1.0,
    "keep_top_k": _INT,
    "normalized": True,
}
_BLOCK = 128  # candidates whose overlaps are computed at a time: 64 kB, which stay in the cache
_SIZES = (4, 8, 16, 24, 32)


class Found(NamedTuple):
    """Boxes of one image: classes, scores, and the rows that they come from."""

    labels: Array
    scores: Array
    rows: Array

    def take(self, order: Array) -> Found:
        """Those at the positions `order`."""
        return Found(self.labels[order], self.scores[order], self.rows[order])


def best_scores(scores: Array, threshold: float, most: int) -> Array:
    """Rows of the scores above the threshold, the highest first, and no more than `most` (all for -1)."""
    (rows,) = (scores > scores.dtype.type(threshold)).nonzero()
    order = (-scores.take(rows)).argsort(kind="stable")
    return rows.take(order[:most] if most > -1 else order)


def _best_of_image(found: Found, most: int) -> Found:
    """The `most` highest scores (all for -1), grouped by class."""
    if not -1 < most < len(found.scores):
        return found
    found = found.take(np.argsort(-found.scores, kind="stable")[:most])
    return found.take(np.argsort(found.labels, kind="stable"))


def _of_all_classes(boxes: Array) -> Callable[[int], Array]:
    """The boxes of a class, where all classes have the same."""
    return lambda label: boxes


def _suppressed(
    boxes_of: Callable[[int], Array],
    scores: Array,
    attrs: Mapping[str, Any],
    sort_rows: bool,
    ctx: KernelContext,
) -> Found:
    """The boxes that remain of one image, whose `scores` are [classes, M]; in rows' order if `sort_rows`."""
    labels, rows = [], []
    for label in range(len(scores)):
        if label == attrs["background_label"]:
            continue
        candidates = best_scores(scores[label], attrs["score_threshold"], attrs["nms_top_k"])
        if not len(candidates):
            continue
        boxes = boxes_of(label)[candidates]
        limit = attrs["nms_threshold"]
        eta = attrs["nms_eta"]
        best = kept_boxes(boxes, limit, attrs["normalized"], eta, ctx=ctx)
        rows.append(candidates[best])
        labels.append(np.full(len(rows[-1]), label))
    none = np.zeros(0, int)
    classes, places = (np.concatenate((none, *parts)) for parts in (labels, rows))
    found = _best_of_image(Found(classes, scores[classes, places], places), attrs["keep_top_k"])
    if sort_rows:
        return found.take(np.lexsort((found.rows, found.labels)))
    return found


def _rows(found: Found, boxes: Array) -> Array:
    """[count, 2 + coordinates]: class, score, box."""
    return np.concatenate((found.labels[:, None], found.scores[:, None], boxes), axis=1, dtype=boxes.dtype)


def _ends(counts: Iterable[int]) -> Lod:
    return ((0, *np.cumsum(list(counts)).tolist()),)


def _nothing(xp: Any, dtype: Any) -> WithLod:
    """The value that stands for an output without rows."""
    return WithLod(xp.full((1, 1), -1, dtype), ((0, 1),))


# ---------------------------------------------------------------------- by class
def _check_boxes(op: str, BBoxes: Spec, Scores: Spec) -> None:
    def shapes() -> str:
        """Both as text, for errors alone: a plan would take the batch for a number."""
        return f"BBoxes{list(BBoxes.shape)} and Scores{list(Scores.shape)}"

    if len(BBoxes.shape) != 3 or len(Scores.shape) not in (2, 3):
        raise ShapeError(
            f"op {op!r}: {shapes()} do not fit, wanted [N, M, 4] and [N, classes, M], or [M, classes, 4] and "
            f"[M, classes]"
        )
    if BBoxes.shape[2] not in (*_SIZES, -1):
        raise ShapeError(f"op {op!r}: a box of {shapes()} has {BBoxes.shape[2]} numbers, wanted 4, 8, ...")
    boxes = BBoxes.shape[1]
    scores = Scores.shape[-1]
    if len(Scores.shape) == 3 and boxes != scores and -1 not in (boxes, scores):
        raise ShapeError(f"op {op!r}: {shapes()} do not fit: {boxes} boxes, {scores} scores")


def _nms_specs(op: str, BBoxes: Spec, Scores: Spec) -> tuple[Spec, Spec]:
    """How many rows there will be is not known; 1.8.5 declares as many as an image has boxes."""
    _check_boxes(op, BBoxes, Scores)
    if len(Scores.shape) == 3:
        rows = BBoxes.shape[1]
    else:
        rows = -1
    if BBoxes.shape[2] >= 0:
        width = BBoxes.shape[2] + 2
    else:
        width = -1
    return Spec((rows, width), BBoxes.dtype, 1), Spec((rows, 1), VarType.INT32, 1)


def _remaining(
    BBoxes: Array, Scores: Array, ends: Sequence[int], attrs: Mapping[str, Any], ctx: KernelContext
) -> tuple[list[Array], list[Array]]:
    """For each image its rows, and where in BBoxes (as [boxes, coordinates]) they come from.

    Boxes without an image of their own, [M, classes, 4], belong to the images that `ends` delimits: 0, and
    where each image ends.
    """
    outputs, sources = [], []
    if Scores.ndim == 3:
        for image, (boxes, scores) in enumerate(zip(BBoxes, Scores, strict=True)):
            found = _suppressed(_of_all_classes(boxes), scores, attrs, False, ctx)
            outputs.append(_rows(found, boxes[found.rows]))
            sources.append(found.rows + image * len(boxes))
        return outputs, sources
    for start, end in itertools.pairwise(ends):
        boxes = BBoxes[start:end]
        found = _suppressed(
            lambda label, boxes=boxes: boxes[:, label],  # type: ignore[misc]
            Scores[start:end].T,
            attrs,
            True,
            ctx,
        )
        outputs.append(_rows(found, boxes[found.rows, found.labels]))
        sources.append((start + found.rows) * Scores.shape[1] + found.labels)
    return outputs, sources


def _ends_of_images(Scores: Array, Scores_lod: Lod) -> Sequence[int]:
    return Scores_lod[-1] if Scores_lod else (0, len(Scores))


nms = Op("multiclass_nms", "BBoxes. Scores. -> Out", attrs=_ATTRS, lod=None, dynamic=True, makes_lod=True)
nms2 = Op(
    "multiclass_nms2", "BBoxes. Scores. -> Out Index?", attrs=_ATTRS, lod=None, dynamic=True, makes_lod=True
)
nms3 = Op(
    "multiclass_nms3",
    "BBoxes. Scores. RoisNum? -> Out Index? NmsRoisNum?",
    attrs=_ATTRS,
    lod=None,
    dynamic=True,
    makes_lod=True,
)


@nms.shape
def _(BBoxes: Spec, Scores: Spec) -> Spec:
    return _nms_specs("multiclass_nms", BBoxes, Scores)[0]


@nms2.shape
def _(BBoxes: Spec, Scores: Spec) -> tuple[Spec, Spec]:
    return _nms_specs("multiclass_nms2", BBoxes, Scores)


@nms.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any, BBoxes: Array, Scores: Array, Scores_lod: Lod, attrs: dict[str, Any], ctx: KernelContext
) -> WithLod:
    outputs, _ = _remaining(host(BBoxes), host(Scores), _ends_of_images(Scores, Scores_lod), attrs, ctx)
    if not any(map(len, outputs)):
        return _nothing(xp, BBoxes.dtype)
    return WithLod(xp.asarray(np.concatenate(outputs)), _ends(map(len, outputs)))


def _with_sources(
    xp: Any, outputs: list[Array], sources: list[Array], width: int, dtype: Any
) -> tuple[WithLod, WithLod]:
    lod = _ends(map(len, outputs))
    rows = np.concatenate((np.zeros((0, width), dtype), *outputs))
    index = np.concatenate((np.zeros(0, np.int32), *sources)).astype(np.int32)
    return WithLod(xp.asarray(rows), lod), WithLod(xp.asarray(index[:, None]), lod)


@nms2.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any, BBoxes: Array, Scores: Array, Scores_lod: Lod, attrs: dict[str, Any], ctx: KernelContext
) -> tuple[WithLod, WithLod]:
    outputs, sources = _remaining(host(BBoxes), host(Scores), _ends_of_images(Scores, Scores_lod), attrs, ctx)
    return _with_sources(xp, outputs, sources, BBoxes.shape[2] + 2, BBoxes.dtype)


@nms3.shape
def _(BBoxes: Spec, Scores: Spec) -> tuple[Spec, Spec, Spec]:
    out, index = _nms_specs("multiclass_nms3", BBoxes, Scores)
    counts = Spec((-1,), VarType.INT32)
    return out._replace(lod_level=0), index._replace(lod_level=0), counts


@nms3.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    BBoxes: Array,
    Scores: Array,
    Scores_lod: Lod,
    RoisNum: Array | None,
    attrs: dict[str, Any],
    ctx: KernelContext,
) -> tuple[Array, Array, Array]:
    """Images are told apart by how many boxes each has, going in and coming out, and not by levels."""
    ends = _ends_of_images(Scores, Scores_lod)
    if RoisNum is not None and Scores.ndim == 2:
        counts = counts_of_images("multiclass_nms3", "Scores", len(Scores), Scores_lod, RoisNum)
        ends = (0, *np.cumsum(counts).tolist())
    outputs, sources = _remaining(host(BBoxes), host(Scores), ends, attrs, ctx)
    rows, index = _with_sources(xp, outputs, sources, BBoxes.shape[2] + 2, BBoxes.dtype)
    return rows.value, index.value, xp.asarray(np.array([len(one) for one in outputs], np.int32))


# ---------------------------------------------------------------------- by decay
_DECAY_ATTRS: dict[str, Any] = {
    "background_label": 0,
    "score_threshold": _FLOAT,
    "post_threshold": 0.0,
    "nms_top_k": _INT,
    "keep_top_k": _INT,
    "normalized": True,
    "use_gaussian": False,
    "gaussian_sigma": 2.0,
    OF_2X_ATTR: later(False),
}
matrix_nms = Op(
    "matrix_nms",
    "BBoxes. Scores. -> Out Index RoisNum?",
    attrs=_DECAY_ATTRS,
    lod=None,
    dynamic=True,
    later=("RoisNum",),
    makes_lod=True,
    version=1,
)


@matrix_nms.shape
def _(BBoxes: Spec, Scores: Spec, of_2x: bool) -> tuple[Spec, Spec, Spec]:
    out, index = _nms_specs("matrix_nms", BBoxes, Scores)
    if of_2x:
        out, index = out._replace(lod_level=0), index._replace(lod_level=0)
    if out.shape[1] not in (6, -1):
        raise ShapeError(f"op 'matrix_nms': BBoxes has the shape {list(BBoxes.shape)}, wanted [N, M, 4]")
    rows = BBoxes.shape[1]  # also where Scores has two dimensions: so does 1.8.5
    counts = Spec((-1,), VarType.INT32)
    return out._replace(shape=(rows, out.shape[1])), index._replace(shape=(rows, 1)), counts


def _decayed(boxes: Array, scores: Array, attrs: Mapping[str, Any]) -> Array:
    """Scores of boxes (the best first) after their overlaps with better ones.

    Each factor is the smallest over the better boxes of f(overlap) / f(largest overlap of the better box with
    those better still), where f(o) is 1 - o or exp(-sigma o^2). A box that lies on a better one exactly has
    no factor with regard to what lies on both.
    """
    largest = np.zeros_like(scores)
    decayed = scores.copy()
    sigma = scores.dtype.type(attrs["gaussian_sigma"])
    for start in range(0, len(boxes), _BLOCK):
        rows = slice(start, start + _BLOCK)
        shared = overlaps(np, boxes[rows], boxes[: start + _BLOCK], attrs["normalized"], apart=True)
        # all of the blocks before are better
        not_better = np.tri(len(shared), k=-1, dtype=bool) ^ True
        np.copyto(shared[:, start:], 0, where=not_better)
        shared.max(axis=1, out=largest[rows])
        before = largest[: shared.shape[1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            if attrs["use_gaussian"]:
                factors = np.exp((before**2 - shared**2) * sigma)
            else:
                factors = 1 - shared
                factors /= 1 - before
        np.copyto(factors[:, start:], 1, where=not_better)
        decayed[rows] *= np.fmin.reduce(factors, axis=1)
    return decayed


def _decayed_of_image(boxes: Array, scores: Array, attrs: Mapping[str, Any]) -> Found:
    """The boxes that remain of one image, the highest score first."""
    parts = [(np.zeros(0, int), np.zeros(0, scores.dtype), np.zeros(0, int))]
    for label in range(len(scores)):
        if label != attrs["background_label"]:
            rows = best_scores(scores[label], attrs["score_threshold"], attrs["nms_top_k"])
            decayed = _decayed(boxes[rows], scores[label, rows], attrs)
            rest = decayed > decayed.dtype.type(attrs["post_threshold"])
            parts.append((np.full(int(rest.sum()), label), decayed[rest], rows[rest]))
    found = Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(-found.scores, kind="stable")
    return found.take(order[: attrs["keep_top_k"]] if attrs["keep_top_k"] > -1 else order)


@matrix_nms.kernel
@with_attrs(_DECAY_ATTRS)
def _(xp: Any, BBoxes: Array, Scores: Array, attrs: dict[str, Any]) -> tuple[Any, Any, Array]:
    outputs, sources = [], []
    for image, (boxes, scores) in enumerate(zip(host(BBoxes), host(Scores), strict=True)):
        found = _decayed_of_image(boxes, scores, attrs)
        outputs.append(_rows(found, boxes[found.rows]))
        sources.append(found.rows + image * len(boxes))
    out, index = _with_sources(xp, outputs, sources, 6, BBoxes.dtype)
    counts = xp.asarray(np.array([len(rows) for rows in outputs], np.int32))
    # RoisNum has taken the place of levels of detail in 2.x
    return (out.value, index.value, counts) if attrs[OF_2X_ATTR] else (out, index, counts)


# ---------------------------------------------------------------------- one class, without scores
plain_nms = Op("nms", "Boxes. -> KeepBoxesIdxs", attrs={"iou_threshold": 1.0}, lod=None, dynamic=True)


@plain_nms.shape
def _(Boxes: Spec) -> Spec:
    if len(Boxes.shape) != 2 or Boxes.shape[1] not in (4, -1):
        raise ShapeError(f"op 'nms': Boxes has the shape {list(Boxes.shape)}, wanted [M, 4]")
    return Spec((-1,), VarType.INT64)


@plain_nms.kernel
def _(xp: Any, Boxes: Array, iou_threshold: float, ctx: KernelContext) -> Array:
    kept = kept_boxes(host(Boxes), iou_threshold, True, ctx=ctx)
    found = np.array(kept, np.int64)
    return xp.asarray(found)


# ---------------------------------------------------------------------- by neighbours
locality_nms = Op(
    "locality_aware_nms",
    "BBoxes. Scores. -> Out",
    attrs={**_ATTRS, "background_label": -1},
    lod=None,
    dynamic=True,
    makes_lod=True,
)


@locality_nms.shape
def _(BBoxes: Spec, Scores: Spec) -> Spec:
    if len(Scores.shape) != 3:
        raise ShapeError(
            f"op 'locality_aware_nms': Scores has the shape {list(Scores.shape)}, wanted [N, classes, M]"
        )
    return _nms_specs("locality_aware_nms", BBoxes, Scores)[0]


def _merge_neighbours(boxes: Array, scores: Array, threshold: float, normalized: bool) -> Array:
    """Rows, in order, into which their followers were merged as long as these overlap them.

    `boxes` and `scores` change: a merged box is the mean by scores, its score the sum. Each step depends on
    the one before, so this goes row by row.
    """
    limit = boxes.dtype.type(threshold)
    # where no row before was merged, rows meet their neighbours as they came: those are compared at once
    near = neighbour_overlaps(boxes, normalized) > limit
    overlap = overlap_of(boxes.shape[1], normalized)
    head_of = np.ones(len(boxes), bool)
    row = 1
    end = len(boxes)
    while row < end:
        row += int(near[row - 1 :].argmax())
        if not near[row - 1]:
            break
        head = row - 1
        while row < end and overlap(boxes[row : row + 1], boxes[head : head + 1])[0, 0] > limit:
            total = scores[row] + scores[head]
            boxes[head] = (boxes[row] * scores[row] + boxes[head] * scores[head]) / total
            scores[head] = total
            head_of[row] = False
            row += 1
        row += 1
    return np.flatnonzero(head_of)


@locality_nms.kernel
@with_attrs(_ATTRS)
def _(xp: Any, BBoxes: Array, Scores: Array, attrs: dict[str, Any], ctx: KernelContext) -> WithLod:
    outputs = []
    for boxes, scores in zip(host(BBoxes).copy(), host(Scores).copy(), strict=True):
        for label in range(len(scores)):
            if label == attrs["background_label"]:
                continue
            heads = _merge_neighbours(boxes, scores[label], attrs["nms_threshold"], attrs["normalized"])
            others = np.ones(len(boxes), bool)
            others[heads] = False
            scores[label, others] = -np.inf
        found = _suppressed(_of_all_classes(boxes), scores, attrs, False, ctx)
        outputs.append(_rows(found, boxes[found.rows]))
    if not any(map(len, outputs)):
        return _nothing(xp, BBoxes.dtype)
    return WithLod(xp.asarray(np.concatenate(outputs)), _ends(map(len, outputs)))
