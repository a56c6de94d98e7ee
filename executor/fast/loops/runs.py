"""Sums and largest elements of runs of rows, one behind the other, as pools of sequences take them: text for
LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fluidlite.executor.fast.loops.routine import CodeLoop, Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["write_maxima_of_runs", "write_sums_of_runs"]


class _Columns(NamedTuple):
    """Some columns of a run: its first row and its end, the first column, its place in the result."""

    start: Scalar
    end: Scalar
    column: Scalar
    place: Scalar


@contextmanager
def _columns_of_runs(a: Routine) -> Iterator[_Columns]:
    """The columns of each run, as many at once as there are lanes."""
    width = a.integer("width")
    with a.loop(a.integer("first"), a.integer("last")) as run:
        start, end = (a.entry("%Offsets", run.index + side) for side in (0, 1))
        with a.units(width, is_masked=True) as unit:
            yield _Columns(start, end, unit.index, run.index * width + unit.index)


def _values(a: Routine, row: Scalar, column: Scalar) -> Vector:
    return a.load("%Rows", row * a.integer("width") + column)


def write_sums_of_runs(a: Routine) -> None:
    """Rows are added in their order, as NumPy adds them along columns; 0 for an empty run."""
    a.arguments(["Rows", "Offsets", "Sums", "width"])
    with _columns_of_runs(a) as columns:
        with a.loop(columns.start, columns.end, carried=[a.zero()]) as row:
            row.next = [row.values[0] + _values(a, row.index, columns.column)]
        a.store(row.values[0], "%Sums", columns.place)


def write_maxima_of_runs(a: Routine) -> None:
    """The largest element of each column and the first row that holds it; NaN is larger than all numbers.

    0 and the row -1 for an empty run.
    """
    a.arguments(["Rows", "Offsets", "Maxima", "Places", "width"])
    with _columns_of_runs(a) as columns:
        nowhere = a.code.number(-1, "i32")
        with a.loop(columns.start, columns.end, carried=[a.zero(), nowhere]) as row:
            row.next = _larger(a, row, columns)
        largest, first = row.values
        a.store(largest, "%Maxima", columns.place)
        a.store(first.as_kind("float"), "%Places", columns.place)


def _larger(a: Routine, row: CodeLoop, columns: _Columns) -> list[Vector]:
    value = _values(a, row.index, columns.column)
    largest, place = row.values
    is_first = a.spread(row.index.compare("eq", columns.start))
    is_nan = value.compare("uno", value)
    is_nan = is_nan.bits("and", largest.compare("ord", largest))
    is_larger = value.compare("ogt", largest)
    is_larger = is_larger.bits("or", is_nan).bits("or", is_first)
    here = a.spread(a.let(f"trunc i64 {row.index} to i32", "i32"))
    value = a.code.select(is_larger, value, largest)
    return [value, a.code.select(is_larger, here, place)]
