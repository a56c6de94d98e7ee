"""Detections of a RetinaNet: retinanet_detection_output.

On the host, as in PaddlePaddle, whatever the device: how many boxes come out depends on the scores.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, KernelContext, Op, Spec, WithLod, required
from fluidlite.ops.kernels.regions import rows_lod
from fluidlite.ops.kernels.suppression import kept_boxes
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

Attrs: TypeAlias = "dict[str, Any]"

_INT, _FLOAT = required(AttrType.INT), required(AttrType.FLOAT)
_ATTRS = {
    "score_threshold": _FLOAT,
    "nms_top_k": _INT,
    "nms_threshold": _FLOAT,
    "nms_eta": _FLOAT,
    "keep_top_k": _INT,
}
retinanet_detection_output = Op(
    "retinanet_detection_output",
    "BBoxes.* Scores.* Anchors.* ImInfo. -> Out",
    attrs=_ATTRS,
    lod=None,
    dynamic=True,
    makes_lod=True,
)


@retinanet_detection_output.shape
def _(BBoxes: list[Spec], Scores: list[Spec], Anchors: list[Spec]) -> Spec:
    if not len(BBoxes) == len(Scores) == len(Anchors):
        raise ShapeError(
            f"op 'retinanet_detection_output': there are {len(BBoxes)} BBoxes, {len(Scores)} "
            f"Scores and {len(Anchors)} Anchors, wanted one of each per level"
        )
    for boxes, scores in zip(BBoxes, Scores, strict=True):
        if len(boxes.shape) != 3 or len(scores.shape) != 3:
            raise ShapeError(
                f"op 'retinanet_detection_output': BBoxes and Scores must be [N, M, 4] and [N, M, C], but "
                f"have the shapes {list(boxes.shape)} and {list(scores.shape)}"
            )
    # 1.8.5 declares as many rows as the first level has anchors
    return BBoxes[0].with_shape((BBoxes[0].shape[1], 6))


def _decoded(anchors: Array, deltas: Array, info: Array) -> Array:
    """Boxes of codes relative to anchors, in the image before it was scaled, and within it."""
    one = anchors.dtype.type(1)
    sizes = anchors[:, 2:] - anchors[:, :2] + one
    centers = deltas[:, :2] * sizes + anchors[:, :2] + sizes / 2
    halves = np.exp(deltas[:, 2:]) * sizes / 2
    boxes = np.concatenate((centers - halves, centers + halves - one), axis=1) / info[2]
    high, wide = np.floor(info[:2] / info[2] + 0.5) - 1
    return np.maximum(np.minimum(boxes, np.array([wide, high, wide, high], boxes.dtype)), 0)


def _found_at(
    deltas: Array, scores: Array, anchors: Array, info: Array, threshold: float, most: int
) -> tuple[Array, Array, Array]:
    """Boxes, scores and classes of the `most` best of one level of an image."""
    flat = scores.reshape(-1)
    places = np.flatnonzero(flat > np.float32(threshold))
    places = places[np.argsort(-flat[places], kind="stable")]
    places = places[:most] if most > -1 else places
    rows, classes = np.divmod(places, scores.shape[1])
    return _decoded(anchors[rows], deltas[rows], info), flat[places], classes


def _found_in_image(
    levels: list[tuple[Array, Array, Array]], info: Array, attrs: Attrs, ctx: KernelContext
) -> Array:
    """(R, 6) of one image: class from 1, score, box; best first."""
    last = len(levels) - 1  # the coarsest level takes part whatever its scores are
    found = [
        _found_at(*level, info, attrs["score_threshold"] if number < last else 0.0, attrs["nms_top_k"])
        for number, level in enumerate(levels)
    ]
    boxes, scores, classes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = []
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        rows = rows[np.argsort(-scores[rows], kind="stable")]
        limit = attrs["nms_threshold"]
        eta = attrs["nms_eta"]
        kept.append(rows[kept_boxes(boxes[rows], limit, False, eta, ctx=ctx)])
    if kept:
        best = np.concatenate(kept)
    else:
        best = np.empty(0, np.int64)
    best = best[np.argsort(-scores[best], kind="stable")]
    if attrs["keep_top_k"] > -1:
        best = best[: attrs["keep_top_k"]]
    labels = (classes[best] + 1).astype(boxes.dtype)
    return np.concatenate((np.stack((labels, scores[best]), axis=1), boxes[best]), axis=1)


@retinanet_detection_output.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    BBoxes: list[Array],
    Scores: list[Array],
    Anchors: list[Array],
    ImInfo: Array,
    attrs: Attrs,
    ctx: KernelContext,
) -> WithLod:
    levels = [tuple(host(part) for part in level) for level in zip(BBoxes, Scores, Anchors, strict=True)]
    found = [
        _found_in_image(
            [(boxes[number], scores[number], anchors) for boxes, scores, anchors in levels], info, attrs, ctx
        )
        for number, info in enumerate(host(ImInfo))
    ]
    return WithLod(xp.asarray(np.concatenate(found)), rows_lod(found))
