"""`fluid.contrib.slim.nas.lock`: locks on files, between processes of one machine."""

from __future__ import annotations

import fcntl
from typing import IO, Any

__all__ = ["lock", "unlock"]


def lock(file: IO[Any]) -> None:
    """Wait until no other process holds the lock of an open file, and take it."""
    fcntl.flock(file, fcntl.LOCK_EX)


def unlock(file: IO[Any]) -> None:
    """Let the lock of an open file go."""
    fcntl.flock(file, fcntl.LOCK_UN)
