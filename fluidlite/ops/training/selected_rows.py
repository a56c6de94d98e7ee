"""Selected rows as tensors, and with each row number once."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.values.tensor import SelectedRows, merge_rows

merge_selected_rows = Op("merge_selected_rows", "X -> Out", lod=None)


@merge_selected_rows.shape
def _(X: Spec) -> Spec:
    if X.kind != VarType.SELECTED_ROWS:
        raise ShapeError(f"op 'merge_selected_rows': X is a {X.kind.name}, wanted SELECTED_ROWS")
    return Spec(X.shape, X.dtype, kind=VarType.SELECTED_ROWS)


@merge_selected_rows.kernel
def _(xp: Any, X: SelectedRows) -> SelectedRows:
    ids, rows = merge_rows(xp, X.ids, X.array)
    return SelectedRows(ids, X.height(), rows)


get_tensor_from_selected_rows = Op(
    "get_tensor_from_selected_rows", "X -> Out", lod=None, dynamic=True, amp="gray"
)


@get_tensor_from_selected_rows.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype)  # of the whole matrix, as in Paddle; only a run knows the number of rows


@get_tensor_from_selected_rows.kernel
def _(X: SelectedRows) -> Array:
    return X.array.copy()


# FluidLite's own: 1.8.5 corrects no sparse gradients
correct_delayed_rows = Op("correct_delayed_rows", "X Table Known -> Out", lod=None)


@correct_delayed_rows.shape
def _(X: Spec, Table: Spec) -> Spec:
    return Spec(Table.shape, X.dtype, kind=VarType.SELECTED_ROWS)


@correct_delayed_rows.kernel
def _(xp: Any, X: SelectedRows, Table: Array, Known: Array) -> SelectedRows:
    """g + g * g * (w - w as the sender knew it) for the rows of g, of which each counts once."""
    ids, rows = merge_rows(xp, X.ids, X.array)
    return SelectedRows(ids, X.height(), rows + rows * rows * (Table[ids] - Known[ids]))
