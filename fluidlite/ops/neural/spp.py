"""Spatial pyramid pooling (He et al. 2014): an image pooled into 1, 4, 16, ... bins, joined into one row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan, Windows

spp = Op(
    "spp",
    "X. -> Out",
    attrs={
        "pyramid_height": required(AttrType.INT),
        "pooling_type": limited(required(AttrType.STRING), one_of("avg", "max")),
    },
)


@spp.shape
def _(X: Spec, pyramid_height: int, pooling_type: str) -> Spec:
    if len(X.shape) != 4:
        raise ShapeError(f"op 'spp': X must have 4 dimensions, but has shape {list(X.shape)}")
    if pooling_type not in ("max", "avg"):
        raise ShapeError(f"op 'spp': pooling_type must be 'max' or 'avg', but is {pooling_type!r}")
    bins = (4**pyramid_height - 1) // 3
    return X.with_shape((X.shape[0], -1 if X.shape[1] < 0 else X.shape[1] * bins))


def _windows(size: int, bins: int) -> Windows:
    """The windows of a level along one axis, as 1.8.5 pads them."""
    length = -(-size // bins)
    pad = (length * bins - size + 1) // 2
    windows = Windows.regular(size, length, length, (pad, pad), False)
    # a short axis gives more windows than bins: the last are left out
    return replace(windows, count=min(windows.count, bins))


def _levels(xp: Any, X: Array, height: int, kind: str) -> Iterator[tuple[PoolPlan, slice]]:
    """The pool of each level, and the columns of Out that it fills."""
    start = 0
    for level in range(height):
        bins = 1 << level
        columns = X.shape[1] * bins * bins
        windows = [_windows(size, bins) for size in X.shape[2:]]
        pooling = Pooling(windows, kind, True, X.dtype)
        yield PoolPlan(xp, X.shape, pooling), slice(start, start + columns)
        start += columns


@spp.kernel
def _(xp: Any, X: Array, pyramid_height: int, pooling_type: str) -> Array:
    parts = []
    for plan, _ in _levels(xp, X, pyramid_height, pooling_type):
        out = xp.empty(plan.out_shape, X.dtype)
        plan.forward(X, out)
        parts.append(out.reshape(len(X), -1))
    return xp.concatenate(parts, axis=1)


@spp.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, pyramid_height: int, pooling_type: str) -> Array:
    total = xp.zeros_like(X)
    part = xp.empty_like(X)
    for plan, columns in _levels(xp, X, pyramid_height, pooling_type):
        pooled, d = (xp.ascontiguousarray(rows[:, columns]).reshape(plan.out_shape) for rows in (Out, dOut))
        plan.backward(X, pooled, d, part)
        total += part
    return total
