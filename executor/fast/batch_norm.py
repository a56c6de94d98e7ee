"""Batch normalisation of a plan by compiled code and oneDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.loops.channels import channel_code
from fluidlite.executor.fast.machine import NOW, MachineCalls, SharedCalls, has_routines
from fluidlite.executor.fast.onednn.library import available
from fluidlite.executor.fast.onednn.norm import NormKernel, norm_kernel
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.channels import ChannelKernel
from fluidlite.executor.run.team import pieces
from fluidlite.ops.kernels.channel_steps import ChannelStep, channel_steps
from fluidlite.ops.kernels.row_calls import merged_moments
from fluidlite.ops.kernels.row_kernels import RowForm
from fluidlite.ops.neural.batch_norm import BY_BATCH, BY_GIVEN, GRADIENT, GRADIENT_OF_GIVEN

__all__ = ["FastBatchNorm", "has_fast_batch_norm"]

_ROWS = 1 << 12  # rows that the library adds up at a time: it does so in float32, one after the other
_SPLIT = 1 << 19  # elements from which two passes by two threads take less than one pass by one
_LARGE_AT_ONCE = 1 << 18  # elements from which kernels pay at the first run
_SHARED = 1 << 14  # elements from which two threads take less by compiled code
_MEMORY = 1 << 22  # elements of a gradient from which memory decides, and a second thread of NumPy pays


def has_fast_batch_norm(dtype: Any) -> bool:
    """True if another kernel than NumPy's can normalise here."""
    return available() and bool(dtype == np.float32)


