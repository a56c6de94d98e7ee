"""Rank tables: sequences in order of their lengths."""

from __future__ import annotations

import bisect
import operator

from fluidlite.base.records import dataclass
from fluidlite.base.registry import Lod
from fluidlite.values.tensor import offsets_of

__all__ = ["RankTable"]


@dataclass(frozen=True)
class RankTable:
    """Sequences, the longest first: `order[r]` is the number of the one at rank r, `lengths[r]` its length.

    `level` is the level of detail that was ranked, `coarse` are the offsets of the levels above it.
    """

    order: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    level: int = 0
    coarse: Lod = ()

    def items(self) -> list[tuple[int, int]]:
        """(number, length) of each sequence, by rank."""
        return list(zip(self.order, self.lengths, strict=True))

    def active(self, step: int) -> int:
        """Number of sequences that are longer than `step`."""
        # they fall from the first to the last
        return bisect.bisect_left(self.lengths, -step, key=operator.neg)

    @property
    def lod(self) -> Lod:
        """The level of detail of what was ranked, down to `level`."""
        return self.coarse + offsets_of([[self.lengths[rank] for rank in self.ranks]])

    @property
    def ranks(self) -> list[int]:
        """For each sequence its rank."""
        found = [0] * len(self.order)
        for rank, sequence in enumerate(self.order):
            found[sequence] = rank
        return found
