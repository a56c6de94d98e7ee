"""How many threads NumPy's BLAS uses. Plans set it to one and share large work themselves
(`fluidlite.executor.run.team`).
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["thread_switch"]


@functools.cache
def thread_switch() -> tuple[Callable[[int], Any], int] | None:
    """(set the number of threads, the number now) of the OpenBLAS that NumPy's wheel brings; None with
    another BLAS.
    """
    folder = pathlib.Path(np.__file__).parent
    places = [folder.parent / "numpy.libs", folder / ".libs", folder / ".dylibs"]
    for path in [found for place in places for found in place.glob("lib*openblas*")]:
        library = ctypes.CDLL(str(path))
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
                if setter is not None and getter is not None:
                    setter.restype, setter.argtypes = None, [ctypes.c_int]
                    return setter, int(getter())
    return None
