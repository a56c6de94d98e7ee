"""Geometry of boxes in arrays [..., 4] of (xmin, ymin, xmax, ymax).

Boxes are normalised (a width is xmax - xmin) or in whole pixels that belong to the box (xmax - xmin + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["areas", "codes", "overlaps", "paired_overlaps"]

_CACHED = 1 << 15  # overlaps at a time: the arrays of their steps stay in the cache


def areas(boxes: Array, normalized: bool) -> Array:
    """Area of each box."""
    one = boxes.dtype.type(not normalized)
    areas: Array = boxes[..., 2] - boxes[..., 0] + one
    areas *= boxes[..., 3] - boxes[..., 1] + one
    return areas


def overlaps(xp: Any, left: Array, right: Array, normalized: bool, apart: bool = False) -> Array:
    """Intersection over union, [N, M], of N boxes with M others; 0 for two empty boxes."""
    # each coordinate behind itself: processors load no vectors of every fourth element
    right = xp.ascontiguousarray(right.T).T
    rows = max(1, _CACHED // max(len(right), 1))
    if xp is not np or len(left) <= rows:
        return paired_overlaps(xp, left[:, None], right[None], normalized, apart)
    out = np.empty((len(left), len(right)), left.dtype)
    for start in range(0, len(left), rows):
        some = left[start : start + rows, None]
        out[start : start + rows] = paired_overlaps(np, some, right[None], normalized, apart)
    return out


def paired_overlaps(xp: Any, left: Array, right: Array, normalized: bool, apart: bool = False) -> Array:
    """Intersection over union, [...], of boxes [..., 4] with others that broadcast; 0 for two empty boxes.

    Pixel boxes between which there is a gap, if smaller than a pixel, share a part of it; with `apart` they
    do not. One coordinate at a time: arrays [N, M] stay in the cache where [N, M, 2] would not, three times
    faster at 2000 by 2000.
    """
    one = left.dtype.type(not normalized)
    both = None
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    size = xp.empty(shape, left.dtype)
    least = xp.empty(shape, left.dtype)
    for low, high in ((0, 2), (1, 3)):
        # copied: NumPy takes six times as long for a row and one number as for two rows
        size[...], least[...] = left[..., high], left[..., low]
        xp.minimum(size, right[..., high], out=size)
        size -= xp.maximum(least, right[..., low], out=least)
        if apart and not normalized:
            xp.copyto(size, -one, where=size < 0)
        if not normalized:
            size += one
        least.fill(0)
        if both is None:
            both = xp.maximum(size, least)
        else:
            both *= xp.maximum(size, least, out=size)
    union = areas(left, normalized) + areas(right, normalized)
    union -= both
    # nothing divides by the zero of two empty boxes, whose intersection is 0 as well
    xp.copyto(union, 1, where=union == 0)
    both /= union
    return both


def codes(xp: Any, boxes: Array, targets: Array) -> Array:
    """(N, 4): where targets lie relative to boxes of whole pixels: offsets of the centers, in sizes of the
    box, and logarithms of the sizes' ratios.
    """
    one = boxes.dtype.type(1)
    half = boxes.dtype.type(0.5)
    sizes = boxes[:, 2:] - boxes[:, :2] + one
    target_sizes = targets[:, 2:] - targets[:, :2] + one
    centers = boxes[:, :2] + half * sizes
    target_centers = targets[:, :2] + half * target_sizes
    return xp.concatenate(((target_centers - centers) / sizes, xp.log(target_sizes / sizes)), axis=1)
