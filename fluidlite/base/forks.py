"""Locks in the child of a fork, and what else it mends.

Only the thread that calls `os.fork` goes on in the child. A lock that another thread held at that moment
stays held there for ever, since nobody is left to open it. So each lock of the process is one of these:

- `child_lock()`, or a `ChildRLock`, which its holder may take again: open in the child. It may guard only
  what is in order after every single bytecode, and may not be held while code of the user runs, which might
  fork.
- `waited_lock()`: a fork waits until it is open. What it guards takes a moment, and calls no code that waits
  for another thread.
- one that its owner makes anew, in a function that `in_child` registers.
- one that whoever finds it held goes around (`BoundPlan.lock`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

__all__ = ["ChildRLock", "child_lock", "in_child", "waited_lock"]


def in_child(function: Callable[[], Any]) -> Callable[[], Any]:
    """Have a function called in the child of every fork, in the order of registration."""
    # Windows has no fork
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


_locks: WeakSet[Any] = WeakSet()


def child_lock() -> threading.Lock:
    """A lock that the child of a fork finds open."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def waited_lock() -> threading.RLock:
    """A lock of the process that forks wait for; its holder may take it again, and may fork."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


class ChildRLock:
    """A lock that its holder may take again, and that the child of a fork finds open."""

    def __init__(self) -> None:
        self.renew()
        _reentrant.add(self)

    def renew(self) -> None:
        """Be open: only its holder may release the lock of before, and that thread is gone."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


_reentrant: WeakSet[ChildRLock] = WeakSet()


@in_child
def _open_locks() -> None:
    for reentrant in _reentrant:
        reentrant.renew()
    for lock in _locks:
        # a plain lock may be opened by any thread, and there is only this one
        if lock.locked():
            lock.release()
