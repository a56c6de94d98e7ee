"""Functions of two or three elements that came with PaddlePaddle 2.x, operands laid over each other as NumPy
does it: fmax, fmin, heaviside, nextafter, lerp; and atan2, of two tensors of one shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluidlite.base.dtypes import Array, VarType, is_float
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.math.elementwise import broadcast, sum_back

Two = Callable[[Any, Array, Array], Any]


def _back(xp: Any, d: Array, like: Array) -> Array:
    """A gradient added up to the shape of its operand."""
    return sum_back(xp, xp.asarray(d), like.shape, d.ndim, -1).astype(like.dtype)


def _of_two(type: str, forward: Two, x_takes: Two, y_takes: Two, **facts: Any) -> None:
    """An op `X Y -> Out`; `x_takes` and `y_takes` give the parts of the gradient that the operands take."""
    op = Op(type, "X Y -> Out", alike=("X", "Y"), **facts)

    @op.shape
    def _(X: Spec, Y: Spec) -> Spec:
        return X.with_shape(broadcast(type, X, Y, -1))

    @op.kernel
    def _(xp: Any, X: Array, Y: Array) -> Array:
        return xp.asarray(forward(xp, X, Y)).astype(X.dtype)

    @op.grad("X Y")
    def _(xp: Any, X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
        return _back(xp, dOut * x_takes(xp, X, Y), X), _back(xp, dOut * y_takes(xp, X, Y), Y)


# the operand that the result is has the gradient, X of two that are equal
_of_two(
    "elementwise_fmax",
    lambda xp, x, y: xp.fmax(x, y),
    lambda xp, x, y: (x >= y) | xp.isnan(y),
    lambda xp, x, y: ~((x >= y) | xp.isnan(y)),
)
_of_two(
    "elementwise_fmin",
    lambda xp, x, y: xp.fmin(x, y),
    lambda xp, x, y: (x <= y) | xp.isnan(y),
    lambda xp, x, y: ~((x <= y) | xp.isnan(y)),
)
_of_two(
    "elementwise_heaviside",
    lambda xp, x, y: xp.where(x == 0, y, x > 0),
    lambda xp, x, y: xp.zeros_like(x),
    lambda xp, x, y: x == 0,
)

atan2 = Op("atan2", "X1 X2 -> Out", alike=("X1", "X2"))


@atan2.shape
def _(X1: Spec, X2: Spec) -> Spec:
    known = zip(X1.shape, X2.shape, strict=False)
    if len(X1.shape) != len(X2.shape) or any(min(pair) >= 0 and len(set(pair)) > 1 for pair in known):
        raise ShapeError(f"op 'atan2': X1{list(X1.shape)} and X2{list(X2.shape)} differ in shape")
    return Spec(X1.shape, X1.dtype if is_float(X1.dtype) else VarType.FP64)


@atan2.kernel
def _(xp: Any, X1: Array, X2: Array) -> Array:
    if X1.shape != X2.shape:
        raise ShapeError(f"op 'atan2': X1{list(X1.shape)} and X2{list(X2.shape)} differ in shape")
    # angles of whole numbers are of double precision, as in Paddle, whatever their width
    return xp.arctan2(*(x if x.dtype.kind == "f" else x.astype("float64") for x in (X1, X2)))


@atan2.grad("X1 X2")
def _(xp: Any, X1: Array, X2: Array, dOut: Array) -> tuple[Array, Array]:
    square = X1 * X1 + X2 * X2
    # beside an infinity nothing turns
    is_endless = xp.isinf(X1) | xp.isinf(X2)
    first = xp.where(is_endless, 0, X2 / square)
    second = xp.where(is_endless, 0, X1 / square)
    return dOut * first, -dOut * second


nextafter = Op("nextafter", "x y -> out", alike=("x", "y"))


@nextafter.shape
def _(x: Spec, y: Spec) -> Spec:
    if not is_float(x.dtype):
        raise ShapeError(f"op 'nextafter' takes floating-point numbers, but x is of {x.dtype}")
    return x.with_shape(broadcast("nextafter", x, y, -1))


@nextafter.kernel
def _(xp: Any, x: Array, y: Array) -> Array:
    return xp.nextafter(x, y)


lerp = Op("lerp", "X Y Weight -> Out", alike=("X", "Y", "Weight"))


@lerp.shape
def _(X: Spec, Y: Spec, Weight: Spec) -> Spec:
    both = X.with_shape(broadcast("lerp", X, Y, -1))
    return X.with_shape(broadcast("lerp", both, Weight, -1))


@lerp.kernel
def _(xp: Any, X: Array, Y: Array, Weight: Array) -> Array:
    return xp.asarray(X + Weight * (Y - X))


@lerp.grad("X Y")
def _(xp: Any, X: Array, Y: Array, Weight: Array, Out: Array, dOut: Array) -> tuple[Array, Array]:
    return _back(xp, dOut * (1 - Weight), X), _back(xp, dOut * Weight, Y)
