"""Matrix products that may add to what their result holds, by the BLAS that NumPy brings.

`np.dot` overwrites its result and wants rows without gaps. BLAS itself adds to the result (beta = 1) and
takes rows at any distance, so the products of a convolution's taps need neither sums nor copies.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.base.process import blas_function

__all__ = [
    "ROW_MAJOR",
    "Lying",
    "Operand",
    "accumulates",
    "adder",
    "blas_cores",
    "gemm",
    "operands",
    "wide_product",
]

ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112  # of cblas.h


@functools.cache
def blas_cores() -> str:
    """The processors that OpenBLAS has chosen its kernels for, such as "SkylakeX"; "" with another BLAS."""
    found = blas_function("openblas_get_corename")
    if found is None:
        return ""
    found[0].restype = ctypes.c_char_p
    return str(found[0]().decode())


@functools.cache
def _product(kind: str) -> Callable[..., Any] | None:
    """BLAS's product of matrices of a dtype."""
    found = blas_function({"f": "cblas_sgemm", "d": "cblas_dgemm"}.get(kind, "none"))
    if found is None:
        return None
    function, integer = found
    number = ctypes.c_float if kind == "f" else ctypes.c_double
    pointer = ctypes.c_void_p
    matrix = (pointer, integer)
    function.argtypes = [*(ctypes.c_int,) * 3, *(integer,) * 3, number, *matrix, *matrix, number, *matrix]
    function.restype = None
    return function


def wide_product() -> Callable[..., Any] | None:
    """BLAS's product of matrices of float32 that takes integers of 64 bits; None with another BLAS."""
    function: Any = _product("f")
    return function if function is not None and ctypes.c_int64 in function.argtypes else None


_FEW = 1 << 13  # numbers in a result


class Operand(NamedTuple):
    """A matrix as BLAS takes it: the distance of its rows (or columns), and which of them it is."""

    leading: int
    order: int

    @property
    def is_turned(self) -> bool:
        """True if its columns lie in memory as rows."""
        return self.order == _TRANSPOSED


def _operand(shape: Sequence[int], strides: Sequence[int], item: int) -> Operand | None:
    """A matrix as it lies; None where neither its rows nor its columns are without gaps."""
    rows, columns = shape
    down, right = strides
    if (columns == 1 or right == item) and down % item == 0 and (rows == 1 or down >= columns * item):
        return Operand(max(down // item, columns), _PLAIN)
    if (rows == 1 or down == item) and right % item == 0 and (columns == 1 or right >= rows * item):
        return Operand(max(right // item, rows), _TRANSPOSED)
    return None


def gemm(left: Array, right: Array, out: Array, add: bool = False) -> None:
    """out = left @ right, or with `add` out += left @ right; all of them matrices of one dtype.

    Shapes and dtypes are the caller's to get right.
    """
    # BLAS's own call takes 8 us to prepare: longer than a few numbers to multiply and add
    product = None if out.size < _FEW else _prepared(left, right, out, float(add))
    if product is None:
        _by_numpy(left, right, out, add)
    else:
        product(1.0)


def accumulates(dtype: Any) -> bool:
    """True if BLAS adds products of matrices of a dtype to what their result holds."""
    return _product(np.dtype(dtype).char) is not None


def adder(left: Array, right: Array, out: Array) -> Callable[[float], object]:
    """add(factor): out += factor * left @ right, as often as wanted for these arrays.

    That takes as long as `out = left @ right`, which BLAS begins by clearing its result.
    """
    product = _prepared(left, right, out, 1.0)
    if product is None:
        return lambda factor: np.add(out, out.dtype.type(factor) * (left @ right), out=out)
    return product


def _prepared(left: Array, right: Array, out: Array, kept: float) -> Callable[[float], object] | None:
    """product(factor): out = kept * out + factor * left @ right; None where that is not a call of BLAS."""
    product = _product(out.dtype.char)
    if product is None:
        return None
    ends = ((array.shape, array.strides) for array in (left, right, out))
    found = operands(*ends, item=out.itemsize)
    if found is None:
        return None
    a, b, c = found
    head = (ROW_MAJOR, a.order, b.order, len(left), right.shape[1], left.shape[1])
    factors = address_of(left), a.leading, address_of(right), b.leading
    places = (*factors, kept, address_of(out), c.leading)
    return lambda factor: product(*head, factor, *places)


Lying: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""The shape of a matrix, and its strides in bytes."""


def operands(left: Lying, right: Lying, out: Lying, *, item: int) -> tuple[Operand, Operand, Operand] | None:
    """The matrices of left @ right = out, of elements of `item` bytes, as BLAS takes them; None where it
    cannot, or there is nothing to multiply.
    """
    if 0 in (*left[0], *right[0]):
        return None
    a, b, c = (_operand(*each, item) for each in (left, right, out))
    if a is None or b is None or c is None or c.order != _PLAIN:
        return None
    return a, b, c


def _by_numpy(left: Array, right: Array, out: Array, add: bool) -> None:
    if add:
        out += left @ right
    else:
        np.matmul(left, right, out=out)
