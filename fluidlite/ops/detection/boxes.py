"""Boxes one by one: their overlaps, their codes relative to priors, and their place in the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import FLOATS, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.boxes import overlaps
from fluidlite.ops.kernels.numbers import check_rows
from fluidlite.values.tensor import host


def check_boxes(op: str, slot: str, boxes: Spec, rank: int = 2) -> None:
    """ShapeError unless `boxes` has `rank` dimensions, the last of 4."""
    if len(boxes.shape) != rank or boxes.shape[-1] not in (4, -1):
        wanted = ", ".join(["N", "M", "K"][: rank - 1])
        raise ShapeError(f"op {op!r}: {slot} has the shape {list(boxes.shape)}, wanted [{wanted}, 4]")


# ---------------------------------------------------------------------- overlaps
iou_similarity = Op("iou_similarity", "X. Y. -> Out", attrs={"box_normalized": True})


@iou_similarity.shape
def _(X: Spec, Y: Spec) -> Spec:
    check_boxes("iou_similarity", "X", X)
    check_boxes("iou_similarity", "Y", Y)
    return X.with_shape((X.shape[0], Y.shape[0]))


@iou_similarity.kernel
def _(xp: Any, X: Array, Y: Array, box_normalized: bool) -> Array:
    return overlaps(xp, X, Y, box_normalized)


# ---------------------------------------------------------------------- the image's edges
box_clip = Op("box_clip", "Input. ImInfo. -> Output")


@box_clip.shape
def _(Input: Spec, ImInfo: Spec) -> Spec:
    if Input.shape[-1] not in (4, -1):
        raise ShapeError(f"op 'box_clip': Input has the shape {list(Input.shape)}, wanted [..., 4]")
    if len(ImInfo.shape) != 2 or ImInfo.shape[1] not in (3, -1):
        raise ShapeError(
            f"op 'box_clip': ImInfo has the shape {list(ImInfo.shape)}, wanted [N, 3] (height, width, scale)"
        )
    return Input.with_shape(Input.shape)


@box_clip.kernel
def _(xp: Any, Input: Array, Input_lod: Lod, ImInfo: Array) -> Array:
    if Input_lod:
        offsets = Input_lod[-1]
    else:
        offsets = (0, len(Input))
    if len(offsets) - 1 > len(ImInfo):
        raise ShapeError(
            f"op 'box_clip': Input holds boxes of {len(offsets) - 1} images, ImInfo of {len(ImInfo)}"
        )
    info = host(ImInfo)[: len(offsets) - 1]  # 1.8.5 leaves the rest unread, too
    # the image's size before it was scaled, rounded as in C, where a half goes up
    sizes = np.floor(info[:, 1::-1] / info[:, 2:] + 0.5) - 1
    limits = xp.asarray(np.repeat(np.tile(sizes, 2), np.diff(offsets), axis=0).astype(Input.dtype))
    # the edge at zero goes first: an image that was smaller than half a pixel has its last one at -1
    within = xp.minimum(Input, limits.reshape(len(Input), *(1,) * (Input.ndim - 2), 4))
    return xp.maximum(within, 0, out=within)


# ---------------------------------------------------------------------- codes
box_coder = Op(
    "box_coder",
    "PriorBox. PriorBoxVar.? TargetBox. -> OutputBox",
    attrs={
        "code_type": limited("encode_center_size", one_of("decode_center_size", "encode_center_size")),
        "box_normalized": True,
        "axis": limited(0, one_of(0, 1)),
        "variance": FLOATS([]),
    },
    lod=None,
    makes_lod=True,
)


@box_coder.shape
def _(
    PriorBox: Spec,
    PriorBoxVar: Spec | None,
    TargetBox: Spec,
    code_type: str,
    axis: int,
    variance: Sequence[float],
) -> Spec:
    check_boxes("box_coder", "PriorBox", PriorBox)
    if PriorBoxVar is not None:
        check_boxes("box_coder", "PriorBoxVar", PriorBoxVar)
    if variance and len(variance) != 4:
        raise ShapeError(f"op 'box_coder': variance has {len(variance)} numbers, wanted 4")
    if code_type == "encode_center_size":
        check_boxes("box_coder", "TargetBox", TargetBox)
        return Spec((TargetBox.shape[0], PriorBox.shape[0], 4), TargetBox.dtype, TargetBox.lod_level)
    if code_type != "decode_center_size":
        raise ShapeError(
            f"op 'box_coder': code_type is {code_type!r}, wanted 'encode_center_size' or 'decode_center_size'"
        )
    check_boxes("box_coder", "TargetBox", TargetBox, 3)
    if axis not in (0, 1):
        raise ShapeError(f"op 'box_coder': axis is {axis}, wanted 0 or 1")
    rows = TargetBox.shape[1 - axis]
    priors = PriorBox.shape[0]
    if rows != priors and -1 not in (rows, priors):
        raise ShapeError(
            f"op 'box_coder': TargetBox{list(TargetBox.shape)} has {rows} codes along dimension {1 - axis}, "
            f"but there are {priors} priors"
        )
    rows_of = PriorBox if axis == 1 else TargetBox
    return Spec(TargetBox.shape, TargetBox.dtype, rows_of.lod_level)


def centers_and_sizes(boxes: Array, normalized: bool) -> tuple[Array, Array]:
    """Centers and sizes of priors, [..., 2] each; a pixel's center lies half a pixel beyond its corner."""
    sizes = boxes[..., 2:] - boxes[..., :2] + boxes.dtype.type(not normalized)
    return boxes[..., :2] + sizes / 2, sizes


