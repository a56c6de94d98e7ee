"""Shared libraries of CUDA, wherever a machine has them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
from collections.abc import Iterator

__all__ = ["load", "places"]

_TOOLKITS = ("CUDA_PATH", "CUDA_HOME")
_TOOLKIT = "/usr/local/cuda"


def load(name: str, part: str) -> ctypes.CDLL | None:
    """A library such as "libcublas.so.12" of a part of CUDA ("cublas"); None where none loads."""
    # by its name alone first: one that CuPy has loaded already, or that the system's loader knows
    for place in (name, *places(name, part)):
        try:
            return ctypes.CDLL(str(place))
        except OSError:
            continue
    return None


def places(name: str, part: str) -> Iterator[pathlib.Path]:
    """The files of that name: of NVIDIA's wheels beside CuPy, then of toolkits."""
    version = name.rpartition(".")[2]
    found = importlib.util.find_spec("nvidia")
    wheels = list(found.submodule_search_locations or ()) if found is not None else []
    # a wheel for each part up to CUDA 12 (nvidia-cublas-cu12), one folder for all parts from 13 on
    folders = [pathlib.Path(wheel) / folder / "lib" for wheel in wheels for folder in (part, f"cu{version}")]
    toolkits = [os.environ[variable] for variable in _TOOLKITS if os.environ.get(variable)]
    folders += [pathlib.Path(toolkit) / "lib64" for toolkit in (*toolkits, _TOOLKIT)]
    for folder in folders:
        if (folder / name).exists():
            yield folder / name
