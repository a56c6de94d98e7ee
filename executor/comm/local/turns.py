"""One role at a time: who goes on next, in a job whose roles are threads and whose order shall be the same
in every run.
"""

from __future__ import annotations

import random
from collections.abc import Container

__all__ = ["Turns"]


class Turns:
    """The turn passes wherever a role talks or waits: to the next role that can go on, or to one drawn
    from a seed.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.order: list[str] = []
        self.holder = ""
        self.random = None if seed is None else random.Random(seed)

    def enter(self, role: str) -> None:
        """A role takes part; the first one has the first turn."""
        self.order.append(role)
        self.holder = self.holder or role

    def pass_on(self, ready: Container[str]) -> None:
        """Give the turn to one of the roles that can go on; it stays where it is when none can."""
        start = self.order.index(self.holder) + 1
        found = [role for role in (*self.order[start:], *self.order[:start]) if role in ready]
        if found:
            self.holder = found[0] if self.random is None else self.random.choice(found)
