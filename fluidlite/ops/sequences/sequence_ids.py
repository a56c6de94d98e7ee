"""Ops on sequences of ids: windows, erasing, scattering, and averages of the best scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import (
    lengths_of,
    level_of,
    offsets_of_level,
    pairs,
    sum_onto,
    take_rows,
)
from fluidlite.ops.math.search import stable_order
from fluidlite.values.tensor import host


def _one_column(op: str, X: Spec) -> None:
    if len(X.shape) > 2 or (len(X.shape) == 2 and X.shape[1] not in (1, -1)):
        raise ShapeError(f"op {op!r}: X has shape {list(X.shape)}, wanted one column of ids")


sequence_enumerate = Op(
    "sequence_enumerate", "X -> Out", attrs={"win_size": required(AttrType.INT), "pad_value": 0}
)


@sequence_enumerate.shape
def _(X: Spec, win_size: int) -> Spec:
    _one_column("sequence_enumerate", X)
    return X.with_shape((X.shape[0], win_size))


@sequence_enumerate.kernel
def _(xp: Any, X: Array, X_lod: Lod, win_size: int, pad_value: int) -> Array:
    offsets = offsets_of_level("sequence_enumerate", "X", X_lod, 0, len(X))
    left = xp.asarray(np.repeat(offsets[1:], lengths_of(offsets)) - np.arange(len(X)))
    ids, out = X.reshape(-1), xp.full((len(X), win_size), pad_value, X.dtype)
    # a column at a time, each the one before moved up by a row
    for column in range(min(win_size, len(X))):
        xp.copyto(out[: len(X) - column, column], ids[column:], where=left[: len(X) - column] > column)
    return out


sequence_erase = Op("sequence_erase", "X -> Out", attrs={"tokens": required(AttrType.INTS)}, dynamic=True)


@sequence_erase.shape
def _(X: Spec) -> Spec:
    _one_column("sequence_erase", X)
    return X.with_shape(X.shape)


@sequence_erase.kernel
def _(xp: Any, X: Array, X_lod: Lod, tokens: list[int]) -> WithLod:
    offsets = offsets_of_level("sequence_erase", "X", X_lod, rows=len(X))
    keep = ~np.isin(host(X).reshape(-1), tokens)
    before = np.concatenate(([0], np.cumsum(keep)))
    return WithLod(take_rows(xp, X, np.flatnonzero(keep)), (*X_lod[:-1], tuple(before[offsets].tolist())))


# ---------------------------------------------------------------------- scatter
sequence_scatter = Op("sequence_scatter", "X Ids Updates -> Out")


@sequence_scatter.shape
def _(X: Spec, Ids: Spec, Updates: Spec) -> Spec:
    if Ids.shape[0] != Updates.shape[0] and -1 not in (Ids.shape[0], Updates.shape[0]):
        raise ShapeError(f"op 'sequence_scatter': Ids has {Ids.shape[0]} rows but Updates {Updates.shape[0]}")
    return X.with_shape(X.shape)


def _targets(X: Array, Ids: Array, Ids_lod: Lod) -> Array:
    """The elements of X, flattened, that the updates go to."""
    level = level_of("sequence_scatter", "Ids", Ids_lod, 0, len(Ids))
    if len(level.lengths) != len(X):
        raise ShapeError(f"op 'sequence_scatter': X has {len(X)} rows but Ids {len(level.lengths)} sequences")
    ids, width = host(Ids).reshape(-1), int(np.prod(X.shape[1:]))
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < width:
        raise ShapeError(
            f"op 'sequence_scatter': Ids lie between {ids.min()} and {ids.max()}, but a row of X has {width} "
            f"elements"
        )
    return level.owners * width + ids


@sequence_scatter.kernel
def _(xp: Any, X: Array, Ids: Array, Ids_lod: Lod, Updates: Array) -> Array:
    where, source = np.unique(_targets(X, Ids, Ids_lod), return_inverse=True)
    out = X.reshape(-1).copy()
    out[xp.asarray(where)] += sum_onto(xp, Updates.reshape(-1), source.reshape(-1), len(where))
    return out.reshape(X.shape)


@sequence_scatter.grad("X Updates", shape=lambda dOut, Updates: (dOut, Updates))
def _(xp: Any, Ids: Array, Ids_lod: Lod, Updates: Array, dOut: Array) -> tuple[Array, Array]:
    return dOut, take_rows(xp, dOut.reshape(-1), _targets(dOut, Ids, Ids_lod)).reshape(Updates.shape)


# ---------------------------------------------------------------------- averages of the best
topk_avg = Op(
    "sequence_topk_avg_pooling",
    "X ROW COLUMN -> Out pos",
    attrs={"topks": required(AttrType.INTS), "channel_num": required(AttrType.INT)},
    lod="ROW",
    dynamic=True,
)


@topk_avg.shape
def _(X: Spec, ROW: Spec, topks: list[int], channel_num: int) -> tuple[Spec, Spec]:
    # level 0, as PaddlePaddle declares it, whatever ROW has
    return Spec((ROW.shape[0], channel_num * len(topks)), X.dtype, 0), Spec((-1,), VarType.INT32)


def _best(xp: Any, scores: Array, count: int) -> Array:
    """[channels, rows, count] columns of the highest scores, best first, -1 where there are no more."""
    order = stable_order(xp, scores, 2, descending=True)[..., :count].astype(np.int32)
    gap = xp.full((*order.shape[:2], count - order.shape[2]), -1, np.int32)
    return xp.concatenate((order, gap), axis=2)


@topk_avg.kernel
def _(
    xp: Any, X: Array, X_lod: Lod, ROW_lod: Lod, COLUMN_lod: Lod, topks: list[int], channel_num: int
) -> tuple[WithLod, Array]:
    offsets, rows, columns = (
        offsets_of_level("sequence_topk_avg_pooling", slot, lod, 0)
        for slot, lod in (("X", X_lod), ("ROW", ROW_lod), ("COLUMN", COLUMN_lod))
    )
    count, parts, positions = max(topks), [], []
    for (first, end), height, width in zip(
        pairs(offsets), lengths_of(rows), lengths_of(columns), strict=True
    ):
        if end - first != channel_num * height * width:
            raise ShapeError(
                f"op 'sequence_topk_avg_pooling': a sequence of X has {end - first} elements, wanted "
                f"{channel_num} channels of {height} x {width}"
            )
        scores = X[first:end].reshape(channel_num, height, width)
        found = _best(xp, scores, count)
        best = (
            xp.take_along_axis(scores, xp.maximum(found, 0), axis=2)
            if width
            else xp.zeros(found.shape, X.dtype)
        )
        sums = xp.cumsum(xp.where(found >= 0, best, X.dtype.type(0)), axis=2)
        parts.append(
            xp.stack([sums[:, :, k - 1] / X.dtype.type(k) for k in topks], axis=2)
            .swapaxes(0, 1)
            .reshape(height, -1)
        )
        positions.append(found.swapaxes(0, 1).reshape(-1))
    return WithLod(xp.concatenate(parts), ROW_lod), xp.concatenate(positions)


@topk_avg.grad("X")
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    ROW_lod: Lod,
    COLUMN_lod: Lod,
    pos: Array,
    dOut: Array,
    topks: list[int],
    channel_num: int,
) -> Array:
    offsets, rows, columns = (np.asarray(lod[0]) for lod in (X_lod, ROW_lod, COLUMN_lod))
    count, parts = max(topks), []
    chosen = pos.reshape(-1, channel_num, count)
    d = dOut.reshape(-1, channel_num, len(topks))
    shares = xp.stack(
        [sum(d[:, :, i] / k for i, k in enumerate(topks) if k > rank) for rank in range(count)], axis=2
    )
    for (top, bottom), width in zip(pairs(rows), lengths_of(columns), strict=True):
        where = chosen[top:bottom]
        # the last column takes what no score gets
        spread = xp.zeros((*where.shape[:2], int(width) + 1), d.dtype)
        xp.put_along_axis(spread, where.astype(np.int64) % (int(width) + 1), shares[top:bottom], axis=2)
        parts.append(spread[..., :-1].swapaxes(0, 1).reshape(-1))
    return xp.concatenate(parts).reshape(X.shape) if offsets[-1] else xp.zeros_like(X)
