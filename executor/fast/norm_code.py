"""Batch normalisation and its gradient over rows of channels, as LLVM text: each thread has its own rows.

oneDNN's gradient is one call, on one thread: of 524,288 numbers it takes 0.2 ms, and this on two 0.09.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from fluidlite.executor.fast.loops.routine import CodeLoop, Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["NORM_CODE", "norm_texts"]

NORM_CODE = ("norm_moments", "norm_scaled", "norm_products", "norm_gradient")
_ROWS = 32  # that are added up in registers: their sums are added to those of all rows, which loses less


def norm_texts(lanes: int, intrinsics: dict[str, str]) -> list[str]:
    """The functions `NORM_CODE`, over the rows from `first` to `last`."""
    makers = (_moments, _scaled, _products, _gradient)
    texts = []
    for name, make in zip(NORM_CODE, makers, strict=True):
        a = Routine(lanes, intrinsics)
        make(a)
        texts.append(a.function(f"internal void @{name}(i64 %first, i64 %last, ptr %arguments)"))
    return texts


def _moments(a: Routine) -> None:
    """Sums of the distances from a pivot, and of their squares."""
    a.arguments(["X", "Pivot", "Sums", "Squares", "channels"])

    def add(row: CodeLoop, at: Scalar, known: Sequence[Vector]) -> None:
        away = a.load("%X", at) - known[0]
        row.next = [row.values[0] + away, away.times_plus(away, row.values[1])]

    _summed(a, ["%Pivot"], ["%Sums", "%Squares"], add)


def _products(a: Routine) -> None:
    """Sums of d, and of d times the distance of x from the mean."""
    a.arguments(["X", "D", "Mean", "Sums", "Products", "channels"])

    def add(row: CodeLoop, at: Scalar, known: Sequence[Vector]) -> None:
        d = a.load("%D", at)
        away = a.load("%X", at) - known[0]
        row.next = [row.values[0] + d, d.times_plus(away, row.values[1])]

    _summed(a, ["%Mean"], ["%Sums", "%Products"], add)


def _summed(
    a: Routine,
    given: Sequence[str],
    sums: Sequence[str],
    add: Callable[[CodeLoop, Scalar, Sequence[Vector]], None],
) -> None:
    """Sums over rows, a few rows at a time; `add` carries them over one row, with what is `given` of each
    channel.
    """
    channels = a.integer("channels")
    with a.units(channels, is_masked=True) as unit:
        for name in sums:
            a.store(a.zero(), name, unit.index)
    with _channels_of_rows(a, given) as (channel, start, end, known):
        with a.loop(start, end, carried=[a.zero()] * len(sums)) as row:
            add(row, row.index * channels + channel, known)
        for name, found in zip(sums, row.values, strict=True):
            a.store(a.load(name, channel) + found, name, channel)


def _scaled(a: Routine) -> None:
    """y = x * factor + shift."""
    a.arguments(["X", "Y", "Factor", "Shift", "channels"])

    def put(at: Scalar, known: Sequence[Vector]) -> None:
        a.store(a.load("%X", at).times_plus(known[0], known[1]), "%Y", at)

    _each(a, ["%Factor", "%Shift"], put)


def _gradient(a: Routine) -> None:
    """dx = (x - mean) * slope + (d * factor + shift)."""
    a.arguments(["X", "D", "Out", "Mean", "Factor", "Slope", "Shift", "channels"])

    def put(at: Scalar, known: Sequence[Vector]) -> None:
        mean, factor, slope, shift = known
        level = a.load("%D", at).times_plus(factor, shift)
        a.store((a.load("%X", at) - mean).times_plus(slope, level), "%Out", at)

    _each(a, ["%Mean", "%Factor", "%Slope", "%Shift"], put)


def _each(a: Routine, given: Sequence[str], put: Callable[[Scalar, Sequence[Vector]], None]) -> None:
    """`put` each element of each row, with what is `given` of its channel."""
    with _channels_of_rows(a, given) as (channel, start, end, known), a.loop(start, end) as row:
        put(row.index * a.integer("channels") + channel, known)


@contextlib.contextmanager
def _channels_of_rows(
    a: Routine, given: Sequence[str]
) -> Iterator[tuple[Scalar, Scalar, Scalar, Sequence[Vector]]]:
    """Loops over some rows at a time and their channels: the first of these, the first row and the end of the
    rows, and what is `given` of each channel.
    """
    last = a.integer("last")
    with a.loop(a.integer("first"), last, _ROWS) as block:
        end = a.least(block.index + _ROWS, last)
        with a.units(a.integer("channels"), is_masked=True) as unit:
            yield unit.index, block.index, end, [a.load(name, unit.index) for name in given]
