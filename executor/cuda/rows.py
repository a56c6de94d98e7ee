"""Kernels over the rows of a matrix on a device: those that ops declare, and those written by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluidlite.executor.cuda.kernel import (
    MAX_BLOCKS,
    THREADS,
    WARP,
    CudaKernel,
    Grid,
    element_grid,
    sum_dtype,
)
from fluidlite.executor.cuda.row_text import has_tiles, rows_text, totals_text
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.ops.kernels.row_kernels import RowForm

__all__ = ["FILES", "DeviceAccuracy", "DeviceRowKernel", "DeviceRows", "lanes_for", "row_grid"]

FILES = {
    "cross_entropy2": ("blocks.cuh", "softmax.cu"),
    "cross_entropy_grad2": ("blocks.cuh", "softmax.cu"),
    "add_parts": ("blocks.cuh", "columns.cuh"),
    "top_k": ("blocks.cuh", "top_k.cu"),
    "accuracy": ("blocks.cuh", "top_k.cu"),
    "lookup": ("blocks.cuh", "embedding.cu"),
    "sum_pieces": ("blocks.cuh", "embedding.cu"),
    "add_pieces": ("blocks.cuh", "embedding.cu"),
    "put_rows": ("blocks.cuh", "embedding.cu"),
}
_SWITCHES = {"embedding.cu": ("BY_PLACE",)}
_FOR_ROWS, _FOR_SUMS = ("blocks.cuh",), ("blocks.cuh", "columns.cuh")
_EACH = 4  # elements that a lane should at least have
_PART = 256  # rows that are worth a block of their own in sums over rows
_PARTS = 64


def lanes_for(columns: int) -> int:
    """The threads that share a row: a power of two, at most all of a block."""
    wanted = -(-columns // _EACH)
    return min(THREADS, 1 << max(0, wanted - 1).bit_length())


def row_grid(rows: int, columns: int) -> Grid:
    """Lanes along each row and rows beside each other: `FOR_EACH_ROW` of `blocks.cuh`."""
    lanes = lanes_for(columns)
    beside = THREADS // lanes
    return (min(-(-rows // beside), MAX_BLOCKS),), (lanes, beside)


def _kernel(xp: Any, name: str, dtype: Any, switches: Sequence[str]) -> CudaKernel:
    known = [switch for file in FILES[name] for switch in _SWITCHES.get(file, ())]
    return CudaKernel(xp, name, FILES[name], dtype, [(switch, int(switch in switches)) for switch in known])


class DeviceRows(OwnObject):
    """`call(*arrays)` launches the kernel of that name over the rows of a matrix; the arrays in the order of
    its parameters, behind which it gets `numbers`.
    """

    def __init__(
        self,
        xp: Any,
        name: str,
        rows: int,
        columns: int,
        dtype: Any,
        numbers: Sequence[Any] = (),
        switches: Sequence[str] = (),
    ) -> None:
        self.kernel = _kernel(xp, name, dtype, switches)
        self.numbers = (rows, columns, *numbers)
        self.is_empty = not rows * columns
        self.grid = row_grid(rows, columns)

    def __call__(self, *arrays: Any) -> None:
        if not self.is_empty:  # a launch of no blocks is refused
            self.kernel(*self.grid, arrays, self.numbers)

    @staticmethod
    def explained(name: str, rows: int, columns: int, *_: Any) -> str:
        """A line for people."""
        lanes = lanes_for(columns)
        return f"CUDA kernel {name}, {lanes} threads to a row, {THREADS // lanes} rows to a block"


class DeviceRowKernel(OwnObject):
    """`call(*arrays)` computes a row kernel; the arrays are those of the form, inputs before outputs."""

    def __init__(
        self, xp: Any, form: RowForm, sizes: Sequence[int], dtype: Any, numbers: Sequence[Any]
    ) -> None:
        size_of = dict(zip(form.kernel.axes, sizes, strict=True))

        def size(axes: str) -> int:
            return math.prod(size_of[axis] for axis in axes)

        self.inputs = len(form.inputs)
        self.numbers = (*sizes, *form.typed(numbers))
        self.is_empty = not size(form.kernel.axes)
        names, totals = form.outputs, form.totals
        self.positions = [place for place, name in enumerate(names) if name not in totals]
        self.total_positions = [names.index(name) for name in totals]
        if self.positions:
            self.rows = CudaKernel(xp, form.kernel.name, _FOR_ROWS, dtype, text=rows_text(form))
            self.shape = size(form.kernel.rows), size(form.kernel.columns)
        if not totals:
            return
        name = f"{form.kernel.name}_sums"
        self.sums = CudaKernel(xp, name, _FOR_SUMS, dtype, text=totals_text(form))
        kept = form.axes[totals[0]]
        self.of_total = size(kept)
        self.summed = size("".join(axis for axis in form.kernel.axes if axis not in kept))
        self.parts: list[Any] = []
        if has_tiles(form):
            self.add = _kernel(xp, "add_parts", dtype, ())
            count = min(_PARTS, max(1, -(-self.summed // _PART)))  # of no rows too: their sum is 0
            self.parts = [xp.empty((count, self.of_total), sum_dtype(dtype)) for _ in totals]

    def __call__(self, *arrays: Any) -> None:
        given, outs = arrays[: self.inputs], arrays[self.inputs :]
        if self.positions and not self.is_empty:  # a launch of no blocks is refused
            written = [outs[place] for place in self.positions]
            self.rows(*row_grid(*self.shape), (*given, *written), (*self.shape, *self.numbers))
        if self.total_positions and self.of_total:
            self._sum(given, [outs[place] for place in self.total_positions])

    def _sum(self, given: Sequence[Any], outs: Sequence[Any]) -> None:
        """The sums over rows."""
        if not self.parts:
            sizes = self.of_total, self.summed
            self.sums(*row_grid(*sizes), (*given, *outs), (*sizes, *self.numbers))
            return
        count = len(self.parts[0])
        grid = (-(-self.of_total // WARP), count), (WARP, THREADS // WARP)
        self.sums(*grid, (*given, *self.parts), (self.summed, self.of_total, *self.numbers))
        for parts, out in zip(self.parts, outs, strict=True):
            self.add(*element_grid(self.of_total), (parts, out), (count, self.of_total))

    @staticmethod
    def explained(form: RowForm, sizes: Sequence[int], *_: Any) -> str:
        """A line for people."""
        size_of = dict(zip(form.kernel.axes, sizes, strict=True))
        lanes = lanes_for(math.prod(size_of[axis] for axis in form.kernel.columns))
        name = form.kernel.name
        text = f"CUDA kernel {name}, {lanes} threads to a row, {THREADS // lanes} rows to a block"
        return f"{text}, and {name}_sums" if form.totals else text


class DeviceAccuracy(OwnObject):
    """call(indices, label, accuracy, correct, total): the share of rows that have their label among `k`
    indices, 0 of no rows.
    """

    def __init__(self, xp: Any, rows: int, k: int) -> None:
        self.kernel = _kernel(xp, "accuracy", "float32", ())
        self.numbers = (rows, k)

    def __call__(self, *arrays: Any) -> None:
        self.kernel((1,), (THREADS,), arrays, self.numbers)

    @staticmethod
    def explained(rows: int, k: int) -> str:
        """A line for people."""
        return f"CUDA kernel accuracy, {k} of {rows} rows each"
