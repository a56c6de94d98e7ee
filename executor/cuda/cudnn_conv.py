"""Convolutions of one geometry by cuDNN."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base import flags
from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda.cudnn import (
    BACKWARD_DATA,
    BACKWARD_FILTER,
    FORWARD,
    CudnnDirection,
    CudnnLibrary,
    Performance,
)
from fluidlite.executor.cuda.libraries import LibraryError
from fluidlite.executor.cuda.products import TF32
from fluidlite.ops.kernels.convolution import ConvPlan, Geometry

__all__ = ["Algorithm", "CudnnConv"]

# cudnnDataType_t of the elements, and of sums
_FLOAT, _DOUBLE, _HALF = 0, 1, 2
_KINDS = {"float32": (_FLOAT, _FLOAT), "float64": (_DOUBLE, _DOUBLE), "float16": (_HALF, _FLOAT)}
# cudnnMathType_t: the default lets float32 be rounded to TF32
_DEFAULT_MATH, _TENSOR_OP_MATH, _FMA_MATH = 0, 1, 3
_CHANNELS_SECOND, _CHANNELS_LAST = 0, 1  # cudnnTensorFormat_t of filters
_CROSS_CORRELATION = 1  # cudnnConvolutionMode_t: filters are not turned around
_DETERMINISTIC = 1  # cudnnDeterminism_t
_MOST = 16  # algorithms; the most that a direction has are 8
_MEGABYTE = 1 << 20


class Algorithm(NamedTuple):
    """An algorithm by its number in cuDNN, and the bytes of scratch memory that it takes."""

    number: int
    nbytes: int


class CudnnConv(ConvPlan):
    """Convolutions of arrays (N, C, *spatial), whose channels lie second in memory, or last.

    Filters are (O, C / groups, *kernel) without gaps; where channels are last they are copied to lie so, too.
    Uneven padding, which cuDNN does not know, is part of a copy of the images.
    """

    def __init__(
        self, xp: Any, library: CudnnLibrary, geometry: Geometry, dtype: Any, is_last: bool, limit: int
    ) -> None:
        super().__init__(xp, geometry, np.dtype(dtype))
        self.library = library
        self.is_last = is_last
        self.limit = limit * _MEGABYTE
        self.is_uneven = any(before != after for before, after in geometry.pads)
        no_pads = tuple((0, 0) for _ in geometry.pads)
        self.given = (
            replace(geometry, x=(*geometry.x[:2], *geometry.padded), pads=no_pads)
            if self.is_uneven
            else geometry
        )
        """The geometry that cuDNN is told."""
        self.kind, self.sum_kind = _KINDS[self.dtype.name]
        number = ctypes.c_double if self.sum_kind == _DOUBLE else ctypes.c_float
        self.one, self.zero = number(1), number(0)
        self.in_tf32 = bool(flags.get_flags(TF32)[TF32])
        self._algorithms: dict[CudnnDirection, Algorithm] = {}

    # ------------------------------------------------------------------ what cuDNN is told
    @functools.cached_property
    def _descriptors(self) -> dict[str, ctypes.c_void_p]:
        """Those of the images, filters and results, and of the convolution."""
        library, g = self.library, self.given
        kinds = {"x": "Tensor", "w": "Filter", "d": "Tensor", "conv": "Convolution"}
        made = {name: library.create(kind) for name, kind in kinds.items()}
        weakref.finalize(self, library.destroy, [(kinds[name], item) for name, item in made.items()])
        for name, shape in (("x", g.x), ("d", g.out)):
            sizes = _ints(shape)
            strides = _ints(self._strides(shape))
            library.call("cudnnSetTensorNdDescriptor", made[name], self.kind, len(shape), sizes, strides)
        layout = _CHANNELS_LAST if self.is_last else _CHANNELS_SECOND
        library.call("cudnnSetFilterNdDescriptor", made["w"], self.kind, layout, len(g.w), _ints(g.w))
        pads = _ints([before for before, _ in g.pads])
        numbers = (len(g.pads), pads, _ints(g.strides), _ints(g.dilations))
        conv = made["conv"]
        library.call("cudnnSetConvolutionNdDescriptor", conv, *numbers, _CROSS_CORRELATION, self.sum_kind)
        library.call("cudnnSetConvolutionGroupCount", conv, g.groups)
        library.call("cudnnSetConvolutionMathType", conv, self._math())
        return made

    def _math(self) -> int:
        if self.dtype == np.float16:
            return _TENSOR_OP_MATH
        return _FMA_MATH if self.dtype == np.float32 and not self.in_tf32 else _DEFAULT_MATH

    def _strides(self, shape: Sequence[int]) -> list[int]:
        """Elements from one to the next in each dimension of (N, C, *spatial)."""
        order = [0, *range(2, len(shape)), 1] if self.is_last else list(range(len(shape)))
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= shape[axis]
        return strides

    def _of(self, direction: CudnnDirection) -> list[ctypes.c_void_p]:
        """The descriptors of a direction, in the order in which its functions take them."""
        left, right, out = (self._descriptors[name] for name in direction.parts)
        return [left, right, self._descriptors["conv"], out]

    def algorithms(self, direction: CudnnDirection) -> list[Algorithm]:
        """Algorithms that give the same bits each time and fit into the memory allowed, the most promising
        first; LibraryError where there are none.
        """
        library = self.library
        described = self._of(direction)
        results = (Performance * _MOST)()
        count = ctypes.c_int()
        with library.lock:
            handle = library.handle(self.xp.cuda.Device().id)
            library.call(direction.search, handle, *described, _MOST, ctypes.byref(count), results)
            found = [
                result.algorithm
                for result in results[: count.value]
                if not result.status and result.determinism == _DETERMINISTIC
            ]
            sized = [self._sized(handle, direction, number) for number in dict.fromkeys(found)]
        fitting = [each for each in sized if each is not None and each.nbytes <= self.limit]
        if not fitting:
            raise LibraryError(f"{direction.search} finds no deterministic algorithm for {self.limit} bytes")
        return fitting

    def _sized(self, handle: ctypes.c_void_p, direction: CudnnDirection, number: int) -> Algorithm | None:
        size = ctypes.c_size_t()
        try:
            self.library.call(direction.sizing, handle, *self._of(direction), number, ctypes.byref(size))
        except LibraryError:
            # proposed for another kind of arithmetic than this one
            return None
        return Algorithm(number, size.value)

    # ------------------------------------------------------------------ runs
    def take(self, direction: CudnnDirection, algorithm: Algorithm) -> None:
        """Let an algorithm compute a direction from now on."""
        self._algorithms[direction] = algorithm

    def forward(self, x: Array, w: Array, out: Array) -> None:
        self._compute(FORWARD, self._with_padding(x), self._laid(w), out)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        if not self.is_uneven:
            self._compute(BACKWARD_DATA, self._laid(w), dout, out)
            return
        self._compute(BACKWARD_DATA, self._laid(w), dout, self._padded_gradient)
        self.xp.copyto(out, self._padded_gradient[self.geometry.inner])

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        made = self._filters if self.is_last else out
        self._compute(BACKWARD_FILTER, self._with_padding(x), dout, made)
        if self.is_last:
            self.xp.copyto(out, self.xp.moveaxis(made, -1, 1))

    def _compute(self, direction: CudnnDirection, left: Any, right: Any, out: Any) -> None:
        """One call of cuDNN on the current stream."""
        library, xp = self.library, self.xp
        number, nbytes = self._algorithms[direction]
        space = xp.scratch(nbytes)
        first, second, conv, last = self._of(direction)
        operands = (first, left.data.ptr, second, right.data.ptr, conv)
        with library.lock:
            handle = library.handle(xp.cuda.Device().id)
            library.call("cudnnSetStream", handle, xp.cuda.get_current_stream().ptr)
            library.call(
                direction.function,
                *(handle, ctypes.byref(self.one), *operands, number, space.data.ptr, nbytes),
                *(ctypes.byref(self.zero), last, out.data.ptr),
            )

    # ------------------------------------------------------------------ copies that cuDNN's forms ask for
    def _images(self) -> Array:
        """Zeros in the form of padded images."""
        n, c, *spatial = self.given.x
        if not self.is_last:
            return self.xp.zeros((n, c, *spatial), self.dtype)
        return self.xp.moveaxis(self.xp.zeros((n, *spatial, c), self.dtype), -1, 1)

    @functools.cached_property
    def _padding(self) -> Array:
        return self._images()

    @functools.cached_property
    def _padded_gradient(self) -> Array:
        return self._images()

    def _with_padding(self, x: Array) -> Array:
        if not self.is_uneven:
            return x
        self._padding[self.geometry.inner] = x
        return self._padding

    @functools.cached_property
    def _filters(self) -> Array:
        """Filters with their channels last."""
        filters, channels, *kernel = self.given.w
        return self.xp.empty((filters, *kernel, channels), self.dtype)

    def _laid(self, w: Array) -> Array:
        if not self.is_last:
            return w
        self.xp.copyto(self._filters, self.xp.moveaxis(w, 1, -1))
        return self._filters


def _ints(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(numbers))(*numbers)
