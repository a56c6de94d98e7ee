"""Parts of the steps of all recurrences, as LLVM text: the places of their rows, and of those before.

The names of arguments: `Rows` and `Starts` are those of `fluidlite.ops.kernels.recurrence.TimeSteps`, `first`
and `last` the sequences of this call, `size` the units of a state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from fluidlite.executor.fast.loops.routine import Address, Integer, Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["StepCode", "following_rows", "steps_back", "whole_text"]


class StepCode:
    """The code of one step: places of its rows, and of those before."""

    def __init__(self, a: Routine, step: Scalar, has_first: bool) -> None:
        self.a = a
        self.number = step
        self.has_first = has_first
        self.size = a.integer("size")
        self.first = a.integer("first")
        self.is_first = step.compare("eq", 0)
        self.start, self.count = span(a, step)
        before = a.pick(self.is_first, 0, step - 1)
        self.before = a.entry("%Starts", before)
        self.three = self.size * 3
        self.four = self.size * 4
        self.gates: tuple[Integer, ...] = (0, self.size, self.size * 2, self.three)
        """The first unit of each gate."""

    def rank(self, row: Scalar) -> Scalar:
        """The place of a sequence among all."""
        return self.first + row

    def stored(self, row: Scalar) -> Scalar:
        """The place of a sequence in what lies step by step."""
        return self.start + self.rank(row)

    def row(self, row: Scalar) -> Scalar:
        """The place of this step of a sequence."""
        return self.a.entry("%Rows", self.stored(row))

    def earlier(self, row: Scalar, array: str, first: str, width: Scalar | None = None) -> Scalar:
        """The address of the step before; at the first step of the initial values."""
        a = self.a
        width = width or self.size
        place = a.entry("%Rows", self.before + self.rank(row))
        kept = a.at(array, place * width)
        given: Address = first
        if self.has_first:
            given = a.at(first, self.rank(row) * width)
        return a.pick(self.is_first, given, kept)

    def if_known(self, value: Vector) -> Vector:
        """A product with the step before: zeros where there is none, since the other factor may be NaN."""
        if self.has_first:
            return value
        is_later = self.a.let(f"xor i1 {self.is_first}, true", "i1")
        return self.a.chosen(is_later, value)


def span(a: Routine, step: Scalar) -> tuple[Scalar, Scalar]:
    """The start of a step, and the number of this call's sequences that have it."""
    start = a.entry("%Starts", step)
    end = a.entry("%Starts", step + 1)
    reached = a.least(a.integer("last"), end - start)
    return start, reached - a.integer("first")


@contextlib.contextmanager
def steps_back(a: Routine, has_first: bool) -> Iterator[StepCode]:
    """The loop over all steps from the last to the first."""
    steps = a.integer("steps")
    with a.loop(0, steps) as turn:
        yield StepCode(a, steps - turn.index - 1, has_first)


def following_rows(a: Routine, step: StepCode, array: Address, width: Scalar) -> Scalar:
    """The number of sequences that go on after a step, whose rows of `array` are noted in the table."""
    steps = a.integer("steps")
    after = a.least(step.number + 1, steps)
    beyond = a.least(step.number + 2, steps)
    start = a.entry("%Starts", after)
    end = a.entry("%Starts", beyond)
    count = a.least(a.integer("last"), end - start) - step.first
    with a.loop(0, count) as row:
        place = a.entry("%Rows", start + step.rank(row.index))
        address = a.at(array, place * width)
        a.put(address, "%Table", row.index)
    return count


def whole_text(a: Routine, products: Sequence[str], intrinsics: Mapping[str, str]) -> str:
    """The text of a routine and of the products that it calls."""
    main = a.function("void @LOOP(i64 %first, i64 %last, ptr %arguments)")
    return "\n".join([*intrinsics.values(), *products, main])
