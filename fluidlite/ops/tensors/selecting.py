"""Elements picked by a mask or by positions along one dimension, as PaddlePaddle 2.x has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import Op, Spec, same_as
from fluidlite.ops.kernels.numbers import check_axes, ints, summed_to
from fluidlite.ops.kernels.overwriting import stays

masked_select = Op("masked_select", "X Mask -> Y", lod=None)


@masked_select.shape
def _(X: Spec, Mask: Spec) -> Spec:
    if Mask.dtype != VarType.BOOL:
        raise ShapeError(f"op 'masked_select': Mask must hold booleans, but has the dtype {Mask.dtype}")
    return X.with_shape((-1,))


@masked_select.kernel
def _(xp: Any, X: Array, Mask: Array) -> Array:
    shape = np.broadcast_shapes(X.shape, Mask.shape)
    return xp.broadcast_to(X, shape)[xp.broadcast_to(Mask, shape)]


@masked_select.grad("X")
def _(xp: Any, X: Array, Mask: Array, dY: Array) -> Array:
    shape = np.broadcast_shapes(X.shape, Mask.shape)
    spread = xp.zeros(shape, dY.dtype)
    spread[xp.broadcast_to(Mask, shape)] = dY
    return summed_to(spread, X.shape)


def _spread_places(xp: Any, indices: list[Array], rank: int) -> tuple[Any, ...]:
    """Masks as the places where they hold."""
    places: list[Any] = []
    for index in indices:
        places += list(xp.nonzero(index)) if index.dtype.kind == "b" else [index]
    return (*places, *(slice(None),) * (rank - len(places)))


def _is_any(where: tuple[Any, ...]) -> bool:
    """False for masks that hold nowhere, whose value has any shape: it is not read."""
    return all(len(place) for place in where if not isinstance(place, slice))


index_put = Op("index_put", "x indices* value -> out", attrs={"accumulate": False}, alike=("x", "value"))
index_put.shape(same_as("x"))


@index_put.kernel
def _(xp: Any, x: Array, indices: list[Array], value: Array, accumulate: bool) -> Array:
    out = x.copy()
    where = _spread_places(xp, indices, x.ndim)
    if not _is_any(where):
        return out
    if accumulate:
        xp.add.at(out, where, value)
    else:
        out[where] = value
    return out


@index_put.grad("x value")
def _(
    xp: Any, x: Array, indices: list[Array], value: Array, dout: Array, accumulate: bool
) -> tuple[Array, Array]:
    where = _spread_places(xp, indices, x.ndim)
    d = dout.copy()
    if not _is_any(where):
        return d, xp.zeros_like(value)
    d_value = dout[where]
    if not accumulate:
        d[where] = 0
        d_value = xp.where(stays(xp, x.shape, where), d_value, d_value.dtype.type(0))
    return d, summed_to(d_value, value.shape)


index_add = Op("index_add", "X Index AddValue -> Out", attrs={"axis": 0}, alike=("X", "AddValue"))


@index_add.shape
def _(X: Spec, Index: Spec, AddValue: Spec, axis: int) -> Spec:
    check_axes("index_add", X.shape, [axis])
    wanted = list(X.shape)
    wanted[axis] = Index.shape[0] if Index.shape else 1
    if not fits(AddValue.shape, tuple(wanted)):
        raise ShapeError(
            f"op 'index_add': AddValue must have the shape {wanted} of the slices of X, but has "
            f"{list(AddValue.shape)}"
        )
    return Spec(X.shape, X.dtype)


@index_add.kernel
def _(xp: Any, X: Array, Index: Array, AddValue: Array, axis: int) -> Array:
    out = X.copy()
    xp.add.at(xp.moveaxis(out, axis, 0), Index.reshape(-1), xp.moveaxis(AddValue, axis, 0))
    return out


@index_add.grad("X AddValue")
def _(xp: Any, Index: Array, AddValue: Array, dOut: Array, axis: int) -> tuple[Array, Array]:
    return dOut.copy(), xp.take(dOut, Index.reshape(-1), axis=axis)


repeat_interleave = Op("repeat_interleave", "X RepeatsTensor? -> Out", attrs={"Repeats": 1, "dim": 0})


@repeat_interleave.shape
def _(X: Spec, RepeatsTensor: Spec | None, Repeats: int, dim: int) -> Spec:
    check_axes("repeat_interleave", X.shape, [dim])
    shape = list(X.shape)
    known = RepeatsTensor is None and shape[dim] >= 0
    shape[dim] = shape[dim] * Repeats if known else -1
    return X.with_shape(shape)


def _repeats(RepeatsTensor: Array | None, Repeats: int) -> int | list[int]:
    return Repeats if RepeatsTensor is None else ints(RepeatsTensor)


@repeat_interleave.kernel
def _(xp: Any, X: Array, RepeatsTensor: Array | None, Repeats: int, dim: int) -> Array:
    return xp.repeat(X, _repeats(RepeatsTensor, Repeats), axis=dim)


@repeat_interleave.grad("X")
def _(xp: Any, X: Array, RepeatsTensor: Array | None, dOut: Array, Repeats: int, dim: int) -> Array:
    owners = np.repeat(np.arange(X.shape[dim]), _repeats(RepeatsTensor, Repeats))
    found = xp.zeros(X.shape, dOut.dtype)
    xp.add.at(xp.moveaxis(found, dim, 0), xp.asarray(owners), xp.moveaxis(dOut, dim, 0))
    return found
