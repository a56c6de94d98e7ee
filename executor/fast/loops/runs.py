"""Sums and largest elements of runs of rows, one behind the other, as pools of sequences take them: text for
LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fluidlite.executor.fast.loops.routine import CodeLoop, Routine
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["write_maxima_of_runs", "write_sums_of_runs"]


@contextmanager
def _columns(a: Routine) -> Iterator[tuple[str, str, str, str]]:
    """For some columns of each run: its first row, its end, the first column and its place in the result."""
    with a.loop("%first", "%last") as run:
        start, end = a.entry("%Offsets", run.index), a.entry("%Offsets", a.sum(run.index, "1"))
        with a.units("%width", is_masked=True) as unit:
            yield start, end, unit.index, a.sum(a.times(run.index, "%width"), unit.index)


def _row(a: Routine, row: str, column: str) -> Vector:
    return a.load("%Rows", a.sum(a.times(row, "%width"), column))


def write_sums_of_runs(a: Routine) -> None:
    """Rows are added in their order, as NumPy adds them along columns; 0 for an empty run."""
    a.arguments(["Rows", "Offsets", "Sums", "width"])
    with _columns(a) as (start, end, column, place):
        with a.loop(start, end, carried=[a.zero()]) as row:
            row.next = [row.values[0] + _row(a, row.index, column)]
        a.store(row.values[0], "%Sums", place)


def write_maxima_of_runs(a: Routine) -> None:
    """The largest element of each column and the first row that holds it; NaN is larger than all numbers.

    0 and the row -1 for an empty run.
    """
    a.arguments(["Rows", "Offsets", "Maxima", "Places", "width"])
    with _columns(a) as (start, end, column, place):
        nowhere = a.code.number(-1, "i32")
        with a.loop(start, end, carried=[a.zero(), nowhere]) as row:
            row.next = _larger(a, row, start, _row(a, row.index, column))
        a.store(row.values[0], "%Maxima", place)
        a.store(row.values[1].as_kind("float"), "%Places", place)


def _larger(a: Routine, row: CodeLoop, start: str, value: Vector) -> list[Vector]:
    largest, place = row.values
    is_first = a.let(f"icmp eq i64 {row.index}, {start}")
    starts = a.code.spread(is_first, "i1")
    is_nan = value.compare("uno", value).bits("and", largest.compare("ord", largest))
    is_larger = value.compare("ogt", largest).bits("or", is_nan).bits("or", starts)
    here = a.code.spread(a.let(f"trunc i64 {row.index} to i32"), "i32")
    return [a.code.select(is_larger, value, largest), a.code.select(is_larger, here, place)]
