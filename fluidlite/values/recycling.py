"""Arrays whose memory is used again once nobody refers to them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["RecycledArrays"]

MOST = 1 << 28  # bytes of the arrays of one shape that are kept


def _references(made: list[Any], index: int) -> int:
    """Number of references to an array of the list; how many of those are this function's own depends on
    the Python.
    """
    array = made[index]
    return sys.getrefcount(array)


UNUSED = _references([np.empty(0)], 0)


class RecycledArrays:
    """Gives an array at each call: one that it gave before and that nobody refers to any more, or a new one.

    New memory has to be mapped page by page, which costs more than most operations on it.
    """

    def __init__(self, xp: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.xp = xp
        self.shape = shape
        self.dtype = dtype
        self.made: list[Any] = []
        self.next = 0

    def __call__(self) -> Any:
        made = self.made
        if self.next >= len(made):
            self.next = 0
        # only the next in line is looked at: a search through the list would cost more than a new array
        if made and _references(made, self.next) == UNUSED:
            self.next += 1
            return made[self.next - 1]
        array = self.xp.empty(self.shape, self.dtype)
        # CuPy keeps a pool of its own
        if self.xp is np and (len(made) + 1) * array.nbytes <= MOST:
            made.insert(self.next, array)
            self.next += 1
        return array
