"""Union-find, under fluid's name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import networkx

__all__ = ["UnionFind"]


class UnionFind:
    """Sets that grow together."""

    def __init__(self, elementes: Iterable[Hashable] | None = None) -> None:
        self._sets = networkx.utils.UnionFind(elementes)

    def find(self, x: Hashable) -> Hashable:
        """The element that stands for x's set; -1 where x is in none."""
        return self._sets[x] if x in self._sets.parents else -1

    def union(self, x: Hashable, y: Hashable) -> None:
        """Make one set of those of x and y."""
        self._sets.union(x, y)

    def is_connected(self, x: Hashable, y: Hashable) -> bool:
        """True if x and y are in one set."""
        return self.find(x) == self.find(y)
