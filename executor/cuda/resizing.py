"""Images of another size on a device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda.kernel import CudaKernel, sum_dtype
from fluidlite.executor.cuda.rows import row_grid
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.ops.neural.interpolate import Taps, taps_of

__all__ = ["DeviceResize"]

_FILES = ("blocks.cuh", "resize.cu")

Shares: TypeAlias = "list[list[tuple[int, float]]]"
"""For each element of the target the elements of the source that it takes, with their weights."""


class DeviceResize(OwnObject):
    """An op's images of `shape` (N, C, height, width) made larger or smaller, and the gradient, in one launch
    each.
    """

    def __init__(
        self, xp: Any, type: str, shape: tuple[int, ...], dtype: Any, attrs: Mapping[str, Any]
    ) -> None:
        sums = sum_dtype(dtype)
        out, along = taps_of(type, shape, sums, attrs)
        taps = dict(along)
        self.planes = math.prod(shape[:2])
        self.small, self.large = shape[2:], tuple(out)
        forward = [_shares(taps.get(2 + axis), self.large[axis]) for axis in (0, 1)]
        backward = [_turned(each, size) for each, size in zip(forward, self.small, strict=True)]
        self.there, self.back = (
            [xp.asarray(part) for shares in tables for part in _table(shares, sums)]
            for tables in (forward, backward)
        )
        self.kernel = CudaKernel(xp, "resize", _FILES, dtype)

    def forward(self, x: Array, out: Array) -> None:
        """out = x in the other size."""
        self._launch(x, self.there, out, (*self.small, *self.large))

    def backward(self, d: Array, out: Array) -> None:
        """out = the gradient of x."""
        self._launch(d, self.back, out, (*self.large, *self.small))

    def _launch(self, source: Array, tables: Sequence[Array], out: Array, sizes: Sequence[int]) -> None:
        rows, columns = self.planes * sizes[2], sizes[3]
        if not rows * columns:
            return
        self.kernel(*row_grid(rows, columns), (source, *tables, out), (rows, *sizes))

    @staticmethod
    def explained(type: str, shape: Sequence[int], *_: Any) -> str:
        """A line for people."""
        return f"CUDA kernel resize, {type} of images of {shape[2]} x {shape[3]}"


def _shares(taps: Taps | None, size: int) -> Shares:
    """The shares along a dimension; without taps it stays as it is."""
    if taps is None:
        return [[(at, 1.0)] for at in range(size)]
    return [[(int(index[at]), float(weight[at])) for index, weight in taps] for at in range(size)]


def _turned(shares: Shares, size: int) -> Shares:
    """The shares of the way back, to `size` elements."""
    found: Shares = [[] for _ in range(size)]
    for target, parts in enumerate(shares):
        for source, share in parts:
            found[source].append((target, share))
    return found


def _table(shares: Shares, dtype: Any) -> tuple[Array, Array, Array]:
    """The place where the part of each target starts, the sources, and their weights."""
    starts = np.cumsum([0, *map(len, shares)], dtype=np.int64)
    flat = [part for parts in shares for part in parts] or [(0, 0.0)]
    sources, weights = zip(*flat, strict=True)
    return starts, np.array(sources, np.int64), np.array(weights, dtype)
