"""Order and extremes: top_k, argmax, argsort, cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, GradContext, Lod, Op, Spec, WithLod, handed_on, later, required
from fluidlite.ops.kernels.heap_order import in_heap_order
from fluidlite.ops.kernels.numbers import at_last, check_axes, ints, named_dims

top_k = Op("top_k", "X. K? -> Out Indices", attrs={"k": 1}, amp="gray")


@top_k.shape
def _(X: Spec, K: Spec | None, k: int) -> tuple[Spec, Spec]:
    # as 1.8.5 declares it: of K, which only a run knows, nothing shows
    shape = (*X.shape[:-1], _checked(k, X.shape))
    return X.with_shape(shape), Spec(shape, VarType.INT64, X.lod_level)


def _checked(k: int, shape: Sequence[int]) -> int:
    """`k`; ShapeError unless a row of X has that many elements, one at least."""
    if k < 1:
        raise ShapeError(f"op 'top_k': k must be at least 1, but is {k}")
    if 0 <= shape[-1] < k:
        raise ShapeError(
            f"op 'top_k': k is {k}, but the last dimension of X{list(shape)} has only {shape[-1]} elements"
        )
    return k


@top_k.kernel
def _(xp: Any, X: Array, X_lod: Lod, K: Array | None, k: int) -> tuple[Array, Array | WithLod]:
    count = k if K is None else _checked(ints(K)[0], X.shape)
    indices = places_of_largest(xp, X, count)
    values = at_last(xp, X, indices)
    if xp is np and count > 1:
        ordered = in_heap_order(X, values, indices)
        if ordered is not indices:  # zeros of both signs are equal, too
            indices, values = ordered, at_last(xp, X, ordered)
    return values, handed_on(indices, X_lod)


def places_of_largest(xp: Any, x: Array, k: int) -> Array:
    """Positions of the k largest elements of each row, the largest first; of equal ones the first."""
    found = None
    # a few columns are sorted four times as fast
    if xp is np and (k == 1 or x.shape[-1] > _SHORT):
        found = _largest(x, k) if k <= _FEW else _above(x, k)
    if found is None:
        found = stable_order(xp, x, -1, descending=True)[..., :k].astype("int64")
    return found


# largest elements that are found one by one: sixteen searches of 1024 columns take as long as sorting them
_FEW = 16
# columns that NumPy sorts by insertion, in the time of two searches
_SHORT = 16


def _largest(x: Array, k: int) -> Array | None:
    """Positions of the k largest elements, the largest first, found one by one; None where that cannot tell
    an element from those that it has found: there are infinitely small ones.
    """
    if not x.size or x.dtype.kind not in "fiu":
        return None
    if k == 1:  # there is nothing to tell it from
        return x.argmax(axis=-1, keepdims=True)
    rest = x.reshape(-1, x.shape[-1]).copy()
    rows = np.arange(len(rest))
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    found = np.empty((len(rest), k), np.int64)
    values = np.empty(found.shape, x.dtype)
    for place in range(k):
        best = found[:, place] = rest.argmax(axis=1)
        values[:, place] = rest[rows, best]
        rest[rows, best] = least
    return None if (values == least).any() else found.reshape(*x.shape[:-1], k)


def _above(x: Array, k: int) -> Array | None:
    """The same among those that are no smaller than the k-th largest of some groups' largest elements, which
    is no larger than the k-th largest of all; None where many are equal.
    """
    rows = x.reshape(-1, x.shape[-1])
    count, width = rows.shape
    if not rows.size or rows.dtype.kind not in "fiu" or width < 4 * k:
        return None
    # of 4 k groups; the largest elements of neighbouring groups are found together
    depth = width // (4 * k)
    groups = width // depth
    largest = rows[:, : depth * groups].reshape(count, depth, groups).max(axis=1)
    least = np.partition(largest, groups - k, axis=1)[:, groups - k, None]
    is_among = ~(rows < least)  # NaN, too, which is the largest in any order
    counts = np.count_nonzero(is_among, axis=1)
    most = int(counts.max())
    if counts.min() < k or most > 8 * k:
        return None
    found = np.flatnonzero(is_among)
    owners = np.repeat(np.arange(count), counts)
    starts = np.cumsum(counts) - counts
    # columns behind a row's own hold what is never larger, and they come last
    there = owners, np.arange(len(found)) - starts[owners]
    columns = found - owners * width
    values = rows.reshape(-1)[found]
    if x.dtype == np.float32 and not np.isnan(values).any():
        keys = np.full((count, most), np.iinfo(np.int64).min)
        keys[there] = _sort_keys(values, width - 1 - columns)
        keys.sort(axis=1)
        order = width - 1 - (keys[:, : -k - 1 : -1] & _LOW_HALF)
        return order.reshape(*x.shape[:-1], k)
    padded = np.full((count, most), least, rows.dtype)
    places = np.zeros((count, most), np.int64)
    padded[there] = values
    places[there] = columns
    order = stable_order(np, padded, 1, descending=True)[:, :k]
    return np.take_along_axis(places, order, axis=1).reshape(*x.shape[:-1], k)


_LOW_HALF = 0xFFFFFFFF


def _sort_keys(values: Array, ties: Array) -> Array:
    """Integers in the order of float32 numbers, of equal ones in the order of `ties`, the lower halves: one
    sort of them takes a third of the time of a stable order of positions.
    """
    bits = (values + np.float32(0)).view(np.int32)  # -0 becomes 0
    # the larger a negative number, the smaller are its bits behind the sign
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.astype(np.int64) << 32) | ties


def stable_order(xp: Any, x: Array, axis: int, descending: bool) -> Array:
    """Positions in sorted order; of equal elements the first comes first, in either direction."""
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable") if xp is np else xp.argsort(x, axis=axis)
    size = x.shape[axis]
    back = xp.flip(x, axis)
    order = xp.argsort(back, axis=axis, kind="stable") if xp is np else xp.argsort(back, axis=axis)
    return xp.flip(size - 1 - order, axis)


def spread(xp: Any, x: Array, indices: Array, d: Array, axis: int) -> Array:
    """Zeros like x with d at `indices` along `axis`."""
    if not x.ndim:
        return d.copy()
    out = xp.zeros(x.shape, d.dtype)
    if xp is np:
        np.put_along_axis(out, indices, d, axis)
    else:
        xp.put_along_axis(out, indices, d, axis)
    return out


@top_k.grad("X")
def _(xp: Any, X: Array, Indices: Array, dOut: Array) -> Array:
    return spread(xp, X, Indices, dOut, -1)


argsort = Op("argsort", "X -> Out Indices", attrs={"axis": -1, "descending": False}, version=1)


@argsort.shape
def _(X: Spec, axis: int) -> tuple[Spec, Spec]:
    check_axes("argsort", X.shape, [axis], named_dims(X.shape))
    return X, Spec(X.shape, VarType.INT64, X.lod_level)


@argsort.kernel
def _(xp: Any, X: Array, X_lod: Lod, axis: int, descending: bool) -> tuple[Array, Array | WithLod]:
    if not X.ndim:
        return X.copy(), xp.zeros((), "int64")
    order = stable_order(xp, X, axis, descending)
    indices = order.astype("int64")
    return xp.take_along_axis(X, order, axis=axis), handed_on(indices, X_lod)


@argsort.grad("X")
def _(xp: Any, X: Array, Indices: Array, dOut: Array, axis: int) -> Array:
    return spread(xp, X, Indices, dOut, axis)


def _declare_arg(op_type: str, function: str, **facts: Any) -> None:
    op = Op(
        op_type,
        "X -> Out",
        attrs={"axis": required(AttrType.LONG), "keepdims": False, "dtype": -1, "flatten": later(False)},
        lod=None,
        **facts,
    )

    @op.shape
    def _(X: Spec, axis: int, keepdims: bool, dtype: int, flatten: bool) -> Spec:
        if flatten:
            rank = len(X.shape) if keepdims else 1
            return Spec((1,) * rank, VarType.INT64 if dtype < 0 else VarType(dtype))
        rank = named_dims(X.shape)
        if not -rank <= axis < rank:
            raise ShapeError(f"op {op_type!r}: axis {axis} is outside X{list(X.shape)}")
        axis = axis % rank
        rest = (*X.shape[:axis], *((1,) if keepdims else ()), *X.shape[axis + 1 :])
        return Spec(rest, VarType.INT64 if dtype < 0 else VarType(dtype))

    @op.kernel
    def _(xp: Any, X: Array, axis: int, keepdims: bool, dtype: int, flatten: bool) -> Array:
        kind = "int64" if dtype < 0 else to_numpy(VarType(dtype))
        if flatten:
            out = xp.asarray(getattr(xp, function)(X.reshape(-1))).astype(kind)
            return out.reshape((1,) * (X.ndim if keepdims else 1))
        out = xp.asarray(getattr(xp, function)(X, axis=axis)).astype(kind)
        return xp.expand_dims(out, axis) if keepdims else xp.asarray(out)


_declare_arg("arg_max", "argmax", version=1)
_declare_arg("arg_min", "argmin", version=1)

cumsum = Op(
    "cumsum",
    "X -> Out",
    attrs={"axis": limited(-1, least(-1)), "exclusive": False, "reverse": False, "flatten": later(False)},
    version=1,
    amp_fp16="black",
)


@cumsum.shape
def _(X: Spec, axis: int, flatten: bool) -> Spec:
    if not flatten:
        check_axes("cumsum", X.shape, [axis], named_dims(X.shape))
        return Spec(X.shape, X.dtype)
    return X.with_shape((math.prod(X.shape),))


@cumsum.kernel
def _(xp: Any, X: Array, axis: int, exclusive: bool, reverse: bool, flatten: bool) -> Array:
    return cumulated(xp, X.reshape(-1) if flatten else X, axis, exclusive, reverse)


def cumulated(xp: Any, X: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Sums of the elements up to each one (`exclusive`: without it) along `axis`, from either end."""
    if not X.ndim:
        return xp.zeros_like(X) if exclusive else X.copy()
    x = xp.flip(X, axis) if reverse else X
    if exclusive:  # everything moves on by one, and a zero comes in
        x = xp.roll(x, 1, axis)
        x[(slice(None),) * (axis % X.ndim) + (0,)] = 0
    out = xp.cumsum(x, axis=axis, dtype=X.dtype)
    return xp.ascontiguousarray(xp.flip(out, axis)) if reverse else out


