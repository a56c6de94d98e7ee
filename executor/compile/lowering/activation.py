"""Activations whose formula depends on the version that the program is of."""

from __future__ import annotations

from fluidlite.base.registry import OF_2X_ATTR
from fluidlite.executor.compile.emitter import Emitter, expression_rule, lowering

_FLUID, _OF_2X = (expression_rule(expr) for expr in ("maximum(x, alpha * x)", "where(x > 0, x, alpha * x)"))


@lowering("leaky_relu")
def _(e: Emitter) -> None:
    (_OF_2X if e.op.attrs.get(OF_2X_ATTR) else _FLUID)(e)


@lowering("leaky_relu_grad")
def _(e: Emitter) -> None:
    side = "x" if e.op.inputs.get("X") else "out"
    if e.op.attrs.get(OF_2X_ATTR):
        expr = f"where({side} < 0, alpha * dout, dout)"
    else:
        expr = f"where({side} > 0, dout, alpha * dout)"
    expression_rule(expr)(e)
