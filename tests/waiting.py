"""Waiting for what other threads and processes do, with a limit that no busy machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LIMIT", "until"]

LIMIT = 300.0
"""Seconds after which what a test waits for counts as lost."""


def until(ready: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until `ready()` is true; AssertionError after `limit` seconds."""
    end = time.monotonic() + limit
    while not ready():
        assert time.monotonic() < end, f"still waiting after {limit:g} s"
        time.sleep(0.005)
