"""Gradients of loops and branches in a plan: the gradient block runs once for each step that was kept, the
last first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.executor.compile.blocks import Body, block_writer, merge, merge_all, shaped
from fluidlite.executor.compile.builder import PlanBuilder
from fluidlite.executor.compile.collected import WeightProducts
from fluidlite.executor.compile.saved import SavedForBackward, keep
from fluidlite.executor.plan.actions import (
    Assign,
    Bound,
    Branch,
    Call,
    Elementwise,
    Function,
    LodOf,
    Loop,
    New,
    OrElse,
    Out,
)
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.sub_blocks import added, wanted_gradients, zeros_of

__all__ = ["combined", "finish", "total_of", "zeros"]


# ---------- called by plans, for values of any kind
class _OfModule:
    """Works with the array module of the place that a plan is bound to."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp


class Add(_OfModule):
    """The sum of two gradients, either of which may be None."""

    def __call__(self, a: Any, b: Any) -> Any:
        return added(self.xp, a, b)


class ZerosIfNone(_OfModule):
    """A gradient, or zeros that look like the value it belongs to."""

    def __call__(self, made: Any, value: Any) -> Any:
        return made if made is not None else zeros_of(self.xp, value)


# ---------------------------------------------------------------------- parts
def zeros(builder: PlanBuilder, op: Operator, like: Value, steps: list[Step]) -> Value:
    """Zeros in the shape of a value of known shape."""
    assert like.dtype is not None
    zero = np.zeros((), like.dtype).item()
    # `uniform`: ops that meet it compute with the number, and mostly nobody needs the array
    value = builder.values.make(like.shape, like.dtype, Storage.BUFFER, uniform=zero)
    steps.append(Step(op, Elementwise("copy", (zero,)), (value,)))
    return value


def _new_zeros(like: Value) -> New:
    """A new array of zeros in the shape of a value of known shape."""
    assert like.shape is not None
    return New("zeros", like.shape, str(like.dtype))


def _or_zeros(
    builder: PlanBuilder, op: Operator, made: Value | None, value: Value | None, steps: list[Step]
) -> Value | None:
    """`made`, or zeros like `value` where that is None: the gradient of what nobody used."""
    if made is not None and made.known:
        return made
    if made is None:
        if value is None:
            return None
        if value.known:
            return zeros(builder, op, value, steps)
    if made is not None and shaped(made):
        found = builder.values.local(made)
        chosen = OrElse(made, keep(builder, made), _new_zeros(made))
        steps.append(Step(op, Assign((found,), (chosen,)), holds=(made,)))
        return found
    found = builder.values.local()
    kept = None if made is None else keep(builder, made)
    like = Call(Bound("zeros_if_none", Fresh(ZerosIfNone)), (kept, value))
    holds = () if made is None else (made,)
    steps.append(Step(op, Assign((found,), (like,)), holds=holds))
    return found


def finish(builder: PlanBuilder, op: Operator, name: str, made: Value | None, of: str) -> None:
    """Let `made`, or zeros, be the variable `name`, the gradient of `of`, with the level of detail of
    that.
    """
    value = builder.argument(op, of)
    found = _or_zeros(builder, op, made, value, builder.level.steps)
    if found is not None:
        builder.publish(op, name, _with_levels(builder, op, name, found, value, builder.level.steps))


def _with_levels(
    builder: PlanBuilder, op: Operator, name: str, found: Value, like: Value | None, steps: list[Step]
) -> Value:
    """The gradient `found` with the level of detail of its variable, `like`."""
    if like is None or not like.has_lod or found.has_lod:
        return found
    copy = builder.values.local(found, name=name, maybe=found.maybe, has_lod=True)
    sources = (keep(builder, found), LodOf(like))
    steps.append(Step(op, Assign((copy, LodOf(copy)), sources), holds=(found,)))
    return copy


def combined(
    builder: PlanBuilder, op: Operator, a: Value | None, b: Value | None, steps: list[Step]
) -> Value | None:
    """The sum of two gradients."""
    if a is None or b is None:
        return b if a is None else a
    # dense arrays of one form add up in a buffer; sums with rows or lists are made when the plan runs
    if a.known and b.known and a.shape == b.shape and a.dtype == b.dtype:
        value = builder.values.make(a.shape, a.dtype, Storage.BUFFER)
        steps.append(Step(op, Elementwise("add", (a, b)), (value,)))
        return value
    value = builder.values.local()
    total = Call(Bound("added", Fresh(Add)), (keep(builder, a), keep(builder, b)))
    steps.append(Step(op, Assign((value,), (total,)), holds=(a, b)))
    return value


def total_of(
    body: Body, inner: Value | None, value: Value | None, start: Value | None = None
) -> Value | None:
    """The sum over all steps of the gradient that the block finds for one variable that the loop only
    reads.
    """
    if inner is None:
        return start
    builder = body.builder
    is_alike = value is not None and value.shape == inner.shape and value.dtype == inner.dtype
    # in place into one array of its own, which outlives the steps of the loop
    if start is None and inner.known and is_alike:
        total = builder.values.local(inner, name=inner.name)
        body.before.append(Step(body.op, Assign((total,), (_new_zeros(inner),))))
        body.add(Call(Function("add"), (total, inner), (("out", Out(total)),)))
        return total
    total = start or body.start(None)
    total.may_be_none()
    added_up = Call(Bound("added", Fresh(Add)), (total, keep(builder, inner)))
    body.add(Assign((total,), (added_up,)), holds=(inner,))
    return total


