"""cuDNN's convolutions through the functions that it has had since version 7, where a machine has it.

They are called directly: its C functions need nothing but the library, which PyTorch's and NVIDIA's wheels
bring, while NVIDIA's own package for Python is one more thing to install, and has its own versions to fit the
library's. Signatures and numbers were held against the headers of version 9.28; those of version 8 have the
same ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.executor.cuda.libraries import Library, once, opened

__all__ = [
    "BACKWARD_DATA",
    "BACKWARD_FILTER",
    "FORWARD",
    "CudnnLibrary",
    "CudnnDirection",
    "Performance",
    "find",
]

_NAMES = ("libcudnn.so.9", "libcudnn.so.8")
_FIRST_OF_9 = 90000  # from 9 on a version has two digits more for its parts

_int, _pointer, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t


@dataclass(frozen=True)
class CudnnDirection:
    """A way to use a convolution, under the name that it has in the names of functions."""

    name: str
    method: str
    parts: tuple[str, str, str]
    """The operands and the result: `x` images, `w` filters, `d` images of the result or their gradient."""

    @property
    def search(self) -> str:
        """The function that proposes algorithms."""
        return f"cudnnGetConvolution{self.name}Algorithm_v7"

    @property
    def sizing(self) -> str:
        """The function that tells the bytes of scratch memory."""
        return f"cudnnGetConvolution{self.name}WorkspaceSize"

    @property
    def function(self) -> str:
        """The function that computes."""
        return f"cudnnConvolution{self.name}"


FORWARD = CudnnDirection("Forward", "forward", ("x", "w", "d"))
BACKWARD_DATA = CudnnDirection("BackwardData", "grad_input", ("w", "d", "x"))
BACKWARD_FILTER = CudnnDirection("BackwardFilter", "grad_filter", ("x", "d", "w"))
_DIRECTIONS = (FORWARD, BACKWARD_DATA, BACKWARD_FILTER)


class Performance(ctypes.Structure):
    """cudnnConvolution*AlgoPerf_t, of all directions."""

    _fields_ = (
        ("algorithm", _int),
        ("status", _int),
        ("time", ctypes.c_float),
        ("memory", _size),
        ("determinism", _int),
        ("math", _int),
        ("reserved", _int * 3),
    )


_SIGNATURES: dict[str, list[Any]] = {
    "cudnnCreate": [_pointer],
    "cudnnSetStream": [_pointer, _pointer],
    "cudnnCreateTensorDescriptor": [_pointer],
    "cudnnDestroyTensorDescriptor": [_pointer],
    "cudnnSetTensorNdDescriptor": [_pointer, _int, _int, _pointer, _pointer],
    "cudnnCreateFilterDescriptor": [_pointer],
    "cudnnDestroyFilterDescriptor": [_pointer],
    "cudnnSetFilterNdDescriptor": [_pointer, _int, _int, _int, _pointer],
    "cudnnCreateConvolutionDescriptor": [_pointer],
    "cudnnDestroyConvolutionDescriptor": [_pointer],
    "cudnnSetConvolutionNdDescriptor": [_pointer, _int, _pointer, _pointer, _pointer, _int, _int],
    "cudnnSetConvolutionGroupCount": [_pointer, _int],
    "cudnnSetConvolutionMathType": [_pointer, _int],
}
for _direction in _DIRECTIONS:
    _SIGNATURES[_direction.search] = [*[_pointer] * 5, _int, _pointer, _pointer]
    _SIGNATURES[_direction.sizing] = [*[_pointer] * 5, _int, _pointer]
    _SIGNATURES[_direction.function] = [*[_pointer] * 7, _int, _pointer, _size, *[_pointer] * 3]


class CudnnLibrary(Library):
    """The library, with its version."""

    part = "cudnn"
    signatures = _SIGNATURES
    maker = "cudnnCreate"

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        library.cudnnGetVersion.argtypes, library.cudnnGetVersion.restype = [], _size
        self.version = _spelled(int(library.cudnnGetVersion()))

    def create(self, kind: str) -> ctypes.c_void_p:
        """A new descriptor of a kind: Tensor, Filter or Convolution."""
        made = ctypes.c_void_p()
        self.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
        return made

    def destroy(self, descriptors: Sequence[tuple[str, ctypes.c_void_p]]) -> None:
        """Give descriptors back, each with its kind."""
        for kind, made in descriptors:
            getattr(self.library, f"cudnnDestroy{kind}Descriptor")(made)


def _spelled(number: int) -> str:
    """A version as people write it."""
    unit = 10000 if number >= _FIRST_OF_9 else 1000
    return f"{number // unit}.{number % unit // 100}.{number % 100}"


def find() -> CudnnLibrary | None:
    """The library; None where there is none that has all these functions."""
    return once("cudnn", lambda: opened(CudnnLibrary, _NAMES))
