"""The last stage of compiling: a plan becomes the source of a Python function. Text is made here and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fluidlite.base.notebooks import cell_of
from fluidlite.base.plain_text import in_comment
from fluidlite.executor.compile.operands import Operands, literal
from fluidlite.executor.compile.tiled import compiled, patterns_in, tiled
from fluidlite.executor.plan.actions import (
    Append,
    Assign,
    Branch,
    Call,
    Chained,
    CompiledRun,
    Elementwise,
    Loop,
    New,
    Operand,
    SetItem,
    Show,
    TiledLoop,
    When,
    WhileLoop,
)
from fluidlite.executor.plan.plan import Plan, Source
from fluidlite.executor.plan.sizes import plain
from fluidlite.executor.plan.steps import Step, depth_of, flat
from fluidlite.executor.plan.values import Same, Storage, Value
from fluidlite.executor.run.buffer_check import BufferCheck
from fluidlite.executor.run.timing import OpTimer
from fluidlite.ir.operator import Operator, OpRole

__all__ = ["render"]

_INDENT = "    "
_DEEPEST = 12  # blocks in each other in one function; steps have some of their own


def render(plan: Plan) -> Source:
    """`step(feeds...)`, the straight line that runs once a step, and what its names stand for.

    Those are data, not text: in a plan of many ops, compiling a line for each buffer and view, as variables
    around the step, took five times as long as compiling the step.
    """
    return _Renderer(plan).source()


# ---------------------------------------------------------------------- the step function
class _Renderer:
    """The source of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.operands = Operands(plan.target.on_host)
        self.result = Source()
        self.timer = OpTimer() if plan.target.timed else None
        self.checks = BufferCheck() if plan.target.checked else None
        self.part = -1
        self.parts: list[tuple[str, Sequence[Step], set[Value]]] = []
        """Bodies that become functions of their own: name, steps, and what is defined before them."""

    def source(self) -> Source:
        """The step function, and behind it what it refers to."""
        source = self.result
        operands = self.operands
        plan = self.plan
        arguments = [
            text
            for value in plan.feeds.values()
            # a level of detail is an argument of its own, behind its array: `Signature.arguments` passes it
            # so
            for text in (operands.text(value), *([operands.lod(value)] if value.has_lod else ()))
        ]
        operands.patterns = patterns_in(plan.steps)
        if depth_of(plan.steps) > _DEEPEST:
            self.deep(arguments)
        else:
            source.add(f"def step({', '.join(arguments)}):")
            self.body()
        self.environment()
        return source

    def body(self) -> None:
        """The lines of all steps, and what they return."""
        source = self.result
        operands = self.operands
        defined: set[Value] = set()
        self.block(self.plan.steps, defined, 1)
        for value in self.plan.fetches:
            self.define(value, None, defined, 1)
        fetched = "".join(f"({operands.text(value)}, {operands.lod(value)}), " for value in self.plan.fetches)
        source.add("")
        source.add(f"return ({fetched.rstrip()})", 1)

    # ------------------------------------------------------------------ deep programs
    def deep(self, arguments: Sequence[str]) -> None:
        """A step of several functions, as Python nests no more than 20 loops and 100 blocks in one.

        What one of them writes another reads, so these names are global ones of the step. They end with it:
        none is read before a run has written it, and no array outlives its run.
        """
        source = self.result
        unique = self.operands.names.unique
        given = [unique(f"{name}_fed") for name in arguments]
        whole = unique("part")
        source.add(f"def step({', '.join(given)}):")
        heads = [self._add_globals()]
        for name, value in zip(arguments, given, strict=True):
            source.add(f"{name} = {value}", 1)
        for line in ("try:", f"    return {whole}()", "finally:"):
            source.add(line, 1)
        ending = len(source.lines)
        source.add("")
        source.add(f"def {whole}():")
        heads.append(self._add_globals())
        self.body()
        while self.parts:
            name, steps, defined = self.parts.pop(0)
            source.add("")
            source.add(f"def {name}():")
            heads.append(self._add_globals())
            self.block(steps, defined, 1)
        names = self._varying_names()
        for place in heads:
            source.lines[place] = f"{_INDENT}global {', '.join(names)}"
        source.lines[ending] = (
            f"{_INDENT * 2}for _ in ({', '.join(map(ascii, names))},): globals().pop(_, None)"
        )

    def _add_globals(self) -> int:
        """A line for the names that a function shares with others, and its index: the last function tells
        them.
        """
        self.result.add("")
        return len(self.result.lines) - 1

    def _varying_names(self) -> list[str]:
        """The names that a step gives values to."""
        names = self.operands.names
        fixed = {names.of(value) for value in self._fixed_values()}
        found = [*(name for value, name in names.values.items() if not value.fixed), *names.lods.values()]
        # "_" is nobody's: a `global` needs a name
        return [name for name in dict.fromkeys(found) if name not in fixed] or ["_"]

    def inner(self, steps: Sequence[Step], defined: set[Value], indent: int) -> None:
        """The body of a loop or branch: below it, or, too deep for Python, in a function of its own."""
        # a copy: what a branch defines does not exist where it was not taken
        known = set(defined)
        if indent - 1 <= _DEEPEST:
            self.block(steps, known, indent)
            return
        name = self.operands.names.unique("part")
        self.result.add(f"{name}()", indent)
        self.parts.append((name, steps, known))

    def environment(self) -> None:
        """The names that the step refers to, and what they stand for."""
        operands = self.operands
        source = self.result
        source.common = operands.common
        source.values = [(operands.text(value), value) for value in self._fixed_values()]
        source.groups = operands.groups
        if self.checks is not None:
            source.bound["check_buffers"] = self.checks
        if operands.numbers:
            operands.function("array")
        source.functions = list(operands.functions)
        if self.timer is not None:
            source.bound["tick"] = source.timer = self.timer
        source.bound.update({name: thing.thing for thing, name in operands.names.bound.items()})
        source.sizes = [(name, size) for size, name in operands.sizes.items()]
        source.numbers = list(operands.numbers.values())
        source.definitions = self.definitions

    def definitions(self) -> list[str]:
        """The names that the step refers to as a person reads them."""
        source = self.result
        fixed = [(value.storage, self.definition(name, value)) for name, value in source.values]
        numbers = (
            f"{name} = full({plain(shape)}, {literal(plain(number))}, {kind!r})"
            if shape
            else f"{name} = array({literal(plain(number))}, {kind!r})"
            for name, number, kind, shape in source.numbers
        )
        module = "np" if self.plan.target.on_host else "cupy"
        sections: dict[str, Iterable[str]] = {
            "functions": (f"{name} = {module}.{name}" for name in source.functions),
            "objects": (f"{name} = bound[{name!r}]" for name in source.bound),
            "sizes": (f"{name} = {plain(size)}" for name, size in source.sizes),
            "numbers": numbers,
        }
        for title, storages in _SECTIONS.items():
            sections[title] = [line for storage, line in fixed if line and storage in storages]
        sections["groups"] = (
            f"{name} = {self.operands.text(tuple(items))}" for name, items in source.groups.items()
        )
        lines = []
        for title, found in sections.items():
            rows = list(dict.fromkeys(found))
            lines += ["", f"# {title}", *rows] if rows else []
        return lines

    def _fixed_values(self) -> list[Value]:
        """Values that are the same arrays at every step, bases before their views."""
        ordered: dict[Value, None] = {}

        def visit(value: Value) -> None:
            # what differs from run to run is made inside of the step, where it is first used
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

    def definition(self, name: str, value: Value) -> str:
        """The line that shows a fixed value; empty for another name of one."""
        if value.storage is Storage.PARAM:
            return f"{name} = params[{value.name!a}]"
        if value.storage is Storage.TENSOR:
            return f"{name} = tensors[{value.name!a}]"
        if value.storage is Storage.CONST:
            return f"{name} = constants[{value.number}]"
        if value.storage is Storage.VIEW:
            return "" if isinstance(value.view, Same) else f"{name} = {self.operands.view(value)}"
        about = f"{value.dtype}{list(plain(value.shape) or ())} {value.name}".rstrip()
        return f"{name} = buffers[{value.number}]  # {in_comment(about)}"

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
        # a body of which all steps were dropped
        if is_empty:
            self.result.add("pass", indent)

    def heading(self, step: Step, indent: int) -> None:
        """A blank line and a comment ahead of the steps of an op; a line where backward or update begins."""
        part = _part(step)
        # only at the outermost level, and only onwards: passes may move an op of the forward pass behind
        # others
        if indent == 1 and part > self.part:
            self.part = part
            self.blank()
            self.result.add(f"# {'-' * 12} {_PARTS[part]} {'-' * 12}", indent)
        self.blank()
        comment = _comment(step)
        if comment:
            self.result.add(f"# {in_comment(comment)}", indent)

    def blank(self) -> None:
        """A blank line, but at the start of a block."""
        if not self.result.lines[-1].endswith(":"):
            self.result.add("")

    def tick(self, group: Sequence[Step], indent: int) -> None:
        """A call of the profiler behind the steps of an op."""
        if self.timer is not None and group[-1].body is None:
            self.result.add(f"tick({self.timer.number(group[-1])})", indent)

    def check(self, step: Step, indent: int) -> None:
        """A look at what a step has written, where that is asked for."""
        if self.checks is None or step.body is not None:
            return
        number, values = self.checks.add(step)
        found = [(value, value.shape) for value in values]
        if found:
            self.result.add(f"check_buffers({number}, {self.operands.text(found)})", indent, step.op)

    def step(self, step: Step, defined: set[Value], indent: int) -> None:
        """One step, with the views that it needs."""
        for value in (*step.reads, *step.writes):
            self.define(value, step, defined, indent)
        for line in self.lines(step):
            self.result.add(line, indent, step.op)
        self.check(step, indent)
        if step.body is not None:
            self.inner(step.body, defined, indent + 1)

    def define(self, value: Value, step: Step | None, defined: set[Value], indent: int) -> None:
        """Views of arrays that differ from step to step, and arrays made anew each time, are made where they
        are first used.
        """
        if value.storage not in (Storage.VIEW, Storage.FRESH) or value.fixed or value in defined:
            return
        defined.add(value)
        op = step.op if step else None
        name = self.operands.text(value)
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
        text = self.operands.text
        action = step.action
        if isinstance(action, Elementwise):
            return self.operands.elementwise(action, step.writes[0], {}, step.writes[0].shape)
        if isinstance(action, Call):
            return [text(action)]
        # there are some before `fuse_on_host` only
        if isinstance(action, Chained):
            return [
                line for run in action.run() for line in self.operands.elementwise(*run, {}, run[1].shape)
            ]
        if isinstance(action, Assign):
            return [self._assign(action)]
        if isinstance(action, SetItem):
            return [self._set_item(action)]
        if isinstance(action, Append):
            return [f"{text(action.into)}.append({text(action.item)})"]
        if isinstance(action, When):
            return [self._when(action)]
        if isinstance(action, TiledLoop):
            return tiled(self.operands, action)
        if isinstance(action, CompiledRun):
            return compiled(self.operands, action)
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


_SECTIONS: Mapping[str, tuple[Storage, ...]] = {
    "persistable variables": (Storage.PARAM, Storage.TENSOR),
    "constants": (Storage.CONST,),
    "buffers": (Storage.BUFFER,),
    "views": (Storage.VIEW,),
}


def _groups(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps that are more than names, those of one op together."""
    group: list[Step] = []
    for step in steps:
        if isinstance(step.action, Show):
            continue
        if group and not _belong_together(group[-1], step):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _belong_together(first: Step, second: Step) -> bool:
    """True if two steps come from the same op; a loop stands by itself."""
    if first.body is not None or second.body is not None:
        return False
    return first.op is second.op and first.fused == second.fused


_PARTS = ("forward", "backward", "update")


def _part(step: Step) -> int:
    """The part of a training step that an op belongs to; -1 for a step without op."""
    if step.op is None:
        return -1
    # the schedule of a learning rate stands among the forward ops, its counter ahead of them all
    if step.op.role & OpRole.Optimize:
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
    return f" {cell_of(where.file).rpartition('/')[-1]}:{where.line}" if where else ""
