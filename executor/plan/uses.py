"""The memory that steps use: who reads and writes it, and which steps may change places.

All versions of a parameter are one memory, and so are a buffer and the views of it (`Value.memory`). A step
that names a view reads and writes nothing, and the steps of a body count as the one that has it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Value

__all__ = ["Footprint", "MemoryUses", "memories"]


def memories(values: Iterable[Value]) -> set[Any]:
    """Keys of the memory of some values."""
    return {value.memory for value in values}


class Footprint:
    """The memory that steps read, and that they write."""

    __slots__ = ("reads", "writes")

    def __init__(self, step: Step | None = None) -> None:
        self.reads: set[Any] = set() if step is None else memories(step.all_reads())
        self.writes: set[Any] = set() if step is None else memories(step.all_writes())

    def add(self, other: Footprint) -> None:
        """Take in another one."""
        self.reads |= other.reads
        self.writes |= other.writes

    def is_apart(self, other: Footprint) -> bool:
        """True if the steps may run in either order, or at the same time."""
        # no unions: those of many updates are large
        return (
            self.writes.isdisjoint(other.reads)
            and self.writes.isdisjoint(other.writes)
            and self.reads.isdisjoint(other.writes)
        )


class MemoryUses:
    """The positions of steps by the memory that they use, in order; found when they are first asked for."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    @functools.cached_property
    def touching(self) -> dict[Any, list[int]]:
        """Those that read, write or hold a memory, or name a view of it."""
        found: dict[Any, list[int]] = defaultdict(list)
        for index, step in enumerate(self.steps):
            for memory in memories((*step.all_reads(), *step.all_writes(), *step.holds)):
                found[memory].append(index)
        return found

    @functools.cached_property
    def writing(self) -> dict[Any, list[int]]:
        """Those that write it."""
        found: dict[Any, list[int]] = defaultdict(list)
        for index, step in enumerate(self.steps):
            if not step.is_view:
                for memory in memories(step.all_writes()):
                    found[memory].append(index)
        return found

    def of(self, value: Value) -> list[int]:
        """Those that read, write or hold the memory of a value."""
        return [index for index in self.touching[value.memory] if not self.steps[index].is_view]

    def change(self, values: Iterable[Value], first: int, last: int) -> bool:
        """True if one of the steps `first` to `last` writes memory of the values."""
        return any(first <= index <= last for memory in memories(values) for index in self.writing[memory])
