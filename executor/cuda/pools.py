"""Pools of images on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda.kernel import CudaKernel, sum_dtype
from fluidlite.executor.cuda.rows import row_grid
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.ops.kernels.pooling import Pooling, Windows, divisors

__all__ = ["DevicePool"]

_FILES = ("blocks.cuh", "pool.cu")


class DevicePool(OwnObject):
    """Pools images of a shape (N, C, height, width), and gives their gradient, in one launch each."""

    def __init__(self, xp: Any, shape: Sequence[int], pooling: Pooling) -> None:
        windows, dtype = pooling.windows, pooling.dtype
        self.xp, self.dtype = xp, dtype
        self.is_max = pooling.mode == "max"
        self.planes = math.prod(shape[:2])
        down, along = windows
        self.places = (down.count, along.count)
        self.numbers = (down.size, along.size, *self.places)
        tables: list[Any] = [each for window in windows for each in (window.starts, window.ends)]
        tables += [each for window in windows for each in _holders(window)]
        self.tables = xp.asarray(np.concatenate([np.asarray(table, np.int64) for table in tables]))
        # of what no element is compared with, the largest is that of float32, whatever the dtype
        starts_lower = all(each.complete or each.single is not None or each.uneven for each in windows)
        self.lowest = -math.inf if starts_lower else float(np.finfo("float32").min)
        sizes = divisors(pooling)
        sizes = sizes or [(each.kernel,) * each.count for each in windows]
        self.factors = None if self.is_max else xp.asarray(_inverse(*sizes).astype(sum_dtype(dtype)))
        self.kernels: dict[str, CudaKernel] = {}

    def forward(self, x: Array, out: Array) -> None:
        """Write the pooled x to `out`."""
        if self.is_max:
            self._launch("pool_max", self.places, (x, self.tables, out), (self.lowest,))
        else:
            self._launch("pool_mean", self.places, (x, self.tables, self.factors, out))

    def backward(self, x: Array, pooled: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        """Write the gradient of x to `out`; `pooled` is what forward(x) gave."""
        size = self.numbers[:2]
        if self.is_max:
            self._launch("pool_max_grad", size, (x, pooled, dout, self.tables, out))
        else:
            self._launch("pool_mean_grad", size, (dout, self.tables, self.factors, out))

    def _launch(
        self, name: str, size: tuple[int, int], arrays: Sequence[Any], numbers: Sequence[float] = ()
    ) -> None:
        """Launch a kernel over images of a size."""
        rows, columns = self.planes * size[0], size[1]
        if not rows * columns:
            return
        if name not in self.kernels:
            self.kernels[name] = CudaKernel(self.xp, name, _FILES, self.dtype)
        self.kernels[name](*row_grid(rows, columns), arrays, (rows, *self.numbers, *numbers))

    @staticmethod
    def explained(shape: Sequence[int], pooling: Pooling) -> str:
        """A line for people."""
        windows = pooling.windows
        name = "pool_max" if pooling.mode == "max" else "pool_mean"
        return f"CUDA kernels {name}*, {windows[0].count} x {windows[1].count} windows"


def _holders(windows: Windows) -> tuple[Array, Array]:
    """For each element the first window that holds it, and the first behind those."""
    elements = np.arange(windows.size)
    # neither begins nor ends lie before those of an earlier window
    first = np.searchsorted(windows.ends, elements, side="right")
    return first, np.searchsorted(windows.starts, elements, side="right")


def _inverse(down: Sequence[int], along: Sequence[int]) -> Array:
    """One over the number of elements of each window; NaN of those that have none."""
    counts = np.multiply.outer(np.asarray(down, "float64"), np.asarray(along, "float64"))
    result: Array = np.divide(1, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return result
