"""Pools of a plan by oneDNN, where it means the same as NumPy's."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls
from fluidlite.executor.fast.onednn.library import OneDnnError, available
from fluidlite.executor.fast.onednn.pool import PoolKernel
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.convolutions import SharedPool
from fluidlite.executor.run.image_kernels import ImagePool, PoolForm
from fluidlite.executor.run.team import pieces
from fluidlite.ops.kernels.pooling import Pooling

__all__ = ["FastPool", "has_fast_pool"]


def has_fast_pool(shape: Sequence[int], pooling: Pooling, axes: Sequence[int]) -> bool:
    """True if another kernel than NumPy's can pool arrays of this shape here."""
    # what 2.x leaves out of an average, beyond the padding, the library counts
    if pooling.clipped and pooling.mode == "avg" and not pooling.exclusive:
        return False
    whole = all(each.kernel and each.whole for each in pooling.windows)
    is_laid = _has_last(shape, axes) or tuple(axes) == tuple(range(2, len(shape)))
    return available() and bool(pooling.dtype == np.float32) and is_laid and whole and 0 not in shape


def _has_last(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """True if the pooled dimensions are between the images and the channels."""
    return tuple(axes) == tuple(range(1, len(shape) - 1))


_LARGE_AT_ONCE = 1 << 18  # elements from which a kernel pays at the first run


class FastPool(ImagePool, OwnObject):
    """Pools of arrays (N, *spatial, C) or (N, C, *spatial) of one shape, whose images a team of threads
    shares.
    """

    def __init__(self, xp: Any, form: PoolForm) -> None:
        self._made_for = xp, form
        self._portable: SharedPool | None = None
        shape, threads = form.shape, form.threads
        windows = form.pooling.windows
        is_last = _has_last(shape, form.axes)
        self.parts = pieces(shape[0], max(1, min(threads, shape[0])))
        sizes = [part.stop - part.start for part in self.parts]
        self.kernels: list[PoolKernel] = []
        self._ahead, self._back = SharedCalls(len(sizes)), SharedCalls(len(sizes))
        self._makes = [partial(PoolKernel, (size, *shape[1:]), form.pooling, is_last) for size in sizes]
        self._runs = FirstRuns(form.asked, math.prod(shape) > _LARGE_AT_ONCE)
        self._squares = np.full(len(sizes), np.nan, np.float32)
        """The sums of the squares of each part's x; finite where the kernels have pooled the last one."""
        counts = tuple(each.count for each in windows)
        self._shape = (shape[0], *counts, shape[-1]) if is_last else (*shape[:2], *counts)

    @staticmethod
    def explained(form: PoolForm) -> str:
        """The library, and the exception."""
        return "oneDNN; NumPy where a largest element is sought among NaN or infinities"

    @classmethod
    def kernel_of(cls, method: str, form: PoolForm) -> str:
        """The library."""
        return "oneDNN"

    @property
    def portable(self) -> SharedPool:
        """NumPy's kernel, whose scratch buffers are made when it is first needed."""
        if self._portable is None:
            self._portable = SharedPool(*self._made_for)
        return self._portable

    def _make_kernels(self) -> None:
        with contextlib.suppress(OneDnnError):
            self.kernels = [make() for make in self._makes]
        self._makes = []
        self._portable = None

    def forward(self, x: Array, out: Array) -> None:
        """out = the pooled x."""

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            self.kernels[t].forward(calls, x[part], out[part], self._squares[t : t + 1])

        if self._makes and not self._runs.is_early():
            self._make_kernels()
        if self.kernels:
            if not self.kernels[0].is_max:
                self._squares.fill(0)
            self._ahead.run((address_of(x), address_of(out)), len(self.parts), work)
        if not self._is_pooled():
            self.portable.forward(x, out)

    def _is_pooled(self) -> bool:
        return bool(np.isfinite(self._squares).all())

    def backward(self, x: Array, pooled: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of x."""
        if not reuse:
            self.forward(x, np.empty(self._shape, x.dtype))
        if not self._is_pooled():
            self.portable.backward(x, pooled, d, out, True)
            return

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            self.kernels[t].backward(calls, d[part], out[part])

        self._back.run((address_of(d), address_of(out)), len(self.parts), work)
