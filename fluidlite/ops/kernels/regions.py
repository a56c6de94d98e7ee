"""Parts that the ops on regions of interest share: shapes, and the image that each region belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import Lod, Spec, WithLod
from fluidlite.values.tensor import host

__all__ = [
    "check_positive",
    "check_regions",
    "images_by_counts",
    "images_by_offsets",
    "images_of_regions",
    "images_of",
    "joined",
    "pooled_spec",
    "round_half_away",
    "rows_lod",
]


def check_regions(op: str, image: Spec, rois: Spec, columns: int = 4) -> None:
    """Raises ShapeError unless the image is (N, C, H, W) and the regions have `columns` numbers each."""
    if len(image.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] not in (-1, columns):
        raise ShapeError(
            f"op {op!r}: the image must have 4 dimensions and ROIs shape [R, {columns}], but they are "
            f"{list(image.shape)} and {list(rois.shape)}"
        )


def check_positive(op: str, **values: float) -> None:
    """Raises ShapeError for an attribute that is not above 0."""
    for name, value in values.items():
        if value <= 0:
            raise ShapeError(f"op {op!r}: {name} must be positive, but is {value}")


def pooled_spec(op: str, image: Spec, rois: Spec, channels: int, height: int, width: int) -> Spec:
    """(R, channels, height, width) for the regions of an image; ShapeError where they do not fit."""
    check_regions(op, image, rois)
    check_positive(op, pooled_height=height, pooled_width=width)
    return image.with_shape((rois.shape[0], channels, height, width))


def check_list(op: str, slot: str, spec: Spec | None, length: int = -1) -> None:
    """ShapeError for a tensor that should be a list of numbers, `length` of them, and is none."""
    if spec is not None and not fits(spec.shape, (length,)):
        wanted = "[*]" if length < 0 else f"[{length}]"
        raise ShapeError(f"op {op!r}: {slot} has the shape {list(spec.shape)}, wanted {wanted}")


def images_by_offsets(xp: Any, op: str, regions: int, images: int, lod: Lod, tensor: Any = None) -> Array:
    """The number of the image of each region: from the offsets in a tensor, else from the last LoD level."""
    if tensor is None and not lod:
        raise ShapeError(
            f"op {op!r}: ROIs has no level of detail, which gives the number of regions of each image"
        )
    offsets = xp.asarray(lod[-1] if tensor is None else tensor).reshape(-1)
    if len(offsets) != images + 1 or int(offsets[-1]) != regions:
        raise ShapeError(
            f"op {op!r}: offsets {offsets.tolist()} divide the regions, but there are {images} images and "
            f"{regions} regions"
        )
    return xp.searchsorted(offsets[1:], xp.arange(regions), side="right")


def images_by_counts(xp: Any, op: str, regions: int, images: int, counts: Array) -> Array:
    """The number of the image of each region, from how many regions each image has."""
    ends = xp.cumsum(counts.reshape(-1))
    if len(ends) != images or int(ends[-1]) != regions:
        raise ShapeError(
            f"op {op!r}: the images have {counts.tolist()} regions, but there are {images} images and "
            f"{regions} regions"
        )
    return xp.searchsorted(ends, xp.arange(regions), side="right")


def images_of_regions(
    xp: Any, op: str, regions: int, images: int, lod: Lod, offsets: Any = None, counts: Any = None
) -> Array:
    """The number of the image of each region: from the counts that 2.x gives, from offsets, or from the last
    LoD level.
    """
    if counts is not None:
        return images_by_counts(xp, op, regions, images, counts)
    return images_by_offsets(xp, op, regions, images, lod, offsets)


def counts_of_images(op: str, slot: str, regions: int, lod: Lod, counts: Array | None) -> Array:
    """How many of the regions in `slot` belong to each image: by the counts that 2.x gives, or the last LoD
    level.
    """
    if counts is None and not lod:
        raise ShapeError(
            f"op {op!r}: {slot} has no level of detail, which has to hold one sequence per image"
        )
    lengths = np.diff(lod[-1]) if counts is None else host(counts).reshape(-1).astype(np.int64)
    if lengths.sum() != regions or (lengths < 0).any():
        raise ShapeError(f"op {op!r}: RoisNum is {lengths.tolist()}, but there are {regions} {slot}")
    return lengths


def round_half_away(xp: Any, x: Array) -> Array:
    """The nearest integer, halves away from zero as C's `round`; NumPy's takes the even one."""
    return xp.trunc(x + xp.copysign(x.dtype.type(0.5), x))


def images_of(lod: Lod, *slots: Array) -> Iterator[tuple[Array, ...]]:
    """The rows of each image, on the host, by the last level of detail."""
    values = [host(slot) for slot in slots]
    for start, end in zip(lod[-1][:-1], lod[-1][1:], strict=True):
        yield tuple(value[start:end] for value in values)


def rows_lod(parts: Sequence[Array]) -> Lod:
    """The level of detail of the images' rows, one after the other."""
    return ((0, *(int(end) for end in np.cumsum([len(part) for part in parts]))),)


def joined(xp: Any, parts: Sequence[Array]) -> WithLod:
    """The images' rows, one after the other."""
    # masks of one image are 30 MB: not copied once more
    if len(parts) == 1:
        rows = parts[0]
    else:
        rows = np.concatenate(parts)
    return WithLod(xp.asarray(rows), rows_lod(parts))
