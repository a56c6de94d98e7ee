"""Kernels over channels on the host, where channels are last in memory: step by step, each by its kernel over
rows, in blocks that stay in the cache.

NumPy's loops over a few channels cost more than what they compute, so that a row here is several elements of
all channels, beside which the numbers of channels are repeated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.rows import block_rows
from fluidlite.ops.kernels.channel_steps import ELEMENTS, ChannelStep, channel_steps
from fluidlite.ops.kernels.row_kernels import RowForm

__all__ = ["ChannelKernel"]

_ROW = 1 << 11  # elements of a row, where that many divide the matrix evenly
_ROWS = 1 << 12  # rows that are added up one after the other, at most
_BLOCK = 1 << 14  # elements among which a pivot is the mean
Arrays: TypeAlias = "Mapping[str, Array]"


class ChannelKernel:
    """`call(*arrays)` computes a kernel over channels for arrays of `elements` x `channels` without gaps; the
    arrays are those of the form, inputs before outputs.
    """

    sums: ClassVar[Any] = np.float64
    """The type of sums over rows."""

    def __init__(
        self, xp: Any, form: RowForm, sizes: Sequence[int], dtype: Any, numbers: Sequence[float], threads: int
    ) -> None:
        self.form = form
        self.elements, self.channels = sizes
        self.dtype = np.dtype(dtype)
        self.threads = threads
        self.numbers = {**dict(zip(form.numbers, numbers, strict=True)), ELEMENTS: self.elements}
        self.names = [*form.inputs, *form.outputs]
        self.steps = channel_steps(form)
        self.kernels: dict[ChannelStep, Callable[[Arrays], None]] = {}
        """Those of the steps that have run."""
        self.own: dict[str, Array] = {}
        """The arrays that steps leave to those behind them."""
        for step in self.steps:
            if step.kind != "elements":
                dtype = np.float64 if step.kind == "sums" else self.dtype
                self.own |= {name: np.empty(self.channels, dtype) for name in step.form.outputs}
            self.own |= {name: np.empty(self.channels, self.dtype) for name, _ in step.pivots}

        self.results = [(name, self.own[name]) for name in form.outputs if name in self.own]

    def __call__(self, *arrays: Array) -> None:
        self.compute(dict(zip(self.names, arrays, strict=True)))

    def compute(self, given: Arrays) -> None:
        """The same for arrays by name."""
        for step in self.steps:
            self.run_step(step, {**given, **self.own})
        self.hand_out(given)

    def hand_out(self, given: Arrays) -> None:
        """Write the outputs that are numbers: one may lie where an input does."""
        for name, found in self.results:
            given[name][...] = found

    def run_step(self, step: ChannelStep, held: Arrays) -> None:
        """Compute a step."""
        if step.kind == "sums":
            self.set_pivots(step, held)
        if step not in self.kernels:
            self.kernels[step] = self.step_kernel(step)
        self.kernels[step](held)

    def set_pivots(self, step: ChannelStep, held: Arrays) -> None:
        """Write numbers that are near the means."""
        for name, near in step.pivots:
            first = held[near].reshape(-1, self.channels)[: max(1, _BLOCK // self.channels)]
            np.copyto(held[name], np.add.reduce(first, axis=0, dtype=np.float64) / len(first))

    def step_kernel(self, step: ChannelStep) -> Callable[[Arrays], None]:
        """The function of the arrays by name that computes a step."""
        if step.kind in ("sums", "elements"):
            return _OfElements(self, step.form)
        numbers = [self.numbers[name] for name in step.form.numbers]
        return _OfChannels(step.form, self.channels, self.dtype, numbers, step.kind == "statistics")

    def rows_kernel(self, form: RowForm, shape: Sequence[int]) -> Callable[..., None]:
        """The kernel of a step over the rows of a matrix; such a step has no numbers."""
        sums = self.sums if form.totals else None
        return block_rows(np, form, shape, self.dtype, (), self.threads, sums)


class _OfChannels:
    """A step over the numbers of channels, with the digits of float64 if it `is_wide`."""

    def __init__(
        self, form: RowForm, channels: int, dtype: Any, numbers: Sequence[float], is_wide: bool
    ) -> None:
        dtype = np.dtype(np.float64) if is_wide else dtype
        self.run = block_rows(np, form, (1, channels), dtype, numbers, 1)
        self.arrays = operator.itemgetter(*form.axes)
        self.wide = {name: np.empty(channels, dtype) for name in form.outputs} if is_wide else {}

    def __call__(self, held: Arrays) -> None:
        self.run(*self.arrays({**held, **self.wide}) if self.wide else self.arrays(held))
        # rounded like the arrays: loss scaling counts on what does not fit them to become an infinity
        for name, found in self.wide.items():
            np.copyto(held[name], found, casting="same_kind")


class _OfElements:
    """A step over the elements of all channels, by a kernel over long rows."""

    def __init__(self, kernel: ChannelKernel, form: RowForm) -> None:
        self.form = form
        elements, channels = kernel.elements, kernel.channels
        repeat = max(1, min(elements, max(_ROW, elements * channels // _ROWS) // channels))
        while elements % repeat:
            repeat -= 1
        self.shape = (elements // repeat, repeat * channels)
        self.run = kernel.rows_kernel(form, self.shape)
        self.rows = {
            name: np.empty((repeat, channels), kernel.sums if name in form.totals else kernel.dtype)
            for name, axes in form.axes.items()
            if axes == "c"
        }
        self.given: list[Array] = []
        self.arrays: list[Array] = []

    def __call__(self, held: Arrays) -> None:
        form, rows = self.form, self.rows
        for name in form.inputs:
            if name in rows:
                rows[name][...] = held[name].reshape(-1)
        given = [rows[name] if name in rows else held[name] for name in form.axes]
        # the same objects are known to kernels that keep addresses
        if len(given) != len(self.given) or any(map(operator.is_not, given, self.given)):
            shapes = [-1 if name in rows else self.shape for name in form.axes]
            self.given = given
            self.arrays = [array.reshape(shape) for array, shape in zip(given, shapes, strict=True)]
        self.run(*self.arrays)
        for name in form.totals:
            np.add.reduce(rows[name], axis=0, dtype=np.float64, out=held[name])
