"""Reductions: sums, means, extremes and products over dimensions, and the norms made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy, to_vartype
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, OF_2X_ATTR, Lod, Op, Spec, handed_on, later
from fluidlite.ops.gradients import emits_once_more
from fluidlite.values.tensor import SelectedRows

REDUCE_ATTRS: dict[str, Any] = {
    "dim": INTS([0]),
    "keep_dim": False,
    "reduce_all": False,
    "in_dtype": -1,
    "out_dtype": -1,
    OF_2X_ATTR: later(False),
}


def reduced_axes(type: str, rank: int, dim: Sequence[int], reduce_all: bool) -> tuple[int, ...]:
    """The dimensions that go away, as numbers from 0; ShapeError where `dim` names one that is not there."""
    dims = [dim] if isinstance(dim, int) else dim
    if reduce_all or not dims:
        return tuple(range(rank))
    for axis in dims:
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise ShapeError(f"op {type!r}: dim contains {axis}, but X has {rank} dimensions")
    return tuple(sorted({axis % rank for axis in dims})) if rank else ()


def _reduced_shape(shape: Sequence[int], axes: Sequence[int], keep_dim: bool) -> tuple[int, ...]:
    """The sizes that are left; all dimensions of a tensor leave one, where there are any, as in 1.8."""
    if keep_dim:
        return tuple(1 if i in axes else dim for i, dim in enumerate(shape))
    if not shape:
        return ()
    return tuple(dim for i, dim in enumerate(shape) if i not in axes) or (1,)


def _spread(X: Array, dim: Sequence[int], reduce_all: bool, *reduced: Array) -> tuple[Array, ...]:
    """`reduced` arrays in the rank of X, so that they broadcast against it."""
    shape = _reduced_shape(X.shape, reduced_axes("reduce", X.ndim, dim, reduce_all), True)
    return tuple(array.reshape(shape) for array in reduced)


def _repeated(xp: Any, d: Array, X: Array) -> Array:
    """`d` broadcast to the shape and dtype of X."""
    dX: Array = xp.empty(X.shape, X.dtype)
    dX[...] = d  # over few elements it takes a tenth of the time of `broadcast_to` and `astype`
    return dX


def _widened(type: str, dtype: VarType, out_dtype: int, of_2x: bool) -> int:
    """The dtype of the result, -1 for that of X: in 2.x booleans and int32 add up to int64."""
    if of_2x and out_dtype < 0 and type == "reduce_sum" and dtype in (VarType.BOOL, VarType.INT32):
        return VarType.INT64
    return out_dtype


def _elements(type: str, rows: SelectedRows, is_whole: bool) -> Array:
    """The elements of selected rows, whose sum is that of the matrix they stand for."""
    if type != "reduce_sum" or not is_whole:
        raise ShapeError(f"op {type!r}: X holds selected rows, which can only be added up to one number")
    elements: Array = rows.array
    return elements


_Compute: TypeAlias = "Callable[[Any, Any, tuple[int, ...], bool], Any]"


def _reduction(
    type: str, compute: _Compute, dtype: VarType | None = None, slots: str = "X -> Out", **facts: Any
) -> Op:
    """The op that applies `compute(xp, x, axes, keep_dim)` to X."""
    op = Op(type, slots, attrs=REDUCE_ATTRS, lod=None, tells_lod=True, **facts)

    @op.shape
    def _(X: Spec, dim: list[int], keep_dim: bool, reduce_all: bool, out_dtype: int, of_2x: bool) -> Spec:
        axes = reduced_axes(type, len(X.shape), dim, reduce_all)
        own = X.dtype if dtype is None else dtype
        out_dtype = _widened(type, X.dtype, out_dtype, of_2x)
        # the rows stay what they were unless dimension 0 goes away, and with them their sequences
        return Spec(
            _reduced_shape(X.shape, axes, keep_dim),
            VarType(out_dtype) if out_dtype >= 0 else own,
            None if 0 in axes or of_2x else X.lod_level,
        )

    @op.kernel
    def _(
        xp: Any,
        X: Array | SelectedRows,
        X_lod: Lod,
        dim: list[int],
        keep_dim: bool,
        reduce_all: bool,
        out_dtype: int,
        of_2x: bool,
    ) -> Any:
        if isinstance(X, SelectedRows):
            X = _elements(type, X, reduce_all or not dim)
        axes = reduced_axes(type, X.ndim, dim, reduce_all)
        if of_2x:
            out_dtype = _widened(type, to_vartype(X.dtype), out_dtype, of_2x)
        x = X.astype(to_numpy(VarType(out_dtype))) if out_dtype >= 0 else X
        out = compute(xp, x, axes, keep_dim)
        if len(axes) == X.ndim:
            out = out.reshape(_reduced_shape(X.shape, axes, keep_dim))
        return handed_on(out, X_lod if 0 not in axes and not of_2x else ())

    return op


def _mean(xp: Any, x: Array, axes: tuple[int, ...], keep_dim: bool) -> Any:
    if x.dtype.kind == "f":
        return x.mean(axis=axes, keepdims=keep_dim, dtype=x.dtype)
    total = x.sum(axis=axes, keepdims=keep_dim, dtype=x.dtype)
    return _divided(xp, total, math.prod(x.shape[axis] for axis in axes))


def _divided(xp: Any, x: Array, count: int) -> Any:
    """Integers by a number, towards zero as C++ divides them."""
    return (xp.sign(x) * (abs(x) // count)).astype(x.dtype)


def _norm(xp: Any, x: Array, axes: tuple[int, ...], keep_dim: bool) -> Any:
    return xp.sqrt((x * x).sum(axis=axes, keepdims=keep_dim))


reduce_sum = _reduction(
    "reduce_sum",
    lambda xp, x, axes, keep: x.sum(axes, x.dtype, keepdims=keep),
    captured=True,
    amp_fp16="black",
)
reduce_mean = _reduction("reduce_mean", _mean, captured=True, amp_fp16="black")
reduce_max = _reduction("reduce_max", lambda xp, x, axes, keep: x.max(axes, keepdims=keep), captured=True)
reduce_min = _reduction("reduce_min", lambda xp, x, axes, keep: x.min(axes, keepdims=keep))
reduce_prod = _reduction(
    "reduce_prod", lambda xp, x, axes, keep: x.prod(axes, x.dtype, keepdims=keep), amp_fp16="black"
)
reduce_all = _reduction(
    "reduce_all", lambda xp, x, axes, keep: x.all(axes, keepdims=keep), VarType.BOOL, booleans=True
)
reduce_any = _reduction(
    "reduce_any", lambda xp, x, axes, keep: x.any(axes, keepdims=keep), VarType.BOOL, booleans=True
)
reduce_amax = _reduction("reduce_amax", lambda xp, x, axes, keep: x.max(axes, keepdims=keep))
reduce_amin = _reduction("reduce_amin", lambda xp, x, axes, keep: x.min(axes, keepdims=keep))
frobenius_norm = _reduction("frobenius_norm", _norm, slots="X. -> Out", amp_fp16="black")


@reduce_sum.grad("X")
def reduce_sum_grad(xp: Any, X: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    (d,) = _spread(X, dim, reduce_all, dOut)
    return _repeated(xp, d, X)


emits_once_more(reduce_sum_grad, incoming={"X": "X@GRAD"}, writes={"Out": "Out@GRAD"}, type="reduce_sum")


@reduce_mean.grad("X")
def reduce_mean_grad(xp: Any, X: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    (d,) = _spread(X, dim, reduce_all, dOut)
    count = X.size // max(d.size, 1)
    if d.dtype.kind != "f":
        return xp.broadcast_to(_divided(xp, d, count), X.shape)
    return _repeated(xp, d / d.dtype.type(count), X)


emits_once_more(reduce_mean_grad, incoming={"X": "X@GRAD"}, writes={"Out": "Out@GRAD"}, type="reduce_mean")


def _gradient_of_extreme(X: Array, Out: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    """Every element that equals the extreme gets the whole gradient, as in Paddle."""
    out, d = _spread(X, dim, reduce_all, Out, dOut)
    return (out == X) * d


reduce_max.grad("X")(_gradient_of_extreme)
reduce_min.grad("X")(_gradient_of_extreme)


def _gradient_shared(xp: Any, X: Array, Out: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    """Elements that are equal share the gradient."""
    out, d = _spread(X, dim, reduce_all, Out, dOut)
    found = out == X
    count = found.sum(axis=reduced_axes("amax", X.ndim, dim, reduce_all), keepdims=True)
    return (found * d / count).astype(X.dtype)


reduce_amax.grad("X")(_gradient_shared)
reduce_amin.grad("X")(_gradient_shared)


@reduce_prod.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    out, d = _spread(X, dim, reduce_all, Out, dOut)
    if X.dtype.kind != "f":  # in C++ the quotient of 1 and an integer is 0, but for 1 and -1
        return d * out * xp.where(abs(X) == 1, X, 0)
    if not (X == 0).any():
        return d * out * (1 / X)
    return d * _products_of_others(xp, X, reduced_axes("reduce_prod", X.ndim, dim, reduce_all))


def _products_of_others(xp: Any, x: Array, axes: Sequence[int]) -> Array:
    """For each element the product of the others along `axes`, without a division, as some may be 0."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*rest, *axes)
    lines = x.transpose(order)
    rows = lines.reshape(*(x.shape[axis] for axis in rest), -1)
    ends = xp.ones_like(rows[..., :1])
    forwards = xp.cumprod(rows[..., :-1], axis=-1)
    backwards = xp.cumprod(rows[..., :0:-1], axis=-1)
    ahead = xp.concatenate([ends, forwards], axis=-1)
    behind = xp.concatenate([backwards[..., ::-1], ends], axis=-1)
    found = (ahead * behind).reshape(lines.shape)
    return found.transpose(np.argsort(order).tolist())


