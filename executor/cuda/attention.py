"""Attention on a device, forward and backward, without arrays of scores and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.executor.cuda.kernel import C_TYPES, MAX_BLOCKS, CudaKernel
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["AttentionForm", "DeviceAttention"]

_FORWARD = ("blocks.cuh", "attention.cuh", "attention.cu")
_BACKWARD = ("blocks.cuh", "attention.cuh", "attention_grad.cu")
_SIDE = 16  # threads of a block in each direction
_DEEP = 64  # elements of a head from which on tiles are smaller: a block has 48 KB of shared memory


@dataclass(frozen=True)
class AttentionForm:
    """Sizes and numbers of softmax(alpha * q k' + bias) v for `batch` x `heads` matrices; the weights are
    multiplied with `grown`, and with 0 where a mask says so; the gradients of q and k with `steep`.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    dtype: str
    alpha: float = 1.0
    grown: float = 1.0
    steep: float = 1.0
    masked: bool = False
    bias_dtype: str | None = None
    bias_steps: tuple[int, ...] = (0, 0, 0, 0)
    """Elements from one batch, head, query and key to the next; 0 where one serves for all."""

    @property
    def stacks(self) -> int:
        """The number of matrices."""
        return self.batch * self.heads

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The numbers that all kernels take."""
        sizes = (self.stacks, self.heads, self.queries, self.keys, self.depth, self.width)
        return (*sizes, *self.bias_steps, self.alpha, self.grown)

    def switches(self, high: int, wide: int) -> tuple[tuple[str, int | str], ...]:
        """The macros of the text for tiles of so many queries and keys."""
        size = -(-max(self.depth, self.width) // _SIDE) * _SIDE
        bias = C_TYPES[self.bias_dtype or self.dtype]
        known: dict[str, int | str] = {"HIGH": high, "WIDE": wide, "SIZE": size, "BIAS": bias}
        return (*known.items(), ("BIASED", int(self.bias_dtype is not None)), ("DROPPED", int(self.masked)))

    @property
    def is_deep(self) -> bool:
        """True if the heads need smaller tiles."""
        return max(self.depth, self.width) > _DEEP


class DeviceAttention(OwnObject):
    """forward(q, k, v, bias, mask, out, tops, shares), and behind it backward(q, k, v, bias, mask, out, tops,
    shares, d, dq, dk, dv); bias and mask may be None.

    `tops` and `shares` are of float32, a number for each query: the largest score, and one over the sum of
    the weights beside it.
    """

    def __init__(self, xp: Any, form: AttentionForm) -> None:
        self.xp, self.form = xp, form
        self.kernels: dict[str, CudaKernel] = {}
        self.sums: Any = None

    def _launch(
        self, name: str, tile: tuple[int, int], blocks: int, arrays: Sequence[Any], *numbers: float
    ) -> None:
        if name not in self.kernels:
            switches = self.form.switches(*tile)
            files = _FORWARD if name == "attention" else _BACKWARD
            self.kernels[name] = CudaKernel(self.xp, name, files, self.form.dtype, switches)
        count = (min(self.form.stacks * blocks, MAX_BLOCKS),)
        self.kernels[name](count, (_SIDE, _SIDE), arrays, (*self.form.numbers, *numbers))

    def forward(self, *arrays: Any) -> None:
        """One launch: a block for each tile of queries."""
        tile = (32, 32) if self.form.is_deep else (64, 32)
        self._launch("attention", tile, -(-self.form.queries // tile[0]), arrays)

    def backward(self, *arrays: Any) -> None:
        """Two launches: a block for each tile of queries, then of keys."""
        *given, out, tops, shares, d, dq, dk, dv = arrays
        form = self.form
        side = 16 if form.is_deep else 32
        rows, columns = (-(-count // side) for count in (form.queries, form.keys))
        if self.sums is None:
            self.sums = self.xp.empty(form.stacks * form.queries, "float32")
        statistics = (tops, shares, self.sums)
        self._launch("queries_grad", (side, side), rows, (*given, out, d, *statistics, dq), form.steep)
        self._launch("keys_grad", (side, side), columns, (*given, d, *statistics, dk, dv), form.steep)

    @staticmethod
    def explained(form: AttentionForm) -> str:
        """A line for people."""
        sizes = f"{form.queries} queries, {form.keys} keys, heads of {form.depth}"
        return f"CUDA kernel attention (and queries_grad, keys_grad), {form.stacks} x {sizes}"
