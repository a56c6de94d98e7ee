"""Padded views of batches of sequences, which are stored row by row with a level of detail, or padded."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Lod
from fluidlite.ops.kernels.numbers import check_lengths
from fluidlite.ops.kernels.sequence_rows import lengths_of, level_of

__all__ = ["Batch", "check_count", "check_level"]


def check_count(op: str, slot: str, count: int, other: str, found: int) -> None:
    """ShapeError where two operands do not have as many sequences."""
    if count != found:
        raise ShapeError(f"op {op!r}: {slot} has {count} sequences, but {other} has {found}")


def check_level(op: str, slot: str, lod: Lod, rows: int, length_slot: str) -> None:
    """ShapeError for sequences with neither a level of detail that covers their rows nor lengths."""
    if not lod:
        raise ShapeError(
            f"op {op!r}: {slot} has no level of detail, so it must be padded, but {length_slot} is "
            "missing; give the lengths, or feed it with fluid.create_lod_tensor"
        )
    level_of(op, slot, lod, rows=rows)


class Batch:
    """Which rows make up which sequence: `pad` gives [sequences, time, ...] of a value, `unpad` goes back.

    Made from a level of detail (its last level) or, for values that are padded already, from `lengths`
    [sequences]. ShapeError where there is neither, and for lengths that cannot be; `op`, `slot` and
    `length_slot` are what it names.
    """

    def __init__(
        self,
        xp: Any,
        value: Array,
        lod: Lod,
        lengths: Array | None,
        op: str,
        slot: str,
        length_slot: str = "Length",
    ) -> None:
        if lengths is None:
            check_level(op, slot, lod, len(value), length_slot)
        else:
            if value.ndim < 2:
                raise ShapeError(
                    f"op {op!r}: {slot} has the shape {list(value.shape)}, wanted [rows, steps, ...] with "
                    f"{length_slot}"
                )
            check_lengths(xp, op, length_slot, lengths, *value.shape[:2])
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