class FastBatchNorm(ChannelKernel, OwnObject):
    """A kernel of batch_norm for float32 arrays of `elements` x `channels` that lie without gaps.

    oneDNN on one thread is 5 to 10 times as fast as NumPy on one. Compiled code serves several.
    """

    def __init__(
        self,
        xp: Any,
        form: RowForm,
        sizes: Sequence[int],
        dtype: Any,
        numbers: Sequence[float],
        threads: int,
        asked: int = 1,
    ) -> None:
        super().__init__(xp, form, sizes, dtype, numbers, threads)
        self.size = self.elements * self.channels
        # the library adds it to variances, of which a gradient may get one over the root
        self.epsilon = float(self.numbers.get("epsilon", 0.0))
        self.parts = pieces(self.elements, min(threads, self.elements))
        self.runs = FirstRuns(asked, self.size > _LARGE_AT_ONCE)
        self.sizes = self.elements, self.channels
        self.row_calls: dict[ChannelStep, _RowCalls] = {}
        is_split = len(self.parts) > 1 and self.size >= _SPLIT
        self.sums = pieces(self.elements, max(len(self.parts) if is_split else 1, -(-self.elements // _ROWS)))
        self.moments = np.empty((2, len(self.sums), self.channels), np.float32)
        self.first, self.second = SharedCalls(threads), SharedCalls(threads)
        is_many, kernel = len(self.parts) > 1, form.kernel
        is_gradient = kernel not in (BY_BATCH, BY_GIVEN)
        self.is_plain = is_gradient and "dx" not in form.outputs
        self.may_share = is_many and kernel is not BY_GIVEN and self.size >= _SHARED
        self.takes_long = is_many and is_gradient and self.size >= _MEMORY
        ways = {BY_GIVEN: self._infer, BY_BATCH: self._train}
        self.by_library = ways.get(kernel, self._gradient)
        alone = channel_steps(form.with_axes(y=None)) if kernel is BY_BATCH else ()
        self.steps_alone = [self.kernel_of(step) for step in alone if step.kind == "numbers"]
        """What is left to do where the library has normalised."""
        found = [step.form.outputs for step in self.steps if step.kind == "statistics" and alone]
        self.statistics = [self.own[name] for names in found for name in names]
        """Of a batch: mean and variance."""
        self.spare = {name: np.empty(self.channels, np.float32) for name in ("dscale", "dbias")}

    @cached_property
    def library(self) -> NormKernel:
        """The library's kernel of the whole arrays."""
        return norm_kernel(*self.sizes, self.epsilon)

    @staticmethod
    def explained(form: RowForm, sizes: Sequence[int], *_: Any) -> str:
        """The library."""
        return "oneDNN"

    def compute(self, given: Mapping[str, Array]) -> None:
        if self.runs.is_early() or self.is_plain:
            super().compute(given)
        elif self.may_share and self._is_shared():
            self._compute_by_rows(given)
        elif self.takes_long:
            super().compute(given)
        else:
            self.by_library(given)

    # ------------------------------------------------------------------ compiled code
    def _is_shared(self) -> bool:
        """True if the code is there by which the members of a team compute some rows each."""
        if not has_routines():
            return False
        # a list: all of them are asked for at the same run
        found = [_has_code(step) for step in self.steps if step.kind in ("sums", "elements")]
        return all(found)

    def _compute_by_rows(self, given: Mapping[str, Array]) -> None:
        for step in self.steps:
            held = {**given, **self.own}
            if step.kind in ("sums", "elements"):
                self._run_rows(step, held)
            else:
                self.run_step(step, held)
        self.hand_out(given)

    def _run_rows(self, step: ChannelStep, held: Mapping[str, Array]) -> None:
        """A step by compiled code, whose sums are added up in double precision."""
        for name, near in step.pivots:
            held[name][...] = held[near].reshape(-1, self.channels)[0]
        if step not in self.row_calls:
            self.row_calls[step] = _RowCalls(step.form, self.parts, self.channels, self.threads)
        self.row_calls[step](held)

    # ------------------------------------------------------------------ the library
    def _train(self, given: Mapping[str, Array]) -> None:
        mean, variance = self.statistics
        x, y = given["x"], given["y"]
        weights = np.ascontiguousarray(given["scale"]), np.ascontiguousarray(given["bias"])
        if len(self.sums) > 1:
            self._statistics(x, y, mean, variance, weights)
            self._apply(x, y, (mean, variance), weights)
        else:
            self.library.train(NOW, x, y, mean, variance, *weights)
        held = {**given, **self.own}
        for step in self.steps_alone:
            step(held)
        self.hand_out(given)

    def _statistics(
        self, x: Array, y: Array, mean: Array, variance: Array, weights: tuple[Array, Array]
    ) -> None:
        """Mean and variance of the whole, from those of some rows at a time; overwrites y.

        Of 50,000 rows in one go the mean is wrong by 1e-5 deviations, and 1e-4 where it is 10 of them; by
        4096 rows, put together in double precision, by a tenth of that and less.
        """
        means, variances = self.moments
        rows, results = (array.reshape(-1, self.channels) for array in (x, y))
        members = len(self.parts) if self.size >= _SPLIT else 1
        shared = pieces(len(self.sums), members)

        def work(calls: MachineCalls, t: int) -> None:
            for i in range(shared[t].start, shared[t].stop):
                part = self.sums[i]
                kernel = norm_kernel(part.stop - part.start, self.channels, self.epsilon)
                kernel.train(calls, rows[part], results[part], means[i], variances[i], *weights)

        self.first.run(tuple(map(address_of, (x, y, *weights))), members, work)
        counts = np.array([[part.stop - part.start] for part in self.sums], np.float64)
        (mean[...],), spreads = merged_moments(np, counts, [means], {0: variances})
        variance[...] = spreads[0]

    def _infer(self, given: Mapping[str, Array]) -> None:
        numbers = [np.ascontiguousarray(given[name]) for name in ("mean", "variance", "scale", "bias")]
        self._apply(given["x"], given["y"], (numbers[0], numbers[1]), (numbers[2], numbers[3]))

    def _apply(
        self, x: Array, y: Array, statistics: tuple[Array, Array], weights: tuple[Array, Array]
    ) -> None:
        rows, results = (array.reshape(-1, self.channels) for array in (x, y))

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            kernel = norm_kernel(part.stop - part.start, self.channels, self.epsilon)
            kernel.infer(calls, rows[part], results[part], *statistics, *weights)

        key = tuple(map(address_of, (x, y, *statistics, *weights)))
        self.second.run(key, len(self.parts), work)

    def _gradient(self, given: Mapping[str, Array]) -> None:
        kernel = self.form.kernel
        if kernel is GRADIENT_OF_GIVEN:
            mean, variance = given["mean"], np.ascontiguousarray(given["variance"])
        else:
            # the library takes the root again
            mean, variance = given["savedmean"], 1 / np.square(given["savedvariance"])
        statistics = np.ascontiguousarray(mean), variance
        held = {**self.spare, **given}
        outs = held["dx"], held["dscale"], held["dbias"]
        scale = np.ascontiguousarray(given["scale"])
        arrays = given["x"], given["dy"], statistics, scale, outs
        self.library.gradient(*arrays, kernel is not GRADIENT)


def _has_code(step: ChannelStep) -> bool:
    """True once a step is compiled; asks for it."""
    code = channel_code(step.form)
    if code.function is None and (flags.fast_loops() == "wait" or flags.is_deterministic()):
        code.compile()
    code.ask()
    return code.function is not None


class _RowCalls:
    """Calls of the compiled code of a step, which members of a team share."""

    def __init__(self, form: RowForm, parts: Sequence[slice], channels: int, threads: int) -> None:
        self.form = form
        self.parts = parts
        self.function = channel_code(form).function
        self.channels = channels
        self.sums = np.empty((len(parts), len(form.totals), channels), np.float32)
        self.shared = SharedCalls(threads)
        self.key: tuple[int, ...] = ()
        self.tables: list[Array] = []

    def __call__(self, held: Mapping[str, Array]) -> None:
        totals = self.form.totals
        given = {name: np.ascontiguousarray(held[name]) for name in self.form.axes if name not in totals}
        key = tuple(map(address_of, given.values()))
        if key != self.key:
            # calls that are written down hold addresses of the tables
            self.shared.forget()
            self.key, self.tables = key, [self._table(given, member) for member in range(len(self.parts))]

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            calls.code(self.function, part.start, part.stop, address_of(self.tables[t]))

        self.shared.run(key, len(self.parts), work)
        for position, name in enumerate(totals):
            np.add.reduce(self.sums[:, position], axis=0, dtype=np.float64, out=held[name])

    def _table(self, given: Mapping[str, Array], member: int) -> Array:
        own = dict(zip(self.form.totals, self.sums[member], strict=True))
        arrays = [own[name] if name in own else given[name] for name in self.form.axes]
        return np.array([*map(address_of, arrays), self.channels], np.int64)
