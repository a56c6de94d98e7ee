"""Convolutions of two dimensions on NumPy, of arrays seen as (H, N, W, C).

Filters are (O, C / groups, kh, kw). Each call does the part of one member of a team: some rows of the
result, or some of its channels. Which of the two depends on what the members would do more than once: lay out
the filters, or unfold x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.correlation import Correlation
from fluidlite.ops.kernels.gemm import gemm
from fluidlite.ops.kernels.scratch import take
from fluidlite.ops.kernels.taps import residues, taps_of

__all__ = ["ChannelsLast", "Portion", "Tail"]

_EVERYTHING = slice(None)
_LOW = 8  # rows that two members cannot share evenly enough
_CACHED = 1 << 16  # elements of filters that stay in the cache while their order is changed
_FOLDED = 1 << 18  # elements of the unfolded gradient at a time
_FEW = 4  # channels of a result of which products are slow
_DEEP = 64  # filters from which the gradients of strided windows are one product
_NARROW = 32  # channels that are worth sharing: products of fewer columns are slow


@dataclass(frozen=True)
class Portion:
    """The share of a member of a team."""

    member: int = 0
    members: int = 1

    def of(self, count: int) -> slice:
        """Its part of `count` things."""
        return slice(count * self.member // self.members, count * (self.member + 1) // self.members)


@dataclass(frozen=True)
class Tail:
    """The steps behind a convolution of fixed filters: a factor for each filter, with which it is multiplied
    when it is laid out, a number that is added to its channel, and relu.
    """

    factor: Array
    shift: Array
    relu: bool

    def of(self, part: slice) -> Tail:
        """The same for some channels."""
        return Tail(self.factor[part], self.shift[part], self.relu)

    def finish(self, part: Array) -> None:
        """Finish a part of the result, (H, N, W, C), all but the factors."""
        np.add(part, self.shift, out=part)
        if self.relu:
            np.maximum(part, 0, out=part)


@dataclass(frozen=True)
class _Residue:
    """The positions in x of one residue modulo the strides: their gradient is a convolution of stride 1 of
    the result's gradient with some elements of the kernel, the last first.
    """

    correlation: Correlation
    kernel: tuple[slice, slice]
    places: tuple[slice, slice]


class ChannelsLast:
    """The convolutions of one geometry."""

    def __init__(self, geometry: Geometry) -> None:
        g = self.geometry = geometry
        self.groups = g.groups
        self.filters = g.w[0] // g.groups
        self.channels = g.w[1]
        self.correlation = Correlation(*taps_of(g), self.channels)
        self._kept: dict[tuple[int, int], Sequence[Array]] | None = None
        self._residues = [
            _Residue(Correlation(down, right, self.filters), (i, j), (high, wide))
            for (i, down, high), (j, right, wide) in itertools.product(residues(g, 0), residues(g, 1))
        ]

    # ------------------------------------------------------------------ sharing
    def by_channels(self, channels: int, high: int) -> bool:
        """True if a team had better share the channels of the result than its rows."""
        g = self.geometry
        if self.groups > 1 or channels < _NARROW:
            return False
        # to lay out an element of the filters costs about as much as to unfold ten
        layout = 0 if set(g.kernel) == {1} else 10 * math.prod(g.w)
        return high < _LOW or layout > math.prod(g.x) * g.kernel[1]

    def _filter_parts(self, mine: Portion) -> tuple[Portion, slice]:
        """(share of the rows, channels) of a member in the forward pass and in the filters' gradient."""
        if self.shares_filters:
            return Portion(), mine.of(self.filters)
        return mine, _EVERYTHING

    @property
    def shares_filters(self) -> bool:
        """True if members compute the gradients of different filters, so that nothing is left to add up."""
        return self.by_channels(self.filters, self.geometry.spatial[0])

    def _groups(self) -> Iterator[tuple[slice, slice]]:
        """(channels of the result, channels of x) of each group."""
        for group in range(self.groups):
            yield (
                slice(group * self.filters, (group + 1) * self.filters),
                slice(group * self.channels, (group + 1) * self.channels),
            )

    # ------------------------------------------------------------------ forward
    def keep(self) -> None:
        """Lay out the filters of the forward pass at its next call, and no more until this one is called
        again: they do not change.
        """
        self._kept = {}

    def forward(self, x: Array, w: Array, out: Array, mine: Portion, tail: Tail | None = None) -> None:
        """A member's share of out = x convolved with w, and what follows."""
        share, channels = self._filter_parts(mine)
        rows = share.of(len(out))
        for results, inputs in self._groups():
            some = range(len(w))[results][channels]
            part = slice(some.start, some.stop)
            filters = [matrix.T for matrix in self._kept_filters(w, part, tail)]
            finish = None if tail is None else tail.of(part).finish
            self.correlation.forward(x[..., inputs], filters, out[..., part], rows.start, rows.stop, finish)

    def _kept_filters(self, w: Array, part: slice, tail: Tail | None) -> Sequence[Array]:
        """Some filters in the order of products, with the factors of the tail."""
        if self._kept is None:
            return self._filters(w[part])
        key = (part.start, part.stop)
        if key not in self._kept:
            mine = w[part] if tail is None else w[part] * tail.factor[part, None, None, None]
            laid = self._filters(mine)
            # 1 x 1 without a tail are the program's own array, the others lie in scratch memory
            is_own = set(self.geometry.kernel) == {1}
            self._kept[key] = laid if is_own else [matrix.copy() for matrix in laid]
        return self._kept[key]

    def _filters(self, w: Array) -> Sequence[Array]:
        """(O, kw * C) for each row of the kernel, or (O, kh * kw * C) once."""
        o, c, kh, kw = w.shape
        if kh == kw == 1:
            return [w.reshape(o, c)]  # as they lie
        if self.correlation.merged:
            laid = take("conv filters", (o, kh, kw, c), w.dtype)
            laid[...] = w.transpose(0, 2, 3, 1)
            return [laid.reshape(o, -1)]
        laid = take("conv filters", (kh, o, kw, c), w.dtype)
        laid[...] = w.transpose(2, 0, 3, 1)
        return list(laid.reshape(kh, o, kw * c))

    def _rows(self, w: Array) -> Sequence[Array]:
        """(O, kw * C) for each row of the kernel."""
        laid = self._filters(w)
        if len(laid) == w.shape[2]:
            return laid
        (merged,) = laid
        return [
            merged[:, i * self.correlation.width :][:, : self.correlation.width] for i in range(w.shape[2])
        ]

    # ------------------------------------------------------------------ the gradient of x
    def grad_input(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's share of out = the gradient of x."""
        if self._folds:
            self._fold(d, w, out, mine)
            return
        if self._scatters:
            self._scatter(d, w, out, mine)
            return
        share, channels = mine, _EVERYTHING
        if self.by_channels(self.channels, len(out)):
            share = Portion()
            channels = mine.of(self.channels)
        for residue in self._residues:
            target = out[residue.places[0], :, residue.places[1]]
            rows = share.of(len(target))
            for results, inputs in self._groups():
                part = w[results, channels][:, :, residue.kernel[0], residue.kernel[1]]
                result = target[..., inputs][..., channels]
                if not part.size:
                    result[rows] = 0  # strides that are longer than the kernel leave out elements
                    continue
                filters = self._flipped(part, residue.correlation.merged)
                residue.correlation.forward(d[..., results], list(filters), result, rows.start, rows.stop)

    def _flipped(self, w: Array, merged: bool) -> Sequence[Array]:
        """(kw * O, C) for each row of a part of the kernel, or (kh * kw * O, C) once."""
        o, c, kh, kw = w.shape
        if kh == kw == 1 and set(self.geometry.kernel) == {1}:
            return [w.reshape(o, c)]  # as they lie
        laid = take("conv filters", (kh, kw, o, c), w.dtype)
        laid[...] = w.transpose(2, 3, 0, 1)
        return [laid.reshape(-1, c)] if merged else list(laid.reshape(kh, kw * o, c))

    @property
    def _folds(self) -> bool:
        """True if x has so many more elements than the result that most products would be with zeros: 32 of
        LeNet's 8 x 8 from 12 x 12 take 5.6 ms as a convolution of the padded gradient, and 1.6 folded.
        """
        g = self.geometry
        is_simple = self.groups == 1 and g.strides == (1, 1)
        is_worth = math.prod(g.x[2:]) >= 2 * math.prod(g.spatial) or self.channels <= _FEW
        return is_simple and is_worth

    def _fold(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's images of out: the gradient of the unfolded x, added where windows overlap."""
        g = self.geometry
        high, _, wide, channels = out.shape
        (top, _), (left, _) = g.pads
        width = self.correlation.width
        filters = self._rows(w)
        some = mine.of(out.shape[1])
        step = max(1, _FOLDED // (g.padded[0] * g.spatial[1] * width))
        for first in range(some.start, some.stop, step):
            images = slice(first, min(first + step, some.stop))
            columns = self._columns(d[:, images], filters)
            target = out[:, images]
            target[...] = 0
            for j in range(g.kernel[1]):
                # the element j of the windows at 0, 1, ... are those from `shift` on
                shift = j * g.dilations[1] - left
                low = max(shift, 0)
                stop = min(shift + g.spatial[1], wide)
                if stop <= low:  # that of every window lies in the padding
                    continue
                part = target[:, :, low:stop]
                found = columns[top : top + high, :, low - shift : stop - shift]
                np.add(part, found[..., j * channels : (j + 1) * channels], out=part)

    @property
    def _scatters(self) -> bool:
        """True if products of the few taps of a residue are slower than one of all taps."""
        is_deep = self.filters >= _DEEP and self.filters > self.channels
        return self.groups == 1 and self.geometry.strides != (1, 1) and is_deep

    def _scatter(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's images of out, or its channels where there are few images: the gradients of all windows
        by one product, added where they lie. 32 to 64 channels at 224 x 224, 3 x 3 by steps of 2: 9 ms, where
        a product for each residue of the positions takes 15.
        """
        batch = out.shape[1]
        images, part = mine.of(batch), _EVERYTHING
        if batch < mine.members:
            images = _EVERYTHING
            part = mine.of(out.shape[3])
        target = out[:, images, :, part]
        incoming = d[:, images]
        if not target.size:
            return  # fewer channels than members
        target[...] = 0
        w = w[:, part]
        o, c, kh, kw = w.shape
        filters = take("conv filters", (o, kh, kw, c), w.dtype)
        filters[...] = w.transpose(0, 2, 3, 1)
        places = max(target.shape[1] * d.shape[2], 1)
        step = max(1, _FOLDED // (places * kh * kw * c))
        for start in range(0, len(d), step):
            rows = slice(start, min(start + step, len(d)))
            dense = take("conv product", incoming[rows].shape, d.dtype)
            dense[...] = incoming[rows]
            found = take("conv unfolded", (*dense.shape[:3], kh, kw, c), d.dtype)
            gemm(dense.reshape(-1, o), filters.reshape(o, -1), found.reshape(-1, kh * kw * c))
            self._add_windows(found, target, rows)

    def _add_windows(self, found: Array, target: Array, rows: slice) -> None:
        """target += the windows of some rows of the result: (rows, images, ow, kh, kw, C)."""
        down = self.correlation.rows
        right = self.correlation.columns
        for i, j in itertools.product(range(len(down.offsets)), range(len(right.offsets))):
            high, inside = down.reached(down.offsets[i], rows.start, rows.stop)
            wide, across = right.reached(right.offsets[j])
            reached = target[inside, :, across]
            shown = slice(high.start - rows.start, high.stop - rows.start)
            np.add(reached, found[shown, :, wide, i, j], out=reached)

    def _columns(self, d: Array, filters: Sequence[Array]) -> Array:
        """The gradient of x unfolded along the width: (rows with their padding, images, ow, kw * C)."""
        g = self.geometry
        shape = (g.padded[0], *d.shape[1:3], self.correlation.width)
        columns = take("conv unfolded", shape, d.dtype)
        columns[...] = 0
        dense = take("conv product", d.shape, d.dtype)
        dense[...] = d
        for i, matrix in enumerate(filters):
            rows = columns[i * g.dilations[0] :][: len(d)]
            gemm(dense.reshape(-1, d.shape[3]), matrix, rows.reshape(-1, shape[3]), add=True)
        return columns

    # ------------------------------------------------------------------ the gradient of w
    def grad_filter(self, x: Array, d: Array, out: Array, mine: Portion) -> None:
        """A member's share of the gradient of w: where `shares_filters` some filters of `out`, else all of
        them from some rows of d.
        """
        share, channels = self._filter_parts(mine)
        rows = share.of(len(d))
        for results, inputs in self._groups():
            target = out[results][channels]
            if rows.start == rows.stop:
                target[...] = 0
                continue
            laid, matrices = self._gradients(target)
            incoming = d[..., results][..., channels]
            self.correlation.filter_gradient(x[..., inputs], incoming, matrices, rows.start, rows.stop)
            if laid is not None:
                _copy_by_position(target, laid)

    def _gradients(self, target: Array) -> tuple[Array | None, list[Array]]:
        """Scratch for a gradient, in the order of `target`, and the matrices that it consists of."""
        o, c, kh, kw = target.shape
        if kh == kw == 1:
            return None, [target.reshape(o, c)]
        if self.correlation.merged:
            laid = take("conv filters", (o, kh, kw, c), target.dtype)
            return laid.transpose(0, 3, 1, 2), [laid.reshape(o, -1)]
        laid = take("conv filters", (kh, o, kw, c), target.dtype)
        return laid.transpose(1, 3, 0, 2), list(laid.reshape(kh, o, kw * c))


def _copy_by_position(target: Array, laid: Array) -> None:
    """Filters as the program has them = the same in the order of products, one element of the kernel after
    the other: 0.5 ns an element, where a copy with the kernel's few elements innermost takes 1.3.
    """
    o, c, kh, kw = target.shape
    step = max(1, _CACHED // (c * kh * kw))
    for start in range(0, o, step):
        some = slice(start, start + step)
        for i, j in itertools.product(range(kh), range(kw)):
            target[some, :, i, j] = laid[some, :, i, j]
