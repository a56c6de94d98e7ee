"""Layouts of activations: (N, C, *spatial) arrays, as their strides say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.onednn.primitive import Desc

__all__ = ["channels_first", "channels_last", "described", "is_channels_last"]


def channels_first(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array whose dimensions lie in their order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array (N, *spatial, C), seen as (N, C, *spatial)."""
    inner = [*shape[2:], shape[1]]
    strides = list(itertools.accumulate(reversed(inner), lambda a, b: a * b, initial=1))[::-1]
    return (strides[0], 1, *strides[1:-1])


def _is_same(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """True if two sets of strides mean the same: a dimension of one element has any stride."""
    return all(size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


def described(shape: Sequence[int], strides: Sequence[int]) -> Desc:
    """The descriptor of an array; the library looks for the strides of dense arrays, so that dimensions of
    one element, whose strides NumPy leaves open, must have those.
    """
    for dense in (channels_last(shape), channels_first(shape)):
        if _is_same(shape, strides, dense):
            return Desc.strided(shape, dense)
    return Desc.strided(shape, strides)


def is_channels_last(array: Array) -> bool:
    """True if an array (N, C, *spatial) is dense with its channels last in memory."""
    strides = [stride // array.itemsize for stride in array.strides]
    return _is_same(array.shape, strides, channels_last(array.shape))
