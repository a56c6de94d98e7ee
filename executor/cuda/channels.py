"""Kernels over channels on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fluidlite.executor.cuda.channel_text import FILES, arrays_of, channels_text, launches_of, numbers_of
from fluidlite.executor.cuda.kernel import THREADS, WARP, CudaKernel, Grid, element_grid, sum_dtype
from fluidlite.executor.cuda.rows import lanes_for, row_grid
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.ops.kernels.channel_steps import ChannelStep, channel_steps
from fluidlite.ops.kernels.row_kernels import RowForm

__all__ = ["DeviceChannels"]

_PART = 2048  # elements that are worth a block of their own
_BLOCKS = 1024  # blocks that keep all processors of a device busy


class _Launch(NamedTuple):
    kernel: CudaKernel
    grid: Grid
    names: Sequence[str]
    """Its arrays."""
    numbers: Sequence[Any]


class DeviceChannels(OwnObject):
    """`call(*arrays)` computes a kernel over channels for arrays of (outer, channels, inner) elements that
    lie without gaps: the channels are last where `inner` is 1. The arrays are those of the form, inputs
    before outputs; what belongs to channels is of the type of sums. An output that does may lie
    where an input does, if only numbers of channels are made of that.

    There are three launches, as a rule: sums of parts of each channel, the numbers that they come to, and
    one that goes through all elements.
    """

    def __init__(
        self, xp: Any, form: RowForm, sizes: tuple[int, int, int], dtype: Any, numbers: Sequence[float]
    ) -> None:
        self.xp, self.dtype, self.sizes = xp, dtype, sizes
        outer, channels, inner = sizes
        self.is_last = inner == 1
        self.names = [*form.inputs, *form.outputs]
        self.values = dict(zip(form.numbers, map(float, numbers), strict=True))
        # the lanes of a block lie along the elements that are neighbours in memory
        self.lanes = WARP if self.is_last else lanes_for(inner)
        self.across = -(-channels // WARP) if self.is_last else channels
        rows = THREADS // self.lanes
        most = min(-(-outer // rows), max(1, _BLOCKS // self.across))
        self.parts = max(1, min(most, outer * inner * (WARP if self.is_last else 1) // _PART))
        self.own: dict[str, Any] = {}
        """The arrays that launches leave to those behind them."""
        for step in channel_steps(form):
            shape = (self.parts, channels) if step.kind == "sums" else (channels,)
            new = [name for name in step.form.outputs if name not in self.names]
            self.own |= {name: xp.empty(shape, sum_dtype(dtype)) for name in new}
        self.launches = [self._launch(kind, steps) for kind, steps in launches_of(form)]

    def _launch(self, kind: str, steps: Sequence[ChannelStep]) -> _Launch:
        outer, channels, inner = self.sizes
        rows, columns = (outer, channels) if self.is_last else (outer * channels, inner)
        grids: dict[str, Grid] = {
            "sums": ((self.across, self.parts), (self.lanes, THREADS // self.lanes)),
            "numbers": element_grid(channels),
            "elements": row_grid(rows, columns),
        }
        sizes = {
            "sums": self.sizes,
            "numbers": (self.parts, channels, inner, outer * inner),
            "elements": (rows, columns, channels),
        }
        text = channels_text(kind, steps)
        name = steps[-1].form.kernel.name
        kernel = CudaKernel(self.xp, name, FILES, self.dtype, [("LAST", int(self.is_last))], text)
        values = [self.values[number] for number in numbers_of(steps)]
        return _Launch(kernel, grids[kind], arrays_of(steps), (*sizes[kind], *values))

    def __call__(self, *arrays: Any) -> None:
        held = {**self.own, **dict(zip(self.names, arrays, strict=True))}
        for launch in self.launches:
            launch.kernel(*launch.grid, [held[name] for name in launch.names], launch.numbers)

    @staticmethod
    def explained(form: RowForm, sizes: Sequence[int], *_: Any) -> str:
        """A line for people."""
        outer, channels, inner = sizes
        name = form.kernel.name
        return f"CUDA kernels {name}_*, over {outer} x {channels} channels x {inner} elements"
