"""Greedy suppression of boxes that overlap a better one too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.boxes import overlaps, paired_overlaps
from fluidlite.ops.kernels.polygon_overlaps import neighbour_polygon_overlaps, polygon_overlaps

__all__ = ["kept_boxes", "neighbour_overlaps", "overlap_of"]

_BLOCK = 128  # candidates whose overlaps are computed at a time: 64 kB, which stay in the cache


def overlap_of(size: int, normalized: bool) -> Callable[[Array, Array], Array]:
    """The function that compares boxes of `size` numbers: corners, or the points of a polygon."""
    if size == 4:
        return lambda left, right: overlaps(np, left, right, normalized, apart=True)
    return polygon_overlaps


def neighbour_overlaps(boxes: Array, normalized: bool) -> Array:
    """The overlap of each row but the first with the one before it."""
    if boxes.shape[1] == 4:
        return paired_overlaps(np, boxes[1:], boxes[:-1], normalized, apart=True)
    return neighbour_polygon_overlaps(boxes)


def kept_boxes(
    boxes: Array,
    threshold: float,
    normalized: bool,
    eta: float = 1.0,
    most: int = -1,
    ctx: KernelContext | None = None,
) -> list[int]:
    """Positions of boxes (the best first) that overlap no kept one before them by more than the threshold,
    which `eta` lowers after each that is kept, as long as it is above 0.5. With `most` not negative no more
    than that are kept. By compiled code where the run has it.
    """
    if normalized and boxes.shape[1] == 4:
        repeated = _touching_empty(boxes)
        if len(repeated):
            rows = np.delete(np.arange(len(boxes)), repeated)
            kept = kept_boxes(boxes[rows], threshold, normalized, eta, most, ctx)
            return [int(rows[row]) for row in kept]
    overlap = overlap_of(boxes.shape[1], normalized)
    limit, factor = boxes.dtype.type(threshold), boxes.dtype.type(eta)
    if ctx is not None and ctx.searches is not None and (eta >= 1 or limit <= 0.5):
        found: list[int] | None = ctx.searches.kept_boxes(boxes, limit, normalized, most)
        if found is not None:
            return found
    chosen: list[int] = []
    for start in range(0, len(boxes), _BLOCK):
        block = boxes[start : start + _BLOCK]
        worst = np.full(len(block), -np.inf, boxes.dtype)
        if chosen:
            overlap(boxes[chosen], block).max(axis=0, out=worst)
        # the threshold never rises: what is too near now will be later
        open_ = np.flatnonzero(worst <= limit)
        block, worst = block[open_], worst[open_]
        mutual = overlap(block, block)
        if eta >= 1 or limit <= 0.5:  # no lower from here on
            kept = _first_come(~(mutual <= limit))
        else:
            kept, limit = _with_falling_threshold(mutual, worst, limit, factor)
        chosen.extend((start + open_[kept]).tolist())
        if 0 <= most <= len(chosen):
            return chosen[:most]
    return chosen


def _touching_empty(boxes: Array) -> Array:
    """Positions of boxes without area that touch one before them which has none either and stays: their
    intersection over union is 0 / 0, which is not below any threshold.
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    if sizes.all():  # as nearly always
        return np.zeros(0, np.int64)
    left = np.flatnonzero((sizes >= 0).all(axis=1) & (sizes == 0).any(axis=1))
    found = [left[:0]]
    while len(left) > 1:
        first, rest = boxes[left[0]], left[1:]
        low = np.maximum(boxes[rest, :2], first[:2])
        touches = (low <= np.minimum(boxes[rest, 2:], first[2:])).all(axis=1)
        found.append(rest[touches])
        left = rest[~touches]
    return np.concatenate(found)


def _first_come(near: Array) -> list[int]:
    """Rows of a square matrix that are near to none before them of these rows: a bit for each in a number,
    0.2 us a row, where an array of them takes 5.
    """
    packed = np.packbits(near, axis=1, bitorder="little")
    data, width = packed.tobytes(), packed.shape[1]
    kept, excluded = [], 0
    for row in range(len(near)):
        if not excluded >> row & 1:
            kept.append(row)
            excluded |= int.from_bytes(data[row * width : (row + 1) * width], "little")
    return kept


def _with_falling_threshold(mutual: Array, worst: Array, limit: Any, factor: Any) -> tuple[list[int], Any]:
    """The same for a threshold that each kept row lowers, as long as it is above 0.5, and that threshold."""
    kept = []
    for row in range(len(mutual)):
        if worst[row] <= limit:
            kept.append(row)
            np.maximum(worst, mutual[row], out=worst)
            limit = limit * factor if limit > 0.5 else limit
    return kept, limit
