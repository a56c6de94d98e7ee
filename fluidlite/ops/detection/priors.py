"""Priors and anchors: boxes that stand in the same way at every place of a feature map.

They depend on the sizes of their inputs only. Each kernel makes the boxes around one place, then moves them
to all places; outputs are [H, W, boxes, 4], and the variances in the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import POSITIVE_IF_ANY, least, limited, positive
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN, QUANTIZER
from fluidlite.base.registry import FLOATS, INTS, AttrType, Op, Spec, required

_FLOATS = required(AttrType.FLOATS)


def _check_maps(op: str, **maps: Spec) -> None:
    """ShapeError unless each input has the four dimensions of images."""
    for slot, spec in maps.items():
        if len(spec.shape) != 4:
            raise ShapeError(f"op {op!r}: {slot} has the shape {list(spec.shape)}, wanted [N, C, H, W]")


def _check_variances(op: str, variances: Sequence[float]) -> None:
    if len(variances) != 4 or min(variances) <= 0:
        raise ShapeError(f"op {op!r}: variances are {list(variances)}, wanted four numbers above 0")


def _check_sizes(op: str, attr: str, sizes: Sequence[float]) -> None:
    for size in sizes:
        if size <= 0:
            raise ShapeError(f"op {op!r}: {attr} has {size}, wanted numbers above 0")


def _at_all_places(xp: Any, map_: Array, boxes: Array, variances: Sequence[float]) -> tuple[Array, Array]:
    """`boxes` [H, W, boxes, 4] and their variances as arrays of the feature map's dtype."""
    made = xp.asarray(boxes.astype(map_.dtype))
    return made, xp.broadcast_to(xp.asarray(variances, map_.dtype), made.shape).copy()


def _centers(count: int, offset: float, step: float) -> Array:
    return (np.arange(count, dtype=np.float32) + np.float32(offset)) * np.float32(step)


# ---------------------------------------------------------------------- SSD
prior_box = Op(
    "prior_box",
    "Input Image -> Boxes Variances",
    attrs={
        "min_sizes": limited(_FLOATS, positive()),
        "max_sizes": FLOATS([]),
        "aspect_ratios": _FLOATS,
        "variances": limited(_FLOATS, positive(4)),
        "flip": True,
        "clip": True,
        "step_w": limited(0.0, least(0.0)),
        "step_h": limited(0.0, least(0.0)),
        "offset": 0.5,
        "min_max_aspect_ratios_order": False,
    },
    lod=None,
    only_shape=("Input", "Image"),
    kept=ONEDNN | QUANTIZER,
)


def distinct_ratios(ratios: Sequence[float], flip: bool) -> list[float]:
    """1, then each ratio that is new, followed by its inverse if `flip`."""
    found = [1.0]
    for ratio in ratios:
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, 1 / ratio] if flip else [ratio]
    return found


@prior_box.shape
def _(
    Input: Spec,
    Image: Spec,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    flip: bool,
) -> tuple[Spec, Spec]:
    _check_maps("prior_box", Input=Input, Image=Image)
    _check_variances("prior_box", variances)
    _check_sizes("prior_box", "min_sizes", min_sizes)
    if max_sizes and len(max_sizes) != len(min_sizes):
        raise ShapeError(
            f"op 'prior_box': there are {len(max_sizes)} max_sizes for {len(min_sizes)} min_sizes"
        )
    for low, high in zip(min_sizes, max_sizes, strict=False):
        if high <= low:
            raise ShapeError(f"op 'prior_box': max_sizes has {high}, which is not above the min_size {low}")
    boxes = len(distinct_ratios(aspect_ratios, flip)) * len(min_sizes) + len(max_sizes)
    out = Input.with_shape((*Input.shape[2:], boxes, 4))
    return out, out


def _prior_sizes(
    min_sizes: Sequence[float], max_sizes: Sequence[float], ratios: Sequence[float], max_second: bool
) -> Array:
    """(width, height) of the priors at one place.

    For each size the ratios in their order; the square between a smaller and a larger size comes last, or
    second as in Caffe's files.
    """
    sizes = []
    for index, low in enumerate(min_sizes):
        shapes = [(low * math.sqrt(ratio), low / math.sqrt(ratio)) for ratio in ratios]
        if max_sizes:
            between = math.sqrt(low * max_sizes[index])
            shapes.insert(1 if max_second else len(shapes), (between, between))
        sizes += shapes
    return np.array(sizes, np.float32).reshape(-1, 2)


