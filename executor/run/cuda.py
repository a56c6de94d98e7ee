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

from fluidlite.executor.compile.plan_ir import Step, Storage, Value
from fluidlite.ir.operator import OpRole
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES

__all__ = ["FusedKernel", "Graph", "Namespace", "group", "kernel_text"]

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
MAX_POINTERS = 400  # a launch takes 4 KB of arguments
_FLOAT_ONLY = frozenset(("mod", "floordiv", "fmod", "pow"))


def group(steps: Sequence[Step], kept: Sequence[Value], bound: dict[str, Any]) -> list[Step]:
    """Steps with each run of element-wise steps of one shape replaced by the launch of one fused kernel."""
    result: list[Step] = []
    run: list[Step] = []

    def close() -> None:
        if run:
            result.append(_launch(list(run), steps, kept, bound))
            run.clear()

    for step in steps:
        if _fusible(step) and (not run or step.writes[0].shape == run[0].writes[0].shape):
            run.append(step)
        elif step.is_view and not any(step.reads[0].root is other.writes[0].root for other in run):
            result.append(step)
        else:
            close()
            run.extend([step] if _fusible(step) else [])
            result.extend([] if run else [step])
    close()
    return _side_by_side(result, bound)


def _side_by_side(steps: Sequence[Step], bound: dict[str, Any]) -> list[Step]:
    """Steps with the updates of many parameters in few launches: what knows nothing of each other goes
    side by side.
    """
    result: list[Step] = []
    updates: list[Step] = []
    for step in [*steps, None]:
        if step is not None and _is_update(step, bound):
            updates.append(step)
            continue
        if (
            step is not None
            and step.is_view
            and not any(step.reads[0].root is value.root for other in updates for value in other.writes)
        ):
            result.append(step)
            continue
        for level in _levels(updates):
            result += _in_launches(level, bound)
        updates.clear()
        result += [step] if step is not None else []
    return result


