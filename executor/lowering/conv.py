"""Convolutions and pools: objects that hold scratch buffers for one geometry, bound into the plan and given its buffers."""
from __future__ import annotations

import numpy as np

from fluidlite.executor.emitter import CannotLower, Emitter, Fresh, lowering
from fluidlite.executor.plan_ir import Value
from fluidlite.ops.conv import conv_attrs, geometry_of
from fluidlite.ops.convolution import Geometry, conv_plan
from fluidlite.ops.pool import pool_attrs, windows_of
from fluidlite.ops.pooling import PoolPlan


def _geometry(e: Emitter, x: Value, w: Value) -> Geometry:
    if e.attr("data_format") not in ("NCHW", "AnyLayout") or e.op.inputs.get("ResidualData"):
        raise CannotLower("layout")
    assert x.shape is not None and w.shape is not None
    return geometry_of(e.op.type, x.shape, w.shape, {name: e.attr(name) for name in conv_attrs(2, "NCHW")})


@lowering("conv2d", "depthwise_conv2d")
def _(e: Emitter) -> None:
    x, w = e.need("Input"), e.need("Filter")
    geometry = _geometry(e, x, w)
    plan = e.bind_fresh("conv", conv_plan, geometry, x.dtype)
    e.remember(("conv", x, w, geometry), plan)
    out = e.out("Output", geometry.out, x.dtype)
    e.line(f"{plan}.forward({x}, {w}, {out})", [x, w], [out])


@lowering("conv2d_grad", "depthwise_conv2d_grad")
def _(e: Emitter) -> None:
    x, w, d = e.need("Input"), e.need("Filter"), e.need("Output@GRAD")
    geometry = _geometry(e, x, w)
    plan = e.remembered(("conv", x, w, geometry))
    reuse = plan is not None
    plan = plan or e.bind_fresh("conv", conv_plan, geometry, x.dtype)
    if e.wants("Filter@GRAD"):
        out = e.out("Filter@GRAD", w.shape, w.dtype)
        e.line(f"{plan}.grad_filter({x}, {d}, {out}, {reuse})", [x, d], [out])
    if e.wants("Input@GRAD"):
        out = e.out("Input@GRAD", x.shape, x.dtype)
        e.line(f"{plan}.grad_input({d}, {w}, {out})", [d, w], [out])



def _pool_plan(e: Emitter, x: Value) -> Fresh:
    if e.attr("data_format") not in ("NCHW", "AnyLayout") or x.dtype not in (np.float32, np.float64):
        raise CannotLower("layout")
    assert x.shape is not None
    attrs = {name: e.attr(name) for name in pool_attrs(2, "NCHW")}
    windows = windows_of(x.shape[2:], attrs)
    return Fresh(PoolPlan, (x.shape, windows, attrs["pooling_type"], attrs["exclusive"], x.dtype))


@lowering("pool2d")
def _(e: Emitter) -> None:
    x = e.need("X")
    plan = e.bind("pool", _pool_plan(e, x))
    out = e.out("Out", e.inferred_shape("Out"), x.dtype)
    e.remember(("pool", x, e.op.outputs["Out"][0]), plan)
    e.line(f"{plan}.forward({x}, {out})", [x], [out])


@lowering("pool2d_grad")
def _(e: Emitter) -> None:
    x, pooled, d = e.need("X"), e.need("Out"), e.need("Out@GRAD")
    remembered = e.remembered(("pool", x, pooled.name))
    plan = remembered or e.bind("pool", _pool_plan(e, x))
    out = e.out("X@GRAD", x.shape, x.dtype)
    e.line(f"{plan}.backward({x}, {pooled}, {d}, {out}, {remembered is not None})", [x, pooled, d], [out])
