"""Weighted sums of pixels, for ops that read images between the pixels or average them over regions.

An image (N, C, H, W) is held as a table with a row of C channels for each pixel. What an op reads is then a
sparse matrix times that table, and the gradient of the image the transposed matrix times the gradient: all
regions, bins and channels at once, and no scatter-add.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fluidlite.base.differentiation.array_module import TracedModule
from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.numbers import rows_and_columns

__all__ = ["RowSampler", "bilinear_corners", "entries_of", "image_of_pixels", "pixels_of", "region_sampler"]


def pixels_of(xp: Any, image: Array) -> Array:
    """(N, C, H, W) as a table of N * H * W rows."""
    return xp.ascontiguousarray(image.transpose(0, 2, 3, 1)).reshape(-1, image.shape[1])


def image_of_pixels(xp: Any, table: Array, shape: tuple[int, ...]) -> Array:
    """A table of pixels as an image of `shape` (N, C, H, W)."""
    n, c, h, w = shape  # n may be -1
    found = table.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return xp.ascontiguousarray(found)


class RowSampler:
    """Sums of the rows of a table: sum m has the entries k from starts[m] to starts[m + 1], weights[k] *
    table[rows[k]].
    """

    def __init__(self, xp: Any, starts: Array, rows: Array, weights: Array, table_rows: int) -> None:
        shape = len(starts) - 1, table_rows
        if isinstance(xp, TracedModule):
            self.matrix: Any = _Entries(xp, starts, rows, weights, shape)
            return
        if xp is np and max(len(rows), table_rows) < 1 << 31:
            # SciPy would look for the largest first
            starts, rows = starts.astype(np.int32), rows.astype(np.int32)
        self.matrix = _csr_matrix(xp)((weights, rows, starts), shape=shape)

    @classmethod
    def of_owners(
        cls, xp: Any, owners: Array, rows: Array, weights: Array, sums: int, table_rows: int
    ) -> RowSampler:
        """Entry k belongs to sum owners[k]; they ascend. Entries of weight 0 are dropped, unless the sums are
        differentiated by the weights.
        """
        # by their places: NumPy takes five times as long for what a mask chooses
        kept = xp.arange(len(weights)) if isinstance(xp, TracedModule) else xp.flatnonzero(weights)
        starts = _starts_of(xp, xp.bincount(owners.take(kept), minlength=sums))
        return cls(xp, starts, rows.take(kept), weights.take(kept), table_rows)

    def read(self, table: Array) -> Array:
        """(sums, C) from a table (rows, C)."""
        return self.matrix @ table

    def spread(self, gradient: Array) -> Array:
        """The gradient of the table, from that of what `read` gave."""
        return self.matrix.T @ gradient


class _Entries:
    """A sparse matrix for kernels that are differentiated: with derivatives by its entries and by factors."""

    def __init__(self, xp: Any, starts: Array, rows: Array, weights: Array, shape: tuple[int, int]) -> None:
        self.xp = xp
        self.weights = weights
        self.shape = shape
        self.places = xp.arange(shape[0]).repeat(starts[1:] - starts[:-1]), rows

    @property
    def T(self) -> _Entries:
        """The transposed matrix."""
        other = copy.copy(self)
        other.places = self.places[::-1]
        other.shape = self.shape[::-1]
        return other

    def __matmul__(self, table: Array) -> Array:
        to, of = self.places
        out: Array = self.xp.zeros((self.shape[0], table.shape[1]), table.dtype)
        self.xp.add.at(out, to, self.weights[:, None] * table[of])
        return out


def _csr_matrix(xp: Any) -> Any:
    # imported when it is called: SciPy is slow to start, and few programs need it
    if xp is np:
        from scipy import sparse  # type: ignore[import-untyped]
    else:
        from cupyx.scipy import sparse  # type: ignore[import-not-found,no-redef]
    return sparse.csr_matrix


def region_sampler(xp: Any, images: Array, down: Array, across: Array, image_count: int) -> RowSampler:
    """Sums over bins of regions whose weights are products: (R, P, H) down and (R, Q, W) across.

    Sum (r, p, q) is that over y and x of down[r, p, y] * across[r, q, x] * image[images[r, p, q], y, x];
    `images` is (R, P, Q), or broadcasts to that.
    """
    regions, high, height = down.shape
    wide, width = across.shape[1:]
    bins = (regions, high, wide)
    by_row = down.reshape(-1)
    by_column = across.reshape(-1)
    # most weights are 0: a bin reads a few rows and columns of the image
    y_places = xp.flatnonzero(by_row)
    x_places = xp.flatnonzero(by_column)
    y_bins, ys = rows_and_columns(y_places, height)
    x_bins, xs = rows_and_columns(x_places, width)
    y_starts = _starts_of(xp, xp.bincount(y_bins, minlength=regions * high))
    x_starts = _starts_of(xp, xp.bincount(x_bins, minlength=regions * wide))
    y_counts = y_starts[1:] - y_starts[:-1]
    x_counts = x_starts[1:] - x_starts[:-1]

    def of_bins(numbers: Array, *shape: int) -> Array:
        return xp.broadcast_to(numbers.reshape(*shape), bins).reshape(-1)

    # first the rows that each bin reads, then the pixels in each of these rows: no division for any of them
    rows_read = of_bins(y_counts, regions, high, 1)
    columns_read = of_bins(x_counts, regions, 1, wide)
    owners, y = entries_of(xp, rows_read)
    y += of_bins(y_starts[:-1], regions, high, 1).take(owners)
    lines, x = entries_of(xp, columns_read.take(owners))
    x += of_bins(x_starts[:-1], regions, 1, wide).take(owners).take(lines)
    weights = by_row.take(y_places).take(y).take(lines) * by_column.take(x_places).take(x)
    first = (of_bins(images, *images.shape).take(owners) * height + ys.take(y)) * width
    starts = _starts_of(xp, rows_read * columns_read)
    return RowSampler(xp, starts, first.take(lines) + xs.take(x), weights, image_count * height * width)


def _starts_of(xp: Any, counts: Array) -> Array:
    """The number of the first entry of each owner, and behind the last one's the number of all."""
    starts = xp.zeros(len(counts) + 1, "int64")
    xp.cumsum(counts, out=starts[1:])
    return starts


