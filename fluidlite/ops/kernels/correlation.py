"""Convolutions over arrays with the channels last: (H, N, W, C), in any order in memory.

A part of x is unfolded along the width, so that a row of the scratch array holds the kw * C elements that
meet one element of the result. Each row of the kernel then is one matrix product over all elements of that
part, which BLAS adds to the result. The part is small enough to stay in the cache, so unfolding costs a few
percent of the products (8 x 56 x 56 x 64, 3 x 3: 0.6 of 21 ms), and no layer keeps scratch memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from numpy.lib.stride_tricks import as_strided

from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.gemm import gemm
from fluidlite.ops.kernels.scratch import take

__all__ = ["Correlation", "Taps"]

_PART = 1 << 19  # elements that are unfolded at a time: larger parts win nothing, and a quarter loses a third
_SHALLOW = 32  # products of fewer columns lose more by adding than unfolding along the height costs


@dataclass(frozen=True)
class Taps:
    """The elements of one dimension that meet each of `count` results: result o meets the elements
    o * stride + offset, for each offset; those outside of [0, size) are zeros.
    """

    size: int
    count: int
    stride: int
    offsets: tuple[int, ...]

    def inside(self, offset: int, start: int, stop: int) -> tuple[int, int]:
        """The results in [start, stop) for which a tap lies inside."""
        low = max(start, -(offset // self.stride))
        high = min(stop, (self.size - 1 - offset) // self.stride + 1)
        return min(low, stop), max(high, min(low, stop))

    @property
    def whole(self) -> bool:
        """True if every result meets the element in its own place, and no other."""
        return self.offsets == (0,) and self.stride == 1 and self.count == self.size

    @functools.cached_property
    def base(self) -> int:
        """The lowest offset."""
        return min(self.offsets)

    @functools.cached_property
    def phases(self) -> dict[int, int]:
        """Offset modulo stride -> how many results' worth of elements the taps of that phase reach on."""
        reach: dict[int, int] = {}
        for offset in self.offsets:
            phase, far = self.place(offset)
            reach[phase] = max(reach.get(phase, 0), far)
        return reach

    def place(self, offset: int) -> tuple[int, int]:
        """The phase of an offset, and how many results later its elements are another result's base."""
        far, phase = divmod(offset - self.base, self.stride)
        return phase, far


