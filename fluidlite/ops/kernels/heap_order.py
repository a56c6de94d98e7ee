"""The order in which PaddlePaddle's CPU finds the largest elements of a row: where several are equal, that of
a heap, as C++'s `std::partial_sort` builds it in every common library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["in_heap_order", "largest_by_heap"]

_BLOCK = 1024  # elements that are compared with the smallest of the heap at a time


def in_heap_order(x: Array, values: Array, found: Array) -> Array:
    """Positions `found` of the largest elements `values` along the last dimension, the largest first, in the
    order of a heap where some are equal; rows whose largest is NaN stay as they are.
    """
    k = found.shape[-1]
    rows, largest = x.reshape(-1, x.shape[-1]), values.reshape(-1, k)
    same = largest[:, 1:] == largest[:, :-1]
    # those that are equal to the last: all of them are among the largest, or there was a choice
    last = rows == largest[:, -1:], largest == largest[:, -1:]
    if not same.any() and np.count_nonzero(last[0]) == np.count_nonzero(last[1]):
        return found
    counts = [np.count_nonzero(one, axis=1) for one in last]
    ties = same.any(axis=1) | (counts[0] > counts[1])
    places = found.reshape(-1, k).copy()
    for row in np.flatnonzero(ties & (largest[:, 0] == largest[:, 0])).tolist():
        places[row] = largest_by_heap(rows[row], k)
    return places.reshape(found.shape)


def largest_by_heap(row: Array, k: int) -> list[int]:
    """Positions of the k largest elements of a row, the largest first; the smallest is at the top of the
    heap, and a larger one takes its place.
    """
    values = row.tolist()
    heap = list(range(k))
    for parent in range((k - 2) // 2, -1, -1):
        _sift(values, heap, parent, k, heap[parent])
    for start in range(k, len(values), _BLOCK):
        block = row[start : start + _BLOCK]
        for at in (start + np.flatnonzero(block > values[heap[0]])).tolist():
            if values[at] > values[heap[0]]:
                _sift(values, heap, 0, k, at)
    for last in range(k - 1, 0, -1):
        moved, heap[last] = heap[last], heap[0]
        _sift(values, heap, 0, last, moved)
    return heap


def _sift(values: list[Any], heap: list[int], hole: int, size: int, item: int) -> None:
    """Move a hole of the heap down to a leaf, along the smaller children, and `item` from there upwards."""
    top = hole
    child = 2 * hole + 2
    while child <= size:
        if child == size or values[heap[child]] > values[heap[child - 1]]:
            child -= 1
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 2
    while hole > top and values[heap[(hole - 1) // 2]] > values[item]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = item
