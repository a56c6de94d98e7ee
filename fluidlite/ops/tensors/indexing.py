"""Parts of tensors by index: gather, scatter, one_hot, where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import (
    OF_2X_ATTR,
    AttrType,
    GradContext,
    KernelContext,
    Op,
    Spec,
    later,
    required,
)
from fluidlite.ops.kernels.numbers import check_axes, first_wrong, ints
from fluidlite.ops.kernels.overwriting import stays
from fluidlite.values.tensor import merge_rows


# ---------------------------------------------------------------------- gather and scatter
def add_rows(xp: Any, out: Array, ids: Array, rows: Array) -> None:
    """out[ids] += rows, ids that occur more than once included, without `add.at` on the host (it is slow)."""
    if xp is np and out.ndim >= 1 and len(ids):
        merged, sums = merge_rows(np, ids, rows)
        out[merged] += sums
    elif len(ids):
        xp.add.at(out, ids, rows)


gather = Op(
    "gather",
    "X Index Axis? -> Out",
    attrs={"overwrite": True, "axis": later(AttrType.INT)},
    lod=None,
    lod_of_2x="X",
    later=("Axis",),
    below={"Index": ("X", 0)},
    version=1,
    amp="gray",
)


@gather.shape
def _(X: Spec, Index: Spec, Axis: Spec | None, axis: int | None) -> Spec:
    if len(Index.shape) > 2 or (len(Index.shape) == 2 and Index.shape[1] not in (1, -1)):
        raise ShapeError(
            f"op 'gather': Index must have one dimension (or [n, 1]), but has shape {list(Index.shape)}"
        )
    if Axis is not None:
        # a single place takes the dimension away
        return X.with_shape((-1,) * (len(X.shape) - 1 + min(len(Index.shape), 1)))
    if axis is not None:
        axis %= len(X.shape)
        return X.with_shape((*X.shape[:axis], *Index.shape[:1], *X.shape[axis + 1 :]))
    return X.with_shape((Index.shape[0] if Index.shape else 1, *X.shape[1:]))


@gather.kernel
def _(xp: Any, X: Array, Index: Array, Axis: Array | None, axis: int | None) -> Array:
    axis = ints(Axis)[0] if Axis is not None else axis
    _check_ids("gather", Index, X.shape[axis or 0])
    if axis is not None:
        return xp.take(X, Index.reshape(-1) if Index.ndim else Index, axis=axis)
    return X[Index.reshape(-1)]


def _check_ids(op: str, ids: Array, rows: int) -> None:
    if isinstance(ids, np.ndarray) and ids.size and (int(ids.min()) < 0 or int(ids.max()) >= rows):
        bad, where = first_wrong(ids, (ids < 0) | (ids >= rows))
        raise ShapeError(f"op {op!r}: index {bad} is outside the {rows} rows ({where} of the indices)")


@gather.grad("X")
def _(
    xp: Any, X: Array, Index: Array, Axis: Array | None, dOut: Array, overwrite: bool, axis: int | None
) -> Array:
    out = xp.zeros(X.shape, dOut.dtype)
    axis = ints(Axis)[0] if Axis is not None else axis
    if axis is not None:  # an op of 2.x, which adds up
        along = axis % X.ndim
        rows = xp.moveaxis(dOut if Index.ndim else xp.expand_dims(dOut, along), along, 0)
        add_rows(xp, xp.moveaxis(out, along, 0), Index.reshape(-1), rows)
    elif overwrite:  # of a row taken more than once the last gradient counts, as in Paddle
        out[Index.reshape(-1)] = dOut
    else:
        add_rows(xp, out, Index.reshape(-1), dOut)
    return out


gather_nd = Op("gather_nd", "X Index -> Out", attrs={OF_2X_ATTR: later(False)}, booleans=True)


@gather_nd.shape
def _(X: Spec, Index: Spec, of_2x: bool) -> Spec:
    if len(Index.shape) < 2 and not of_2x:  # there a vector names one place
        raise ShapeError(
            f"op 'gather_nd': Index must have two dimensions or more, but has {list(Index.shape)}"
        )
    depth = Index.shape[-1]
    if depth > len(X.shape):
        raise ShapeError(
            f"op 'gather_nd': Index{list(Index.shape)} addresses {depth} dimensions of X{list(X.shape)}"
        )
    return X.with_shape((*Index.shape[:-1], *X.shape[depth:]))


def _check_places(op: str, index: Array, sizes: Sequence[int]) -> None:
    """ShapeError unless the rows of `index` name places of the leading dimensions `sizes`."""
    for dimension in range(index.shape[-1]):
        _check_ids(op, index[..., dimension], sizes[dimension])


def _at(xp: Any, x: Array, index: Array) -> Array:
    """The things that rows of `index` name: each a part of `x`, or all of it where the rows are empty."""
    if index.shape[-1] == 0:
        return xp.broadcast_to(x, (*index.shape[:-1], *x.shape)).copy()
    found: Array = x[tuple(index[..., i] for i in range(index.shape[-1]))]
    return found.copy()


@gather_nd.kernel
def _(xp: Any, X: Array, Index: Array) -> Array:
    _check_places("gather_nd", Index, X.shape)
    return _at(xp, X, Index)


@gather_nd.grad("X")
def _(xp: Any, X: Array, Index: Array, dOut: Array) -> Array:
    return _added_nd(xp, xp.zeros(X.shape, dOut.dtype), Index, dOut)


def _added_nd(xp: Any, out: Array, Index: Array, rows: Array) -> Array:
    """out[Index] += rows, by row numbers of the flattened leading dimensions."""
    depth = Index.shape[-1]
    if depth == 0:  # every index names the whole of `out`
        return out + rows.reshape(-1, *out.shape).sum(0, dtype=out.dtype)
    lead = out.shape[:depth]
    flat = xp.zeros(Index.shape[:-1], "int64")
    for i, size in enumerate(lead):
        flat = flat * size + Index[..., i]
    view = out.reshape(int(np.prod(lead, dtype=int)), *out.shape[depth:])
    add_rows(xp, view, flat.reshape(-1), rows.reshape(flat.size, *out.shape[depth:]))
    return view.reshape(out.shape)


scatter = Op(
    "scatter",
    "X Ids Updates -> Out",
    attrs={"overwrite": True},
    lod=None,
    lod_of_2x="X",
    alike=("X", "Updates"),
    amp_fp16="black",
    amp_bf16="",
)


@scatter.shape
def _(X: Spec, Ids: Spec, Updates: Spec) -> Spec:
    if len(Ids.shape) > 2 or (len(Ids.shape) == 2 and Ids.shape[1] not in (1, -1)):
        raise ShapeError(f"op 'scatter': Ids must have one dimension, but has shape {list(Ids.shape)}")
    if not Ids.shape:  # one number: Updates is one row, without the dimension of rows
        _check_fit("scatter", "Updates", Updates, X.shape[1:])
        return Spec(X.shape, X.dtype)
    if len(Updates.shape) != len(X.shape):
        raise ShapeError(f"op 'scatter': Updates{list(Updates.shape)} and X{list(X.shape)} differ in rank")
    _check_fit("scatter", "Updates", Updates, (Ids.shape[0], *Updates.shape[1:]))
    return Spec(X.shape, X.dtype)


@scatter.refuses
def _(Ids: Spec) -> str:
    return "" if len(Ids.shape) == 1 else f"Ids must have one dimension, but has shape {list(Ids.shape)}"


@scatter.kernel
def _(xp: Any, X: Array, Ids: Array, Updates: Array, overwrite: bool) -> Array:
    out, ids = X.copy(), Ids.reshape(-1)
    _check_ids("scatter", ids, X.shape[0])
    if overwrite:
        out[ids] = Updates
    else:
        out[ids] = 0
        add_rows(xp, out, ids, Updates.reshape(len(ids), *X.shape[1:]))
    return out


@scatter.grad("X Updates")
def _(xp: Any, Ids: Array, Updates: Array, dOut: Array, overwrite: bool) -> tuple[Array, Array]:
    ids, dX = Ids.reshape(-1), dOut.copy()
    dX[ids] = 0
    dUpdates = dOut[ids]
    if overwrite:
        dUpdates[~stays(xp, dOut.shape[:1], ids)] = 0
    return dX, dUpdates.reshape(Updates.shape)


scatter_nd_add = Op("scatter_nd_add", "X Index Updates -> Out", alike=("X", "Updates"))


@scatter_nd_add.shape
def _(X: Spec, Index: Spec, Updates: Spec) -> Spec:
    depth = Index.shape[-1]
    if depth > len(X.shape):
        raise ShapeError(
            f"op 'scatter_nd_add': Index{list(Index.shape)} addresses {depth} dimensions of X{list(X.shape)}"
        )
    if depth >= 0:  # otherwise nothing says how many dimensions are left of X
        _check_fit("scatter_nd_add", "Updates", Updates, (*Index.shape[:-1], *X.shape[depth:]))
    return Spec(X.shape, X.dtype)


def _check_fit(type: str, slot: str, found: Spec, wanted: Sequence[int]) -> None:
    """The shape of `found` is `wanted`, as far as both are known."""
    pairs = zip(found.shape, wanted, strict=False)
    if len(found.shape) != len(wanted) or any(a != b and -1 not in (a, b) for a, b in pairs):
        raise ShapeError(f"op {type!r}: {slot} must have shape {list(wanted)}, but has {list(found.shape)}")


@scatter_nd_add.kernel
def _(xp: Any, X: Array, Index: Array, Updates: Array) -> Array:
    _check_places("scatter_nd_add", Index, X.shape)
    return _added_nd(xp, X.copy(), Index, Updates)


@scatter_nd_add.grad("X Updates")
def _(xp: Any, Index: Array, Updates: Array, dOut: Array) -> tuple[Array, Array]:
    return dOut.copy(), _at(xp, dOut, Index).reshape(Updates.shape)


# ---------------------------------------------------------------------- one_hot, where
def _declare_one_hot(op_type: str, drops_last: bool, **facts: Any) -> None:
    op = Op(
        op_type,
        "X depth_tensor? -> Out",
        attrs={"depth": -1, "dtype": int(VarType.FP32), "allow_out_of_range": False},
        **facts,
    )

    def lead(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1] if drops_last else shape

    @op.shape
    def _(X: Spec, depth_tensor: Spec | None, depth: int, dtype: int) -> Spec:
        if drops_last and (not X.shape or X.shape[-1] not in (1, -1)):
            raise ShapeError(f"op {op_type!r}: the last dimension of X{list(X.shape)} must be 1")
        return Spec((*lead(X.shape), depth if depth_tensor is None else -1), VarType(dtype))

    @op.kernel
    def _(xp: Any, X: Array, depth_tensor: Any, depth: int, dtype: int, allow_out_of_range: bool) -> Array:
        depth = depth if depth_tensor is None else ints(depth_tensor)[0]
        if not allow_out_of_range:
            _check_ids(op_type, X, depth)
        flat = X.reshape(lead(X.shape))
        kind = to_numpy(VarType(dtype))
        if xp is np and X.dtype.kind in "iu":
            return _ones_at(flat.reshape(-1), depth, kind).reshape(*flat.shape, depth)
        return (flat[..., None] == xp.arange(depth)).astype(kind)


def _ones_at(ids: Array, depth: int, dtype: Any) -> Array:
    """[rows, depth] zeros, but for a one in each row whose id is in range: a sixth of the time that it takes
    to hold each row against all classes.
    """
    out = np.zeros((len(ids), depth), dtype)
    rows = np.flatnonzero((ids >= 0) & (ids < depth))
    out[rows, ids[rows]] = 1
    return out


_declare_one_hot("one_hot", True, below={"X": "depth"})
_declare_one_hot("one_hot_v2", False, below={"X": "depth"})

where = Op("where", "Condition X Y -> Out", lod="X", alike=("X", "Y"))


@where.shape
def _(Condition: Spec, X: Spec, Y: Spec) -> Spec:
    for name, other in (("Condition", Condition), ("Y", Y)):
        if len(other.shape) != len(X.shape) or (other.static and X.static and other.shape != X.shape):
            raise ShapeError(
                f"op 'where': {name}{list(other.shape)} and X{list(X.shape)} must have the same shape"
            )
    return Spec(X.shape, X.dtype)


@where.kernel
def _(xp: Any, Condition: Array, X: Array, Y: Array) -> Array:
    return xp.where(Condition, X, Y)


@where.grad("X Y")
def _(xp: Any, Condition: Array, X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    zero = xp.zeros((), dOut.dtype)
    return xp.where(Condition, dOut, zero), xp.where(Condition, zero, dOut)


where_index = Op("where_index", "Condition -> Out", lod=None, booleans=True)


@where_index.shape
def _(Condition: Spec) -> Spec:
    if not Condition.shape:
        raise ShapeError("op 'where_index': Condition is a single number, which has no indices")
    return Spec((-1, len(Condition.shape)), VarType.INT64)


@where_index.kernel
def _(xp: Any, Condition: Array) -> Array:
    # NumPy's nonzero takes three times as long over several dimensions as these divisions
    places = xp.flatnonzero(Condition)
    found = xp.empty((len(places), Condition.ndim), "int64")
    for axis in range(Condition.ndim - 1, 0, -1):
        before = places // Condition.shape[axis]
        xp.subtract(places, before * Condition.shape[axis], out=found[:, axis])
        places = before
    found[:, :1] = places[:, None]
    return found


index_select = Op("index_select", "X Index -> Out", attrs={"dim": 0})


@index_select.shape
def _(X: Spec, Index: Spec, dim: int) -> Spec:
    check_axes("index_select", X.shape, [dim])
    if len(Index.shape) != 1:
        raise ShapeError(f"op 'index_select': Index has the shape {list(Index.shape)}, wanted one dimension")
    dim %= len(X.shape)
    return X.with_shape((*X.shape[:dim], Index.shape[0], *X.shape[dim + 1 :]))


@index_select.kernel
def _(xp: Any, X: Array, Index: Array, dim: int) -> Array:
    _check_ids("index_select", Index, X.shape[dim])
    return xp.take(X, Index.reshape(-1), axis=dim)


@index_select.grad("X")
def _(xp: Any, X: Array, Index: Array, dOut: Array, dim: int) -> Array:
    turned = xp.zeros(xp.moveaxis(X, dim, 0).shape, dOut.dtype)
    add_rows(xp, turned, Index.reshape(-1), xp.moveaxis(dOut, dim, 0))
    found = xp.moveaxis(turned, 0, dim)
    return xp.ascontiguousarray(found)


index_sample = Op("index_sample", "X Index -> Out", lod="Index")


@index_sample.shape
def _(X: Spec, Index: Spec) -> Spec:
    if (
        len(X.shape) != 2
        or len(Index.shape) != 2
        or (X.shape[0] != Index.shape[0] and -1 not in (X.shape[0], Index.shape[0]))
    ):
        raise ShapeError(
            f"op 'index_sample': X{list(X.shape)} and Index{list(Index.shape)} must be matrices "
            "with the same number of rows"
        )
    return X.with_shape(Index.shape)


@index_sample.kernel
def _(xp: Any, X: Array, Index: Array) -> Array:
    _check_ids("index_sample", Index, X.shape[1])
    return xp.take_along_axis(X, Index, axis=1)


@index_sample.grad("X")
def _(xp: Any, X: Array, Index: Array, dOut: Array) -> Array:
    flat = Index + (xp.arange(X.shape[0]) * X.shape[1])[:, None]
    out = xp.zeros(X.size, dOut.dtype)
    add_rows(xp, out, flat.reshape(-1), dOut.reshape(-1))
    return out.reshape(X.shape)


multiplex = Op("multiplex", "X* Ids -> Out", lod=None, alike=("X",))


@multiplex.shape
def _(X: list[Spec], Ids: Spec) -> Spec:
    if len(Ids.shape) != 2:
        raise ShapeError(f"op 'multiplex': Ids has shape {list(Ids.shape)}, wanted [rows, 1]")
    for spec in X:
        if len(spec.shape) < 2 or spec.shape != X[0].shape:
            raise ShapeError(
                f"op 'multiplex': X must share one shape of two dimensions or more, but are "
                f"{', '.join(str(list(one.shape)) for one in X)}"
            )
    return Spec(X[0].shape, X[0].dtype)


@multiplex.kernel
def _(xp: Any, X: list[Array], Ids: Array) -> Array:
    if Ids.size != len(X[0]):
        # 1.8.5 reads on behind Ids, or leaves rows out
        raise ShapeError(f"op 'multiplex': Ids names {Ids.size} rows, but X[0] has {len(X[0])}")
    return xp.stack(X)[Ids.reshape(-1), xp.arange(Ids.size)]


@multiplex.grad("X")
def _(xp: Any, Ids: Array, dOut: Array, ctx: KernelContext) -> tuple[list[Array]]:
    ids = Ids.reshape(-1, *(1,) * (dOut.ndim - 1))
    return (
        [xp.where(ids == i, dOut, xp.zeros((), dOut.dtype)) for i in range(len(ctx.op.output("X@GRAD")))],
    )


reverse = Op("reverse", "X -> Out", attrs={"axis": required(AttrType.INTS)}, lod=None, booleans=True)


@reverse.shape
def _(X: Spec, axis: list[int]) -> Spec:
    if not axis:
        raise ShapeError("op 'reverse': axis contains no dimension")
    check_axes("reverse", X.shape, axis)
    return Spec(X.shape, X.dtype)


@reverse.kernel
def _(xp: Any, X: Array, axis: list[int]) -> Array:
    found = xp.flip(X, tuple(axis))
    return xp.ascontiguousarray(found)


@reverse.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "reverse",
        {"X": context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {"axis": context.op.attr("axis")},
    )