# ---------------------------------------------------------------------- while
class _WhileGradient:
    """One `while_grad`: the gradients that go from each step to the one before, and those that add up over
    all steps.
    """

    def __init__(self, builder: PlanBuilder, op: Operator, saved: SavedForBackward) -> None:
        self.builder = builder
        self.op = op
        self.saved = saved
        self.wanted = wanted_gradients(op, "X")
        self.inside = dict(zip(op.attrs["original_output_grad"], op.input("Out@GRAD"), strict=True))
        self.symbols: dict[str, Value] = {}

    def write(self) -> None:
        """Write the loop, then what it found."""
        builder = self.builder
        op = self.op
        while True:
            mark = len(builder.level.steps)
            # gradients belong to the block, although it does not declare them: those outside have the same
            # names
            body = Body(builder, op, [*(name for _, name in self.wanted), *self.inside], saved=self.saved)
            self._entries(body)
            body.carry()
            position = builder.values.local()
            body.reopen(self.saved, position)
            summed = [name for _, name in self.wanted if name not in self.symbols]
            products = WeightProducts(body, summed)
            with body.entered(gradient=True):
                builder.lower(body.block.ops)
                # each step hands the gradient of what it began with to the one before
                for name, symbol in self.symbols.items():
                    body.move(name, symbol, body.env.get(name))
                totals = self._totals(body)
                for name, symbol in body.carried.items():
                    body.move(name, symbol, body.env.get(name))
                body.finish_moves()
            if body.stable:
                break
            # zeros for incoming gradients that an attempt which did not settle has left behind
            del builder.level.steps[mark:]
        body.write(Loop(position, self.saved.count, backwards=True))
        self._finish({**totals, **products.write(), **self.symbols})

    def _entries(self, body: Body) -> None:
        """Symbols for the gradients that come in."""
        results = {grad_name(name): name for name in self.op.input("Out")}
        self.symbols = {}
        for inner, outer in self.inside.items():
            # of a variable of its own, a step knows nothing of the step behind it
            if inner not in results:
                continue
            value = self.builder.argument(self.op, results[inner])
            made = self.builder.newest(outer) if outer != EMPTY_VAR else None
            first = _or_zeros(self.builder, self.op, made, value, body.before)
            with_lod = value is not None and value.has_lod
            if first is not None:
                first = _with_levels(self.builder, self.op, inner, first, value, body.before)
            body.given[inner] = self.symbols[inner] = body.symbol(inner, first, lod=with_lod)

    def _totals(self, body: Body) -> dict[str, Value | None]:
        """The gradients of what the loop only reads, which add up over the steps."""
        totals = {}
        for index, name in self.wanted:
            if name not in self.symbols:
                value = self.builder.newest(self.op.input("X")[index])
                totals[name] = total_of(body, body.env.get(name), value)
        return totals

    def _finish(self, found: Mapping[str, Value | None]) -> None:
        variables = self.op.input("X")
        gradients = self.op.output("X@GRAD")
        for index, name in self.wanted:
            finish(self.builder, self.op, gradients[index], found.get(name), variables[index])


def saved_forward(builder: PlanBuilder, scopes: Sequence[str]) -> SavedForBackward | None:
    """The values kept of the forward run that has one of these scopes; None where the plan keeps none."""
    known = builder.level.saved
    return next((known[name] for name in scopes if name in known), None)


@block_writer("while_grad")
def _(builder: PlanBuilder, op: Operator) -> bool:
    saved = saved_forward(builder, op.input("StepScopes"))
    if saved is None:
        return False
    _WhileGradient(builder, op, saved).write()
    return True


# ---------------------------------------------------------------------- conditional_block
@block_writer("conditional_block_grad")
def _(builder: PlanBuilder, op: Operator) -> bool:
    saved = saved_forward(builder, op.input("Scope"))
    if saved is None:
        return False
    wanted = wanted_gradients(op, "Input")
    incoming = {
        grad_name(name): builder.newest(outer)
        for name, outer in zip(op.input("Out"), op.input("Out@GRAD"), strict=False)
    }
    body = Body(builder, op, [*incoming, *(name for _, name in wanted)], saved=saved)
    body.given.update(saved.values)
    body.saved.update(saved.nested)
    for (name, value), out in zip(incoming.items(), op.input("Out"), strict=False):
        made = builder.argument(op, out)
        like = None if value is not None and value.known else made
        given = _or_zeros(builder, op, value, like, body.steps)
        if given is not None:
            body.given[name] = _with_levels(builder, op, name, given, made, body.steps)
    with body.entered(gradient=True):
        builder.lower(body.block.ops)
    # for each gradient what the block made, or what came in where the block did not run
    results = {name: merge(body, name, incoming.get(name), body.env.get(name)) for _, name in wanted}
    merge_all(body)
    body.write(Branch((saved.count,)))
    variables = op.input("Input")
    gradients = op.output("Input@GRAD")
    for index, name in wanted:
        finish(builder, op, gradients[index], results[name], variables[index])
    return True