def _encoded(xp: Any, priors: Array, targets: Array, normalized: bool) -> Array:
    centers, sizes = centers_and_sizes(priors, normalized)
    target_sizes = targets[:, 2:] - targets[:, :2] + targets.dtype.type(not normalized)
    # in whole pixels too the target's center is the mean of its corners: so does 1.8.5
    target_centers = (targets[:, 2:] + targets[:, :2]) / 2
    out = xp.empty((len(targets), len(priors), 4), targets.dtype)
    xp.divide(target_centers[:, None] - centers, sizes, out=out[..., :2])
    out[..., 2:] = xp.log(xp.abs(target_sizes[:, None] / sizes))
    return out


def decoded(xp: Any, priors: Array, codes: Array, normalized: bool) -> Array:
    """Boxes of codes relative to priors, which broadcast to them.

    One coordinate at a time: loops over the two of a corner cost more than what they compute.
    """
    centers, sizes = centers_and_sizes(priors, normalized)
    out = xp.empty_like(codes)
    for low, high in ((0, 2), (1, 3)):
        center = centers[..., low]
        size = sizes[..., low]
        middle = codes[..., low] * size + center
        half = xp.exp(codes[..., high]) * size / 2
        xp.subtract(middle, half, out=out[..., low])
        middle += half
        xp.subtract(middle, codes.dtype.type(not normalized), out=out[..., high])
    return out


@box_coder.kernel
def _(
    xp: Any,
    PriorBox: Array,
    PriorBox_lod: Lod,
    PriorBoxVar: Array | None,
    TargetBox: Array,
    TargetBox_lod: Lod,
    code_type: str,
    box_normalized: bool,
    axis: int,
    variance: Sequence[float],
) -> WithLod:
    scales: Any = PriorBoxVar
    if scales is None and variance:
        scales = xp.asarray(np.array(variance, np.float32), TargetBox.dtype)
    if code_type == "encode_center_size":
        out = _encoded(xp, PriorBox, TargetBox, box_normalized)
        return WithLod(out if scales is None else xp.divide(out, scales, out=out), TargetBox_lod)
    # a row of codes belongs to a prior (axis 1) or to a target: so the images' rows are those of either
    lod = PriorBox_lod if axis == 1 else TargetBox_lod
    if axis == 1:
        PriorBox = PriorBox[:, None]
        if scales is not None and scales.ndim != 1:
            scales = scales[:, None]
    codes = TargetBox if scales is None else TargetBox * scales
    return WithLod(decoded(xp, PriorBox, codes, box_normalized), lod)


