"""Runs of element-wise steps as one CUDA kernel each.

Kernels are text made from the same scalar expressions as the CPU's calls; NVRTC compiles them, with or
without a GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.executor.cuda.kernel import (
    C_TYPES,
    COMPUTED,
    HALF,
    MAX_BLOCKS,
    NOT_FINITE,
    NOT_FINITE_NUMBERS,
    THREADS,
)
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.objects import BindContext, PlanObject
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES

__all__ = ["FusedKernel", "Part", "kernel_text"]


@dataclass(frozen=True)
class Part:
    """A run of element-wise steps of one shape: one loop of a kernel."""

    run: tuple[tuple[Any, Value], ...]
    """Element-wise actions with their outputs."""
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.run[0][1].size

    @property
    def blocks(self) -> int:
        """The number of blocks of threads that share the elements."""
        # rounded up; beyond the limit each thread takes several elements
        return min(-(-self.size // THREADS), MAX_BLOCKS)

    def parameters(self, suffix: str) -> list[str]:
        """The declarations of the pointers."""
        return [
            *(f"const {C_TYPES[str(value.dtype)]}* p{value.number}{suffix}" for value in self.inputs),
            *(f"{C_TYPES[str(value.dtype)]}* q{value.number}{suffix}" for value in self.outputs),
        ]

    def loop(self, suffix: str) -> list[str]:
        """One thread an element, in a grid-stride loop over this part's blocks."""
        shape = self.run[0][1].shape or ()
        first = "block * (long long)blockDim.x + threadIdx.x"
        stride = f"{self.blocks}LL * blockDim.x"
        lines = [f"    for (long long i = {first}; i < {self.size}LL; i += {stride}) {{"]
        for value in self.inputs:
            place = f"p{value.number}{suffix}[{_index(value.shape or (), shape)}]"
            lines.append(f"      const {COMPUTED[str(value.dtype)]} v{value.number} = {place};")
        for action, out in self.run:
            lines.append(
                f"      const {COMPUTED[str(out.dtype)]} v{out.number} = {_expression(action, out)};"
            )
        return [
            *lines,
            *(f"      q{value.number}{suffix}[i] = v{value.number};" for value in self.outputs),
            "    }",
        ]


def kernel_text(name: str, parts: Sequence[Part]) -> str:
    """CUDA C of one kernel for all parts: each has blocks of its own, behind those of the parts before it."""
    suffixes = [""] if len(parts) == 1 else [f"_{number}" for number in range(len(parts))]
    parameters = [
        text for part, suffix in zip(parts, suffixes, strict=True) for text in part.parameters(suffix)
    ]
    lines = [
        f'extern "C" __global__ void {name}({", ".join(parameters)}) {{',
        # 64 bits: arrays of more than 2 ** 31 elements exist
        "  long long block = blockIdx.x;",
    ]
    for part, suffix in zip(parts, suffixes, strict=True):
        lines += [
            f"  if (block < {part.blocks}LL) {{",
            *part.loop(suffix),
            "    return;",
            "  }",
            f"  block -= {part.blocks}LL;",
        ]
    text = "\n".join([*lines, "}", ""])
    if "half* " in text or "rounded(" in text:
        text = HALF + text
    return NOT_FINITE + text if any(name in text for name in NOT_FINITE_NUMBERS.values()) else text


def _index(shape: Sequence[int], out: Sequence[int]) -> str:
    """The index at which element i of the output reads an operand of `shape` broadcast to `out`."""
    if tuple(shape) == tuple(out):
        return "i"
    # NumPy's alignment, on the right
    padded = (1,) * (len(out) - len(shape)) + tuple(shape)
    terms = []
    stride = 1
    inner = 1
    for have, want in zip(reversed(padded), reversed(out), strict=True):
        if have != 1:
            position = f"i / {inner}LL" if inner > 1 else "i"
            terms.append(f"({position}) % {want}LL * {stride}LL")
            stride *= have
        inner *= want
    return " + ".join(reversed(terms)) or "0"


def _expression(kind: Elementwise, out: Value) -> str:
    """The CUDA text of an element-wise action."""
    assert out.dtype is not None
    if kind.function == "copy":
        return _kept(out, _operand(kind.operands[0], out.dtype))
    dtypes = [item.dtype for item in kind.operands if isinstance(item, Value) and item.dtype is not None]
    # a comparison is made in the dtype of its operands; its own is bool
    common = np.result_type(*dtypes) if kind.function in PREDICATES else out.dtype
    operands = [_operand(item, common) for item in kind.operands]
    if kind.function == "where":
        operands = [
            _operand(kind.operands[0], np.dtype(bool)),
            *(_operand(item, out.dtype) for item in kind.operands[1:]),
        ]
    text = FUNCTIONS[kind.function][1].format(*operands)
    return _kept(out, f"({COMPUTED[str(out.dtype)]})({text})")


def _kept(out: Value, text: str) -> str:
    """A result as the array would hold it: variables are rounded to half precision, what an op computes on
    the way to one is not.
    """
    return f"rounded({text})" if out.dtype == np.float16 and out.name else text


def _operand(item: Any, dtype: Any) -> str:
    kind = COMPUTED[str(dtype)]
    if isinstance(item, Value):
        return f"v{item.number}" if item.dtype == dtype else f"({kind})v{item.number}"
    number = float(item) if np.dtype(dtype).kind == "f" else item
    if isinstance(number, float) and not math.isfinite(number):
        return f"({kind}){NOT_FINITE_NUMBERS[str(number)]}"
    if isinstance(number, bool):
        return f"({kind})({str(number).lower()})"
    return f"({kind})({number!r})"


class FusedKernel(PlanObject):
    """A generated kernel; compiled when a plan is first bound on a device, launched by calling it with
    arrays.
    """

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name = name
        self.parts = list(parts)
        self.blocks = sum(part.blocks for part in parts)
        self.raw: Any = None

    @functools.cached_property
    def text(self) -> str:
        """The CUDA C, made when it is asked for: most kernels of updates are first merged with others."""
        return kernel_text(self.name, self.parts)

    def bind(self, context: BindContext) -> FusedKernel:
        """The kernel itself, compiled."""
        self.compile(context.module)
        return self

    def compile(self, cupy: Any) -> None:
        """Let NVRTC compile the text for the current device."""
        if self.raw is None:
            self.raw = cupy.RawKernel(self.text, self.name)

    def __call__(self, *arrays: Any) -> None:
        self.raw((self.blocks,), (THREADS,), arrays)
