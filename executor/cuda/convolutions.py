"""Convolutions of images on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda.kernel import MAX_BLOCKS, THREADS, CudaKernel
from fluidlite.executor.cuda.rows import lanes_for
from fluidlite.ops.kernels.convolution import ConvPlan, Geometry, conv_plan

__all__ = ["DeviceConv", "DeviceDepthwise", "device_conv"]

_FILES = ("blocks.cuh", "conv.cu")
_UNFOLDED_ELEMENTS = 1 << 24  # at a time: larger batches are unfolded in parts


def device_conv(xp: Any, geometry: Geometry, dtype: Any) -> ConvPlan:
    """The way to convolve images of a geometry, of shape (N, C, height, width)."""
    g = geometry
    is_pointwise = set(g.kernel) == {1} and g.groups == 1 and not any(map(any, g.pads))
    if is_pointwise or min(*g.x, *g.spatial) <= 0:
        return conv_plan(xp, g, dtype)
    is_depthwise = g.w[1] == 1 and g.groups > 1
    return DeviceDepthwise(xp, g, dtype) if is_depthwise else DeviceConv(xp, g, dtype)


class _Images(ConvPlan):
    """Kernels that take a geometry."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        g = geometry
        before = [pad[0] for pad in g.pads]
        self.numbers = (*g.x[2:], *g.kernel, *g.spatial, *g.strides, *before, *g.dilations)
        self.kernels: dict[str, CudaKernel] = {}

    def _kernel(self, name: str) -> CudaKernel:
        if name not in self.kernels:
            self.kernels[name] = CudaKernel(self.xp, name, _FILES, self.dtype)
        return self.kernels[name]

    def _of_rows(
        self, name: str, shape: tuple[int, int], arrays: Sequence[Any], numbers: Sequence[int] = ()
    ) -> None:
        """Launch a kernel over rows of so many elements."""
        rows, columns = shape
        lanes = lanes_for(columns)
        threads = (lanes, THREADS // lanes)
        blocks = (min(-(-rows // threads[1]), MAX_BLOCKS),)
        self._kernel(name)(blocks, threads, arrays, (rows, *numbers, *self.numbers))


class DeviceConv(_Images):
    """All windows of some images are copied out (im2col), then every group is a matrix product."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        g = geometry
        depth = math.prod(g.w[1:])
        places = math.prod(g.spatial)
        # also limited by the filters: a filter gradient of that size is made for each image of a part
        step = max(1, _UNFOLDED_ELEMENTS // max(g.groups * depth * places, math.prod(g.w)))
        self._parts = [slice(start, min(start + step, g.x[0])) for start in range(0, g.x[0], step)]
        self._columns_shape = (g.groups, depth, places)
        self._rows_shape = (g.groups, g.w[0] // g.groups, places)
        self._filter_shape = (g.groups, g.w[0] // g.groups, depth)

    def _columns(self, x: Array) -> Array:
        """(n, groups, C / groups * kernel, places) of n images."""
        g = self.geometry
        out = self.xp.empty((len(x), *self._columns_shape), self.dtype)
        rows = len(x) * g.x[1] * math.prod(g.kernel) * g.spatial[0]
        self._of_rows("unfold", (rows, g.spatial[1]), (x, out))
        return out

    def forward(self, x: Array, w: Array, out: Array) -> None:
        filters = w.reshape(self._filter_shape)
        rows = out.reshape(len(out), *self._rows_shape)
        for part in self._parts:
            self.xp.matmul(filters, self._columns(x[part]), out=rows[part])

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        filters = w.reshape(self._filter_shape).swapaxes(1, 2)
        rows = dout.reshape(len(dout), *self._rows_shape)
        for part in self._parts:
            windows = self.xp.matmul(filters, rows[part])
            shape = (len(windows) * math.prod(self.geometry.x[1:3]), self.geometry.x[3])
            self._of_rows("fold", shape, (windows, out[part]))

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        rows = dout.reshape(len(dout), *self._rows_shape)
        result = out.reshape(self._filter_shape)
        for number, part in enumerate(self._parts):
            # one product an image: a single one would need both operands turned around in memory
            products = self.xp.matmul(rows[part], self._columns(x[part]).swapaxes(2, 3))
            if number == 0:
                self.xp.add.reduce(products, axis=0, out=result)
            else:
                self.xp.add(result, products.sum(axis=0), out=result)


class DeviceDepthwise(_Images):
    """Each channel has filters of its own, and no product of matrices is worth its while."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any) -> None:
        super().__init__(xp, geometry, dtype)
        channels = geometry.x[1]
        self.many = (channels, geometry.w[0] // channels)

    def forward(self, x: Array, w: Array, out: Array) -> None:
        shape = (math.prod(self.geometry.out[:3]), self.geometry.out[3])
        self._of_rows("depthwise", shape, (x, w, out), self.many)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        shape = (math.prod(self.geometry.x[:3]), self.geometry.x[3])
        self._of_rows("depthwise_grad_input", shape, (dout, w, out), self.many)

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        numbers = (self.geometry.x[0], *self.many, *self.numbers)
        blocks = (math.prod(self.geometry.w),)
        self._kernel("depthwise_grad_filter")(blocks, (THREADS,), (x, dout, out), numbers)