@dataclass(frozen=True)
class Correlation:
    """out[oh, n, ow] = the sum over row taps i and column taps j of x[row, n, column] @ filters[i, j].

    `filters` come as a matrix for each row tap, of kw * C rows and a column for each channel of the result;
    where `merged`, as one matrix of all kh * kw * C rows.
    """

    rows: Taps
    columns: Taps
    channels: int

    @functools.cached_property
    def width(self) -> int:
        """The elements of x in one row of the kernel."""
        return len(self.columns.offsets) * self.channels

    @functools.cached_property
    def merged(self) -> bool:
        """True if x is unfolded along the height as well."""
        return self.width < _SHALLOW and len(self.rows.offsets) > 1

    @property
    def plain(self) -> bool:
        """True if x can be multiplied as it lies."""
        return self.rows.whole and self.columns.whole

    def parts(self, batch: int, start: int, stop: int) -> Iterator[tuple[slice, slice]]:
        """(rows of the result, images) that fit the cache together."""
        taps = len(self.rows.offsets)
        per_row = max(batch * self.columns.count * self.width * (taps if self.merged else 1), 1)
        step = max(1, _PART // per_row - (0 if self.merged else taps - 1))
        images = batch
        if per_row * taps > 8 * _PART:  # a single row is far beyond the cache
            step = max(1, min(8, stop - start))
            images = max(1, batch * _PART // (per_row * step))
        for first in range(0, batch, images):
            for row in range(start, stop, step):
                yield slice(row, min(row + step, stop)), slice(first, min(first + images, batch))

    # ------------------------------------------------------------------ products
    def forward(
        self,
        x: Array,
        filters: list[Array],
        out: Array,
        start: int,
        stop: int,
        finish: Callable[[Array], None] | None = None,
    ) -> None:
        """Rows [start, stop) of `out`; `finish` gets each part while it is in the cache."""
        batch = x.shape[1]
        for rows, images in self.parts(batch, start, stop):
            target = out[rows, images]
            results = _matrices(target)
            scratch = None
            if results is None:
                scratch = take("conv product", target.shape, out.dtype)
                results = [scratch.reshape(-1, out.shape[3])]
            for tap, source in enumerate(self.unfolded(x, rows, images)):
                for result, left in zip(results, _split(source, len(results)), strict=True):
                    gemm(left, filters[tap], result, add=tap > 0)
            if finish is not None:
                finish(target if scratch is None else scratch)
            if scratch is not None:
                target[...] = scratch

    def filter_gradient(
        self, x: Array, d: Array, out: list[Array], start: int, stop: int, add: bool = False
    ) -> None:
        """out[tap] (columns of d, elements of the tap) = the gradient of the filters from rows [start, stop)
        of `d`.
        """
        for rows, images in self.parts(x.shape[1], start, stop):
            source = d[rows, images]
            incoming = _matrices(source)
            if incoming is None:
                scratch = take("conv product", source.shape, d.dtype)
                scratch[...] = source
                incoming = [scratch.reshape(-1, d.shape[3])]
            for tap, matrix in enumerate(self.unfolded(x, rows, images)):
                pairs = zip(incoming, _split(matrix, len(incoming)), strict=True)
                for number, (left, right) in enumerate(pairs):
                    gemm(left.T, right, out[tap], add=add or number > 0)
            add = True

    # ------------------------------------------------------------------ unfolding
    def unfolded(self, x: Array, rows: slice, images: slice) -> list[Array]:
        """For each row tap (or once, where merged) the matrix whose rows meet the elements of the result."""
        x = x[:, images]
        count = rows.stop - rows.start
        size = (x.shape[1], self.columns.count)
        if self.plain and _is_dense(x[rows]):
            return [x[rows].reshape(-1, self.channels)]
        if self.merged:
            return [self._by_both(x, rows.start, count, size)]
        taps = self.rows
        starts: dict[int, int] = {}
        total = 0
        for phase, reach in taps.phases.items():
            starts[phase] = total
            total += count + reach
        target = take("conv unfolded", (total, *size, self.width), x.dtype)
        for phase, reach in taps.phases.items():
            begin = starts[phase]
            self._fill_rows(x, rows.start, taps.base + phase, target[begin : begin + count + reach])
        found = []
        for offset in taps.offsets:
            phase, far = taps.place(offset)
            begin = starts[phase] + far
            found.append(target[begin : begin + count].reshape(-1, self.width))
        return found

    def _by_both(self, x: Array, start: int, count: int, size: tuple[int, int]) -> Array:
        depth = len(self.rows.offsets) * self.width
        target = take("conv unfolded", (count, *size, depth), x.dtype)
        for i, offset in enumerate(self.rows.offsets):
            self._fill_rows(x, start, offset, target[..., i * self.width : (i + 1) * self.width])
        return target.reshape(-1, depth)

    def _fill_rows(self, x: Array, start: int, offset: int, target: Array) -> None:
        """Unfold the rows (start + q) * stride + offset of x into target[q]; rows outside are zeros."""
        taps = self.rows
        low, high = taps.inside(offset, start, start + len(target))
        target[: low - start] = 0
        target[high - start :] = 0
        if high > low:
            first = low * taps.stride + offset
            last = (high - 1) * taps.stride + offset
            self._fill(x[first : last + 1 : taps.stride], target[low - start : high - start])

    def _fill(self, x: Array, target: Array) -> None:
        """Unfold rows of x along the width."""
        taps = self.columns
        spans = [taps.inside(offset, 0, taps.count) for offset in taps.offsets]
        low = max(span[0] for span in spans)
        high = min(span[1] for span in spans)
        steps = {b - a for a, b in zip(taps.offsets, taps.offsets[1:], strict=False)}
        item = x.itemsize
        # elements that are neighbours in memory are copied together
        is_dense = x.strides[2] == self.channels * item and (self.channels == 1 or x.strides[3] == item)
        if high > low and steps == {1} and is_dense:
            first = low * taps.stride + taps.offsets[0]
            shape = (*x.shape[:2], high - low, self.width)
            strides = (*x.strides[:2], taps.stride * x.strides[2], item)
            target[:, :, low:high] = as_strided(x[:, :, first:], shape, strides)
            self._fill_taps(x, target, 0, low)
            self._fill_taps(x, target, high, taps.count)
        else:
            self._fill_taps(x, target, 0, taps.count)

    def _fill_taps(self, x: Array, target: Array, start: int, stop: int) -> None:
        """The results [start, stop) of each row, tap by tap."""
        taps = self.columns
        for j, offset in enumerate(taps.offsets):
            if start == stop:
                return
            part = target[..., j * self.channels : (j + 1) * self.channels]
            low, high = taps.inside(offset, start, stop)
            part[:, :, start:low] = 0
            part[:, :, high:stop] = 0
            if high > low:
                first = low * taps.stride + offset
                last = (high - 1) * taps.stride + offset
                _copy_channels(part[:, :, low:high], x[:, :, first : last + 1 : taps.stride])


def _copy_channels(target: Array, source: Array) -> None:
    """target = source; a few channels that are no neighbours in the source go one by one, as NumPy's loop
    over so few elements costs more than the copies.
    """
    if source.shape[3] <= 4 and source.strides[3] != source.itemsize:
        for channel in range(source.shape[3]):
            target[..., channel] = source[..., channel]
    else:
        target[...] = source


def _is_dense(array: Array) -> bool:
    """True if the elements lie behind each other, each with all its channels."""
    return bool(array.flags.c_contiguous)


def _matrices(array: Array) -> list[Array] | None:
    """(H, N, W, C) as one matrix of all elements, or as one for each row of images where those lie apart;
    None where not even these are matrices.
    """
    high, images, wide, channels = array.shape
    row, image, element, channel = array.strides
    if channel != array.itemsize or (images > 1 and image != wide * element):
        return None
    shape = (images * wide, channels)
    if high == 1 or row == images * wide * element:
        return [as_strided(array, (high * shape[0], channels), (element, channel))]
    return [as_strided(part, shape, (element, channel)) for part in array]


def _split(matrix: Array, parts: int) -> list[Array]:
    """The rows of a matrix in equal parts."""
    if parts == 1:
        return [matrix]
    return list(matrix.reshape(parts, -1, matrix.shape[1]))
