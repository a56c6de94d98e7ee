"""Elements by their order, as PaddlePaddle 2.x has them: kthvalue, mode, nanmedian, searchsorted, running
extremes, counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, Lod, Op, Spec, handed_on
from fluidlite.ops.kernels.numbers import check_axes, named_dims
from fluidlite.ops.math.search import spread, stable_order

_ALONG = {"axis": -1, "keepdim": False}


def _without(X: Spec, axis: int, keepdim: bool, type: str) -> tuple[int, ...]:
    """The shape of X without `axis`, or with 1 there."""
    check_axes(type, X.shape, [axis], named_dims(X.shape))
    if not X.shape:
        return ()
    axis %= len(X.shape)
    return (*X.shape[:axis], *((1,) if keepdim else ()), *X.shape[axis + 1 :])


def _picked(xp: Any, x: Array, places: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    """The elements at `places`, which are 1 along `axis`, and the places themselves."""
    out = xp.take_along_axis(x, places, axis=axis)
    places = places.astype("int64")
    if keepdim:
        return out, places
    return (xp.squeeze(out, axis), xp.squeeze(places, axis))


def _both_with(lod: Lod, out: Array, places: Array) -> tuple[Any, Any]:
    return out, handed_on(places, lod)


def _returned(xp: Any, X: Array, Indices: Array, dOut: Array, axis: int, keepdim: bool) -> Array:
    """Gradients where the elements came from."""
    if not keepdim and X.ndim:
        Indices = xp.expand_dims(Indices, axis)
        dOut = xp.expand_dims(dOut, axis)
    return spread(xp, X, Indices, dOut, axis)


kthvalue = Op("kthvalue", "X -> Out Indices", attrs={"k": 1, **_ALONG})


@kthvalue.shape
def _(X: Spec, k: int, axis: int, keepdim: bool) -> tuple[Spec, Spec]:
    shape = _without(X, axis, keepdim, "kthvalue")
    size = X.shape[axis] if X.shape else 1
    if k < 1 or 0 <= size < k:
        raise ShapeError(f"op 'kthvalue': k is {k}, but dimension {axis} of X{list(X.shape)} has {size}")
    return X.with_shape(shape), Spec(shape, VarType.INT64, X.lod_level)


@kthvalue.kernel
def _(xp: Any, X: Array, X_lod: Lod, k: int, axis: int, keepdim: bool) -> tuple[Any, Any]:
    if not X.ndim:
        return X.copy(), xp.zeros((), "int64")
    order = stable_order(xp, X, axis, descending=False)
    return _both_with(X_lod, *_picked(xp, X, xp.take(order, [k - 1], axis=axis), axis, keepdim))


@kthvalue.grad("X")
def _(xp: Any, X: Array, Indices: Array, dOut: Array, axis: int, keepdim: bool) -> Array:
    return _returned(xp, X, Indices, dOut, axis, keepdim)


mode = Op("mode", "X -> Out Indices", attrs=_ALONG)


@mode.shape
def _(X: Spec, axis: int, keepdim: bool) -> tuple[Spec, Spec]:
    shape = _without(X, axis, keepdim, "mode")
    return X.with_shape(shape), Spec(shape, VarType.INT64, X.lod_level)


@mode.kernel
def _(xp: Any, X: Array, X_lod: Lod, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The most frequent element, the smallest of several, at its last place."""
    if not X.ndim:
        return X.copy(), xp.zeros((), "int64")
    equal = xp.expand_dims(X, axis % X.ndim) == xp.expand_dims(X, axis % X.ndim + 1)
    counts = equal.sum(axis=axis % X.ndim)
    most = counts == counts.max(axis=axis, keepdims=True)
    if X.dtype.kind == "f":
        largest = xp.inf
    else:
        largest = np.iinfo(X.dtype).max
    value = xp.where(most, X, largest).min(axis=axis, keepdims=True)
    found = value == X
    last = X.shape[axis] - 1 - xp.flip(found, axis).argmax(axis=axis)
    last = xp.where(found.any(axis=axis), last, 0)  # each NaN is an element of its own
    return _both_with(X_lod, *_picked(xp, X, xp.expand_dims(last, axis), axis, keepdim))


@mode.grad("X")
def _(xp: Any, X: Array, Indices: Array, dOut: Array, axis: int, keepdim: bool) -> Array:
    return _returned(xp, X, Indices, dOut, axis, keepdim)


