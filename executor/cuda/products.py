"""Matrix products on a device by cuBLAS, called directly.

CuPy refuses to call cuBLAS while a stream is captured (cupy/cupy#6290), so that no step with a product could
become a graph. cuBLAS itself may be captured: scalars on the host are copied when a call is captured, and
what it needs for scratch lies in a workspace of ours, which its own memory would not outlive.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base import flags
from fluidlite.executor.cuda.libraries import Library, once, opened

__all__ = ["TF32", "Products"]

TF32 = "FLAGS_enable_cublas_tensor_op_math"

_LIMIT = 2**31 - 1  # sizes are 32-bit arguments
_MOST_IN_STACK = 65535  # matrices in a call, which is a dimension of a grid
_HOPPER = 90  # its compute capability
_MOST_CALLS = 64  # for one product of stacks; beyond, copies without gaps cost less than launches
_SMALL, _LARGE = 4 << 20, 32 << 20  # bytes of workspace that NVIDIA recommends, before and from Hopper on

# cudaDataType, and the cublasComputeType_t that adds up in float32 or better
_KINDS = {"float16": (2, 68), "float32": (0, 68), "float64": (1, 70)}
_IN_TF32 = 77
_DEFAULT = -1  # the algorithm that cuBLAS chooses

_int, _long, _pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_MATRIX = [_pointer, _int, _int]
_STACK = [*_MATRIX, _long]
_SIGNATURES: dict[str, list[Any]] = {
    "cublasCreate_v2": [_pointer],
    "cublasSetStream_v2": [_pointer, _pointer],
    "cublasSetWorkspace_v2": [_pointer, _pointer, ctypes.c_size_t],
    "cublasGemmStridedBatchedEx": [
        _pointer,
        *[_int] * 5,
        *(_pointer, *_STACK, *_STACK),
        *(_pointer, *_STACK),
        *[_int] * 3,
    ],
}


class CublasLibrary(Library):
    """cuBLAS as CuPy has loaded it."""

    part = "cublas"
    signatures = _SIGNATURES
    maker = "cublasCreate_v2"


def _library(xp: Any) -> CublasLibrary | None:
    """cuBLAS, or None where it cannot be found under the name that it has on Linux, with a warning."""
    name = f"libcublas.so.{xp.cuda.runtime.runtimeGetVersion() // 1000}"
    return once(name, lambda: _looked_for(xp, name))


def _looked_for(xp: Any, name: str) -> CublasLibrary | None:
    xp.cuda.get_cublas_handle()  # CuPy knows where it lies; a library that is loaded is found by name
    library = opened(CublasLibrary, [name])
    if library is None:
        warnings.warn(
            f"{name} was not found: not loaded, not in a wheel (pip install "
            f"nvidia-cublas-cu{name[-2:]}), a toolkit (CUDA_PATH) or a folder of the system's "
            "loader; CuPy computes the products, and steps with products cannot become CUDA graphs",
            RuntimeWarning,
            stacklevel=2,
        )
    return library


class _Stored(NamedTuple):
    """How matrices lie in memory. cuBLAS reads columns, so that rows look transposed to it."""

    is_turned: int
    """1 if columns, not rows, lie without gaps: its CUBLAS_OP_T."""
    lead: int
    """Elements from one row (or column) to the next."""


def _stored(matrices: Any) -> _Stored | None:
    """The form of the last two dimensions; None of what cuBLAS cannot read."""
    rows, columns = matrices.shape[-2:]
    down, along = (stride // matrices.itemsize for stride in matrices.strides[-2:])
    if (columns == 1 or along == 1) and (rows == 1 or columns <= down <= _LIMIT):
        return _Stored(0, columns if rows == 1 else down)
    if (rows == 1 or down == 1) and (columns == 1 or rows <= along <= _LIMIT):
        return _Stored(1, rows if columns == 1 else along)
    return None


def _known_stored(matrices: Any) -> _Stored:
    found = _stored(matrices)
    assert found is not None
    return found


def _shifts(dimensions: Sequence[tuple[int, tuple[int, ...]]]) -> Iterator[list[int]]:
    """The first elements of each stack, over all places of some dimensions."""
    for place in itertools.product(*(range(size) for size, _ in dimensions)):
        moved = [[at * step for step in steps] for at, (_, steps) in zip(place, dimensions, strict=True)]
        yield [sum(each) for each in zip([0, 0, 0], *moved, strict=True)]


def _steps(matrices: Any, stack: Sequence[int]) -> list[int]:
    """Elements between neighbours in each dimension of a stack; 0 where one serves for all."""
    missing = len(stack) - (matrices.ndim - 2)
    own = zip(matrices.shape[:-2], matrices.strides[:-2], strict=True)
    return [0] * missing + [0 if size == 1 else stride // matrices.itemsize for size, stride in own]


def _dimensions(stack: Sequence[int], steps: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """(size, steps of the operands) of each dimension of a stack, those merged that lie like one."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for size, *each in zip(stack, *steps, strict=True):
        if size == 1:
            continue
        if found and all(before == size * step for before, step in zip(found[-1][1], each, strict=True)):
            found[-1] = (found[-1][0] * size, tuple(each))
        else:
            found.append((size, tuple(each)))
    return found