@prior_box.kernel
def _(
    xp: Any,
    Input: Array,
    Image: Array,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    flip: bool,
    clip: bool,
    step_w: float,
    step_h: float,
    offset: float,
    min_max_aspect_ratios_order: bool,
) -> tuple[Array, Array]:
    height, width = Image.shape[2:]
    rows, columns = Input.shape[2:]
    if step_w == 0 or step_h == 0:
        step_w = width / columns
        step_h = height / rows
    ratios = distinct_ratios(aspect_ratios, flip)
    halves = _prior_sizes(min_sizes, max_sizes, ratios, min_max_aspect_ratios_order) / 2
    across = _centers(columns, offset, step_w)
    down = _centers(rows, offset, step_h)
    boxes = np.empty((rows, columns, len(halves), 4), np.float32)
    boxes[..., 0] = (across[:, None] - halves[:, 0]) / width
    boxes[..., 1] = (down[:, None, None] - halves[:, 1]) / height
    boxes[..., 2] = (across[:, None] + halves[:, 0]) / width
    boxes[..., 3] = (down[:, None, None] + halves[:, 1]) / height
    return _at_all_places(xp, Input, boxes.clip(0, 1) if clip else boxes, variances)


# ---------------------------------------------------------------------- FaceBoxes
density_prior_box = Op(
    "density_prior_box",
    "Input Image -> Boxes Variances",
    attrs={
        "variances": limited(_FLOATS, positive(4)),
        "clip": True,
        "flatten_to_2d": False,
        "step_w": limited(0.0, least(0.0)),
        "step_h": limited(0.0, least(0.0)),
        "offset": 0.5,
        "fixed_sizes": limited(FLOATS([]), POSITIVE_IF_ANY),
        "fixed_ratios": limited(FLOATS([]), POSITIVE_IF_ANY),
        "densities": limited(INTS([]), POSITIVE_IF_ANY),
    },
    lod=None,
    only_shape=("Input", "Image"),
)


@density_prior_box.shape
def _(
    Input: Spec,
    Image: Spec,
    variances: Sequence[float],
    fixed_sizes: Sequence[float],
    fixed_ratios: Sequence[float],
    densities: Sequence[int],
    flatten_to_2d: bool,
) -> tuple[Spec, Spec]:
    _check_maps("density_prior_box", Input=Input, Image=Image)
    _check_variances("density_prior_box", variances)
    for attr, sizes in (
        ("fixed_sizes", fixed_sizes),
        ("fixed_ratios", fixed_ratios),
        ("densities", densities),
    ):
        _check_sizes("density_prior_box", attr, sizes)
    if len(fixed_sizes) != len(densities):
        raise ShapeError(
            f"op 'density_prior_box': there are {len(densities)} densities for {len(fixed_sizes)} fixed_sizes"
        )
    boxes = sum(density**2 for density in densities) * len(fixed_ratios)
    # the number of rows is left open even where the map's size is known: so does 1.8.5
    out = Input.with_shape((-1, 4) if flatten_to_2d else (*Input.shape[2:], boxes, 4))
    return out, out


def _dense_boxes(
    fixed_sizes: Sequence[float], fixed_ratios: Sequence[float], densities: Sequence[int], step: int
) -> tuple[Array, Array]:
    """Centers relative to a place, and halves of the sizes, of the boxes there: (x, y) each.

    A density of d spreads d by d boxes over a square of `step` pixels, at whole multiples of pixels.
    """
    centers, halves = [], []
    for size, density in zip(fixed_sizes, densities, strict=True):
        shift = step // density
        ticks = -step / 2 + shift / 2 + np.arange(density) * shift
        for ratio in fixed_ratios:
            centers += [(x, y) for y in ticks for x in ticks]
            halves += [(size * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2)] * density**2
    return np.array(centers, np.float32).reshape(-1, 2), np.array(halves, np.float32).reshape(-1, 2)


