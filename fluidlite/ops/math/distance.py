"""Norms, and distances between vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, handed_on, later, required
from fluidlite.ops.kernels.numbers import as_matrix, check_rows, summed_to
from fluidlite.ops.kernels.sequence_rows import sum_onto


def _one(X: Spec) -> Spec:
    return X.with_shape((1,))


def _as_scalar(x: Array, d: Array) -> Array:
    """The gradient of a scalar, in the rank of x."""
    return d.reshape((1,) * x.ndim)


squared_l2_norm = Op("squared_l2_norm", "X. -> Out", lod=None)
squared_l2_norm.shape(_one)


@squared_l2_norm.kernel
def _(X: Array) -> Any:
    return (X * X).sum(dtype=X.dtype).reshape(1)


@squared_l2_norm.grad("X")
def _(X: Array, dOut: Array) -> Any:
    return 2 * _as_scalar(X, dOut) * X


l1_norm = Op("l1_norm", "X. -> Out", lod=None)
l1_norm.shape(_one)


@l1_norm.kernel
def _(X: Array) -> Any:
    return abs(X).sum(dtype=X.dtype).reshape(1)


@l1_norm.grad("X")
def _(xp: Any, X: Array, dOut: Array) -> Any:
    return _as_scalar(X, dOut) * xp.sign(X)


def vector_norm(xp: Any, x: Array, order: float, axis: int | tuple[int, ...] | None) -> Any:
    """(sum |x|^order)^(1/order) over `axis`, kept as 1; order 0 counts what is not 0, +-inf take the
    largest or smallest.
    """
    size = abs(x)
    if order == 0:
        return (x != 0).sum(axis=axis, keepdims=True).astype(x.dtype)
    if math.isinf(order):
        return size.max(axis=axis, keepdims=True) if order > 0 else size.min(axis=axis, keepdims=True)
    if order == 1:
        return size.sum(axis=axis, keepdims=True)
    powers = size**order
    if order < 2:  # without derivatives at 0 that are no numbers
        powers = xp.where(x == 0, x.dtype.type(0), xp.where(x == 0, x.dtype.type(1), size) ** order)
    return powers.sum(axis=axis, keepdims=True) ** (1 / order)


def _slope_of_power(xp: Any, x: Array, order: float) -> Any:
    """The derivative of |x|^order / order; 0 at 0 where there is none. It is differentiated itself: of even
    orders it has no corner at 0.
    """
    if order == 2:
        return x
    if order % 2 == 0:
        return x ** (order - 1)
    # a negative power of 0, in a derivative of this one where order is below 2, is no number
    size = abs(x) if order >= 2 else xp.where(x == 0, x.dtype.type(1), abs(x))
    return xp.sign(x) * size ** (order - 1)


def vector_norm_grad(xp: Any, x: Array, out: Array, d: Array, order: float, epsilon: float = 0.0) -> Any:
    """The gradient of `vector_norm`; `out` and `d` broadcast against x. Where the norm is 0 so is the
    gradient, and its derivatives.
    """
    if order == 0:
        return xp.zeros_like(x)
    if math.isinf(order):
        return d * xp.sign(x) * (abs(x) == out)
    none = out == 0
    slope = _slope_of_power(xp, xp.where(none, x.dtype.type(0), x), order)
    return d * slope / (xp.where(none, x.dtype.type(1), out) + epsilon) ** (order - 1)


p_norm = Op(
    "p_norm",
    "X. -> Out",
    attrs={"axis": -1, "epsilon": 1e-12, "porder": 2.0, "keepdim": False, "asvector": later(False)},
    lod=None,
    version=1,
)


@p_norm.shape
def _(X: Spec, axis: int, keepdim: bool, asvector: bool) -> Spec:
    if asvector and X.shape:  # of all elements
        return X.with_shape((1,) * (len(X.shape) if keepdim else 1))
    if not -len(X.shape) <= axis < len(X.shape):
        raise ShapeError(f"op 'p_norm': axis is {axis}, but X has {len(X.shape)} dimensions")
    axis %= len(X.shape)
    kept = (1,) if keepdim else ()
    return X.with_shape((*X.shape[:axis], *kept, *X.shape[axis + 1 :]))


@p_norm.refuses
def _(porder: float) -> str:
    return "" if 0 < porder < math.inf else f"porder must be a positive number, but is {porder}"


@p_norm.kernel
def _(xp: Any, X: Array, axis: int, porder: float, keepdim: bool, asvector: bool) -> Any:
    if asvector:
        return vector_norm(xp, X.reshape(-1), porder, 0).reshape((1,) * (X.ndim if keepdim else 1))
    out = vector_norm(xp, X, porder, axis)
    return out if keepdim else out.reshape(tuple(dim for i, dim in enumerate(X.shape) if i != axis % X.ndim))


@p_norm.grad("X")
def _(
    xp: Any, X: Array, Out: Array, dOut: Array, axis: int, porder: float, epsilon: float, asvector: bool
) -> Any:
    if asvector:
        one = (1,) * X.ndim
        return vector_norm_grad(xp, X, Out.reshape(one), dOut.reshape(one), porder, epsilon)
    kept = (*X.shape[: axis % X.ndim], 1, *X.shape[axis % X.ndim + 1 :])
    return vector_norm_grad(xp, X, Out.reshape(kept), dOut.reshape(kept), porder, epsilon)


dist = Op("dist", "X. Y. -> Out", attrs={"p": 2.0}, lod=None, alike=("X", "Y"), amp_fp16="black")
dist.shape(_one)


@dist.kernel
def _(xp: Any, X: Array, Y: Array, p: float) -> Any:
    return vector_norm(xp, X - Y, p, None).reshape(1)


@dist.grad("X Y")
def _(xp: Any, X: Array, Y: Array, Out: Array, dOut: Array, p: float) -> tuple[Any, Any]:
    difference = X - Y
    d = vector_norm_grad(xp, difference, _as_scalar(difference, Out), _as_scalar(difference, dOut), p)
    return summed_to(d, X.shape), -summed_to(d, Y.shape)


# ---------------------------------------------------------------------- row by row
def _check_rows(type: str, X: Spec, Y: Spec) -> None:
    fits = len(X.shape) == len(Y.shape) and all(
        a == b or a < 0 or b < 0 for a, b in zip(X.shape[1:], Y.shape[1:], strict=True)
    )
    if not fits or (Y.shape[0] not in (1, X.shape[0]) and X.shape[0] >= 0 and Y.shape[0] >= 0):
        raise ShapeError(
            f"op {type!r}: Y has the shape {list(Y.shape)}, wanted that of X{list(X.shape)}, or one row of it"
        )


def _rows(x: Array) -> Array:
    return as_matrix(x)


squared_l2_distance = Op("squared_l2_distance", "X. Y. -> sub_result Out", alike=("X", "Y"))


@squared_l2_distance.shape
def _(X: Spec, Y: Spec) -> tuple[Spec, Spec]:
    _check_rows("squared_l2_distance", X, Y)
    columns = -1 if any(dim < 0 for dim in X.shape[1:]) else math.prod(X.shape[1:])
    return Spec((X.shape[0], columns), X.dtype), Spec((X.shape[0], 1), X.dtype)


@squared_l2_distance.kernel
def _(X: Array, Y: Array) -> tuple[Any, Any]:
    difference = _rows(X) - _rows(Y)
    return difference, (difference * difference).sum(axis=1, keepdims=True)


@squared_l2_distance.grad("X Y")
def _(X: Array, Y: Array, sub_result: Array, dOut: Array) -> tuple[Any, Any]:
    d = 2 * dOut * sub_result
    return d.reshape(X.shape), -(d.sum(axis=0) if len(Y) != len(X) else d).reshape(Y.shape)


cos_sim = Op(
    "cos_sim",
    "X. Y. -> Out XNorm YNorm",
    attrs={"@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True},
    alike=("X", "Y"),
    amp="black",
    amp_fp16="",
)


@cos_sim.shape
def _(X: Spec, Y: Spec) -> tuple[Spec, Spec, Spec]:
    _check_rows("cos_sim", X, Y)
    of_x = Spec((X.shape[0], 1), X.dtype)
    of_y = Spec((Y.shape[0], 1), X.dtype)
    return of_x, of_x, of_y


def _row_products(xp: Any, x: Array, y: Array) -> Any:
    """(N, 1): the product of each row of x with that of y, or with the one row that y has."""
    if xp is not np:
        return (x * y).sum(axis=1, keepdims=True)
    # a third of the time of a product of all elements and its sums
    found = np.einsum("nc,nc->n", x, y) if len(x) == len(y) else x @ y[0]
    return found.reshape(-1, 1)


_LEAST_SQUARE = 1e-8
"""The least square of a norm: a row of zeros is like no other one, and is not divided by 0."""


@cos_sim.kernel
def _(xp: Any, X: Array, Y: Array) -> tuple[Any, Any, Any]:
    x, y = _rows(X), _rows(Y)
    least = X.dtype.type(_LEAST_SQUARE)
    x_norm, y_norm = (xp.sqrt(xp.maximum(_row_products(xp, v, v), least)) for v in (x, y))
    return _row_products(xp, x, y) / (x_norm * y_norm), x_norm, y_norm


def _along(xp: Any, d: Array, norm: Array) -> Any:
    """The part of a gradient that comes through a norm, which is a constant where it has its least value."""
    is_least = norm <= xp.sqrt(norm.dtype.type(_LEAST_SQUARE))
    return xp.where(is_least, norm.dtype.type(0), d / (norm * norm))


@cos_sim.grad("X Y")
def _(xp: Any, X: Array, Y: Array, Out: Array, XNorm: Array, YNorm: Array, dOut: Array) -> tuple[Any, Any]:
    x, y = _rows(X), _rows(Y)
    across = dOut / (XNorm * YNorm)
    dx = y * across
    dx -= x * _along(xp, dOut * Out, XNorm)
    dy = x * across
    dy -= y * _along(xp, dOut * Out, YNorm)
    return dx.reshape(X.shape), (dy.sum(axis=0) if len(Y) != len(X) else dy).reshape(Y.shape)


# ---------- between feature maps, and to class centers
fsp = Op("fsp", "X. Y. -> Out", alike=("X", "Y"))


@fsp.shape
def _(X: Spec, Y: Spec) -> Spec:
    if len(X.shape) != 4 or len(Y.shape) != 4 or X.shape[2:] != Y.shape[2:]:
        raise ShapeError(
            f"op 'fsp': X{list(X.shape)} and Y{list(Y.shape)} must be images of the same height and width"
        )
    check_rows("fsp", X=X, Y=Y)
    return X.with_shape((X.shape[0], X.shape[1], Y.shape[1]))


def _pixels(x: Array) -> Array:
    return x.reshape(*x.shape[:2], -1)


@fsp.kernel
def _(X: Array, Y: Array) -> Any:
    return _pixels(X) @ _pixels(Y).swapaxes(1, 2) / X.dtype.type(X.shape[2] * X.shape[3])


@fsp.grad("X Y")
def _(X: Array, Y: Array, dOut: Array) -> tuple[Any, Any]:
    d = dOut / X.dtype.type(X.shape[2] * X.shape[3])
    return (d @ _pixels(Y)).reshape(X.shape), (d.swapaxes(1, 2) @ _pixels(X)).reshape(Y.shape)


center_loss = Op(
    "center_loss",
    "X. Label Centers. CenterUpdateRate. -> CentersOut SampleCenterDiff Loss",
    attrs={"cluster_num": required(AttrType.INT), "need_update": required(AttrType.BOOLEAN)},
    lod=None,
    idle=("cluster_num",),
    below={"Label": ("Centers", 0)},
    alike=("X", "Centers", "CenterUpdateRate"),
)


@center_loss.shape
def _(X: Spec, Label: Spec, Centers: Spec) -> tuple[Spec, Spec, Spec]:
    check_rows("center_loss", X=X, Label=Label)
    loss = Spec((X.shape[0], 1), X.dtype, X.lod_level)
    return Centers.with_shape(Centers.shape), X.with_shape(X.shape), loss


@center_loss.kernel
def _(
    xp: Any, X: Array, X_lod: Lod, Label: Array, Centers: Array, CenterUpdateRate: Array, need_update: bool
) -> tuple[Any, Any, Any]:
    label = Label.reshape(-1)
    difference = X - Centers[label]
    loss = as_matrix(difference * difference).sum(axis=1, keepdims=True) / 2
    loss = handed_on(loss, X_lod)
    if not need_update:
        return Centers, difference, loss
    return _moved_centers(xp, Centers, label, difference, CenterUpdateRate.reshape(())), difference, loss


def _moved_centers(xp: Any, centers: Array, label: Array, difference: Array, rate: Array) -> Any:
    """Each center moved towards the mean of what belongs to it."""
    if xp is not np:
        pull = xp.zeros_like(centers)
        count = xp.bincount(label, minlength=len(centers))
        xp.add.at(pull, label, difference)
        return centers + rate * pull / _counts(count, centers)
    # most classes are not in a batch
    present, group, count = np.unique(label, return_inverse=True, return_counts=True)
    pull = sum_onto(np, difference, group.reshape(-1), len(present))
    moved = centers.copy()
    moved[present] += rate * pull / _counts(count, centers)
    return moved


def _counts(count: Array, centers: Array) -> Any:
    """One more than the number of what belongs to each center, in the centers' shape and type."""
    return (1 + count).reshape(-1, *(1,) * (centers.ndim - 1)).astype(centers.dtype)


