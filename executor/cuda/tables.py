"""Gradients of lookup tables on a device, by sorted segments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import THREADS, CudaKernel, element_grid
from fluidlite.executor.cuda.rows import FILES, DeviceRows
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["DeviceRowSums"]

_CHUNK = 1024  # keys that a block sorts, as in embedding.cu
_PIECE = 64  # places of a segment that are added up one after the other, as there
_DIGIT = 8  # bits


class _SortedIds:
    """sort(ids) gives the numbers of rows of several lists of ids in ascending order, and the place of each
    among all ids; `height`, behind all rows, stands for ids that are `padding`, or no row.

    It is a radix sort of kernels of our own: the array module's waits for the host, which no graph can.
    """

    def __init__(
        self,
        xp: Any,
        counts: Sequence[int],
        paddings: Sequence[int],
        height: int,
        kernel: Callable[[str], CudaKernel],
    ) -> None:
        self.counts, self.paddings, self.height = counts, paddings, height
        self.count = count = sum(counts)
        self.chunks = -(-count // _CHUNK)
        self.keys_of, self.count_digits, self.starts_of_digits, self.move_by_digit = map(
            kernel, ("keys_of", "count_digits", "starts_of_digits", "move_by_digit")
        )
        # keys with their places, which each pass moves from the one pair to the other
        self.here, self.there = (tuple(xp.empty(count, np.int64) for _ in range(2)) for _ in range(2))
        self.starts = xp.empty((THREADS, self.chunks), np.int64)

    def __call__(self, ids: Sequence[Any]) -> tuple[Any, ...]:
        first = 0
        for each, count, padding in zip(ids, self.counts, self.paddings, strict=True):
            if count:
                placed = (count, self.height, padding, first)
                self.keys_of(*element_grid(count), (each, *self.here), placed)
            first += count
        here, there = self.here, self.there
        one = ((1,), (THREADS,))
        all_chunks = ((self.chunks,), (THREADS,))
        for shift in range(0, self.height.bit_length(), _DIGIT):
            self.count_digits(*all_chunks, (here[0], self.starts), (self.count, shift))
            self.starts_of_digits(*one, (self.starts,), (self.chunks,))
            self.move_by_digit(*all_chunks, (*here, self.starts, *there), (self.count, shift))
            here, there = there, here
        return here


class DeviceRowSums(OwnObject):
    """The sums of rows of equal ids, of several lists of ids with a row for each.

    sums(*ids, *rows, table) writes them to the rows of a table that is 0 elsewhere. Where they go `by_place`,
    sums(*ids, *rows, heads, found) lets found[i] be the sum of row heads[i], and heads[i] be `height` where
    there is none. Ids that are `padding`, which each list has, or no row, are left out.

    Rows of equal ids are added in the order of their places; the array module's scattered additions come in
    another order in each run.
    """

    def __init__(
        self,
        xp: Any,
        counts: Sequence[int],
        paddings: Sequence[int],
        columns: int,
        height: int,
        dtype: Any,
        by_place: bool = False,
    ) -> None:
        self.xp, self.counts, self.height, self.by_place = xp, counts, height, by_place
        macro = (("BY_PLACE", int(by_place)),)
        kernel = functools.partial(CudaKernel, xp, files=FILES["lookup"], dtype=dtype, switches=macro)
        self.sort, self.heads_of = _SortedIds(xp, counts, paddings, height, kernel), kernel("heads_of")
        self.count = count = sum(counts)
        self.is_empty = not count * columns
        self.parts = xp.empty((-(-count // _PIECE), columns), dtype)
        self.joined = xp.empty((count, columns), dtype) if len(counts) > 1 else None
        switches = ["BY_PLACE"] if by_place else []
        self.sum_pieces, self.add_pieces = (
            DeviceRows(xp, name, count, columns, dtype, [height], switches)
            for name in ("sum_pieces", "add_pieces")
        )

    def __call__(self, *arrays: Any) -> None:
        many = len(self.counts)
        *heads, out = arrays[2 * many :]
        if not self.by_place:
            out.fill(0)
        if self.is_empty:
            return
        keys, places = self.sort(arrays[:many])
        rows = self._joined(arrays[many : 2 * many])
        self.sum_pieces(keys, places, rows, out, self.parts)
        self.add_pieces(keys, self.parts, out)
        if self.by_place:
            self.heads_of(*element_grid(self.count), (keys, heads[0]), (self.count, self.height))

    def _joined(self, rows: Sequence[Any]) -> Any:
        """All rows behind each other."""
        if self.joined is None:
            return rows[0]
        first = 0
        for count, part in zip(self.counts, rows, strict=True):
            self.xp.copyto(self.joined[first : first + count], part)
            first += count
        return self.joined

    @staticmethod
    def explained(counts: Sequence[int], paddings: Any, columns: int, height: int, *_: Any) -> str:
        """A line for people."""
        passes = -(-height.bit_length() // _DIGIT)
        return f"CUDA kernels: {sum(counts)} places sorted in {passes} passes, and their segments summed"
