"""Compiled loops as a plan calls them: on its arrays, shared by the team."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.errors import ShapeError
from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.compiler import LoopCode, RunCount
from fluidlite.executor.fast.loops.nest import ROW
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls

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
    such an array is let go when the loop has read it. `moving` are those that lie elsewhere for other sizes.
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
        moving: Sequence[int] = (),
    ) -> None:
        self.loop = loop
        self.dtypes = dtypes
        self.varying = varying
        self.passing = passing
        self.moving = moving
        self.threads = threads
        self.count = count
        self.held: list[Any] = [None] * len(dtypes)
        seen = {*varying, *(position for position, _ in passing)}
        self.unplaced: Sequence[int] = [position for position in range(len(dtypes)) if position not in seen]
        """The arrays whose addresses the next run looks up, beside those that it always looks at."""
        self.places: list[int] = []
        """The place of each array's address in the table."""
        self.sums: list[tuple[int, int]] = []
        """The place of each partial sum's address, and the position of the array that takes the sum."""
        self.size_places: list[int] = []
        self.table: Any = np.zeros(self._lay_out(parts), np.int64)
        """The arguments of all parts: addresses of arrays, then sizes."""
        self.partials: list[tuple[Any, int]] = []
        """Partial sums, and the position of the array that takes their sum."""
        self.calls: list[list[tuple[int, int, int]]] = []
        """For each thread: first row, last row and the address of the arguments."""
        self._take_sizes(parts)

    def resized(self, xp: Any, loop: LoopCode, parts: Sequence[NestSizes], *others: Any) -> CompiledLoops:
        """The same loops over other sizes, on arrays of which none but those that are `moving` lie elsewhere
        than they did; arguments as for a new object.
        """
        # `copy.copy` takes five times as long, of hundreds of loops as long as all the rest
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        *_, new.passing, new.moving = others
        new.held = self.held.copy()
        new.unplaced = [*self.unplaced, *self.moving]
        new.table = self.table.copy()
        new._take_sizes(parts)
        return new

    def ready(self) -> bool:
        """True if the code is there; asks for it when it is clear that there will be more runs."""
        if self.loop.function is not None:
            return True
        if self.count.next() == ASKED_AT:
            self.loop.ask()
        return False

    def _lay_out(self, parts: Sequence[NestSizes]) -> int:
        """Give each entry of the table its place; the number of entries."""
        end = 0
        for part in parts:
            plain = part.arrays - part.sums
            self.places += range(end, end + plain)
            end += plain
            for place in range(end, end + part.sums):
                self.sums.append((place, len(self.places)))
                # the array itself is only for the sum of these: its address goes where nobody looks
                self.places.append(-1)
            end += part.sums
            self.size_places += range(end, end + max(len(part.sizes), 1))
            end += max(len(part.sizes), 1)
        return end + 1

    def _take_sizes(self, parts: Sequence[NestSizes]) -> None:
        """Write down the sizes of all parts, make room for partial sums, and share out the rows."""
        table, threads = self.table, self.threads
        table[self.size_places] = [size for part in parts for size in part.sizes or (1,)]
        self.partials = []
        self.calls = [[] for _ in range(threads)]
        self.shared = SharedCalls(threads)
        arguments, sums = address_of(table), iter(self.sums)
        for part in parts:
            rows = part.rows
            for place, position in itertools.islice(sums, part.sums):
                partial = np.zeros(max(rows, 1), self.dtypes[position])
                table[place] = address_of(partial)
                self.partials.append((partial, position))
            for thread, calls in enumerate(self.calls):
                first, last = rows * thread // threads, rows * (thread + 1) // threads
                if first < last:
                    calls.append((first, last, arguments))
            arguments += (part.arrays + max(len(part.sizes), 1)) * table.itemsize

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
        if self.unplaced:
            for position in self.unplaced:
                self._place(position, arrays[position])
            self.unplaced = ()
        for position in self.varying:
            if arrays[position] is not self.held[position]:
                self._place(position, arrays[position])
        self._take(arrays)
        if self.threads == 1:
            function = self.loop.function
            for call in self.calls[0]:
                function(*call)
        else:
            self.shared.run(None, self.threads, self._run)
        for position, _ in self.passing:
            self.held[position] = None
        for partial, position in self.partials:
            np.add.reduce(partial, out=arrays[position])

    def _run(self, calls: MachineCalls, thread: int) -> None:
        for call in self.calls[thread]:
            calls.code(self.loop.function, *call)
