"""Running products, and running sums of exponentials, that came with PaddlePaddle 2.x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.numbers import check_axes, named_dims

cumprod = Op(
    "cumprod",
    "X -> Out",
    attrs={"dim": -1},
    version=1,
    newer={"exclusive": False, "reverse": False},
    amp_fp16="black",
)


@cumprod.shape
def _(X: Spec, dim: int) -> Spec:
    check_axes("cumprod", X.shape, [dim], named_dims(X.shape))
    return Spec(X.shape, X.dtype)


@cumprod.kernel
def _(xp: Any, X: Array, dim: int) -> Array:
    return xp.cumprod(X, axis=dim, dtype=X.dtype) if X.ndim else X.copy()


@cumprod.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, dim: int) -> Array:
    """The products behind each element are divided by it where none is 0, nor NaN or infinite; else each
    takes the products without it, one by one.
    """
    if not X.ndim:
        return dOut.copy()
    if (X != 0).all() and xp.isfinite(Out).all():
        behind = xp.flip(xp.cumsum(xp.flip(dOut * Out, dim), axis=dim), dim)
        return (behind / X).astype(X.dtype)
    x = xp.moveaxis(X, dim, 0)
    d = xp.moveaxis(dOut, dim, 0)
    found = xp.zeros(x.shape, d.dtype)
    for place in range(len(x)):
        others = x.copy()
        others[place] = 1
        found[place] = (d * xp.cumprod(others, axis=0))[place:].sum(axis=0)
    return xp.moveaxis(found, 0, dim)


logcumsumexp = Op(
    "logcumsumexp", "X -> Out", attrs={"axis": -1, "flatten": False, "exclusive": False, "reverse": False}
)


@logcumsumexp.shape
def _(X: Spec, axis: int, flatten: bool) -> Spec:
    if flatten:
        return X.with_shape((math.prod(X.shape),))
    check_axes("logcumsumexp", X.shape, [axis], named_dims(X.shape))
    return Spec(X.shape, X.dtype)


def _summed(xp: Any, x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """log of the sum of exp of the elements up to each one along `axis`."""
    rows = xp.moveaxis(x if x.ndim else x.reshape(1), axis, 0)
    rows = rows[::-1] if reverse else rows
    if exclusive:
        rows = xp.concatenate([xp.full_like(rows[:1], -np.inf), rows[:-1]])
    if xp is np:
        out = np.logaddexp.accumulate(rows, axis=0)
    else:
        out = rows.copy()
        for place in range(1, len(out)):
            out[place] = xp.logaddexp(out[place - 1], out[place])
    return xp.moveaxis(out[::-1] if reverse else out, 0, axis).reshape(x.shape)


@logcumsumexp.kernel
def _(xp: Any, X: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    return _summed(xp, X.reshape(-1) if flatten else X, axis, exclusive, reverse)


@logcumsumexp.grad("X")
def _(
    xp: Any, X: Array, Out: Array, dOut: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Array:
    """exp(x) times the sum of dOut / exp(Out) from the other end: in logarithms, for each sign by itself."""
    x = X.reshape(-1) if flatten else X
    total = xp.zeros(x.shape, x.dtype)
    for sign in (1, -1):
        part = sign * dOut
        weight = xp.where(part > 0, xp.log(xp.where(part > 0, part, 1)) - Out, -np.inf)
        total += sign * xp.exp(_summed(xp, weight, axis, exclusive, not reverse) + x)
    return total.reshape(X.shape).astype(X.dtype)
