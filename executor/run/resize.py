"""Images of another size, block by block of their rows, shared by a team of threads."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.bands import BandedImages
from fluidlite.executor.run.team import on_team, pieces
from fluidlite.ops.neural.interpolate import Taps, matrix_of, taps_of

__all__ = ["ResizedImages"]

_BLOCK = 1 << 15  # elements: what is resampled along the rows is still in the cache for the columns
_SHARED = 1 << 16  # elements of the larger image from which a second thread pays
_PRODUCTS = (np.dtype("float32"), np.dtype("float64"))  # what BLAS multiplies

Part: TypeAlias = "tuple[Array | None, Array, Array | None]"
"""Targets (None for all), the elements that they take, and their weights (None for ones)."""


class ResizedImages:
    """An op's images of `shape` (N, C, H, W) made larger or smaller, and the gradient; `letters` says how the
    dimensions lie in memory: NCHW, NHWC or HNWC.
    """

    def __init__(
        self,
        xp: Any,
        type: str,
        shape: tuple[int, ...],
        dtype: Any,
        attrs: Mapping[str, Any],
        letters: str,
        threads: int,
    ) -> None:
        out, along = taps_of(type, shape, dtype, attrs)
        self.letters = letters
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.threads = threads
        self.taps = dict(along)
        n, c, *_ = shape
        self.small = self._form(*shape)
        self.large = self._form(n, c, *out)

    @functools.cached_property
    def forward_of(self) -> _AlongBoth:
        """From the op's images to those of the other size, sum by sum."""
        parts = [_forward_parts(self.taps.get(axis), self.dtype) for axis in (2, 3)]
        return _AlongBoth(self.small, self.large, parts, self.dtype, self.threads)

    @functools.cached_property
    def gradient_of(self) -> _AlongBoth:
        """The way back, sum by sum."""
        parts = [_gradient_parts(self.taps.get(axis), self.shape[axis], self.dtype) for axis in (2, 3)]
        return _AlongBoth(self.large, self.small, parts, self.dtype, self.threads)

    @functools.cached_property
    def matrices(self) -> tuple[Array, Array] | None:
        """The maps along rows and columns; None where products would not pay."""
        if len(self.taps) < 2 or self.dtype not in _PRODUCTS:
            return None
        rows, columns = (matrix_of(self.shape[axis], self.taps[axis]) for axis in (2, 3))
        return rows.astype(self.dtype), columns.astype(self.dtype)

    @functools.cached_property
    def forward_products(self) -> BandedImages | None:
        """From the op's images to those of the other size, as products."""
        if self.matrices is None:
            return None
        return BandedImages(self.small, self.large, *self.matrices, self.threads)

    @functools.cached_property
    def gradient_products(self) -> BandedImages | None:
        """The way back, as products."""
        if self.matrices is None:
            return None
        rows, columns = self.matrices
        return BandedImages(self.large, self.small, rows.T, columns.T, self.threads)

    def _form(self, n: int, c: int, h: int, w: int) -> tuple[int, ...]:
        """The dimensions as (outside of the rows, rows, between, columns, behind)."""
        forms = {"NCHW": (n * c, h, 1, w, 1), "NHWC": (n, h, 1, w, c), "HNWC": (1, h, n, w, c)}
        return forms[self.letters]

    def forward(self, x: Array, out: Array) -> None:
        """out = x in the other size."""
        if self.forward_products is None or not self.forward_products.run(x, out):
            self.forward_of(x, out)

    def backward(self, d: Array, out: Array) -> None:
        """out = the gradient of x."""
        if self.gradient_products is None or not self.gradient_products.run(d, out):
            self.gradient_of(d, out)


