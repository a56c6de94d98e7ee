"""Diagonals and triangles of matrices: tril_triu, trace, diag, diag_embed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONG, AttrType, Op, Spec, later, required, same_as


def _axes(type: str, rank: int, dim1: int, dim2: int) -> tuple[int, int]:
    """Both dimensions counted from 0: that of the rows, that of the columns; ShapeError where they are the
    same or not there.
    """
    if rank < 2 or not (-rank <= dim1 < rank and -rank <= dim2 < rank) or dim1 % rank == dim2 % rank:
        raise ShapeError(f"op {type!r}: dim1 {dim1} and dim2 {dim2} do not name two of {rank} dimensions")
    return dim1 % rank, dim2 % rank


tril_triu = Op("tril_triu", "X -> Out", attrs={"diagonal": 0, "lower": required(AttrType.BOOLEAN)})


@tril_triu.shape
def _(X: Spec) -> Spec:
    if len(X.shape) < 2:
        raise ShapeError(f"op 'tril_triu': X must have two dimensions or more, but has {list(X.shape)}")
    return Spec(X.shape, X.dtype)


def _triangle(xp: Any, x: Array, diagonal: int, lower: bool) -> Array:
    if lower:
        result: Array = xp.tril(x, diagonal)
    else:
        result = xp.triu(x, diagonal)
    return result


@tril_triu.kernel
def _(xp: Any, X: Array, diagonal: int, lower: bool) -> Array:
    return _triangle(xp, X, diagonal, lower)


@tril_triu.grad("X")
def _(xp: Any, dOut: Array, diagonal: int, lower: bool) -> Array:
    return _triangle(xp, dOut, diagonal, lower)


trace = Op(
    "trace",
    "Input -> Out",
    attrs={"offset": 0, "dim1": -2, "dim2": -1, "axis1": later(AttrType.INT), "axis2": later(AttrType.INT)},
    lod=None,
    version=1,
)


def _traced(rank: int, dim1: int, dim2: int, axis1: int | None, axis2: int | None) -> tuple[int, int]:
    """The two dimensions of the diagonals, which 1.8 and 2.x say by different attributes."""
    axes = _axes("trace", rank, dim1 if axis1 is None else axis1, dim2 if axis2 is None else axis2)
    return min(axes), max(axes)  # Paddle's offset counts along the later dimension


@trace.shape
def _(Input: Spec, dim1: int, dim2: int, axis1: int | None, axis2: int | None) -> Spec:
    axes = _traced(len(Input.shape), dim1, dim2, axis1, axis2)
    return Input.with_shape([dim for i, dim in enumerate(Input.shape) if i not in axes] or (1,))


@trace.kernel
def _(
    xp: Any, Input: Array, offset: int, dim1: int, dim2: int, axis1: int | None, axis2: int | None
) -> Array:
    axes = _traced(Input.ndim, dim1, dim2, axis1, axis2)
    out = xp.asarray(xp.trace(Input, offset, *axes, dtype=Input.dtype))
    if out.ndim == 0:
        return out.reshape(1)
    return out


@trace.grad("Input")
def _(
    xp: Any,
    Input: Array,
    dOut: Array,
    offset: int,
    dim1: int,
    dim2: int,
    axis1: int | None,
    axis2: int | None,
) -> Array:
    axes = _traced(Input.ndim, dim1, dim2, axis1, axis2)
    rows = Input.shape[axes[0]]
    columns = Input.shape[axes[1]]
    there = xp.arange(rows)[:, None] + offset == xp.arange(columns)
    lead = dOut.reshape([dim for i, dim in enumerate(Input.shape) if i not in axes])
    return xp.moveaxis(xp.where(there, lead[..., None, None], dOut.dtype.type(0)), (-2, -1), axes)


diag_embed = Op("diag_embed", "Input -> Out", attrs={"offset": 0, "dim1": -2, "dim2": -1}, lod=None)


@diag_embed.shape
def _(Input: Spec, offset: int, dim1: int, dim2: int) -> Spec:
    axes = sorted(_axes("diag_embed", len(Input.shape) + 1, dim1, dim2))
    if Input.shape[-1] >= 0:
        size = Input.shape[-1] + abs(offset)
    else:
        size = -1
    dims = list(Input.shape[:-1])
    for axis in axes:
        dims.insert(axis, size)
    return Input.with_shape(dims)


@diag_embed.kernel
def _(xp: Any, Input: Array, offset: int, dim1: int, dim2: int) -> Array:
    count = Input.shape[-1]
    size = count + abs(offset)
    out = xp.zeros((*Input.shape[:-1], size, size), Input.dtype)
    steps = xp.arange(count)
    out[..., steps + max(-offset, 0), steps + max(offset, 0)] = Input
    found = xp.moveaxis(out, (-2, -1), _axes("diag_embed", out.ndim, dim1, dim2))
    return xp.ascontiguousarray(found)


diag_v2 = Op("diag_v2", "X -> Out", attrs={"offset": 0, "padding_value": 0.0}, lod=None)


@diag_v2.shape
def _(X: Spec, offset: int) -> Spec:
    if len(X.shape) > 2:
        raise ShapeError(f"op 'diag_v2': X must have 1 or 2 dimensions, but has shape {list(X.shape)}")
    if len(X.shape) < 2:  # a single number is a vector of one
        shape = X.shape or (1,)
        if shape[0] >= 0:
            size = shape[0] + abs(offset)
        else:
            size = -1
        return X.with_shape((size, size))
    rows, columns = X.shape
    return X.with_shape((-1 if min(rows, columns) < 0 else _diagonal_length(rows, columns, offset),))


def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


@diag_v2.kernel
def _(xp: Any, X: Array, offset: int, padding_value: float) -> Array:
    out = xp.diag(X.reshape(X.shape or (1,)), offset)
    if X.ndim < 2 and padding_value:
        away = ~xp.eye(len(out), k=offset, dtype=bool)
        out[away] = padding_value
    return xp.ascontiguousarray(out)


@diag_v2.grad("X")
def _(xp: Any, X: Array, dOut: Array, offset: int) -> Array:
    if X.ndim < 2:
        return xp.ascontiguousarray(xp.diag(dOut, offset)).reshape(X.shape)
    steps = xp.arange(len(dOut))
    out = xp.zeros(X.shape, dOut.dtype)
    out[steps + max(-offset, 0), steps + max(offset, 0)] = dOut
    return out


diagonal = Op("diagonal", "Input -> Out", attrs={"offset": 0, "axis1": 0, "axis2": 1}, lod=None)


@diagonal.shape
def _(Input: Spec, offset: int, axis1: int, axis2: int) -> Spec:
    one, other = _axes("diagonal", len(Input.shape), axis1, axis2)
    rows = Input.shape[one]
    columns = Input.shape[other]
    rest = [dim for i, dim in enumerate(Input.shape) if i not in (one, other)]
    lengths = []
    if rows >= 0:
        lengths.append(rows + min(offset, 0))
    if columns >= 0:
        lengths.append(columns - max(offset, 0))
    length = max(min(lengths, default=-1), 0)
    # one size that is known says enough where it leaves nothing
    is_known = len(lengths) == 2 or (lengths and not length)
    return Input.with_shape((*rest, length if is_known else -1))


@diagonal.kernel
def _(xp: Any, Input: Array, offset: int, axis1: int, axis2: int) -> Array:
    return xp.diagonal(Input, offset, axis1, axis2).copy()


@diagonal.grad("Input")
def _(xp: Any, Input: Array, dOut: Array, offset: int, axis1: int, axis2: int) -> Array:
    found = xp.zeros(Input.shape, dOut.dtype)
    moved = xp.moveaxis(found, (axis1, axis2), (-2, -1))
    steps = xp.arange(dOut.shape[-1])
    moved[..., steps + max(-offset, 0), steps + max(offset, 0)] = dOut
    return found


fill_diagonal_tensor = Op(
    "fill_diagonal_tensor",
    "X Y -> Out",
    attrs={"offset": LONG(0), "dim1": 0, "dim2": 1},
    lod=None,
    alike=("X", "Y"),
)


@fill_diagonal_tensor.shape
def _(X: Spec, Y: Spec, dim1: int, dim2: int) -> Spec:
    _axes("fill_diagonal_tensor", len(X.shape), dim1, dim2)
    return Spec(X.shape, X.dtype)


def _at_diagonal(xp: Any, x: Array, offset: int, dim1: int, dim2: int) -> tuple[Array, Any]:
    """x with the two dimensions behind the others, and the index of the diagonals in it."""
    moved = xp.moveaxis(x, (dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    steps = xp.arange(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    return moved, (..., steps + max(-offset, 0), steps + max(offset, 0))


@fill_diagonal_tensor.kernel
def _(xp: Any, X: Array, Y: Array, offset: int, dim1: int, dim2: int) -> Array:
    out = X.copy()
    moved, where = _at_diagonal(xp, out, offset, dim1, dim2)
    moved[where] = Y.reshape(moved[where].shape)
    return out


@fill_diagonal_tensor.grad("X Y")
def _(xp: Any, Y: Array, dOut: Array, offset: int, dim1: int, dim2: int) -> tuple[Array, Array]:
    found = dOut.copy()
    moved, where = _at_diagonal(xp, found, offset, dim1, dim2)
    d_y = moved[where].reshape(Y.shape)
    moved[where] = 0
    return found, d_y


fill_diagonal = Op("fill_diagonal", "X -> Out", attrs={"value": 0.0, "offset": 0, "wrap": False}, lod=None)
fill_diagonal.shape(same_as("X"))


def _wrapped_diagonal(xp: Any, shape: tuple[int, ...], offset: int, wrap: bool) -> Any:
    """Positions of the diagonal among the elements in order: in a tall matrix it ends with the square at the
    top, or goes on below, one row further down each time it has reached the last column, with `wrap`.
    """
    rank, columns = len(shape), shape[-1] if shape else 0
    size = math.prod(shape)
    if rank < 2 or not size:
        return xp.arange(0)
    step = 1 + sum(math.prod(shape[place:]) for place in range(1, rank))
    end = size if wrap else min(size, step * (min(shape) - 1) + 1)
    places = xp.arange(0, end, step)
    column = places % columns + offset
    return places[(column >= 0) & (column < columns)] + offset


@fill_diagonal.kernel
def _(xp: Any, X: Array, value: float, offset: int, wrap: bool) -> Array:
    out = X.copy(order="C")
    out.reshape(-1)[_wrapped_diagonal(xp, X.shape, offset, wrap)] = X.dtype.type(value)
    return out


@fill_diagonal.grad("X")
def _(xp: Any, dOut: Array, offset: int, wrap: bool) -> Array:
    found = dOut.copy(order="C")
    found.reshape(-1)[_wrapped_diagonal(xp, dOut.shape, offset, wrap)] = 0
    return found


# ---------------------------------------------------------------------- places
_INT64 = int(VarType.INT64)
tril_indices = Op(
    "tril_indices",
    "-> out",
    attrs={"rows": required(AttrType.INT), "cols": required(AttrType.INT), "offset": 0, "dtype": _INT64},
    lod=None,
)
triu_indices = Op(
    "triu_indices",
    "-> out",
    attrs={"row": required(AttrType.INT), "col": required(AttrType.INT), "offset": 0, "dtype": _INT64},
    lod=None,
)


@tril_indices.shape
def _(rows: int, cols: int, offset: int, dtype: int) -> Spec:
    return Spec((2, len(np.tril_indices(rows, offset, cols)[0])), VarType(dtype))


@tril_indices.kernel
def _(xp: Any, rows: int, cols: int, offset: int, dtype: int) -> Array:
    found = np.stack(np.tril_indices(rows, offset, cols)).astype(to_numpy(VarType(dtype)))
    return xp.asarray(found)


@triu_indices.shape
def _(row: int, col: int, offset: int, dtype: int) -> Spec:
    return Spec((2, len(np.triu_indices(row, offset, col)[0])), VarType(dtype))


@triu_indices.kernel
def _(xp: Any, row: int, col: int, offset: int, dtype: int) -> Array:
    found = np.stack(np.triu_indices(row, offset, col)).astype(to_numpy(VarType(dtype)))
    return xp.asarray(found)


diag = Op("diag", "Diagonal -> Out", lod=None)


@diag.shape
def _(Diagonal: Spec) -> Spec:
    if len(Diagonal.shape) != 1:
        raise ShapeError(f"op 'diag': Diagonal must have 1 dimension, but has shape {list(Diagonal.shape)}")
    return Diagonal.with_shape((Diagonal.shape[0], Diagonal.shape[0]))


@diag.kernel
def _(xp: Any, Diagonal: Array) -> Array:
    return xp.diag(Diagonal.reshape(-1))
