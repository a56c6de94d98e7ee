"""Updates whose rate depends on the norms of the whole parameter: lars, lamb."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.optimizer import whole_gradient
from fluidlite.executor.plan.values import Value
from fluidlite.ops.training.optimizer import written_by_2x


def _gradient(e: Emitter) -> Value:
    """The gradient as an array of the parameter's size."""
    param = e.need("Param")
    if param.dtype not in (np.float32, np.float64) or e.kind("Param") == VarType.SELECTED_ROWS:
        raise CannotLower("not an array of floats")
    grad = whole_gradient(e) if e.kind("Grad") == VarType.SELECTED_ROWS else e.need("Grad")
    if grad.shape != param.shape or grad.dtype != param.dtype:
        raise CannotLower("the gradient differs from the parameter")
    return grad


def _number(e: Emitter, slot: str) -> Value:
    """An input of one number, without dimensions."""
    return e.reshape(e.need(slot), ())


def _norm(e: Emitter, value: Value) -> Value:
    """The square root of the sum of squares."""
    flat = e.reshape(value, (value.size,))
    squares = e.temp((), value.dtype)
    e.call("dot", flat, flat, out=squares)
    found = e.temp((), value.dtype)
    e.elementwise("sqrt(squares)", found, squares=squares)
    return found


def _changed(e: Emitter, slot: str, expr: str, **operands: Any) -> Value:
    """An output that overwrites the input of its name, by an expression."""
    old = e.need(slot)
    out = e.out(f"{slot}Out", old.shape, old.dtype, inplace=True)
    e.elementwise(expr, out, **operands)
    return out


@lowering("lars_momentum")
def _(e: Emitter) -> None:
    decay = e.attr("lars_weight_decay")
    if isinstance(decay, list):
        raise CannotLower("a decay for each of many parameters")
    grad = _gradient(e)
    param = e.need("Param")
    known: dict[str, Any] = {"decay": decay, "p": _norm(e, param), "g": _norm(e, grad)}
    rate = e.temp((), param.dtype)
    divisor = "where((p > 0) & (g > 0), g + decay * p + epsilon, 1)"
    e.elementwise(
        f"where((p > 0) & (g > 0), lr * coeff * p / {divisor}, lr)",
        rate,
        **known,
        lr=_number(e, "LearningRate"),
        coeff=e.attr("lars_coeff"),
        epsilon=e.op.attrs.get("epsilon", 0.0),
    )
    operands = {"v": e.need("Velocity"), "mu": e.attr("mu"), "grad": grad, "param": param, "rate": rate}
    velocity = _changed(e, "Velocity", "v * mu + rate * (grad + decay * param)", decay=decay, **operands)
    _changed(e, "Param", "param - velocity", param=param, velocity=velocity)


@lowering("lamb")
def _(e: Emitter) -> None:
    grad = _gradient(e)
    param = e.need("Param")
    betas = {"beta1": e.attr("beta1"), "beta2": e.attr("beta2")}
    powers = {"power1": _number(e, "Beta1Pow"), "power2": _number(e, "Beta2Pow")}
    decay = e.attr("weight_decay")
    m = _changed(
        e, "Moment1", "beta1 * m + (1 - beta1) * grad", m=e.need("Moment1"), grad=grad, beta1=betas["beta1"]
    )
    v = _changed(
        e,
        "Moment2",
        "beta2 * v + (1 - beta2) * grad * grad",
        v=e.need("Moment2"),
        grad=grad,
        beta2=betas["beta2"],
    )
    known = {"m": m, "v": v, "param": param, "decay": decay, "epsilon": e.attr("epsilon")}
    step = e.temp(param.shape or (), param.dtype)
    # 1.8 leaves out the correction of both moments
    if written_by_2x(e.op):
        corrected = "m / (1 - power1) / (sqrt(v / (1 - power2)) + epsilon) + decay * param"
        e.elementwise(corrected, step, **known, **powers)
    else:
        e.elementwise("m / (sqrt(v) + epsilon) + decay * param", step, **known)
    rate = _trusted_rate(e, param, step)
    _changed(e, "Param", "param - rate * step", param=param, rate=rate, step=step)
    for number in (1, 2):
        if e.op.outputs.get(f"Beta{number}PowOut"):
            old = e.need(f"Beta{number}Pow")
            _changed(e, f"Beta{number}Pow", "power * beta", power=old, beta=betas[f"beta{number}"])


def _trusted_rate(e: Emitter, param: Value, step: Value) -> Value:
    """The learning rate, times the norm of the parameter over that of its step."""
    rate = _number(e, "LearningRate")
    # of 2.x: a parameter without decay moves as with Adam
    if written_by_2x(e.op) and not e.attr("weight_decay") and not e.op.attrs.get("always_adapt"):
        return rate
    out = e.temp((), param.dtype)
    trust = "where((p > 0) & (s > 0), p / where((p > 0) & (s > 0), s, 1), 1)"
    e.elementwise(f"lr * {trust}", out, lr=rate, p=_norm(e, param), s=_norm(e, step))
    return out
