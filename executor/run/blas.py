"""The number of threads of NumPy's BLAS. Plans set it to one and share large work themselves
(`fluidlite.executor.run.team`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fluidlite.base.forks import child_lock, in_child
from fluidlite.base.once import once
from fluidlite.ops.kernels.gemm import blas_function

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
