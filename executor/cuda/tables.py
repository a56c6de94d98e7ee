"""The gradient of a lookup table on a device, by sorted segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import MAX_BLOCKS, THREADS, CudaKernel
from fluidlite.executor.cuda.rows import FILES, DeviceRows

__all__ = ["DeviceTableGradient"]

_CHUNK = 1024  # keys that a block sorts, as in embedding.cu
_PIECE = 64  # places of a segment that are added up one after the other, as there
_DIGIT = 8  # bits


class DeviceTableGradient:
    """gradient(ids, d, out): zeros, with each of the `count` rows of `d` added to its id's row, but for
    `padding` and what is no row.

    Places are sorted by a radix sort of kernels of our own: the array module's allocates, which no graph
    holds, and its scattered additions come in another order in each run.
    """

    def __init__(self, xp: Any, count: int, columns: int, height: int, padding: int, dtype: Any) -> None:
        self.count = count
        self.is_empty = not count * columns
        self.key_numbers = (count, height, padding)
        self.shifts = range(0, height.bit_length(), _DIGIT)
        self.chunks = -(-count // _CHUNK)
        names = ("keys_of", "count_digits", "starts_of_digits", "move_by_digit")
        self.kernels = {name: CudaKernel(xp, name, FILES["lookup"], dtype) for name in names}
        self.keys, self.moved_keys, self.places, self.moved_places = (
            xp.empty(count, np.int64) for _ in range(4)
        )
        self.starts = xp.empty((THREADS, self.chunks), np.int64)
        self.parts = xp.empty((-(-count // _PIECE), columns), dtype)
        self.sum_pieces, self.add_pieces = (
            DeviceRows(xp, name, count, columns, dtype, [height]) for name in ("sum_pieces", "add_pieces")
        )

    def __call__(self, ids: Any, d: Any, out: Any) -> None:
        out.fill(0)
        if self.is_empty:
            return
        keys, places = self._sorted(ids)
        self.sum_pieces(keys, places, d, out, self.parts)
        self.add_pieces(keys, self.parts, out)

    def _sorted(self, ids: Any) -> tuple[Any, Any]:
        """The rows' numbers in ascending order, and the place of each among the ids."""
        blocks = (min(-(-self.count // THREADS), MAX_BLOCKS),)
        self._launch("keys_of", blocks, (ids, self.keys, self.places), self.key_numbers)
        here, there = (self.keys, self.places), (self.moved_keys, self.moved_places)
        for shift in self.shifts:
            numbers = (self.count, shift)
            self._launch("count_digits", (self.chunks,), (here[0], self.starts), numbers)
            self._launch("starts_of_digits", (1,), (self.starts,), (self.chunks,))
            self._launch("move_by_digit", (self.chunks,), (*here, self.starts, *there), numbers)
            here, there = there, here
        return here

    def _launch(self, name: str, blocks: tuple[int], arrays: tuple[Any, ...], numbers: Any) -> None:
        self.kernels[name](blocks, (THREADS,), arrays, numbers)

    @staticmethod
    def explained(count: int, columns: int, height: int, *_: Any) -> str:
        """A line for people."""
        passes = -(-height.bit_length() // _DIGIT)
        return f"CUDA kernels: {count} places sorted in {passes} passes, and their segments summed"
