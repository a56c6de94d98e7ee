"""Matrix products by oneDNN where that is faster than NumPy's BLAS: by rule, from the shapes alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.onednn.library import OneDnnError, available, has_avx512
from fluidlite.executor.fast.onednn.matmul import MatmulKernel, matmul_kernel
from fluidlite.executor.run.memory import address_of
from fluidlite.ops.kernels.gemm import blas_cores

__all__ = ["FastProduct", "blas_is_narrow", "has_fast_product"]

# Measured on one thread, 137 shapes of 1 to 400 x 10 to 1000 x 10 to 1000: from a million multiply-adds on
# oneDNN takes 0.3 to 1.1 of OpenBLAS's time, 0.87 in the middle; below, OpenBLAS has kernels for small
# matrices, which lose only where the right operand is transposed (0.55 to 1.0).
_LARGE = 1 << 20
_LARGE_TURNED = 1 << 18
_FEW_ROWS = 16  # from which that holds for transposed operands; a single row is OpenBLAS's at all sizes
_FEW_COLUMNS = 64
_LANES = 16
# Where OpenBLAS's kernels are for half as wide vectors (an old one on a new processor, or OPENBLAS_CORETYPE),
# it takes 1.4 times oneDNN's time from a quarter of a million multiply-adds on, twice that from 4 million.
_LARGE_BESIDE_NARROW = 1 << 18
_WIDE_CORES = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))
_FORMS = 64  # for which one product holds kernels
# multiply-adds of one form that a kernel is worth: BLAS takes 3 ms for them, of which oneDNN saves what it
# takes to make the kernel (0.2 to 0.6 ms)
_WORTH = 1 << 26
_RUNS = 1 << 8  # but no more runs than that
_MEASURED = "brg:avx512"  # how the names of the kernels begin that this was measured for


def blas_is_narrow() -> bool:
    """True if the vectors of OpenBLAS's kernels are half as wide as those of oneDNN's on this processor."""
    return available() and _has_narrow_cores()


@functools.cache
def _has_narrow_cores() -> bool:
    cores = blas_cores()
    return bool(cores) and cores not in _WIDE_CORES and has_avx512()


def has_fast_product(rows: int, depth: int, columns: int, turned: bool, dtype: Any) -> bool:
    """True if another kernel than NumPy's is the faster one; `turned`: the right operand is transposed."""
    if dtype != np.float32 or rows < 2 or not available():
        return False
    work = rows * depth * columns
    if blas_is_narrow() and columns >= _LANES and work >= _LARGE_BESIDE_NARROW:
        return True
    if turned and rows >= _FEW_ROWS and columns >= _FEW_COLUMNS and work >= _LARGE_TURNED:
        return True
    # columns are computed 16 at a time: of 50, which are 64, oneDNN takes 1.1 of OpenBLAS's time
    is_filled = columns < _LANES or 9 * _LANES * -(-columns // _LANES) <= 10 * columns
    return work >= _LARGE and is_filled


class FastProduct:
    """A product by the faster kernel for its shapes, which is made when they come for the `asked`th time and
    have been computed often enough: to make one takes as long as some products, so that sizes that come
    seldom had better do without. With 1 it is made at once.
    """

    def __init__(self, asked: int) -> None:
        self.asked = asked
        self.form: Any = None
        self.runs = FirstRuns(asked)
        self.kernels: dict[Any, MatmulKernel | None] = {}
        """The kernel for each form of the arrays (shapes and strides) that it is decided for; None for
        NumPy's.
        """

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        left, right, out = self.arrays = arrays
        form = (left.shape, left.strides, right.shape, right.strides, out.strides)
        if form != self.form:
            self.form = form
            self.is_decided = form in self.kernels
            self._use(self.kernels.get(form))
        else:
            self._use(self.kernel)

    def _use(self, kernel: MatmulKernel | None) -> None:
        self.kernel = kernel
        if kernel is not None:
            self.addresses = tuple(map(address_of, self.arrays))

    def run(self) -> None:
        """out = left @ right"""
        if not self.is_decided:
            self._count()
        if self.kernel is None:
            np.matmul(*self.arrays)
        else:
            self.kernel.run(*self.addresses)

    def _count(self) -> None:
        """One more run with arrays of this form."""
        left, right, _ = self.arrays
        work = max(left.size * right.shape[-1], 1)
        # whether a kernel is faster is asked once for a size, and not for those that never come again
        if self.runs.is_early(self.form, min(_WORTH // work, _RUNS)):
            return
        if len(self.kernels) >= _FORMS:
            self.kernels.clear()
            self.runs = FirstRuns(self.asked)
        self.kernels[self.form] = self._made() if self._is_faster() else None
        self._use(self.kernels[self.form])
        self.is_decided = True

    def _is_faster(self) -> bool:
        left, right, out = self.arrays
        if left.ndim != 2 or right.ndim != 2 or left.dtype != out.dtype or right.dtype != out.dtype:
            return False
        turned = right.strides[0] < right.strides[1]
        return has_fast_product(len(left), left.shape[1], right.shape[1], turned, out.dtype)

    def _made(self) -> MatmulKernel | None:
        try:
            kernel = matmul_kernel(*self.arrays)
        except OneDnnError:
            return None
        return kernel if kernel.name.startswith(_MEASURED) else None
