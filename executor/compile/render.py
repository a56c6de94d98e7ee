"""The last stage of compiling: a plan becomes the source of a Python function. Text is made here and
nowhere else.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fluidlite.executor.plan.actions import (
    Append,
    Assign,
    At,
    Bound,
    Branch,
    Call,
    Copy,
    Elementwise,
    Equals,
    Fresh,
    Function,
    InOut,
    Item,
    Length,
    LodOf,
    Loop,
    Method,
    New,
    Operand,
    OrElse,
    Out,
    ScopeFunction,
    SetItem,
    Shared,
    Show,
    Sum,
    TiledLoop,
    When,
    WhileLoop,
    as_written,
)
from fluidlite.executor.plan.plan import Plan, Source
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Reshape, Same, Slices, Storage, Transpose, Value
from fluidlite.executor.run.functions import Erf
from fluidlite.executor.run.timing import OpTimer
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ops.kernels.scalar import FUNCTIONS

__all__ = ["render"]

_INDENT = "    "


def render(plan: Plan) -> Source:
    """`make(...)` binds arrays and returns `step(feeds...)`, the straight line that runs once a step.

    The step comes first and what it refers to after it: that is the order in which a plan is read.
    """
    return _Renderer(plan).source()


class _Names:
    """An identifier for each value, bound object and number, close to the name that it has in the program."""

    def __init__(self) -> None:
        self.taken = {
            "np",
            "buffers",
            "params",
            "constants",
            "bound",
            "load",
            "store",
            "make",
            "step",
            "tick",
        }
        self.taken |= {"range", "len", "float", "t", "i", *keyword.kwlist}
        # a variable named like a function of NumPy must not hide it in the step
        self.taken |= {function.partition(".")[0] for function, _ in FUNCTIONS.values()}
        self.taken |= set(
            [
                "add",
                "array",
                "concatenate",
                "copyto",
                "dot",
                "empty",
                "matmul",
                "maximum",
                "minimum",
                "multiply",
                "reciprocal",
            ]
        )
        self.taken |= set(["subtract", "take", "zeros"])
        self.numbers: dict[str, int] = {}
        """The next number to try behind each base: plans of thousands of temporaries are common."""
        self.values: dict[Value, str] = {}
        self.params: dict[str, str] = {}
        self.bound: dict[Bound, str] = {}

    def unique(self, wanted: str) -> str:
        """`wanted` as an identifier that nothing else has."""
        base = re.sub(r"\W", "_", wanted.replace("@GRAD", "__grad"))
        if not base or base[0].isdigit():
            base = f"v_{base}"
        name, number = base, self.numbers.get(base, 2)
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.numbers[base] = number
        self.taken.add(name)
        return name

    def of(self, value: Value) -> str:
        """The identifier of a value; versions of a persistable variable share their array, and its name."""
        found = self.values.get(value)
        if found is not None:
            return found
        if value.storage is Storage.PARAM:
            # one array, one name, however many versions the passes tell apart
            found = self.params.get(value.name) or self.unique(value.name)
            self.params[value.name] = found
        elif isinstance(value.view, Same) and value.base is not None:
            found = self.of(value.base)
        else:
            found = self.unique(value.name or self._described(value))
        self.values[value] = found
        return found

    def _described(self, value: Value) -> str:
        """A name for a temporary."""
        if value.base is None:
            return _described_constant(value) if value.storage is Storage.CONST else "temp"
        base = self.of(value.base)
        if isinstance(value.view, Transpose):
            return f"{base}__T"
        if isinstance(value.view, Slices):
            pieces = (f"{bounds[0]}_{bounds[1]}" for bounds in value.view.ranges if bounds)
            return f"{base}__{'_'.join(pieces)}"
        return f"{base}__{'x'.join(map(str, value.shape or ())) or 'scalar'}"

    def bound_to(self, thing: Bound) -> str:
        """The identifier of a bound object."""
        found = self.bound.get(thing)
        if found is None:
            found = self.bound[thing] = self.unique(f"{thing.hint}_{len(self.bound)}")
        return found


def _described_constant(value: Value) -> str:
    """A name for a constant: vectors of ones are what sums are multiplied with."""
    is_ones = bool(value.constant.size > 1 and (value.constant == 1).all())
    return "ones" if is_ones else "constant"


class _Operands:
    """The text of operands; remembers which functions, numbers and bound objects they refer to."""

    def __init__(self) -> None:
        self.names = _Names()
        self.functions: dict[str, None] = {}
        self.numbers: dict[tuple[str, str], str] = {}
        self.erf: Bound | None = None

    def function(self, name: str) -> str:
        """A function of the array module; the error function comes from elsewhere."""
        if name == "erf":
            self.erf = self.erf or Bound("erf", Fresh(Erf))
            return self.names.bound_to(self.erf)
        self.functions[name.partition(".")[0]] = None
        return name

    def number(self, number: Any, dtype: Any) -> str:
        """A number as an array of no dimensions, made once: a Python number costs a conversion at each
        call.
        """
        kind = str(dtype)
        if isinstance(number, bool):
            kind = "bool"
        elif isinstance(number, float) and kind[:3] in ("int", "uin", "boo") and number != int(number):
            kind = "float64"
        key = (_literal(number), kind)
        if key not in self.numbers:
            self.numbers[key] = self.names.unique(f"s{len(self.numbers)}")
        return self.numbers[key]

    def text(self, operand: Operand) -> str:
        """An operand where it stands."""
        if isinstance(operand, Value):
            return self.names.of(operand)
        if isinstance(operand, Bound):
            return self.names.bound_to(operand)
        if isinstance(operand, tuple):
            return f"({''.join(f'{self.text(item)}, ' for item in operand).rstrip()})"
        if isinstance(operand, list):
            return f"[{', '.join(map(self.text, operand))}]"
        if isinstance(operand, dict):
            return f"{{{', '.join(f'{key!r}: {self.text(item)}' for key, item in operand.items())}}}"
        write = _WRITERS.get(type(operand))
        return _literal(operand) if write is None else write(self, operand)

    def call(self, call: Call) -> str:
        """A call."""
        arguments = [self.text(item) for item in call.operands]
        arguments += [f"{key}={self.text(item)}" for key, item in call.keywords]
        return f"{self.callee(call.callee)}({', '.join(arguments)})"

    def callee(self, callee: Function | ScopeFunction | Bound | Method) -> str:
        """The function that a call names."""
        if isinstance(callee, Function):
            return self.function(callee.name)
        if isinstance(callee, Method):
            return f"{self.names.bound_to(callee.owner)}.{callee.name}"
        return callee.name if isinstance(callee, ScopeFunction) else self.names.bound_to(callee)

    def lod(self, value: Value) -> str:
        """The level of detail of a value."""
        return f"{self.names.of(value)}__lod" if value.has_lod else "()"

    def or_else(self, item: OrElse) -> str:
        """A value or its default."""
        return f"{self.text(item.kept)} if {self.text(item.value)} is not None else {self.text(item.default)}"

    def sum(self, item: Sum) -> str:
        """Whole numbers added up."""
        (_, first), *rest = item.terms
        return self.text(first) + "".join(
            f" {'+' if sign > 0 else '-'} {self.text(term)}" for sign, term in rest
        )

    def view(self, value: Value) -> str:
        """The expression of a view."""
        assert value.base is not None
        base, view = self.text(value.base), value.view
        if isinstance(view, Reshape):
            return f"{base}.reshape({view.shape})"
        if isinstance(view, Transpose):
            reversed_axes = tuple(reversed(range(len(view.axes))))
            return f"{base}.T" if view.axes == reversed_axes else f"{base}.transpose({view.axes})"
        if isinstance(view, Slices):
            pieces = (f"{bounds[0]}:{bounds[1]}" if bounds else ":" for bounds in view.ranges)
            return f"{base}[{', '.join(pieces)}]"
        return base

    def elementwise(
        self, action: Elementwise, out: Value, names: Mapping[Value, str], targets: Mapping[Value, str]
    ) -> list[str]:
        """The array calls of an element-wise action; `names` stand for some values that it reads,
        `targets` writes.
        """
        target = targets.get(out) or self.text(out)
        dtype = _operand_dtype(action.operands, out)
        items = [
            (names.get(item) or self.text(item)) if isinstance(item, Value) else self.number(item, dtype)
            for item in action.operands
        ]
        if action.function == "copy":
            (source,) = action.operands
            text = items[0] if isinstance(source, Value) else self.number(source, out.dtype)
            return [f"{self.function('copyto')}({target}, {text})"]
        if action.function == "where":
            copyto = self.function("copyto")
            return [f"{copyto}({target}, {items[2]})", f"{copyto}({target}, {items[1]}, where={items[0]})"]
        function = self.function(FUNCTIONS[action.function][0])
        return [f"{function}({', '.join(items)}, out={target})"]


_WRITERS: Mapping[type, Any] = {
    Out: lambda self, item: self.text(item.value),
    InOut: lambda self, item: self.text(item.value),
    LodOf: lambda self, item: self.lod(item.value),
    Item: lambda self, item: f"{self.text(item.value)}.item()",
    Copy: lambda self, item: f"{self.text(item.value)}.copy()",
    At: lambda self, item: f"{self.text(item.value)}[{self.text(item.index)}]",
    Equals: lambda self, item: f"{self.text(item.value)} == {item.number}",
    Length: lambda self, item: f"len({self.text(item.value)})",
    New: lambda self, item: f"{self.function(item.function)}({item.shape}, {item.dtype!r})",
    OrElse: _Operands.or_else,
    Sum: _Operands.sum,
    Call: _Operands.call,
}


def _literal(item: Any) -> str:
    """A Python constant; infinities and NaN have no literal."""
    if isinstance(item, float) and not math.isfinite(item):
        return f"float({str(item)!r})"
    return repr(item)


def _operand_dtype(operands: Iterable[Any], out: Value) -> Any:
    """The dtype that a number takes on beside array operands: theirs, as NumPy's weak scalars do."""
    dtypes = [item.dtype for item in operands if isinstance(item, Value)]
    numeric = [dtype for dtype in dtypes if dtype is not None and dtype.kind in "fiu"]
    return max(numeric, key=lambda dtype: (dtype.kind == "f", dtype.itemsize)) if numeric else out.dtype


