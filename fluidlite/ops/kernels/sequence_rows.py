"""Sequences as ranges of rows: what the ops on a level of detail share.

Offsets live on the host, so the rows to gather are worked out there and only their numbers go to a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Lod

__all__ = [
    "SequenceLevel",
    "lengths_lod",
    "level_of",
    "offsets_of_level",
    "owners",
    "padded_rows",
    "pairs",
    "lengths_of",
    "spans",
    "sum_onto",
    "sum_runs",
    "take_rows",
]

LONG_ENOUGH = 8  # rows a sequence from which NumPy sums sequence by sequence faster than by reduceat


class SequenceLevel:
    """One level of detail, and what follows from it: worked out once for all ops on the same sequences."""

    def __init__(self, offsets: tuple[int, ...]) -> None:
        self.offsets: Array = _kept(np.array(offsets, np.int64))

    @cached_property
    def lengths(self) -> Array:
        """The rows of each sequence."""
        return _kept(lengths_of(self.offsets))

    @cached_property
    def owners(self) -> Array:
        """For each row the number of its sequence."""
        return _kept(owners(self.lengths))

    @cached_property
    def empty(self) -> Array:
        """The numbers of the sequences without rows."""
        return _kept(np.flatnonzero(self.lengths == 0))

    @cached_property
    def filled(self) -> Array:
        """The numbers of the sequences with rows."""
        return _kept(np.flatnonzero(self.lengths))


def _kept(array: Array) -> Array:
    # ops share it
    array.setflags(write=False)
    return array


# few: each may hold a number for every row
_level = lru_cache(maxsize=16)(SequenceLevel)


def level_of(op: str, slot: str, lod: Lod, level: int = -1, rows: int | None = None) -> SequenceLevel:
    """One level of detail; ShapeError where there is none, or it does not end at `rows`."""
    if not lod:
        raise ShapeError(f"op {op!r}: {slot} has no level of detail; feed it with fluid.create_lod_tensor")
    if not -len(lod) <= level < len(lod):
        raise ShapeError(f"op {op!r}: {slot} has {len(lod)} levels of detail, but level {level} is asked for")
    offsets = tuple(lod[level])
    if rows is not None and offsets[-1] != rows:
        raise ShapeError(
            f"op {op!r}: the level of detail of {slot} covers {offsets[-1]} rows, but {slot} has {rows}"
        )
    return _level(offsets)


def offsets_of_level(op: str, slot: str, lod: Lod, level: int = -1, rows: int | None = None) -> Array:
    """The offsets of one level of detail, int64; ShapeError as of `level_of`."""
    return level_of(op, slot, lod, level, rows).offsets


def pairs(offsets: Array) -> Iterator[tuple[int, int]]:
    """First row and end of each sequence."""
    return itertools.pairwise(offsets.tolist())


def lengths_of(offsets: Array) -> Array:
    """The lengths of the sequences; `np.diff` takes five times as long over a few."""
    lengths: Array = offsets[1:] - offsets[:-1]
    return lengths


def lengths_lod(lengths: Array) -> Lod:
    """One level of detail of sequences of these lengths."""
    return ((0, *np.cumsum(lengths, dtype=np.int64).tolist()),)


def owners(lengths: Array) -> Array:
    """For each row the number of its sequence."""
    return np.repeat(np.arange(len(lengths)), lengths)


def spans(starts: Array, lengths: Array) -> Array:
    """Rows start, start + 1, ... of each sequence, one sequence after another."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def padded_rows(offsets: Array, steps: int) -> tuple[Array, Array]:
    """[sequences, steps] row numbers (some row's beyond a sequence's end), and which of them are there."""
    lengths = lengths_of(offsets)
    rows = np.minimum(offsets[:-1, None] + np.arange(steps), max(int(offsets[-1]) - 1, 0))
    return rows, np.arange(steps) < lengths[:, None]


def take_rows(xp: Any, X: Array, rows: Array) -> Array:
    """X[rows] for row numbers on the host."""
    # the method: NumPy's function takes as long again to find it
    found: Array = X.take(xp.asarray(rows), axis=0)
    return found


def sum_runs(xp: Any, X: Array, offsets: Array) -> Array:
    """The sum of the rows of each sequence; zeros for empty ones."""
    lengths = lengths_of(offsets)
    # reduceat is as fast where rows are single numbers
    is_long = xp is np and offsets[-1] >= LONG_ENOUGH * len(lengths) and X.size >= 4 * len(X)
    # reduceat takes an empty run for one of a single row, so empty sequences are left out
    if not is_long and len(lengths) and lengths.all():
        return xp.add.reduceat(X, xp.asarray(offsets[:-1]), axis=0)
    out = xp.zeros((len(lengths), *X.shape[1:]), X.dtype)
    if is_long:
        for sequence, (first, end) in enumerate(pairs(offsets)):
            np.add.reduce(X[first:end], axis=0, out=out[sequence, ...])
    elif lengths.any():
        filled = np.flatnonzero(lengths)
        out[xp.asarray(filled)] = xp.add.reduceat(X, xp.asarray(offsets[filled]), axis=0)
    return out


def sum_onto(xp: Any, d: Array, rows: Array, count: int) -> Array:
    """[count, ...] where row i is the sum of the d[j] with rows[j] == i; `rows` are on the host."""
    if len(rows) > 1 and (rows[1:] < rows[:-1]).any():
        # in order equal rows are neighbours, and sums over them are sums of runs
        order = np.argsort(rows, kind="stable")
        d = take_rows(xp, d, order)
        rows = rows[order]
    return sum_runs(xp, d, np.searchsorted(rows, np.arange(count + 1)))
