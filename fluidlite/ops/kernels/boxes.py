"""Geometry of boxes in arrays [..., 4] of (xmin, ymin, xmax, ymax).

Boxes are normalised (a width is xmax - xmin) or in whole pixels that belong to the box (xmax - xmin + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["areas", "codes", "overlaps", "paired_overlaps"]


def areas(boxes: Array, normalized: bool) -> Array:
    """Area of each box."""
    extra = boxes.dtype.type(not normalized)
    area: Array = boxes[..., 2] - boxes[..., 0] + extra
    area *= boxes[..., 3] - boxes[..., 1] + extra
    return area


_BLOCK = 1 << 14  # pairs at a time: three scratch arrays of 64 kB, which stay in the cache


def overlaps(xp: Any, left: Array, right: Array, normalized: bool, apart: bool = False) -> Array:
    """Intersection over union, [N, M], of N boxes with M others; 0 for two empty boxes.

    Pixel boxes between which there is a gap, if smaller than a pixel, share a part of it; with `apart` they
    do not. Coordinates as columns of their own, and blocks of rows in scratch arrays that are used again,
    take a seventh of the time of expressions over [N, M] at 20 by 8732.
    """
    out = xp.empty((len(left), len(right)), left.dtype)
    if not out.size:
        return out
    area, other_area = areas(left, normalized), areas(right, normalized)
    empty = not (bool((area > 0).all()) and bool((other_area > 0).all()))
    rows, columns = (xp.ascontiguousarray(boxes.T) for boxes in (left, right))
    rows, area = rows[:, :, None], area[:, None]
    step = max(1, _BLOCK // len(right))
    scratch = xp.empty((2, min(step, len(left)), len(right)), left.dtype)
    extra = 0 if normalized else 1
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        both = out[part]
        size, edge = scratch[:, : len(both)]
        for axis, side in ((0, both), (1, size)):
            xp.minimum(rows[axis + 2, part], columns[axis + 2], out=side)
            side -= xp.maximum(rows[axis, part], columns[axis], out=edge)
            if extra and apart:
                side[side < 0] = -extra
            if extra:
                side += left.dtype.type(extra)
            xp.maximum(side, 0, out=side)
        both *= size
        union = xp.add(area[part], other_area, out=size)
        union -= both
        if empty:
            union[union == 0] = 1  # of two empty boxes, whose intersection is 0 as well
        both /= union
    return out


def paired_overlaps(left: Array, right: Array, normalized: bool) -> Array:
    """Intersection over union of N pairs of boxes, [N], on the host; 0 where there is a gap between them."""
    extra = left.dtype.type(not normalized)
    both = np.ones(len(left), left.dtype)
    for axis in (0, 1):
        size = np.minimum(left[:, axis + 2], right[:, axis + 2]) - np.maximum(left[:, axis], right[:, axis])
        both *= np.where(size < 0, 0, size + extra)
    union = areas(left, normalized) + areas(right, normalized) - both
    shared: Array = both / np.where(union == 0, 1, union)
    return shared


def codes(xp: Any, boxes: Array, targets: Array) -> Array:
    """(N, 4): where targets lie relative to boxes of whole pixels: offsets of the centers, in sizes of the
    box, and logarithms of the sizes' ratios.
    """
    one, half = boxes.dtype.type(1), boxes.dtype.type(0.5)
    sizes, target_sizes = boxes[:, 2:] - boxes[:, :2] + one, targets[:, 2:] - targets[:, :2] + one
    centers, target_centers = boxes[:, :2] + half * sizes, targets[:, :2] + half * target_sizes
    return xp.concatenate(((target_centers - centers) / sizes, xp.log(target_sizes / sizes)), axis=1)
