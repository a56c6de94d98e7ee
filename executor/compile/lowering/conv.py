"""Convolutions: on the host with the channels last in memory, on a device by plans that hold
scratch buffers for one geometry.
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base import flags
from fluidlite.base.errors import ShapeError
from fluidlite.executor.compile import tails
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.layout import image_order, lays_out
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.compile.tails import is_fixed
from fluidlite.executor.cuda.convolutions import ConvOptions, DeviceConvRecipe, device_conv
from fluidlite.executor.fast.conv import FastConv, has_fast_conv
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.sizes import about, plain
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.convolutions import SharedConv
from fluidlite.executor.run.volumes import SharedVolumes
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.convolution import Geometry, conv_plan
from fluidlite.ops.neural.conv import conv_attrs, geometry_of
from fluidlite.ops.neural.conv_transpose import back_geometry

_LIMIT, _SEARCH = "FLAGS_conv_workspace_size_limit", "FLAGS_cudnn_exhaustive_search"
LARGE = 1 << 15  # elements of the input from which a second thread pays
_LARGE_WORK = 1 << 24  # and multiplications, of many channels of a few pixels, about 0.1 ms
_FEW = 4  # channels that are unfolded from where they lie as fast as from behind each other


def threads_for(e: Emitter, *values: Value) -> int:
    """The number of threads that are worth waking for work on `values`."""
    return e.threads if any(about(value.size) >= LARGE for value in values) else 1


# ---------------------------------------------------------------------- convolutions
class _ConvImages:
    """The images or volumes of a convolution's op, as its kernels take them: values (N, C, *spatial)."""

    def __init__(self, e: Emitter, like: Value) -> None:
        rank = len(e.attr("strides")) + 2
        if like.shape is None or len(like.shape) != rank or rank not in (4, 5):
            raise CannotLower("no images")
        self.e = e
        self.is_last = is_channels_last(e.attr("data_format"))
        self.is_free = lays_out(e, like)
        self.order = image_order(like.dtype, e.attr("data_format"), rank)
        # the dimensions of (N, *spatial, C) as (N, C, *spatial)
        self._first = (0, rank - 1, *range(1, rank - 1))
        if self.is_last and not self.is_free and (e.on_host or not takes(e, like.dtype)):
            raise CannotLower("layout")

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape with the channels second."""
        shape = value.shape
        if shape is None or len(shape) != len(self._first):
            raise CannotLower("no images")
        return tuple(shape[axis] for axis in self._first) if self.is_last else shape

    def source(self, value: Value) -> Value:
        """An operand."""
        if not self.is_free:
            given = for_kernel(self.e, self.e.plain(value), value.dtype)
            return self.e.transpose(given, self._first) if self.is_last else given
        if value.order is None and self.shape(value)[1] > _FEW:
            value = self._shown(self.e.base_in(value, self.order))
        return self.e.transpose(value, self._first) if self.is_last else value

    def _shown(self, base: Value) -> Value:
        """Memory in the order of images, in the program's order."""
        back = sorted(range(len(self.order)), key=lambda axis: self.order[axis])
        return self.e.transpose(base, back)

    def out(self, slot: str, first: tuple[int, ...], dtype: object) -> Value:
        """An output whose shape is `first` with the channels second."""
        shape = (first[0], *first[2:], first[1]) if self.is_last else first
        if self.is_free:
            value = self._shown(self.e.published(slot, shape, dtype, self.order))
        else:
            value = self.e.out(slot, shape, dtype)
        return self.e.transpose(value, self._first) if self.is_last else value


def _geometry(e: Emitter, x: tuple[int, ...], w: Value) -> Geometry:
    if e.op.inputs.get("ResidualData"):
        raise CannotLower("residual data")
    assert w.shape is not None
    attrs = _attributes(e, tuple(conv_attrs(len(x) - 2, "NCHW")))
    _check_channels(e, x, w, w.shape[1] * attrs["groups"])
    return geometry_of(e.op.type, x, w.shape, attrs)


def _attributes(e: Emitter, names: tuple[str, ...]) -> dict[str, Any]:
    if min(e.attr("paddings"), default=0) < 0:
        raise CannotLower("an image that is cut")
    return {name: e.attr(name) for name in names}


def _check_channels(e: Emitter, x: tuple[int, ...], w: Value, taken: int) -> None:
    """ShapeError where the filters take other channels than there are: kernels would read past the images,
    and sizes of -1 keep that back until a run.
    """
    assert w.shape is not None
    if x[1] != taken or any(size == 0 for size in w.shape):
        raise ShapeError(
            f"op {e.op.type!r}: Input has {plain(x[1])} channels but Filter{list(plain(w.shape))} takes "
            f"{plain(taken)} (Input{list(plain(x))} with its channels first)"
        )


def _check_places(e: Emitter, geometry: Geometry, places: tuple[int, ...]) -> None:
    """ShapeError where an image has no places left, which sizes of -1 keep back until a run."""
    if any(count <= 0 for count in places):
        given = [name for slot in ("Input", "Filter") for name in e.op.inputs[slot]]
        sizes = [list(plain(e.laid_need(slot).shape)) for slot in ("Input", "Filter")]
        raise ShapeError(
            f"op {e.op.type!r}: nothing is left of {given[0]}{sizes[0]} under {given[1]}{sizes[1]} with "
            f"paddings {geometry.pads} and dilations {geometry.dilations}"
        )


