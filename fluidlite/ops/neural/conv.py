"""Convolutions: conv2d, depthwise_conv2d, conv3d."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import LIBRARIES, QUANTIZER
from fluidlite.base.open_sizes import OpenSize
from fluidlite.base.registry import Op, Spec, at_least
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.conv_geometry import (
    Pads,
    channels_first,
    channels_last,
    is_channels_last,
    places,
    resolve_pads,
    unturned,
)
from fluidlite.ops.kernels.convolution import Geometry, conv_plan
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"


def conv_attrs(dims: int, data_format: str) -> dict[str, Any]:
    """The attributes that every convolution has."""
    return {
        "strides": at_least(1, [1] * dims),
        "paddings": [0] * dims,  # below 0 they cut the image
        "dilations": at_least(0, [1] * dims),
        "groups": at_least(1, 1),
        "padding_algorithm": "EXPLICIT",
        "data_format": data_format,
    }


def geometry_of(type: str, x: Sequence[int], w: Sequence[int], attrs: Mapping[str, Any]) -> Geometry:
    """The geometry of a convolution of shape `x` (channels first) with filters of shape `w`."""
    same = attrs["padding_algorithm"] == "SAME"  # in Paddle SAME also means that there is no dilation
    pads = resolve_pads(type, attrs["paddings"], attrs["padding_algorithm"], x[2:], w[2:], attrs["strides"])
    dilations = (1,) * len(w[2:]) if same else tuple(attrs["dilations"])
    reach = [dilation * (size - 1) + 1 for size, dilation in zip(w[2:], dilations, strict=True)]
    pads = _one_window_at_least(x[2:], reach, attrs["strides"], pads)
    return Geometry(tuple(x), tuple(w), tuple(attrs["strides"]), pads, dilations, attrs["groups"])


def _one_window_at_least(
    spatial: Sequence[int], reach: Sequence[int], strides: Sequence[int], pads: Pads
) -> Pads:
    """Room for a window that is too long by less than a stride: Paddle divides towards zero, and counts
    it.
    """
    rooms = [size + sum(pad) - length for size, pad, length in zip(spatial, pads, reach, strict=True)]
    return tuple(
        (before, after - room) if -stride < room < 0 <= size else (before, after)
        for (before, after), room, stride, size in zip(pads, rooms, strides, spatial, strict=True)
    )


def check_ranks(type: str, Input: Spec, Filter: Spec, dims: int) -> None:
    """ShapeError unless both operands have `dims` spatial dimensions, and the filters elements."""
    if len(Input.shape) != dims + 2 or len(Filter.shape) != dims + 2:
        raise ShapeError(
            f"op {type!r}: Input and Filter must have {dims + 2} dimensions, but have shapes "
            f"{list(Input.shape)} and {list(Filter.shape)}"
        )
    if 0 in Filter.shape:
        raise ShapeError(f"op {type!r}: Filter{list(Filter.shape)} has no elements")


def _check_channels(type: str, Input: Spec, Filter: Spec, groups: int, data_format: str) -> None:
    channels = Input.shape[-1 if is_channels_last(data_format) else 1]
    if channels >= 0 and channels != Filter.shape[1] * groups:
        raise ShapeError(
            f"op {type!r}: Input has {channels} channels but Filter takes {Filter.shape[1]} x {groups} "
            f"groups (Input{list(Input.shape)}, Filter{list(Filter.shape)}, {data_format})"
        )
    if Filter.shape[0] % groups:
        raise ShapeError(f"op {type!r}: {Filter.shape[0]} filters do not divide into {groups} groups")


def _out_shape(type: str, Input: Spec, Filter: Spec, attrs: Mapping[str, Any]) -> tuple[int, ...]:
    data_format = attrs["data_format"]
    spatial = places(Input.shape, data_format)
    geometry = geometry_of(type, (Input.shape[0], Filter.shape[1], *spatial), Filter.shape, attrs)
    found = tuple(-1 if size < 0 else out for size, out in zip(spatial, geometry.spatial, strict=True))
    open_kernel = [isinstance(size, OpenSize) for size in Filter.shape[2:]]
    if any(
        size >= 0 >= out and not wide for size, out, wide in zip(spatial, found, open_kernel, strict=True)
    ):
        raise ShapeError(f"op {type!r}: {_nothing_left(Input.shape, Filter.shape, geometry)}")
    return unturned(Input.shape[0], Filter.shape[0], found, data_format)


def _nothing_left(x: Sequence[int], w: Sequence[int], geometry: Geometry) -> str:
    return (
        f"nothing is left of Input{list(x)} under Filter{list(w)} with paddings {geometry.pads} and "
        f"dilations {geometry.dilations}"
    )


def without_cuts(geometry: Geometry) -> tuple[Geometry, tuple[slice, ...]]:
    """The same convolution of what negative paddings leave of the image, and the slices that are left."""
    cuts = [slice(None), slice(None)]
    left = []
    pads = []
    for size, (before, after) in zip(geometry.x[2:], geometry.pads, strict=True):
        first = max(-before, 0)
        last = size - max(-after, 0)
        cut = slice(min(first, size), max(last, 0))
        cuts.append(cut)
        left.append(max(cut.stop - cut.start, 0))
        # a cut that is longer than the image goes on in the padding behind it
        front = max(before, 0) + min(last, 0)
        behind = max(after, 0) - max(first - size, 0)
        pads.append((front, behind))
    shape = (*geometry.x[:2], *left)
    return replace(geometry, x=shape, pads=tuple(pads)), tuple(cuts)


class Conv:
    """One call of a kernel: a plan for its geometry, and conversions from and to the op's layout."""

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any, data_format: str) -> None:
        self.xp, self.geometry, self.dtype, self.data_format = xp, geometry, dtype, data_format
        self.cuts: tuple[slice, ...] = ()
        self.inner = geometry
        if min(map(min, geometry.pads)) < 0:
            self.inner, self.cuts = without_cuts(geometry)
        self.plan = conv_plan(xp, self.inner, dtype)

    @classmethod
    def of(cls, xp: Any, Input: Array, Filter: Array, attrs: Mapping[str, Any]) -> Conv:
        """The convolution of `Input` with `Filter`."""
        x = channels_first(xp, Input, attrs["data_format"])
        geometry = geometry_of("conv", x.shape, Filter.shape, attrs)
        if min(geometry.spatial) <= 0:
            raise ShapeError(_nothing_left(Input.shape, Filter.shape, geometry))
        return cls(xp, geometry, Input.dtype, attrs["data_format"])

    def turned(self, array: Array) -> Array:
        """`array` with the channels first."""
        return channels_first(self.xp, array, self.data_format)

    def _cut(self, x: Array) -> Array:
        """The part of an image that negative paddings leave."""
        if not self.cuts:
            return x
        return self.xp.ascontiguousarray(x[self.cuts])

    def _uncut(self, inner: Array) -> Array:
        """An image with the part that negative paddings leave, and zeros around it."""
        if not self.cuts:
            return inner
        out = self.xp.zeros(self.geometry.x, self.dtype)
        out[self.cuts] = inner
        return out

    def forward(self, x: Array, w: Array) -> Array:
        """x convolved with w."""
        out = self.xp.empty(self.geometry.out, self.dtype)
        self.plan.forward(self._cut(self.turned(x)), w, out)
        return channels_last(self.xp, out, self.data_format)

    def grad_input(self, d: Array, w: Array) -> Array:
        """The gradient of x."""
        inner = self.xp.empty(self.inner.x, self.dtype)
        self.plan.grad_input(self.turned(d), w, inner)
        return channels_last(self.xp, self._uncut(inner), self.data_format)

    def grad_filter(self, x: Array, d: Array) -> Array:
        """The gradient of w."""
        out = self.xp.empty(self.geometry.w, self.dtype)
        self.plan.grad_filter(self._cut(self.turned(x)), self.turned(d), out)
        return out


