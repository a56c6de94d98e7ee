"""Batch normalisation of a plan by oneDNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.machine import NOW, MachineCalls, SharedCalls, has_routines
from fluidlite.executor.fast.onednn.library import available
from fluidlite.executor.fast.onednn.norm import norm_kernel
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.batch_norm import SharedBatchNorm
from fluidlite.executor.run.image_kernels import NormForm
from fluidlite.executor.run.team import pieces

__all__ = ["FastBatchNorm", "has_fast_batch_norm"]

_ROWS = 1 << 12  # rows that the library adds up at a time: it does so in float32, one after the other
_SPLIT = 1 << 19  # elements from which two passes by two threads take less than one pass by one
_LARGE_AT_ONCE = 1 << 18  # elements from which kernels pay at the first run
_SHARED = 1 << 14  # elements from which two threads take less by compiled code
_MEMORY = 1 << 22  # elements of a gradient from which memory decides, and a second thread of NumPy pays


def has_fast_batch_norm(dtype: Any) -> bool:
    """True if another kernel than NumPy's can normalise here."""
    return available() and bool(dtype == np.float32)


class FastBatchNorm(SharedBatchNorm, OwnObject):
    """batch_norm and its gradient for float32 arrays of `elements` x `channels` that lie without gaps.

    oneDNN on one thread is 5 to 10 times as fast as NumPy on one.
    """

    def __init__(self, xp: Any, form: NormForm) -> None:
        super().__init__(xp, form)
        elements, channels, threads, epsilon = form.elements, form.channels, form.threads, form.epsilon
        self.size = elements * channels
        self.whole = norm_kernel(elements, channels, epsilon)
        self.parts = pieces(elements, min(threads, elements))
        self.kernels = [norm_kernel(part.stop - part.start, channels, epsilon) for part in self.parts]
        is_split = len(self.parts) > 1 and self.size >= _SPLIT
        self.sums = pieces(elements, max(len(self.parts) if is_split else 1, -(-elements // _ROWS)))
        self._sum_kernels = {
            size: norm_kernel(size, channels, epsilon)
            for size in {part.stop - part.start for part in self.sums}
        }
        self.channels = channels
        self._runs = FirstRuns(form.asked, self.size > _LARGE_AT_ONCE)
        self._mean, self._variance = np.zeros((2, channels), np.float32)
        self._moments = np.empty((2, len(self.sums), channels), np.float32)
        self._first, self._second = SharedCalls(threads), SharedCalls(threads)
        self._third, self._fourth = SharedCalls(threads), SharedCalls(threads)
        self._numbers = np.empty((7, channels), np.float32)
        """Of each channel: pivot, factor and shift forward, mean, factor, slope and shift back."""
        self._sums = np.empty((len(self.parts), 2, channels), np.float32)
        self._spare = (np.empty(channels, np.float32), np.empty(channels, np.float32))

    @staticmethod
    def explained(form: NormForm) -> str:
        """The library."""
        return "oneDNN"

    def _by_batch(self, x: Array, scale: Array, bias: Array, y: Array) -> tuple[Array, Array]:
        if self._runs.is_early("train"):
            return super()._by_batch(x, scale, bias, y)
        if self._is_shared():
            return self._by_rows(x, scale, bias, y)
        mean, variance = self._mean, self._variance
        weights = np.ascontiguousarray(scale), np.ascontiguousarray(bias)
        if len(self.sums) > 1:
            self._statistics(x, y, mean, variance, weights)
            self._infer(x, y, (mean, variance), weights)
        else:
            self.whole.train(NOW, x, y, mean, variance, *weights)
        return mean, variance

    def _is_shared(self) -> bool:
        """True if the members of a team compute some rows each, by compiled code."""
        return len(self.parts) > 1 and self.size >= _SHARED and has_routines()

    def _by_rows(self, x: Array, scale: Array, bias: Array, y: Array) -> tuple[Array, Array]:
        pivot, factor, shift = self._numbers[:3]
        pivot[...] = x.reshape(-1, self.channels)[0]

        def add(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            calls.routine("norm_moments", part.start, part.stop, x, pivot, *self._sums[t], self.channels)

        def scaled(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            calls.routine("norm_scaled", part.start, part.stop, x, y, factor, shift, self.channels)

        self._first.run(("rows", address_of(x)), len(self.parts), add)
        distance, spread = self._sums.sum(axis=0, dtype=np.float64) / self.elements
        mean = pivot + distance
        variance = np.maximum(spread - distance * distance, 0)
        factor[...] = scale / np.sqrt(variance + self.epsilon)
        shift[...] = bias - mean * factor
        self._second.run(("rows", address_of(x), address_of(y)), len(self.parts), scaled)
        return mean.astype(np.float32), variance.astype(np.float32)

    def _statistics(
        self, x: Array, y: Array, mean: Array, variance: Array, weights: tuple[Array, Array]
    ) -> None:
        """Mean and variance of the whole, from those of some rows at a time; overwrites y.

        Of 50,000 rows in one go the mean is wrong by 1e-5 deviations, and 1e-4 where it is 10 of them; by
        4096 rows, put together in double precision, by a tenth of that and less.
        """
        means, variances = self._moments
        rows, results = (array.reshape(-1, self.channels) for array in (x, y))
        members = len(self.parts) if self.size >= _SPLIT else 1
        shared = pieces(len(self.sums), members)

        def work(calls: MachineCalls, t: int) -> None:
            for i in range(shared[t].start, shared[t].stop):
                part = self.sums[i]
                kernel = self._sum_kernels[part.stop - part.start]
                kernel.train(calls, rows[part], results[part], means[i], variances[i], *weights)

        self._first.run(tuple(map(address_of, (x, y, *weights))), members, work)
        shares = np.array([[part.stop - part.start] for part in self.sums]) / self.elements
        mean[...] = (shares * means).sum(axis=0)
        # the parts' variances, and how far their means are from the whole's
        variance[...] = (shares * (variances + (means - mean) ** 2)).sum(axis=0)

    def _infer(
        self, x: Array, y: Array, statistics: tuple[Array, Array], weights: tuple[Array, Array]
    ) -> None:
        rows, results = (array.reshape(-1, self.channels) for array in (x, y))

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            self.kernels[t].infer(calls, rows[part], results[part], *statistics, *weights)

        key = tuple(map(address_of, (x, y, *statistics, *weights)))
        self._second.run(key, len(self.parts), work)

    def infer(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, y: Array) -> None:
        """y = x normalised by given statistics."""
        if self._runs.is_early("infer"):
            super().infer(x, scale, bias, mean, variance, y)
            return
        mean, variance, scale, bias = map(np.ascontiguousarray, (mean, variance, scale, bias))
        self._infer(x, y, (mean, variance), (scale, bias))

    def gradient(
        self,
        x: Array,
        d: Array,
        scale: Array,
        statistics: tuple[Array, Array],
        outs: tuple[Array | None, Array | None, Array | None],
        frozen: bool,
    ) -> None:
        """Gradients of x, scale and bias, those that are wanted; `statistics` are the mean and one over the
        deviation, which are constants where `frozen`.
        """
        dx, dscale, dbias = outs
        is_early = self._runs.is_early("gradient")
        if dx is not None and not is_early and self._is_shared():
            self._gradient_by_rows(x, d, scale, statistics, (dx, dscale, dbias), frozen)
            return
        if is_early or dx is None or (len(self.parts) > 1 and self.size >= _MEMORY):
            super().gradient(x, d, scale, statistics, outs, frozen)
            return
        mean, inverse = statistics
        # the library adds epsilon and takes the root again
        variance = 1 / np.square(inverse) - np.float32(self.epsilon)
        numbers = self._spare
        mean, scale = np.ascontiguousarray(mean), np.ascontiguousarray(scale)
        self.whole.gradient(x, d, (mean, variance), scale, (dx, *numbers), frozen)
        for out, found in zip((dscale, dbias), numbers, strict=True):
            if out is not None:
                out[...] = found

    def _gradient_by_rows(
        self,
        x: Array,
        d: Array,
        scale: Array,
        statistics: tuple[Array, Array],
        outs: tuple[Array, Array | None, Array | None],
        frozen: bool,
    ) -> None:
        mean, factor, slope, shift = self._numbers[3:]
        dx, dscale, dbias = outs
        mean[...], inverse = statistics

        def add(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            calls.routine("norm_products", part.start, part.stop, x, d, mean, *self._sums[t], self.channels)

        def put(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            if frozen:  # x has no part in it, not even an infinite one by a slope of 0
                calls.routine("norm_scaled", part.start, part.stop, d, dx, factor, shift, self.channels)
                return
            calls.routine("norm_gradient", part.start, part.stop, x, d, dx, *self._numbers[3:], self.channels)

        self._third.run((address_of(x), address_of(d)), len(self.parts), add)
        bias, weight = self._sums.sum(axis=0, dtype=np.float64)
        weight *= inverse
        if dscale is not None:
            dscale[...] = weight
        if dbias is not None:
            dbias[...] = bias
        factor[...] = scale * inverse
        slope[...] = 0 if frozen else -factor * inverse * weight / self.elements
        shift[...] = 0 if frozen else -factor * bias / self.elements
        self._fourth.run((address_of(x), address_of(d), address_of(dx)), len(self.parts), put)