def _options(e: Emitter) -> ConvOptions:
    """The op's wishes, and those of the switches where it has none."""
    switches = flags.get_flags(["FLAGS_use_cudnn", _LIMIT, _SEARCH])
    given = e.op.attrs
    return ConvOptions(
        is_channels_last(e.attr("data_format")),
        bool(switches["FLAGS_use_cudnn"] and given.get("use_cudnn", True)),
        int(given.get("workspace_size_MB", switches[_LIMIT])),
        bool(given.get("exhaustive_search", False) or switches[_SEARCH]),
    )


def _conv_on_host(e: Emitter, geometry: Geometry, dtype: Any, threads: int, fixed: bool) -> Bound:
    """The object that computes a convolution of activations that lie in the order of images; `fixed` filters
    are laid out once.
    """
    portable = SharedVolumes if len(geometry.kernel) == 3 else SharedConv
    if has_fast_conv(geometry, dtype):
        return e.bind_fresh("fast_conv", FastConv, geometry, dtype, threads, portable, fixed, e.asked)
    return e.bind_fresh("conv", portable, geometry, dtype, threads, fixed)


def conv_object(e: Emitter, geometry: Geometry, x: Value) -> Bound:
    """The object that computes a convolution: one that chooses among kernels, where there are several."""
    if not e.on_host and takes(e, x.dtype):
        return Bound("conv", DeviceConvRecipe(device_conv, (geometry, x.dtype, _options(e))))
    if not lays_out(e, x) or any(size <= 0 for size in geometry.out):
        return e.bind_fresh("conv", conv_plan, geometry, x.dtype)
    work = math.prod(geometry.out) * math.prod(geometry.w[1:])
    threads = e.threads if about(work) >= _LARGE_WORK else threads_for(e, x)
    return _conv_on_host(e, geometry, x.dtype, threads, is_fixed(e, *e.op.inputs["Filter"]))


@lowering("conv2d", "depthwise_conv2d", "conv3d")
def _(e: Emitter) -> None:
    x = e.laid_need("Input")
    w = for_kernel(e, e.need("Filter"), x.dtype)
    images = _ConvImages(e, x)
    geometry = _geometry(e, images.shape(x), w)
    _check_places(e, geometry, geometry.spatial)
    plan = conv_object(e, geometry, x)
    e.remember(("conv", x, w, geometry), plan)
    source = images.source(x)
    out = images.out("Output", geometry.out, x.dtype)
    is_fast = has_fast_conv(geometry, x.dtype)
    tails.begin(e, geometry, source, w, out, _conv_on_host, is_fast)
    e.run(plan, source, w, Out(out), method="forward")


@lowering("conv2d_grad", "depthwise_conv2d_grad", "conv3d_grad")
def _(e: Emitter) -> None:
    x = e.laid_need("Input")
    w = for_kernel(e, e.need("Filter"), x.dtype)
    d = e.laid_need("Output@GRAD")
    images = _ConvImages(e, x)
    geometry = _geometry(e, images.shape(x), w)
    # the same version of X: what the forward pass unfolded of it may still lie in the plan's scratch buffers
    plan = e.recall(("conv", x, w, geometry))
    reuse = plan is not None
    plan = plan or conv_object(e, geometry, x)
    incoming = images.source(d)
    if e.wants("Filter@GRAD"):
        out = e.out("Filter@GRAD", w.shape, w.dtype)
        e.run(plan, images.source(x), incoming, Out(out), reuse, method="grad_filter")
    if e.wants("Input@GRAD"):
        e.run(plan, incoming, w, Out(images.out("Input@GRAD", geometry.x, x.dtype)), method="grad_input")


# ---------------------------------------------------------------------- transposed convolutions
def _turned_geometry(e: Emitter, x: tuple[int, ...], w: Value) -> Geometry:
    """The convolution from the result back to Input."""
    assert w.shape is not None
    attrs = _attributes(e, (*conv_attrs(len(x) - 2, "NCHW"), "output_size", "output_padding"))
    _check_channels(e, x, w, w.shape[0])
    return back_geometry(x, w.shape, {**attrs, "data_format": "NCHW"})


@lowering("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _(e: Emitter) -> None:
    x = e.laid_need("Input")
    w = for_kernel(e, e.need("Filter"), x.dtype)
    images = _ConvImages(e, x)
    geometry = _turned_geometry(e, images.shape(x), w)
    _check_places(e, geometry, geometry.x[2:])
    plan = conv_object(e, geometry, x)
    out = images.out("Output", geometry.x, x.dtype)
    e.run(plan, images.source(x), w, Out(out), method="grad_input")


@lowering("conv2d_transpose_grad", "depthwise_conv2d_transpose_grad", "conv3d_transpose_grad")
def _(e: Emitter) -> None:
    x = e.laid_need("Input")
    w = for_kernel(e, e.need("Filter"), x.dtype)
    d = e.laid_need("Output@GRAD")
    images = _ConvImages(e, x)
    geometry = _turned_geometry(e, images.shape(x), w)
    plan = conv_object(e, geometry, x)
    incoming = images.source(d)
    if e.wants("Filter@GRAD"):
        out = e.out("Filter@GRAD", w.shape, w.dtype)
        e.run(plan, incoming, images.source(x), Out(out), False, method="grad_filter")
    if e.wants("Input@GRAD"):
        e.run(plan, incoming, w, Out(images.out("Input@GRAD", geometry.out, x.dtype)), method="forward")
