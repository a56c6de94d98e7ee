"""Places in the pool of a plan, by the order in which buffers come and go."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Callable, Collection, Iterable

from fluidlite.executor.plan.plan import BufferLayout, Move
from fluidlite.executor.plan.values import Value

__all__ = ["laid_out"]

ALIGN = 64  # bytes: a line of the cache, which two threads' buffers should not share
LARGE_SHARE = 256  # a place is large that takes this part of the most bytes in use at once
MANY = 400  # large places, which cost a comparison for each pair, 25 ms in all
NEAR = 64  # what is less than this part above the bound is not worth those


class _Pool:
    """Lifetimes of places: each is taken once and freed once, or never; `arranged` gives their offsets."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.lives: list[tuple[int, int]] = []
        """When each place is taken and freed, in events."""
        self.events: list[int] = []
        """The places that are taken, and those that are freed as -1 - place, in order."""
        self.held = 0
        self.most_held = 0
        """The most bytes in use at once: no arrangement of these places could do with less."""

    def take(self, nbytes: int) -> int:
        """A new place."""
        # an empty buffer gets a place, too
        size = -(-max(nbytes, 1) // ALIGN) * ALIGN
        self.held = self.held + size
        self.most_held = max(self.most_held, self.held)
        self.sizes.append(size)
        self.lives.append((len(self.events), sys.maxsize))
        self.events.append(len(self.sizes) - 1)
        return len(self.sizes) - 1

    def free(self, place: int) -> None:
        """The end of a place."""
        self.held = self.held - self.sizes[place]
        self.lives[place] = (self.lives[place][0], len(self.events))
        self.events.append(-1 - place)

    def arranged(self) -> tuple[dict[int, int], int]:
        """The offset of each place, and the size of the pool: first come, first served, or the large places
        first, whichever needs less.
        """
        offsets, peak = self._first_fit(set(range(len(self.sizes))))
        if (peak - self.most_held) * NEAR <= self.most_held:
            return offsets, peak
        large = [place for place, size in enumerate(self.sizes) if size * LARGE_SHARE >= self.most_held]
        # each is compared with all before it
        if len(large) > MANY:
            return offsets, peak
        found, top = self._largest_first(large)
        small, rest = self._first_fit(set(range(len(self.sizes))).difference(large))
        if top + rest >= peak:
            return offsets, peak
        found.update((place, top + offset) for place, offset in small.items())
        return found, top + rest

    def _first_fit(self, places: Collection[int]) -> tuple[dict[int, int], int]:
        """Each place in the first gap that is free when it is taken."""
        # what is free, not what is taken: of that there is less by far
        gaps = _Gaps()
        offsets: dict[int, int] = {}
        sizes = self.sizes
        for event in self.events:
            place = event if event >= 0 else -1 - event
            if place not in places:
                continue
            if event < 0:
                gaps.give_back(offsets[place], sizes[place])
            else:
                offsets[place] = gaps.take(sizes[place])
        return offsets, gaps.peak

    def _largest_first(self, places: Collection[int]) -> tuple[dict[int, int], int]:
        """Each place in the first gap beside all larger ones that live at the same time."""
        offsets: dict[int, int] = {}
        peak = 0
        for place in sorted(places, key=lambda place: -self.sizes[place]):
            start, end = self.lives[place]
            beside = sorted(
                (offset, self.sizes[other])
                for other, offset in offsets.items()
                if self.lives[other][0] < end and start < self.lives[other][1]
            )
            offsets[place] = offset = _gap(beside, self.sizes[place])
            peak = max(peak, offset + self.sizes[place])
        return offsets, peak


class _Gaps:
    """The ranges that are free, in order; all of what lies behind `peak` is."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self.peak = 0

    def take(self, size: int) -> int:
        """The start of the first range of that size."""
        for number, length in enumerate(self.sizes):
            if length >= size:
                start = self.starts[number]
                if length == size:
                    del self.starts[number], self.sizes[number]
                else:
                    self.starts[number] += size
                    self.sizes[number] -= size
                return start
        # a gap that reaches the end of the pool grows
        start = self.peak
        if self.starts and self.starts[-1] + self.sizes[-1] == start:
            start = self.starts.pop()
            self.sizes.pop()
        self.peak = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Let a range be free, as one with those beside it."""
        starts, sizes = self.starts, self.sizes
        number = bisect.bisect_left(starts, start)
        if number < len(starts) and starts[number] == start + size:
            size += sizes[number]
            del starts[number], sizes[number]
        if number and starts[number - 1] + sizes[number - 1] == start:
            sizes[number - 1] += size
        else:
            starts.insert(number, start)
            sizes.insert(number, size)


def _gap(live: Iterable[tuple[int, int]], size: int) -> int:
    """The first offset where `size` bytes fit between (or behind) ranges, which may overlap."""
    offset = 0
    for start, length in live:
        if start - offset >= size:
            return offset
        offset = max(offset, start + length)
    return offset


def laid_out(moves: Iterable[Move], nbytes: Callable[[Value], int]) -> BufferLayout:
    """The place of each buffer, for buffers of `nbytes` bytes."""
    pool = _Pool()
    moves = tuple(moves)
    places: dict[Value, int] = {}
    total = 0
    for move in moves:
        if move.taker is None:
            assert move.donor is not None
            pool.free(places[move.donor])
        elif move.donor is not None:
            places[move.taker] = places[move.donor]
            total += nbytes(move.taker)
        else:
            size = nbytes(move.taker)
            places[move.taker] = pool.take(size)
            total += size
    where, peak = pool.arranged()
    offsets = {value: where[place] for value, place in places.items()}
    return BufferLayout(offsets, peak, total, moves, pool.most_held)
