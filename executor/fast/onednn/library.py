"""oneDNN's shared library through ctypes: found and loaded at first use, or said to be unavailable.

The wheel `onednn-cpu-gomp` brings the library without Python code. It lies in the `lib` folder of the
environment that it is installed in. The functions and numbers below are those of oneDNN's C API, version 3.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import site
import sys
import threading
from collections.abc import Iterator
from ctypes import c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from typing import Any

from fluidlite.base import flags
from fluidlite.base.errors import FluidError
from fluidlite.base.once import once

__all__ = [
    "OneDnnError",
    "available",
    "checked",
    "engine",
    "has_avx512",
    "library",
    "part_stream",
    "stream",
    "version",
]

_POINTER = ctypes.POINTER(c_void_p)
_DIMS = ctypes.POINTER(c_int64)

# The library's own threads are not used: each call keeps to the thread that makes it. Should something start
# them all the same, they sleep instead of spinning; libgomp reads this when it is loaded.
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

_STATUS = {
    1: "out of memory",
    2: "invalid arguments",
    3: "not implemented",
    4: "last implementation reached",
    5: "runtime error",
    6: "not required",
}

_CREATED_FROM: dict[str, tuple[Any, ...]] = {
    "dnnl_engine_create": (c_int, c_size_t),
    "dnnl_stream_create": (c_void_p, c_uint),
    "dnnl_memory_desc_create_with_strides": (c_int, _DIMS, c_int, _DIMS),
    "dnnl_memory_desc_create_with_tag": (c_int, _DIMS, c_int, c_int),
    "dnnl_memory_desc_clone": (c_void_p,),
    "dnnl_memory_create": (c_void_p, c_void_p, c_void_p),
    "dnnl_primitive_attr_create": (),
    "dnnl_post_ops_create": (),
    "dnnl_primitive_create": (c_void_p,),
    "dnnl_reorder_primitive_desc_create": (c_void_p,) * 5,
    "dnnl_convolution_forward_primitive_desc_create": (
        *(c_void_p, c_int, c_int),
        *(c_void_p,) * 4,
        *(_DIMS,) * 4,
        c_void_p,
    ),
    "dnnl_convolution_backward_data_primitive_desc_create": (
        *(c_void_p, c_int),
        *(c_void_p,) * 3,
        *(_DIMS,) * 4,
        *(c_void_p,) * 2,
    ),
    "dnnl_convolution_backward_weights_primitive_desc_create": (
        *(c_void_p, c_int),
        *(c_void_p,) * 4,
        *(_DIMS,) * 4,
        *(c_void_p,) * 2,
    ),
    "dnnl_pooling_forward_primitive_desc_create": (
        *(c_void_p, c_int, c_int),
        *(c_void_p,) * 2,
        *(_DIMS,) * 5,
        c_void_p,
    ),
    "dnnl_pooling_backward_primitive_desc_create": (
        *(c_void_p, c_int),
        *(c_void_p,) * 2,
        *(_DIMS,) * 5,
        *(c_void_p,) * 2,
    ),
    "dnnl_batch_normalization_forward_primitive_desc_create": (
        *(c_void_p, c_int),
        *(c_void_p,) * 2,
        *(c_float, c_uint, c_void_p),
    ),
    "dnnl_batch_normalization_backward_primitive_desc_create": (
        *(c_void_p, c_int),
        *(c_void_p,) * 3,
        *(c_float, c_uint),
        *(c_void_p,) * 2,
    ),
    "dnnl_matmul_primitive_desc_create": (c_void_p,) * 6,
}
"""Functions that make an object: their arguments behind the place for the result."""

_CALLED_WITH: dict[str, tuple[Any, ...]] = {
    "dnnl_memory_set_data_handle": (c_void_p, c_void_p),
    "dnnl_primitive_attr_set_scratchpad_mode": (c_void_p, c_int),
    "dnnl_primitive_attr_set_post_ops": (c_void_p, c_void_p),
    "dnnl_post_ops_append_sum": (c_void_p, c_float, ctypes.c_int32, c_int),
    "dnnl_post_ops_append_eltwise": (c_void_p, c_int, c_float, c_float),
    "dnnl_post_ops_append_binary": (c_void_p, c_int, c_void_p),
    "dnnl_primitive_desc_query": (c_void_p, c_int, c_int, c_void_p),
    "dnnl_primitive_execute": (c_void_p, c_void_p, c_int, c_void_p),
    "dnnl_stream_wait": (c_void_p,),
    "dnnl_memory_desc_destroy": (c_void_p,),
    "dnnl_memory_destroy": (c_void_p,),
    "dnnl_primitive_attr_destroy": (c_void_p,),
    "dnnl_post_ops_destroy": (c_void_p,),
    "dnnl_primitive_desc_destroy": (c_void_p,),
    "dnnl_primitive_destroy": (c_void_p,),
    "dnnl_set_primitive_cache_capacity": (c_int,),
}


_AVX512 = 0x20  # the bit in what the library calls an instruction set


class OneDnnError(FluidError):
    """oneDNN refused to make or to run a primitive."""


def available() -> bool:
    """True if oneDNN is installed, can run here, and `FLAGS_use_onednn` does not forbid it."""
    return bool(flags.get_flags("FLAGS_use_onednn")["FLAGS_use_onednn"]) and library() is not None


@functools.cache
def library() -> Any:
    """The library with its functions declared; None where it is missing or does not load."""
    for path in _places():
        try:
            loaded = _load(path)
        except (OSError, AttributeError):
            # made for another machine, libgomp is missing, or another version of the library
            continue
        if loaded is not None:
            return loaded
    return None


def _places() -> Iterator[pathlib.Path]:
    """The files of the environment that may be the library."""
    roots = [sys.prefix, sys.base_prefix, site.getuserbase()]
    for root in dict.fromkeys(roots):
        for folder in ("lib", "lib64"):
            yield from sorted((pathlib.Path(root) / folder).glob("libdnnl.so.3"))


def _load(path: pathlib.Path) -> Any:
    before = {name: os.environ.get(name) for name in _PASSIVE}
    os.environ.update({name: value for name, value in _PASSIVE.items() if before[name] is None})
    try:
        loaded = ctypes.CDLL(str(path))
    finally:
        # the process's own settings, and what its children are given, stay as they were
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)  # another thread, which opens the library too, may have been here
    for name, arguments in _CREATED_FROM.items():
        getattr(loaded, name).argtypes = (_POINTER, *arguments)
    for name, arguments in _CALLED_WITH.items():
        getattr(loaded, name).argtypes = arguments
    loaded.dnnl_memory_desc_get_size.argtypes = (c_void_p,)
    loaded.dnnl_memory_desc_get_size.restype = c_size_t
    loaded.dnnl_memory_desc_equal.argtypes = (c_void_p, c_void_p)
    loaded.dnnl_primitive_desc_query_md.argtypes = (c_void_p, c_int, c_int)
    loaded.dnnl_primitive_desc_query_md.restype = c_void_p
    loaded.dnnl_version.restype = c_void_p
    made = c_void_p()
    return loaded if loaded.dnnl_engine_create(ctypes.byref(made), 1, 0) == 0 else None


def has_avx512() -> bool:
    """True if the kernels of the library, which is available, use vectors of 512 bits here."""
    return bool(library().dnnl_get_effective_cpu_isa() & _AVX512)


@functools.cache
def version() -> str:
    """The library and its version."""
    numbers = ctypes.cast(library().dnnl_version(), ctypes.POINTER(c_int * 3)).contents
    return f"oneDNN {'.'.join(map(str, numbers))}"


def checked(status: int, what: str) -> None:
    """OneDnnError that names the primitive, unless `status` is success."""
    if status:
        raise OneDnnError(f"oneDNN: {what}: {_STATUS.get(status, f'status {status}')}")


# one for all threads: a primitive of one engine is refused on a stream of another
@once
def engine() -> c_void_p:
    """The engine of the CPU."""
    made = c_void_p()
    checked(library().dnnl_engine_create(ctypes.byref(made), 1, 0), "engine")
    return made


_local = threading.local()


def stream() -> c_void_p:
    """This thread's stream; from its making on, oneDNN keeps to one thread in calls of this thread."""
    found = getattr(_local, "stream", None)
    if found is None:
        # the library is linked to libgomp, whose functions are found through it
        library().omp_set_num_threads(1)
        found = _local.stream = _new_stream()
    return found


@functools.cache
def part_stream(part: int) -> c_void_p:
    """The stream of a part of a job, whoever does it."""
    return _new_stream()


def _new_stream() -> c_void_p:
    made = c_void_p()
    checked(library().dnnl_stream_create(ctypes.byref(made), engine(), 1), "stream")
    return made
