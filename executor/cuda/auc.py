"""The area under a ROC curve on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.executor.cuda.kernel import THREADS, CudaKernel, element_grid
from fluidlite.executor.plan.objects import OwnObject

__all__ = ["DeviceAuc"]

_FILES = ("blocks.cuh", "auc.cu")


class DeviceAuc(OwnObject):
    """call(scores, labels, positive, negative, area, positive_out, negative_out), where the last column of
    `scores` counts and the states are those of the op `auc`.
    """

    def __init__(self, xp: Any, rows: int, columns: int, bins: int, steps: int, dtype: Any) -> None:
        self.count, self.states, self.area = (
            CudaKernel(xp, name, _FILES, dtype) for name in ("auc_counts", "auc_states", "auc_area")
        )
        self.rows, self.columns, self.bins, self.steps = rows, columns, bins, steps
        self.counts = xp.empty((2, bins), np.int64)

    def __call__(
        self,
        scores: Any,
        labels: Any,
        positive: Any,
        negative: Any,
        area: Any,
        positive_out: Any,
        negative_out: Any,
    ) -> None:
        self.counts.fill(0)
        if self.rows:
            numbers = (self.rows, self.columns, self.bins)
            self.count(*element_grid(self.rows), (scores, labels, self.counts), numbers)
        for number, states in enumerate(((negative, negative_out), (positive, positive_out))):
            numbers = (self.bins, self.steps, number)
            self.states(*element_grid(self.bins), (self.counts, *states), numbers)
        arrays = (positive, negative, positive_out, negative_out, area)
        self.area((1,), (THREADS,), arrays, (self.bins, self.steps))

    @staticmethod
    def explained(rows: int, columns: int, bins: int, *_: Any) -> str:
        """A line for people."""
        return f"CUDA kernels auc_*, {rows} scores in {bins} bins"
