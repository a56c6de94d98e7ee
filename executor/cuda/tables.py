"""Gradients of lookup tables on a device, by sorted segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import THREADS, CudaKernel, Grid, element_grid
from fluidlite.executor.cuda.rows import FILES, DeviceRows

__all__ = ["DeviceRowSums"]

_CHUNK = 1024  # keys that a block sorts, as in embedding.cu
_PIECE = 64  # places of a segment that are added up one after the other, as there
_DIGIT = 8  # bits


class DeviceRowSums:
    """The sums of rows of equal ids, of several lists of ids with a row for each.

    sums(*ids, *rows, table) writes them to the rows of a table that is 0 elsewhere. Where they go `by_place`,
    sums(*ids, *rows, heads, found) lets found[i] be the sum of row heads[i], and heads[i] be `height` where
    there is none. Ids that are `padding`, which each list has, or no row, are left out.

    Places are sorted by a radix sort of kernels of our own: the array module's waits for the host, which no
    graph can, and its scattered additions come in another order in each run.
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
        self.xp = xp
        self.counts, self.paddings, self.height, self.by_place = counts, paddings, height, by_place
        count = self.count = sum(counts)
        self.is_empty = not count * columns
        self.shifts = range(0, height.bit_length(), _DIGIT)
        self.chunks = -(-count // _CHUNK)
        names = ("keys_of", "count_digits", "starts_of_digits", "move_by_digit", "heads_of")
        macro = (("BY_PLACE", int(by_place)),)
        self.kernels = {name: CudaKernel(xp, name, FILES["lookup"], dtype, macro) for name in names}
        self.keys, self.moved_keys, self.places, self.moved_places = (
            xp.empty(count, np.int64) for _ in range(4)
        )
        self.starts = xp.empty((THREADS, self.chunks), np.int64)
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
        keys, places = self._sorted(arrays[:many])
        rows = self._joined(arrays[many : 2 * many])
        self.sum_pieces(keys, places, rows, out, self.parts)
        self.add_pieces(keys, self.parts, out)
        if self.by_place:
            self._launch("heads_of", element_grid(self.count), (keys, heads[0]), (self.count, self.height))

    def _joined(self, rows: Sequence[Any]) -> Any:
        """All rows behind each other."""
        if self.joined is None:
            return rows[0]
        first = 0
        for count, part in zip(self.counts, rows, strict=True):
            self.xp.copyto(self.joined[first : first + count], part)
            first += count
        return self.joined

    def _sorted(self, ids: Sequence[Any]) -> tuple[Any, Any]:
        """The rows' numbers in ascending order, and the place of each among the ids."""
        first = 0
        for each, count, padding in zip(ids, self.counts, self.paddings, strict=True):
            if count:
                placed = (count, self.height, padding, first)
                self._launch("keys_of", element_grid(count), (each, self.keys, self.places), placed)
            first += count
        here, there = (self.keys, self.places), (self.moved_keys, self.moved_places)
        one, all_chunks = ((1,), (THREADS,)), ((self.chunks,), (THREADS,))
        for shift in self.shifts:
            numbers = (self.count, shift)
            self._launch("count_digits", all_chunks, (here[0], self.starts), numbers)
            self._launch("starts_of_digits", one, (self.starts,), (self.chunks,))
            self._launch("move_by_digit", all_chunks, (*here, self.starts, *there), numbers)
            here, there = there, here
        return here

    def _launch(self, name: str, grid: Grid, arrays: tuple[Any, ...], numbers: Any) -> None:
        self.kernels[name](*grid, arrays, numbers)

    @staticmethod
    def explained(counts: Sequence[int], paddings: Any, columns: int, height: int, *_: Any) -> str:
        """A line for people."""
        passes = -(-height.bit_length() // _DIGIT)
        return f"CUDA kernels: {sum(counts)} places sorted in {passes} passes, and their segments summed"
