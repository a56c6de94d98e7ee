"""`fluid.dataloader.batch_sampler`: the indices of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.imported_names import imported_names

__all__ = ["BatchSampler"]


class BatchSampler:
    """Yields lists of `batch_size` indices of `dataset`, or of `indices`; the last may be shorter unless
    `drop_last`.

    `shuffle` draws from NumPy's global random numbers, which a program may seed.
    """

    def __init__(
        self,
        dataset: Any = None,
        indices: Sequence[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if (dataset is None) == (indices is None):
            raise AssertionError("BatchSampler takes either a dataset or indices")
        if not isinstance(batch_size, int) or batch_size <= 0:
            raise AssertionError(f"batch_size should be a positive integer, but got {batch_size}")
        self.indices = list(range(len(dataset))) if indices is None else list(indices)
        self.shuffle, self.batch_size, self.drop_last = shuffle, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        order = list(self.indices)
        if self.shuffle:
            np.random.shuffle(order)
        for start in range(0, len(order), self.batch_size):
            group = order[start : start + self.batch_size]
            if len(group) == self.batch_size or not self.drop_last:
                yield group

    def __len__(self) -> int:
        whole, rest = divmod(len(self.indices), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
