"""Matrix products by oneDNN."""

from __future__ import annotations

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

__all__ = ["MatmulKernel"]


class MatmulKernel:
    """A product of two matrices of float32 of certain shapes and strides; OneDnnError for what the library
    refuses.
    """

    def __init__(self, left: Array, right: Array, out: Array) -> None:
        ends = Desc.of(left), Desc.of(right), Desc.of(out)
        what = f"{left.shape} by {right.shape}"
        a, b, c = ends
        described = PrimitiveDesc("matmul", what, engine(), a, b, None, c, Attributes())
        self.name = described.name
        self.primitive = Primitive(described, dict(zip((SRC, WEIGHTS, DST), ends, strict=True)))

    def run(self, left: int, right: int, out: int) -> None:
        """Compute, on the calling thread alone, with arrays at these addresses."""
        self.primitive.run(left, right, out)
