"""Convolutions over arrays with the channels last: (H, N, W, C), in any order in memory.

A part of x is unfolded along the width, so that a row of the scratch array holds the kw * C elements that
meet one element of the result. Each row of the kernel then is one matrix product over all elements of that
part, which BLAS adds to the result. The part is small enough to stay in the cache, so unfolding costs a few
percent of the products (8 x 56 x 56 x 64, 3 x 3: 0.6 of 21 ms), and no layer keeps scratch memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.ops.kernels.gemm import gemm
from fluidlite.ops.kernels.overlapping import Overlapping, as_rows
from fluidlite.ops.kernels.scratch import take
from fluidlite.ops.kernels.taps import Taps

__all__ = ["Correlation"]

_PART = 1 << 19  # elements that are unfolded at a time: larger parts win nothing, and a quarter loses a third
# adding the products of the kernel's rows costs more than smaller products where those have few columns (the
# first layers: twice as fast in one), and a tenth where many are added: 5 x 5 over 20 to 64 channels
_SHALLOW, _TALL, _DEEP = 32, 5, 400


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
        """True if all rows of the kernel are one product, for each row of the result."""
        count = len(self.rows.offsets)
        is_worth = self.width < _SHALLOW or (count >= _TALL and self.width < _DEEP)
        return is_worth and count > 1 and self.rows.spacing == 1

    @property
    def plain(self) -> bool:
        """True if x can be multiplied as it lies."""
        return self.rows.whole and self.columns.whole

    def parts(self, batch: int, start: int, stop: int) -> Iterator[tuple[slice, slice]]:
        """(rows of the result, images) that fit the cache together."""
        taps = len(self.rows.offsets)
        per_row = max(batch * self.columns.count * self.width, 1)
        step = max(1, _PART // per_row - taps + 1)
        if self.merged:  # rows between those of the taps are unfolded, too
            step = max(1, step // self.rows.stride)
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
        for rows, images in self.parts(x.shape[1], start, stop):
            target = out[rows, images]
            if self.merged:
                self._forward_merged(x[:, images], filters[0], target, rows, finish)
                continue
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

    def _forward_merged(
        self, x: Array, filters: Array, target: Array, rows: slice, finish: Callable[[Array], None] | None
    ) -> None:
        operands = self.overlapping.operands(x, rows.start, rows.stop)
        results = as_rows(target)
        if results is not None:
            np.matmul(operands, filters, out=results)
            if finish is not None:
                finish(target)
            return
        scratch = take("conv product", target.shape, target.dtype)
        np.matmul(operands, filters, out=scratch.reshape(*operands.shape[:2], -1))
        if finish is not None:
            finish(scratch)
        target[...] = scratch

    def filter_gradient(
        self, x: Array, d: Array, out: list[Array], start: int, stop: int, add: bool = False
    ) -> None:
        """out[tap] (columns of d, elements of the tap) = the gradient of the filters from rows [start, stop)
        of `d`.
        """
        for rows, images in self.parts(x.shape[1], start, stop):
            source = d[rows, images]
            if self.merged:
                self._gradient_merged(x[:, images], source, out[0], rows, add)
                add = True
                continue
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

    def _gradient_merged(self, x: Array, d: Array, out: Array, rows: slice, add: bool) -> None:
        operands = self.overlapping.operands(x, rows.start, rows.stop)
        incoming = as_rows(d)
        if incoming is None:
            scratch = take("conv product", d.shape, d.dtype)
            scratch[...] = d
            incoming = scratch.reshape(*operands.shape[:2], -1)
        products = take("conv row partials", (len(operands), *out.shape), out.dtype)
        np.matmul(incoming.transpose(0, 2, 1), operands, out=products)
        if add:
            out += np.add.reduce(products, axis=0)
        else:
            np.add.reduce(products, axis=0, out=out)

    @functools.cached_property
    def overlapping(self) -> Overlapping:
        """The operands of products, where `merged`."""
        return Overlapping(self.rows, self.columns)

    # ------------------------------------------------------------------ unfolding
    def unfolded(self, x: Array, rows: slice, images: slice) -> list[Array]:
        """For each row tap the matrix whose rows meet the elements of the result."""
        x = x[:, images]
        count = rows.stop - rows.start
        size = (x.shape[1], self.columns.count)
        if self.plain and _is_dense(x[rows]):
            return [x[rows].reshape(-1, self.channels)]
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
