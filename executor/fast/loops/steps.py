"""Parts of the steps of all recurrences, as LLVM text: the places of their rows, and of those before.

The names of arguments: `Rows` and `Starts` are those of `fluidlite.ops.kernels.recurrence.TimeSteps`, `first`
and `last` the sequences of this call, `size` the units of a state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from fluidlite.executor.fast.loops.routine import Routine
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["StepCode", "following_rows", "steps_back", "whole_text"]


class StepCode:
    """The code of one step: places of its rows, and of those before."""

    def __init__(self, a: Routine, step: str, has_first: bool) -> None:
        self.a, self.number, self.has_first = a, step, has_first
        self.is_first = a.let(f"icmp eq i64 {step}, 0")
        self.start, self.count = span(a, step)
        before = a.pick(self.is_first, "0", a.minus(step, "1"))
        self.before = a.entry("%Starts", before)
        self.three, self.four = a.times("%size", "3"), a.times("%size", "4")
        self.gates = ("0", "%size", a.times("%size", "2"), self.three)
        """The first unit of each gate."""

    def rank(self, row: str) -> str:
        """The place of a sequence among all."""
        return self.a.sum("%first", row)

    def stored(self, row: str) -> str:
        """The place of a sequence in what lies step by step."""
        return self.a.sum(self.start, self.rank(row))

    def row(self, row: str) -> str:
        """The place of this step of a sequence."""
        return self.a.entry("%Rows", self.stored(row))

    def earlier(self, row: str, array: str, first: str, width: str = "%size") -> str:
        """The address of the step before; at the first step of the initial values."""
        a = self.a
        place = a.entry("%Rows", a.sum(self.before, self.rank(row)))
        kept = a.at(array, a.times(place, width))
        given = a.at(first, a.times(self.rank(row), width)) if self.has_first else first
        return a.pick(self.is_first, given, kept, "ptr")

    def if_known(self, value: Vector) -> Vector:
        """A product with the step before: zeros where there is none, since the other factor may be NaN."""
        if self.has_first:
            return value
        return self.a.chosen(self.a.let(f"xor i1 {self.is_first}, true"), value)


def span(a: Routine, step: str) -> tuple[str, str]:
    """The start of a step, and the number of this call's sequences that have it."""
    start = a.entry("%Starts", step)
    end = a.entry("%Starts", a.sum(step, "1"))
    return start, a.minus(a.least("%last", a.minus(end, start)), "%first")


@contextlib.contextmanager
def steps_back(a: Routine, has_first: bool) -> Iterator[StepCode]:
    """The loop over all steps from the last to the first."""
    with a.loop("0", "%steps") as turn:
        yield StepCode(a, a.minus(a.minus("%steps", turn.index), "1"), has_first)


def following_rows(a: Routine, step: StepCode, array: str, width: str) -> str:
    """The number of sequences that go on after a step, whose rows of `array` are noted in the table."""
    after = a.least(a.sum(step.number, "1"), "%steps")
    beyond = a.least(a.sum(step.number, "2"), "%steps")
    start, end = a.entry("%Starts", after), a.entry("%Starts", beyond)
    count = a.minus(a.least("%last", a.minus(end, start)), "%first")
    with a.loop("0", count) as row:
        place = a.entry("%Rows", a.sum(start, step.rank(row.index)))
        at = a.at(array, a.times(place, width))
        a.do(f"store ptr {at}, ptr {a.at('%Table', row.index, 'ptr')}")
    return count


def whole_text(a: Routine, products: Sequence[str], intrinsics: Mapping[str, str]) -> str:
    """The text of a routine and of the products that it calls."""
    main = a.function("void @LOOP(i64 %first, i64 %last, ptr %arguments)")
    return "\n".join([*intrinsics.values(), *products, main])
