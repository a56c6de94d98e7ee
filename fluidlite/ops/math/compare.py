"""Comparisons and logic: element-wise, with a result of booleans and no gradient."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import Op, Spec, same_as
from fluidlite.ops.kernels.scalar import binary_names, function_of
from fluidlite.ops.math.elementwise import broadcast, pair


def _fewer_dimensions(X: Spec, Y: Spec) -> str:
    if len(X.shape) >= len(Y.shape):
        return ""
    return f"X{list(X.shape)} has fewer dimensions than Y{list(Y.shape)}"


def _compare(type: str, expr: str, **facts: Any) -> Op:
    """An op `X Y -> Out` of booleans; Y is laid over X's dimensions from `axis` on."""
    op = Op(
        type,
        "X Y -> Out",
        attrs={"axis": limited(-1, least(-1)), "force_cpu": False},
        alike=("X", "Y"),
        **facts,
    )
    op.expr = expr
    function = function_of(expr, ["X", "Y"], binary_names())

    @op.shape
    def _(X: Spec, Y: Spec, axis: int) -> Spec:
        return Spec(broadcast(type, X, Y, axis), VarType.BOOL)

    @op.refuses
    def _(X: Spec, Y: Spec) -> str:
        return _fewer_dimensions(X, Y)

    @op.kernel
    def _(xp: Any, X: Array, Y: Array, axis: int) -> Array:
        result: Array = function(xp, *pair(X, Y, axis))
        return result

    return op


_compare("less_than", "x < y", version=1, condition="order")
_compare("less_equal", "x <= y", version=1, condition="order")
_compare("greater_than", "x > y", version=1, condition="order")
_compare("greater_equal", "x >= y", version=1, condition="order")
_compare("equal", "x == y", version=1, condition="equality")
_compare("not_equal", "x != y", version=1, condition="equality")


def _logic(type: str, expr: str, **facts: Any) -> Op:
    op = Op(type, "X Y -> Out", alike=("X", "Y"), **facts)
    op.expr = expr
    op.kernel(function_of(expr, ["X", "Y"], binary_names()))

    @op.shape
    def _(X: Spec, Y: Spec) -> Spec:
        return Spec(broadcast(type, X, Y, -1), VarType.BOOL)

    @op.refuses
    def _(X: Spec, Y: Spec) -> str:
        # as in 1.8.5, where what a run alone knows fits everything
        if -1 in (*X.shape, *Y.shape) or math.prod(X.shape) == math.prod(Y.shape):
            return ""
        return f"X{list(X.shape)} and Y{list(Y.shape)} must have the same number of elements"

    return op


_logic("logical_and", "both(x, y)", booleans=True, condition="logic")
_logic("logical_or", "either(x, y)", booleans=True, condition="logic")
_logic("logical_xor", "differ(x, y)", booleans=True, condition="logic")

logical_not = Op("logical_not", "X -> Out", booleans=True, condition="logic")
logical_not.shape(same_as("X", VarType.BOOL))
logical_not.kernel(function_of("invert(x)", ["X"], binary_names()))


equal_all = Op("equal_all", "X Y -> Out", alike=("X", "Y"))


@equal_all.shape
def _(X: Spec, Y: Spec) -> Spec:
    return Spec((), VarType.BOOL)


@equal_all.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return xp.asarray(X.shape == Y.shape and bool((X == Y).all()))


def _bits(type: str, **facts: Any) -> None:
    """An op of integers, bit by bit, or of booleans."""
    op = Op(type, "X Y -> Out", alike=("X", "Y"), **facts)

    @op.shape
    def _(X: Spec, Y: Spec) -> Spec:
        return Spec(broadcast(type, X, Y, -1), X.dtype)

    @op.kernel
    def _(xp: Any, X: Array, Y: Array) -> Array:
        result: Array = getattr(xp, type)(X, Y)
        return result


_bits("bitwise_and")
_bits("bitwise_or")
_bits("bitwise_xor")

bitwise_not = Op("bitwise_not", "X -> Out")
bitwise_not.shape(same_as("X"))


@bitwise_not.kernel
def _(xp: Any, X: Array) -> Array:
    return xp.invert(X)