# ---------------------------------------------------------------------- the middle
nanmedian = Op("nanmedian", "X -> Out MedianIndex", attrs={"axis": INTS(), "keepdim": False}, lod=None)


def _median_axes(rank: int, axis: list[int]) -> list[int]:
    if axis and rank:
        return sorted(one % rank for one in axis)
    return list(range(rank))


@nanmedian.shape
def _(X: Spec, axis: list[int], keepdim: bool) -> tuple[Spec, Spec]:
    check_axes("nanmedian", X.shape, axis, named_dims(X.shape))
    axes = _median_axes(len(X.shape), axis)
    shape = tuple(1 if i in axes else dim for i, dim in enumerate(X.shape) if keepdim or i not in axes)
    return X.with_shape(shape), Spec((*shape, 2), VarType.INT64)


def _middles(xp: Any, rows: Array) -> Array:
    """The places of both middle elements of each row, NaN apart: the same one twice of an odd number; 0 and 0
    where all are NaN.
    """
    counts = (~xp.isnan(rows)).sum(axis=-1)
    order = rows.argsort(axis=-1, kind="stable")  # NaN come last
    both = xp.stack([xp.maximum(counts - 1, 0) // 2, counts // 2], axis=-1)
    return xp.take_along_axis(order, xp.minimum(both, rows.shape[-1] - 1), axis=-1)


def _as_rows(xp: Any, x: Array, axis: list[int]) -> tuple[Array, tuple[int, ...]]:
    """x with the dimensions `axis` as its last one, and the shape of the others."""
    axes = _median_axes(x.ndim, axis)
    moved = xp.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    kept = moved.shape[: x.ndim - len(axes)]
    return moved.reshape(*kept, math.prod(moved.shape[len(kept) :])), kept


@nanmedian.kernel
def _(xp: Any, X: Array, axis: list[int], keepdim: bool) -> tuple[Array, Array]:
    rows, kept = _as_rows(xp, X, axis)
    places = _middles(xp, rows)
    out = xp.take_along_axis(rows, places, axis=-1).mean(axis=-1, dtype=X.dtype)
    shape = kept
    if keepdim:
        axes = _median_axes(X.ndim, axis)
        shape = tuple(1 if i in axes else dim for i, dim in enumerate(X.shape))
    return xp.asarray(out).reshape(shape), places.astype("int64").reshape(*shape, 2)


@nanmedian.grad("X")
def _(xp: Any, X: Array, MedianIndex: Array, dOut: Array, axis: list[int]) -> Array:
    rows, kept = _as_rows(xp, X, axis)
    places = MedianIndex.reshape(-1, 2)
    lines = rows.reshape(len(places), rows.shape[-1])
    half = xp.broadcast_to(dOut.reshape(-1, 1) / 2, places.shape)
    half = xp.where(xp.isnan(xp.take_along_axis(lines, places, axis=-1)), 0, half)
    d = xp.zeros(lines.shape, dOut.dtype)
    xp.add.at(d, (xp.arange(len(places))[:, None], places), half)  # both may be the same place
    axes = _median_axes(X.ndim, axis)
    others = [i for i in range(X.ndim) if i not in axes]
    turned = d.reshape((*kept, *(X.shape[i] for i in axes)))
    return turned.transpose(np.argsort([*others, *axes]).tolist())


# ---------------------------------------------------------------------- running extremes
def _running(type: str, is_better: Any, **facts: Any) -> None:
    """The op `x -> out indices`: the extreme of the elements up to each one, and its last place."""
    op = Op(type, "x -> out indices", attrs={"axis": -1, "dtype": int(VarType.INT64)}, **facts)

    @op.shape
    def _(x: Spec, axis: int, dtype: int) -> tuple[Spec, Spec]:
        check_axes(type, x.shape, [axis], named_dims(x.shape))
        return x, Spec(x.shape, VarType(dtype), x.lod_level)

    @op.kernel
    def _(xp: Any, x: Array, x_lod: Lod, axis: int, dtype: int) -> tuple[Any, Any]:
        rows = xp.moveaxis(x.reshape(x.shape or (1,)), axis, 0)
        out = rows.copy()
        places = xp.zeros(rows.shape, to_numpy(VarType(dtype)))
        for step in range(1, len(rows)):
            better = is_better(rows[step], out[step - 1]) | (rows[step] != rows[step])
            out[step] = xp.where(better, rows[step], out[step - 1])
            places[step] = xp.where(better, step, places[step - 1])
        moved = (xp.moveaxis(one, 0, axis).reshape(x.shape) for one in (out, places))
        return _both_with(x_lod, *moved)

    @op.grad("x")
    def _(xp: Any, x: Array, indices: Array, dout: Array, axis: int) -> Array:
        shape = x.shape or (1,)
        d = xp.zeros(shape, dout.dtype)
        grids = list(xp.ogrid[tuple(slice(0, dim) for dim in shape)])
        grids[axis] = indices.reshape(shape)
        xp.add.at(d, tuple(grids), dout.reshape(shape))
        return d.reshape(x.shape)


_running("cummax", lambda new, old: new >= old)
_running("cummin", lambda new, old: new <= old)

# ---------------------------------------------------------------------- places and counts
searchsorted = Op(
    "searchsorted", "SortedSequence Values -> Out", attrs={"out_int32": False, "right": False}, lod=None
)


@searchsorted.shape
def _(SortedSequence: Spec, Values: Spec, out_int32: bool) -> Spec:
    rows = SortedSequence.shape[:-1]
    found = Values.shape[:-1]
    if rows and (
        len(rows) != len(found) or any(a != b and -1 not in (a, b) for a, b in zip(rows, found, strict=True))
    ):
        raise ShapeError(
            f"op 'searchsorted': SortedSequence{list(SortedSequence.shape)} and Values{list(Values.shape)} "
            f"must be the same but for their last dimensions"
        )
    return Spec(Values.shape, VarType.INT32 if out_int32 else VarType.INT64)


@searchsorted.kernel
def _(xp: Any, SortedSequence: Array, Values: Array, out_int32: bool, right: bool) -> Array:
    side = "right" if right else "left"
    kind = "int32" if out_int32 else "int64"
    if SortedSequence.ndim == 1:
        return xp.asarray(xp.searchsorted(SortedSequence, Values, side=side)).astype(kind)
    found = xp.zeros(Values.shape, kind)
    for row in np.ndindex(*Values.shape[:-1]):
        found[row] = xp.searchsorted(SortedSequence[row], Values[row], side=side)
    return found


bincount = Op("bincount", "X Weights? -> Out", attrs={"minlength": 0})


@bincount.shape
def _(X: Spec, Weights: Spec | None) -> Spec:
    if len(X.shape) != 1:
        raise ShapeError(f"op 'bincount': X must have one dimension, but has {list(X.shape)}")
    return Spec((-1,), VarType.INT64 if Weights is None else Weights.dtype)


@bincount.kernel
def _(xp: Any, X: Array, Weights: Array | None, minlength: int) -> Array:
    kind = "int64" if Weights is None else Weights.dtype
    return xp.bincount(X, Weights, minlength).astype(kind)


unique_consecutive = Op(
    "unique_consecutive",
    "X -> Out Index Counts",
    attrs={"return_inverse": False, "return_counts": False, "axis": INTS(), "dtype": int(VarType.INT64)},
    lod=None,
    dynamic=True,
    version=1,
)


@unique_consecutive.shape
def _(
    X: Spec, axis: list[int], dtype: int, return_inverse: bool, return_counts: bool
) -> tuple[Spec, Spec, Spec]:
    check_axes("unique_consecutive", X.shape, axis)
    shape = list(X.shape) if axis else [-1]
    shape[axis[0] if axis else 0] = -1
    if -1 in X.shape:
        size = -1
    else:
        size = math.prod(X.shape)
    inverse = (X.shape[axis[0]] if axis else size,) * return_inverse
    counts = (-1,) * return_counts
    return X.with_shape(shape), Spec(inverse, VarType(dtype)), Spec(counts, VarType(dtype))


@unique_consecutive.kernel
def _(xp: Any, X: Array, axis: list[int], dtype: int) -> tuple[Array, Array, Array]:
    """The elements (or slices along `axis`) without those that equal the one before."""
    if axis:
        x = xp.moveaxis(X, axis[0], 0)
    else:
        x = X.reshape(-1)
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    first = xp.ones(min(len(x), 1), bool)
    others = (flat[1:] != flat[:-1]).any(axis=1)
    starts = xp.concatenate([first, others])
    first = xp.flatnonzero(starts)
    counts = xp.diff(xp.concatenate([first, xp.asarray([len(x)])]))
    kind = to_numpy(VarType(dtype))
    if axis:
        out = xp.moveaxis(x[first], 0, axis[0])
    else:
        out = x[first]
    return out, (xp.cumsum(starts) - 1).astype(kind), counts.astype(kind)
