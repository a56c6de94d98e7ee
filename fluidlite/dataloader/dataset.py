"""`fluid.dataloader.dataset`: data sets with a length and an index."""

from __future__ import annotations

from typing import Any

__all__ = ["Dataset"]


class Dataset:
    """Base of data sets: give `__getitem__(index)`, which returns a sample, a tuple of arrays, and
    `__len__`.
    """

    def __getitem__(self, index: int) -> Any:
        raise TypeError(f"'{type(self).__name__}' must define __getitem__")

    def __len__(self) -> int:
        raise TypeError(f"'{type(self).__name__}' must define __len__")
