"""Matrix products."""
from __future__ import annotations

import math
from typing import Any

from fluidlite.dtypes import Array
from fluidlite.errors import ShapeError
from fluidlite.registry import Op, Spec


def _flat(shape: tuple[int, ...], cols: int) -> tuple[int, int]:
    """`shape` as a matrix: dimensions before `cols` are rows, the others columns; -1 where a factor is unknown."""
    def product(dims: tuple[int, ...]) -> int:
        return -1 if any(dim < 0 for dim in dims) else math.prod(dims)
    return product(shape[:cols]), product(shape[cols:])


mul = Op("mul", "X Y -> Out", attrs={"x_num_col_dims": 1, "y_num_col_dims": 1})


@mul.shape
def _(X: Spec, Y: Spec, x_num_col_dims: int, y_num_col_dims: int) -> Spec:
    columns, rows = _flat(X.shape, x_num_col_dims)[1], _flat(Y.shape, y_num_col_dims)[0]
    if columns != rows and -1 not in (columns, rows):
        raise ShapeError(f"op 'mul': X has {columns} columns but Y has {rows} rows (X{list(X.shape)} x Y{list(Y.shape)})")
    return X.with_shape(X.shape[:x_num_col_dims] + Y.shape[y_num_col_dims:])


@mul.kernel
def _(xp: Any, X: Array, Y: Array, x_num_col_dims: int, y_num_col_dims: int) -> Array:
    out = X.reshape(_flat(X.shape, x_num_col_dims)) @ Y.reshape(_flat(Y.shape, y_num_col_dims))
    return out.reshape(X.shape[:x_num_col_dims] + Y.shape[y_num_col_dims:])


@mul.grad("X Y")
def _(X: Array, Y: Array, dOut: Array, x_num_col_dims: int, y_num_col_dims: int,
      wants: frozenset[str]) -> tuple[Array | None, Array | None]:
    x, y = X.reshape(_flat(X.shape, x_num_col_dims)), Y.reshape(_flat(Y.shape, y_num_col_dims))
    d = dOut.reshape(x.shape[0], y.shape[1])
    return ((d @ y.T).reshape(X.shape) if "X@GRAD" in wants else None,
            (x.T @ d).reshape(Y.shape) if "Y@GRAD" in wants else None)
