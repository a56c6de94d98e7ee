"""The CUDA side of plans: runs of element-wise steps as one kernel each, a NumPy-shaped namespace over CuPy,
graph capture.

Kernels are text made from the same scalar expressions as the CPU's calls; NVRTC compiles them, with or
without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES

__all__ = ["CapturedStep", "FusedKernel", "Namespace", "Part", "kernel_text"]

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long long",
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
}
THREADS = 256
MAX_BLOCKS = 4096


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
        first, stride = "block * (long long)blockDim.x + threadIdx.x", f"{self.blocks}LL * blockDim.x"
        lines = [f"    for (long long i = {first}; i < {self.size}LL; i += {stride}) {{"]
        for value in self.inputs:
            place = f"p{value.number}{suffix}[{_index(value.shape or (), shape)}]"
            lines.append(f"      const {C_TYPES[str(value.dtype)]} v{value.number} = {place};")
        for action, out in self.run:
            lines.append(f"      const {C_TYPES[str(out.dtype)]} v{out.number} = {_expression(action, out)};")
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
    return "\n".join([*lines, "}", ""])


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
        return _operand(kind.operands[0], out.dtype)
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
    return f"({C_TYPES[str(out.dtype)]})({text})"


_NOT_FINITE = {"nan": "NAN", "inf": "(INFINITY)", "-inf": "(-INFINITY)"}


def _operand(item: Any, dtype: Any) -> str:
    kind = C_TYPES[str(dtype)]
    if isinstance(item, Value):
        return f"v{item.number}" if item.dtype == dtype else f"({kind})v{item.number}"
    number = float(item) if np.dtype(dtype).kind == "f" else item
    if isinstance(number, float) and not math.isfinite(number):
        return f"({kind}){_NOT_FINITE[str(number)]}"
    if isinstance(number, bool):
        return f"({kind})({str(number).lower()})"
    return f"({kind})({number!r})"


class FusedKernel:
    """A generated kernel; compiled when a plan is first bound on a device, launched by calling it with
    arrays.
    """

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name = name
        self.parts = list(parts)
        self.text = kernel_text(name, parts)
        self.blocks = sum(part.blocks for part in parts)
        self.raw: Any = None

    def compile(self, cupy: Any) -> None:
        """Let NVRTC compile the text for the current device."""
        if self.raw is None:
            self.raw = cupy.RawKernel(self.text, self.name)

    def __call__(self, *arrays: Any) -> None:
        self.raw((self.blocks,), (THREADS,), arrays)


class _Reducing:
    """A CuPy function together with NumPy's `ufunc.reduce`."""

    def __init__(self, function: Any, reduction: Any) -> None:
        self.function = function
        self.reduction = reduction

    def __call__(self, *operands: Any, **options: Any) -> Any:
        return self.function(*operands, **options)

    def reduce(self, array: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
        """The reduction over `axis`, into `out`."""
        return self.reduction(array, axis=axis, keepdims=keepdims, out=out)


class Namespace:
    """CuPy with the few NumPy spellings that generated plans use and CuPy lacks."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.add = _Reducing(cupy.add, cupy.sum)
        self.maximum = _Reducing(cupy.maximum, cupy.amax)
        self.minimum = _Reducing(cupy.minimum, cupy.amin)
        self.multiply = _Reducing(cupy.multiply, cupy.prod)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy, name)

    def take(
        self, array: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "clip"
    ) -> Any:
        """`take`; CuPy has no `mode`, and wraps what is outside."""
        return self._cupy.take(array, indices, axis=axis, out=out)


class CapturedStep:
    """A whole step captured into a CUDA graph: one launch instead of one for each kernel.

    The first run goes op by op, so that libraries set up what they need; the second is captured. Where
    capture fails, because something in the step needs the host, steps go on op by op.
    """

    def __init__(self, cupy: Any, step: Any) -> None:
        self.cupy = cupy
        self.step = step
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.runs = 0
        self.graph: Any = None
        self.result: Any = None
        self.inputs: list[Any] = []
        self.pinned: dict[int, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        # what was fed, or set in a scope, was put there on the caller's stream, for which this one does not
        # wait by itself
        self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        with self.stream:
            self._feed(arguments)
            if self.graph is not None:
                self.graph.launch(self.stream)
            elif self.runs == 1:
                self._capture()
            else:
                self.result = self.step(*self.inputs)
            self.runs += 1
        # the caller reads the result on another stream
        self.stream.synchronize()
        return self.result

    def _feed(self, arguments: Sequence[Any]) -> None:
        """Copy what was fed to where the captured step reads it."""
        if not self.inputs:
            self.inputs = [self.cupy.array(item) for item in arguments]
            return
        for number, (place, item) in enumerate(zip(self.inputs, arguments, strict=True)):
            if isinstance(item, np.ndarray):
                place.set(self._pin(number, item), stream=self.stream)
            else:
                self.cupy.copyto(place, item)

    def _pin(self, number: int, item: Any) -> Any:
        """A copy in page-locked memory, which the device fetches by itself; the step before has ended, so
        nobody reads the old one.
        """
        if number not in self.pinned:
            memory = self.cupy.cuda.alloc_pinned_memory(max(item.nbytes, 1))
            self.pinned[number] = np.frombuffer(memory, item.dtype, item.size).reshape(item.shape)
        np.copyto(self.pinned[number], item)
        return self.pinned[number]

    def _capture(self) -> None:
        self.stream.begin_capture()
        try:
            self.result = self.step(*self.inputs)
        except Exception:
            self.stream.end_capture()
            self.runs = 2  # never again: something in this step needs the host
            self.result = self.step(*self.inputs)
            return
        self.graph = self.stream.end_capture()
        self.graph.launch(self.stream)
