"""Values of the process that are made when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

__all__ = ["once"]

_Value = TypeVar("_Value")


def once(make: Callable[[], _Value]) -> Callable[[], _Value]:
    """A function that makes a value at its first call, and gives the same one ever after.

    With `functools.cache`, threads that call at once each get a value of their own. Here some may be made in
    vain, but all threads get one. No lock is held meanwhile, which a forked process would find held for ever.
    """
    made: list[_Value] = []

    @functools.wraps(make)
    def asked() -> _Value:
        if not made:
            # appending is one step for all threads: the first element never changes
            made.append(make())
        return made[0]

    return asked