def _declare(type: str, dims: int, slots: str, data_format: str, **facts: Any) -> None:
    """The op `type` with its gradient and the gradient of that."""
    attrs_of = conv_attrs(dims, data_format)
    op = Op(
        type,
        slots,
        attrs={**attrs_of, "is_test": False},
        lod_of_2x=None,
        alike=("Input", "Filter"),
        blas_threads=True,
        idle=("is_test",),
        **facts,
    )

    @op.shape
    @with_attrs(attrs_of)
    def _(Input: Spec, Filter: Spec, attrs: dict[str, Any]) -> Spec:
        check_ranks(type, Input, Filter, dims)
        _check_channels(type, Input, Filter, attrs["groups"], attrs["data_format"])
        return Input.with_shape(_out_shape(type, Input, Filter, attrs))

    @op.flops
    def _(Filter: Spec, Output: Spec) -> int:
        # each element of the result takes the input channels of its group x the window
        return 2 * math.prod(Output.shape) * math.prod(Filter.shape[1:])

    @op.kernel
    @with_attrs(attrs_of)
    def _(xp: Any, Input: Array, Filter: Array, ResidualData: Maybe, attrs: dict[str, Any]) -> Array:
        out = Conv.of(xp, Input, Filter, attrs).forward(Input, Filter)
        return out if ResidualData is None else out + ResidualData

    _declare_gradients(op, attrs_of)


