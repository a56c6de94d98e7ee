"""Padded views of batches of sequences, which are stored row by row with a level of detail, or padded."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import Lod
from fluidlite.ops.kernels.sequence_rows import lengths_of

__all__ = ["Batch"]


class Batch:
    """Which rows make up which sequence: `pad` gives [sequences, time, ...] of a value, `unpad` goes back.

    Made from a level of detail (its last level) or, for values that are padded already, from `lengths`
    [sequences]. ValueError where there is neither.
    """

    def __init__(self, xp: Any, value: Array, lod: Lod, lengths: Array | None = None) -> None:
        if lengths is None and not lod:
            raise ValueError("sequences need a level of detail or lengths")
        self.xp = xp
        self.rows: Any = None
        if lengths is not None:
            self.lengths = lengths.reshape(-1)
            steps = value.shape[1]
        else:
            offsets = np.asarray(lod[-1], np.int64)
            sizes = lengths_of(offsets)
            steps = int(sizes.max(initial=0))
            self.lengths = xp.asarray(sizes)
            # beyond the end of a sequence any row will do, as long as there is one of that number
            last = max(int(offsets[-1]) - 1, 0)
            self.rows = xp.asarray(np.minimum(offsets[:-1, None] + np.arange(steps), last))
        self.mask = xp.arange(steps) < self.lengths[:, None]

    def take(self, order: Array) -> Batch:
        """The sequences at the positions `order`; nothing can be padded or unpadded by it."""
        found = Batch.__new__(Batch)
        found.xp, found.rows = self.xp, None
        found.lengths, found.mask = self.lengths[order], self.mask[order]
        return found

    def pad(self, value: Array) -> Any:
        """`value` as [sequences, time, ...]; what stands beyond the end of a sequence means nothing."""
        return value if self.rows is None else value.take(self.rows, axis=0)

    def unpadded(self, value: Array) -> Any:
        """One number a row of `value`, as it is stored, without what stands beyond the ends."""
        if self.rows is None:
            return value.reshape(self.mask.shape)[self.mask]
        return value.reshape(-1)

    def unpad(self, padded: Array) -> Any:
        """The rows of `padded` as they were stored: zeros beyond the ends where they were padded."""
        if self.rows is not None:
            rows = padded.reshape(-1, *padded.shape[2:])
            return rows.take(self.xp.flatnonzero(self.mask), axis=0)
        mask = self.mask.reshape(self.mask.shape + (1,) * (padded.ndim - 2))
        return self.xp.where(mask, padded, padded.dtype.type(0))
