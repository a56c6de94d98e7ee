"""Convolutions and pools: objects that hold scratch buffers for one geometry, bound into the plan and given its buffers."""
from __future__ import annotations

from fluidlite.executor.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan_ir import Value
from fluidlite.ops.conv import conv_attrs, geometry_of
from fluidlite.ops.convolution import Geometry, conv_plan


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
    e.remember_object(("conv", x, w, geometry), plan)
    out = e.out("Output", geometry.out, x.dtype)
    e.line(f"{plan}.forward({x}, {w}, {out})", [x, w], [out])


@lowering("conv2d_grad", "depthwise_conv2d_grad")
def _(e: Emitter) -> None:
    x, w, d = e.need("Input"), e.need("Filter"), e.need("Output@GRAD")
    geometry = _geometry(e, x, w)
    plan = e.remembered_object(("conv", x, w, geometry))
    reuse = plan is not None
    plan = plan or e.bind_fresh("conv", conv_plan, geometry, x.dtype)
    if e.wants("Filter@GRAD"):
        out = e.out("Filter@GRAD", w.shape, w.dtype)
        e.line(f"{plan}.grad_filter({x}, {d}, {out}, {reuse})", [x, d], [out])
    if e.wants("Input@GRAD"):
        out = e.out("Input@GRAD", x.shape, x.dtype)
        e.line(f"{plan}.grad_input({d}, {w}, {out})", [d, w], [out])

