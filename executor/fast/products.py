"""Matrix products by oneDNN where that is faster than NumPy's BLAS: by rule, from the shapes alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls, share_once
from fluidlite.executor.fast.onednn.library import OneDnnError, available, has_avx512
from fluidlite.executor.fast.onednn.matmul import AnyGemm, MatmulKernel, blas_gemm_of, gemm_of, matmul_kernel
from fluidlite.executor.run.products import (
    DescendingProduct,
    PlainProduct,
    ProductCut,
    ProductForm,
    SharedProducts,
)
from fluidlite.ops.kernels.gemm import adder, blas_cores

__all__ = [
    "CalledDescent",
    "CalledProduct",
    "FastDescent",
    "FastProduct",
    "FastSharedProducts",
    "has_fast_product",
    "share_product",
]

# Measured on one thread, 137 shapes of 1 to 400 x 10 to 1000 x 10 to 1000: from a million multiply-adds on
# oneDNN takes 0.3 to 1.1 of OpenBLAS's time, 0.87 in the middle; below, OpenBLAS has kernels for small
# matrices, which lose only where the right operand is transposed (0.55 to 1.0).
_LARGE = 1 << 20
_LARGE_TURNED = 1 << 18
# from which that holds for transposed operands, and up to which no kernel is faster than the library's
# routine for any shapes; a single row is OpenBLAS's at all sizes
_FEW_ROWS = 16
_FEW_COLUMNS = 64
_LANES = 16
# Where OpenBLAS's kernels are for half as wide vectors (an old one on a new processor, or OPENBLAS_CORETYPE),
# it takes 1.4 times oneDNN's time from a quarter of a million multiply-adds on, twice that from 4 million.
_LARGE_BESIDE_NARROW = 1 << 18
_WIDE_CORES = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))
_FORMS = 64  # for which one product holds kernels
# Multiply-adds of one form that a kernel is worth: it takes 0.2 to 0.6 ms to make, and saves a tenth of the
# 2 ms that they take.
_WORTH = 1 << 26
_RUNS = 1 << 8  # but no more runs than that
_MEASURED = "brg:avx512"  # how the names of the kernels begin that this was measured for


@functools.cache
def _is_measured() -> bool:
    """True on a processor like the one that the rules were found on."""
    return has_avx512()


@functools.cache
def _has_narrow_cores() -> bool:
    """True if the vectors of OpenBLAS's kernels are half as wide as those of oneDNN's on such a processor."""
    cores = blas_cores()
    return bool(cores) and cores not in _WIDE_CORES


def has_fast_product(rows: int, depth: int, columns: int, turned: bool, dtype: Any) -> bool:
    """True if another kernel than NumPy's is the faster one; `turned`: the right operand is transposed."""
    return dtype == np.float32 and _can_be_fast() and _is_fast(rows, depth, columns, turned)


def _can_be_fast() -> bool:
    return available() and _is_measured()


