"""Plans of convolutions, which hold scratch buffers for one geometry and write into given arrays.

Arrays are (N, C, *spatial), filters (O, C / groups, *kernel); outputs must be C-contiguous. Four ways:

    Pointwise     kernel of ones: one matrix product per image, nothing is unfolded
    Depthwise     one input channel per group: a multiply and an add per kernel position
    WidthUnfolded two dimensions on NumPy: unfold along the width only and hand BLAS overlapping operands
    Unfolded      everything else: unfold all dimensions (im2col), some images at a time
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass

__all__ = ["ConvPlan", "Geometry", "Unfolded", "conv_plan"]

_UNFOLDED_ELEMENTS = 1 << 24  # of scratch at a time: larger batches are unfolded in parts
_DEPTHWISE_ELEMENTS = 1 << 15  # on the host, so that a block stays in the cache over all kernel positions


@dataclass(frozen=True)
class Geometry:
    """The sizes of a convolution of `x` (N, C, *spatial) with `w` (O, C / groups, *kernel).

    `pads` holds (before, after) for each spatial dimension.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]
    groups: int = 1

    @property
    def kernel(self) -> tuple[int, ...]:
        """The kernel's extent in each spatial dimension."""
        return self.w[2:]

    @functools.cached_property
    def padded(self) -> tuple[int, ...]:
        """The spatial dimensions of x with its padding."""
        return tuple(size + sum(pad) for size, pad in zip(self.x[2:], self.pads, strict=True))

    @functools.cached_property
    def spatial(self) -> tuple[int, ...]:
        """The spatial dimensions of the result."""
        return tuple(
            (size - (d * (k - 1) + 1)) // s + 1
            for size, k, s, d in zip(self.padded, self.kernel, self.strides, self.dilations, strict=True)
        )

    @property
    def out(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (self.x[0], self.w[0], *self.spatial)

    @property
    def inner(self) -> tuple[slice, ...]:
        """Slices of the padded x that hold x."""
        return (
            slice(None),
            slice(None),
            *(slice(pad[0], pad[0] + size) for size, pad in zip(self.x[2:], self.pads, strict=True)),
        )

    def positions(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each kernel position with the elements of the padded x that meet it, as slices of the spatial
        dimensions.
        """
        for position in itertools.product(*map(range, self.kernel)):
            yield (
                position,
                tuple(
                    slice(i * d, i * d + s * (n - 1) + 1, s)
                    for i, d, s, n in zip(position, self.dilations, self.strides, self.spatial, strict=True)
                ),
            )


class ConvPlan(ABC):
    """Computes convolutions of one geometry and dtype; `out` arguments are overwritten."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        self.xp = xp
        self.geometry = geometry
        self.dtype = dtype

    @abstractmethod
    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out (N, O, *out) = x (N, C, *spatial) convolved with w."""

    @abstractmethod
    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        """out (N, C, *spatial) = the gradient of x; also the forward pass of a transposed convolution."""

    @abstractmethod
    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        """out (O, C / groups, *kernel) = the gradient of w. `reuse`: the last forward() of this plan saw
        the same x.
        """

    @functools.cached_property
    def _padding(self) -> Array:
        return self.xp.zeros((*self.geometry.x[:2], *self.geometry.padded), self.dtype)

    def _pad(self, x: Array) -> Array:
        """x within zeros; x itself where there is no padding."""
        if not any(map(any, self.geometry.pads)):
            return x
        self._padding[self.geometry.inner] = x
        return self._padding


def conv_plan(xp: Any, geometry: Geometry, dtype: Any) -> ConvPlan:
    """The plan for a geometry, by the fastest way that can do it."""
    g = geometry
    # without elements the general way is right too, and its loops do nothing
    if min(g.spatial) > 0 and g.x[0] > 0:
        if set(g.kernel) == {1} and g.groups == 1 and not any(map(any, g.pads)):
            return Pointwise(xp, g, dtype)
        if g.w[1] == 1 and g.groups > 1:
            return Depthwise(xp, g, dtype)
        if xp is np and len(g.kernel) == 2 and g.groups == 1 and set(g.dilations) == {1}:
            return WidthUnfolded(xp, g, dtype)
    return Unfolded(xp, g, dtype)


class Pointwise(ConvPlan):
    """Kernels of a single element, without padding or groups."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        self._strided = set(geometry.strides) != {1}
        self._picked = (
            slice(None),
            slice(None),
            *(slice(0, s * (n - 1) + 1, s) for s, n in zip(geometry.strides, geometry.spatial, strict=True)),
        )

    def _columns(self, x: Array) -> Array:
        return x[self._picked].reshape(*x.shape[:2], -1)

    def forward(self, x: Array, w: Array, out: Array) -> None:
        self.xp.matmul(w.reshape(w.shape[:2]), self._columns(x), out=out.reshape(*out.shape[:2], -1))

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        matrix = w.reshape(w.shape[:2]).T
        d = dout.reshape(*dout.shape[:2], -1)
        if not self._strided:
            self.xp.matmul(matrix, d, out=out.reshape(*out.shape[:2], -1))
            return
        # strides leave out elements, which have no gradient
        out[...] = 0
        products = self.xp.matmul(matrix, d)
        out[self._picked] = products.reshape(*out.shape[:2], *self.geometry.spatial)

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        # one product an image, summed afterwards: a single product would need both operands turned around in
        # memory
        d = dout.reshape(*dout.shape[:2], -1)
        products = self.xp.matmul(d, self._columns(x).swapaxes(1, 2))
        self.xp.sum(products, axis=0, out=out.reshape(out.shape[:2]))


class Depthwise(ConvPlan):
    """Each channel has filters of its own: all work is element-wise."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        n, c = geometry.x[:2]
        self._out = (n, c, geometry.w[0] // c, *geometry.spatial)
        per_image = max(math.prod(self._out[1:]), 1)
        step = max(1, _DEPTHWISE_ELEMENTS // per_image) if xp is np else n
        self._parts = [slice(start, start + step) for start in range(0, n, step)]
        # one for all parts, which are computed one after the other
        self._scratch = xp.empty((min(step, n), *self._out[1:]), dtype)

    def _factors(self, w: Array) -> Array:
        """The filters as (*kernel, C, O / C, 1, ...)."""
        dims = len(self.geometry.kernel)
        filters = w.reshape(*self._out[1:3], *self.geometry.kernel)
        factors = self.xp.moveaxis(filters, (0, 1), (-2, -1))
        return factors.reshape(*factors.shape, *(1,) * dims)

    def _windows(self, padded: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
        for position, window in self.geometry.positions():
            yield position, padded[(slice(None), slice(None), None, *window)]

    def forward(self, x: Array, w: Array, out: Array) -> None:
        xp = self.xp
        factors = self._factors(w)
        padded = self._pad(x)
        result = out.reshape(self._out)
        for part in self._parts:
            target = result[part]
            scratch = self._scratch[: len(target)]
            target[...] = 0
            for position, window in self._windows(padded[part]):
                xp.multiply(window, factors[position], out=scratch)
                xp.add(target, scratch, out=target)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        xp = self.xp
        factors = self._factors(w)
        d = dout.reshape(self._out)
        # zeros each time: windows overlap, so their gradients are added
        padded = self.xp.zeros((*self.geometry.x[:2], *self.geometry.padded), self.dtype)
        for part in self._parts:
            scratch = self._scratch[: len(d[part])]
            for position, window in self._windows(padded[part]):
                xp.multiply(d[part], factors[position], out=scratch)
                # a channel with several filters gets the gradients of all of them
                mine = scratch.sum(axis=2, keepdims=True) if scratch.shape[2] > 1 else scratch
                xp.add(window, mine, out=window)
        out[...] = padded[self.geometry.inner]

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        xp = self.xp
        d = dout.reshape(self._out)
        padded = self._pad(x)
        result = out.reshape(*self._out[1:3], *self.geometry.kernel)
        result[...] = 0
        axes = (0, *range(3, d.ndim))
        for part in self._parts:
            scratch = self._scratch[: len(d[part])]
            for position, window in self._windows(padded[part]):
                xp.multiply(d[part], window, out=scratch)
                at: Any = (slice(None), slice(None), *position)
                result[at] += scratch.sum(axis=axes)


class Unfolded(ConvPlan):
    """The general way: all windows are copied out (im2col), then every group is a matrix product."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        g = geometry
        depth = math.prod(g.w[1:])
        places = math.prod(g.spatial)
        # also limited by the filters: a filter gradient of that size is made for each image of a part
        step = max(1, _UNFOLDED_ELEMENTS // max(g.groups * depth * places, math.prod(g.w), 1))
        self._parts = [slice(start, start + step) for start in range(0, g.x[0], step)]
        self._columns_shape = (g.groups, depth, places)
        self._rows_shape = (g.groups, g.w[0] // g.groups, places)
        self._window_shape = (g.x[1], *g.kernel, *g.spatial)
        self._filter_shape = (g.groups, g.w[0] // g.groups, depth)

    def _columns(self, padded: Array) -> Array:
        """(n, groups, C / groups * kernel, places)"""
        out = self.xp.empty((len(padded), *self._window_shape), self.dtype)
        for position, window in self.geometry.positions():
            out[_beyond_channels(position)] = padded[_beyond_channels(window)]
        return out.reshape(len(padded), *self._columns_shape)

    def forward(self, x: Array, w: Array, out: Array) -> None:
        filters = w.reshape(self._filter_shape)
        padded = self._pad(x)
        rows = out.reshape(len(out), *self._rows_shape)
        for part in self._parts:
            self.xp.matmul(filters, self._columns(padded[part]), out=rows[part])

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        filters = w.reshape(self._filter_shape).swapaxes(1, 2)
        rows = dout.reshape(len(dout), *self._rows_shape)
        for part in self._parts:
            self._gather(self.xp.matmul(filters, rows[part]), out[part])

    def _gather(self, products: Array, out: Array) -> None:
        """out = the sums of the windows' gradients at each element of x."""
        windows = products.reshape(-1, *self._window_shape)
        padded = self.xp.zeros((len(windows), self.geometry.x[1], *self.geometry.padded), self.dtype)
        for position, window in self.geometry.positions():
            padded[_beyond_channels(window)] += windows[_beyond_channels(position)]
        out[...] = padded[self.geometry.inner]

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        rows = dout.reshape(len(dout), *self._rows_shape)
        padded = self._pad(x)
        result = out.reshape(self._filter_shape)
        result[...] = 0
        for part in self._parts:
            columns = self._columns(padded[part])
            result += self.xp.matmul(rows[part], columns.swapaxes(2, 3)).sum(axis=0)


def _beyond_channels(where: Sequence[Any]) -> tuple[Any, ...]:
    """An index of all images and channels at a place in the dimensions beyond."""
    return (slice(None), slice(None), *where)


class WidthUnfolded(ConvPlan):
    """Two dimensions, no groups, no dilation, NumPy.

    x becomes U[n, ow, h, kw * C], unfolded along the width only. The im2col matrix of output row oh is then
    the column range [stride * oh * kw * C, (stride * oh + kh) * kw * C) of U seen as (n * OW, H * kw * C): a
    strided operand that BLAS takes without a copy. So kh times less is copied than by im2col, and every
    product has the full depth.
    """

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        n, c, height, width = geometry.x
        kh, kw = geometry.kernel
        sh, sw = geometry.strides
        oh, ow = geometry.spatial
        (top, _), (left, _) = geometry.pads
        tall, wide = geometry.padded
        self._turned = np.zeros((height, n, wide, c), dtype)  # x as (H, N, W, C), zeros left and right
        self._turned_x = self._turned[:, :, left : left + width]
        unfolded = np.zeros((n, ow, tall, kw * c), dtype)  # zeros above and below
        self._unfolded_x = unfolded[:, :, top : top + height]
        item = unfolded.itemsize
        depth = kw * c
        per_row, per_image, per_column, _ = self._turned.strides
        self._windows = as_strided(
            self._turned, (n, ow, height, depth), (per_image, sw * per_column, per_row, item)
        )
        # output rows overlap in U where the kernel is taller than the stride: read only, never written
        self._rows = as_strided(
            unfolded, (oh, n * ow, kh * depth), (sh * depth * item, tall * depth * item, item)
        )
        self._product = np.empty((oh, n * ow, geometry.w[0]), dtype)
        self._holds_x = False  # since the last forward()

    def _unfold(self, x: Array) -> None:
        np.copyto(self._turned_x, x.transpose(2, 0, 3, 1))
        np.copyto(self._unfolded_x, self._windows)

    def _as_image(self) -> Array:
        """The product's buffer as (N, O, OH, OW)."""
        oh, ow = self.geometry.spatial
        return self._product.reshape(oh, -1, ow, self.geometry.w[0]).transpose(1, 3, 0, 2)

    def forward(self, x: Array, w: Array, out: Array) -> None:
        self._unfold(x)
        self._holds_x = True
        # the filters in the order in which U lays a window out: row, column, channel
        filters = w.transpose(2, 3, 1, 0).reshape(-1, len(w))
        np.matmul(self._rows, filters, out=self._product)
        np.copyto(out, self._as_image())

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        # a plan may have dropped the forward pass where nothing reads its result
        if not (reuse and self._holds_x):
            self._unfold(x)
        # the gradient takes over the product's buffer; a second one must not take U for that of a new x
        self._holds_x = False
        np.copyto(self._as_image(), dout)
        np.matmul(self._rows.transpose(0, 2, 1), self._product, out=self._per_row)
        o, c, kh, kw = self.geometry.w
        total = np.add.reduce(self._per_row, axis=0)
        np.copyto(out, total.reshape(kh, kw, c, o).transpose(3, 2, 0, 1))

    @functools.cached_property
    def _per_row(self) -> Array:
        return np.empty((len(self._rows), self._rows.shape[2], self.geometry.w[0]), self.dtype)

    @functools.cached_property
    def _back(self) -> ConvPlan | None:
        """The plan that computes the gradient of x; None for this plan itself.

        With stride 1 it is a convolution of the padded gradient with the flipped filters, unless that pads
        the gradient to twice its size and more (LeNet's 8 x 8 to 12 x 12: 5.1 ms, folded back 4.0 ms).
        """
        g = self.geometry
        pads = tuple((k - 1 - pad[0], k - 1 - pad[1]) for k, pad in zip(g.kernel, g.pads, strict=True))
        if g.strides != (1, 1) or min(map(min, pads)) < 0:
            return Unfolded(self.xp, g, self.dtype)
        if math.prod(g.x[2:]) >= 2 * math.prod(g.spatial):
            return None
        filters = (g.w[1], g.w[0], *g.kernel)
        turned = Geometry(g.out, filters, (1, 1), pads, (1, 1))
        return WidthUnfolded(self.xp, turned, self.dtype)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        if isinstance(self._back, WidthUnfolded):
            flipped = w[:, :, ::-1, ::-1]
            self._back.forward(dout, flipped.transpose(1, 0, 2, 3), out)
        elif self._back is not None:
            self._back.grad_input(dout, w, out)
        else:
            self._fold(dout, w, out)

    def _fold(self, dout: Array, w: Array, out: Array) -> None:
        """The gradient of x from the gradient of U; stride 1 only."""
        kw = self.geometry.kernel[1]
        ow = self.geometry.spatial[1]
        height, width = self.geometry.x[2:]
        (top, _), (left, _) = self.geometry.pads
        inside = self._column_gradient(dout, w)[:, :, top : top + height]
        # (kw, height, n, ow, C): one slab for each column of the window, laid out as `turned` is
        columns = inside.transpose(3, 2, 0, 1, 4)
        turned = self._turned_gradient
        # the first column is written, not added: so only what it does not reach has to be cleared
        turned[:, :, ow:] = 0
        turned[:, :, :ow] = columns[0]
        for j in range(1, kw):
            part = turned[:, :, j : j + ow]
            np.add(part, columns[j], out=part)
        np.copyto(out, turned[:, :, left : left + width].transpose(1, 3, 0, 2))

    def _column_gradient(self, dout: Array, w: Array) -> Array:
        """The gradient of U as (n, ow, padded height, kw, C): a product for each output row, added where
        rows overlap.
        """
        np.copyto(self._as_image(), dout)
        filters = w.transpose(2, 3, 1, 0).reshape(-1, len(w)).T
        columns, product = self._folded
        n, c = self.geometry.x[:2]
        kw = self.geometry.kernel[1]
        high = filters.shape[1]
        step = kw * c
        np.matmul(self._product[0], filters, out=columns[:, :high])
        for row in range(1, len(self._product)):
            begin = row * step
            new = row * step + high - step
            np.dot(self._product[row], filters, out=product)
            # the rows that the windows before reached are added to; the one below them is new
            reached = columns[:, begin:new]
            np.add(reached, product[:, : high - step], out=reached)
            columns[:, new : new + step] = product[:, high - step :]
        return columns.reshape(n, self.geometry.spatial[1], self.geometry.padded[0], kw, c)

    @functools.cached_property
    def _folded(self) -> tuple[Array, Array]:
        rows = self._product.shape[1]
        high = self._rows.shape[2]
        across = self.geometry.padded[0] * self.geometry.kernel[1] * self.geometry.x[1]
        return np.empty((rows, across), self.dtype), np.empty((rows, high), self.dtype)

    @functools.cached_property
    def _turned_gradient(self) -> Array:
        return np.empty_like(self._turned)
