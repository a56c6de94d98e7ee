"""Ops that reduce or normalise each sequence: pooling and softmax."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import GradContext, KernelContext, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.sequence_rows import (
    SequenceLevel,
    level_of,
    padded_rows,
    pairs,
    sum_runs,
    take_rows,
)

Maybe: TypeAlias = "Array | None"
_SHARED = 1 << 16  # numbers from which waking a second thread pays
POOL_TYPES = ("AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST")

sequence_pool = Op(
    "sequence_pool",
    "X. -> Out MaxIndex?",
    attrs={
        "is_test": False,
        "pooltype": limited("AVERAGE", one_of("AVERAGE", "FIRST", "LAST", "MAX", "SQRT", "SUM")),
        "pad_value": 0.0,
    },
    lod=None,
    dynamic=True,
    idle=("is_test",),
    makes_lod=True,
)


@sequence_pool.shape
def _(X: Spec, pooltype: str) -> tuple[Spec, Spec | None]:
    if pooltype not in POOL_TYPES:
        raise ShapeError(
            f"op 'sequence_pool': pooltype is {pooltype!r}, wanted one of {', '.join(POOL_TYPES)}"
        )
    if X.lod_level == 0:
        raise ShapeError("op 'sequence_pool': X has no level of detail; declare it with lod_level=1")
    out = Spec(X.shape, X.dtype, None if X.lod_level is None else X.lod_level - 1)
    return out, Spec(X.shape, VarType.INT32) if pooltype == "MAX" else None


def _scale(lengths: Array, pooltype: str, dtype: Any) -> Array:
    """Factors of the sequences' sums."""
    if pooltype == "SUM":
        return np.ones(len(lengths), dtype)
    counted = np.maximum(lengths, 1).astype(dtype)
    return 1 / (np.sqrt(counted) if pooltype == "SQRT" else counted)


def _maxima(
    xp: Any, ctx: KernelContext, X: Array, level: SequenceLevel, wants_rows: bool
) -> tuple[Array, Maybe]:
    """[sequences, ...] the maximum of each sequence, 0 for empty ones, and the row that holds it, -1 for
    empty ones.
    """
    if xp is not np:
        index = _first_maxima(xp, X, level)
        flat = xp.maximum(index, 0).reshape(len(index), -1)
        columns = X.reshape(len(X), -1)
        if not len(X):
            return xp.zeros(index.shape, X.dtype), index
        return xp.take_along_axis(columns, flat, axis=0).reshape(index.shape), index
    count = len(level.lengths)
    rows = X.reshape(len(X), math.prod(X.shape[1:]))
    shape = count, *X.shape[1:]
    compiled = None if ctx.searches is None else ctx.searches.maxima_of_runs(rows, level.offsets)
    if compiled is not None:
        return compiled[0].reshape(shape), compiled[1].reshape(shape)
    out = np.zeros((count, rows.shape[1]), X.dtype)
    found = np.full(out.shape, -1, np.int32) if wants_rows else None

    def part(of: slice) -> None:
        for sequence, (first, end) in enumerate(pairs(level.offsets[of.start : of.stop + 1]), of.start):
            if end > first:
                np.maximum.reduce(rows[first:end], axis=0, out=out[sequence])
        if found is not None:
            _find_rows(rows, level, of, out, found)

    if X.size < _SHARED:
        part(slice(0, count))
    else:
        ctx.share(count, part)
    return out.reshape(shape), None if found is None else found.reshape(shape)


def _find_rows(rows: Array, level: SequenceLevel, of: slice, maxima: Array, found: Array) -> None:
    """Write the first row of some sequences that holds their maximum, or NaN where that is NaN.

    All sequences at once: `argmax` along columns takes one and a half times as long.
    """
    columns = rows.shape[1]
    first = level.offsets[of.start]
    end = level.offsets[of.stop]
    here, owner = rows[first:end], level.owners[first:end]
    is_largest = here == maxima.take(owner, axis=0)
    if maxima.dtype.kind == "f" and np.isnan(maxima[of]).any():
        is_largest |= np.isnan(here)
    # of several the first is written last
    places = np.flatnonzero(is_largest)[::-1]
    row = places // columns
    found[owner[row], places - row * columns] = row + first


def _first_maxima(xp: Any, X: Array, level: SequenceLevel) -> Array:
    """[sequences, ...] the row that holds the maximum, -1 for empty sequences."""
    offsets, lengths = level.offsets, level.lengths
    rows, there = padded_rows(offsets, max(1, int(lengths.max(initial=0))))
    mask = xp.asarray(there.reshape(there.shape + (1,) * (X.ndim - 1)))
    steps = xp.where(mask, take_rows(xp, X, rows), -np.inf).argmax(axis=1)
    each = (-1,) + (1,) * (X.ndim - 1)
    return xp.where(
        xp.asarray(lengths > 0).reshape(each), steps + xp.asarray(offsets[:-1]).reshape(each), -1
    ).astype(np.int32)


