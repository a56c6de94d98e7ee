"""Kernels that reduce the rows of a matrix: softmax, cross-entropy, norms of rows and groups, gradients."""

from __future__ import annotations

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
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["FILES", "DeviceAccuracy", "DeviceLayerNormGrad", "DeviceRows", "lanes_for", "row_grid"]

FILES = {
    "softmax": ("blocks.cuh", "softmax.cu"),
    "softmax_grad": ("blocks.cuh", "softmax.cu"),
    "softmax_with_cross_entropy": ("blocks.cuh", "softmax.cu"),
    "softmax_with_cross_entropy_grad": ("blocks.cuh", "softmax.cu"),
    "cross_entropy2": ("blocks.cuh", "softmax.cu"),
    "cross_entropy_grad2": ("blocks.cuh", "softmax.cu"),
    "layer_norm": ("blocks.cuh", "columns.cuh", "layer_norm.cu"),
    "layer_norm_grad": ("blocks.cuh", "columns.cuh", "layer_norm.cu"),
    "layer_norm_sums": ("blocks.cuh", "columns.cuh", "layer_norm.cu"),
    "group_norm": ("blocks.cuh", "group_norm.cu"),
    "group_norm_grad": ("blocks.cuh", "group_norm.cu"),
    "group_norm_sums": ("blocks.cuh", "group_norm.cu"),
    "add_parts": ("blocks.cuh", "columns.cuh"),
    "top_k": ("blocks.cuh", "top_k.cu"),
    "accuracy": ("blocks.cuh", "top_k.cu"),
    "lookup": ("blocks.cuh", "embedding.cu"),
    "sum_pieces": ("blocks.cuh", "embedding.cu"),
    "add_pieces": ("blocks.cuh", "embedding.cu"),
    "put_rows": ("blocks.cuh", "embedding.cu"),
}
_SWITCHES = {
    "softmax.cu": ("EACH_ROW",),
    "embedding.cu": ("BY_PLACE",),
    "group_norm.cu": ("SCALED", "SHIFTED", "FROM_RESULT"),
    "layer_norm.cu": ("SCALED", "SHIFTED"),
}
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


class DeviceLayerNormGrad(OwnObject):
    """gradient(x, scale, mean, variance, d, dx, dscale, dbias); what is not wanted is None."""

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, epsilon: float, scaled: bool) -> None:
        switches = ["SCALED"] if scaled else []
        self.of_rows = DeviceRows(xp, "layer_norm_grad", rows, columns, dtype, (epsilon,), switches)
        self.sums = _kernel(xp, "layer_norm_sums", dtype, switches)
        self.add = _kernel(xp, "add_parts", dtype, ())
        self.parts = min(_PARTS, max(1, -(-rows // _PART)))  # of no rows too: their sum is 0
        self.columns = columns
        self.numbers = (rows, columns, epsilon)
        self.weights, self.biases = (xp.empty((self.parts, columns), sum_dtype(dtype)) for _ in range(2))

    def __call__(
        self, x: Any, scale: Any, mean: Any, variance: Any, d: Any, dx: Any, dscale: Any, dbias: Any
    ) -> None:
        if dx is not None:
            self.of_rows(x, scale, mean, variance, d, dx)
        if dscale is None and dbias is None:
            return
        blocks = (-(-self.columns // WARP), self.parts)
        arrays = (x, mean, variance, d, self.weights, self.biases)
        self.sums(blocks, (WARP, THREADS // WARP), arrays, self.numbers)
        for parts, out in ((self.weights, dscale), (self.biases, dbias)):
            if out is not None:
                self.add(*element_grid(self.columns), (parts, out), (self.parts, self.columns))

    @staticmethod
    def explained(rows: int, columns: int, *_: Any) -> str:
        """A line for people."""
        lanes = lanes_for(columns)
        return f"CUDA kernels layer_norm_grad, {lanes} threads to a row, and layer_norm_sums"


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
