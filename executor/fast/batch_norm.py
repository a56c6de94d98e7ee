"""Batch normalisation of a plan by oneDNN, and of large arrays by compiled loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fluidlite.base import flags
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.loops.compiler import RunCount, is_available
from fluidlite.executor.fast.loops.rows import CompiledRows
from fluidlite.executor.fast.machine import NOW
from fluidlite.executor.fast.onednn.library import available
from fluidlite.executor.fast.onednn.norm import NormKernel, norm_kernel
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.channels import ChannelKernel
from fluidlite.executor.run.rows import block_rows
from fluidlite.ops.kernels.channel_steps import channel_steps
from fluidlite.ops.kernels.row_kernels import RowForm
from fluidlite.ops.neural.batch_norm import BY_BATCH, BY_GIVEN, GRADIENT, GRADIENT_OF_GIVEN

__all__ = ["FastBatchNorm", "has_fast_batch_norm"]

# elements from which loops take less than the library, by one thread and by several
_LARGE, _LARGE_FOR_SEVERAL = 1 << 17, 1 << 16
_ROWS = 1 << 12  # rows that the library may add up: it does so in float32, one after the other


def has_fast_batch_norm(dtype: Any) -> bool:
    """True if another kernel than NumPy's can normalise here."""
    return available() and bool(dtype == np.float32)


def _is_large(sizes: Sequence[int], threads: int) -> bool:
    """True if loops take less than the library, or lose less."""
    large = _LARGE if threads == 1 else _LARGE_FOR_SEVERAL
    return math.prod(sizes) >= large or sizes[0] > _ROWS


class FastBatchNorm(ChannelKernel, OwnObject):
    """A kernel of batch_norm for float32 arrays of `elements` x `channels` that lie without gaps.

    oneDNN on one thread is 5 to 10 times as fast as NumPy on one. Of 50,000 rows its mean is wrong by 1e-5
    deviations, and 1e-4 where it is 10 of them. Loops over 32,768 x 16 elements take half of its time.
    """

    sums: ClassVar[Any] = np.float32

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
        # the library adds it to variances, of which a gradient may get one over the root
        self.epsilon = float(self.numbers.get("epsilon", 0.0))
        self.runs = FirstRuns(asked)
        is_known = form.kernel in (BY_BATCH, BY_GIVEN) or "dx" in form.outputs
        self.has_library = is_known and not _is_large(sizes, threads)
        ways = {BY_GIVEN: self._infer, BY_BATCH: self._train}
        self.by_library = ways.get(form.kernel, self._gradient)
        alone = channel_steps(form.with_axes(y=None)) if form.kernel is BY_BATCH else ()
        self.steps_alone = [self.step_kernel(step) for step in alone if step.kind == "numbers"]
        """The steps that are left where the library has normalised."""
        found = [step.form.outputs for step in self.steps if step.kind == "statistics" and alone]
        self.statistics = [self.own[name] for names in found for name in names]
        """Of a batch: mean and variance."""
        self.spare = {name: np.empty(self.channels, np.float32) for name in ("dscale", "dbias")}

    def rows_kernel(self, form: RowForm, shape: Sequence[int]) -> Callable[..., None]:
        way = flags.fast_loops()
        # a prime number of rows cannot be put together, and loops add all rows up in float32
        is_exact = not form.totals or shape[0] <= 2 * _ROWS
        if self.has_library or not is_exact or way == "off" or not is_available():
            return super().rows_kernel(form, shape)
        arguments = (form, shape, self.dtype, (), self.threads)
        return CompiledRows(np, block_rows, arguments, way == "wait" or flags.is_deterministic(), RunCount())

    @cached_property
    def library(self) -> NormKernel:
        """The library's kernel of the whole arrays."""
        return norm_kernel(self.elements, self.channels, self.epsilon)

    @staticmethod
    def explained(
        form: RowForm, sizes: Sequence[int], dtype: Any, numbers: Sequence[float], threads: int, *_: Any
    ) -> str:
        """The library, or loops."""
        return "loops over rows" if _is_large(sizes, threads) else "oneDNN"

    def compute(self, given: Mapping[str, Array]) -> None:
        if self.has_library and not self.runs.is_early():
            self.by_library(given)
        else:
            super().compute(given)

    def _train(self, given: Mapping[str, Array]) -> None:
        weights = np.ascontiguousarray(given["scale"]), np.ascontiguousarray(given["bias"])
        self.library.train(NOW, given["x"], given["y"], *self.statistics, *weights)
        held = {**given, **self.own}
        for step in self.steps_alone:
            step(held)
        self.hand_out(given)

    def _infer(self, given: Mapping[str, Array]) -> None:
        numbers = [np.ascontiguousarray(given[name]) for name in ("mean", "variance", "scale", "bias")]
        self.library.infer(NOW, given["x"], given["y"], *numbers)

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
