"""lrn, log_loss and the gradient of elementwise_pow on a device: portable kernels would keep a step from a
graph.
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.compile.lowering.elementwise import aligned, reduced_axes
from fluidlite.executor.compile.lowering.reduce import sum_axes
from fluidlite.executor.cuda.responses import DeviceLrn
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.conv_geometry import is_channels_last


def _of_device(e: Emitter, *slots: str) -> list[Value]:
    """Inputs of one type of floats, as a device's kernels take them; CannotLower on the host."""
    if e.on_host:
        raise CannotLower("only the portable kernel supports it")
    found = [e.need(slot) for slot in slots]
    if not takes(e, found[0].dtype):
        raise CannotLower("no floats")
    return [for_kernel(e, value, found[0].dtype) for value in found]


# ---------------------------------------------------------------------- lrn
def _lrn(e: Emitter, x: Value, gradient: bool) -> Bound:
    assert x.shape is not None
    axis = 3 if is_channels_last(e.attr("data_format")) else 1
    sizes = (x.size, x.shape[axis], math.prod(x.shape[axis + 1 :]), e.attr("n") // 2)
    names = ("alpha", "beta") if gradient else ("k", "alpha", "beta")
    return e.bind_fresh("lrn", DeviceLrn, x.dtype, gradient, sizes, tuple(e.attr(name) for name in names))


@lowering("lrn")
def _(e: Emitter) -> None:
    (x,) = _of_device(e, "X")
    outs = [Out(e.out(slot, x.shape, x.dtype)) for slot in ("Out", "MidOut")]
    e.run(_lrn(e, x, False), x, *outs)


@lowering("lrn_grad")
def _(e: Emitter) -> None:
    given = _of_device(e, "X", "Out", "MidOut", "Out@GRAD")
    x = given[0]
    out = e.out("X@GRAD", x.shape, x.dtype)
    e.run(_lrn(e, x, True), *given, Out(out))


# ---------------------------------------------------------------------- log_loss
@lowering("log_loss")
def _(e: Emitter) -> None:
    p, y = _of_device(e, "Predicted", "Labels")
    out = e.out("Loss", p.shape, p.dtype)
    e.elementwise("-y * log(p + eps) - (1 - y) * log(1 - p + eps)", out, p=p, y=y, eps=e.attr("epsilon"))


@lowering("log_loss_grad")
def _(e: Emitter) -> None:
    p, y, d = _of_device(e, "Predicted", "Labels", "Loss@GRAD")
    out = e.out("Predicted@GRAD", p.shape, p.dtype)
    e.elementwise("d * ((1 - y) / (1 - p + eps) - y / (p + eps))", out, p=p, y=y, d=d, eps=e.attr("epsilon"))


# ---------------------------------------------------------------------- elementwise_pow
@lowering("elementwise_pow_grad")
def _(e: Emitter) -> None:
    x, y, d = _of_device(e, "X", "Y", "Out@GRAD")
    assert d.shape is not None and y.shape is not None
    if x.shape != d.shape or len(y.shape) > len(d.shape):
        raise CannotLower("X was broadcast")
    operands: dict[str, Any] = {"x": x, "y": aligned(e, y, len(d.shape), e.attr("axis")), "d": d}
    if e.wants("X@GRAD"):
        e.elementwise("d * y * pow(x, y - 1)", e.out("X@GRAD", x.shape, x.dtype), **operands)
    if not e.wants("Y@GRAD"):
        return
    axes = reduced_axes(len(d.shape), y.shape, e.attr("axis"), d.shape)
    out = e.out("Y@GRAD", y.shape, y.dtype)
    if not axes and y.shape == d.shape:
        e.elementwise("d * log(x) * pow(x, y)", out, **operands)
        return
    full = e.temp(d.shape, d.dtype)
    e.elementwise("d * log(x) * pow(x, y)", full, **operands)
    sum_axes(e, full, axes, out)