# ---------------------------------------------------------------------- the step function
class _Renderer:
    """The source of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.operands, self.result = plan, _Operands(), Source()
        self.timer = OpTimer() if plan.target.timed else None
        self.part = -1

    def source(self) -> Source:
        """The step function, and behind it what it refers to."""
        source, operands, plan = self.result, self.operands, self.plan
        source.add("def make(np, buffers, params, constants, bound, load, store):")
        arguments = [
            text
            for value in plan.feeds.values()
            for text in (operands.text(value), *([operands.lod(value)] if value.has_lod else ()))
        ]
        source.add(f"def step({', '.join(arguments)}):", 1)
        defined: set[Value] = set()
        self.block(plan.steps, defined, 2)
        for value in plan.fetches:
            self.define(value, None, defined, 2)
        fetched = "".join(f"({operands.text(value)}, {operands.lod(value)}), " for value in plan.fetches)
        source.add("")
        source.add(f"return ({fetched.rstrip()})", 2)
        self.environment()
        source.add("return step", 1)
        return source

    def environment(self) -> None:
        """Definitions of the names that the step refers to."""
        operands, names, fixed = self.operands, self.operands.names, self._fixed_values()
        # before any section is written: views name their bases, and so find the names that are still missing
        definitions = {value: self.definition(value) for value in fixed}
        if operands.numbers:
            operands.function("array")
        self.section("functions", (f"{name} = np.{name}" for name in operands.functions))
        if self.timer is not None:
            self.result.bound["tick"] = self.timer
        self.result.bound.update({name: thing.thing for thing, name in names.bound.items()})
        self.section("objects", (f"{name} = bound[{name!r}]" for name in self.result.bound))
        numbers = operands.numbers.items()
        self.section("numbers", (f"{name} = array({text}, {dtype!r})" for (text, dtype), name in numbers))
        for title, storages in _SECTIONS.items():
            lines = (definitions[value] for value in fixed if value.storage in storages)
            self.section(title, dict.fromkeys(line for line in lines if line))

    def section(self, title: str, lines: Iterable[str]) -> None:
        """Definitions under a heading, where there are any."""
        found = list(lines)
        if found:
            self.result.add("")
            self.result.add(f"# {title}", 1)
            for line in found:
                self.result.add(line, 1)

    def _fixed_values(self) -> list[Value]:
        """Values that are the same arrays at every step, bases before their views."""
        ordered: dict[Value, None] = {}

        def visit(value: Value) -> None:
            if value in ordered or not value.fixed:
                return
            if value.base is not None:
                visit(value.base)
            ordered[value] = None

        for step in flat(self.plan.steps):
            if not step.is_view:
                for value in (*step.reads, *step.writes, *step.temps):
                    visit(value)
        for value in self.plan.fetches:
            visit(value)
        return list(ordered)

    def definition(self, value: Value) -> str:
        """The line that defines a fixed value; empty for another name of one."""
        name = self.operands.text(value)
        if value.storage is Storage.PARAM:
            return f"{name} = params[{value.name!r}]"
        if value.storage is Storage.CONST:
            return f"{name} = constants[{value.number}]"
        if value.storage is Storage.VIEW:
            return "" if isinstance(value.view, Same) else f"{name} = {self.operands.view(value)}"
        about = f"{value.dtype}{list(value.shape or ())} {value.name}".rstrip()
        return f"{name} = buffers[{value.number}]  # {about}"

    # ------------------------------------------------------------------ steps
    def block(self, steps: Sequence[Step], defined: set[Value], indent: int) -> None:
        """The lines of some steps; what a loop or branch defines is not taken for defined behind it."""
        is_empty = True
        for group in _groups(steps):
            self.heading(group[0], indent)
            for step in group:
                is_empty = False
                self.step(step, defined, indent)
            self.tick(group, indent)
        if is_empty:
            self.result.add("pass", indent)

    def heading(self, step: Step, indent: int) -> None:
        """A blank line and a comment ahead of the steps of an op; a line where backward or update begins."""
        part = _part(step)
        if indent == 2 and part > self.part:
            self.part = part
            self.blank()
            self.result.add(f"# {'-' * 12} {_PARTS[part]} {'-' * 12}", indent)
        self.blank()
        comment = _comment(step)
        if comment:
            self.result.add(f"# {comment}", indent)

    def blank(self) -> None:
        """A blank line, but at the start of a block."""
        if not self.result.lines[-1].endswith(":"):
            self.result.add("")

    def tick(self, group: Sequence[Step], indent: int) -> None:
        """A call of the profiler behind the steps of an op."""
        if self.timer is not None and group[-1].body is None:
            self.result.add(f"tick({self.timer.number(group[-1])})", indent)

    def step(self, step: Step, defined: set[Value], indent: int) -> None:
        """One step, with the views that it needs."""
        for value in (*step.reads, *step.writes):
            self.define(value, step, defined, indent)
        for line in self.lines(step):
            self.result.add(line, indent, step.op)
        if step.body is not None:
            self.block(step.body, set(defined), indent + 1)

    def define(self, value: Value, step: Step | None, defined: set[Value], indent: int) -> None:
        """Views of arrays that differ from step to step, and arrays made anew each time, are made where they
        are first used.
        """
        if value.storage not in (Storage.VIEW, Storage.FRESH) or value.fixed or value in defined:
            return
        defined.add(value)
        op, name = (step.op if step else None), self.operands.text(value)
        if value.storage is Storage.FRESH:
            new: Operand = New("empty", value.shape or (), str(value.dtype))
            text = self.operands.text(new if value.maker is None else Call(value.maker))
            self.result.add(f"{name} = {text}", indent, op)
            return
        assert value.base is not None
        self.define(value.base, step, defined, indent)
        if not isinstance(value.view, Same):
            self.result.add(f"{name} = {self.operands.view(value)}", indent, op)

    def lines(self, step: Step) -> list[str]:
        """The statement, or the few, of a step."""
        text, action = self.operands.text, step.action
        if isinstance(action, Elementwise):
            return self.operands.elementwise(action, step.writes[0], {}, {})
        if isinstance(action, Call):
            return [text(action)]
        if isinstance(action, Assign):
            return [self._assign(action)]
        if isinstance(action, SetItem):
            return [self._set_item(action)]
        if isinstance(action, Append):
            return [f"{text(action.into)}.append({text(action.item)})"]
        if isinstance(action, When):
            return [self._when(action)]
        if isinstance(action, Shared):
            return self._shared(action, self.operands.names.unique("rows"))
        if isinstance(action, TiledLoop):
            return self._tiled(action, self.operands.names.unique("tile"))
        return [self._head(action)]

    def _head(self, action: Any) -> str:
        text = self.operands.text
        if isinstance(action, WhileLoop):
            return f"while {text(action.condition)}:"
        if isinstance(action, Branch):
            return f"if {' and '.join(map(text, action.conditions))}:"
        assert isinstance(action, Loop)
        count = text(action.count)
        steps = f"{count} - 1, -1, -1" if action.backwards else count
        return f"for {text(action.position)} in range({steps}):"

    def _assign(self, action: Assign) -> str:
        targets = ["_" if target is None else self.operands.text(target) for target in action.targets]
        sources = ", ".join(map(self.operands.text, action.sources))
        # (x,) = ... : a kernel returns a sequence even for one output
        if action.unpack and len(targets) == 1:
            return f"({targets[0]},) = {sources}"
        return f"{', '.join(targets)} = {sources}"

    def _set_item(self, action: SetItem) -> str:
        text = self.operands.text
        sign = "-=" if action.subtract else "="
        return f"{text(action.array)}[{text(action.index)}] {sign} {text(action.source)}"

    def _when(self, action: When) -> str:
        inner = action.action
        done = self._set_item(inner) if isinstance(inner, SetItem) else self.operands.text(inner)
        return f"if {self.operands.text(action.value)} is {'' if action.absent else 'not '}None: {done}"

    def _shared(self, action: Shared, name: str) -> list[str]:
        """A product whose rows a team shares."""
        text, call = self.operands.text, action.call
        left, right = call.operands
        (out,) = as_written(call)
        cut = f"[{action.rows} * t // {action.threads}:{action.rows} * (t + 1) // {action.threads}]"
        second = f"{text(right)}{cut}" if action.batched else text(right)
        product = f"{self.operands.callee(call.callee)}({text(left)}{cut}, {second}, out={text(out)}{cut})"
        return [f"def {name}(t):", f"{_INDENT}{product}", f"{text(action.team)}({name})"]

    def _tiled(self, loop: TiledLoop, name: str) -> list[str]:
        """Element-wise calls on one block after the other."""
        walk, text = loop.walk, self.operands.text
        head: list[str] = []
        body: list[str] = []
        registers = [self.operands.names.unique(f"w{number}") for number in range(len(loop.registers))]
        is_even = walk.extent % walk.chunk == 0
        # the last block may be short; where blocks divide the rows evenly, registers are cut once, outside of
        # the loop
        rest = f"min({walk.chunk}, {walk.extent} - i)"
        for register, scratch in zip(registers, loop.registers, strict=True):
            piece = f"{text(scratch)}[t]" if is_even else f"{text(scratch)}[t, :{rest}]"
            (head if is_even else body).append(f"{register} = {piece}")
        local = {value: registers[number] for value, number in loop.held_in.items()}
        for value in dict.fromkeys((*loop.reads, *loop.writes)):
            if _goes_along(value, walk.shape, walk.flat):
                source = text(value)
                if walk.flat and len(walk.shape) > 1:
                    flat_name = self.operands.names.unique(f"{source}__flat")
                    head.append(f"{flat_name} = {source}.reshape(-1)")
                    source = flat_name
                local[value] = self.operands.names.unique(f"{text(value)}__block")
                body.append(f"{local[value]} = {source}[i:i + {walk.chunk}]")
        for action, out in loop.run:
            body.extend(self.operands.elementwise(action, out, local, local))
        if loop.team is None:
            loop_head = f"for i in range(0, {walk.extent}, {walk.chunk}):"
            return ["t = 0", *head, loop_head, *(f"{_INDENT}{line}" for line in body)]
        loop_head = f"for i in range(t * {walk.chunk}, {walk.extent}, {walk.chunk * loop.threads}):"
        return [
            f"def {name}(t):",
            *(f"{_INDENT}{line}" for line in (*head, loop_head)),
            *(f"{_INDENT * 2}{line}" for line in body),
            f"{text(loop.team)}({name})",
        ]


_SECTIONS: Mapping[str, tuple[Storage, ...]] = {
    "persistable variables": (Storage.PARAM,),
    "constants": (Storage.CONST,),
    "buffers": (Storage.BUFFER,),
    "views": (Storage.VIEW,),
}


def _goes_along(value: Value, shape: tuple[int, ...], is_flat: bool) -> bool:
    """True if a loop over blocks of `shape` takes a block of this operand, not all of it at each block."""
    if value.shape == shape:
        return True
    if is_flat or value.shape is None or len(value.shape) != len(shape):
        return False
    return value.shape[0] == shape[0]


def _groups(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps that are more than names, those of one op together."""
    group: list[Step] = []
    for step in steps:
        if isinstance(step.action, Show):
            continue
        if group and (
            step.op is not group[-1].op or step.fused != group[-1].fused or step.body or group[-1].body
        ):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


_PARTS = ("forward", "backward", "update")


def _part(step: Step) -> int:
    """The part of a training step that an op belongs to; -1 for a step without op."""
    if step.op is None:
        return -1
    if step.op.role & (OpRole.Optimize | OpRole.LRSched):
        return 2
    return 1 if step.op.role & OpRole.Backward else 0


def _comment(step: Step) -> str:
    """The op, or the ops, of a step and the user's line."""
    if not step.ops:
        return ""
    kinds = ", ".join(dict.fromkeys(op.type for op in step.ops))
    fused = " (fused)" if step.fused else ""
    return f"{kinds}{fused}{_place(step.ops[0])}"


def _place(op: Operator) -> str:
    where = op.where
    return f" {where.file.rsplit('/', 1)[-1]}:{where.line}" if where else ""
