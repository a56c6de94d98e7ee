"""Normalisation of responses over neighbouring channels (lrn) on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.executor.cuda.kernel import CudaKernel, element_grid
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["DeviceLrn"]

_FILES = ("blocks.cuh", "lrn.cu")


class DeviceLrn(OwnObject):
    """call(x, out, middle), or call(x, out, middle, d, dx) where it is the `gradient`.

    `sizes` are the number of elements, that of channels, the elements from one channel to the next, and the
    channels on either side that count. `numbers` are k (of the op alone), alpha and beta.
    """

    def __init__(
        self, xp: Any, dtype: Any, gradient: bool, sizes: Sequence[int], numbers: Sequence[float]
    ) -> None:
        self.kernel = CudaKernel(xp, "lrn_grad" if gradient else "lrn", _FILES, dtype)
        self.numbers = (*sizes, *map(float, numbers))
        self.is_empty = not sizes[0]
        self.grid = element_grid(sizes[0])

    def __call__(self, *arrays: Any) -> None:
        if not self.is_empty:  # a launch of no blocks is refused
            self.kernel(*self.grid, arrays, self.numbers)

    @staticmethod
    def explained(dtype: Any, gradient: bool, sizes: Sequence[int], _: Any) -> str:
        """A line for people."""
        return f"CUDA kernel {'lrn_grad' if gradient else 'lrn'}, over {sizes[1]} channels"
