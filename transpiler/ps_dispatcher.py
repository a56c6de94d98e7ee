"""Which server gets which piece of a parameter; the same answer in every process."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["HashName", "PSDispatcher", "RoundRobin"]


class PSDispatcher:
    """Hands out servers. A subclass says how in `dispatch`."""

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The endpoints of the servers."""
        return self._eps

    def reset(self) -> None:
        """Begin with the first server again."""
        self._step = 0

    def dispatch(self, varlist: Iterable[Any]) -> list[str]:
        """An endpoint for each variable (or name)."""
        raise TypeError(f"{type(self).__name__} does not define how to dispatch: use RoundRobin or HashName")


class RoundRobin(PSDispatcher):
    """One server after the other."""

    def dispatch(self, varlist: Iterable[Any]) -> list[str]:
        """The next servers in turn; the turn goes on in the next call."""
        found = []
        for _ in varlist:
            found.append(self._eps[self._step % len(self._eps)])
            self._step += 1
        return found


class HashName(PSDispatcher):
    """By the variable's name: a checksum, for Python's `hash` of a string differs from process to process."""

    def dispatch(self, varlist: Iterable[Any]) -> list[str]:
        """A server for each name; names of one call get different servers while there are free ones."""
        taken: set[int] = set()
        found = []
        for var in varlist:
            index = zlib.crc32(str(getattr(var, "name", var)).encode()) % len(self._eps)
            # two parameters on one server could leave the others without work
            if len(taken) < len(self._eps):
                while index in taken:
                    index = (index + 1) % len(self._eps)
            taken.add(index)
            found.append(self._eps[index])
        return found