def _put(xp: Any, made: Any, out: Any, adds: bool) -> None:
    """Let `out` be, or take in, what was made for it elsewhere."""
    made = made.reshape(out.shape)
    if adds:
        xp.add(out, made, out=out)
    else:
        xp.copyto(out, made)


class Products:
    """The matrix products of one plan, into arrays that exist."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.library = _library(xp)
        self.in_tf32 = bool(flags.get_flags(TF32)[TF32])
        self.workspace: Any = None

    def multiply(self, a: Any, b: Any, out: Any, adds: bool = False) -> Any:
        """out = a @ b (or += where it `adds`), with the shapes of `matmul`; returns `out`."""
        left = a.reshape(1, -1) if a.ndim == 1 else a
        right = b.reshape(-1, 1) if b.ndim == 1 else b
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*stack, left.shape[-2], right.shape[-1])
        if not self._is_known(a, b, out):
            _put(self.xp, self.xp.matmul(left, right), out, adds)
        elif not a.shape[-1]:
            if not adds:
                out.fill(0)
        elif out.size and out.shape == shape and _stored(out) is not None:
            self._multiply(left, right, out, adds)
        elif out.size and out.flags.c_contiguous:
            self._multiply(left, right, out.reshape(shape), adds)
        elif out.size:
            made = self.xp.empty(shape, out.dtype)
            self._multiply(left, right, made, False)
            _put(self.xp, made, out, adds)
        return out

    def _is_known(self, a: Any, b: Any, out: Any) -> bool:
        is_one = a.dtype == b.dtype == out.dtype and a.dtype.name in _KINDS
        return self.library is not None and is_one and max((*a.shape, *b.shape)) <= _LIMIT

    def _multiply(self, left: Any, right: Any, out: Any, adds: bool) -> None:
        """The product of stacks of matrices into what has a form."""
        if _known_stored(out).is_turned:
            left, right, out = (part.swapaxes(-1, -2) for part in (right, left, out))
        left, right = (part if _stored(part) else self.xp.ascontiguousarray(part) for part in (left, right))
        stack = out.shape[:-2]
        dimensions = _dimensions(stack, [_steps(part, stack) for part in (left, right, out)])
        # one call goes over the longest dimension
        dimensions.sort(key=lambda found: found[0])
        *others, (count, steps) = dimensions or [(1, (0, 0, 0))]
        if math.prod(size for size, _ in others) * -(-count // _MOST_IN_STACK) <= _MOST_CALLS:
            for shifts in _shifts(others):
                for first in range(0, count, _MOST_IN_STACK):
                    starts = [shift + first * step for shift, step in zip(shifts, steps, strict=True)]
                    self._call((left, right, out), starts, steps, min(count - first, _MOST_IN_STACK), adds)
            return
        left, right = (
            self.xp.ascontiguousarray(self.xp.broadcast_to(part, (*stack, *part.shape[-2:])))
            for part in (left, right)
        )
        made = self.xp.empty(out.shape, out.dtype)
        self._multiply(left, right, made, False)
        _put(self.xp, made, out, adds)

    def _call(
        self, arrays: Sequence[Any], starts: Sequence[int], steps: Sequence[int], count: int, adds: bool
    ) -> None:
        """One call of cuBLAS: `count` products, from the elements `starts` of the arrays on."""
        library = self.library
        assert library is not None
        left, _, out = arrays
        kind, sums = _KINDS[out.dtype.name]
        if self.in_tf32 and out.dtype == np.float32:
            sums = _IN_TF32
        number = ctypes.c_double if out.dtype == np.float64 else ctypes.c_float
        one, kept = number(1), number(1 if adds else 0)
        # out.T = right.T @ left.T, as cuBLAS reads by columns what lies by rows
        forms = [_known_stored(part) for part in arrays]
        at = [
            (part.data.ptr + start * part.itemsize, kind, form.lead, step)
            for part, start, form, step in zip(arrays, starts, forms, steps, strict=True)
        ]
        turns = (forms[1].is_turned, forms[0].is_turned)
        sizes = (out.shape[-1], out.shape[-2], left.shape[-1])
        with library.lock:
            handle = library.handle(self.xp.cuda.Device().id)
            library.call("cublasSetStream_v2", handle, self.xp.cuda.get_current_stream().ptr)
            # behind the stream, which takes cuBLAS back to a workspace of its own
            space = self._workspace()
            library.call("cublasSetWorkspace_v2", handle, space.data.ptr, space.nbytes)
            call = (handle, *turns, *sizes, ctypes.byref(one), *at[1], *at[0], ctypes.byref(kept), *at[2])
            library.call("cublasGemmStridedBatchedEx", *call, count, sums, _DEFAULT)

    def _workspace(self) -> Any:
        """Memory of the plan: one that two streams write to at once would give wrong products."""
        if self.workspace is None:
            is_large = int(self.xp.cuda.Device().compute_capability) >= _HOPPER
            self.workspace = self.xp.empty(_LARGE if is_large else _SMALL, np.uint8)
        return self.workspace
