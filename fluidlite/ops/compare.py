"""Comparisons and logic: element-wise, with a result of truth values and no gradient."""
from __future__ import annotations

from typing import Any

from fluidlite.dtypes import Array, VarType
from fluidlite.errors import ShapeError
from fluidlite.ops.scalar import binary_names, function_of
from fluidlite.registry import Op, Spec, same_as


def placed(ranks: tuple[int, int], shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape that lays the operand of lower rank over the other's dimensions from `axis` on (-1: the last ones)."""
    high, low = max(ranks), len(shape)
    if low == high or axis == -1:
        return shape
    return shape + (1,) * (high - axis - low)


def _broadcast(op: str, x: Spec, y: Spec, axis: int) -> Spec:
    ranks = (len(x.shape), len(y.shape))
    a, b = placed(ranks, x.shape, axis), placed(ranks, y.shape, axis)
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for left, right in zip(a, b, strict=True):
        if left != right and 1 not in (left, right) and -1 not in (left, right):
            raise ShapeError(f"op {op!r}: X{list(x.shape)} and Y{list(y.shape)} do not broadcast (axis {axis})")
    dims = (right if left == 1 else left if right in (1, left) else max(left, right) for left, right in zip(a, b, strict=True))
    return Spec(tuple(dims), VarType.BOOL)


def _compare(type: str, expr: str) -> Op:
    """An op `X Y -> Out` of truth values; Y is laid over X's dimensions from `axis` on."""
    op = Op(type, "X Y -> Out", attrs={"axis": -1, "force_cpu": False})
    function = function_of(expr, ["X", "Y"], binary_names())

    @op.shape
    def _(X: Spec, Y: Spec, axis: int) -> Spec:
        return _broadcast(type, X, Y, axis)

    @op.kernel
    def _(xp: Any, X: Array, Y: Array, axis: int) -> Array:
        ranks = (X.ndim, Y.ndim)
        result: Array = function(xp, X.reshape(placed(ranks, X.shape, axis)), Y.reshape(placed(ranks, Y.shape, axis)))
        return result
    return op


_compare("less_than", "x < y")
_compare("less_equal", "x <= y")
_compare("greater_than", "x > y")
_compare("greater_equal", "x >= y")
_compare("equal", "x == y")
_compare("not_equal", "x != y")


def _logic(type: str, expr: str) -> Op:
    op = Op(type, "X Y -> Out")
    op.kernel(function_of(expr, ["X", "Y"], binary_names()))

    @op.shape
    def _(X: Spec, Y: Spec) -> Spec:
        return _broadcast(type, X, Y, -1)
    return op


_logic("logical_and", "both(x, y)")
_logic("logical_or", "either(x, y)")
_logic("logical_xor", "differ(x, y)")

logical_not = Op("logical_not", "X -> Out")
logical_not.shape(same_as("X", VarType.BOOL))
logical_not.kernel(function_of("invert(x)", ["X"], binary_names()))
