"""Convolutions of many filters at few places, over arrays (H, N, W, C): the last stages of image classifiers.

There the filters have so many more elements than what is unfolded of x that to lay them out for products
takes a third of the time. So they stay as the program has them, (O, C * kh * kw), and x is unfolded in that
order. 2 x 512 x 5 x 5 and 1024 filters of 3 x 3: 8.5, 6.2 and 7.1 ms forward and for the gradients of the
filters and of x, on one thread; 13.2, 11.0 and 12.4 with filters laid out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.channels_last import Portion, Tail
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.gemm import gemm
from fluidlite.ops.kernels.scratch import take
from fluidlite.ops.kernels.taps import taps_of

__all__ = ["FewPlaces", "has_few_places"]


def has_few_places(g: Geometry) -> bool:
    """True if the filters are worth leaving as they lie."""
    count = g.x[0] * g.spatial[0] * g.spatial[1]
    return g.groups == 1 and set(g.kernel) != {1} and count <= g.w[0]


class FewPlaces:
    """The convolutions of one geometry without groups."""

    shares_filters = True

    def __init__(self, geometry: Geometry) -> None:
        self.rows, self.columns = taps_of(geometry)
        self.high, self.wide = geometry.spatial
        self.kernel = geometry.kernel

    def keep(self) -> None:
        """Take note that the filters do not change; they are not laid out anyway."""

    def _windows(self) -> Iterator[tuple[int, int, tuple[slice, slice], tuple[slice, slice]]]:
        """(row, column) of the kernel, with the places that it reaches inside of x, and the elements of x."""
        for (i, down), (j, right) in itertools.product(
            enumerate(self.rows.offsets), enumerate(self.columns.offsets)
        ):
            spans = [taps.reached(offset) for taps, offset in ((self.rows, down), (self.columns, right))]
            yield i, j, (spans[0][0], spans[1][0]), (spans[0][1], spans[1][1])

    def _unfolded(self, x: Array) -> Array:
        """(places, C * kh * kw)"""
        _, images, _, channels = x.shape
        found = take("conv unfolded", (self.high, images, self.wide, channels, *self.kernel), x.dtype)
        found[...] = 0
        for i, j, (down, right), (rows, columns) in self._windows():
            found[down, :, right, :, i, j] = x[rows, :, columns]
        return found.reshape(self.high * images * self.wide, -1)

    def forward(self, x: Array, w: Array, out: Array, mine: Portion, tail: Tail | None = None) -> None:
        """A member's channels of out = x convolved with w, and what follows."""
        part = mine.of(len(w))
        filters = w.reshape(len(w), -1)[part]
        if tail is not None:
            filters = filters * tail.factor[part, None]
        target = out[..., part]
        result = take("conv product", target.shape, out.dtype)
        gemm(self._unfolded(x), filters.T, result.reshape(-1, len(filters)))
        if tail is not None:
            tail.of(part).finish(result)
        target[...] = result

    def grad_input(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's channels of out = the gradient of x."""
        part = mine.of(w.shape[1])
        size = self.kernel[0] * self.kernel[1]
        filters = w.reshape(len(w), -1)[:, part.start * size : part.stop * size]
        shape = (*d.shape[:3], part.stop - part.start, *self.kernel)
        found = take("conv unfolded", shape, d.dtype)
        gemm(_matrix(d), filters, found.reshape(-1, filters.shape[1]))
        target = out[..., part]
        target[...] = 0
        for i, j, (down, right), (rows, columns) in self._windows():
            reached = target[rows, :, columns]
            np.add(reached, found[down, :, right, :, i, j], out=reached)

    def grad_filter(self, x: Array, d: Array, out: Array, mine: Portion) -> None:
        """A member's filters of out = the gradient of w."""
        part = mine.of(len(out))
        assert out.flags.c_contiguous
        gemm(_matrix(d)[:, part].T, self._unfolded(x), out.reshape(len(out), -1)[part])


def _matrix(d: Array) -> Array:
    """(places, O): as it lies, where it does so without gaps."""
    if d.flags.c_contiguous:
        return d.reshape(-1, d.shape[3])
    dense = take("conv product", d.shape, d.dtype)
    dense[...] = d
    return dense.reshape(-1, d.shape[3])
