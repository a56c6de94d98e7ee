"""Ops at the edges of sub-blocks: choosing between what two branches left, and memories of recurrences."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import EnforceNotMet
from fluidlite.executor.compile.blocks import keep
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.plan_ir import Storage, Value
from fluidlite.ir.operator import Operator


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


def _alike(e: Emitter, name: str, like: Value, maybe: bool) -> Value:
    found: Value = e.builder.values.make(like.shape, like.dtype, Storage.LOCAL, name=name, maybe=maybe)
    e.finals.append((name, found))
    return found


@lowering("select_input")
def _(e: Emitter) -> None:
    values, mask = [e.builder.env.get(name) for name in e.op.inputs["X"]], e.need("Mask")
    if mask.size != 1 or any(
        value is None
        or value.lod
        or value.shape is None
        or value.shape != values[0].shape
        or value.dtype != values[0].dtype
        for value in values
    ):
        raise CannotLower("inputs of different kinds")
    out = _alike(e, e.op.outputs["Out"][0], values[0], False)
    texts = ", ".join(keep(e.builder, value) for value in values)
    e.line(f"{out} = {e.bind('chosen', Chosen(e.op))}({mask}.item(), {texts})", [mask, *values], [out])
    e.steps[-1].holds = list(values)


@lowering("select_output")
def _(e: Emitter) -> None:
    x, mask, names = e.need("X"), e.need("Mask"), e.op.outputs["Out"]
    if mask.size != 1 or len(names) != 2 or any(name in e.builder.env for name in names):
        raise CannotLower("an output keeps the value that it has")
    outs, text = [_alike(e, name, x, True) for name in names], keep(e.builder, x)
    e.line(f"{outs[0]}, {outs[1]} = (({text}, None), (None, {text}))[{mask}.item()]", [mask, x], outs)
    e.steps[-1].holds = [x]


@lowering("rnn_memory_helper")
def _(e: Emitter) -> None:
    e.alias("Out", e.need("X"))


@lowering("rnn_memory_helper_grad")
def _(e: Emitter) -> None:
    names = e.op.inputs.get("Out@GRAD") or []
    if names and names[0] in e.builder.env:
        e.alias("X@GRAD", e.need("Out@GRAD"))
        return
    x = e.need("X")
    e.fill("X@GRAD", 0, x.shape or (), x.dtype)