# ---------------------------------------------------------------------- geometry of text lines
polygon_box_transform = Op("polygon_box_transform", "Input. -> Output", lod=None)


@polygon_box_transform.shape
def _(Input: Spec) -> Spec:
    if len(Input.shape) != 4 or Input.shape[1] % 2:
        raise ShapeError(
            f"op 'polygon_box_transform': Input has the shape {list(Input.shape)}, wanted [N, geometries, "
            f"H, W] with an even number of geometries"
        )
    return Input.with_shape(Input.shape)


@polygon_box_transform.kernel
def _(xp: Any, Input: Array) -> Array:
    # the map is a quarter of the image in each direction
    down, across = (xp.arange(size, dtype=Input.dtype) * 4 for size in Input.shape[2:])
    out = xp.empty_like(Input)
    xp.subtract(across, Input[:, ::2], out=out[:, ::2])
    xp.subtract(down[:, None], Input[:, 1::2], out=out[:, 1::2])
    return out


# ---------------------------------------------------------------------- codes of every class
decoder = Op(
    "box_decoder_and_assign",
    "PriorBox. PriorBoxVar. TargetBox. BoxScore. -> DecodeBox OutputAssignBox",
    attrs={"box_clip": 4.135000228881836},
    lod="TargetBox",
    makes_lod=True,
)


@decoder.shape
def _(PriorBox: Spec, PriorBoxVar: Spec, TargetBox: Spec, BoxScore: Spec) -> tuple[Spec, Spec]:
    op = "box_decoder_and_assign"
    check_boxes(op, "PriorBox", PriorBox)
    if PriorBoxVar.shape not in ((4,), (-1,)):
        raise ShapeError(f"op {op!r}: PriorBoxVar has the shape {list(PriorBoxVar.shape)}, wanted [4]")
    if len(TargetBox.shape) != 2 or len(BoxScore.shape) != 2 or TargetBox.shape[1] != BoxScore.shape[1] * 4:
        raise ShapeError(
            f"op {op!r}: TargetBox has the shape {list(TargetBox.shape)} and BoxScore "
            f"{list(BoxScore.shape)}, wanted [N, classes * 4] and [N, classes]"
        )
    check_rows(op, TargetBox=TargetBox, BoxScore=BoxScore, PriorBox=PriorBox)
    return TargetBox.with_shape(TargetBox.shape), Spec(PriorBox.shape, PriorBox.dtype, PriorBox.lod_level)


@decoder.kernel
def _(
    xp: Any,
    PriorBox: Array,
    PriorBox_lod: Lod,
    PriorBoxVar: Array,
    TargetBox: Array,
    BoxScore: Array,
    box_clip: float,
) -> tuple[Array, WithLod]:
    codes = (TargetBox * xp.tile(PriorBoxVar, BoxScore.shape[1])).reshape(len(TargetBox), -1, 4)
    for size in (codes[..., 2], codes[..., 3]):
        xp.minimum(size, box_clip, out=size)
    boxes = decoded(xp, PriorBox[:, None], codes, normalized=False)
    # scores of -1 or less, and nan, mark classes that a prior does not have; without any it stays where it is
    scores = xp.where(BoxScore[:, 1:] > -1, BoxScore[:, 1:], -1)
    if not scores.size:
        return boxes.reshape(TargetBox.shape), WithLod(PriorBox.copy(), PriorBox_lod)
    best = xp.take_along_axis(boxes, scores.argmax(axis=1)[:, None, None] + 1, axis=1)[:, 0]
    best = xp.where(scores.max(axis=1, keepdims=True) > -1, best, PriorBox)
    return boxes.reshape(TargetBox.shape), WithLod(best, PriorBox_lod)
