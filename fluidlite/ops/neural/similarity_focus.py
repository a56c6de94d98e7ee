"""similarity_focus: a mask over the largest elements of chosen slices, one in each row and column."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required

similarity_focus = Op(
    "similarity_focus",
    "X. -> Out",
    attrs={"axis": required(AttrType.INT), "indexes": required(AttrType.INTS)},
)


@similarity_focus.shape
def _(X: Spec, axis: int, indexes: list[int]) -> Spec:
    if len(X.shape) != 4 or axis not in (1, 2, 3):
        raise ShapeError(
            f"op 'similarity_focus': X{list(X.shape)} must have 4 dimensions, and axis {axis} be 1, 2 or 3"
        )
    if not indexes or any(index < 0 or index >= X.shape[axis] >= 0 for index in indexes):
        raise ShapeError(
            f"op 'similarity_focus': indexes {indexes} must lie inside dimension {axis} of X{list(X.shape)}"
        )
    return Spec(X.shape, X.dtype)


@similarity_focus.kernel
def _(xp: Any, X: Array, axis: int, indexes: list[int]) -> Array:
    slices = xp.moveaxis(X, axis, 1)[:, indexes]  # [batch, slices, rows, columns]
    batch, count, rows, columns = slices.shape
    left = slices.reshape(batch * count, rows, columns).copy()
    every = xp.arange(batch * count)
    mask = xp.zeros(left.shape, bool)
    for _ in range(min(rows, columns)):
        row, column = xp.divmod(left.reshape(len(left), -1).argmax(axis=1), columns)
        mask[every, row, column] = True
        left[every, row] = left[every, :, column] = -xp.inf
    focus = mask.reshape(batch, count, rows, columns).any(axis=1, keepdims=True)
    return xp.broadcast_to(xp.moveaxis(focus, 1, axis), X.shape).astype(X.dtype)
