"""Proposals of a region proposal network, and their way through the levels of a feature pyramid.

On the host, as in PaddlePaddle, whatever the device: what comes out has a size that the scores decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, KernelContext, Lod, Op, Spec, WithLod, later, required
from fluidlite.ops.detection.boxes import check_boxes
from fluidlite.ops.kernels.boxes import areas
from fluidlite.ops.kernels.regions import counts_of_images, rows_lod
from fluidlite.ops.kernels.sequence_rows import lengths_lod, owners
from fluidlite.ops.kernels.suppression import kept_boxes
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

Attrs: TypeAlias = "dict[str, Any]"

_INT, _FLOAT = required(AttrType.INT), required(AttrType.FLOAT)
_LARGEST_STRETCH = np.float32(math.log(1000.0 / 16.0))  # a box grows by no more than this, in logarithms

# ------------------------------------------------------------------ generate_proposals
_ATTRS = {
    "pre_nms_topN": _INT,
    "post_nms_topN": _INT,
    "nms_thresh": _FLOAT,
    "min_size": _FLOAT,
    "eta": _FLOAT,
}
generate_proposals = Op(
    "generate_proposals",
    "Scores. BboxDeltas. ImInfo. Anchors. Variances. -> RpnRois RpnRoiProbs RpnRoisLod?",
    attrs=_ATTRS,
    lod=None,
    makes_lod=True,
    version=2,
)


generate_proposals_v2 = Op(
    "generate_proposals_v2",
    "Scores. BboxDeltas. ImShape. Anchors. Variances. -> RpnRois RpnRoiProbs RpnRoisNum?",
    attrs={**_ATTRS, "pixel_offset": True},
    lod=None,
    version=1,
)


def _check_maps(op: str, Scores: Spec, BboxDeltas: Spec, images: Spec, slot: str) -> None:
    for name, spec, rank in (("Scores", Scores, 4), ("BboxDeltas", BboxDeltas, 4), (slot, images, 2)):
        if len(spec.shape) != rank:
            raise ShapeError(
                f"op {op!r}: {name} must have {rank} dimensions, but has shape {list(spec.shape)}"
            )
    if Scores.shape[1] >= 0 <= BboxDeltas.shape[1] != 4 * Scores.shape[1]:
        raise ShapeError(
            f"op {op!r}: Scores{list(Scores.shape)} has {Scores.shape[1]} anchors per position, so "
            f"BboxDeltas{list(BboxDeltas.shape)} must have {4 * Scores.shape[1]} channels"
        )


@generate_proposals_v2.shape
def _(Scores: Spec, BboxDeltas: Spec, ImShape: Spec, Anchors: Spec) -> dict[str, Spec]:
    _check_maps("generate_proposals_v2", Scores, BboxDeltas, ImShape, "ImShape")
    return {
        "RpnRois": Scores.with_shape((-1, 4)),
        "RpnRoiProbs": Scores.with_shape((-1, 1)),
        "RpnRoisNum": Spec(Scores.shape[:1], VarType.INT32),
    }


@generate_proposals.shape
def _(Scores: Spec, BboxDeltas: Spec, ImInfo: Spec, Anchors: Spec) -> dict[str, Spec]:
    _check_maps("generate_proposals", Scores, BboxDeltas, ImInfo, "ImInfo")
    return {
        "RpnRois": Scores.with_shape((-1, 4)),
        "RpnRoiProbs": Scores.with_shape((-1, 1)),
        "RpnRoisLod": Spec((-1,), VarType.INT64),
    }


def _decoded(anchors: Array, deltas: Array, variances: Array, end: int) -> Array:
    """Boxes of codes relative to anchors; with an `end` of 1 their last pixels belong to them."""
    one, half = np.float32(end), np.float32(0.5)
    sizes = anchors[:, 2:] - anchors[:, :2] + one
    centers = variances[:, :2] * deltas[:, :2] * sizes + (anchors[:, :2] + half * sizes)
    stretch = np.exp(np.minimum(variances[:, 2:] * deltas[:, 2:], _LARGEST_STRETCH))
    halves = stretch * sizes / 2
    return np.concatenate((centers - halves, centers + halves - one), axis=1)


def _large_enough(boxes: Array, min_size: float, info: Array, end: int) -> Array:
    """True for boxes whose sides in the image before it was scaled reach `min_size`; with an `end` of 1 their
    centers must lie in it, too.
    """
    height, width, scale = info
    wide = boxes[:, 2] - boxes[:, 0]
    high = boxes[:, 3] - boxes[:, 1]
    least = max(np.float32(min_size), np.float32(1))
    center_x = boxes[:, 0] + (wide + 1) / 2
    center_y = boxes[:, 1] + (high + 1) / 2
    large = (wide / scale + end >= least) & (high / scale + end >= least)
    return large & (center_x <= width) & (center_y <= height) if end else large


def _best_first(scores: Array, most: int) -> Array:
    """The places of the `most` largest scores (all if not positive), in their order."""
    if 0 < most < len(scores):
        best = np.argpartition(-scores, most - 1)[:most]
        return best[np.argsort(-scores[best], kind="stable")]
    return np.argsort(-scores, kind="stable")


def _proposals_of_image(
    scores: Array,
    deltas: Array,
    anchors: Array,
    variances: Array,
    info: Array,
    attrs: Attrs,
    ctx: KernelContext,
) -> tuple[Array, Array]:
    """Boxes and scores (R, 1) of one image, best first; inputs have a row an anchor."""
    order = _best_first(scores, attrs["pre_nms_topN"])
    end = int(attrs.get("pixel_offset", True))
    boxes = _decoded(anchors[order], deltas[order], variances[order], end)
    limits = np.array([info[1], info[0]] * 2, boxes.dtype) - end
    boxes = np.maximum(np.minimum(boxes, limits), 0)
    large = _large_enough(boxes, attrs["min_size"], info, end)
    boxes, best = boxes[large], scores[order][large]
    if attrs["nms_thresh"] > 0:  # else 1.8.5 gives all of them, whatever post_nms_topN is
        last_first = np.argsort(best, kind="stable")[::-1]  # of equal scores, as in PaddlePaddle
        boxes, best = boxes[last_first], best[last_first]
        most = attrs["post_nms_topN"] if attrs["post_nms_topN"] > 0 else -1
        kept = kept_boxes(boxes, attrs["nms_thresh"], end == 0, attrs["eta"], most, ctx)
        boxes, best = boxes[kept], best[kept]
    return boxes, best[:, None]


def _proposals(maps: tuple[Array, ...], infos: Array, attrs: Attrs, ctx: KernelContext) -> Any:
    """The boxes and scores of each image; `infos` has its height, its width and how it was scaled."""
    scores, deltas, anchors, variances = map(host, maps)
    count = len(scores)
    scores = scores.transpose(0, 2, 3, 1).reshape(count, -1)
    deltas = deltas.transpose(0, 2, 3, 1).reshape(count, -1, 4)
    anchors = anchors.reshape(-1, 4)
    variances = variances.reshape(-1, 4)
    found = [
        _proposals_of_image(of_image, codes, anchors, variances, info, attrs, ctx)
        for of_image, codes, info in zip(scores, deltas, infos, strict=True)
    ]
    return zip(*found, strict=True)


@generate_proposals.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    Scores: Array,
    BboxDeltas: Array,
    ImInfo: Array,
    Anchors: Array,
    Variances: Array,
    attrs: Attrs,
    ctx: KernelContext,
) -> dict[str, Any]:
    maps = (Scores, BboxDeltas, Anchors, Variances)
    rois, probabilities = _proposals(maps, host(ImInfo)[:, :3], attrs, ctx)
    lod = rows_lod(rois)
    return {
        "RpnRois": WithLod(xp.asarray(np.concatenate(rois)), lod),
        "RpnRoiProbs": WithLod(xp.asarray(np.concatenate(probabilities)), lod),
        "RpnRoisLod": xp.asarray(np.array(lod[0][1:], np.int64)),
    }


@generate_proposals_v2.kernel
@with_attrs({**_ATTRS, "pixel_offset": True})
def _(
    xp: Any,
    Scores: Array,
    BboxDeltas: Array,
    ImShape: Array,
    Anchors: Array,
    Variances: Array,
    attrs: Attrs,
    ctx: KernelContext,
) -> dict[str, Any]:
    sizes = host(ImShape)[:, :2]
    infos = np.concatenate((sizes, np.ones_like(sizes[:, :1])), axis=1)
    rois, probabilities = _proposals((Scores, BboxDeltas, Anchors, Variances), infos, attrs, ctx)
    # an image without proposals has one of no size, as in 2.6.2
    rois = [one if len(one) else np.zeros((1, 4), one.dtype) for one in rois]
    probabilities = [one if len(one) else np.zeros((1, 1), one.dtype) for one in probabilities]
    return {
        "RpnRois": xp.asarray(np.concatenate(rois)),
        "RpnRoiProbs": xp.asarray(np.concatenate(probabilities)),
        "RpnRoisNum": xp.asarray(np.array([len(one) for one in rois], np.int32)),
    }


# ------------------------------------------------------------------ distribute_fpn_proposals
_LEVELS = {
    "min_level": _INT,
    "max_level": _INT,
    "refer_level": _INT,
    "refer_scale": _INT,
    "pixel_offset": later(True),
}
distribute_fpn_proposals = Op(
    "distribute_fpn_proposals",
    "FpnRois. RoisNum? -> MultiFpnRois* RestoreIndex MultiLevelRoIsNum*?",
    attrs=_LEVELS,
    lod=None,
    later=("RoisNum", "MultiLevelRoIsNum"),
    makes_lod=True,
    version=2,
)


@distribute_fpn_proposals.shape
def _(FpnRois: Spec, min_level: int, max_level: int) -> dict[str, Any]:
    check_boxes("distribute_fpn_proposals", "FpnRois", FpnRois)
    if not 0 < min_level <= max_level:
        raise ShapeError(
            f"op 'distribute_fpn_proposals': min_level is {min_level} and max_level {max_level}, wanted 0 < "
            f"min_level <= max_level"
        )
    level = Spec((-1, 4), FpnRois.dtype, FpnRois.lod_level)
    count = max_level - min_level + 1
    return {
        "MultiFpnRois": [level] * count,
        "MultiLevelRoIsNum": [Spec((-1,), VarType.INT32)] * count,
        "RestoreIndex": Spec((-1, 1), VarType.INT32),
    }


def _levels_of(rois: Array, attrs: Attrs) -> Array:
    """The level of each region by the root of its area (Lin et al. 2017, equation 1)."""
    empty = (rois[:, 2] < rois[:, 0]) | (rois[:, 3] < rois[:, 1])
    side = np.sqrt(np.where(empty, rois.dtype.type(0), areas(rois, not attrs.get("pixel_offset", True))))
    level = np.floor(np.log2(side / attrs["refer_scale"] + rois.dtype.type(1e-6)) + attrs["refer_level"])
    # that of a box which is no number is the lowest, as in 1.8.5
    return np.minimum(np.fmax(level, attrs["min_level"]), attrs["max_level"])


@distribute_fpn_proposals.kernel
@with_attrs(_LEVELS)
def _(xp: Any, FpnRois: Array, FpnRois_lod: Lod, RoisNum: Array | None, attrs: Attrs) -> dict[str, Any]:
    rois = host(FpnRois)
    lengths = counts_of_images("distribute_fpn_proposals", "FpnRois", len(rois), FpnRois_lod, RoisNum)
    levels = _levels_of(rois, attrs).astype(np.int64) - attrs["min_level"]
    count = attrs["max_level"] - attrs["min_level"] + 1
    order = np.argsort(levels, kind="stable")
    restore = np.empty((len(order), 1), np.int32)
    restore[order, 0] = np.arange(len(order))
    by_level = rois[order]
    places = levels * len(lengths) + owners(lengths)
    counts = np.bincount(places, minlength=count * len(lengths)).reshape(count, len(lengths))
    parts, start = [], 0
    for ends in np.cumsum(counts, axis=1).tolist():
        size = ends[-1] if ends else 0
        parts.append(WithLod(xp.asarray(by_level[start : start + size]), ((0, *ends),)))
        start += size
    return {
        "MultiFpnRois": parts,
        "RestoreIndex": xp.asarray(restore),
        "MultiLevelRoIsNum": [xp.asarray(one.astype(np.int32)) for one in counts],
    }


# ------------------------------------------------------------------ collect_fpn_proposals
collect_fpn_proposals = Op(
    "collect_fpn_proposals",
    "MultiLevelRois.* MultiLevelScores* MultiLevelRoIsNum*? -> FpnRois RoisNum?",
    attrs={"post_nms_topN": _INT},
    lod=None,
    dynamic=True,
    later=("MultiLevelRoIsNum", "RoisNum"),
    makes_lod=True,
    version=1,
)


@collect_fpn_proposals.shape
def _(MultiLevelRois: list[Spec], MultiLevelScores: list[Spec], post_nms_topN: int) -> tuple[Spec, Spec]:
    if len(MultiLevelRois) != len(MultiLevelScores):
        raise ShapeError(
            f"op 'collect_fpn_proposals': there are {len(MultiLevelRois)} MultiLevelRois, but "
            f"{len(MultiLevelScores)} MultiLevelScores"
        )
    for rois in MultiLevelRois:
        check_boxes("collect_fpn_proposals", "MultiLevelRois", rois)
    rois = Spec((post_nms_topN, 4), MultiLevelRois[0].dtype, MultiLevelRois[0].lod_level)
    return rois, Spec((-1,), VarType.INT32)


@collect_fpn_proposals.kernel
def _(
    xp: Any,
    MultiLevelRois: list[Array],
    MultiLevelScores: list[Array],
    MultiLevelRois_lod: list[Lod],
    MultiLevelRoIsNum: list[Array] | None,
    post_nms_topN: int,
) -> tuple[WithLod, Array]:
    rois, scores = (
        np.concatenate([host(part) for part in level]) for level in (MultiLevelRois, MultiLevelScores)
    )
    given: Sequence[Array | None] = MultiLevelRoIsNum or (None,) * len(MultiLevelRois)
    counts = np.array(
        [
            counts_of_images("collect_fpn_proposals", "MultiLevelRois", len(level), lod, each)
            for level, lod, each in zip(MultiLevelRois, MultiLevelRois_lod, given, strict=True)
        ]
    )
    images = np.tile(np.arange(counts.shape[1]), len(counts)).repeat(counts.reshape(-1))
    # of equal scores the last one comes first
    best = len(scores) - 1 - np.argsort(-scores.reshape(-1)[::-1], kind="stable")[:post_nms_topN]
    best = best[np.argsort(images[best], kind="stable")]
    found = np.bincount(images[best], minlength=counts.shape[1])
    return WithLod(xp.asarray(rois[best]), lengths_lod(found)), xp.asarray(found.astype(np.int32))
