"""Element-wise binary ops: Y is aligned inside X at `axis`, and gradients are summed over what was
broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.registry import OF_2X_ATTR
from fluidlite.executor.compile import commuting, layout, tails
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.fixed_products import joins_product
from fluidlite.executor.compile.lowering.device_rows import change_rows, kept_rows
from fluidlite.executor.compile.lowering.reduce import sum_axes
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.scalar import ROUNDED


def aligned(e: Emitter, y: Value, rank: int, axis: int) -> Value:
    """Y with dimensions of one added behind its own, so that NumPy's alignment on the right is Paddle's at
    `axis`.
    """
    assert y.shape is not None
    axis = layout.place(len(y.shape), rank, axis)
    trailing = rank - axis - len(y.shape)
    if trailing <= 0:
        return y
    return e.reshape(y, (*y.shape, *(1,) * trailing))


def _scales_rows(e: Emitter) -> bool:
    """True if X is a row-sparse gradient that a device keeps, now times or divided by one number."""
    x = e.any("X")
    if x.known or e.expression() not in ("x * y", "x / y") or not kept_rows(e, x):
        return False
    y = e.need("Y")
    if y.size != 1 or any(part.rows.dtype != y.dtype for part in kept_rows(e, x) or ()):
        raise CannotLower("more than a number of the gradient's type")
    return change_rows(e, e.expression(), e.local("Out"), {"x": x}, y=e.reshape(y, ()))


@lowering(
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_max",
    "elementwise_min",
    "elementwise_pow",
)
def _(e: Emitter) -> None:
    if _scales_rows(e):
        return
    x = e.laid_need("X")
    y = e.laid_need("Y")
    assert x.shape is not None
    if len(y.shape or ()) > len(x.shape) or x.dtype != y.dtype or x.dtype is None:
        raise CannotLower("Y has more dimensions")
    if x.dtype.kind != "f" and e.expression() in ("x / y", "pow(x, y)"):
        raise CannotLower("NumPy would return floating point for integers")
    if e.on_host and e.op.type in ROUNDED and x.size == 1:
        raise CannotLower("integer division rounds as in C")
    shape = e.inferred_shape("Out")
    if e.op.type == "elementwise_add" and shape == x.shape and joins_product(e, x, y):
        return
    if len(x.shape) == len(y.shape or ()) and shape == x.shape == y.shape:
        operands, out = e.laid_alike({"x": x, "y": y}, "Out", x, inplace=True)
        e.elementwise(e.expression(), out, **operands)
        return
    if e.op.type == "elementwise_add" and _joins_tail(e, x, y):
        return
    if shape == x.shape and x.order is not None and not e.persistable("Out"):
        _broadcast(e, x, e.plain(y))
        return
    x = e.plain(x)
    out = e.out("Out", shape, x.dtype, inplace=shape == x.shape)
    right = aligned(e, e.plain(y), len(shape), e.attr("axis"))
    e.elementwise(e.expression(), out, x=x, y=right)


def _joins_tail(e: Emitter, x: Value, y: Value) -> bool:
    """True if Y is the bias of a convolution of fixed filters, which now adds it."""
    if x.order is None or e.persistable("Out") or not layout.is_of_last(y, x, e.attr("axis")):
        return False
    tail = tails.tail_of(e, "X")
    if tail is None or tail.bias is not None or tail.statistics is not None or tail.relu:
        return False
    if not tails.is_fixed(e, *e.op.inputs["Y"]):
        return False
    tails.extend(e, tail, "Out", x, bias=y)
    return True


def _broadcast(e: Emitter, x: Value, y: Value) -> None:
    """The op with a smaller Y, on X as it lies in memory."""
    assert x.shape is not None and x.order is not None
    base = e.base_in(x, x.order)
    out = e.published("Out", x.shape, x.dtype, x.order)
    rows, factors = layout.beside(e, y, base, x.order, e.attr("axis"))
    e.elementwise(e.expression(), layout.seen_as(e, out, rows), x=rows, y=factors)
    if e.op.type == "elementwise_add" and layout.is_of_last(y, x, e.attr("axis")):
        commuting.note(e, "Out", x, y, e.attr("axis"))


@lowering("elementwise_mod")
def _(e: Emitter) -> None:
    x, y = e.need("X"), e.need("Y")
    # the host raises for a 0; a float64 that the remainder is computed in holds no int64
    if e.on_host or {x.dtype, y.dtype} != {np.dtype(np.int32)} or e.attr(OF_2X_ATTR):
        raise CannotLower("more than counters of steps on a device")
    if x.shape != y.shape:
        raise CannotLower("shapes differ")
    e.elementwise("fmod(x, y)", e.out("Out", x.shape, x.dtype, inplace=True), x=x, y=y)


def reduced_axes(rank: int, shape: tuple[int, ...], axis: int, full: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `full` over which a gradient is summed to come back to an operand of `shape` aligned at
    `axis`.
    """
    axis = layout.place(len(shape), rank, axis)
    inside = dict(zip(range(axis, axis + len(shape)), shape, strict=True))
    return tuple(i for i in range(rank) if inside.get(i, 1) != full[i])


@lowering("elementwise_add_grad", "elementwise_sub_grad")
def _(e: Emitter) -> None:
    d = e.laid_need("Out@GRAD")
    y = e.laid_need("Y")
    assert d.shape is not None and y.shape is not None
    x = e.laid("X") if e.op.inputs.get("X") else None
    if len(y.shape) > len(d.shape) or (x is not None and x.shape != d.shape):
        raise CannotLower("X was broadcast")
    negative = e.op.type == "elementwise_sub_grad"
    if e.wants("X@GRAD"):
        # the gradient of X is that of Out, so they may be one array: values are written once
        e.alias("X@GRAD", d)
    if not e.wants("Y@GRAD"):
        return
    if len(y.shape) == len(d.shape) and y.shape == d.shape and not negative:
        e.alias("Y@GRAD", d)
    elif d.order is not None and layout.is_of_last(y, d, e.attr("axis")):
        _to_channels(e, d, y, negative)
    else:
        _to_y(e, e.plain(d), e.plain(y), negative)


def _to_channels(e: Emitter, d: Value, y: Value, negative: bool) -> None:
    """Y@GRAD = the sum of d over everything but the channels, which lie behind each other in d."""
    assert d.order is not None and y.shape is not None
    # of pooled gradients the elements between are zeros
    pooled = commuting.pooled_of(e, d)
    base = e.base_in(d if pooled is None else pooled, d.order)
    assert base.shape is not None
    *_, wide, channels = base.shape
    row = e.temp((wide, channels), d.dtype)
    # two steps, as sums over long rows are the faster ones, and lose fewer digits than one long sum
    sum_axes(e, base, tuple(range(len(base.shape) - 2)), row)
    out = e.out("Y@GRAD", y.shape, y.dtype)
    sum_axes(e, row, (0,), e.reshape(out, (channels,)))
    if negative:
        e.call("negative", out, out=out)


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
