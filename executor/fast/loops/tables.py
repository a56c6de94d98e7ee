"""Rows of a matrix added to the rows of a table that they belong to, by number.

Rows lie anywhere in memory. What is needed some rows later is asked for ahead: 13,312 rows of 10 numbers in a
table of a million take 0.18 ms, and SciPy's product of a sparse matrix 0.48.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.values.row_sums import add_rows

__all__ = ["RowAdder", "fits", "prefetch", "row_adder"]

_AHEAD = 8


def prefetch(a: Routine, table: str, ids: str, index: Scalar, end: Scalar) -> None:
    """Ask for the row of a table that will be written some turns later, up to the turn `end`."""
    a.code.intrinsics["@llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    width = a.integer("width")
    later = a.least(index + _AHEAD, end)
    row = a.at(table, a.entry(ids, later) * width)
    for place in (row, a.at(row, width - 1)):
        a.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")


@cache
def _code() -> LoopCode:
    intrinsics: dict[str, str] = {}
    a = Routine(widths()[1], intrinsics)
    a.arguments(["Table", "Ids", "Rows", "Factor", "width"])
    first, last, width = map(a.integer, ("first", "last", "width"))
    end = last - 1
    factor = a.spread(a.entry("%Factor", 0, "float"))
    with a.loop(first, last) as row:
        prefetch(a, "%Table", "%Ids", row.index, end)
        held = a.at("%Table", a.entry("%Ids", row.index) * width)
        given = a.at("%Rows", row.index * width)
        with a.units(width, is_masked=True) as unit:
            moved = a.load(held, unit.index) + a.load(given, unit.index) * factor
            a.store(moved, held, unit.index)
    text = a.function("void @LOOP(i64 %first, i64 %last, ptr %arguments)")
    return loop_of("\n".join([*intrinsics.values(), text]))


def fits(table: Array, ids: Array, rows: Array) -> bool:
    """True if the code takes such arrays, and all ids are rows of the table."""
    is_known = table.dtype == rows.dtype == np.float32 and ids.dtype == np.int64
    if not is_known or not rows.size or rows.shape != ids.shape + table.shape[1:]:
        return False
    is_whole = all(array.flags.c_contiguous for array in (table, ids, rows))
    # seen as unsigned numbers, negative ids are large ones
    return is_whole and bool(np.maximum.reduce(ids.view(np.uint64)) < len(table))


class RowAdder:
    """add(table, ids, rows, factor): `add_rows`, by compiled code as soon as it is there."""

    def __init__(self, wait: bool) -> None:
        self.wait = wait
        self.runs = 0
        self.factor = np.zeros(1, np.float32)
        self.arguments = np.zeros(5, np.int64)
        self.place = self.arguments.ctypes.data

    def __call__(self, table: Array, ids: Array, rows: Array, factor: float = 1.0) -> None:
        self.runs += 1
        code = _code()
        if not fits(table, ids, rows) or not code.ready(self.runs, self.wait):
            add_rows(np, table, ids, rows, factor)
            return
        self.factor[0] = factor
        arrays = (table, ids, rows, self.factor)
        self.arguments[:] = (*map(address_of, arrays), rows.size // len(rows))
        code.function(0, len(ids), self.place)


def row_adder(xp: Any, loops: str) -> Callable[..., None]:
    """The function (table, ids, rows, factor) that adds, in a plan that compiles loops this way."""
    return functools.partial(add_rows, xp) if loops == "off" else RowAdder(loops == "wait")
