"""How many threads NumPy's BLAS uses: small products are faster on one, because waking the second costs more than it does."""
from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SMALL_PRODUCT", "thread_switch"]

SMALL_PRODUCT = 1 << 23       # multiply-adds; measured on 2 cores: 128^3 takes 1.6 x as long on two threads, 256^3 as long as on one


@functools.cache
def thread_switch() -> tuple[Callable[[int], Any], int] | None:
    """(set the number of threads, the number now) of the OpenBLAS that NumPy's wheel brings; None with another BLAS."""
    folder = pathlib.Path(np.__file__).parent
    for path in [*folder.parent.glob("numpy.libs/lib*openblas*"), *folder.glob(".libs/lib*openblas*"), *folder.glob(".dylibs/lib*openblas*")]:
        library = ctypes.CDLL(str(path))
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
                if setter is not None and getter is not None:
                    setter.restype, setter.argtypes = None, [ctypes.c_int]
                    return setter, int(getter())
    return None
