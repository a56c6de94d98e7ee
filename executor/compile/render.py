"""The last half of compiling: steps become the source of a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fluidlite.executor.compile.plan_ir import Step, Storage, Value, flat
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels.scalar import FUNCTIONS

__all__ = ["Scalars", "Source", "elementwise_lines", "render"]


class Source:
    """Lines of generated Python, and which op each line (counted from 1) belongs to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ops: dict[int, Operator] = {}

    def add(self, text: str, indent: int = 0, op: Operator | None = None, comment: str = "") -> None:
        """Append a line."""
        self.lines.append(f"{'    ' * indent}{text}{'  # ' + comment if comment else ''}")
        if op is not None:
            self.ops[len(self.lines)] = op

    def extend(self, other: Source) -> None:
        """Append another source."""
        offset = len(self.lines)
        self.lines.extend(other.lines)
        self.ops.update({line + offset: op for line, op in other.ops.items()})

    def text(self) -> str:
        """The whole source."""
        return "\n".join(self.lines) + "\n"


class Scalars:
    """Numbers in element-wise steps, made 0-d arrays of the operands' dtype once: a Python number costs a
    conversion a call.
    """

    def __init__(self) -> None:
        self.symbols: dict[tuple[str, str], str] = {}

    def symbol(self, number: Any, dtype: Any) -> str:
        """The name of the 0-d array."""
        kind = str(dtype)
        if isinstance(number, bool):
            kind = "bool"
        elif isinstance(number, float) and kind[:3] in ("int", "uin", "boo") and number != int(number):
            kind = "float64"
        text = f"float({str(number)!r})" if str(number) in ("inf", "-inf", "nan") else repr(number)
        return self.symbols.setdefault((text, kind), f"s{len(self.symbols)}")

    def prelude(self) -> list[str]:
        """Their definitions."""
        return [f"{symbol} = array({number}, {dtype!r})" for (number, dtype), symbol in self.symbols.items()]


def elementwise_lines(step: Step, names: Mapping[Value, str], scalars: Scalars) -> list[str]:
    """The array calls of an element-wise step; `names` replace the symbols of some values."""
    kind, out = step.elementwise, step.writes[0]
    assert kind is not None
    target = names.get(out, out.symbol)
    items = [
        names.get(item, item.symbol)
        if isinstance(item, Value)
        else scalars.symbol(item, _operand_dtype(kind.operands, out))
        for item in kind.operands
    ]
    if kind.function == "copy":
        if isinstance(kind.operands[0], Value):
            return [f"copyto({target}, {items[0]})"]
        return [f"copyto({target}, {scalars.symbol(kind.operands[0], out.dtype)})"]
    if kind.function == "where":
        return [f"copyto({target}, {items[2]})", f"copyto({target}, {items[1]}, where={items[0]})"]
    return [f"{FUNCTIONS[kind.function][0]}({', '.join(items)}, out={target})"]


def _operand_dtype(operands: Iterable[Any], out: Value) -> Any:
    """The dtype that a number takes on beside array operands: theirs, as NumPy's weak scalars do."""
    dtypes = [item.dtype for item in operands if isinstance(item, Value)]
    numeric = [dtype for dtype in dtypes if dtype is not None and dtype.kind in "fiu"]
    return max(numeric, key=lambda dtype: (dtype.kind == "f", dtype.itemsize)) if numeric else out.dtype


_FUNCTIONS = sorted(
    {function for function, _ in FUNCTIONS.values()} - {"erf"}
    | {"copyto", "dot", "matmul", "take", "array", "concatenate", "reciprocal", "empty", "zeros"}
)