@cumsum.grad_rule("X")
def _(context: GradContext) -> None:
    op = context.op
    if op.has_attr("flatten"):
        inputs = {"X": context.input("X"), "Out@GRAD": context.out_grad("Out")}
        context.emit("cumsum_grad", inputs, {"X@GRAD": context.in_grad("X")})
        return
    context.emit(
        "cumsum",
        {"X": context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {"axis": op.attr("axis"), "exclusive": op.attr("exclusive"), "reverse": not op.attr("reverse")},
    )


cumsum_grad = Op("cumsum_grad", "X Out@GRAD -> X@GRAD", attrs=cumsum.attr_defs, lod=None).derive(cumsum)


@cumsum_grad.kernel
def _(xp: Any, X: Array, dOut: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    return cumulated(xp, dOut, axis, exclusive, not reverse).reshape(X.shape)


top_k_v2 = Op("top_k_v2", "X K? -> Out Indices", attrs={"k": 1, "axis": -1, "largest": True, "sorted": True})


@top_k_v2.shape
def _(X: Spec, K: Spec | None, k: int, axis: int) -> tuple[Spec, Spec]:
    check_axes("top_k_v2", X.shape, [axis], named_dims(X.shape))
    if not X.shape:
        return X, Spec((), VarType.INT64)
    axis = axis % len(X.shape)
    if K is None and X.shape[axis] >= 0:
        _check_k(k, X.shape, axis)
    shape = (*X.shape[:axis], -1 if K is not None else k, *X.shape[axis + 1 :])
    return X.with_shape(shape), Spec(shape, VarType.INT64, X.lod_level)


def _check_k(k: int, shape: Sequence[int], axis: int) -> None:
    if not 1 <= k <= shape[axis]:
        raise ShapeError(
            f"op 'top_k_v2': k is {k}, wanted 1 to {shape[axis]}, as X{list(shape)} has along {axis}"
        )


@top_k_v2.kernel
def _(xp: Any, X: Array, X_lod: Lod, K: Array | None, k: int, axis: int, largest: bool) -> tuple[Array, Any]:
    if not X.ndim:
        return X.copy(), xp.zeros((), "int64")
    count = k if K is None else ints(K)[0]
    _check_k(count, X.shape, axis % X.ndim)
    order = xp.moveaxis(
        xp.moveaxis(stable_order(xp, X, axis, descending=largest), axis, -1)[..., :count], -1, axis
    )
    return xp.take_along_axis(X, order, axis=axis), handed_on(order.astype("int64"), X_lod)


@top_k_v2.grad("X")
def _(xp: Any, X: Array, Indices: Array, dOut: Array, axis: int) -> Array:
    return spread(xp, X, Indices, dOut, axis)
