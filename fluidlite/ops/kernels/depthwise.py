"""Depthwise convolutions of arrays (H, N, W, C): a multiply and an add for each element of the kernel, over
rows of all channels, in parts that stay in the cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.ops.kernels.channels_last import Portion, Tail
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.scratch import take
from fluidlite.ops.kernels.taps import Taps, residues, taps_of

__all__ = ["DepthwiseLast"]

_PART = 1 << 16  # elements of the result: with its padded operand and a product they fit a cache of 1 MB


@dataclass(frozen=True)
class _Stencil:
    """The elements of x that meet each result, tap by tap."""

    rows: Taps
    columns: Taps

    def parts(self, shape: tuple[int, ...], start: int, stop: int) -> Iterator[tuple[slice, slice]]:
        """(rows of the result, images) that fit the cache together."""
        _, batch, _, channels = shape
        per_image = max(self.columns.count * channels, 1)
        images = max(1, min(batch, _PART // per_image))
        step = max(1, _PART // (per_image * images))
        for first in range(0, batch, images):
            for row in range(start, stop, step):
                yield slice(row, min(row + step, stop)), slice(first, min(first + images, batch))

    def of(self, x: Array, part: tuple[slice, slice]) -> Iterator[tuple[int, int, Array]]:
        """(row tap, column tap, elements of x that meet the part): x with zeros around it, the columns of one
        residue modulo the stride behind each other.
        """
        rows, images = part
        x = x[:, images]
        low = rows.start * self.rows.stride + self.rows.base
        high = (rows.stop - 1) * self.rows.stride + max(self.rows.offsets) + 1
        first = max(low, 0)
        last = min(high, self.rows.size)
        wide = self.columns.count + max(self.columns.phases.values())
        padded = take("padded", (len(self.columns.phases), high - low, x.shape[1], wide, x.shape[3]), x.dtype)
        padded[:, : first - low] = 0
        padded[:, max(last, first) - low :] = 0
        numbers = {}
        for number, phase in enumerate(self.columns.phases):
            numbers[phase] = number
            if last > first:
                self._fill(x[first:last], padded[number, first - low : last - low], phase)
        for (i, down), (j, right) in itertools.product(
            enumerate(self.rows.offsets), enumerate(self.columns.offsets)
        ):
            phase, far = self.columns.place(right)
            begin = down - self.rows.base
            end = begin + (rows.stop - rows.start - 1) * self.rows.stride + 1
            window = padded[numbers[phase], begin : end : self.rows.stride]
            yield i, j, window[:, :, far : far + self.columns.count]

    def _fill(self, x: Array, target: Array, phase: int) -> None:
        taps = self.columns
        wide = target.shape[2]
        low, high = Taps(taps.size, wide, taps.stride, (0,)).inside(taps.base + phase, 0, wide)
        target[:, :, :low] = 0
        target[:, :, high:] = 0
        if high > low:
            begin = low * taps.stride + taps.base + phase
            target[:, :, low:high] = x[:, :, begin : begin + (high - low - 1) * taps.stride + 1 : taps.stride]

    def forward(
        self,
        x: Array,
        w: Array,
        out: Array,
        start: int,
        stop: int,
        finish: Callable[[Array], None] | None = None,
    ) -> None:
        """Rows [start, stop) of out = the sum over taps of the elements times w[i, j] (a value a channel);
        `finish` gets each part while it is in the cache.
        """
        factors = np.repeat(w[:, :, None], self.columns.count, axis=2)
        for part in self.parts(out.shape, start, stop):
            shape = out[part].shape
            total, product = take("depthwise", (2, *shape), out.dtype)
            for number, (i, j, window) in enumerate(self.of(x, part)):
                np.multiply(window, factors[i, j], out=product if number else total)
                if number:
                    np.add(total, product, out=total)
            if finish is not None:
                finish(total)
            out[part] = total

    def filter_gradient(self, x: Array, d: Array, out: Array, start: int, stop: int) -> None:
        """out[i, j] (a value a channel) = the gradient of w from rows [start, stop) of d."""
        sums = np.zeros((*out.shape[:2], self.columns.count, out.shape[2]), d.dtype)
        for part in self.parts(d.shape, start, stop):
            incoming = d[part]
            product = take("depthwise", incoming.shape, d.dtype)
            rows = product.reshape(-1, self.columns.count * d.shape[3])
            ones = np.ones(len(rows), d.dtype)
            for i, j, window in self.of(x, part):
                np.multiply(window, incoming, out=product)
                sums[i, j] += np.dot(ones, rows).reshape(sums.shape[2:])
        np.add.reduce(sums, axis=2, out=out)


class DepthwiseLast:
    """The depthwise convolutions of one geometry, as many filters as channels."""

    shares_filters = False

    def __init__(self, geometry: Geometry) -> None:
        self.windows = _Stencil(*taps_of(geometry))
        self.residues = list(itertools.product(residues(geometry, 0), residues(geometry, 1)))

    def keep(self) -> None:
        """Take note that the filters do not change; a channel has so few numbers that none are kept."""

    def forward(self, x: Array, w: Array, out: Array, mine: Portion, tail: Tail | None = None) -> None:
        """A member's share of out = x convolved with w, and what follows."""
        rows = mine.of(len(out))
        factors = _by_position(w)
        if tail is not None:
            factors = factors * tail.factor
        finish = None if tail is None else tail.finish
        self.windows.forward(x, factors, out, rows.start, rows.stop, finish)

    def grad_input(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's share of out = the gradient of x."""
        for (down, rows, high), (right, columns, wide) in self.residues:
            target = out[high, :, wide]
            share = mine.of(len(target))
            part = _by_position(w[:, :, down, right])
            if not part.size:
                target[share] = 0
                continue
            _Stencil(rows, columns).forward(d, part, target, share.start, share.stop)

    def grad_filter(self, x: Array, d: Array, out: Array, mine: Portion) -> None:
        """out = the gradient of w from a member's rows of d."""
        rows = mine.of(len(d))
        laid = np.empty((*out.shape[2:], len(out)), out.dtype)
        self.windows.filter_gradient(x, d, laid, rows.start, rows.stop)
        out[:, 0] = laid.transpose(2, 0, 1)


def _by_position(w: Array) -> Array:
    """(C, 1, kh, kw) as (kh, kw, C)."""
    found = w[:, 0].transpose(1, 2, 0)
    return np.ascontiguousarray(found)