@density_prior_box.kernel
def _(
    xp: Any,
    Input: Array,
    Image: Array,
    variances: Sequence[float],
    clip: bool,
    flatten_to_2d: bool,
    step_w: float,
    step_h: float,
    offset: float,
    fixed_sizes: Sequence[float],
    fixed_ratios: Sequence[float],
    densities: Sequence[int],
) -> tuple[Array, Array]:
    height, width = Image.shape[2:]
    rows, columns = Input.shape[2:]
    if step_w == 0 or step_h == 0:
        step_w = width / columns
        step_h = height / rows
    centers, halves = _dense_boxes(fixed_sizes, fixed_ratios, densities, int((step_w + step_h) / 2))
    across = _centers(columns, offset, step_w)[:, None] + centers[:, 0]
    down = _centers(rows, offset, step_h)[:, None] + centers[:, 1]
    boxes = np.empty((rows, columns, len(halves), 4), np.float32)
    # corners are cut off at the edge that they may cross, whether `clip` is set or not: so does 1.8.5
    boxes[..., 0] = ((across - halves[:, 0]) / width).clip(0)
    boxes[..., 1] = ((down - halves[:, 1]) / height).clip(0)[:, None]
    boxes[..., 2] = np.minimum((across + halves[:, 0]) / width, 1)
    boxes[..., 3] = np.minimum((down + halves[:, 1]) / height, 1)[:, None]
    if clip:
        boxes = boxes.clip(0, 1)
    return _at_all_places(xp, Input, boxes.reshape(-1, 4) if flatten_to_2d else boxes, variances)


# ---------------------------------------------------------------------- Faster R-CNN
anchor_generator = Op(
    "anchor_generator",
    "Input -> Anchors Variances",
    attrs={
        "anchor_sizes": limited(_FLOATS, positive()),
        "aspect_ratios": _FLOATS,
        "variances": limited(_FLOATS, positive(4)),
        "stride": limited(FLOATS([16.0, 16.0]), positive(2)),
        "offset": 0.5,
    },
    lod=None,
)


@anchor_generator.shape
def _(
    Input: Spec,
    anchor_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    stride: Sequence[float],
) -> tuple[Spec, Spec]:
    _check_maps("anchor_generator", Input=Input)
    _check_variances("anchor_generator", variances)
    _check_sizes("anchor_generator", "anchor_sizes", anchor_sizes)
    _check_sizes("anchor_generator", "aspect_ratios", aspect_ratios)
    if len(stride) != 2 or min(stride) <= 0:
        raise ShapeError(f"op 'anchor_generator': stride is {list(stride)}, wanted two numbers above 0")
    out = Input.with_shape((*Input.shape[2:], len(aspect_ratios) * len(anchor_sizes), 4))
    return out, out


def _anchor_sizes(sizes: Sequence[float], ratios: Sequence[float], stride: Sequence[float]) -> Array:
    """(width, height) of the anchors at one place; a ratio is height over width, of whole pixels."""
    found = []
    for ratio in ratios:
        base_width = math.floor(math.sqrt(stride[0] * stride[1] / ratio) + 0.5)
        base_height = math.floor(base_width * ratio + 0.5)
        found += [(size / stride[0] * base_width, size / stride[1] * base_height) for size in sizes]
    return np.array(found, np.float32).reshape(-1, 2)


@anchor_generator.kernel
def _(
    xp: Any,
    Input: Array,
    anchor_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    stride: Sequence[float],
    offset: float,
) -> tuple[Array, Array]:
    rows, columns = Input.shape[2:]
    halves = (_anchor_sizes(anchor_sizes, aspect_ratios, stride) - 1) / 2
    across, down = (
        (np.arange(count) * step + offset * (step - 1)).astype(np.float32)
        for count, step in zip((columns, rows), stride, strict=True)
    )
    anchors = np.empty((rows, columns, len(halves), 4), np.float32)
    anchors[..., 0] = across[:, None] - halves[:, 0]
    anchors[..., 1] = down[:, None, None] - halves[:, 1]
    anchors[..., 2] = across[:, None] + halves[:, 0]
    anchors[..., 3] = down[:, None, None] + halves[:, 1]
    return _at_all_places(xp, Input, anchors, variances)
