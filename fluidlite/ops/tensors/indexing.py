"""Parts of tensors by range or by index: slice, gather, scatter, one_hot, where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import (
    INTS,
    OF_2X_ATTR,
    AttrType,
    GradContext,
    KernelContext,
    Lod,
    Op,
    Spec,
    WithLod,
    get,
    later,
    required,
    same_as,
)
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.numbers import check_axes, given_ints, ints
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, merge_rows

_RANGE = {
    "axes": required(AttrType.INTS),
    "starts": INTS(),
    "ends": INTS(),
    "infer_flags": INTS(),
    "decrease_axis": INTS(),
}


def bound(size: int, start: int, end: int, step: int = 1) -> slice:
    """The range of a dimension with fluid's limits: negative ones count from the end, those outside are cut.

    Backwards an end of -1 is the place before the first, and steps are counted from that end: of four rows,
    -1 to -1 by -2 are rows 2 and 0, as in 1.8.5, where NumPy has 3 and 1.
    """
    if step > 0:
        start, end = (
            (max(start + size, 0) if start < 0 else min(start, size)),
            (max(end + size, 0) if end < 0 else min(end, size)),
        )
        return slice(start, max(end, start), step)
    start = max(start + size, -1) if start < 0 else min(start, size - 1)
    end = max(end + size, -1) if end < -1 else min(end, size - 1)
    if start <= end:
        return slice(0, 0)
    return slice(start - (start - end - 1) % -step, None if end < 0 else end, step)


def ranges(
    shape: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] = (),
) -> tuple[slice, ...]:
    """A slice for each dimension."""
    found = [slice(None)] * len(shape)
    for i, axis in enumerate(axes):
        found[axis] = bound(shape[axis], starts[i], ends[i], steps[i] if steps else 1)
    return tuple(found)


def sliced_shape(
    spec: Spec,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    decrease: Sequence[int],
    flags: Sequence[int],
) -> tuple[int, ...]:
    """The shape of a slice; a dimension is -1 where it or its limits are not known."""
    dims = list(spec.shape)
    for i, axis in enumerate(axes):
        if axis >= len(dims):
            raise ShapeError(f"op 'slice': axis {axis} is outside Input{list(spec.shape)}")
        unknown = (
            dims[axis] < 0
            or i >= len(starts)
            or i >= len(ends)
            or (flags and i < len(flags) and flags[i] < 0)
        )
        step = steps[i] if i < len(steps) else 1
        dims[axis] = (
            -1 if unknown else len(range(*bound(dims[axis], starts[i], ends[i], step).indices(dims[axis])))
        )
    kept = [dim for axis, dim in enumerate(dims) if axis not in decrease]
    return tuple(kept) if kept or not decrease else (1,)


slice_op = Op(
    "slice",
    "Input StartsTensor? EndsTensor? StartsTensorList*? EndsTensorList*? -> Out",
    attrs=_RANGE,
    lod=None,
)


@slice_op.shape
def _(
    Input: Spec,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
    infer_flags: list[int],
) -> Spec:
    if Input.kind == VarType.LOD_TENSOR_ARRAY:
        return Input if not decrease_axis else Spec(Input.shape, Input.dtype)
    shape = sliced_shape(Input, axes, starts, ends, (), decrease_axis, infer_flags)
    # rows that go take their sequences with them
    return Spec(shape, Input.dtype, Input.lod_level if axes[0] != 0 else 0)


@slice_op.kernel
def _(
    xp: Any,
    Input: Any,
    Input_lod: Lod,
    StartsTensor: Any,
    EndsTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
) -> Any:
    starts, ends = (
        given_ints(StartsTensor, StartsTensorList, starts),
        given_ints(EndsTensor, EndsTensorList, ends),
    )
    if isinstance(Input, LoDTensorArray):
        part = Input[bound(len(Input), starts[0], ends[0])]
        return WithLod(part[0].array, part[0]._lod) if decrease_axis else LoDTensorArray(part)
    out = _squeezed(xp, Input[ranges(Input.shape, axes, starts, ends)], decrease_axis)
    return WithLod(out, Input_lod) if Input_lod and axes[0] != 0 else out


def _squeezed(xp: Any, part: Array, decrease: Sequence[int]) -> Array:
    if decrease:
        part = part.reshape([dim for axis, dim in enumerate(part.shape) if axis not in decrease] or [1])
    return xp.ascontiguousarray(part)


def _spread(xp: Any, whole: Array, where: tuple[slice, ...], d: Array) -> Array:
    """Zeros like `whole`, with `d` where the slice was."""
    out = xp.zeros(whole.shape, d.dtype)
    out[where] = d.reshape(out[where].shape)
    return out


@slice_op.grad("Input")
def _(
    xp: Any,
    Input: Any,
    StartsTensor: Any,
    EndsTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    dOut: Any,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
) -> Any:
    starts, ends = (
        given_ints(StartsTensor, StartsTensorList, starts),
        given_ints(EndsTensor, EndsTensorList, ends),
    )
    if isinstance(Input, LoDTensorArray):
        return _array_gradient(xp, Input, bound(len(Input), starts[0], ends[0]), dOut)
    return _spread(xp, Input, ranges(Input.shape, axes, starts, ends), dOut)


emits_once_more(
    get("slice_grad"),
    reads={
        "StartsTensor": "StartsTensor",
        "EndsTensor": "EndsTensor",
        "StartsTensorList": "StartsTensorList",
        "EndsTensorList": "EndsTensorList",
    },
    incoming={"Input": "Input@GRAD"},
    writes={"Out": "Out@GRAD"},
    type="slice",
)


def _array_gradient(xp: Any, whole: LoDTensorArray, where: slice, d: Any) -> LoDTensorArray:
    """Zeros like the tensors of an array, and the gradients of those that the slice took."""
    out = LoDTensorArray(LoDTensor(xp.zeros_like(item.array), item._lod) for item in whole)
    out[where] = d if isinstance(d, LoDTensorArray) else [LoDTensor(d, whole[where.start]._lod)]
    return out


strided = Op(
    "strided_slice",
    "Input StartsTensor? EndsTensor? StridesTensor? StartsTensorList*? EndsTensorList*? "
    "StridesTensorList*? -> Out",
    attrs={**_RANGE, "strides": INTS()},
)


@strided.shape
def _(
    Input: Spec,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    strides: list[int],
    decrease_axis: list[int],
    infer_flags: list[int],
) -> Spec:
    return Input.with_shape(sliced_shape(Input, axes, starts, ends, strides, decrease_axis, infer_flags))


@strided.kernel
def _(
    xp: Any,
    Input: Array,
    StartsTensor: Any,
    EndsTensor: Any,
    StridesTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StridesTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
    strides: list[int],
    decrease_axis: list[int],
) -> Array:
    where = ranges(
        Input.shape,
        axes,
        given_ints(StartsTensor, StartsTensorList, starts),
        given_ints(EndsTensor, EndsTensorList, ends),
        given_ints(StridesTensor, StridesTensorList, strides),
    )
    return _squeezed(xp, Input[where], decrease_axis)


@strided.grad("Input")
def _(
    xp: Any,
    Input: Array,
    StartsTensor: Any,
    EndsTensor: Any,
    StridesTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StridesTensorList: list[Any],
    dOut: Array,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    strides: list[int],
) -> Array:
    where = ranges(
        Input.shape,
        axes,
        given_ints(StartsTensor, StartsTensorList, starts),
        given_ints(EndsTensor, EndsTensorList, ends),
        given_ints(StridesTensor, StridesTensorList, strides),
    )
    return _spread(xp, Input, where, dOut)


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
    later=("Axis",),
)


@gather.shape
def _(X: Spec, Index: Spec, Axis: Spec | None, axis: int | None) -> Spec:
    if Axis is not None:
        return X.with_shape((-1,) * len(X.shape))
    if axis is not None:
        axis %= len(X.shape)
        return X.with_shape((*X.shape[:axis], *Index.shape[:1], *X.shape[axis + 1 :]))
    if len(Index.shape) > 2 or (len(Index.shape) == 2 and Index.shape[1] not in (1, -1)):
        raise ShapeError(
            f"op 'gather': Index must have one dimension (or [n, 1]), but has shape {list(Index.shape)}"
        )
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
        bad = int(ids.reshape(-1)[np.argmax((ids.reshape(-1) < 0) | (ids.reshape(-1) >= rows))])
        raise ShapeError(f"op {op!r}: index {bad} is outside the {rows} rows")


@gather.grad("X")
def _(
    xp: Any, X: Array, Index: Array, Axis: Array | None, dOut: Array, overwrite: bool, axis: int | None
) -> Array:
    out = xp.zeros(X.shape, dOut.dtype)
    if axis is not None:  # an op of 2.x, which adds up
        along = (ints(Axis)[0] if Axis is not None else axis) % X.ndim
        rows = xp.moveaxis(dOut if Index.ndim else xp.expand_dims(dOut, along), along, 0)
        add_rows(xp, xp.moveaxis(out, along, 0), Index.reshape(-1), rows)
    elif overwrite:  # of a row taken more than once the last gradient counts, as in Paddle
        out[Index.reshape(-1)] = dOut
    else:
        add_rows(xp, out, Index.reshape(-1), dOut)
    return out


gather_nd = Op("gather_nd", "X Index -> Out")


@gather_nd.shape
def _(X: Spec, Index: Spec) -> Spec:
    if len(Index.shape) < 2:
        raise ShapeError(
            f"op 'gather_nd': Index must have two dimensions or more, but has {list(Index.shape)}"
        )
    depth = Index.shape[-1]
    if depth > len(X.shape):
        raise ShapeError(
            f"op 'gather_nd': Index{list(Index.shape)} addresses {depth} dimensions of X{list(X.shape)}"
        )
    return X.with_shape((*Index.shape[:-1], *X.shape[depth:]))


def _at(xp: Any, x: Array, index: Array) -> Array:
    """What each row of `index` names: a part of `x`, or all of it where the rows are empty."""
    if index.shape[-1] == 0:
        return xp.broadcast_to(x, (*index.shape[:-1], *x.shape)).copy()
    found: Array = x[tuple(index[..., i] for i in range(index.shape[-1]))]
    return found.copy()


@gather_nd.kernel
def _(xp: Any, X: Array, Index: Array) -> Array:
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


scatter = Op("scatter", "X Ids Updates -> Out", attrs={"overwrite": True, OF_2X_ATTR: later(False)})


@scatter.shape
def _(X: Spec, Ids: Spec, Updates: Spec) -> Spec:
    if len(Ids.shape) > 2 or (len(Ids.shape) == 2 and Ids.shape[1] not in (1, -1)):
        raise ShapeError(f"op 'scatter': Ids must have one dimension, but has shape {list(Ids.shape)}")
    if len(Updates.shape) != len(X.shape):
        raise ShapeError(f"op 'scatter': Updates{list(Updates.shape)} and X{list(X.shape)} differ in rank")
    rows = Ids.shape[0] if Ids.shape else 1
    _check_fit("scatter", "Updates", Updates, (rows, *Updates.shape[1:]))
    return Spec(X.shape, X.dtype)


@scatter.kernel
def _(xp: Any, X: Array, Ids: Array, Updates: Array, overwrite: bool) -> Array:
    out, ids = X.copy(), Ids.reshape(-1)
    _check_ids("scatter", ids, X.shape[0])
    if overwrite:
        out[ids] = Updates
    else:
        out[ids] = 0
        add_rows(xp, out, ids, Updates)
    return out


@scatter.grad("X Updates")
def _(xp: Any, Ids: Array, Updates: Array, dOut: Array, of_2x: bool) -> tuple[Array, Array]:
    ids, dX = Ids.reshape(-1), dOut.copy()
    # Paddle 1.8 hands the whole gradient to X, the rows that were written over included
    if of_2x:
        dX[ids] = 0
    return dX, dOut[ids].reshape(Updates.shape)


scatter_nd_add = Op("scatter_nd_add", "X Index Updates -> Out")


@scatter_nd_add.shape
def _(X: Spec, Index: Spec, Updates: Spec) -> Spec:
    depth = Index.shape[-1]
    if depth > len(X.shape):
        raise ShapeError(
            f"op 'scatter_nd_add': Index{list(Index.shape)} addresses {depth} dimensions of X{list(X.shape)}"
        )
    _check_fit("scatter_nd_add", "Updates", Updates, (*Index.shape[:-1], *X.shape[depth:]))
    return Spec(X.shape, X.dtype)


def _check_fit(type: str, slot: str, found: Spec, wanted: Sequence[int]) -> None:
    """The shape of `found` is `wanted`, as far as both are known."""
    pairs = zip(found.shape, wanted, strict=False)
    if len(found.shape) != len(wanted) or any(a != b and -1 not in (a, b) for a, b in pairs):
        raise ShapeError(f"op {type!r}: {slot} must have shape {list(wanted)}, but has {list(found.shape)}")


@scatter_nd_add.kernel
def _(xp: Any, X: Array, Index: Array, Updates: Array) -> Array:
    return _added_nd(xp, X.copy(), Index, Updates)


@scatter_nd_add.grad("X Updates")
def _(xp: Any, Index: Array, Updates: Array, dOut: Array) -> tuple[Array, Array]:
    return dOut.copy(), _at(xp, dOut, Index).reshape(Updates.shape)


# ---------------------------------------------------------------------- one_hot, where
def _declare_one_hot(op_type: str, drops_last: bool) -> None:
    op = Op(
        op_type,
        "X depth_tensor? -> Out",
        attrs={"depth": -1, "dtype": int(VarType.FP32), "allow_out_of_range": False},
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
        return (flat[..., None] == xp.arange(depth)).astype(to_numpy(VarType(dtype)))


_declare_one_hot("one_hot", True)
_declare_one_hot("one_hot_v2", False)

where = Op("where", "Condition X Y -> Out", lod="X")
where.shape(same_as("X"))


@where.kernel
def _(xp: Any, Condition: Array, X: Array, Y: Array) -> Array:
    return xp.where(Condition, X, Y)


@where.grad("X Y")
def _(xp: Any, Condition: Array, X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    zero = xp.zeros((), dOut.dtype)
    return xp.where(Condition, dOut, zero), xp.where(Condition, zero, dOut)


where_index = Op("where_index", "Condition -> Out", lod=None)


@where_index.shape
def _(Condition: Spec) -> Spec:
    return Spec((-1, len(Condition.shape)), VarType.INT64)


@where_index.kernel
def _(xp: Any, Condition: Array) -> Array:
    return xp.stack(xp.nonzero(Condition), axis=1).astype("int64")


index_select = Op("index_select", "X Index -> Out", attrs={"dim": 0})


@index_select.shape
def _(X: Spec, Index: Spec, dim: int) -> Spec:
    check_axes("index_select", X.shape, [dim])
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
    return xp.ascontiguousarray(xp.moveaxis(turned, 0, dim))


index_sample = Op("index_sample", "X Index -> Out", lod=None)


@index_sample.shape
def _(X: Spec, Index: Spec) -> Spec:
    if (
        len(X.shape) != 2
        or len(Index.shape) != 2
        or (X.shape[0] != Index.shape[0] and -1 not in (X.shape[0], Index.shape[0]))
    ):
        raise ShapeError(
            f"op 'index_sample': X{list(X.shape)} and Index{list(Index.shape)} must be matrices of as many "
            f"rows"
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


multiplex = Op("multiplex", "X* Ids -> Out", lod=None)


@multiplex.shape
def _(X: list[Spec]) -> Spec:
    return Spec(X[0].shape, X[0].dtype)


@multiplex.kernel
def _(xp: Any, X: list[Array], Ids: Array) -> Array:
    return xp.stack(X)[Ids.reshape(-1), xp.arange(Ids.size)]


@multiplex.grad("X")
def _(xp: Any, Ids: Array, dOut: Array, ctx: KernelContext) -> tuple[list[Array]]:
    ids = Ids.reshape(-1, *(1,) * (dOut.ndim - 1))
    return (
        [xp.where(ids == i, dOut, xp.zeros((), dOut.dtype)) for i in range(len(ctx.op.output("X@GRAD")))],
    )


reverse = Op("reverse", "X -> Out", attrs={"axis": required(AttrType.INTS)}, lod=None)


@reverse.shape
def _(X: Spec, axis: list[int]) -> Spec:
    check_axes("reverse", X.shape, axis)
    return Spec(X.shape, X.dtype)


@reverse.kernel
def _(xp: Any, X: Array, axis: list[int]) -> Array:
    return xp.ascontiguousarray(xp.flip(X, tuple(axis)))


@reverse.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "reverse",
        {"X": context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {"axis": context.op.attr("axis")},
    )
