"""Ops at the edges of sub-blocks: choosing between what two branches left, and memories of recurrences."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import EnforceNotMet
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.saved import keep
from fluidlite.executor.plan.actions import Assign, Call, Item
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.branches import routed_dtypes


class Chosen:
    """`chosen(number, *values)`: the value of that number."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __call__(self, number: int, *values: Any) -> Any:
        if not 0 <= number < len(values):
            raise EnforceNotMet(
                f"op 'select_input': Mask says {number}, but X has {len(values)} inputs\n  built at "
                f"{self.op.where}"
            )
        if values[number] is None:
            raise EnforceNotMet(
                f"op 'select_input': Mask says {number}, but that input was not computed\n  built at "
                f"{self.op.where}"
            )
        return values[number]


class Routed:
    """`routed(value, number)`: the value in the place of that number, None in the other of two."""

    def __call__(self, value: Any, number: int) -> tuple[Any, Any]:
        return ((value, None), (None, value))[number]


@lowering("select_input")
def _(e: Emitter) -> None:
    mask = e.need("Mask")
    found = [e.builder.newest(name) for name in e.op.inputs["X"]]
    values = [value for value in found if value is not None]
    if mask.size != 1 or len(values) < len(found):
        raise CannotLower("an input has no value")
    # the result has the shape of whichever is chosen, and rules after it rely on one
    if not all(_is_like(value, values[0]) for value in values):
        raise CannotLower("inputs of different kinds")
    out = e.local("Out", like=values[0])
    kept = [keep(e.builder, value) for value in values]
    choose = Call(e.bind("chosen", Chosen(e.op)), (Item(mask), *kept))
    e.assign(out, choose, holds=tuple(values))


def _is_like(value: Value, other: Value) -> bool:
    """True if a value has a known shape and no level of detail, and looks like another."""
    if value.has_lod or value.shape is None:
        return False
    return value.shape == other.shape and value.dtype == other.dtype


@lowering("select_output")
def _(e: Emitter) -> None:
    x = e.need("X")
    mask = e.need("Mask")
    names = e.op.outputs["Out"]
    # the output that is not chosen keeps its value, and here it would become None
    if mask.size != 1 or len(names) != 2 or any(e.builder.newest(name) is not None for name in names):
        raise CannotLower("an output keeps the value that it has")
    if any(dtype is not None and dtype != x.dtype for dtype in routed_dtypes(e.op)):
        raise CannotLower("a branch gives a value of another dtype")
    outs = tuple(e.local("Out", index, like=x, maybe=True) for index in range(2))
    route = Call(e.bind("routed", Routed()), (keep(e.builder, x), Item(mask)))
    e.step(Assign(outs, (route,), unpack=True), holds=(x,))


@lowering("rnn_memory_helper")
def _(e: Emitter) -> None:
    e.alias("Out", e.need("X"))


@lowering("rnn_memory_helper_grad")
def _(e: Emitter) -> None:
    names = e.op.inputs.get("Out@GRAD") or []
    # the last step of a recurrence has no step after it that gives its memory a gradient
    if names and e.builder.newest(names[0]) is not None:
        e.alias("X@GRAD", e.need("Out@GRAD"))
        return
    x = e.need("X")
    e.fill("X@GRAD", 0, x.shape or (), x.dtype)
