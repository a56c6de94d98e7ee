"""batch_norm and its gradient on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.executor.cuda.kernel import THREADS, WARP, CudaKernel, Grid, element_grid, sum_dtype
from fluidlite.executor.cuda.rows import lanes_for, row_grid
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["DeviceBatchNorm"]

_FILES = ("blocks.cuh", "columns.cuh", "batch_norm.cu")
_SWITCHES = ("LAST", "GIVEN", "FROZEN")
_PART = 2048  # elements that are worth a block of their own
_BLOCKS = 1024  # blocks that keep all processors of a device busy


class DeviceBatchNorm(OwnObject):
    """batch_norm and its gradient for arrays of (outer, channels, inner) elements that lie without gaps: the
    channels are last where `inner` is 1. What belongs to channels is of the type of sums.

    Each takes three launches: sums of parts of each channel, the statistics that they add up to, and one
    that goes through all elements.
    """

    def __init__(
        self, xp: Any, outer: int, channels: int, inner: int, dtype: Any, epsilon: float, given: bool = False
    ) -> None:
        self.xp, self.dtype = xp, dtype
        self.shape = (outer, channels, inner)
        self.channels, self.elements = channels, outer * inner
        self.epsilon = epsilon
        self.is_last = inner == 1
        self.given = given
        self.kernels: dict[tuple[str, bool], CudaKernel] = {}
        # the lanes of a block lie along the elements that are neighbours in memory
        self.lanes = WARP if self.is_last else lanes_for(inner)
        self.across = -(-channels // WARP) if self.is_last else channels
        rows = THREADS // self.lanes
        most = min(-(-outer // rows), max(1, _BLOCKS // self.across))
        self.parts = max(1, min(most, self.elements * (WARP if self.is_last else 1) // _PART))
        self.sums = [xp.empty((self.parts, channels), sum_dtype(dtype)) for _ in range(2)]
        self.numbers = [xp.empty(channels, sum_dtype(dtype)) for _ in range(5)]

    def _launch(
        self, name: str, grid: Grid, arrays: Sequence[Any], numbers: Sequence[Any], frozen: bool = False
    ) -> None:
        if (name, frozen) not in self.kernels:
            switches = zip(_SWITCHES, map(int, (self.is_last, self.given, frozen)), strict=True)
            self.kernels[name, frozen] = CudaKernel(self.xp, name, _FILES, self.dtype, tuple(switches))
        self.kernels[name, frozen](*grid, arrays, numbers)

    def _of_parts(self, name: str, *arrays: Any) -> None:
        """A kernel that sums up parts of channels."""
        grid = (self.across, self.parts), (self.lanes, THREADS // self.lanes)
        self._launch(name, grid, (*arrays, *self.sums), self.shape)

    def _of_channels(
        self, name: str, arrays: Sequence[Any], numbers: Sequence[Any], frozen: bool = False
    ) -> None:
        """A kernel with a thread for each channel."""
        self._launch(name, element_grid(self.channels), arrays, numbers, frozen)

    def _of_elements(self, name: str, *arrays: Any) -> None:
        """A kernel that goes through all elements."""
        outer, channels, inner = self.shape
        rows, columns = (outer, channels) if self.is_last else (outer * channels, inner)
        self._launch(name, row_grid(rows, columns), arrays, (rows, columns, channels))

    def train(
        self,
        x: Any,
        scale: Any,
        bias: Any,
        running: tuple[Any, Any],
        momentum: float,
        y: Any,
        running_out: tuple[Any, Any],
        saved: tuple[Any, Any],
    ) -> None:
        """y = the normalised x; the running statistics move towards the batch's, which are `saved`."""
        factor, shift = self.numbers[:2]
        self._of_parts("batch_norm_sums", x)
        arrays = (x, *self.sums, scale, bias, *running, *running_out, *saved, factor, shift)
        sizes = (self.parts, self.channels, self.shape[2], self.elements)
        self._of_channels("batch_norm_statistics", arrays, (*sizes, float(momentum), self.epsilon))
        self._of_elements("batch_norm_apply", x, factor, shift, y)

    def infer(self, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, y: Any) -> None:
        """y = x normalised by given statistics."""
        factor, shift = self.numbers[:2]
        arrays = (scale, bias, mean, variance, factor, shift)
        self._of_channels("batch_norm_given", arrays, (self.channels, self.epsilon))
        self._of_elements("batch_norm_apply", x, factor, shift, y)

    def gradient(
        self,
        x: Any,
        d: Any,
        scale: Any,
        statistics: tuple[Any, Any],
        outs: tuple[Any | None, Any | None, Any | None],
        frozen: bool,
    ) -> None:
        """Gradients of x, scale and bias, those that are wanted; `statistics` are the mean and one over the
        deviation (or, where they are given, the variance), which are constants where `frozen`.
        """
        mean, inverse = statistics
        dx, *factors = outs
        factor, slope, shift, *spare = self.numbers
        self._of_parts("batch_norm_grad_sums", x, d, mean)
        dscale, dbias = (other if out is None else out for out, other in zip(factors, spare, strict=True))
        arrays = (*self.sums, scale, inverse, dscale, dbias, factor, slope, shift)
        sizes = (self.parts, self.channels, self.elements)
        self._of_channels("batch_norm_grad_statistics", arrays, (*sizes, self.epsilon), frozen)
        if dx is None:
            return
        if frozen:  # x has no part in it, not even an infinite one by a slope of 0
            self._of_elements("batch_norm_apply", d, factor, shift, dx)
        else:
            self._of_elements("batch_norm_grad_apply", x, d, mean, factor, slope, shift, dx)

    @staticmethod
    def explained(outer: int, channels: int, inner: int, *_: Sequence[Any]) -> str:
        """A line for people."""
        return f"CUDA kernels batch_norm_*, over {outer} x {channels} channels x {inner} elements"
