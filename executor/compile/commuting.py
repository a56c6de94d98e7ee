"""Pools of largest elements before a bias and relu: the largest of relu(x + b) is relu(the largest x + b),
and a quarter as many elements are added to and compared where windows are of 2 x 2.

Rules of ops that keep the order of elements `note` what they did; the rule of a pool that finds such a note,
and sees that nobody else reads what came between, pools what lay before, and does the steps behind it. What
was written of them first is then read by nobody, and dropped. The gradient takes relu's zeros and the bias's
sums from the pooled elements. Elements that only rounding makes equal may change places: the gradient goes to
the one that was larger before the bias. An infinite bias meets the infinity of the other sign only where that
is the largest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fluidlite.base.records import dataclass
from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.compile.layout import beside, seen_as
from fluidlite.executor.plan.actions import Bound
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator

__all__ = ["Commuted", "Rising", "finish", "note", "note_routed", "pooled_of", "rising", "serves_gradient"]


@dataclass(frozen=True)
class Rising:
    """relu(source + bias), or one of the two steps alone; `axis` is where the bias stands."""

    source: Value
    bias: Value | None = None
    axis: int = -1
    relu: bool = False


@dataclass(frozen=True)
class Commuted:
    """A pool that went before the steps of `steps`: its object, its result, and the elements it was for."""

    plan: Bound
    steps: Rising
    pooled: Value


@dataclass(frozen=True)
class _Unpooled:
    """Pooled gradients of which an array is the routed sum, relu of `x` already done."""

    pooled: Value
    x: Value


def note(e: Emitter, slot: str, x: Value, bias: Value | None = None, axis: int = -1) -> None:
    """Remember that an output is x with a bias, or without one relu of x."""
    before: Rising | None = e.recall(("rising", x))
    if x.order is None:
        return
    if before is None or before.relu or bias is not None:
        before = Rising(x)
    found = replace(before, relu=True) if bias is None else replace(before, bias=bias, axis=axis)
    e.remember(("rising", _written(e, slot)), found)


def _written(e: Emitter, slot: str) -> Value:
    """The value that the rule has given an output."""
    name = e.op.outputs[slot][0]
    return next(value for given, value in reversed(e.finals) if given == name)


def rising(e: Emitter, x: Value) -> Rising | None:
    """The steps that computed the input of a pool, if it may go before them; None where others read it."""
    found: Rising | None = e.recall(("rising", x))
    if found is None or found.source.order != x.order:
        return None
    name = e.op.inputs["X"][0]
    pooled = e.op.outputs["Out"][0]
    readers = e.builder.later_readers(name)
    definition = e.op.definition
    if readers is None or definition is None:
        return None
    if not all(_is_gradient_of(op, definition.grad_type, name, pooled) for op in readers):
        return None
    return found


def _is_gradient_of(op: Operator, pool: str, name: str, pooled: str) -> bool:
    """True for the gradients of the relu that gave a variable, and of the pool that took it: a `pool`."""
    if op.type == pool:
        return op.inputs["X"] == [name] and op.inputs["Out"] == [pooled]
    return op.type == "relu_grad" and op.inputs["Out"] == [name]


def finish(e: Emitter, steps: Rising, pooled: Value, out: Value, order: tuple[int, ...]) -> None:
    """out = the steps, of what is pooled; both as their dimensions lie in memory."""
    if steps.bias is None:
        e.elementwise("maximum(0, x)", out, x=pooled)
        return
    rows, factors = beside(e, e.plain(steps.bias), pooled, order, steps.axis)
    expr = "maximum(0, x + y)" if steps.relu else "x + y"
    e.elementwise(expr, seen_as(e, out, rows), x=rows, y=factors)


def serves_gradient(e: Emitter, x: Value) -> Commuted | None:
    """The pool that went before the steps of X, if relu's gradient alone reads that of X."""
    found: Commuted | None = e.recall(("commuted", x, e.op.inputs["Out"][0]))
    if found is None or not found.steps.relu:
        return found
    readers = e.builder.later_readers(e.op.outputs["X@GRAD"][0])
    name = e.op.inputs["X"][0]
    is_ours = readers is not None and _are_gradients(readers, name)
    return found if is_ours else None


def _are_gradients(ops: Iterable[Operator], name: str) -> bool:
    return all(op.type == "relu_grad" and op.inputs["Out"] == [name] for op in ops)


def note_routed(e: Emitter, pooled: Value, x: Value) -> None:
    """Remember of which pooled gradients X@GRAD consists."""
    e.remember(("routed", _written(e, "X@GRAD")), _Unpooled(pooled, x))


def pooled_of(e: Emitter, d: Value, x: Value | None = None) -> Value | None:
    """The pooled gradients of which `d` consists, if it does; with `x` only where relu of x is done."""
    found: _Unpooled | None = e.recall(("routed", d))
    return None if found is None or (x is not None and found.x is not x) else found.pooled
