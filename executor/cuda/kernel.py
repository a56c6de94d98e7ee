"""One kernel written in CUDA C: its text, from the files beside this one, for a type of elements.

A file is compiled with `T`, the type of the elements, `S`, that of sums (float for float16), and the switches
that its kernels ask for as macros; sizes are arguments, so that one kernel serves all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.package_files import text_beside
from fluidlite.base.plain_text import check_source

__all__ = [
    "COMPUTED",
    "C_TYPES",
    "HALF",
    "MAX_BLOCKS",
    "NOT_FINITE",
    "NOT_FINITE_NUMBERS",
    "THREADS",
    "WARP",
    "CudaKernel",
    "Grid",
    "element_grid",
    "kernel_source",
    "sum_dtype",
]

C_TYPES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long long",
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
}
COMPUTED = {**C_TYPES, "float16": "float"}
"""The types that elements have in registers."""
THREADS = 256
WARP = 32
MAX_BLOCKS = 4096  # 16 for each of 256 processors: what is beyond goes on in the loops of those

Grid: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""The blocks of a launch, and the threads of each."""

# the runtime compiler reads no math.h
NOT_FINITE = """\
#ifndef NAN
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
"""
NOT_FINITE_NUMBERS = {"nan": "NAN", "inf": "(INFINITY)", "-inf": "(-INFINITY)"}
_PACKAGE = "fluidlite.executor.cuda"
HALF = text_beside(_PACKAGE, "half.cuh")


def sum_dtype(dtype: Any) -> np.dtype[Any]:
    """The type of sums over elements of a type."""
    return np.promote_types(dtype, np.float32)


def element_grid(count: int) -> Grid:
    """A thread for each of `count` numbers, or for several: `FOR_EACH` of `blocks.cuh`."""
    return (min(-(-count // THREADS), MAX_BLOCKS),), (THREADS,)


@functools.cache
def kernel_source(
    files: Sequence[str], dtype: str, switches: Sequence[tuple[str, int | str]] = (), text: str = ""
) -> str:
    """The text that a compiler is given: that of files, and `text` behind it."""
    macros = [f"#define {name} {value}" for name, value in switches]
    check_source(macros)
    types = [f"typedef {C_TYPES[dtype]} T;", f"typedef {COMPUTED[dtype]} S;"]
    head = [HALF] if dtype == "float16" else []
    parts = [NOT_FINITE, *macros, *head, *types, *(text_beside(_PACKAGE, file) for file in files), text]
    return "\n".join(parts)


@functools.lru_cache(maxsize=512)
def _compiled(kernel: Any, source: str, name: str) -> Any:
    """The kernel, compiled once in a process and for each device: plans for other sizes share it."""
    return kernel(source, name)


class CudaKernel:
    """`kernel(blocks, threads, arrays, numbers)` launches it on the current stream.

    An array that is None is one that the kernel's switches have it leave alone.
    """

    def __init__(
        self,
        xp: Any,
        name: str,
        files: Sequence[str],
        dtype: Any,
        switches: Sequence[tuple[str, int | str]] = (),
        text: str = "",
    ) -> None:
        self.sum_type = sum_dtype(dtype).type
        source = kernel_source(tuple(files), str(np.dtype(dtype)), tuple(switches), text)
        self.raw = _compiled(xp.RawKernel, source, name)

    def __call__(
        self, blocks: tuple[int, ...], threads: tuple[int, ...], arrays: Sequence[Any], numbers: Sequence[Any]
    ) -> None:
        # some pointer has to be there
        given = [arrays[0] if array is None else array for array in arrays]
        typed = [
            np.int64(number) if isinstance(number, (int, np.integer)) else self.sum_type(number)
            for number in numbers
        ]
        self.raw(blocks, threads, (*given, *typed))
