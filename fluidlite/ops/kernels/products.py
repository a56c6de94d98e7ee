"""Products of matrices of which one is small, as in the steps of recurrences.

OpenBLAS packs the operands of a product before it multiplies, except in products of few enough
multiplications, for which it has kernels that read the operands where they are. A weight that is cut into
panels of columns becomes many such products, over views and without copies: 8 rows by 512 x 2048 take 150 us
and whole 570, and by its transpose 233 and 870.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext

__all__ = ["gate_product", "product", "shared_product"]

SMALL = 1_000_000  # multiplications in OpenBLAS's products without packing
SMALL_RESULT = 1200  # numbers in the results of those whose right operand is a transpose
LARGE = 1 << 22  # multiplications from which waking a second thread pays
LARGE_RESULT = 1 << 18  # and numbers in a result, where the time goes into writing them
NARROWEST = 16  # columns of a panel: narrower ones cost more than packing
WIDEST = 256


def _panel(left: Array, right: Array, columns: int) -> int:
    """The number of columns of a panel; 0 where panels win nothing."""
    rows, depth = left.shape
    width = SMALL // max(rows * depth, 1)
    if right.strides[0] == right.itemsize < right.strides[1]:
        width = min(width, SMALL_RESULT // max(rows, 1))
    if width >= columns or width < NARROWEST:
        return 0
    return int(min(1 << (width.bit_length() - 1), WIDEST))


def product(xp: Any, left: Array, right: Array, out: Array | None = None) -> Array:
    """The product of two matrices, in `out` where it is given."""
    columns = right.shape[1]
    width = _panel(left, right, columns) if xp is np and left.dtype == right.dtype else 0
    if not width:
        found: Array = xp.matmul(left, right, out=out)
        return found
    if out is None:
        out = np.empty((len(left), columns), left.dtype)
    whole = columns // width * width
    panels = right[:, :whole].reshape(len(right), -1, width).swapaxes(0, 1)
    np.matmul(left, panels, out=out[:, :whole].reshape(len(left), -1, width).swapaxes(0, 1))
    if whole < columns:
        np.matmul(left, right[:, whole:], out=out[:, whole:])
    return out


def shared_product(ctx: KernelContext, xp: Any, left: Array, right: Array) -> Array:
    """The product of two matrices, shared among the threads of the run where it is large."""
    rows, depth = left.shape
    columns = right.shape[1]
    is_large = rows * depth * columns >= LARGE or rows * columns >= LARGE_RESULT
    if xp is not np or not is_large or left.dtype != right.dtype:
        return product(xp, left, right)
    out = np.empty((rows, columns), left.dtype)

    def some_rows(of: slice) -> None:
        product(xp, left[of], right, out[of])

    def some_columns(of: slice) -> None:
        product(xp, left, right[:, of], out[:, of])

    # each thread packs all of one operand: of a weight's gradient, 128 x 2048 by 2048 x 512, that should be
    # the left one (1.4 ms on each of two threads, and 1.6 with the right one)
    axis = int(columns > rows)
    if ctx.compiled is not None and ctx.compiled.share_product(ctx, left, right, out, axis):
        return out
    if axis:
        ctx.share(columns, some_columns)
    else:
        ctx.share(rows, some_rows)
    return out


def gate_product(xp: Any, left: Array, weight: Array, out: Array) -> None:
    """Write the product with the weight's columns of each gate into a plane of `out` [gates, n, size].

    In planes element-wise work costs half of that on rows, and products of the planes are smaller.
    """
    count, rows, size = out.shape
    depth = len(weight)
    width = _panel(left, weight, size) if xp is np else 0
    pieces = -(-size // width) if width else 1
    if size % pieces:
        pieces = 1
    width = size // pieces
    panels = weight.reshape(depth, count, pieces, width).transpose(1, 2, 0, 3)
    xp.matmul(left, panels, out=out.reshape(count, rows, pieces, width).swapaxes(1, 2))
