"""The number of threads of NumPy's BLAS. Plans set it to one and share large work themselves
(`fluidlite.executor.run.team`).
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["BlasSwitch", "blas_switch"]


class BlasSwitch:
    """Keeps BLAS to one thread between `enter` and `leave`, which several threads of the process may call.

    The number is set when the first enters and when the last leaves: changing it while another thread is in
    the middle of a product gives that thread wrong results.
    """

    def __init__(self, setter: Callable[[int], Any], threads: int) -> None:
        self.setter = setter
        self.threads = threads
        self._inside = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """A run begins."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self.setter(1)

    def leave(self) -> None:
        """A run ends."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self.setter(self.threads)


@functools.cache
def blas_switch() -> BlasSwitch | None:
    """The switch of the OpenBLAS that NumPy's wheel brings; None with another BLAS."""
    folder = pathlib.Path(np.__file__).parent
    places = [folder.parent / "numpy.libs", folder / ".libs", folder / ".dylibs"]
    for path in [found for place in places for found in place.glob("lib*openblas*")]:
        library = ctypes.CDLL(str(path))
        # newer wheels rename OpenBLAS's functions: "scipy_" in front, and "64_" behind where integers have 64
        # bits
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
                if setter is not None and getter is not None:
                    setter.restype = None
                    setter.argtypes = [ctypes.c_int]
                    return BlasSwitch(setter, int(getter()))
    return None
