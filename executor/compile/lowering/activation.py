"""Activations whose formula depends on the version that the program is of, and gelu, whose gradient takes
over what the forward op has computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.registry import OF_2X_ATTR
from fluidlite.executor.compile import commuting, tails
from fluidlite.executor.compile.emitter import CannotLower, Emitter, expression_rule, lowering
from fluidlite.executor.plan.values import Value

_RELU = expression_rule("maximum(0, x)")


@lowering("relu")
def _(e: Emitter) -> None:
    x = e.laid_need("X")
    tail = None if x.order is None or e.persistable("Out") else tails.tail_of(e, "X")
    if tail is None or not tail.takes_relu:
        _RELU(e)
        commuting.note(e, "Out", x)
    else:
        tails.extend(e, tail, "Out", x, relu=True)


_RELU_GRAD = expression_rule("dout * (out > 0)")


@lowering("relu_grad")
def _(e: Emitter) -> None:
    d = e.laid_need("Out@GRAD")
    if commuting.pooled_of(e, d, e.laid_need("Out")) is None:
        _RELU_GRAD(e)
    else:
        e.alias("X@GRAD", d)


_FLUID, _OF_2X = (expression_rule(expr) for expr in ("maximum(x, alpha * x)", "where(x > 0, x, alpha * x)"))


@lowering("leaky_relu")
def _(e: Emitter) -> None:
    rule = _OF_2X if e.op.attrs.get(OF_2X_ATTR) else _FLUID
    (rule if e.attr("alpha") else _RELU)(e)


def _sloped(e: Emitter) -> None:
    """The gradient as a product with 1 or alpha: 0.9 ns an element, where a choice takes 4.3 if signs change
    from one to the next.
    """
    x = e.laid_need("Out")
    given = {"out": x, "dout": e.laid_need("Out@GRAD")}
    operands, target = e.laid_alike(given, "X@GRAD", x, inplace=True)
    shape = target.shape or ()
    above = e.temp(shape, bool)
    slope = e.temp(shape, x.dtype)
    e.elementwise("out > 0", above, out=operands["out"])
    e.elementwise("maximum(above, alpha)", slope, above=above, alpha=float(e.attr("alpha")))
    e.elementwise("dout * slope", target, dout=operands["dout"], slope=slope)


@lowering("leaky_relu_grad")
def _(e: Emitter) -> None:
    side = "x" if e.op.inputs.get("X") else "out"
    if e.op.attrs.get(OF_2X_ATTR):
        expr = f"where({side} < 0, alpha * dout, dout)"
    elif side == "out" and e.laid_need("Out").dtype in (np.float32, np.float64) and e.attr("alpha") <= 1:
        _sloped(e)
        return
    elif e.attr("alpha") > 1:
        expr = f"where({side} > 0, alpha * dout, dout)"
    else:
        expr = f"where({side} > 0, dout, alpha * dout)"
    expression_rule(expr)(e)


_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_BEND = "tanh(root * (x + cubic * (x * x * x)))"


def _share(e: Emitter, x: Value) -> Value:
    """The normal distribution up to x, or its approximation: forward and backward share it."""
    is_bent = bool(e.attr("approximate"))
    found: Value | None = e.recall(("gelu", is_bent, x))
    if found is not None:
        return found
    share = e.temp(x.shape or (), x.dtype)
    if is_bent:
        e.elementwise(f"0.5 + 0.5 * {_BEND}", share, x=x, root=_ROOT, cubic=_CUBIC)
    else:
        e.elementwise("0.5 + 0.5 * erf(x * half)", share, x=x, half=math.sqrt(0.5))
    e.remember(("gelu", is_bent, x), share)
    return share


@lowering("gelu")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype is None or x.dtype.kind != "f":
        raise CannotLower("integers")
    e.elementwise("x * share", e.out("Out", x.shape, x.dtype), x=x, share=_share(e, x))


@lowering("gelu_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    operands: dict[str, Any] = {"x": x, "dout": e.need("Out@GRAD"), "share": _share(e, x)}
    out = e.out("X@GRAD", x.shape, x.dtype)
    if e.attr("approximate"):
        # share is (1 + tanh(...)) / 2, so that the slope of tanh is 4 * share * (1 - share)
        slope = "2 * share * (1 - share) * (root * (1 + 3 * cubic * (x * x)))"
        e.elementwise(f"dout * (share + x * ({slope}))", out, **operands, root=_ROOT, cubic=_CUBIC)
    else:
        expr = "dout * (share + x * (exp(-0.5 * (x * x)) * density))"
        e.elementwise(expr, out, **operands, density=0.5 * _ROOT)
