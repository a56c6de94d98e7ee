"""Convolutions on a device."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda import cudnn
from fluidlite.executor.cuda.chosen_conv import ChosenConv, ConvOptions, explained_choices
from fluidlite.executor.cuda.kernel import THREADS, CudaKernel
from fluidlite.executor.cuda.rows import row_grid
from fluidlite.executor.plan.objects import Fresh
from fluidlite.ops.kernels.convolution import ConvPlan, Geometry, Unfolded, conv_plan

__all__ = ["ConvOptions", "DeviceConv", "DeviceConvRecipe", "DeviceDepthwise", "device_conv"]

_FILES = ("blocks.cuh", "conv.cu")
_PLAIN = ConvOptions(use_cudnn=False)


def device_conv(xp: Any, geometry: Geometry, dtype: Any, options: ConvOptions = _PLAIN) -> ConvPlan:
    """The way to convolve images or volumes of a geometry, (N, C, *spatial)."""
    ours = functools.partial(_ours, xp, geometry, dtype, options)
    library = _library(geometry, options)
    if library is None:
        return ours()
    return ChosenConv(xp, library, geometry, dtype, options, ours)


def _ours(xp: Any, geometry: Geometry, dtype: Any, options: ConvOptions) -> ConvPlan:
    """The kernels here; those of channels that lie second serve the others with copies."""
    if options.is_last:
        second = options._replace(is_last=False)
        return _TurnedConv(xp, geometry, dtype, device_conv(xp, geometry, dtype, second))
    if _is_product(geometry) or len(geometry.kernel) != 2:
        return conv_plan(xp, geometry, dtype)
    kind = DeviceDepthwise if _is_depthwise(geometry) else DeviceConv
    return kind(xp, geometry, dtype)


def _library(geometry: Geometry, options: ConvOptions) -> cudnn.CudnnLibrary | None:
    """cuDNN, where it may be used."""
    is_empty = min(*geometry.x, *geometry.w, *geometry.spatial) <= 0
    return None if is_empty or not options.use_cudnn else cudnn.find()


class DeviceConvRecipe(Fresh):
    """The recipe for `device_conv`, with its arguments."""

    def explained(self) -> str:
        """The kernels of cuDNN, where it may be used, and those here."""
        geometry, dtype, options = self.arguments
        library = _library(geometry, options)
        if library is None:
            return _ours_explained(geometry)
        choices = explained_choices(geometry, dtype, options)
        listed = ", ".join(f"{method} {text}" for method, text in choices.items())
        return f"cuDNN {library.version}: {listed}; else {_ours_explained(geometry)}"

    def kernel_of(self, method: str) -> str:
        """The kernel of a direction."""
        geometry, dtype, options = self.arguments
        if _library(geometry, options) is None:
            return _ours_explained(geometry)
        return f"cuDNN {explained_choices(geometry, dtype, options)[method]}"


def _ours_explained(geometry: Geometry) -> str:
    if _is_product(geometry):
        return "products by cuBLAS"
    if len(geometry.kernel) != 2:
        return "functions of CuPy, beside products by cuBLAS"
    if _is_depthwise(geometry):
        return "CUDA kernels depthwise*, one for each direction"
    return "CUDA kernels unfold and fold, beside products by cuBLAS"


def _is_product(g: Geometry) -> bool:
    """True if images are matrices as they lie, or there are none."""
    is_pointwise = set(g.kernel) == {1} and g.groups == 1 and not any(map(any, g.pads))
    return is_pointwise or min(*g.x, *g.spatial) <= 0


def _is_depthwise(g: Geometry) -> bool:
    """True if each channel has filters of its own."""
    return g.w[1] == 1 and g.groups > 1


class _TurnedConv(ConvPlan):
    """A convolution of arrays whose channels lie last, by copies and one of channels that lie second."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any, second: ConvPlan) -> None:
        super().__init__(xp, geometry, dtype)
        self.second = second

    def forward(self, x: Array, w: Array, out: Array) -> None:
        made = self.xp.empty(out.shape, out.dtype)
        self.second.forward(self.xp.ascontiguousarray(x), w, made)
        self.xp.copyto(out, made)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        made = self.xp.empty(out.shape, out.dtype)
        self.second.grad_input(self.xp.ascontiguousarray(dout), w, made)
        self.xp.copyto(out, made)

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        x, dout = (self.xp.ascontiguousarray(each) for each in (x, dout))
        self.second.grad_filter(x, dout, out)


class _ImageConvolution(ConvPlan):
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
        self._kernel(name)(*row_grid(*shape), arrays, (shape[0], *numbers, *self.numbers))


class DeviceConv(_ImageConvolution, Unfolded):
    """Windows are copied out, and their gradients gathered, by a kernel each."""

    def _pad(self, x: Array) -> Array:
        # beyond the edges kernels read zeros
        return x

    def _columns(self, padded: Array) -> Array:
        g = self.geometry
        out = self.xp.empty((len(padded), *self._columns_shape), self.dtype)
        rows = len(padded) * g.x[1] * math.prod(g.kernel) * g.spatial[0]
        self._of_rows("unfold", (rows, g.spatial[1]), (padded, out))
        return out

    def _gather(self, products: Array, out: Array) -> None:
        rows = math.prod(out.shape[:3])
        self._of_rows("fold", (rows, out.shape[3]), (products, out))


class DeviceDepthwise(_ImageConvolution):
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