def entries_of(xp: Any, counts: Array) -> tuple[Array, Array]:
    """For owners with `counts` entries each: the owner of every entry, and its number within the owner's."""
    starts = _starts_of(xp, counts)
    number = xp.arange(int(starts[-1]))
    if xp is np:
        owners = np.arange(len(counts)).repeat(counts)
    else:
        owners = xp.searchsorted(starts[1:], number, side="right")  # CuPy's repeat takes no array of counts
    number -= starts[:-1].take(owners)
    return owners, number


def bilinear_corners(xp: Any, y: Array, x: Array, height: int, width: int) -> Any:
    """The four pixels around points, in a new last axis: flat places in the image, weights, and how these
    change with y and with x.

    Corners outside the image have the weight 0, and stand at the image's border.
    """
    top = xp.floor(y)
    left = xp.floor(x)
    below = y - top
    right = x - left
    ones = xp.ones_like(y)
    rows = xp.stack([top, top, top + 1, top + 1], axis=-1)
    columns = xp.stack([left, left + 1, left, left + 1], axis=-1)
    down = xp.stack([1 - below, 1 - below, below, below], axis=-1)
    across = xp.stack([1 - right, right, 1 - right, right], axis=-1)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    rows = xp.clip(rows, 0, height - 1)
    columns = xp.clip(columns, 0, width - 1)
    places = (rows * width + columns).astype("int64")
    by_y = xp.stack([-ones, -ones, ones, ones], axis=-1) * across * inside
    by_x = xp.stack([-ones, ones, -ones, ones], axis=-1) * down * inside
    return places, down * across * inside, by_y, by_x
