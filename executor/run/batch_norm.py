"""Batch normalisation with the channels last, shared by a team of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.image_kernels import NormForm
from fluidlite.executor.run.team import on_team
from fluidlite.ops.kernels.channel_rows import LongRows

__all__ = ["SharedBatchNorm"]


class SharedBatchNorm:
    """batch_norm and its gradient for arrays of `elements` x `channels` that lie without gaps."""

    def __init__(self, xp: Any, form: NormForm) -> None:
        self.elements = form.elements
        self.rows = LongRows(form.elements, form.channels, form.threads)
        self.epsilon = form.epsilon

    def _each(self, task: Callable[[int], Any]) -> list[Any]:
        """The results of task(member), one for each member."""
        found: list[Any] = [None] * self.rows.members

        def work(member: int) -> None:
            found[member] = task(member)

        on_team(self.rows.members, work)
        return found

    def _inverse(self, variance: Array) -> Array:
        return 1 / np.sqrt(variance + variance.dtype.type(self.epsilon))

    def train(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        running: tuple[Array, Array],
        momentum: float,
        y: Array,
        running_out: tuple[Array, Array],
        saved: tuple[Array, Array],
    ) -> None:
        """y = the normalised x; the running statistics move towards the batch's, which are `saved`."""
        mean, variance = self._by_batch(x, scale, bias, y)
        for old, new, out in zip(running, (mean, variance), running_out, strict=True):
            share = scale.dtype.type(momentum)
            out[...] = old * share + new * (1 - share)
        saved[0][...] = mean
        saved[1][...] = self._inverse(variance)

    def _by_batch(self, x: Array, scale: Array, bias: Array, y: Array) -> tuple[Array, Array]:
        """y = x normalised by the batch's mean and variance, which are returned."""
        pivot = self.rows.pivot(x).astype(x.dtype)
        row = self.rows.repeated(pivot, x.dtype)
        sums = self._each(lambda member: self.rows.moments(x, row, member))
        # the mean's distance from the pivot, in double precision, and the squares from it moved to the mean
        distance = sum(part[0] for part in sums) / self.elements
        spread = sum(part[1] for part in sums) / self.elements - distance * distance
        mean = (pivot + distance).astype(scale.dtype)
        variance = np.maximum(spread, 0).astype(scale.dtype)
        self._normalise(x, scale, bias, mean, self._inverse(variance), y)
        return mean, variance

    def infer(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, y: Array) -> None:
        """y = x normalised by given statistics."""
        self._normalise(x, scale, bias, mean, self._inverse(variance), y)

    def _normalise(self, x: Array, scale: Array, bias: Array, mean: Array, inverse: Array, y: Array) -> None:
        factor = inverse * scale
        row = self.rows.repeated(factor, x.dtype)
        shift = self.rows.repeated(bias - mean * factor, x.dtype)
        self._each(lambda member: self.rows.scaled(x, row, shift, y, member))

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
        mean, inverse = statistics
        dx, dscale, dbias = outs
        row = self.rows.repeated(mean, x.dtype)
        sums = self._each(lambda member: self.rows.products(x, d, row, member))
        # rounded like the arrays: loss scaling counts on what does not fit them to become an infinity
        bias, weight = (sum(part).astype(x.dtype) for part in zip(*sums, strict=True))
        weight = weight * inverse
        if dscale is not None:
            dscale[...] = weight
        if dbias is not None:
            dbias[...] = bias
        if dx is None:
            return
        factor = scale * inverse
        if frozen:
            # x has no part in it, not even an infinite one by a slope of 0
            slope, shift = (self.rows.repeated(part, x.dtype) for part in (factor, np.zeros_like(factor)))
            self._each(lambda member: self.rows.scaled(d, slope, shift, dx, member))
        else:
            parts = (factor, factor * inverse * weight / self.elements, factor * bias / self.elements)
            slope, shift = (self.rows.repeated(part, x.dtype) for part in parts[1:])
            rows = (row, self.rows.repeated(factor, x.dtype), slope, shift)
            self._each(lambda member: self.rows.gradient(x, d, rows, dx, member))

    def gradient_of_frozen(
        self,
        x: Array,
        d: Array,
        scale: Array,
        statistics: tuple[Array, Array],
        outs: tuple[Array | None, Array | None, Array | None],
    ) -> None:
        """The gradients where the running mean and variance were taken as they are."""
        mean, variance = statistics
        self.gradient(x, d, scale, (mean, self._inverse(variance)), outs, True)