def render(
    steps: Sequence[Step],
    feeds: Mapping[str, Value],
    fetches: Sequence[Value],
    scalars: Scalars,
    bound: Iterable[str],
    timed: bool = False,
) -> Source:
    """`make(...)` binds arrays and returns `step(feeds...)`, the straight line that runs once a step.

    `timed` adds a call of `tick(number)` behind the lines of each step, for the profiler.
    """
    body = _body(steps, fetches, scalars, timed)
    source = Source()
    source.add("def make(np, buffers, params, constants, bound, load, store):")
    used = " ".join(body.lines)
    for function in _FUNCTIONS:
        if f"{function}(" in used or f"{function}.reduce(" in used or function == "array":
            source.add(f"{function} = np.{function}", 1)
    for name in bound:
        if name in used or name == "erf":
            source.add(f"{name} = bound[{name!r}]", 1)
    for value in _fixed_values(steps, fetches):
        source.add(_definition(value), 1)
    for line in scalars.prelude():
        source.add(line, 1)
    arguments = [text for value in feeds.values() for text in (value.symbol, value.lod) if text]
    source.add(f"def step({', '.join(arguments)}):", 1)
    source.extend(body)
    source.add(f"return ({''.join(f'({value}, {value.lod or ()}), ' for value in fetches)})", 2)
    source.add("return step", 1)
    return source


def _body(steps: Sequence[Step], fetches: Sequence[Value], scalars: Scalars, timed: bool) -> Source:
    body = Source()
    defined: set[Value] = set()
    numbers = {id(step): number for number, step in enumerate(flat(steps))} if timed else {}
    _write(steps, body, defined, scalars, numbers, 2)
    for value in fetches:
        _define(value, None, body, defined, 2)
    return body


def _write(
    steps: Sequence[Step],
    body: Source,
    defined: set[Value],
    scalars: Scalars,
    numbers: Mapping[int, int],
    indent: int,
) -> None:
    """The lines of some steps; what a loop or branch defines is not taken for defined behind it."""
    for step in steps:
        for value in (*step.reads, *step.writes):
            if step.lines or step.elementwise is not None:
                _define(value, step, body, defined, indent)
        lines = step.lines if step.elementwise is None else elementwise_lines(step, {}, scalars)
        for index, line in enumerate(lines):
            body.add(line, indent, step.op, _comment(step) if index == 0 else "")
        if step.body is not None:
            before = len(body.lines)
            _write(step.body, body, set(defined), scalars, numbers, indent + 1)
            if len(body.lines) == before:
                body.add("pass", indent + 1)
        elif id(step) in numbers and lines:
            body.add(f"tick({numbers[id(step)]})", indent)


def _comment(step: Step) -> str:
    if step.op is None:
        return step.note
    where = step.op.where
    place = f" {where.file.rsplit('/', 1)[-1]}:{where.line}" if where else ""
    return f"{step.op.type}{place}{' ' + step.note if step.note else ''}"


def _define(value: Value, step: Step | None, body: Source, defined: set[Value], indent: int) -> None:
    """Views of arrays that differ from step to step, and arrays made anew each time, are made where they
    are first used.
    """
    if value.storage not in (Storage.VIEW, Storage.FRESH) or value.fixed or value in defined:
        return
    if value.storage == Storage.FRESH:
        new = value.expression or f"empty({value.shape}, {str(value.dtype)!r})"
        body.add(f"{value} = {new}", indent, step.op if step else None)
    else:
        assert value.base is not None
        _define(value.base, step, body, defined, indent)
        body.add(f"{value} = {value.expression.format(value.base)}", indent, step.op if step else None)
    defined.add(value)


def _fixed_values(steps: Sequence[Step], fetches: Sequence[Value]) -> list[Value]:
    """Values that the prelude defines, bases before their views."""
    ordered: dict[Value, None] = {}

    def visit(value: Value) -> None:
        if value in ordered or not value.fixed:
            return
        if value.base is not None:
            visit(value.base)
        ordered[value] = None

    for step in flat(steps):
        if step.lines or step.elementwise is not None:
            for value in (*step.reads, *step.writes, *step.temps):
                visit(value)
    for value in fetches:
        visit(value)
    return list(ordered)


def _definition(value: Value) -> str:
    if value.storage == Storage.PARAM:
        return f"{value} = params[{value.name!r}]"
    if value.storage == Storage.CONST:
        return f"{value} = constants[{value.number}]"
    if value.storage == Storage.VIEW:
        return f"{value} = {value.expression.format(value.base)}"
    return f"{value} = buffers[{value.number}]  # {value.dtype}{list(value.shape or ())} {value.name}"
