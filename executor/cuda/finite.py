"""The search for gradients that are not finite, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import CudaKernel, element_grid
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["DeviceUnscale"]

_FILES = ("blocks.cuh", "finite.cu")


class DeviceUnscale(OwnObject):
    """call(scale, factors, found, *gradients): the factor that takes the scale off each gradient, 0 from the
    first one on that is not finite; `found` says that there is one.
    """

    def __init__(self, xp: Any, dtype: Any, dtypes: Sequence[Any]) -> None:
        self.searches = [CudaKernel(xp, "not_finite", _FILES, each) for each in dtypes]
        self.factors = CudaKernel(xp, "unscale_factors", _FILES, dtype)
        self.flags = xp.zeros(len(dtypes), np.int32)
        self.pieces = [self.flags[number : number + 1] for number in range(len(dtypes))]

    def __call__(self, scale: Any, factors: Any, found: Any, *gradients: Any) -> None:
        self.flags.fill(0)
        for search, flag, gradient in zip(self.searches, self.pieces, gradients, strict=True):
            if gradient.size:
                search(*element_grid(gradient.size), (gradient, flag), (gradient.size,))
        self.factors((1,), (1,), (scale, self.flags, factors, found), (len(self.pieces),))

    @staticmethod
    def explained(_: Any, dtypes: Sequence[Any]) -> str:
        """A line for people."""
        return f"CUDA kernels not_finite for each of {len(dtypes)} gradients, and unscale_factors"
