"""Matrix products by oneDNN where that is faster than NumPy's BLAS: by rule, from the shapes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.onednn.library import OneDnnError, available
from fluidlite.executor.fast.onednn.matmul import MatmulKernel, matmul_kernel
from fluidlite.executor.run.memory import address_of

__all__ = ["FastProduct", "has_fast_product"]

# Measured on one thread, 137 shapes of 1 to 400 x 10 to 1000 x 10 to 1000: from a million multiply-adds on
# oneDNN takes 0.3 to 1.1 of OpenBLAS's time, 0.87 in the middle; below, OpenBLAS has kernels for small
# matrices, which lose only where the right operand is transposed (0.55 to 1.0).
_LARGE = 1 << 20
_LARGE_TURNED = 1 << 18
_FEW_ROWS = 16  # from which that holds for transposed operands; a single row is OpenBLAS's at all sizes
_FEW_COLUMNS = 64
_LANES = 16
_FORMS = 64  # for which one product holds kernels
_MEASURED = "brg:avx512"  # how the names of the kernels begin that this was measured for


def has_fast_product(rows: int, depth: int, columns: int, turned: bool, dtype: Any) -> bool:
    """True if another kernel than NumPy's is the faster one; `turned`: the right operand is transposed."""
    if dtype != np.float32 or rows < 2 or not available():
        return False
    work = rows * depth * columns
    if turned and rows >= _FEW_ROWS and columns >= _FEW_COLUMNS and work >= _LARGE_TURNED:
        return True
    # columns are computed 16 at a time: of 50, which are 64, oneDNN takes 1.1 of OpenBLAS's time
    is_filled = columns < _LANES or 9 * _LANES * -(-columns // _LANES) <= 10 * columns
    return work >= _LARGE and is_filled


class FastProduct:
    """A product by the faster kernel for its shapes, which is made when they come for the `asked`th time."""

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
        self.addresses = tuple(map(address_of, self.arrays))
        form = (left.shape, left.strides, right.shape, right.strides, out.strides)
        if form != self.form:
            self.form = form
            self.is_decided = form in self.kernels
            self.kernel = self.kernels.get(form)

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
        if self.runs.is_early(self.form):
            return
        if len(self.kernels) >= _FORMS:
            self.kernels.clear()
            self.runs = FirstRuns(self.asked)
        self.kernel = self.kernels[self.form] = self._made()
        self.is_decided = True

    def _made(self) -> MatmulKernel | None:
        left, right, out = self.arrays
        if left.ndim != 2 or right.ndim != 2 or left.dtype != out.dtype or right.dtype != out.dtype:
            return None
        turned = right.strides[0] < right.strides[1]
        (rows, depth), columns = left.shape, right.shape[1]
        if not has_fast_product(rows, depth, columns, turned, out.dtype):
            return None
        try:
            kernel = matmul_kernel(left, right, out)
        except OneDnnError:
            return None
        return kernel if kernel.name.startswith(_MEASURED) else None
