"""The CUDA side of plans: runs of element-wise steps as one kernel each, a NumPy-shaped namespace over CuPy, graph capture.

Kernels are text made from the same scalar expressions as the CPU's calls; NVRTC compiles them, with or without a GPU.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.plan_ir import Step, Storage, Value
from fluidlite.ops.scalar import FUNCTIONS, PREDICATES

__all__ = ["FusedKernel", "Graph", "Namespace", "group", "kernel_text"]

C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long", "bool": "bool", "uint8": "unsigned char",
           "int8": "signed char", "int16": "short"}
THREADS = 256
MAX_BLOCKS = 4096
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
    return result


def _contiguous(value: Value) -> bool:
    """Whether a value is laid out in C order as far as the plan can tell: views are, when they only reshape."""
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
    if kind.function in _FLOAT_ONLY and any(value.dtype is None or value.dtype.kind != "f" for value in values):
        return False
    return all(str(value.dtype) in C_TYPES and _contiguous(value) for value in values)


def _launch(run: list[Step], steps: Sequence[Step], kept: Sequence[Value], bound: dict[str, Any]) -> Step:
    """One step that launches the kernel of a run."""
    inside = {id(step) for step in run}
    needed = {value.root for step in steps if id(step) not in inside for value in step.all_reads()} | {value.root for value in kept}
    made = {step.writes[0] for step in run}
    outputs = [step.writes[0] for step in run if step.writes[0] in needed or step.writes[0].storage == Storage.PARAM]
    inputs = list(dict.fromkeys(value for step in run for value in step.reads if value not in made))
    name = f"fused_{run[0].writes[0].number}"
    bound[name] = FusedKernel(name, kernel_text(name, run, inputs, outputs), run[0].writes[0].size)
    arguments = ", ".join(map(str, [*inputs, *outputs]))
    kinds = ", ".join(dict.fromkeys(step.op.type for step in run if step.op is not None))
    return Step(run[0].op, inputs, outputs, [f"{name}({arguments})"], effect=any(step.effect for step in run),
                note=f"{len(run)} element-wise steps fused ({kinds})")


def kernel_text(name: str, run: Sequence[Step], inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    """CUDA C of a run of element-wise steps over static shapes: one thread an element, in a grid-stride loop."""
    shape = run[0].writes[0].shape or ()
    parameters = [f"const {C_TYPES[str(value.dtype)]}* p{value.number}" for value in inputs]
    parameters += [f"{C_TYPES[str(value.dtype)]}* q{value.number}" for value in outputs]
    lines = [f'extern "C" __global__ void {name}({", ".join(parameters)}) {{',
             f"  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < {math.prod(shape)}LL; "
             "i += (long long)gridDim.x * blockDim.x) {"]
    for value in inputs:
        lines.append(f"    const {C_TYPES[str(value.dtype)]} v{value.number} = p{value.number}[{_index(value.shape or (), shape)}];")
    for step in run:
        out = step.writes[0]
        lines.append(f"    const {C_TYPES[str(out.dtype)]} v{out.number} = {_expression(step)};")
    lines += [f"    q{value.number}[i] = v{value.number};" for value in outputs]
    return "\n".join([*lines, "  }", "}", ""])


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
        operands = [_operand(kind.operands[0], np.dtype(bool)), *(_operand(item, out.dtype) for item in kind.operands[1:])]
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
    """A generated kernel; compiled when a plan is first bound on a device, launched by calling it with arrays."""

    def __init__(self, name: str, text: str, size: int) -> None:
        self.name, self.text = name, text
        self.blocks = min(-(-size // THREADS), MAX_BLOCKS)
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

    def take(self, array: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "clip") -> Any:
        """`take`; CuPy has no `mode`, and wraps what is outside."""
        return self._cupy.take(array, indices, axis=axis, out=out)


class Graph:
    """A whole step captured into a CUDA graph: one launch instead of one for each kernel.

    The first run goes op by op, so that libraries set up what they need; the second is captured. Where capture fails,
    because something in the step needs the host, steps go on op by op.
    """

    def __init__(self, cupy: Any, step: Any) -> None:
        self.cupy, self.step = cupy, step
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.runs = 0
        self.graph: Any = None
        self.result: Any = None
        self.inputs: list[Any] = []

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
        for place, item in zip(self.inputs, arguments, strict=True):
            if isinstance(item, np.ndarray):
                place.set(item, stream=self.stream)
            else:
                self.cupy.copyto(place, item)

    def _capture(self) -> None:
        self.stream.begin_capture()
        try:
            self.result = self.step(*self.inputs)
        except Exception:
            self.stream.end_capture()
            self.runs = 2                     # never again: something in this step needs the host
            self.result = self.step(*self.inputs)
            return
        self.graph = self.stream.end_capture()
        self.graph.launch(self.stream)
