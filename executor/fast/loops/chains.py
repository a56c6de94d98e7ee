"""Messages of the forward-backward algorithm along chains, as conditional random fields take them: text for
LLVM.
"""

from __future__ import annotations

from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["write_messages"]


def write_messages(a: Routine) -> None:
    """For each row of a chain what the moves make of the message before it, times the row, scaled to sum 1;
    the sums before that are kept.
    """
    a.arguments(["Rows", "Starts", "Lengths", "First", "Moves", "Messages", "Sizes", "tags", "step"])
    tags = a.integer("tags")
    step = a.integer("step")
    with a.loop(a.integer("first"), a.integer("last")) as chain:
        start, length = (a.entry(base, chain.index) for base in ("%Starts", "%Lengths"))
        with a.loop(0, length) as turn:
            row = start + turn.index * step
            here = row * tags
            is_first = turn.index.compare("eq", 0)
            before = a.at("%Messages", here - step * tags)
            with a.units(tags, is_masked=True, carried=[a.zero()]) as unit:
                place = here + unit.index
                reached = _reached(a, before, is_first, unit.index)
                weight = reached * a.load("%Rows", place)
                a.store(weight, "%Messages", place)
                unit.next = [unit.values[0] + weight]
            (sums,) = unit.values
            _write_scaled(a, row, sums)


def _reached(a: Routine, before: Scalar, is_first: Scalar, column: Scalar) -> Vector:
    """The message before times the moves, or what a chain begins with."""
    tags = a.integer("tags")
    with a.loop(0, a.pick(is_first, 0, tags), carried=[a.zero()]) as tag:
        weight = a.spread(a.entry(before, tag.index, "float"))
        move = a.load("%Moves", tag.index * tags + column)
        tag.next = [weight.times_plus(move, tag.values[0])]
    return tag.values[0] + a.chosen(is_first, a.load("%First", column))


def _write_scaled(a: Routine, row: Scalar, sums: Vector) -> None:
    tags = a.integer("tags")
    size = a.total(sums)
    a.put(size, "%Sizes", row)
    whole = a.spread(size)
    with a.units(tags, is_masked=True) as unit:
        place = row * tags + unit.index
        a.store(a.load("%Messages", place) / whole, "%Messages", place)