def _declare_gradients(op: Op, attrs_of: dict[str, Any]) -> None:
    @op.grad("Input Filter", blas_threads=True)
    @with_attrs(attrs_of)
    def grad_op(
        xp: Any, Input: Array, Filter: Array, dOutput: Array, wants: frozenset[str], attrs: dict[str, Any]
    ) -> tuple[Maybe, Maybe]:
        conv = Conv.of(xp, Input, Filter, attrs)
        return (
            conv.grad_input(dOutput, Filter) if "Input@GRAD" in wants else None,
            conv.grad_filter(Input, dOutput) if "Filter@GRAD" in wants else None,
        )

    emits_once_more(
        grad_op,
        reads={"Input": "Input", "Filter": "Filter", "DOutput": "Output@GRAD"},
        incoming={"DDInput": "Input@GRAD", "DDFilter": "Filter@GRAD"},
        writes={"DDOutput": "Output@GRAD", "DInput": "Input", "DFilter": "Filter"},
        needs={"DInput": "DDFilter", "DFilter": "DDInput"},
    )
    _declare_double(op.type + "_grad_grad", attrs_of)


def _declare_double(type: str, attrs_of: dict[str, Any]) -> None:
    op = Op(
        type,
        "Input Filter DOutput DDInput? DDFilter? -> DDOutput? DInput? DFilter?",
        attrs=attrs_of,
        lod=None,
        blas_threads=True,
    ).derive()

    @op.shape
    def _(Input: Spec, Filter: Spec, DOutput: Spec) -> tuple[Spec, Spec, Spec]:
        return DOutput, Input, Filter

    @op.kernel
    @with_attrs(attrs_of)
    def _(
        xp: Any,
        Input: Array,
        Filter: Array,
        DOutput: Array,
        DDInput: Maybe,
        DDFilter: Maybe,
        wants: frozenset[str],
        attrs: dict[str, Any],
    ) -> tuple[Array, Array, Array]:
        conv = Conv.of(xp, Input, Filter, attrs)
        pairs = ((DDInput, Filter), (Input, DDFilter))
        terms = [conv.forward(x, w) for x, w in pairs if x is not None and w is not None]
        ddout = sum(terms[1:], terms[0]) if terms else xp.zeros_like(DOutput)
        dx = xp.zeros_like(Input)
        dw = xp.zeros_like(Filter)
        if DDFilter is not None and "DInput" in wants:
            dx = conv.grad_input(DOutput, DDFilter)
        if DDInput is not None and "DFilter" in wants:
            dw = conv.grad_filter(DDInput, DOutput)
        return ddout, dx, dw


# what libraries fuse and quantise
FUSED: dict[str, Any] = {
    **LIBRARIES,
    "workspace_size_MB": 512,
    "fuse_activation": "",
    "fuse_alpha": 0.0,
    "fuse_beta": 0.0,
    "fuse_relu": False,
}
_OF_CONV = {
    **FUSED,
    "exhaustive_search": False,
    "force_fp32_output": False,
    "fuse_residual_connection": False,
}
_OF_IMAGES = {
    **_OF_CONV,
    **QUANTIZER,
    "fuse_brelu": False,
    "fuse_brelu_threshold": 6.0,
    "fuse_relu_before_depthwise_conv": False,
    "Scale_in": 1.0,
    "Scale_in_eltwise": 1.0,
    "Scale_weights": [1.0],
    "Scale_out": 1.0,
}

_declare(
    "conv2d",
    2,
    "Input. Filter. Bias? ResidualData? -> Output",
    "NCHW",
    kept=_OF_IMAGES,
    version=1,
    amp="white",
)
_declare(
    "depthwise_conv2d", 2, "Input. Filter. Bias? ResidualData? -> Output", "NCHW", kept=_OF_IMAGES, version=1
)
_declare("conv3d", 3, "Input. Filter. ResidualData? -> Output", "NCDHW", kept=_OF_CONV, version=1)