def _levels(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps by how many others must have run before them."""
    levels: list[list[Step]] = []
    for step in steps:
        depth = next(
            (
                number
                for number in range(len(levels), 0, -1)
                if not all(_independent(other, step) for other in levels[number - 1])
            ),
            0,
        )
        levels += [[]] * (depth == len(levels))
        levels[depth] = [*levels[depth], step]
    return levels


def _in_launches(steps: Sequence[Step], bound: dict[str, Any]) -> list[Step]:
    """Independent launches, as few as the number of pointers that one takes allows."""
    result: list[Step] = []
    for step in steps:
        last = result[-1] if result else None
        if (
            last is not None
            and sum(len(found) for each in (last, step) for found in (each.reads, each.writes))
            <= MAX_POINTERS
        ):
            result[-1] = _merged(last, step, bound)
        else:
            result.append(step)
    return result


def _is_update(step: Step, bound: dict[str, Any]) -> bool:
    """Whether a step launches the kernel of an optimizer op."""
    if step.op is None or not step.op.role & OpRole.Optimize or not step.lines:
        return False
    return isinstance(bound.get(step.lines[0].partition("(")[0]), FusedKernel)


def _independent(first: Step, second: Step) -> bool:
    """Whether two launches may run at the same time."""

    def roots(values: Sequence[Value]) -> set[Any]:
        return {
            (value.root.storage, value.root.name) if value.root.storage == Storage.PARAM else value.root
            for value in values
        }

    return not (
        roots(first.writes) & roots([*second.reads, *second.writes])
        or roots(second.writes) & roots(first.reads)
    )


def _merged(first: Step, second: Step, bound: dict[str, Any]) -> Step:
    names = [step.lines[0].partition("(")[0] for step in (first, second)]
    parts = [part for name in names for part in bound.pop(name).parts]
    bound[names[0]] = FusedKernel(names[0], parts)
    reads, writes = list(dict.fromkeys([*first.reads, *second.reads])), [*first.writes, *second.writes]
    arguments = ", ".join(str(value) for part in parts for value in (*part.inputs, *part.outputs))
    kinds = ", ".join(dict.fromkeys(step.op.type for step in (first, second) if step.op is not None))
    return Step(
        first.op,
        reads,
        writes,
        [f"{names[0]}({arguments})"],
        effect=first.effect or second.effect,
        note=f"{len(parts)} updates side by side ({kinds})",
    )


def _contiguous(value: Value) -> bool:
    """Whether a value is laid out in C order as far as the plan can tell: views are, when they only
    reshape.
    """
    while value.base is not None:
        if not value.expression.startswith("{}.reshape("):
            return False
        value = value.base
    return value.storage in (Storage.BUFFER, Storage.PARAM, Storage.CONST, Storage.FEED, Storage.FRESH)


def _fusible(step: Step) -> bool:
    kind = step.elementwise
    if kind is None or step.writes[0].shape is None or not step.writes[0].size:
        return False
    values = [item for item in (*kind.operands, step.writes[0]) if isinstance(item, Value)]
    if kind.function in _FLOAT_ONLY and any(
        value.dtype is None or value.dtype.kind != "f" for value in values
    ):
        return False
    return all(str(value.dtype) in C_TYPES and _contiguous(value) for value in values)


def _launch(run: list[Step], steps: Sequence[Step], kept: Sequence[Value], bound: dict[str, Any]) -> Step:
    """One step that launches the kernel of a run."""
    inside = {id(step) for step in run}
    needed = {value.root for step in steps if id(step) not in inside for value in step.all_reads()} | {
        value.root for value in kept
    }
    made = {step.writes[0] for step in run}
    outputs = [
        step.writes[0] for step in run if step.writes[0] in needed or step.writes[0].storage == Storage.PARAM
    ]
    inputs = list(dict.fromkeys(value for step in run for value in step.reads if value not in made))
    name = f"fused_{run[0].writes[0].number}"
    bound[name] = FusedKernel(name, [Part(tuple(run), tuple(inputs), tuple(outputs))])
    arguments = ", ".join(map(str, [*inputs, *outputs]))
    kinds = ", ".join(dict.fromkeys(step.op.type for step in run if step.op is not None))
    return Step(
        run[0].op,
        inputs,
        outputs,
        [f"{name}({arguments})"],
        effect=any(step.effect for step in run),
        note=f"{len(run)} element-wise steps fused ({kinds})",
    )


@dataclass(frozen=True)
class Part:
    """A run of element-wise steps of one shape: one loop of a kernel."""

    run: tuple[Step, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.run[0].writes[0].size

    @property
    def blocks(self) -> int:
        """How many blocks of threads share the elements."""
        return min(-(-self.size // THREADS), MAX_BLOCKS)

    def parameters(self, suffix: str) -> list[str]:
        """The declarations of the pointers."""
        return [
            *(f"const {C_TYPES[str(value.dtype)]}* p{value.number}{suffix}" for value in self.inputs),
            *(f"{C_TYPES[str(value.dtype)]}* q{value.number}{suffix}" for value in self.outputs),
        ]

    def loop(self, suffix: str) -> list[str]:
        """One thread an element, in a grid-stride loop over this part's blocks."""
        shape = self.run[0].writes[0].shape or ()
        first, stride = "block * (long long)blockDim.x + threadIdx.x", f"{self.blocks}LL * blockDim.x"
        lines = [f"    for (long long i = {first}; i < {self.size}LL; i += {stride}) {{"]
        for value in self.inputs:
            place = f"p{value.number}{suffix}[{_index(value.shape or (), shape)}]"
            lines.append(f"      const {C_TYPES[str(value.dtype)]} v{value.number} = {place};")
        for step in self.run:
            out = step.writes[0]
            lines.append(f"      const {C_TYPES[str(out.dtype)]} v{out.number} = {_expression(step)};")
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
    """Where element i of the output reads an operand of `shape` broadcast to `out`."""
    if tuple(shape) == tuple(out):
        return "i"
    padded = (1,) * (len(out) - len(shape)) + tuple(shape)
    terms, stride, inner = [], 1, 1
    for have, want in zip(reversed(padded), reversed(out), strict=True):
        if have != 1:
            position = f"i / {inner}LL" if inner > 1 else "i"
            terms.append(f"({position}) % {want}LL * {stride}LL")
            stride *= have
        inner *= want
    return " + ".join(reversed(terms)) or "0"


def _expression(step: Step) -> str:
    kind, out = step.elementwise, step.writes[0]
    assert kind is not None and out.dtype is not None
    if kind.function == "copy":
        return _operand(kind.operands[0], out.dtype)
    dtypes = [item.dtype for item in kind.operands if isinstance(item, Value) and item.dtype is not None]
    common = np.result_type(*dtypes) if kind.function in PREDICATES else out.dtype
    operands = [_operand(item, common) for item in kind.operands]
    if kind.function == "where":
        operands = [
            _operand(kind.operands[0], np.dtype(bool)),
            *(_operand(item, out.dtype) for item in kind.operands[1:]),
        ]
    text = FUNCTIONS[kind.function][1].format(*operands)
    return f"({C_TYPES[str(out.dtype)]})({text})"


def _operand(item: Any, dtype: Any) -> str:
    kind = C_TYPES[str(dtype)]
    if isinstance(item, Value):
        return f"v{item.number}" if item.dtype == dtype else f"({kind})v{item.number}"
    number = float(item) if np.dtype(dtype).kind == "f" else item
    if isinstance(number, float) and not math.isfinite(number):
        return f"({kind})NAN" if math.isnan(number) else f"({kind})({'-' if number < 0 else ''}INFINITY)"
    return f"({kind})({str(number).lower() if isinstance(number, bool) else repr(number)})"


class FusedKernel:
    """A generated kernel; compiled when a plan is first bound on a device, launched by calling it with
    arrays.
    """

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name, self.parts = name, list(parts)
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
        self.function, self.reduction = function, reduction

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


class Graph:
    """A whole step captured into a CUDA graph: one launch instead of one for each kernel.

    The first run goes op by op, so that libraries set up what they need; the second is captured. Where
    capture fails, because something in the step needs the host, steps go on op by op.
    """

    def __init__(self, cupy: Any, step: Any) -> None:
        self.cupy, self.step = cupy, step
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.runs = 0
        self.graph: Any = None
        self.result: Any = None
        self.inputs: list[Any] = []
        self.pinned: dict[int, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        with self.stream:
            self._feed(arguments)
            if self.graph is not None:
                self.graph.launch(self.stream)
            elif self.runs == 1:
                self._capture()
            else:
                self.result = self.step(*self.inputs)
            self.runs += 1
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
