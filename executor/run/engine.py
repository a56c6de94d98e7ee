"""The engine of the process: threads, compiled code and scratch memory that all of its plans share.

Its parts stand where they are used: teams of threads (`run/team.py`), code that comes into use at given runs
(`run/pending.py`), the compiler of loops (`fast/loops/compiler.py`), and calls that threads share without
Python (`fast/machine.py`). A part is made when its module is imported, holds nothing until it is asked, and
starts its threads at first use. Its life goes on in the child of a fork (`forked`), where those threads are
gone, and ends with the process (`close`).
"""

from __future__ import annotations

import atexit
from typing import TypeVar

from fluidlite.base.forks import in_child

__all__ = ["ENGINE", "Engine", "EnginePart"]


class EnginePart:
    """A part of the engine."""

    def forked(self) -> None:
        """Go on in the child of a fork, whose only thread is the one that forked."""

    def close(self) -> None:
        """End: no plan runs any more."""


_Part = TypeVar("_Part", bound=EnginePart)


class Engine:
    """The parts, in the order in which they were added: each may use those before it."""

    def __init__(self) -> None:
        self.parts: list[EnginePart] = []

    def add(self, part: _Part) -> _Part:
        """Take a part in, and give it back."""
        self.parts.append(part)
        return part

    def forked(self) -> None:
        """Tell all parts of a fork."""
        for part in self.parts:
            part.forked()

    def close(self) -> None:
        """End all parts, the last one first."""
        for part in reversed(self.parts):
            part.close()


ENGINE = Engine()
in_child(ENGINE.forked)
atexit.register(ENGINE.close)
