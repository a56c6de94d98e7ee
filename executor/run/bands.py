"""Images of another size as matrix products: each axis by a matrix that is zero but for a narrow band."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.team import on_team, pieces

__all__ = ["BandedImages"]

_BLOCK = 1 << 16  # elements between the two products that stay in the cache
_BAND = 32  # targets of a product: with fewer, products are too small; with more, they multiply by zeros
_SHARED = 1 << 16  # elements of the larger image from which a second thread pays


class _Bands:
    """A matrix (targets, sources) as dense blocks of its rows, each with the sources that it needs."""

    def __init__(self, matrix: Array, height: int) -> None:
        self.blocks: list[tuple[slice, slice, Array]] = []
        for start in range(0, len(matrix), height):
            rows = matrix[start : start + height]
            used = np.flatnonzero(rows.any(axis=0))
            sources = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
            block = np.ascontiguousarray(rows[:, sources])
            self.blocks.append((slice(start, start + len(rows)), sources, block))

    def along_last(self, x: Array, out: Array) -> None:
        """(count, sources) to (count, targets)."""
        for targets, sources, block in self.blocks:
            np.matmul(x[:, sources], block.T, out=out[:, targets])

    def along_middle(self, x: Array, out: Array) -> None:
        """(count, sources, behind) to (count, targets, behind)."""
        for targets, sources, block in self.blocks:
            np.matmul(block, x[:, sources], out=out[:, targets])


class BandedImages:
    """Images as (outside of the rows, rows, between, columns, behind), times a matrix along rows and columns.

    Zeros of a matrix meet infinities, too: `run` says False where its result is not finite, and therefore not
    to be used.
    """

    def __init__(
        self, source: tuple[int, ...], target: tuple[int, ...], rows: Array, columns: Array, threads: int
    ) -> None:
        self.source = source
        self.target = target
        outside, _, between, width, behind = target
        self.is_plane = between == behind == 1
        wide = between * max(width, source[3]) * behind
        if self.is_plane:
            # planes together: a product of few rows costs its call
            size = max(1, _BLOCK // max(source[1] * wide, 1))
            self.rows = _Bands(rows, _BAND)
            tasks: list[Any] = [slice(start, start + size) for start in range(0, outside, size)]
            held = size * source[1] * width
        else:
            size = min(_BAND, max(4, _BLOCK // max(wide, 1)))
            self.rows = _Bands(rows, size)
            tasks = [(image, *band) for image in range(outside) for band in self.rows.blocks]
            held = size * between * source[3] * behind
        self.columns = _Bands(columns, _BAND)
        is_shared = max(np.prod(source), np.prod(target)) >= _SHARED
        members = max(1, min(threads if is_shared else 1, len(tasks)))
        self.shares = [tasks[piece] for piece in pieces(len(tasks), members)]
        self.middle = np.empty((members, held), rows.dtype)

    def run(self, source: Array, target: Array) -> bool:
        """target = the source in the other size; whether all of it is finite."""
        source, target = source.reshape(self.source), target.reshape(self.target)
        some = self._planes if self.is_plane else self._lines
        sums = np.zeros(len(self.shares))

        def work(member: int) -> None:
            with np.errstate(all="ignore"):
                for task in self.shares[member]:
                    sums[member] += some(source, target, self.middle[member], task).sum()

        on_team(len(self.shares), work)
        return bool(np.isfinite(sums).all())

    def _planes(self, source: Array, target: Array, middle: Array, cut: slice) -> Array:
        """Some planes, along their columns first: one product for all their rows."""
        x, out = source[cut, :, 0, :, 0], target[cut, :, 0, :, 0]
        shape = (*x.shape[:2], out.shape[2])
        held = middle[: x.shape[0] * x.shape[1] * out.shape[2]].reshape(shape)
        self.columns.along_last(x.reshape(-1, x.shape[2]), held.reshape(-1, shape[2]))
        self.rows.along_middle(held, out)
        return out

    def _lines(
        self, source: Array, target: Array, middle: Array, task: tuple[int, slice, slice, Array]
    ) -> Array:
        """Some rows of one image, along the rows first: one product for all that stands in them."""
        image, targets, sources, block = task
        x, out = source[image, sources], target[image, targets]
        _, between, width, behind = x.shape
        held = middle[: len(out) * between * width * behind]
        np.matmul(block, x.reshape(len(x), -1), out=held.reshape(len(out), -1))
        count = len(out) * between
        self.columns.along_middle(held.reshape(count, width, behind), out.reshape(count, -1, behind))
        return out
