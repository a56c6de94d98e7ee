"""Shared libraries of CUDA, wherever a machine has them, and their functions."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

__all__ = ["Library", "LibraryError", "load", "once", "opened", "places"]

_TOOLKITS = ("CUDA_PATH", "CUDA_HOME")
_TOOLKIT = "/usr/local/cuda"


class LibraryError(RuntimeError):
    """A function that gave another status than success."""


class Library:
    """A library whose functions give a status, with a handle for each device.

    Calls of several functions that belong together hold the `lock`: a handle has one stream, and one
    workspace, at a time.
    """

    part: ClassVar[str]
    """The part of CUDA that it is: "cublas"."""
    signatures: ClassVar[Mapping[str, Sequence[Any]]]
    """The types of the parameters, by function."""
    maker: ClassVar[str]
    """The function that makes a handle."""

    def __init__(self, library: Any) -> None:
        self.library = library
        for name, types in self.signatures.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, ctypes.c_int
        self.lock = threading.Lock()
        self._handles: dict[int, ctypes.c_void_p] = {}

    def handle(self, device: int) -> ctypes.c_void_p:
        """The handle of a device, which is the current one."""
        if device not in self._handles:
            handle = ctypes.c_void_p()
            self.call(self.maker, ctypes.byref(handle))
            self._handles[device] = handle
        return self._handles[device]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; LibraryError with its status where it fails."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise LibraryError(f"{name} fails with status {status}")


Found = TypeVar("Found", bound=Library)

_found: dict[str, Any] = {}


def once(name: str, find: Callable[[], Found | None]) -> Found | None:
    """The library that `find` gives, looked for once in a process."""
    if name not in _found:
        _found[name] = find()
    found: Found | None = _found[name]
    return found


def opened(kind: type[Found], names: Sequence[str]) -> Found | None:
    """The first of these libraries that loads and has all functions of its kind; None where there is none."""
    for name in names:
        library = load(name, kind.part)
        if library is not None:
            # a version without one of the functions is passed over
            with contextlib.suppress(AttributeError):
                return kind(library)
    return None


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
