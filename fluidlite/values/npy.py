"""Arrays between processes, in NumPy's own file format."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.forks import child_lock

__all__ = ["array_of", "arrays_of", "bytes_of", "bytes_of_all"]

# NumPy parses headers by `ast`; of two threads that do so at the same time CPython 3.11 ends one now and then
# by a SystemError that says that depths of recursion do not match
_reading = child_lock()


def bytes_of(array: Array) -> bytes:
    """One array, without objects."""
    target = io.BytesIO()
    np.save(target, array, allow_pickle=False)
    return target.getvalue()


def array_of(data: bytes) -> Array:
    """The array of `bytes_of`; ValueError where it holds objects."""
    with _reading:
        found: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return found


def bytes_of_all(arrays: Iterable[Array]) -> bytes:
    """Several arrays in order."""
    target = io.BytesIO()
    np.savez(target, *arrays)
    return target.getvalue()


def arrays_of(data: bytes) -> list[Array]:
    """The arrays of `bytes_of_all`; ValueError where one holds objects."""
    with _reading, np.load(io.BytesIO(data), allow_pickle=False) as found:
        return [found[f"arr_{number}"] for number in range(len(found.files))]
