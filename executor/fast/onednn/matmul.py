"""Matrix products by oneDNN."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from ctypes import c_char, c_float, c_int64, c_void_p
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.onednn.library import checked, engine, library, stream
from fluidlite.executor.fast.onednn.primitive import (
    DST,
    SRC,
    WEIGHTS,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
)
from fluidlite.ops.kernels.gemm import ROW_MAJOR, Lying, Operand, operands, wide_product

__all__ = [
    "AnyGemm",
    "BlasGemm",
    "Gemm",
    "MatmulKernel",
    "StackGemm",
    "blas_gemm_of",
    "gemm_of",
    "matmul_kernel",
]

_FLOAT = 4  # bytes

_whole = c_int64.from_param
_real = c_float.from_param
_pointer = c_void_p.from_param
_letter = c_char.from_param
_ORDERS = {False: b"N", True: b"T"}


# without declared types: arguments that are made once take 0.7 us a call, numbers that ctypes converts 1.5
@functools.cache
def _sgemm() -> Any:
    return library()["dnnl_sgemm"]


class Gemm:
    """out = left @ right by the library's routine for matrices of any shapes.

    Nothing is made for the shapes; the first call of a process takes 20 ms. Of the time of a `MatmulKernel`
    it takes 0.6 to 1.0 for up to 16 rows, 0.8 to 1.0 for a transposed `left`, and 0.95 to 1.2 for all others.
    """

    def __init__(self, lying: tuple[Operand, Operand, Operand], sizes: Sequence[int], adds: bool) -> None:
        a, b, _ = lying
        rows, depth, columns = sizes
        orders = [_ORDERS[each.is_turned] for each in (a, b)]
        sizes, leading = [rows, columns, depth], [each.leading for each in lying]
        self.described = (*map(ord, orders), *sizes, *leading)
        """Orders, sizes and strides of rows, as the routine takes them."""
        self.kept = 1.0 if adds else 0.0
        """The factor of the result that was there before."""
        self._head = *map(_letter, orders), *map(_whole, sizes)
        self._leading = [_whole(each) for each in leading]
        self._kept = _real(self.kept)

    @staticmethod
    def function() -> Any:
        """The library's function."""
        return _sgemm()

    def run(self, left: int, right: int, out: int, *, factor: float = 1.0) -> None:
        """Compute, on the calling thread alone, with arrays at these addresses."""
        # keeps the library to this thread
        stream()
        first, second, third = self._leading
        matrices = _pointer(left), first, _pointer(right), second, self._kept, _pointer(out), third
        checked(_sgemm()(*self._head, _real(factor), *matrices), "product of matrices")


class BlasGemm:
    """The same by the BLAS that NumPy brings, whose product of these matrices is NumPy's."""

    def __init__(self, lying: tuple[Operand, Operand, Operand], sizes: Sequence[int], adds: bool) -> None:
        a, b, _ = lying
        rows, depth, columns = sizes
        self.described = (a.order, b.order, rows, columns, depth, *(each.leading for each in lying))
        """Orders, sizes and strides of rows, as BLAS takes them."""
        self.kept = 1.0 if adds else 0.0
        """The factor of the result that was there before."""

    @staticmethod
    def function() -> Any:
        """BLAS's function."""
        return wide_product()

    def run(self, left: int, right: int, out: int, *, factor: float = 1.0) -> None:
        """Compute, on the calling thread alone, with arrays at these addresses."""
        *head, first, second, third = self.described
        factors = factor, left, first, right, second
        self.function()(ROW_MAJOR, *head, *factors, self.kept, out, third)


class StackGemm:
    """The same for stacks of matrices, one after the other."""

    def __init__(self, gemm: Gemm | BlasGemm, offsets: Array) -> None:
        self.gemm = gemm
        # as an array: of large batches of ever new lengths, numbers of Python's would fill the memory
        self.offsets = offsets
        """In bytes (products, 3), of the three matrices of each product."""

    def run(self, left: int, right: int, out: int, *, factor: float = 1.0) -> None:
        """Compute, on the calling thread alone, with stacks at these addresses."""
        for addresses in (self.offsets + (left, right, out)).tolist():
            self.gemm.run(*addresses, factor=factor)


AnyGemm: TypeAlias = "Gemm | BlasGemm | StackGemm"


def gemm_of(left: Array, right: Array, out: Array, *, adds: bool = False) -> AnyGemm | None:
    """The product of matrices of float32, or of stacks of them, which with `adds` adds to what `out` holds;
    None where the library cannot read them as they lie.
    """
    ends = ((array.shape, array.strides) for array in (left, right, out))
    return _gemm_of(Gemm, *ends, adds=adds)


def blas_gemm_of(left: Array, right: Array, out: Array, *, adds: bool = False) -> AnyGemm | None:
    """The same by BLAS; None where NumPy does not call it for them, or has another one than OpenBLAS for
    integers of 64 bits.
    """
    is_single = left.dtype == right.dtype == out.dtype == np.float32
    if not is_single or wide_product() is None or min(left.ndim, right.ndim) < 2:
        return None
    ends = ((array.shape, array.strides) for array in (left, right, out))
    return _gemm_of(BlasGemm, *ends, adds=adds)


# the layers of a network are alike
@functools.lru_cache(1024)
def _gemm_of(
    kind: type[Gemm] | type[BlasGemm], left: Lying, right: Lying, out: Lying, *, adds: bool
) -> AnyGemm | None:
    matrices = [(shape[-2:], strides[-2:]) for shape, strides in (left, right, out)]
    lying = operands(*matrices, item=_FLOAT)
    if lying is None:
        return None
    gemm = kind(lying, (*left[0][-2:], right[0][-1]), adds)
    extents = out[0][:-2]
    if not extents:
        return gemm
    steps = np.array([_steps(each, extents) for each in (left, right, out)], np.int64)
    places = np.indices(extents, np.int64).reshape(len(extents), -1)
    return StackGemm(gemm, places.T @ steps.T)


def _steps(lying: Lying, extents: Sequence[int]) -> Sequence[int]:
    """The bytes from one matrix to the next along each dimension of a stack; 0 where one serves all."""
    shape, strides = lying
    missing = len(extents) - (len(shape) - 2)
    own = [0 if extent == 1 else step for extent, step in zip(shape[:-2], strides, strict=False)]
    return (*(0,) * missing, *own)


def matmul_kernel(left: Array, right: Array, out: Array) -> MatmulKernel:
    """The kernel for a product of matrices of float32; OneDnnError for what the library refuses."""
    return _kernel_of(*((array.shape, array.strides) for array in (left, right, out)))


# the layers of a network are alike: 8 kernels where each made its own for 222 products at each new length
@functools.lru_cache(1024)
def _kernel_of(left: Lying, right: Lying, out: Lying) -> MatmulKernel:
    return MatmulKernel(left, right, out)


class MatmulKernel:
    """A product of two matrices of certain shapes and strides."""

    def __init__(self, left: Lying, right: Lying, out: Lying) -> None:
        ends = [
            Desc.strided(shape, [stride // _FLOAT for stride in own]) for shape, own in (left, right, out)
        ]
        what = f"{left[0]} by {right[0]}"
        a, b, c = ends
        described = PrimitiveDesc("matmul", what, engine(), a, b, None, c, Attributes())
        self.name = described.name
        self.primitive = Primitive(described, dict(zip((SRC, WEIGHTS, DST), ends, strict=True)))

    def run(self, left: int, right: int, out: int) -> None:
        """Compute, on the calling thread alone, with arrays at these addresses."""
        self.primitive.run(left, right, out)
