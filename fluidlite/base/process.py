"""Settings of the whole process, each with its reason: freed memory, Python's collector, BLAS's threads.

Nothing else here changes what other code of the process would notice. What is set for a while is set by a
context.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fluidlite.base.forks import child_lock, in_child
from fluidlite.base.once import once

__all__ = ["BlasSwitch", "blas_function", "blas_switch", "keep_freed_memory", "without_collector"]

# ---------------------------------------------------------------------- memory
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


# ---------------------------------------------------------------------- threads of BLAS
def _libraries() -> Iterator[ctypes.CDLL]:
    """The OpenBLAS libraries that NumPy's wheel brings; none with another BLAS."""
    folder = pathlib.Path(np.__file__).parent
    for place in (folder.parent / "numpy.libs", folder / ".libs", folder / ".dylibs"):
        for path in place.glob("lib*openblas*"):
            yield ctypes.CDLL(str(path))


def blas_function(name: str) -> tuple[Any, Any] | None:
    """A function of OpenBLAS with the type of its integers; None where NumPy has another BLAS."""
    # newer wheels rename OpenBLAS's functions: "scipy_" in front, and "64_" behind where integers have 64
    # bits
    for library in _libraries():
        for prefix in ("scipy_", ""):
            for suffix, integer in (("64_", ctypes.c_int64), ("", ctypes.c_int)):
                found = getattr(library, f"{prefix}{name}{suffix}", None)
                if found is not None:
                    return found, integer
    return None


class BlasSwitch:
    """Keeps NumPy's BLAS to one thread between `enter` and `leave`, which several threads of the process may
    call: plans share large work themselves (`fluidlite.executor.run.team`), and BLAS's own threads spin.

    The number is set when the first enters and when the last leaves: changing it while another thread is in
    the middle of a product gives that thread wrong results.
    """

    def __init__(self, setter: Callable[[int], Any], threads: int) -> None:
        self.setter = setter
        self.threads = threads
        self._inside = 0
        self._lock = child_lock()

    def enter(self) -> None:
        """A run begins."""
        with self._lock:
            self._inside += 1
            if self._inside == 1 and self.threads > 1:
                self.setter(1)

    def leave(self) -> None:
        """A run ends."""
        with self._lock:
            # 0 already in a child whose parent forked in the middle of a run
            self._inside = max(self._inside - 1, 0)
            if self._inside == 0 and self.threads > 1:
                self.setter(self.threads)

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_error: object) -> None:
        self.leave()

    def forget(self) -> None:
        """Count none: the parent's threads are not in the child of a fork, and never leave there."""
        self._inside = 0


# one for all threads: each counts who is inside
@once
def blas_switch() -> BlasSwitch | None:
    """The switch of the OpenBLAS that NumPy's wheel brings; None with another BLAS."""
    setter = blas_function("openblas_set_num_threads")
    getter = blas_function("openblas_get_num_threads")
    if setter is None or getter is None:
        return None
    setter[0].restype = None
    setter[0].argtypes = [ctypes.c_int]
    switch = BlasSwitch(setter[0], int(getter[0]()))
    in_child(switch.forget)
    return switch