@frobenius_norm.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, dim: list[int], reduce_all: bool) -> Any:
    out, d = _spread(X, dim, reduce_all, Out, dOut)
    x = xp.where(out == 0, X.dtype.type(0), X)  # zeros have a gradient of 0, which does not vary
    return d * x / (out + (out == 0))


def _whole(X: Spec) -> Spec:
    return X.with_shape((1,))


mean = Op("mean", "X. -> Out", lod=None, captured=True, amp="black")
mean.shape(_whole)


@mean.kernel
def _(xp: Any, X: Array) -> Any:
    if not X.size:  # without NumPy's warning
        return xp.full(1, np.nan, X.dtype)
    return X.mean(dtype=X.dtype).reshape(1)


@mean.grad("X")
def _(xp: Any, X: Array, dOut: Array) -> Any:
    return _repeated(xp, dOut.reshape((1,) * X.ndim) / dOut.dtype.type(X.size), X)


logsumexp = Op(
    "logsumexp", "X -> Out", attrs={"axis": INTS([0]), "keepdim": False, "reduce_all": False}, lod=None
)


@logsumexp.shape
def _(X: Spec, axis: list[int], keepdim: bool, reduce_all: bool) -> Spec:
    return X.with_shape(
        _reduced_shape(X.shape, reduced_axes("logsumexp", len(X.shape), axis, reduce_all), keepdim)
    )


@logsumexp.kernel
def _(xp: Any, X: Array, axis: list[int], keepdim: bool, reduce_all: bool) -> Any:
    axes = reduced_axes("logsumexp", X.ndim, axis, reduce_all)
    # shifted by the largest element, so that exp cannot overflow
    top = X.max(axis=axes, keepdims=True)
    out = xp.log(xp.exp(X - top).sum(axis=axes, keepdims=True)) + top
    return out.reshape(_reduced_shape(X.shape, axes, keepdim))


@logsumexp.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, axis: list[int], reduce_all: bool) -> Any:
    out, d = _spread(X, axis, reduce_all, Out, dOut)
    return d * xp.exp(X - out)
