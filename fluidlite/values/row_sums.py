"""Rows added to the rows of a table that they belong to, in place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.values.sparse_products import add_by_columns
from fluidlite.values.tensor import merge_rows

__all__ = ["add_rows"]

_STARTS = 1 << 12  # numbers that are kept for the next call


def add_rows(xp: Any, table: Array, ids: Array, rows: Array, factor: float = 1.0) -> None:
    """`table[id] += factor * row` for each of `ids` and its row, one after the other: an id that comes twice
    is added to twice. IndexError for an id outside of the table.

    SciPy's product of a sparse matrix that has a `factor` for each row, in the column of that row and the
    line of its id: 13,312 rows of 10 numbers take 0.15 ms, and sorted and summed first 5.8 ms.
    """
    height = len(table)
    if xp is np and len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < height:
        wrong = ids[(ids < 0) | (ids >= height)]
        raise IndexError(f"row {int(wrong[0])} is outside of a table of {height} rows")
    if xp is not np or not _fits(table, rows):
        distinct, sums = merge_rows(xp, ids, rows)
        table[distinct] += sums * table.dtype.type(factor)
        return
    factors = np.full(len(ids), factor, table.dtype)
    where = np.ascontiguousarray(ids, np.int64)
    add_by_columns(table, _starts(len(ids)), where, factors, np.ascontiguousarray(rows))


def _fits(table: Array, rows: Array) -> bool:
    return bool(table.flags.c_contiguous and table.dtype.char in "fd" and rows.dtype == table.dtype)


def _starts(count: int) -> Array:
    """The starts of the columns of the matrix: 0, 1, 2, ..."""
    return _counted()[: count + 1] if count < _STARTS else np.arange(count + 1)


@functools.cache
def _counted() -> Array:
    return np.arange(_STARTS + 1)
