"""Scaled losses of 2.x on a device, where portable kernels would keep a step of mixed precision from a graph:
a search over each gradient, then element-wise steps, which become a few launches for all of them.
"""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.finite import DeviceUnscale
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Value


def _gradients(e: Emitter) -> list[Value]:
    """The gradients, dense ones of floats; CannotLower for others, and on the host."""
    found = [] if e.on_host else e.many("X")
    if not found or not all(takes(e, value.dtype) for value in found):
        raise CannotLower("only the portable kernel supports it")
    return [for_kernel(e, value, value.dtype) for value in found]


def _number(e: Emitter, slot: str) -> Value:
    """An input of one number, without dimensions."""
    value = e.need(slot)
    if value.size != 1:
        raise CannotLower("more than a number")
    return e.reshape(for_kernel(e, value, value.dtype), ())


def _outs(e: Emitter, gradients: list[Value]) -> list[Value]:
    return [
        e.out("Out", value.shape, value.dtype, index, inplace=True) for index, value in enumerate(gradients)
    ]


@lowering("check_finite_and_unscale")
def _(e: Emitter) -> None:
    gradients = _gradients(e)
    scale = _number(e, "Scale")
    if scale.dtype not in (np.float32, np.float64):
        raise CannotLower("another type of scale")
    factors = e.temp((len(gradients),), scale.dtype)
    found = e.out("FoundInfinite", (1,), "bool")
    search = e.bind_fresh("unscale", DeviceUnscale, scale.dtype, tuple(each.dtype for each in gradients))
    e.run(search, scale, Out(factors), Out(found), *gradients)
    for index, (x, out) in enumerate(zip(gradients, _outs(e, gradients), strict=True)):
        factor = e.reshape(e.piece(factors, index, index + 1), ())
        e.elementwise("where(abs(x) < inf, x * f, nan)", out, x=x, f=factor, inf=math.inf, nan=math.nan)


@lowering("update_loss_scaling")
def _(e: Emitter) -> None:
    gradients = _gradients(e)
    if e.op.inputs.get("StopUpdate"):
        raise CannotLower("a switch in a variable")
    numbers = {
        name: _number(e, slot)
        for name, slot in (
            ("found", "FoundInfinite"),
            ("s", "PrevLossScaling"),
            ("g", "InGoodSteps"),
            ("b", "InBadSteps"),
        )
    }
    for x, out in zip(gradients, _outs(e, gradients), strict=True):
        e.elementwise("where(found, 0.0, x)", out, x=x, found=numbers["found"])
    good, bad = "where(found, 0, g + 1)", "where(found, b + 1, 0)"
    grown, shrunk = "where(abs(s * up) < inf, s * up, s)", "maximum(s * down, 1.0)"
    results = {
        "LossScaling": ("s", f"where({good} == n, {grown}, where({bad} == m, {shrunk}, s))"),
        "OutGoodSteps": ("g", f"where({good} == n, 0, {good})"),
        "OutBadSteps": ("b", f"where({bad} == m, 0, {bad})"),
    }
    known = {
        **numbers,
        "n": e.attr("incr_every_n_steps"),
        "m": e.attr("decr_every_n_nan_or_inf"),
        "up": e.attr("incr_ratio"),
        "down": e.attr("decr_ratio"),
        "inf": math.inf,
    }
    # all are computed before one of them is written over what the others read
    made: list[tuple[Value, Value]] = []
    for slot, (kept, expression) in results.items():
        old = numbers[kept]
        shape = e.inferred_shape(slot)
        target = e.temp(shape, old.dtype)
        e.elementwise(kept if e.attr("stop_update") else expression, target, **known)
        made.append((e.out(slot, shape, old.dtype, inplace=True), target))
    for out, target in made:
        e.elementwise("v", out, v=target)