class _AlongBoth:
    """Sums along rows, then along columns, of each image."""

    def __init__(
        self,
        source: tuple[int, ...],
        target: tuple[int, ...],
        parts: Sequence[Sequence[Part] | None],
        dtype: Any,
        threads: int,
    ) -> None:
        self.source = source
        self.target = target
        self.columns = parts[1]
        outside, rows, between, width, behind = target
        wide = between * max(width, source[3]) * behind
        height = max(1, min(rows, _BLOCK // max(wide, 1)))
        starts = range(0, rows, height)
        cuts = [slice(start, min(start + height, rows)) for start in starts]
        blocks = [(cut, None if parts[0] is None else _cut(parts[0], cut)) for cut in cuts]
        tasks = [(image, *block) for image in range(outside) for block in blocks]
        is_shared = max(np.prod(source), np.prod(target)) >= _SHARED
        self.members = max(1, min(threads if is_shared else 1, len(tasks)))
        self.tasks = [tasks[piece] for piece in pieces(len(tasks), self.members)]
        self.middle = np.empty((self.members, 2, height, between, source[3], behind), dtype)
        self.spare = np.empty((self.members, height, between, width, behind), dtype)

    def __call__(self, source: Array, target: Array) -> None:
        source, target = source.reshape(self.source), target.reshape(self.target)

        def work(member: int) -> None:
            for image, cut, rows in self.tasks[member]:
                self._block(source[image], target[image][cut], cut, rows, member)

        on_team(self.members, work)

    def _block(
        self, source: Array, target: Array, cut: slice, rows: Sequence[Part] | None, member: int
    ) -> None:
        """Some rows of one image."""
        height = len(target)
        if self.columns is None and rows is None:
            target[...] = source[cut]
            return
        middle, spare = self.middle[member]
        if rows is None:
            held = source[cut]
        else:
            held = target if self.columns is None else middle[:height]
            _summed(source, 0, rows, held, spare[:height])
        if self.columns is not None:
            _summed(held, 2, self.columns, target, self.spare[member][:height])


def _summed(source: Array, axis: int, parts: Sequence[Part], out: Array, spare: Array) -> None:
    """out = the sum of weighted elements of `source` along an axis."""
    is_first = True
    for targets, index, weight in parts:
        if is_first and targets is not None:
            # elements that take nothing
            out.fill(0)
            is_first = False
        shape = (*out.shape[:axis], len(index), *out.shape[axis + 1 :])
        found = out if is_first else spare.reshape(-1)[: np.prod(shape, dtype=int)].reshape(shape)
        source.take(index, axis=axis, out=found, mode="clip")
        if weight is not None:
            np.multiply(found, weight.reshape(-1, *(1,) * (out.ndim - axis - 1)), out=found)
        if targets is not None:
            # no target comes twice
            out[(slice(None),) * axis + (targets,)] += found
        elif not is_first:
            np.add(out, found, out=out)
        is_first = False


def _forward_parts(taps: Taps | None, dtype: Any) -> list[Part] | None:
    if taps is None:
        return None
    return [(None, index, _weights(weight, dtype)) for index, weight in taps]


def _weights(weight: Array, dtype: Any) -> Array | None:
    return None if (weight == 1).all() else weight.astype(dtype)


def _gradient_parts(taps: Taps | None, size: int, dtype: Any) -> list[Part] | None:
    """The elements of the gradient that each of `size` elements takes: the first of each, the second, ..."""
    if taps is None:
        return None
    taken: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for index, weight in taps:
        for place, (target, share) in enumerate(zip(index.tolist(), weight, strict=True)):
            taken[target].append((place, share))
    parts: list[Part] = []
    for number in range(max(map(len, taken))):
        targets = [target for target, found in enumerate(taken) if len(found) > number]
        places, shares = zip(*(taken[target][number] for target in targets), strict=True)
        some = None if len(targets) == size else np.array(targets)
        parts.append((some, np.array(places), _weights(np.array(shares), dtype)))
    return parts


def _cut(parts: Sequence[Part], cut: slice) -> list[Part]:
    """The parts for some of the targets, counted from the first of those."""
    found: list[Part] = []
    for targets, index, weight in parts:
        chosen = cut
        if targets is not None:
            first, last = np.searchsorted(targets, (cut.start, cut.stop))
            chosen = slice(int(first), int(last))
            targets = targets[chosen] - cut.start
            if len(targets) == cut.stop - cut.start:
                targets = None
        found.append((targets, index[chosen], None if weight is None else weight[chosen]))
    return found
