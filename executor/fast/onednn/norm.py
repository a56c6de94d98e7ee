"""Batch normalisation by oneDNN, of arrays of rows with a value for each channel."""

from __future__ import annotations

import functools

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.machine import MachineCalls
from fluidlite.executor.fast.onednn.library import engine
from fluidlite.executor.fast.onednn.primitive import (
    DIFF_DST,
    DIFF_SCALE,
    DIFF_SHIFT,
    DIFF_SRC,
    DST,
    MEAN,
    SCALE,
    SHIFT,
    SRC,
    VARIANCE,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
)

__all__ = ["NormKernel", "norm_kernel"]

_TRAINING, _BACKWARD = 64, 128
_GIVEN, _SCALE_AND_SHIFT = 1, 2 | 4


# the layers of a network are alike
@functools.lru_cache(1024)
def norm_kernel(rows: int, channels: int, epsilon: float) -> NormKernel:
    """The kernel of such arrays."""
    return NormKernel(rows, channels, epsilon)


class NormKernel:
    """Batch normalisation of arrays of `rows` x `channels` that lie without gaps."""

    def __init__(self, rows: int, channels: int, epsilon: float) -> None:
        # rows as the places of a single image: the library normalises over images and places alike
        self._x = Desc.strided((1, channels, rows, 1), (rows * channels, 1, channels, channels))
        self._numbers = Desc.strided((channels,), (1,))
        self._what = f"batch normalisation of {rows} x {channels}"
        self._epsilon = epsilon

    def _forward_desc(self, given: bool) -> PrimitiveDesc:
        flags = _SCALE_AND_SHIFT | (_GIVEN if given else 0)
        kind = "batch_normalization_forward"
        ends = self._x, self._x
        return PrimitiveDesc(kind, self._what, engine(), _TRAINING, *ends, self._epsilon, flags, Attributes())

    @functools.cached_property
    def _train(self) -> Primitive:
        return self._forward(given=False)

    @functools.cached_property
    def _infer(self) -> Primitive:
        return self._forward(given=True)

    def _forward(self, given: bool) -> Primitive:
        arguments = {SRC: self._x, DST: self._x}
        arguments |= dict.fromkeys((MEAN, VARIANCE, SCALE, SHIFT), self._numbers)
        return Primitive(self._forward_desc(given), arguments)

    @functools.cached_property
    def _gradient(self) -> Primitive:
        return self._backward(given=False)

    @functools.cached_property
    def _gradient_of_given(self) -> Primitive:
        return self._backward(given=True)

    def _backward(self, given: bool) -> Primitive:
        forward = self._forward_desc(given)
        flags = _SCALE_AND_SHIFT | (_GIVEN if given else 0)
        kind = "batch_normalization_backward"
        ends = self._x, self._x, self._x
        described = PrimitiveDesc(
            *(kind, self._what, engine(), _BACKWARD, *ends, self._epsilon, flags, forward, Attributes())
        )
        arguments = {SRC: self._x, DIFF_DST: self._x, DIFF_SRC: self._x}
        arguments |= dict.fromkeys((MEAN, VARIANCE, SCALE, DIFF_SCALE, DIFF_SHIFT), self._numbers)
        return Primitive(described, arguments)

    def train(self, calls: MachineCalls, *arrays: Array) -> None:
        """From (x, y, mean, variance, scale, shift): y = the normalised x; writes the batch's mean and
        variance.
        """
        calls.primitive(self._train, *map(address_of, arrays))

    def infer(self, calls: MachineCalls, *arrays: Array) -> None:
        """From (x, y, mean, variance, scale, shift): y = x normalised by given statistics."""
        calls.primitive(self._infer, *map(address_of, arrays))

    def gradient(
        self,
        x: Array,
        d: Array,
        statistics: tuple[Array, Array],
        scale: Array,
        outs: tuple[Array, Array, Array],
        given: bool,
    ) -> None:
        """Writes the gradients of x, scale and shift; `statistics` are mean and variance, constants where
        `given`.
        """
        primitive = self._gradient_of_given if given else self._gradient
        dx, dscale, dshift = outs
        primitive.run(*map(address_of, (x, d, dx, *statistics, scale, dscale, dshift)))