@center_loss.grad("X")
def _(X: Array, SampleCenterDiff: Array, dLoss: Array) -> Any:
    return dLoss.reshape(len(X), *(1,) * (X.ndim - 1)) * SampleCenterDiff


renorm = Op("renorm", "X -> Out", attrs={"p": 2.0, "axis": -1, "max_norm": 1.0}, amp_fp16="black")


@renorm.shape
def _(X: Spec, p: float) -> Spec:
    if not p > 0:
        raise ShapeError(f"op 'renorm': p must be above 0, but is {p}: there is no norm to limit")
    return Spec(X.shape, X.dtype)


def _others(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != axis % x.ndim)


@renorm.kernel
def _(xp: Any, X: Array, p: float, axis: int, max_norm: float) -> Array:
    norm = vector_norm(xp, X, p, _others(X, axis))
    return (X * xp.where(norm > max_norm, max_norm / (norm + 1e-7), 1)).astype(X.dtype)


@renorm.grad("X")
def _(xp: Any, X: Array, dOut: Array, p: float, axis: int, max_norm: float) -> Array:
    others = _others(X, axis)
    large = vector_norm(xp, X, p, others) > max_norm
    # what is left as it is counts as ones, whose norm has derivatives: that of zeros has none
    x = xp.where(large, X, X.dtype.type(1))
    norm = vector_norm(xp, x, p, others)
    pull = (dOut * x).sum(axis=others, keepdims=True) * max_norm / (norm + 1e-7) ** 2
    moved = dOut * (max_norm / (norm + 1e-7)) - vector_norm_grad(xp, x, norm, pull, p)
    return xp.where(large, moved, dOut).astype(X.dtype)
