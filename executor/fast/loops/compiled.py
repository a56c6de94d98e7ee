"""Compiled loops as a plan calls them: on its arrays, shared by the team."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.executor.fast.loops.compiler import LoopCode, RunCount
from fluidlite.executor.fast.loops.nest import ROW
from fluidlite.executor.run.memory import address_of
from fluidlite.executor.run.team import team_of

__all__ = ["CompiledLoops", "NestSizes"]

ASKED_AT = 2  # the run at which a loop is compiled: what runs once, as startup programs do, is not worth it


@dataclass(frozen=True)
class NestSizes:
    """The sizes of one nest, how many arrays it takes, and how many of these are sums."""

    sizes: tuple[int, ...]
    arrays: int
    sums: int

    @property
    def rows(self) -> int:
        """Rows that the nest may be split by."""
        if len(self.sizes) > 1:
            return math.prod(self.sizes[:-1])
        return -(-math.prod(self.sizes) // ROW)


class CompiledLoops:
    """`loops(arrays...)` runs one loop on the arrays of each part; `ready()` is true once it can.

    `varying` are the positions of the arrays that are other ones at each run. Their addresses are looked up
    then; those of all others once.
    """

    def __init__(
        self,
        xp: Any,
        loop: LoopCode,
        parts: Sequence[NestSizes],
        dtypes: Sequence[Any],
        varying: Sequence[int],
        threads: int,
        count: RunCount,
    ) -> None:
        self.loop = loop
        self.parts = parts
        self.dtypes = dtypes
        self.varying = varying
        self.team = team_of(threads) if threads > 1 else None
        self.count = count
        self.held: list[Any] = []
        self.partials: list[tuple[Any, int]] = []
        """Partial sums, and the position of the array that takes their sum."""
        self.places: list[tuple[Any, int]] = []
        """The place of each array's address among the arguments of its part."""
        self.calls: list[list[tuple[int, int, int]]] = [[] for _ in range(threads)]
        """For each thread: first row, last row and the address of the arguments."""
        self.tables = [self._table(part) for part in parts]

    def ready(self) -> bool:
        """True if the code is there; asks for it when it is clear that there will be more runs."""
        if self.loop.function is not None:
            return True
        if self.count.next() == ASKED_AT:
            self.loop.ask()
        return False

    def _table(self, part: NestSizes) -> Any:
        """The arguments of a part, but for the addresses of its arrays."""
        position = len(self.places)
        count = part.arrays
        table = np.zeros(count + max(len(part.sizes), 1), np.int64)
        table[count:] = part.sizes or (1,)
        plain = count - part.sums
        self.places += [(table, number) for number in range(plain)]
        for number in range(plain, count):
            partial = np.zeros(max(part.rows, 1), self.dtypes[position + number])
            table[number] = address_of(partial)
            self.partials.append((partial, position + number))
            # the array itself is only for the sum of these
            self.places.append((np.zeros(1, np.int64), 0))
        threads = len(self.calls)
        for thread, calls in enumerate(self.calls):
            first, last = part.rows * thread // threads, part.rows * (thread + 1) // threads
            if first < last:
                calls.append((first, last, address_of(table)))
        return table

    def _place(self, position: int, array: Any) -> None:
        """Note the address of an array."""
        if not array.flags.c_contiguous or array.dtype != self.dtypes[position]:
            # only what is read is fed
            array = np.ascontiguousarray(array, self.dtypes[position])
        table, number = self.places[position]
        table[number] = address_of(array)
        self.held[position] = array

    def __call__(self, *arrays: Any) -> None:
        if not self.held:
            self.held = list(arrays)
            for position, array in enumerate(arrays):
                self._place(position, array)
        else:
            for position in self.varying:
                if arrays[position] is not self.held[position]:
                    self._place(position, arrays[position])
        if self.team is None:
            self._run(0)
        else:
            self.team(self._run)
        for partial, position in self.partials:
            np.add.reduce(partial, out=arrays[position])

    def _run(self, thread: int) -> None:
        function = self.loop.function
        for first, last, table in self.calls[thread]:
            function(first, last, table)
