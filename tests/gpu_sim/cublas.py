"""The few functions of cuBLAS that are called directly, as `ctypes.CDLL` would give them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpu_sim import arrays, cudnn
from gpu_sim.streams import CaptureError, current, place_of, stream_of, submit

__all__ = ["Library", "loaded"]

_int, _long, _pointer, _size = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_size_t
# as in cublas_api.h
PROTOTYPES = {
    "cublasCreate_v2": [_pointer],
    "cublasSetStream_v2": [_pointer, _pointer],
    "cublasSetWorkspace_v2": [_pointer, _pointer, _size],
    "cublasGemmStridedBatchedEx": [
        *(_pointer, _int, _int, _int, _int, _int, _pointer),
        *(_pointer, _int, _int, _long),
        *(_pointer, _int, _int, _long, _pointer),
        *(_pointer, _int, _int, _long),
        *(_int, _int, _int),
    ],
}
INVALID = 7
# (cudaDataType, cublasComputeType_t) -> type of the elements, and that of the scalars and sums
KINDS: dict[tuple[int, int], tuple[Any, Any]] = {
    (2, 68): (np.float16, np.float32),
    (0, 68): (np.float32, np.float32),
    (0, 77): (np.float32, np.float32),
    (1, 70): (np.float64, np.float64),
}


class _Function:
    """A function of the library: callers say what its parameters are, and have to be right."""

    def __init__(self, name: str, run: Callable[..., int]) -> None:
        self.name, self.run = name, run
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> int:
        prototype = PROTOTYPES[self.name]
        if self.argtypes != prototype or self.restype is not _int or len(arguments) != len(prototype):
            raise TypeError(f"{self.name} is called with other parameters than cuBLAS has")
        return self.run(*map(_plain, prototype, arguments))


def _plain(kind: Any, argument: Any) -> Any:
    """An argument as it arrives: integers within the bounds of their type."""
    if kind is not _pointer:
        if kind(argument).value != argument:
            raise OverflowError(f"{argument} is no {kind.__name__}")
        return int(argument)
    return argument.value if isinstance(argument, _pointer) else argument


class Library:
    """Handles, each with its stream and workspace."""

    def __init__(self) -> None:
        self.handles: dict[int, dict[str, Any]] = {}
        for name in PROTOTYPES:
            setattr(self, name, _Function(name, getattr(self, f"_{name}")))

    def _cublasCreate_v2(self, into: Any) -> int:
        if current().is_capturing:
            raise CaptureError("cublasCreate synchronises while a stream is captured")
        number = len(self.handles) + 1
        self.handles[number] = {"device": arrays.device(), "stream": None, "workspace": None}
        into._obj.value = number
        return 0

    def _cublasSetStream_v2(self, handle: int, stream: int) -> int:
        self.handles[handle].update(stream=stream_of(stream), workspace=None)
        return 0

    def _cublasSetWorkspace_v2(self, handle: int, address: int, size: int) -> int:
        self.handles[handle]["workspace"] = place_of(address, size)
        return 0

    def _cublasGemmStridedBatchedEx(self, handle: int, *arguments: Any) -> int:
        turn_a, turn_b, m, n, k, alpha, *matrices = arguments[:-3]
        count, sums, _ = arguments[-3:]
        a, b, (beta, *c) = matrices[:4], matrices[4:8], matrices[8:]
        held = self.handles[handle]
        if held["device"] != arrays.device():
            raise arrays.DeviceError(f"a handle of device {held['device']} on device {arrays.device()}")
        if held["workspace"] is None and held["stream"].is_capturing:
            raise CaptureError("cuBLAS has no workspace while a stream is captured")
        kinds = KINDS.get((a[1], sums))
        wide = ((k, m) if turn_a else (m, k), (n, k) if turn_b else (k, n), (m, n))
        is_valid = kinds is not None and a[1] == b[1] == c[1] and {turn_a, turn_b} <= {0, 1}
        if not is_valid or any(part[2] < max(1, size[0]) for part, size in zip((a, b, c), wide, strict=True)):
            return INVALID
        if min(m, n, k, count) < 1 or (count > 1 and not c[3]):
            return INVALID
        element, total = kinds
        # scalars on the host are read now, also by a call that is captured
        scale, kept = (total(_C[total].from_address(_address(it)).value) for it in (alpha, beta))
        looks, places = zip(
            *(_look(part, size, count, element) for part, size in zip((a, b, c), wide, strict=True))
        )

        def product() -> None:
            left, right = (
                np.swapaxes(look, 1, 2) if turn else look for look, turn in zip(looks, (turn_a, turn_b))
            )
            made = scale * np.matmul(left.astype(total), right.astype(total))
            # what is not kept is not read either
            looks[2][...] = made + kept * looks[2] if kept else made

        reads = [*places[:2], *([places[2]] if kept else [])]
        scratch = [held["workspace"]] if held["workspace"] else []
        submit("cublasGemmStridedBatchedEx", reads, [places[2], *scratch], product, held["stream"])
        return 0


_C = {np.float32: ctypes.c_float, np.float64: ctypes.c_double}


def _address(reference: Any) -> int:
    return ctypes.addressof(reference._obj)


def _look(part: Any, size: tuple[int, int], count: int, element: Any) -> tuple[Any, Any]:
    """A stack of matrices stored by columns, as an array, and the bytes that it lies in."""
    address, _, lead, step = part
    rows, columns = size
    item = np.dtype(element).itemsize
    if address % item:
        raise ValueError("a matrix that is not aligned")
    nbytes = (step * (count - 1) + lead * (columns - 1) + rows) * item
    place = place_of(address, nbytes)
    flat = np.frombuffer((ctypes.c_char * nbytes).from_address(address), element)
    strides = (step * item, item, lead * item)
    return as_strided(flat, (count, rows, columns), strides), place


_load = ctypes.CDLL


def loaded(name: Any, *arguments: Any, **options: Any) -> Any:
    """`ctypes.CDLL`, with this in place of cuBLAS, and `cudnn` in place of cuDNN."""
    if str(name).startswith("libcublas.so."):
        return Library()
    if str(name).startswith("libcudnn.so.9"):
        return cudnn.Library()
    return _load(name, *arguments, **options)
