"""Code that is being made beside the running program, and comes into use at given runs of a plan.

Not when it happens to be there: it differs from what ran before by rounding, and a run must give what the
same run gave yesterday.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from fluidlite.base.forks import child_lock
from fluidlite.executor.run.engine import ENGINE, EnginePart

__all__ = ["PendingCode", "expect", "settle"]


class PendingCode(Protocol):
    """Code that can be made here and now, and taken into use."""

    def compile(self) -> None:
        """Make it, or wait for that, and take it into use."""


class Pending(EnginePart):
    """The code that is expected."""

    def __init__(self) -> None:
        self._expected: list[PendingCode] = []
        self._lock = child_lock()  # whoever comes second waits, too

    def expect(self, code: PendingCode) -> None:
        """Have the next `settle` take code into use."""
        self._expected.append(code)

    def settle(self) -> None:
        """Take into use what is expected, waiting until it is made."""
        with self._lock:
            while self._expected:
                # what cannot be compiled is computed by NumPy, as without the compiler
                with contextlib.suppress(Exception):
                    self._expected.pop(0).compile()

    def forked(self) -> None:
        """Expect nothing: in a forked process nobody makes it."""
        self._expected.clear()


_pending = ENGINE.add(Pending())
expect, settle = _pending.expect, _pending.settle
