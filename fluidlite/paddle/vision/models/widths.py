"""Numbers of maps."""

from __future__ import annotations

__all__ = ["divisible"]


def divisible(count: float, by: int = 8) -> int:
    """The multiple of `by` that is nearest to `count` and not less than nine tenths of it."""
    found = max(by, int(count + by / 2) // by * by)
    return found + by if found < 0.9 * count else found
