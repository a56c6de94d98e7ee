"""Element-wise binary ops: Y is aligned inside X at `axis`, and gradients are summed over what was
broadcast.
"""

from __future__ import annotations

from typing import Any

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.reduce import sum_axes
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.scalar import ROUNDED

BINARY = (
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_max",
    "elementwise_min",
    "elementwise_pow",
)


def _place(y_rank: int, rank: int, axis: int) -> int:
    """The dimension at which Y begins; where it has as many as X, `axis` says nothing, whatever it is."""
    return rank - y_rank if axis == -1 or y_rank >= rank else axis


def aligned(e: Emitter, y: Value, rank: int, axis: int) -> Value:
    """Y with dimensions of one added behind its own, so that NumPy's alignment on the right is Paddle's at
    `axis`.
    """
    assert y.shape is not None
    axis = _place(len(y.shape), rank, axis)
    trailing = rank - axis - len(y.shape)
    if trailing <= 0:
        return y
    return e.reshape(y, (*y.shape, *(1,) * trailing))


def _expression(e: Emitter) -> str:
    expr = e.op.definition.expr if e.op.definition else None
    if not expr:
        raise CannotLower("no expression")
    return str(expr)


@lowering(*BINARY)
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    assert x.shape is not None
    if len(y.shape or ()) > len(x.shape) or x.dtype != y.dtype or x.dtype is None:
        raise CannotLower("Y has more dimensions")
    if x.dtype.kind != "f" and e.op.type in ("elementwise_div", "elementwise_pow"):
        raise CannotLower("NumPy would leave the integers")
    if e.op.type in ROUNDED and x.size == 1:
        raise CannotLower("rounded as in C")
    shape = e.inferred_shape("Out")
    out = e.out("Out", shape, x.dtype, inplace=shape == x.shape)
    right = aligned(e, y, len(x.shape), e.attr("axis"))
    e.elementwise(_expression(e), out, x=x, y=right)


def reduced_axes(rank: int, shape: tuple[int, ...], axis: int, full: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `full` over which a gradient is summed to come back to an operand of `shape` aligned at
    `axis`.
    """
    axis = _place(len(shape), rank, axis)
    inside = dict(zip(range(axis, axis + len(shape)), shape, strict=True))
    return tuple(i for i in range(rank) if inside.get(i, 1) != full[i])


@lowering("elementwise_add_grad", "elementwise_sub_grad")
def _(e: Emitter) -> None:
    d = e.need("Out@GRAD")
    y = e.need("Y")
    assert d.shape is not None and y.shape is not None
    x = e.x("X") if e.op.inputs.get("X") else None
    if len(y.shape) > len(d.shape) or (x is not None and x.shape != d.shape):
        raise CannotLower("X was broadcast")
    if e.wants("X@GRAD"):
        # the gradient of X is that of Out, so they may be one array: values are written once
        e.alias("X@GRAD", d)
    if e.wants("Y@GRAD"):
        _to_y(e, d, y, negative=e.op.type == "elementwise_sub_grad")


def _to_y(e: Emitter, d: Value, y: Value, negative: bool = False) -> None:
    """Y@GRAD = d summed over the dimensions along which Y was broadcast."""
    assert d.shape is not None and y.shape is not None
    axes = reduced_axes(len(d.shape), y.shape, e.attr("axis"), d.shape)
    if not axes and not negative:
        e.alias("Y@GRAD", e.reshape(d, y.shape))
        return
    out = e.out("Y@GRAD", y.shape, y.dtype)
    if not axes:
        e.elementwise("-d", out, d=e.reshape(d, y.shape))
        return
    sum_axes(e, d, axes, out)
    if negative:
        e.call("negative", out, out=out)


@lowering("elementwise_mul_grad", "elementwise_div_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    d = e.need("Out@GRAD")
    assert d.shape is not None and y.shape is not None
    if x.shape != d.shape or len(y.shape) > len(d.shape):
        raise CannotLower("X was broadcast")
    product = e.op.type == "elementwise_mul_grad"
    right = aligned(e, y, len(d.shape), e.attr("axis"))
    operands: dict[str, Any] = {"d": d, "y": right}
    if e.wants("X@GRAD"):
        out = e.out("X@GRAD", d.shape, d.dtype)
        e.elementwise("d * y" if product else "d / y", out, **operands)
    if not e.wants("Y@GRAD"):
        return
    axes = reduced_axes(len(d.shape), y.shape, e.attr("axis"), d.shape)
    expr = "d * x" if product else "-(d * o / y)"
    more = {"d": d, "x": x} if product else {**operands, "o": e.need("Out")}
    out = e.out("Y@GRAD", y.shape, y.dtype)
    if not axes:
        e.elementwise(expr, e.reshape(out, d.shape), **more)
        return
    # computed in full first, then summed over the dimensions along which Y was broadcast
    full = e.temp(d.shape, d.dtype)
    e.elementwise(expr, full, **more)
    sum_axes(e, full, axes, out)
