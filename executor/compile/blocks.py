"""Sub-blocks in a plan: the ops of loops and branches become steps inside a `while`, `for` or `if` of the
generated source.

What the interpreter does with frames is settled while the plan is made. An outer variable that a sub-block
replaces gets a symbol that holds its value from one step of the loop to the next. What the gradient of a loop
reads of each step is put into lists, one for each variable (`Record`). Arrays that outlive a step of a loop
are made anew each time (`Storage.FRESH`); all others are buffers of the pool, as in straight lines.

A sub-block that cannot be written so is left, with its gradient, to the interpreter (`CannotInline`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FluidError
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.executor.compile.plan_ir import Step, Storage, Value
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes
from fluidlite.ops.flow.sub_blocks import facts_of, has_elements, is_true

__all__ = [
    "Body",
    "BuildAgain",
    "CannotInline",
    "Choices",
    "Record",
    "assignment",
    "block_writer",
    "inlined",
    "keep",
    "shaped",
]


class CannotInline(Exception):
    """This sub-block is left to the interpreter; the message says why."""


class BuildAgain(Exception):
    """The plan has to be made again, with what `Choices` now knows."""


@dataclass
class Choices:
    """What attempts at a plan found out: ops left to the interpreter, with the reason, and variables whose
    shape a loop changes.
    """

    outside: dict[Operator, str] = field(default_factory=dict)
    unstable: dict[tuple[Operator, str], bool] = field(default_factory=dict)
    """(loop, variable) -> whether a step of the loop may leave it without a value."""


@dataclass
class Record:
    """What a loop or branch keeps for its gradient. Those of a branch are no lists: it runs once or not at
    all.
    """

    op: Operator
    count: Value
    values: dict[str, Value] = field(default_factory=dict)
    nested: dict[str, Record] = field(default_factory=dict)

    def map(self, change: Callable[[Value], Value]) -> Record:
        """The record with each symbol replaced by what `change` makes of it."""
        return Record(
            self.op,
            change(self.count),
            {name: change(symbol) for name, symbol in self.values.items()},
            {name: record.map(change) for name, record in self.nested.items()},
        )


Writer = Callable[[Any, Operator], bool]
_WRITERS: dict[str, Writer] = {}


def block_writer(*types: str) -> Callable[[Writer], Writer]:
    """Declare how ops with a sub-block are written into a plan; the function says whether it did."""

    def declare(writer: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(types, writer))
        return writer

    return declare


def inlined(builder: Any, op: Operator) -> bool:
    """Write an op with a sub-block into the plan; False where it is left to the interpreter."""
    from fluidlite.executor.compile import block_gradients, recurrences

    assert block_gradients and recurrences  # their writers are declared by importing them
    writer = _WRITERS.get(op.type)
    if builder.depth:
        if writer is None or not writer(builder, op):
            raise CannotInline(f"op {op.type!r} inside of it runs in the interpreter")
        return True
    if writer is None or op in builder.choices.outside:
        return False
    try:
        return writer(builder, op)
    except (
        CannotInline,
        FluidError,
    ) as reason:  # a mistake in a branch that is never taken must not stop the rest
        builder.choices.outside[_forward(builder, op)] = str(reason).split("\n", 1)[0]
        raise BuildAgain from None


def _forward(builder: Any, op: Operator) -> Operator:
    """The op whose frames the gradient `op` would read; `op` itself where it is no gradient."""
    names = [name for slot in ("StepScopes", "Scope", "step_scopes") for name in op.inputs.get(slot, ())]
    return next((builder.records[name].op for name in names if name in builder.records), op)


# ---------------------------------------------------------------------- values that outlive a step
def shaped(value: Value | None) -> bool:
    """Whether a value has a known shape and dtype when it is there at all."""
    return value is not None and value.shape is not None and value.dtype is not None


def keep(builder: Any, value: Value) -> str:
    """The text for a value that a step holds on to: a parameter that the program changes is copied."""
    root = value.root
    if root.storage == Storage.PARAM and root.name in builder.written:
        return f"{value}.copy()"
    return str(value)


def assignment(builder: Any, op: Operator, target: Value, source: Value | None) -> Step:
    """`target = source`, with the level of detail where the target has one."""
    text, reads = ("None", []) if source is None else (keep(builder, source), [source])
    if target.lod:
        return Step(
            op,
            reads,
            [target],
            [f"{target}, {target.lod} = {text}, {source.lod or '()' if source else '()'}"],
            holds=reads,
        )
    return Step(op, reads, [target], [f"{target} = {text}"], holds=reads)


def truth(builder: Any, value: Value) -> str:
    """The text for the truth of a condition."""
    return (
        f"{value}.item()"
        if value.known and value.size == 1
        else f"{builder.bind('is_true', is_true)}({value})"
    )


# ---------------------------------------------------------------------- a sub-block being lowered
_SCOPED = ("block", "steps", "env", "records", "memory", "needed", "last_read", "index", "depth")


class Body:
    """One sub-block on its way into a plan.

    `given` are variables that every run of the block starts with, `own` those that belong to it although it
    does not declare them, `past` is the forward block whose gradient it computes, `records` those of the ops
    in that.
    """

    def __init__(
        self,
        builder: Any,
        op: Operator,
        own: Iterable[str] = (),
        given: Mapping[str, Value] | None = None,
        record: Record | None = None,
    ) -> None:
        self.builder, self.op, self.block = builder, op, op.attrs["sub_block"]
        self.own, self.given = frozenset(own), dict(given or {})
        self.past: Block | None = record.op.attrs["sub_block"] if record else None
        self.kept = set(record.values) | set(record.nested) if record else set()
        self.steps: list[Step] = []
        self.before: list[Step] = []  # steps ahead of the loop or branch
        self.carried: dict[str, Value] = {}
        self.moves: list[tuple[Value, Value | None]] = []
        self.stable = True
        self.env: dict[str, Value] = {}
        self.records: dict[str, Record] = {}
        self.replaced = self._replaced()

    def hides(self, name: str) -> bool:
        """Whether `name` is another variable inside than outside."""
        return (
            name in self.own
            or name in self.given
            or (name in self.block.vars and not self.block.vars[name].persistable)
        )

    def local(self, name: str) -> bool:
        """Whether what the block writes to `name` stays in it."""
        if self.hides(name) or name in self.kept or (self.past is not None and name in self.past.vars):
            return True
        return name not in self.builder.env and self.builder.block._find_var_recursive(name) is None

    def _replaced(self) -> list[str]:
        """Outer variables that the block replaces; persistable ones are changed in place."""
        found = dict.fromkeys(
            name for op in self.block.ops for name in sorted(writes(op)) if name != EMPTY_VAR
        )
        return [name for name in found if not self.local(name) and not self._special(name)]

    def _special(self, name: str) -> bool:
        var = self.builder.block._find_var_recursive(name)
        return var is not None and (var.persistable or var.type == VarType.STEP_SCOPES)

    # ------------------------------------------------------------------ variables from step to step
    def symbol(self, name: str, entry: Value | None, lod: bool = True) -> Value:
        """What holds a variable from step to step of a loop, starting with `entry`."""
        leaves_none = self.builder.choices.unstable.get((self.op, name))
        known = shaped(entry) and leaves_none is None
        value: Value = self.builder.values.make(
            entry.shape if known and entry else None,
            entry.dtype if known and entry else None,
            Storage.LOCAL,
            name=name,
            maybe=entry is None or entry.maybe or bool(leaves_none),
        )
        if lod and (not known or (entry is not None and entry.lod)):
            value.lod = f"l{value.number}"
        self.before.append(assignment(self.builder, self.op, value, entry))
        return value

    def carry(self) -> None:
        """Give every outer variable that the loop replaces a symbol."""
        self.carried = {name: self.symbol(name, self.builder.env.get(name)) for name in self.replaced}

    def move(self, name: str, symbol: Value, new: Value | None) -> None:
        """At the end of a step, let `symbol` hold `new`; notes where that does not look like what the
        symbol stands for.
        """
        if new is symbol:
            return
        fits = new is not None and (
            symbol.shape is None or (new.shape == symbol.shape and new.dtype == symbol.dtype)
        )
        lost = (new is None or new.maybe) and not symbol.maybe
        if (
            (not fits and symbol.shape is not None)
            or lost
            or (new is not None and new.lod and not symbol.lod and symbol.shape is not None)
        ):
            key = (self.op, name)
            self.builder.choices.unstable[key] = self.builder.choices.unstable.get(key, False) or lost
            self.stable = False
        self.moves.append((symbol, new))

    def finish_moves(self) -> None:
        """Write the moves: all of them happen at once."""
        targets = {symbol for symbol, _ in self.moves}
        ready = []
        for symbol, new in self.moves:
            if new is not None and new.root in targets and new.root is not symbol:
                copy = self.builder.values.make(
                    new.shape, new.dtype, Storage.LOCAL, name=new.name, maybe=new.maybe
                )
                copy.lod = f"l{copy.number}" if new.lod else None
                self.steps.append(assignment(self.builder, self.op, copy, new))
                new = copy
            ready.append((symbol, new))
        self.steps.extend(assignment(self.builder, self.op, symbol, new) for symbol, new in ready)

    # ------------------------------------------------------------------ lowering
    @contextlib.contextmanager
    def entered(self, needed: Iterable[str] = ()) -> Iterator[None]:
        """The builder lowers inside the block; `needed` are variables of it that something outside reads."""
        builder = self.builder
        outer = {name: getattr(builder, name) for name in _SCOPED}
        self.env = (
            {name: value for name, value in builder.env.items() if not self.hides(name)}
            | self.given
            | self.carried
        )
        self.renew(self.env)
        self.records = dict(builder.records) | self.records
        builder.block, builder.steps, builder.env, builder.records = (
            self.block,
            self.steps,
            self.env,
            self.records,
        )
        builder.memory, builder.last_read, builder.depth = dict(builder.memory), {}, builder.depth + 1
        builder.needed = {*self.replaced, *self.own, *needed}
        try:
            yield
        finally:
            for name, value in outer.items():
                setattr(builder, name, value)

    def run(self, head: str, reads: list[Value], made: Iterable[Value] = ()) -> None:
        """Append the loop or branch to the plan; behind it, outer variables are what the symbols hold."""
        builder = self.builder
        builder.steps += [
            *self.before,
            Step(self.op, reads, list(made), [head], effect=True, body=self.steps),
        ]
        builder.env.update(self.carried)
        self.renew(builder.env)

    def renew(self, env: dict[str, Value]) -> None:
        """Persistable variables that the block changes in place: what was known of their content holds no
        more.
        """
        for name in sorted(writes(self.op)):
            held = self.builder._held(name) if self.builder._persistable(name) else None
            if held is not None:
                env[name] = self.builder._param(name, held)

    # ------------------------------------------------------------------ records
    def start(self, text: str) -> Value:
        """A symbol that is set before the loop or branch starts."""
        value: Value = self.builder.values.make(None, None, Storage.LOCAL)
        self.before.append(Step(self.op, [], [value], [f"{value} = {text}"]))
        return value

    def listed(self, value: Value) -> Value:
        """A list that gets `value` in every step."""
        found = self.start("[]")
        found.entry = value
        text = keep(self.builder, value)
        item = f"({text}, {value.lod})" if value.lod else text
        self.steps.append(Step(self.op, [value, found], [found], [f"{found}.append({item})"], holds=[value]))
        return found

    def record(self, names: Iterable[str], old: Mapping[str, Value | None]) -> Record:
        """Keep variables of every step, the value before the step for those in `old`."""
        count = self.start("0")
        self.steps.append(Step(self.op, [count], [count], [f"{count} += 1"]))
        return self.fill(Record(self.op, count), names, old, self.listed)

    def fill(
        self,
        record: Record,
        names: Iterable[str],
        old: Mapping[str, Value | None],
        hold: Callable[[Value], Value],
    ) -> Record:
        """Let `hold` keep variables of the block, those in `old` as they were before it."""
        for name in names:
            value = old[name] if name in old else self.env.get(name) if self.local(name) else None
            if name in self.records and self.local(name):
                record.nested[name] = self.records[name].map(hold)
            elif value is not None:
                record.values[name] = hold(value)
        return record

    def reopen(self, record: Record, position: Value) -> None:
        """Start with what `record` holds for the step at `position`."""
        opened = record.map(lambda symbol: self._entry(symbol, position))
        self.given.update(opened.values)
        self.records.update(opened.nested)

    def _entry(self, symbol: Value, position: Value) -> Value:
        """One value out of a list."""
        like = symbol.entry
        if like is None:  # the number of steps
            return symbol
        found = self.alike(like)
        target = f"{found}, {found.lod}" if found.lod else str(found)
        self.steps.append(Step(self.op, [symbol, position], [found], [f"{target} = {symbol}[{position}]"]))
        return found

    def alike(self, like: Value) -> Value:
        """A symbol for values that look like another."""
        found: Value = self.builder.values.make(
            like.shape, like.dtype, Storage.LOCAL, name=like.name, maybe=like.maybe, entry=like.entry
        )
        found.lod = f"l{found.number}" if like.lod else None
        return found


def gradient_reads(op: Operator, slot: str) -> list[str]:
    """Names that the gradient blocks of `op` read: those of the ops that read its frames, in `slot`."""
    frames, names = set(op.output(slot)), dict[str, None]()

    def visit(block: Block) -> None:
        for inner in block.ops:
            updated = [
                name
                for one in (inner.definition.updates if inner.definition else ())
                for name in inner.output(one)
            ]
            names.update(dict.fromkeys([*inner.input_arg_names, *updated]))
            for deeper in inner.sub_blocks():
                visit(deeper)

    for block in op.block.program.blocks:
        for other in block.ops:
            if not frames.isdisjoint(other.input_arg_names):
                for inside in other.sub_blocks():
                    visit(inside)
    return list(names)


def kept_names(builder: Any, op: Operator, carried: Iterable[str], slot: str) -> tuple[list[str], list[str]]:
    """What the gradient of `op` reads, and which of it as it was before a step: of arrays, entries are
    never replaced.
    """
    names, old = gradient_reads(op, slot), []
    for name in names:
        var = builder.block._find_var_recursive(name)
        if name in carried and var is not None and var.persistable and name in writes(op):
            raise CannotInline(f"its gradient reads {name!r}, a persistable variable that it replaces")
        if name in carried and not (
            var is not None and (var.persistable or var.type == VarType.LOD_TENSOR_ARRAY)
        ):
            old.append(name)
    return names, old


# ---------------------------------------------------------------------- while
@block_writer("while")
def _(builder: Any, op: Operator) -> bool:
    condition, facts = op.input("Condition")[0], facts_of(op, "X", "StepScopes")
    names, old = kept_names(builder, op, facts.carried, "StepScopes") if facts.keeps else ([], [])
    while True:
        body = Body(builder, op)
        body.carry()
        if condition not in body.carried or condition not in builder.env:
            raise CannotInline("its condition is not written by its body, has no value, or is persistable")
        with body.entered(names):
            builder.lower(body.block.ops)
            if facts.keeps:
                outer = {name: body.carried.get(name, body.env.get(name)) for name in old}
                record = body.record(names, outer)
            for name, symbol in body.carried.items():
                body.move(name, symbol, body.env.get(name))
            body.finish_moves()
        if body.stable:
            break
    going = body.carried[condition]
    body.run(f"while {truth(builder, going)}:", [going])
    if facts.keeps:
        builder.records[op.output("StepScopes")[0]] = record
    return True


# ---------------------------------------------------------------------- conditional_block
def taken(builder: Any, op: Operator) -> tuple[str, list[Value]]:
    """The text that says whether a branch runs, and what it reads."""
    slot = "Cond" if op.attrs.get("is_scalar_condition") else "Input"
    values = [builder._argument(op, name) for name in op.input(slot)]
    if slot == "Cond":
        if not values or values[0] is None:
            raise CannotInline("its condition has no value")
        return truth(builder, values[0]), values
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return "False", []
    return f"{builder.bind('has_elements', has_elements)}([{', '.join(map(str, present))}])", present


def merge(body: Body, name: str, old: Value | None, new: Value | None) -> Value | None:
    """A symbol that holds `new` where the branch ran, else `old`."""
    if new is old:
        return old
    alike = old is None or new is None or (old.shape == new.shape and old.dtype == new.dtype)
    like = new if new is not None else old
    assert like is not None
    value: Value = body.builder.values.make(
        like.shape if alike else None,
        like.dtype if alike else None,
        Storage.LOCAL,
        name=name,
        maybe=old is None or new is None or old.maybe or new.maybe,
    )
    if value.shape is None or any(one is not None and one.lod for one in (old, new)):
        value.lod = f"l{value.number}"
    body.before.append(assignment(body.builder, body.op, value, old))
    body.steps.append(assignment(body.builder, body.op, value, new))
    return value


def merge_all(body: Body) -> None:
    """Merge every outer variable that a branch replaces."""
    for name in body.replaced:
        merged = merge(body, name, body.builder.env.get(name), body.env.get(name))
        if merged is not None:
            body.carried[name] = merged


@block_writer("conditional_block", "conditional_block_infer")
def _(builder: Any, op: Operator) -> bool:
    facts = facts_of(op, "Input", "Scope")
    names, old = kept_names(builder, op, facts.carried, "Scope") if facts.keeps else ([], [])
    head, reads = taken(builder, op)
    body = Body(builder, op)
    with body.entered(names):
        builder.lower(body.block.ops)
    merge_all(body)
    if facts.keeps:
        builder.records[op.output("Scope")[0]] = _record_of_branch(body, names, old)
    body.run(f"if {head}:", reads)
    return True


def _record_of_branch(body: Body, names: Iterable[str], old: Iterable[str]) -> Record:
    ran = body.start("False")
    body.steps.append(Step(body.op, [], [ran], [f"{ran} = True"]))
    before = {name: body.builder.env.get(name) for name in old}

    def held(value: Value) -> Value:
        symbol = body.alike(value)  # None where the branch did not run, but then it is not read
        target = f"{symbol}, {symbol.lod} = None, ()" if symbol.lod else f"{symbol} = None"
        body.before.append(Step(body.op, [], [symbol], [target]))
        body.steps.append(assignment(body.builder, body.op, symbol, value))
        return symbol

    return body.fill(Record(body.op, ran), names, before, held)
