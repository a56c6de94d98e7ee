"""Batch normalisation over matrices (elements, channels), in blocks that stay in the cache.

A value for each channel is repeated to a long row, for NumPy's loops over a few channels cost more than what
they compute; sums over rows are products with a vector of ones. Each call does the share of one member of a
team, between which the numbers of each channel are put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.scratch import take

__all__ = ["LongRows"]

_BLOCK = 1 << 14  # elements of a block: four of them fit the faster cache of a core
_ROW = 1 << 11  # elements of a row, where that many divide the matrix evenly


class LongRows:
    """Matrices of `elements` x `channels` as rows of several elements, for a team of `members`."""

    def __init__(self, elements: int, channels: int, members: int) -> None:
        self.channels = channels
        self.repeat = max(1, min(elements, _ROW // channels))
        while elements % self.repeat:
            self.repeat -= 1
        self.height = elements // self.repeat
        self.width = self.repeat * channels
        self.members = members
        self.step = max(1, _BLOCK // self.width)

    def rows(self, array: Array) -> Array:
        """An array that lies without gaps, as these rows."""
        return array.reshape(self.height, self.width)

    def repeated(self, factors: Array, dtype: Any) -> Array:
        """A value for each channel, repeated to a row."""
        return np.tile(factors.astype(dtype, copy=False), self.repeat)

    def _blocks(self, member: int) -> Iterator[slice]:
        stop = self.height * (member + 1) // self.members
        for start in range(self.height * member // self.members, stop, self.step):
            yield slice(start, min(start + self.step, stop))

    def _scratch(self, dtype: Any) -> Array:
        return take("rows", (self.step, self.width), dtype)

    def by_channel(self, row: Array) -> Array:
        """The sum of a row's elements of each channel, in double precision."""
        return np.add.reduce(row.reshape(self.repeat, self.channels), axis=0, dtype=np.float64)

    def pivot(self, x: Array) -> Array:
        """A value for each channel from among x, from which sums of squares lose no digits."""
        first = self.rows(x)[: self.step]
        return self.by_channel(np.add.reduce(first, axis=0)) / (len(first) * self.repeat)

    def moments(self, x: Array, pivot: Array, member: int) -> tuple[Array, Array]:
        """The sums of x - pivot and of its squares, for each channel; `pivot` is a row."""
        x = self.rows(x)
        scratch = self._scratch(x.dtype)
        total, squares = np.zeros((2, self.width))
        ones = np.ones(self.step, x.dtype)
        for block in self._blocks(member):
            part = x[block]
            work = scratch[: len(part)]
            np.subtract(part, pivot, out=work)
            total += np.dot(ones[: len(part)], work)
            np.multiply(work, work, out=work)
            squares += np.dot(ones[: len(part)], work)
        return self.by_channel(total), self.by_channel(squares)

    def scaled(self, x: Array, scale: Array, shift: Array, out: Array, member: int) -> None:
        """out = x * scale + shift; both are rows."""
        x, out = self.rows(x), self.rows(out)
        for block in self._blocks(member):
            target = out[block]
            np.multiply(x[block], scale, out=target)
            np.add(target, shift, out=target)

    def products(self, x: Array, d: Array, mean: Array, member: int) -> tuple[Array, Array]:
        """The sums of d and of d * (x - mean), for each channel; `mean` is a row."""
        x, d = self.rows(x), self.rows(d)
        scratch = self._scratch(x.dtype)
        total, weighted = np.zeros((2, self.width))
        ones = np.ones(self.step, x.dtype)
        for block in self._blocks(member):
            part = d[block]
            work = scratch[: len(part)]
            total += np.dot(ones[: len(part)], part)
            np.subtract(x[block], mean, out=work)
            np.multiply(work, part, out=work)
            weighted += np.dot(ones[: len(part)], work)
        return self.by_channel(total), self.by_channel(weighted)

    def gradient(
        self, x: Array, d: Array, rows: tuple[Array, Array, Array, Array], out: Array, member: int
    ) -> None:
        """out = factor * d - ((x - mean) * slope + shift), where `rows` = (mean, factor, slope, shift)."""
        x, d, out = self.rows(x), self.rows(d), self.rows(out)
        mean, factor, slope, shift = rows
        scratch = self._scratch(x.dtype)
        for block in self._blocks(member):
            work = scratch[: block.stop - block.start]
            np.subtract(x[block], mean, out=work)
            np.multiply(work, slope, out=work)
            np.add(work, shift, out=work)
            target = out[block]
            np.multiply(d[block], factor, out=target)
            np.subtract(target, work, out=target)
