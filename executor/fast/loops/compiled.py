"""Compiled loops as a plan calls them: on its arrays, shared by the team."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.errors import ShapeError
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
    then; those of all others once. `passing` are positions and sizes of what kernels returned in this run:
    such an array is let go when the loop has read it.
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
        passing: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.loop = loop
        self.parts = parts
        self.dtypes = dtypes
        self.varying = varying
        self.passing = passing
        self.team = team_of(threads) if threads > 1 else None
        self.count = count
        self.held: list[Any] = []
        self.partials: list[tuple[Any, int]] = []
        """Partial sums, and the position of the array that takes their sum."""
        self.places: list[int] = []
        """The place of each array's address in the table."""
        self.calls: list[list[tuple[int, int, int]]] = [[] for _ in range(threads)]
        """For each thread: first row, last row and the address of the arguments."""
        self.table = self._table()
        """The arguments of all parts: addresses of arrays, then sizes."""

    def ready(self) -> bool:
        """True if the code is there; asks for it when it is clear that there will be more runs."""
        if self.loop.function is not None:
            return True
        if self.count.next() == ASKED_AT:
            self.loop.ask()
        return False

    def _table(self) -> Any:
        """The arguments of all parts, but for the addresses of their arrays."""
        entries: list[int] = []
        starts = []
        for part in self.parts:
            starts.append(len(entries))
            plain = part.arrays - part.sums
            self.places += range(len(entries), len(entries) + plain)
            entries += [0] * plain
            for _ in range(part.sums):
                position = len(self.places)
                partial = np.zeros(max(part.rows, 1), self.dtypes[position])
                self.partials.append((partial, position))
                entries.append(address_of(partial))
                # the array itself is only for the sum of these: its address goes where nobody looks
                self.places.append(-1)
            entries += part.sizes or (1,)
        table = np.array([*entries, 0], np.int64)
        begin = address_of(table)
        for part, start in zip(self.parts, starts, strict=True):
            self._share_out(part.rows, begin + start * table.itemsize)
        return table

    def _share_out(self, rows: int, arguments: int) -> None:
        """Give each thread its rows of a part."""
        threads = len(self.calls)
        for thread, calls in enumerate(self.calls):
            first, last = rows * thread // threads, rows * (thread + 1) // threads
            if first < last:
                calls.append((first, last, arguments))

    def _take(self, arrays: Sequence[Any]) -> None:
        """Note the addresses of what kernels returned."""
        for position, size in self.passing:
            array = arrays[position]
            # the code reads as many elements, whatever is there
            if array.size != size:
                raise ShapeError(f"a compiled loop over {size} elements got an array of shape {array.shape}")
            self._place(position, array)

    def _place(self, position: int, array: Any) -> None:
        """Note the address of an array."""
        dtype = self.dtypes[position]
        # to compare data types that are two objects takes as long as all the rest
        if not array.flags.c_contiguous or (array.dtype is not dtype and array.dtype != dtype):
            # only what is read is fed, or comes from a kernel
            array = np.ascontiguousarray(array, dtype)
        self.table[self.places[position]] = address_of(array)
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
        self._take(arrays)
        if self.team is None:
            self._run(0)
        else:
            self.team(self._run)
        for position, _ in self.passing:
            self.held[position] = None
        for partial, position in self.partials:
            np.add.reduce(partial, out=arrays[position])

    def _run(self, thread: int) -> None:
        function = self.loop.function
        for first, last, table in self.calls[thread]:
            function(first, last, table)
