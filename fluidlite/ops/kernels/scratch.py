"""Scratch memory that kernels share: one piece for each thread and purpose, as large as the largest that was
asked for.

What a kernel takes here it may use until it returns. So a network's layers need the memory of its largest
layer, not of all of them, and it is warm in the cache when the next layer takes it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["take"]

_ALIGN = 64  # bytes: a line of the cache


class _Pieces(threading.local):
    """The pieces of one thread by purpose."""

    def __init__(self) -> None:
        self.by_purpose: dict[str, Array] = {}


_pieces = _Pieces()


def take(purpose: str, shape: Sequence[int], dtype: Any) -> Array:
    """An array whose content is whatever lay there; it is the caller's until that thread takes one of the
    same purpose again.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    held = _pieces.by_purpose.get(purpose)
    if held is None or held.nbytes < nbytes:
        held = _pieces.by_purpose[purpose] = _aligned(nbytes)
    return np.ndarray(tuple(shape), dtype, held)


def _aligned(nbytes: int) -> Array:
    raw = np.empty(nbytes + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + nbytes]