def _is_fast(rows: int, depth: int, columns: int, turned: bool) -> bool:
    if rows < 2:
        return False
    work = rows * depth * columns
    if _has_narrow_cores() and columns >= _LANES and work >= _LARGE_BESIDE_NARROW:
        return True
    if turned and rows >= _FEW_ROWS and columns >= _FEW_COLUMNS and work >= _LARGE_TURNED:
        return True
    # columns are computed 16 at a time: of 50, which are 64, oneDNN takes 1.1 of OpenBLAS's time
    is_filled = columns < _LANES or 9 * _LANES * -(-columns // _LANES) <= 10 * columns
    return work >= _LARGE and is_filled


class FastProduct:
    """A product by the faster library for its shapes, from the `asked`th run on.

    A kernel for the shapes is made when they come for the `asked`th time and have been computed often enough:
    to make one takes as long as some products, so that sizes that come seldom had better do without. With 1
    it is made at once.
    """

    def __init__(self, asked: int) -> None:
        self.asked = asked
        self.can_be_fast = _can_be_fast()
        self.count = 0
        self.form: Any = None
        self.runs = FirstRuns(asked)
        self.blas: AnyGemm | None = None
        """BLAS's product, where that is to be shared as it is."""
        self.kernels: dict[Any, MatmulKernel | AnyGemm | None] = {}
        """What computes each form of the arrays (shapes and strides) that is decided; None for NumPy."""

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        left, right, out = self.arrays = arrays
        form = (left.shape, left.strides, right.shape, right.strides, out.strides)
        if form != self.form:
            self.form = form
            self.is_decided = form in self.kernels or not (self.can_be_fast and _is_faster(*arrays))
            self.kernel = self.kernels.get(form)
        self._use(self.kernel)

    def _use(self, kernel: MatmulKernel | AnyGemm | None) -> None:
        self.kernel = kernel
        if kernel is not None:
            self.addresses = tuple(map(address_of, self.arrays))

    @property
    def is_machine_code(self) -> bool:
        """True if machine code computes all runs from now on, as long as the arrays are the same."""
        if self.is_decided and self.kernel is None:
            self._use_blas()
        return self.is_decided and (self.kernel or self.blas) is not None

    def _use_blas(self) -> None:
        self.blas = blas_gemm_of(*self.arrays)
        self.addresses = tuple(map(address_of, self.arrays))

    def call(self, calls: MachineCalls) -> None:
        """Call the library, or have it called."""
        if isinstance(self.kernel, MatmulKernel):
            calls.primitive(self.kernel.primitive, *self.addresses)
            return
        gemm = self.kernel or self.blas
        assert gemm is not None
        calls.product(gemm, *self.addresses)

    def run(self) -> None:
        """out = left @ right"""
        if not self.is_decided:
            self._decide()
        if self.kernel is None:
            np.matmul(*self.arrays)
        else:
            self.kernel.run(*self.addresses)

    def _decide(self) -> None:
        """Take what computes this run, and all later ones of the form if that is decided."""
        self.count += 1
        left, right, out = self.arrays
        has_kernel = out.ndim == 2 and len(left) > _FEW_ROWS and (_is_turned(right) or not _is_turned(left))
        work = max(left.size * right.shape[-1], 1)
        is_early = has_kernel and self.runs.is_early(self.form, min(_WORTH // work, _RUNS))
        if self.count < self.asked:
            return
        if is_early:
            self._use(self.kernel or gemm_of(*self.arrays))
            return
        if len(self.kernels) >= _FORMS:
            self.kernels.clear()
            self.runs = FirstRuns(self.asked)
        made = (_made(*self.arrays) if has_kernel else None) or gemm_of(*self.arrays)
        self.kernels[self.form] = made
        self.is_decided = True
        self._use(made)


class FastDescent:
    """out -= rate * left @ right, by the faster library for the shapes from the `asked`th run on."""

    def __init__(self, asked: int) -> None:
        self.asked = asked
        self.can_be_fast = _can_be_fast()
        self.count = 0

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        left, right, out, self.rate = self.arrays = arrays
        self.add: Callable[[float], object] = adder(left, right, out)
        self.is_decided = not (self.can_be_fast and _is_faster(left, right, out))
        self.gemm: AnyGemm | None = None

    @property
    def is_machine_code(self) -> bool:
        """True if machine code computes all runs from now on, as long as the arrays are the same."""
        if self.is_decided and self.gemm is None:
            self.gemm = blas_gemm_of(*self.arrays[:3], adds=True)
        return self.gemm is not None

    def call(self, calls: MachineCalls) -> None:
        """Call the library, or have it called."""
        assert self.gemm is not None
        calls.product(self.gemm, *map(address_of, self.arrays[:3]), rate=self.rate)

    def run(self) -> None:
        """Move out."""
        if not self.is_decided:
            self._decide()
        self.add(-self.rate.item())

    def _decide(self) -> None:
        self.count += 1
        if self.count < self.asked:
            return
        *matrices, _ = self.arrays
        self.gemm = gemm_of(*matrices, adds=True)
        self.is_decided = True
        if self.gemm is not None:
            places = tuple(map(address_of, matrices))
            gemm = self.gemm
            self.add = lambda factor: gemm.run(*places, factor=factor)


def share_product(threads: int, left: Array, right: Array, out: Array, axis: int) -> bool:
    """Write the product of two matrices on a team whose members compute rows of it (axis 0) or columns; False
    where no machine code takes them as they lie.
    """
    cut = ProductCut.COLUMNS if axis else ProductCut.ROWS
    parts = [cut.of((left, right, out), part, threads) for part in range(threads)]
    is_fast = _can_be_fast() and _is_faster(left, right, out)
    gemms = [gemm_of(*part) if is_fast else blas_gemm_of(*part) for part in parts]

    def work(calls: MachineCalls, number: int) -> None:
        gemm = gemms[number]
        assert gemm is not None
        calls.product(gemm, *map(address_of, parts[number]))

    if None in gemms or out.shape[axis] < threads:
        return False
    share_once(threads, threads, work)
    return True


class CalledProduct(PlainProduct):
    """A product by NumPy's BLAS, whose calls a team may share."""

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        super().place(*arrays)
        self.gemm = blas_gemm_of(*arrays)

    @property
    def is_machine_code(self) -> bool:
        """True if machine code computes it, as long as the arrays are the same."""
        return self.gemm is not None

    def call(self, calls: MachineCalls) -> None:
        """Call BLAS, or have it called."""
        assert self.gemm is not None
        calls.product(self.gemm, *map(address_of, self.arrays))


class CalledDescent(DescendingProduct):
    """out -= rate * left @ right by BLAS, whose calls a team may share."""

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        super().place(*arrays)
        self.gemm = blas_gemm_of(*self.held, adds=True)

    @property
    def is_machine_code(self) -> bool:
        """True if machine code computes it, as long as the arrays are the same."""
        return self.gemm is not None and bool(self.rate.dtype == np.float32)

    def call(self, calls: MachineCalls) -> None:
        """Call BLAS, or have it called."""
        assert self.gemm is not None
        calls.product(self.gemm, *map(address_of, self.held), rate=self.rate)


class FastSharedProducts(SharedProducts):
    """`SharedProducts` of the classes of this file: as soon as machine code computes all of them, the team
    shares its calls.
    """

    def __init__(self, xp: Any, forms: Sequence[ProductForm], members: int) -> None:
        super().__init__(xp, forms, members)
        self.shared = SharedCalls(members)
        self.is_machine_code = False

    def _place(self, number: int, arrays: Sequence[Array]) -> None:
        super()._place(number, arrays)
        self.is_machine_code = False
        self.shared.forget()

    def _compute(self) -> None:
        if self.is_machine_code:
            self.shared.run(None, self.members, self._call)
            return
        super()._compute()
        parts: Sequence[Sequence[Any]] = self.parts
        self.is_machine_code = all(product.is_machine_code for part in parts for product in part)

    def _call(self, calls: MachineCalls, number: int) -> None:
        part: Sequence[Any] = self.parts[number]
        for product in part:
            product.call(calls)


def _made(left: Array, right: Array, out: Array) -> MatmulKernel | None:
    try:
        kernel = matmul_kernel(left, right, out)
    except OneDnnError:
        return None
    return kernel if kernel.name.startswith(_MEASURED) else None


def _is_faster(left: Array, right: Array, out: Array) -> bool:
    if left.ndim < 2 or right.ndim < 2:
        return False
    (rows, depth), columns = left.shape[-2:], right.shape[-1]
    if not _is_fast(rows, depth, columns, _is_turned(right)):
        return False
    return bool(left.dtype == right.dtype == out.dtype == np.float32)


def _is_turned(matrix: Array) -> bool:
    """True for a matrix, or a stack of some, that is transposed to how it lies in memory."""
    return matrix.strides[-2] < matrix.strides[-1]
