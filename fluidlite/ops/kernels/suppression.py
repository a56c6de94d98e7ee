"""Greedy suppression of boxes that overlap a better one too much."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["kept_boxes"]


def _overlaps_of(boxes: Array, sizes: Array, chosen: int, one: Any) -> Any:
    """Intersection over union of box `chosen` with those behind it; boxes that do not touch have none."""
    box = boxes[:, chosen, None]
    rest = boxes[:, chosen + 1 :]
    wide = np.minimum(box[2], rest[2]) - np.maximum(box[0], rest[0])
    high = np.minimum(box[3], rest[3]) - np.maximum(box[1], rest[1])
    both = np.where((wide >= 0) & (high >= 0), (wide + one) * (high + one), one * 0)
    union = sizes[chosen] + sizes[chosen + 1 :] - both
    return both / np.where(union > 0, union, 1)


def kept_boxes(
    boxes: Array, threshold: float, normalized: bool, eta: float = 1.0, most: int = -1
) -> list[int]:
    """The rows of `boxes` (N, 4), best first, that overlap no better kept one by more than `threshold`.

    A kept box makes a threshold above 0.5 smaller by the factor `eta`. With `most` not negative no more than
    that are kept. Work grows with the boxes times those kept.
    """
    # a coordinate of all boxes lies together: each kept box reads them all
    columns = np.ascontiguousarray(boxes.T)
    # boxes in pixels reach to their last pixel, so they are one wider than the difference
    one = boxes.dtype.type(not normalized)
    limit = boxes.dtype.type(threshold)
    wide = columns[2] - columns[0]
    high = columns[3] - columns[1]
    sizes = np.where((wide < 0) | (high < 0), one * 0, (wide + one) * (high + one))
    worst = np.full(len(boxes), -1, boxes.dtype)  # the largest overlap with a kept box
    kept: list[int] = []
    place = 0
    while place < len(boxes) and len(kept) != most:
        free = worst[place:] <= limit
        first = int(free.argmax())
        if not free[first]:
            break
        place += first
        kept.append(place)
        if eta < 1 and limit > 0.5:
            limit *= boxes.dtype.type(eta)
        later = worst[place + 1 :]
        np.maximum(later, _overlaps_of(columns, sizes, place, one), out=later)
        place += 1
    return kept
