"""Ops on sequences of ids: windows, erasing, scattering, and averages of the best scores."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import (
    lengths_of,
    level_of,
    offsets_of_level,
    owners,
    sum_onto,
    take_rows,
)
from fluidlite.ops.math.search import places_of_largest
from fluidlite.values.tensor import host


def _one_column(op: str, X: Spec) -> None:
    if len(X.shape) > 2 or (len(X.shape) == 2 and X.shape[1] not in (1, -1)):
        raise ShapeError(f"op {op!r}: X has shape {list(X.shape)}, wanted one column of ids")


sequence_enumerate = Op(
    "sequence_enumerate",
    "X -> Out",
    attrs={"win_size": limited(required(AttrType.INT), least(2)), "pad_value": 0},
)


@sequence_enumerate.shape
def _(X: Spec, win_size: int) -> Spec:
    _one_column("sequence_enumerate", X)
    return X.with_shape((X.shape[0], win_size))


@sequence_enumerate.kernel
def _(xp: Any, X: Array, X_lod: Lod, win_size: int, pad_value: int) -> Array:
    offsets = offsets_of_level("sequence_enumerate", "X", X_lod, 0, len(X))
    left = xp.asarray(np.repeat(offsets[1:], lengths_of(offsets)) - np.arange(len(X)))
    ids = X.reshape(-1)
    out = xp.full((len(X), win_size), pad_value, X.dtype)
    # a column at a time, each the one before moved up by a row
    for column in range(min(win_size, len(X))):
        xp.copyto(out[: len(X) - column, column], ids[column:], where=left[: len(X) - column] > column)
    return out


sequence_erase = Op(
    "sequence_erase", "X -> Out", attrs={"tokens": required(AttrType.INTS)}, dynamic=True, makes_lod=True
)


@sequence_erase.shape
def _(X: Spec) -> Spec:
    _one_column("sequence_erase", X)
    return X.with_shape(X.shape)


def _is_none_of(ids: Array, tokens: list[int]) -> Array:
    """Which of the ids are none of the tokens."""
    # sorting takes as long as a dozen comparisons
    if len(tokens) > 12:
        return ~np.isin(ids, tokens)
    found = np.ones(len(ids), bool)
    for token in tokens:
        found &= ids != token
    return found


@sequence_erase.kernel
def _(xp: Any, X: Array, X_lod: Lod, tokens: list[int]) -> WithLod:
    offsets = offsets_of_level("sequence_erase", "X", X_lod, rows=len(X))
    keep = _is_none_of(host(X).reshape(-1), tokens)
    before = np.concatenate(([0], np.cumsum(keep)))
    return WithLod(take_rows(xp, X, np.flatnonzero(keep)), (*X_lod[:-1], tuple(before[offsets].tolist())))


# ---------------------------------------------------------------------- scatter
sequence_scatter = Op("sequence_scatter", "X Ids Updates -> Out", lod=None, alike=("X", "Updates"))


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
    ids = host(Ids).reshape(-1)
    width = int(np.prod(X.shape[1:]))
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
    "X. ROW. COLUMN. -> Out pos",
    attrs={"topks": required(AttrType.INTS), "channel_num": required(AttrType.INT)},
    lod="ROW",
    dynamic=True,
    makes_lod=True,
)


@topk_avg.shape
def _(X: Spec, ROW: Spec, topks: list[int], channel_num: int) -> tuple[Spec, Spec]:
    # as many levels as 1.8.5 declares, X's, though a run gives those of ROW
    means = Spec((ROW.shape[0], channel_num * len(topks)), X.dtype, X.lod_level)
    return means, Spec((-1,), VarType.INT32)


class _ImageLines:
    """The lines of all images: `places` [rows, channels, widest] are the positions in X of their numbers, of
    which `is_there` [rows, 1, widest] says which there are, and `widths` [rows, 1, 1] how many.
    """

    def __init__(self, X_lod: Lod, ROW_lod: Lod, COLUMN_lod: Lod, channels: int) -> None:
        offsets, rows, columns = (
            offsets_of_level("sequence_topk_avg_pooling", slot, lod, 0)
            for slot, lod in (("X", X_lod), ("ROW", ROW_lod), ("COLUMN", COLUMN_lod))
        )
        sizes, heights, widths = map(lengths_of, (offsets, rows, columns))
        if not len(sizes) == len(heights) == len(widths):
            raise ShapeError(
                f"op 'sequence_topk_avg_pooling': X has {len(sizes)} sequences, ROW {len(heights)} "
                f"and COLUMN {len(widths)}, wanted equal numbers"
            )
        other = np.flatnonzero(sizes != channels * heights * widths)
        if len(other):
            first = other[0]
            raise ShapeError(
                f"op 'sequence_topk_avg_pooling': a sequence of X has {sizes[first]} elements, wanted "
                f"{channels} channels of {heights[first]} x {widths[first]}"
            )
        image = owners(heights)
        self.widths = widths[image][:, None, None]
        starts = offsets[image] + (np.arange(len(image)) - rows[image]) * widths[image]
        channel = np.arange(channels) * (heights * widths)[image][:, None]
        column = np.arange(int(widths.max(initial=0)))
        self.narrowest = int(self.widths.min(initial=len(column)))
        self.is_there = column < self.widths
        self.places = np.where(self.is_there, (starts[:, None] + channel)[:, :, None] + column, 0)


# the gradient asks for what the op had
_lines = functools.lru_cache(maxsize=4)(_ImageLines)


@topk_avg.kernel
def _(
    xp: Any, X: Array, X_lod: Lod, ROW_lod: Lod, COLUMN_lod: Lod, topks: list[int], channel_num: int
) -> tuple[WithLod, Array]:
    lines = _lines(X_lod, ROW_lod, COLUMN_lod, channel_num)
    count, lowest = max(topks), X.dtype.type(-np.inf)
    # what is not there comes last, behind a score that is as low
    numbers = X.ravel() if X.size else xp.zeros(1, X.dtype)
    scores = xp.where(xp.asarray(lines.is_there), numbers.take(xp.asarray(lines.places)), lowest)
    order = places_of_largest(xp, scores, min(count, scores.shape[2]))
    found = order.astype(np.int32)
    best = scores.reshape(-1).take(_flat(xp, order, scores.shape[2]))
    if lines.narrowest < order.shape[2]:
        is_there = xp.arange(order.shape[2]) < xp.asarray(lines.widths)
        found, best = xp.where(is_there, found, np.int32(-1)), xp.where(is_there, best, X.dtype.type(0))
    if order.shape[2] < count:
        gap = (*found.shape[:2], count - found.shape[2])
        best = xp.concatenate((best, xp.zeros(gap, X.dtype)), axis=2)
        found = xp.concatenate((found, xp.full(gap, -1, np.int32)), axis=2)
    means = best.cumsum(axis=2)[:, :, xp.asarray(topks) - 1] / xp.asarray(topks, X.dtype)
    return WithLod(means.reshape(len(means), channel_num * len(topks)), ROW_lod), found.reshape(-1)


def _flat(xp: Any, order: Array, width: int) -> Array:
    """Places in rows of a width, as places in all rows."""
    lines = xp.arange(math.prod(order.shape[:-1])) * width
    return order + lines.reshape(*order.shape[:-1], 1)


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
    lines = _lines(X_lod, ROW_lod, COLUMN_lod, channel_num)
    count = max(topks)
    shape = len(lines.places), channel_num
    chosen = pos.reshape(*shape, count)
    d = dOut.reshape(*shape, len(topks))
    # rank r has a part in the means of more than r elements
    parts = np.array([[(rank < k) / k for rank in range(count)] for k in topks], d.dtype)
    shares = d @ xp.asarray(parts)
    # each element is chosen once at most
    out = xp.zeros(X.size, d.dtype)
    if X.size:
        order = xp.maximum(chosen, 0)
        places = xp.asarray(lines.places).reshape(-1).take(_flat(xp, order, lines.places.shape[2]))
        if lines.narrowest < count:
            is_there = chosen >= 0
            places, shares = places[is_there], shares[is_there]
        out[places] = shares
    return out.reshape(X.shape)