def _pooled(
    xp: Any, ctx: KernelContext, X: Array, level: SequenceLevel, pooltype: str
) -> tuple[Array, Array | None]:
    """The result for sequences that have rows, and for MAX the rows that were chosen."""
    if pooltype == "MAX":
        return _maxima(xp, ctx, X, level, "MaxIndex" not in ctx.unread)
    offsets = level.offsets
    if pooltype in ("LAST", "FIRST"):
        if not len(X):
            return xp.zeros((len(offsets) - 1, *X.shape[1:]), X.dtype), None
        rows = offsets[1:] - 1 if pooltype == "LAST" else offsets[:-1]
        return take_rows(xp, X, np.clip(rows, 0, max(len(X) - 1, 0))), None
    sums = _sums(xp, ctx, X, offsets)
    return _scaled(xp, sums, _scale(level.lengths, pooltype, X.dtype)) if pooltype != "SUM" else sums, None


def _sums(xp: Any, ctx: KernelContext, X: Array, offsets: Array) -> Array:
    """The sum of each sequence."""
    if ctx.searches is None:
        return sum_runs(xp, X, offsets)
    compiled: Maybe = ctx.searches.sums_of_runs(X.reshape(len(X), math.prod(X.shape[1:])), offsets)
    if compiled is None:
        return sum_runs(xp, X, offsets)
    return compiled if X.ndim == 2 else compiled.reshape(len(compiled), *X.shape[1:])


def _scaled(xp: Any, values: Array, factors: Array) -> Array:
    return values * xp.asarray(factors.reshape((-1,) + (1,) * (values.ndim - 1)))


@sequence_pool.kernel
def _(
    xp: Any, ctx: KernelContext, X: Array, X_lod: Lod, pooltype: str, pad_value: float
) -> tuple[WithLod, Array | None]:
    level = level_of("sequence_pool", "X", X_lod, rows=len(X))
    out, index = _pooled(xp, ctx, X, level, pooltype)
    if len(level.empty):
        out[xp.asarray(level.empty)] = pad_value
    return WithLod(out, X_lod[:-1]), index


@sequence_pool.grad_rule("X")
def _(context: GradContext) -> None:
    inputs = {"Out@GRAD": context.out_grad("Out"), "X": context.input("X")}
    if context.op.attr("pooltype") == "MAX":
        inputs["MaxIndex"] = context.output("MaxIndex")
    context.emit("sequence_pool_grad", inputs, {"X@GRAD": context.in_grad("X")})


@sequence_pool.grad("X")
def _(xp: Any, X: Array, X_lod: Lod, MaxIndex: Array | None, dOut: Array, pooltype: str) -> Array:
    level = level_of("sequence_pool_grad", "X", X_lod, rows=len(X))
    if pooltype in ("AVERAGE", "SUM", "SQRT"):
        scaled = _scaled(xp, dOut, _scale(level.lengths, pooltype, dOut.dtype)) if pooltype != "SUM" else dOut
        return take_rows(xp, scaled, level.owners)
    out = xp.zeros(X.shape, dOut.dtype)
    offsets, filled = level.offsets, level.filled
    d = take_rows(xp, dOut, filled)
    if pooltype != "MAX":
        out[xp.asarray((offsets[1:] - 1 if pooltype == "LAST" else offsets[:-1])[filled])] = d
        return out
    columns = out.reshape(len(out), -1)
    assert MaxIndex is not None
    rows = take_rows(xp, MaxIndex, filled).reshape(len(filled), -1)
    columns[rows, xp.arange(columns.shape[1])] = d.reshape(len(filled), -1)
    return columns.reshape(X.shape)


# ---------------------------------------------------------------------- softmax
sequence_softmax = Op(
    "sequence_softmax",
    "X. -> Out",
    attrs={"use_cudnn": False, "data_format": "AnyLayout"},
    idle=("data_format",),
)


@sequence_softmax.shape
def _(X: Spec) -> Spec:
    return X.with_shape(X.shape)


@sequence_softmax.kernel
def _(xp: Any, X: Array, X_lod: Lod) -> Array:
    level = level_of("sequence_softmax", "X", X_lod, rows=len(X))
    if X.size != len(X):
        raise ShapeError(f"op 'sequence_softmax': X has shape {list(X.shape)}, wanted one column")
    flat, offsets, filled = X.reshape(-1), level.offsets, level.filled
    if not len(filled):
        return X.copy()
    # empty sequences have no elements that would read their maximum
    largest = xp.zeros(len(offsets) - 1, X.dtype)
    largest[xp.asarray(filled)] = _largest_of_runs(xp, flat, level)
    powers = xp.exp(flat - take_rows(xp, largest, level.owners))
    return (powers / take_rows(xp, sum_runs(xp, powers, offsets), level.owners)).reshape(X.shape)


def _largest_of_runs(xp: Any, flat: Array, level: SequenceLevel) -> Array:
    """The largest element of each run that has some."""
    offsets, filled = level.offsets, level.filled
    if xp is np:
        return np.maximum.reduceat(flat, offsets[filled])
    # CuPy's `reduceat` only adds: runs become rows of one length, and each is filled up with its own first
    # element
    starts = offsets[filled][:, None]
    counts = level.lengths[filled][:, None]
    within = np.arange(counts.max())[None]
    return flat[xp.asarray(starts + np.where(within < counts, within, 0))].max(axis=1)


@sequence_softmax.grad("X")
def _(xp: Any, X: Array, X_lod: Lod, Out: Array, dOut: Array) -> Array:
    level = level_of("sequence_softmax_grad", "X", X_lod, rows=len(X))
    product = Out * dOut
    return product - Out * take_rows(xp, sum_runs(xp, product, level.offsets), level.owners)
