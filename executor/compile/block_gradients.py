"""Gradients of loops and branches in a plan: the gradient block runs once for each step that was kept, the
last first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.executor.compile.blocks import Body, block_writer, merge, merge_all, shaped, taken
from fluidlite.executor.compile.builder import PlanBuilder
from fluidlite.executor.compile.collected import WeightProducts
from fluidlite.executor.compile.saved import SavedForBackward, keep
from fluidlite.executor.plan.actions import (
    Assign,
    Bound,
    Branch,
    Call,
    Elementwise,
    Fresh,
    Function,
    LodOf,
    Loop,
    New,
    OrElse,
    Out,
)
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.loops import array_result, replaced_names
from fluidlite.ops.flow.sub_blocks import added, wanted_gradients, with_changes, zeros_of
from fluidlite.values.tensor import LoDTensorArray

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


class StepBack(_OfModule):
    """The gradient that goes on to the step before, of a variable whose gradient came in: arrays add up, and
    so does the total of what was added.
    """

    def __init__(self, xp: Any, carried: bool, replaced: bool) -> None:
        super().__init__(xp)
        self.carried = carried
        self.replaced = replaced

    def __call__(self, outer: Any, inner: Any, total: Any) -> tuple[Any, Any]:
        # entries are written one by one over the steps: only what this step changed goes back
        if isinstance(inner, LoDTensorArray):
            return with_changes(outer, outer, inner), with_changes(total, outer, inner)
        if self.carried:
            return inner, total
        return (zeros_of(self.xp, inner) if inner is not None and self.replaced else outer), total


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
    if found is None:
        return
    if value is not None and value.has_lod:
        copy = builder.values.local(found, name=name, maybe=found.maybe, has_lod=True)
        sources = (keep(builder, found), LodOf(value))
        builder.add(op, Assign((copy, LodOf(copy)), sources), holds=(found,))
        found = copy
    builder.publish(op, name, found)


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
        # a variable that the loop replaces has one gradient outside: what comes in for its last value goes
        # out, under the same name, for the value before the first step
        outer = {name: inner for inner, name in self.inside.items()}
        outputs = op.output("X@GRAD")
        self.carried = {name for index, name in self.wanted if outer.get(outputs[index]) == name}
        self.replaced = replaced_names(op.attrs["sub_block"])
        # then a gradient loop around this one adds up arrays of its own
        self.nested = builder.level.in_gradient
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
            first = self._entries(body)
            body.carry()
            position = builder.values.local()
            body.reopen(self.saved, position)
            summed = [name for _, name in self.wanted if name not in self.carried | {*self.symbols}]
            products = WeightProducts(body, summed)
            with body.entered(gradient=True):
                builder.lower(body.block.ops)
                totals = self._step_back(body)
                for name, symbol in body.carried.items():
                    body.move(name, symbol, body.env.get(name))
                self._add_up(body, totals)
                body.finish_moves()
            if body.stable:
                break
            # zeros for incoming gradients that an attempt which did not settle has left behind
            del builder.level.steps[mark:]
        body.write(Loop(position, self.saved.count, backwards=True))
        self._finish(first, {**totals, **products.write()})

    def _entries(self, body: Body) -> dict[str, Value | None]:
        """Symbols for the gradients that come in; gives what they start with."""
        results = {grad_name(name): name for name in self.op.input("Out")}
        first = dict[str, Value | None]()
        self.symbols = {}
        for inner, outer in self.inside.items():
            result = results.get(inner)
            value = self.builder.argument(self.op, result) if result else None
            made = self.builder.newest(outer) if outer != EMPTY_VAR else None
            first[inner] = _or_zeros(self.builder, self.op, made, value, body.before)
            body.given[inner] = self.symbols[inner] = body.symbol(inner, first[inner], lod=False)
        return first

    def _step_back(self, body: Body) -> dict[str, Value | None]:
        """The gradient that goes on to the step before, for each that came in; totals of entries written
        to arrays.
        """
        totals: dict[str, Value | None] = {}
        for name, symbol in self.symbols.items():
            inner = body.env.get(name)
            if symbol.shape is None:
                totals[name] = self._step_back_any(body, name, symbol, inner)
            elif name in self.carried:
                body.move(name, symbol, inner)
            # the forward step wrote the variable anew, so the value before it has no part in the result
            elif name in self.replaced:
                body.move(name, symbol, zeros(self.builder, self.op, symbol, body.steps))
        return totals

    def _step_back_any(self, body: Body, name: str, symbol: Value, inner: Value | None) -> Value:
        """The same for a gradient whose shape is not known, which may be an array of tensors; gives its
        total.
        """
        total = body.start(None)
        total.may_be_none()
        new = self.builder.values.local(maybe=symbol.maybe)
        step_back = Bound("step_back", Fresh(StepBack, (name in self.carried, name in self.replaced)))
        kept = None if inner is None else keep(self.builder, inner)
        body.add(
            Assign((new, total), (Call(step_back, (symbol, kept, total)),), unpack=True),
            holds=() if inner is None else (inner,),
        )
        body.move(name, symbol, new)
        return total

    def _add_up(self, body: Body, totals: dict[str, Value | None]) -> None:
        for index, name in self.wanted:
            if name not in self.carried:
                value = self.builder.newest(self.op.input("X")[index])
                totals[name] = total_of(body, body.env.get(name), value, totals.get(name))

    def _finish(self, first: dict[str, Value | None], totals: dict[str, Value | None]) -> None:
        variables = self.op.input("X")
        gradients = self.op.output("X@GRAD")
        for index, name in self.wanted:
            made = totals.get(name)
            if name in self.carried:
                made = self._result(name, first[name], made)
            finish(self.builder, self.op, gradients[index], made, variables[index])

    def _result(self, name: str, first: Value | None, total: Value | None) -> Value:
        """The gradient before the first step. Inside another loop an array comes without what that loop
        will add itself.
        """
        symbol = self.symbols[name]
        # only arrays of tensors have a total: entries written by this loop
        if not self.nested or total is None:
            return symbol
        found = self.builder.values.local(maybe=symbol.maybe)
        kept = None if first is None else keep(self.builder, first)
        call = Call(Bound("array_result", array_result), (symbol, total, kept))
        holds = () if first is None else (first,)
        self.builder.add(self.op, Assign((found,), (call,)), holds=holds)
        return found


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
    condition = taken(builder, op)
    body = Body(builder, op, [*incoming, *(name for _, name in wanted)], saved=saved)
    body.given.update(saved.values)
    body.saved.update(saved.nested)
    for (name, value), out in zip(incoming.items(), op.input("Out"), strict=False):
        like = None if value is not None and value.known else builder.argument(op, out)
        given = _or_zeros(builder, op, value, like, body.steps)
        if given is not None:
            body.given[name] = given
    with body.entered(gradient=True):
        builder.lower(body.block.ops)
    # for each gradient what the block made, or what came in where the block did not run
    results = {name: merge(body, name, incoming.get(name), body.env.get(name)) for _, name in wanted}
    merge_all(body)
    body.write(Branch((saved.count, condition)))
    variables = op.input("Input")
    gradients = op.output("Input@GRAD")
    for index, name in wanted:
        finish(builder, op, gradients[index], results[name], variables[index])
    return True
