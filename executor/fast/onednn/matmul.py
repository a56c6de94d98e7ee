"""Matrix products by oneDNN."""

from __future__ import annotations

import functools
from typing import TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.onednn.library import engine
from fluidlite.executor.fast.onednn.primitive import (
    DST,
    SRC,
    WEIGHTS,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
)

__all__ = ["MatmulKernel", "matmul_kernel"]

_FLOAT = 4  # bytes

Lying: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""The shape of a matrix, and its strides in bytes."""


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
