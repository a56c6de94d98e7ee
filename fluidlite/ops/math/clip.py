"""Keeping values and norms within limits."""

from __future__ import annotations

from typing import Any

from fluidlite.base.attr_limits import above, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.registry import AttrType, Op, Spec, required, same_as
from fluidlite.values.tensor import SelectedRows, merge_rows

clip = Op(
    "clip",
    "X. Min? Max? -> Out",
    attrs={"min": required(AttrType.FLOAT), "max": required(AttrType.FLOAT)},
    version=1,
)
clip.shape(same_as("X"))


@clip.refuses
def _(Min: Spec | None, Max: Spec | None, min: float, max: float) -> str:
    in_order = Min is not None or Max is not None or min < max
    return "" if in_order else f"min ({min}) is greater than max ({max})"


def _limit(tensor: Array | None, number: float) -> Any:
    return number if tensor is None else tensor.reshape(-1)[0]


@clip.kernel
def _(xp: Any, X: Any, Min: Array | None, Max: Array | None, min: float, max: float) -> Any:
    low, high = _limit(Min, min), _limit(Max, max)
    if isinstance(X, SelectedRows):
        ids, rows = merge_rows(xp, X.ids, X.array)
        return SelectedRows(ids, X.height(), xp.clip(rows, low, high))
    return xp.clip(X, low, high).astype(X.dtype, copy=False)


@clip.grad("X")
def _(xp: Any, X: Array, Min: Array | None, Max: Array | None, dOut: Array, min: float, max: float) -> Array:
    # chosen, not multiplied: an infinite gradient would make NaN of what is clipped
    within: Array = xp.where((X > _limit(Min, min)) & (X < _limit(Max, max)), dOut, dOut.dtype.type(0))
    return within


clip_by_norm = Op(
    "clip_by_norm", "X. -> Out", attrs={"max_norm": limited(required(AttrType.FLOAT), above(0.0))}, whole=True
)
clip_by_norm.shape(same_as("X"))


@clip_by_norm.kernel
def _(xp: Any, X: Any, max_norm: float) -> Any:
    if isinstance(X, SelectedRows):
        ids, rows = merge_rows(xp, X.ids, X.array)
        return SelectedRows(ids, X.height(), _within(xp, rows, max_norm))
    return _within(xp, X, max_norm)


dgc_clip_by_norm = Op(
    "dgc_clip_by_norm",
    "X. current_step -> Out",
    attrs={"max_norm": required(AttrType.FLOAT), "rampup_begin_step": -1.0},
)
dgc_clip_by_norm.shape(same_as("X"))


@dgc_clip_by_norm.kernel
def _(xp: Any, X: Array, current_step: Array, max_norm: float, rampup_begin_step: float) -> Array:
    """`X` until the step from which gradients are compressed, or where there is none (below 0)."""
    if rampup_begin_step < 0 or int(current_step.reshape(-1)[0]) < int(rampup_begin_step):
        return X
    return _within(xp, X, max_norm)


def _within(xp: Any, x: Array, limit: float) -> Array:
    norm = xp.sqrt((x * x).sum())
    # a norm that is nan is not within the limit: what it would be multiplied with is nan, too
    shorter = x * (limit / xp.maximum(norm, 1e-30))
    return xp.where(norm <= limit, x, shorter).astype(x.dtype, copy=False)
