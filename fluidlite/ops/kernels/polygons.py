"""Polygons as masks of pixels, by the rules of the COCO dataset's tools."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.sampled_rows import entries_of

__all__ = ["polygon_masks"]

_FINER = 5  # edges are drawn on a grid so many times finer than the mask


def polygon_masks(points: Array, lengths: Array, size: int) -> Array:
    """(P, size, size): True inside of P polygons, whose corners (x, y) in pixels follow each other in
    `points`.

    Down each column of the mask a pixel is inside after an odd number of crossings. Edges are drawn on a
    finer grid; each step of theirs across the middle of a column is a crossing.
    """
    u, v, polygon = _drawn(points, lengths)
    crossing = (u[1:] != u[:-1]) & (polygon[1:] == polygon[:-1])
    column = np.where(u[1:] < u[:-1], u[1:], u[1:] - 1)[crossing]
    row = np.minimum(v[1:], v[:-1])[crossing]
    half = _FINER // 2
    middle = (column % _FINER == half) & (column >= 0) & (column // _FINER < size)
    column = column[middle] // _FINER
    owner = polygon[1:][crossing][middle]
    row = np.clip(-((half - row[middle]) // _FINER), 0, size)
    # a crossing below the last row is one above the first of the next column: 1.8.5, too, counts on
    place = owner * (size * size + 1) + column * size + row
    counts = np.bincount(place, minlength=len(lengths) * (size * size + 1))
    per_polygon = counts.reshape(-1, size * size + 1)
    # the last place is below the last column, where no pixel is
    is_inside = per_polygon[:, :-1].cumsum(axis=1) % 2 == 1
    # from column by column to row by row
    return is_inside.reshape(-1, size, size).swapaxes(1, 2)


def _drawn(points: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """(u, v, polygon) of every point of the outlines on the finer grid, corner by corner."""
    ends = np.cumsum(lengths)
    following = np.arange(1, len(points) + 1)
    following[ends - 1] = ends - lengths
    corners = np.trunc(np.float32(_FINER) * points + 0.5).astype(np.int64)
    # a step an edge along its longer side, and the other coordinate in proportion, rounded
    start = corners
    end = corners[following]
    width, height = np.abs(end - start).T
    flat = width >= height
    longest = np.where(flat, width, height)
    # as in COCO's rleFrPoly: from the end with the smaller coordinate
    backwards = np.where(flat, start[:, 0] > end[:, 0], start[:, 1] > end[:, 1])
    low = np.where(backwards[:, None], end, start)
    high = np.where(backwards[:, None], start, end)
    climb = high - low
    rise = np.where(flat, climb[:, 1], climb[:, 0]) / np.maximum(longest, 1)
    edge, step = entries_of(np, longest + 1)
    step = np.where(backwards[edge], longest[edge] - step, step)
    along = step + np.where(flat, low[:, 0], low[:, 1])[edge]
    exact = np.where(flat, low[:, 1], low[:, 0])[edge] + rise[edge] * step
    beside = np.trunc(exact + 0.5).astype(np.int64)
    u = np.where(flat[edge], along, beside)
    v = np.where(flat[edge], beside, along)
    polygon = np.repeat(np.arange(len(lengths)), lengths)
    return u, v, polygon[edge]
