"""Places in the pool of a plan, first fit, by the order in which buffers come and go."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable

from fluidlite.executor.plan.plan import BufferLayout, Move
from fluidlite.executor.plan.values import Value

__all__ = ["laid_out"]

ALIGN = 64  # bytes: a line of the cache, which two threads' buffers should not share


class _Pool:
    """First-fit allocation in an address space that grows as needed."""

    def __init__(self) -> None:
        self.live: list[tuple[int, int]] = []  # (offset, size), ascending
        self.peak = 0

    def take(self, nbytes: int) -> int:
        # an empty buffer gets a place, too: `free` tells places apart by their offsets
        size = -(-max(nbytes, 1) // ALIGN) * ALIGN
        offset = 0
        for index, (start, length) in enumerate(self.live):
            if start - offset >= size:
                self.live.insert(index, (offset, size))
                return offset
            offset = start + length
        self.live.append((offset, size))
        self.peak = max(self.peak, offset + size)
        return offset

    def free(self, offset: int) -> None:
        # (offset,) sorts right before (offset, size)
        index = bisect.bisect_left(self.live, (offset,))
        assert self.live[index][0] == offset
        del self.live[index]


def laid_out(moves: Iterable[Move], nbytes: Callable[[Value], int]) -> BufferLayout:
    """The place of each buffer, for buffers of `nbytes` bytes."""
    pool = _Pool()
    moves = tuple(moves)
    offsets: dict[Value, int] = {}
    total = 0
    for move in moves:
        if move.taker is None:
            assert move.donor is not None
            pool.free(offsets[move.donor])
        elif move.donor is not None:
            offsets[move.taker] = offsets[move.donor]
            total += nbytes(move.taker)
        else:
            size = nbytes(move.taker)
            offsets[move.taker] = pool.take(size)
            total += size
    return BufferLayout(offsets, pool.peak, total, moves)
