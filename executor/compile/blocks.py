"""Sub-blocks in a plan: the ops of loops and branches become steps inside a `while`, `for` or `if` of the
source.

The interpreter's frames are resolved while the plan is made. An outer variable that a sub-block replaces gets
a symbol that holds its value from one step of the loop to the next. What the gradient of a loop reads of each
step is put into lists, one for each variable (`SavedForBackward`). Arrays that outlive a step of a loop are
made anew each time (`Storage.FRESH`); all others are buffers of the pool, as in straight lines.

A sub-block that cannot be written so is left, with its gradient, to the interpreter (`CannotInline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.executor.compile.builder import CannotInline, PlanBuilder, Writer
from fluidlite.executor.compile.level import Level
from fluidlite.executor.compile.saved import SavedForBackward, keep
from fluidlite.executor.plan.actions import (
    Append,
    Assign,
    At,
    Bound,
    Branch,
    Call,
    Item,
    LodOf,
    Loop,
    Operand,
    Sum,
    WhileLoop,
)
from fluidlite.executor.plan.objects import Plain
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Value
from fluidlite.ir.block import Block
from fluidlite.ir.buffer_order import ops_to_run
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes
from fluidlite.ops.flow.sub_blocks import facts_of, has_elements, is_true

__all__ = [
    "WRITERS",
    "Body",
    "assignment",
    "block_writer",
    "gradient_reads",
    "merge",
    "merge_all",
    "shaped",
    "taken",
]

WRITERS: dict[str, Writer] = {}
"""Op type -> how it is written into a plan."""


def block_writer(*types: str) -> Callable[[Writer], Writer]:
    """Declare how ops with a sub-block are written into a plan; the function says whether it did."""

    def declare(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(types, writer))
        return writer

    return declare


# ---------------------------------------------------------------------- values that outlive a step
def shaped(value: Value | None) -> bool:
    """True if a value has a known shape and dtype when it is there at all."""
    return value is not None and value.shape is not None and value.dtype is not None


def assignment(builder: PlanBuilder, op: Operator, target: Value, source: Value | None) -> Step:
    """`target = source`, with the level of detail where the target has one."""
    kept = None if source is None else keep(builder, source)
    holds = () if source is None else (source,)
    if not target.has_lod:
        return Step(op, Assign((target,), (kept,)), holds=holds)
    lod: Operand = () if source is None else LodOf(source)
    return Step(op, Assign((target, LodOf(target)), (kept, lod)), holds=holds)


def truth(value: Value) -> Operand:
    """The truth of a condition."""
    # the usual case without a call: `.item()` of an array that is known to be there
    if value.known and value.size == 1:
        return Item(value)
    return Call(Bound("is_true", Plain(is_true)), (value,))


# ---------------------------------------------------------------------- a sub-block being lowered
class Body:
    """One sub-block on its way into a plan.

    `given` are variables that every run of the block starts with, `own` those that belong to it although it
    does not declare them; `saved` belongs to the forward block whose gradient it computes.
    """

    def __init__(
        self,
        builder: PlanBuilder,
        op: Operator,
        own: Iterable[str] = (),
        given: Mapping[str, Value] | None = None,
        saved: SavedForBackward | None = None,
    ) -> None:
        self.builder = builder
        self.op = op
        self.block = op.attrs["sub_block"]
        self.own = frozenset(own)
        self.given = dict(given or {})
        self.past: Block | None = saved.op.attrs["sub_block"] if saved else None
        self.kept = set(saved.values) | set(saved.nested) if saved else set[str]()
        # steps ahead of the loop or branch
        self.before: list[Step] = []
        self.carried: dict[str, Value] = {}
        self.moves: list[tuple[Value, Value | None]] = []
        # False as soon as a step leaves something else than the symbols stand for: then the body is lowered
        # again
        self.stable = True
        self.level = Level(self.block)
        self.replaced = self._replaced()

    @property
    def steps(self) -> list[Step]:
        """The steps of the block so far."""
        return self.level.steps

    @property
    def env(self) -> dict[str, Value]:
        """Variable -> its newest value, inside the block."""
        return self.level.env

    @property
    def saved(self) -> dict[str, SavedForBackward]:
        """By the variable of their frames: what loops and branches inside the block have saved."""
        return self.level.saved

    def add(self, action: Any, **fields: Any) -> None:
        """Append a step to the block."""
        self.steps.append(Step(self.op, action, **fields))

    def hides(self, name: str) -> bool:
        """True if `name` is another variable inside than outside."""
        if name in self.own or name in self.given:
            return True
        # a persistable variable lives in the scope, whatever block declares it
        return name in self.block.vars and not self.block.vars[name].persistable

    def local(self, name: str) -> bool:
        """True if what the block writes to `name` stays in it."""
        # a gradient block writes over variables of its forward block, such as a counter that it rewinds
        if self.hides(name) or name in self.kept or (self.past is not None and name in self.past.vars):
            return True
        return self.builder.newest(name) is None and self.builder.block._find_var_recursive(name) is None

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
        """The symbol that holds a variable from step to step of a loop, starting with `entry`."""
        leaves_none = self.builder.changes_shape(self.op, name)
        is_known = shaped(entry) and leaves_none is None
        value = self.builder.values.local(
            entry if is_known else None,
            name=name,
            maybe=entry is None or entry.maybe or bool(leaves_none),
            # a value of unknown shape may come with a level of detail in any step
            has_lod=lod and (not is_known or (entry is not None and entry.has_lod)),
        )
        self.before.append(assignment(self.builder, self.op, value, entry))
        return value

    def carry(self) -> None:
        """Give every outer variable that the loop replaces a symbol."""
        self.carried = {name: self.symbol(name, self.builder.newest(name)) for name in self.replaced}

    def move(self, name: str, symbol: Value, new: Value | None) -> None:
        """At the end of a step, let `symbol` hold `new`; notes where that does not look like what the
        symbol stands for.
        """
        if new is symbol:
            return
        # the body may leave the variable empty although the symbol was taken to hold something always
        is_lost = (new is None or new.maybe) and not symbol.maybe
        if is_lost or self._looks_different(symbol, new):
            self.builder.note_change_of_shape(self.op, name, is_lost)
            self.stable = False
        self.moves.append((symbol, new))

    @staticmethod
    def _looks_different(symbol: Value, new: Value | None) -> bool:
        if symbol.shape is None:
            return False
        if new is None or new.shape != symbol.shape or new.dtype != symbol.dtype:
            return True
        # a level of detail would be lost on the way to the next step; the other way round () will do
        return new.has_lod and not symbol.has_lod

    def finish_moves(self) -> None:
        """Write the moves: all of them happen at once."""
        targets = {symbol for symbol, _ in self.moves}
        ready = []
        for symbol, new in self.moves:
            # a, b = b, a: the second assignment must not see the first
            if new is not None and new.root in targets and new.root is not symbol:
                copy = self.alike(new)
                self.steps.append(assignment(self.builder, self.op, copy, new))
                new = copy
            ready.append((symbol, new))
        self.steps.extend(assignment(self.builder, self.op, symbol, new) for symbol, new in ready)

    # ------------------------------------------------------------------ lowering
    def entered(self, needed: Iterable[str] = (), gradient: bool = False) -> AbstractContextManager[None]:
        """Lower inside the block; `needed` are variables of it that something outside reads."""
        outer = self.builder.level
        # what hides an outer variable starts without a value in every step, as in a fresh frame
        env = {name: value for name, value in outer.env.items() if not self.hides(name)}
        env.update(self.given)
        env.update(self.carried)
        self.renew(env)
        self.level.enter(outer, env, {*self.replaced, *self.own, *needed}, gradient)
        return self.builder.inside(self.level)

    def write(self, head: WhileLoop | Loop | Branch) -> None:
        """Append the loop or branch to the plan; after it, outer variables are what the symbols hold."""
        level = self.builder.level
        # an effect: whether a condition ever turns false cannot be told from who reads the results
        level.steps += self.before
        level.steps.append(Step(self.op, head, effect=True, body=tuple(self.steps)))
        # after the loop its variables are what the symbols hold, whether it ran a step or not
        level.env.update(self.carried)
        self.renew(level.env)

    def renew(self, env: dict[str, Value]) -> None:
        """Persistable variables that the block changes in place: what was known of their content holds no
        more.
        """
        # sorted, so that the numbers of values do not depend on the order of a set of names
        for name in sorted(writes(self.op)):
            held = self.builder.held(name) if self.builder.is_persistable(name) else None
            if held is not None:
                env[name] = self.builder.param(name, held)

    # ------------------------------------------------------------------ what is saved for the gradient
    def start(self, value: Any, entry: Value | None = None) -> Value:
        """A symbol that is set to a constant, or to a new list of such entries, before the loop or branch
        starts.
        """
        symbol = self.builder.values.local(entry=entry)
        self.before.append(Step(self.op, Assign((symbol,), (value,))))
        return symbol

    def listed(self, value: Value) -> Value:
        """A list that gets `value` in every step."""
        found = self.start([], entry=value)
        kept = keep(self.builder, value)
        # `holds`: the list refers to the array after the step, so a later pass gives it memory of its own
        item = (kept, LodOf(value)) if value.has_lod else kept
        self.add(Append(found, item), holds=(value,))
        return found

    def save(self, names: Iterable[str], old: Mapping[str, Value | None]) -> SavedForBackward:
        """Save variables of every step, the value before the step for those in `old`."""
        count = self.start(0)
        one_more = Sum(((1, count), (1, 1)))
        self.add(Assign((count,), (one_more,)))
        return self.fill(SavedForBackward(self.op, count), names, old, self.listed)

    def fill(
        self,
        saved: SavedForBackward,
        names: Iterable[str],
        old: Mapping[str, Value | None],
        hold: Callable[[Value], Value],
    ) -> SavedForBackward:
        """Let `hold` keep variables of the block, those in `old` as they were before it."""
        for name in names:
            if name in self.saved and self.local(name):
                saved.nested[name] = self.saved[name].map(hold)
                continue
            # outer variables need no list: the gradient finds them where they are
            value = old.get(name, self.env.get(name) if self.local(name) else None)
            if value is not None:
                saved.values[name] = hold(value)
        return saved

    def reopen(self, saved: SavedForBackward, position: Value) -> None:
        """Start with what was saved of the step at `position`."""
        opened = saved.map(lambda symbol: self._entry(symbol, position))
        self.given.update(opened.values)
        self.saved.update(opened.nested)

    def _entry(self, symbol: Value, position: Value) -> Value:
        """One value out of a list."""
        like = symbol.entry
        if like is None:  # the number of steps
            return symbol
        found = self.alike(like)
        if found.has_lod:
            self.add(Assign((found, LodOf(found)), (At(symbol, position),), unpack=True))
        else:
            self.add(Assign((found,), (At(symbol, position),)))
        return found

    def alike(self, like: Value) -> Value:
        """A symbol for values that look like another."""
        return self.builder.values.local(
            like, name=like.name, maybe=like.maybe, entry=like.entry, has_lod=like.has_lod
        )


def gradient_reads(op: Operator, slot: str) -> list[str]:
    """Names that the gradient blocks of `op` read: those of the ops that read its frames, in `slot`."""
    frames = set(op.output(slot))
    names = dict[str, None]()

    def visit(block: Block) -> None:
        for inner in block.ops:
            updates = inner.definition.updates if inner.definition else ()
            # an op that writes one entry of an array reads the others
            updated = [name for one in updates for name in inner.output(one)]
            names.update(dict.fromkeys([*inner.input_arg_names, *updated]))
            for deeper in inner.sub_blocks():
                visit(deeper)

    for block in op.block.program.blocks:
        for other in block.ops:
            if not frames.isdisjoint(other.input_arg_names):
                for inside in other.sub_blocks():
                    visit(inside)
    return list(names)


def kept_names(
    builder: PlanBuilder, op: Operator, carried: Iterable[str], slot: str
) -> tuple[list[str], list[str]]:
    """The names that the gradient of `op` reads, and those of them that it reads as they were before a step:
    of arrays, entries are never replaced.
    """
    names = gradient_reads(op, slot)
    old = []
    for name in names:
        var = builder.block._find_var_recursive(name)
        if name not in carried:
            continue
        # its array is written over, by the block or by an op behind it, before the gradient reads it
        if var is not None and var.persistable:
            raise CannotInline(f"its gradient reads {name!r}, a persistable variable that is replaced")
        if var is None or var.type != VarType.LOD_TENSOR_ARRAY:
            old.append(name)
    return names, old


# ---------------------------------------------------------------------- while
@block_writer("while")
def _(builder: PlanBuilder, op: Operator) -> bool:
    condition = op.input("Condition")[0]
    facts = facts_of(op, "X")
    names, old = kept_names(builder, op, facts.carried, "StepScopes") if facts.keeps else ([], [])
    # each attempt that does not settle notes a variable that changes its shape, so this ends
    while True:
        body = Body(builder, op)
        body.carry()
        # `while` of the source reads the symbol of the condition, which only a carried variable has
        if condition not in body.carried or builder.newest(condition) is None:
            raise CannotInline("its condition is not written by its body, has no value, or is persistable")
        # what the gradient reads is needed, even where no op of the loop reads it later
        with body.entered(names):
            builder.lower(ops_to_run(body.block))
            if facts.keeps:
                outer = {name: body.carried.get(name, body.env.get(name)) for name in old}
                # each gradient counts these back from where the step has left them
                outer.update((name, body.env.get(name)) for name in facts.counted)
                saved = body.save(names, outer)
            for name, symbol in body.carried.items():
                body.move(name, symbol, body.env.get(name))
            body.finish_moves()
        if body.stable:
            break
    body.write(WhileLoop(truth(body.carried[condition])))
    if facts.keeps:
        builder.save_for_backward(op.output("StepScopes")[0], saved)
    return True


# ---------------------------------------------------------------------- conditional_block
def taken(builder: PlanBuilder, op: Operator) -> Operand:
    """The condition of a branch."""
    slot = "Cond" if op.attrs.get("is_scalar_condition") else "Input"
    values = [builder.argument(op, name) for name in op.input(slot)]
    if slot == "Cond":
        if not values or values[0] is None:
            raise CannotInline("its condition has no value")
        return truth(values[0])
    # such a branch runs if all its inputs have elements, and what has no value has none
    if any(value is None for value in values):
        return False
    return Call(Bound("has_elements", Plain(has_elements)), (values,))


def merge(body: Body, name: str, old: Value | None, new: Value | None) -> Value | None:
    """A symbol that holds `new` where the branch ran, else `old`."""
    # the branch did not write it
    if new is old:
        return old
    # where both sides look alike, ops after the branch may go on knowing shape and dtype
    is_alike = old is None or new is None or (old.shape == new.shape and old.dtype == new.dtype)
    like = new if new is not None else old
    assert like is not None
    value = body.builder.values.local(
        like if is_alike else None,
        name=name,
        maybe=old is None or new is None or old.maybe or new.maybe,
        has_lod=not is_alike
        or like.shape is None
        or any(one is not None and one.has_lod for one in (old, new)),
    )
    body.before.append(assignment(body.builder, body.op, value, old))
    body.steps.append(assignment(body.builder, body.op, value, new))
    return value


def merge_all(body: Body) -> None:
    """Merge every outer variable that a branch replaces."""
    for name in body.replaced:
        merged = merge(body, name, body.builder.newest(name), body.env.get(name))
        if merged is not None:
            body.carried[name] = merged
