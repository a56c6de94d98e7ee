"""Memory as plans use it: what they free stays with the process, where the C library is asked to leave it
there; while one is made, Python's collector does not run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
from collections.abc import Iterator

__all__ = ["keep_freed_memory", "without_collector"]

# parameters of glibc's mallopt, from malloc.h
_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3

KEPT = 256 << 20  # bytes at the end of the heap that are not given back
LARGEST = 32 << 20  # bytes from which an array has a mapping of its own; glibc takes no more
GROWTH = 1 << 20  # bytes by which the heap grows at least


@functools.cache
def keep_freed_memory() -> None:
    """Have glibc reuse freed memory, once for the process; other C libraries are left as they are.

    A portable kernel allocates its results at each call. By default those of a megabyte come fresh from the
    system each time, and every page of them costs a fault (2 us on a virtual machine): 14 of the 50 ms of an
    LSTM's step, 44 of the 117 of a tagger's.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    for parameter, value in ((_MMAP_THRESHOLD, LARGEST), (_TRIM_THRESHOLD, KEPT), (_TOP_PAD, GROWTH)):
        mallopt(parameter, value)


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector of cycles from running, while a plan is made or bound: it would go over the
    whole growing plan, and all that the program holds, again and again (a sixth of the time), and find
    nothing. Afterwards the plan is among the old objects: it would go over all of it once more (a twentieth).
    """
    was_enabled = gc.isenabled()
    if was_enabled:
        _unseen.collect_if_many()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # to the objects that are never looked at, and back as the oldest, unless somebody keeps some
            # there
            if not _unseen.are_frozen():
                _unseen.count += gc.get_count()[0]
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Unseen:
    """The objects that became old without being looked at. Python looks at the old ones only when it has made
    many others old by itself, so that programs and plans that nobody has any more would pile up.
    """

    LEAST = 100_000  # objects: 10 to 20 MB, and 20 ms to go over them

    def __init__(self) -> None:
        self.count = 0
        self.enough = 0
        """A quarter of all objects, when these were last counted."""
        self.frozen = 0
        """Objects that somebody keeps frozen, as they were first seen: to count a million takes 20 ms."""

    def are_frozen(self) -> bool:
        """True where somebody keeps objects that the collector never looks at, or has kept some before."""
        self.frozen = self.frozen or gc.get_freeze_count()
        return self.frozen > 0

    def collect_if_many(self) -> None:
        """Have all objects looked at, where a quarter of them were not, as Python has it."""
        if self.count <= max(self.enough, self.LEAST):
            return
        # counting takes some milliseconds, and is not done again before as many have come
        self.enough = self._all() // 4
        if self.count > self.enough:
            gc.collect()
            self.count = 0

    def _all(self) -> int:
        """The number of objects that the collector knows; a lower bound where somebody keeps some frozen."""
        # never by a list of all: it would hold a tuple that another thread is just making from a generator,
        # and Python ends that with "bad argument to internal function"
        if self.are_frozen():
            return self.frozen + self.count
        gc.freeze()
        try:
            return gc.get_freeze_count()
        finally:
            gc.unfreeze()


_unseen = _Unseen()
