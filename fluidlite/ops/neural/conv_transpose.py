"""Transposed convolutions: the gradient of a convolution's input as a forward pass.

A transposed convolution of Input with Filter (C, O / groups, *kernel) is `grad_input` of the convolution that
takes the output's shape to Input's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import LIBRARIES
from fluidlite.base.registry import INTS, Op, Spec, later
from fluidlite.ops.kernels.conv_geometry import Pads, is_channels_last, places, resolve_pads, unturned
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.neural.conv import FUSED, Conv, check_ranks, conv_attrs
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"


def _pads_and_dilations(
    type: str, spatial: Sequence[int], w: Sequence[int], attrs: Mapping[str, Any]
) -> tuple[Pads, tuple[int, ...]]:
    same = attrs["padding_algorithm"] == "SAME"
    pads = resolve_pads(type, attrs["paddings"], attrs["padding_algorithm"], spatial, w[2:], attrs["strides"])
    return pads, (1,) * len(w[2:]) if same else tuple(attrs["dilations"])


def _out_places(
    type: str, spatial: Sequence[int], w: Sequence[int], attrs: Mapping[str, Any]
) -> tuple[int, ...]:
    """The spatial dimensions of the result; ShapeError where `output_size` asks for what cannot be."""
    pads, dilations = _pads_and_dilations(type, spatial, w, attrs)
    strides = attrs["strides"]
    wanted = attrs["output_size"]
    beyond = attrs["output_padding"] or [0] * len(w[2:])
    smallest = [
        (size - 1) * s - sum(pad) + d * (k - 1) + 1
        for size, s, pad, d, k in zip(spatial, strides, pads, dilations, w[2:], strict=True)
    ]
    if not wanted:
        sizes = zip(spatial, smallest, beyond, strict=True)
        return tuple(-1 if size < 0 else out + more for size, out, more in sizes)
    for size, least, s, out in zip(spatial, smallest, strides, wanted, strict=True):
        if size >= 0 and least >= 0 and not least <= out < least + s:
            raise ShapeError(
                f"op {type!r}: output_size {list(wanted)} cannot be: {out} is not in [{least}, {least + s})"
            )
    return tuple(wanted)


def _conv(xp: Any, Input: Array, Filter: Array, attrs: Mapping[str, Any]) -> Conv:
    """The convolution from the result back to Input."""
    data_format = attrs["data_format"]
    shape = (Input.shape[0], Filter.shape[0], *places(Input.shape, data_format))
    return Conv(xp, back_geometry(shape, Filter.shape, attrs), Input.dtype, data_format)


def back_geometry(x: Sequence[int], w: Sequence[int], attrs: Mapping[str, Any]) -> Geometry:
    """The geometry of the convolution from the result back to an Input of shape `x` (channels first)."""
    groups, spatial = attrs["groups"], tuple(x[2:])
    pads, dilations = _pads_and_dilations("conv_transpose", spatial, w, attrs)
    out = _out_places("conv_transpose", spatial, w, attrs)
    return Geometry((x[0], w[1] * groups, *out), tuple(w), tuple(attrs["strides"]), pads, dilations, groups)


_FLAGS: dict[str, Any] = {"alike": ("Input", "Filter"), "blas_threads": True}


def _check_channels(type: str, Input: Spec, Filter: Spec, channels: int) -> None:
    if channels >= 0 and channels != Filter.shape[0]:
        raise ShapeError(
            f"op {type!r}: Input has {channels} channels but Filter takes {Filter.shape[0]} "
            f"(Input{list(Input.shape)}, Filter{list(Filter.shape)})"
        )


def _declare(type: str, dims: int, slots: str, data_format: str, **facts: Any) -> None:
    attrs_of = {**conv_attrs(dims, data_format), "output_size": INTS(), "output_padding": later(INTS())}
    own = attrs_of if dims == 3 else {**attrs_of, "is_test": False}  # as Paddle has it
    # conv2d passes the level of detail on, its transpose does not
    op = Op(type, slots, attrs=own, lod=None, **_FLAGS, idle=("is_test",) if dims == 2 else (), **facts)

    @op.shape
    @with_attrs(attrs_of)
    def _(Input: Spec, Filter: Spec, attrs: dict[str, Any]) -> Spec:
        check_ranks(type, Input, Filter, dims)
        channels = Input.shape[-1 if is_channels_last(attrs["data_format"]) else 1]
        _check_channels(type, Input, Filter, channels)
        out = _out_places(type, places(Input.shape, attrs["data_format"]), Filter.shape, attrs)
        return Input.with_shape(
            unturned(Input.shape[0], Filter.shape[1] * attrs["groups"], out, attrs["data_format"])
        )

    @op.flops
    def _(Input: Spec, Filter: Spec) -> int:
        # each element of Input meets the output channels of its group x the window
        return 2 * math.prod(Input.shape) * math.prod(Filter.shape[1:])

    @op.kernel
    @with_attrs(attrs_of)
    def _(xp: Any, Input: Array, Filter: Array, attrs: dict[str, Any]) -> Array:
        return _conv(xp, Input, Filter, attrs).grad_input(Input, Filter)

    @op.grad("Input Filter", blas_threads=True)
    @with_attrs(attrs_of)
    def _(
        xp: Any, Input: Array, Filter: Array, dOutput: Array, wants: frozenset[str], attrs: dict[str, Any]
    ) -> tuple[Maybe, Maybe]:
        conv = _conv(xp, Input, Filter, attrs)
        return (
            conv.forward(dOutput, Filter) if "Input@GRAD" in wants else None,
            conv.grad_filter(dOutput, Input) if "Filter@GRAD" in wants else None,
        )


_declare("conv2d_transpose", 2, "Input. Filter. Bias? -> Output", "NCHW", kept=FUSED, version=2)
_declare("depthwise_conv2d_transpose", 2, "Input. Filter. Bias? -> Output", "NCHW", kept=FUSED, version=1)
_WORKSPACE = {**LIBRARIES, "workspace_size_MB": 512}
_declare("conv3d_transpose", 3, "Input. Filter. -> Output", "NCHW", kept=_WORKSPACE, version=1)
