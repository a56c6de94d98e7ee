"""Greedy suppression of boxes that overlap a better one too much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fluidlite.base.dtypes import Array
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
    boxes: Array, threshold: float, normalized: bool, eta: float = 1.0, most: int = -1
) -> list[int]:
    """Positions of boxes (the best first) that overlap no kept one before them by more than the threshold,
    which `eta` lowers after each that is kept, as long as it is above 0.5. With `most` not negative no more
    than that are kept.
    """
    overlap = overlap_of(boxes.shape[1], normalized)
    limit, factor = boxes.dtype.type(threshold), boxes.dtype.type(eta)
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
        at = 0
        while at < len(open_):
            free = worst[at:] <= limit
            step = int(free.argmax())
            if not free[step]:
                break
            if len(chosen) == most:
                return chosen
            at += step
            chosen.append(start + int(open_[at]))
            np.maximum(worst, mutual[at], out=worst)
            if eta < 1 and limit > 0.5:
                limit *= factor
            at += 1
    return chosen
