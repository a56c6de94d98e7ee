"""Code that is being made beside the running program, and comes into use at given runs of a plan.

Not when it happens to be there: it differs from what ran before by rounding, and a run must give what the
same run gave yesterday.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from fluidlite.base.forks import child_lock

__all__ = ["PendingCode", "expect", "forget", "settle"]


class PendingCode(Protocol):
    """Code that can be made here and now, and taken into use."""

    def compile(self) -> None:
        """Make it, or wait for that, and take it into use."""


_expected: list[PendingCode] = []
_lock = child_lock()  # whoever comes second waits, too


def expect(code: PendingCode) -> None:
    """Have the next `settle` take code into use."""
    _expected.append(code)


def settle() -> None:
    """Take into use what is expected, waiting until it is made."""
    with _lock:
        while _expected:
            # what cannot be compiled is computed by NumPy, as without the compiler
            with contextlib.suppress(Exception):
                _expected.pop(0).compile()


def forget() -> None:
    """Expect nothing: in a forked process nobody makes it."""
    _expected.clear()
