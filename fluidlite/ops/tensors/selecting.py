"""Elements picked by a mask or by positions along one dimension, as PaddlePaddle 2.x has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec, same_as
from fluidlite.ops.kernels.numbers import check_axes, ints
from fluidlite.ops.kernels.overwriting import stays

masked_select = Op("masked_select", "X Mask -> Y", lod=None)


@masked_select.shape
def _(X: Spec) -> Spec:
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
    return _summed_to(spread, X.shape)


def _spread_places(xp: Any, indices: list[Array], rank: int) -> tuple[Any, ...]:
    """Masks as the places where they hold."""
    places: list[Any] = []
    for index in indices:
        places += list(xp.nonzero(index)) if index.dtype.kind == "b" else [index]
    return (*places, *(slice(None),) * (rank - len(places)))


index_put = Op(
    "index_put", "x indices* value -> out", attrs={"accumulate": False}, lod=None, alike=("x", "value")
)
index_put.shape(same_as("x"))


@index_put.kernel
def _(xp: Any, x: Array, indices: list[Array], value: Array, accumulate: bool) -> Array:
    out, where = x.copy(), _spread_places(xp, indices, x.ndim)
    if accumulate:
        xp.add.at(out, where, value)
    else:
        out[where] = value
    return out


@index_put.grad("x value")
def _(
    xp: Any, x: Array, indices: list[Array], value: Array, dout: Array, accumulate: bool
) -> tuple[Array, Array]:
    where, d = _spread_places(xp, indices, x.ndim), dout.copy()
    d_value = dout[where]
    if not accumulate:
        d[where] = 0
        d_value = xp.where(stays(xp, x.shape, where), d_value, d_value.dtype.type(0))
    return d, _summed_to(d_value, value.shape)


def _summed_to(d: Array, shape: tuple[int, ...]) -> Array:
    """`d` added up over the dimensions along which `shape` was broadcast."""
    lead = d.ndim - len(shape)
    axes = (*range(lead), *(lead + i for i, dim in enumerate(shape) if dim == 1 and d.shape[lead + i] != 1))
    return d.sum(axis=axes, keepdims=True).reshape(shape) if axes else d


# ---------------------------------------------------------------------- along one dimension
take_along_axis = Op("take_along_axis", "Input Index -> Result", attrs={"Axis": 0}, lod=None)


@take_along_axis.shape
def _(Input: Spec, Index: Spec) -> Spec:
    if len(Input.shape) != len(Index.shape):
        raise ShapeError(
            f"op 'take_along_axis': Index{list(Index.shape)} must have as many dimensions as "
            f"Input{list(Input.shape)}"
        )
    return Input.with_shape(Index.shape)


@take_along_axis.kernel
def _(xp: Any, Input: Array, Index: Array, Axis: int) -> Array:
    return xp.take_along_axis(Input, Index, axis=Axis)


@take_along_axis.grad("Input")
def _(xp: Any, Input: Array, Index: Array, dResult: Array, Axis: int) -> Array:
    out = xp.zeros(Input.shape, dResult.dtype)
    xp.add.at(out, _along(xp, Index, Axis), dResult)
    return out


def _along(xp: Any, index: Array, axis: int) -> tuple[Any, ...]:
    """The full index that picks `index` along `axis`, each other dimension at its own place."""
    axis %= index.ndim
    grids = xp.ogrid[tuple(slice(0, dim) for dim in index.shape)]
    return tuple(index if i == axis else grid for i, grid in enumerate(grids))


put_along_axis = Op(
    "put_along_axis",
    "Input Index Value -> Result",
    attrs={"Axis": 0, "Reduce": "assign"},
    lod=None,
    alike=("Input", "Value"),
)
put_along_axis.shape(same_as("Input"))


@put_along_axis.kernel
def _(xp: Any, Input: Array, Index: Array, Value: Array, Axis: int, Reduce: str) -> Array:
    out = Input.copy()
    where, value = _along(xp, Index, Axis), xp.broadcast_to(Value, Index.shape)
    if Reduce == "assign":
        out[where] = value
    elif Reduce == "add":
        xp.add.at(out, where, value)
    elif Reduce in ("mul", "multiply"):
        xp.multiply.at(out, where, value)
    else:
        raise ShapeError(f"op 'put_along_axis': Reduce is 'assign', 'add' or 'multiply', not {Reduce!r}")
    return out


@put_along_axis.grad("Input Value")
def _(
    xp: Any, Input: Array, Index: Array, Value: Array, Result: Array, dResult: Array, Axis: int, Reduce: str
) -> tuple[Array, Array]:
    where = _along(xp, Index, Axis)
    d_input = dResult.copy()
    if Reduce == "assign":
        d_input[where] = 0
    if Reduce in ("mul", "multiply"):
        value = xp.broadcast_to(Value, Index.shape)
        factor = xp.ones_like(Input)
        xp.multiply.at(factor, where, value)
        d_value = (dResult * Result)[where] / value
        return d_input * factor, _summed_to(d_value, Value.shape)
    d_value = xp.broadcast_to(dResult[where], Index.shape)
    if Reduce == "assign":
        d_value = xp.where(stays(xp, Input.shape, where), d_value, 0)
    return d_input, _summed_to(d_value, Value.shape)


index_add = Op("index_add", "X Index AddValue -> Out", attrs={"axis": 0}, lod=None, alike=("X", "AddValue"))
index_add.shape(same_as("X"))


@index_add.kernel
def _(xp: Any, X: Array, Index: Array, AddValue: Array, axis: int) -> Array:
    out = X.copy()
    xp.add.at(xp.moveaxis(out, axis, 0), Index.reshape(-1), xp.moveaxis(AddValue, axis, 0))
    return out


@index_add.grad("X AddValue")
def _(xp: Any, Index: Array, AddValue: Array, dOut: Array, axis: int) -> tuple[Array, Array]:
    return dOut.copy(), xp.take(dOut, Index.reshape(-1), axis=axis)


repeat_interleave = Op(
    "repeat_interleave", "X RepeatsTensor? -> Out", attrs={"Repeats": 1, "dim": 0}, lod=None
)


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
