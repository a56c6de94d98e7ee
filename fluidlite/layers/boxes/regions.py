"""Layers that cut regions of interest out of feature maps, each into the same number of bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Normal
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.neural.conv import numbers

__all__ = ["deformable_conv", "deformable_roi_pooling", "prroi_pool", "psroi_pool", "roi_align", "roi_pool"]

_FLOATS = ["float32", "float64"]


def _check_types(wanted: type, **values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, wanted):
            raise TypeError(f"{name} must be {wanted.__name__} type, but is {value!r}")


def _check_truth(**values: Any) -> None:
    for name, value in values.items():
        if value not in (True, False):
            raise ArgumentError(f"{name} must be True or False, but is {value!r}")


def roi_pool(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_lod: Variable | None = None,
) -> Variable:
    """The maxima of `input` [N, C, H, W] over the bins of regions: [R, C, pooled_height, pooled_width].

    `rois` [R, 4] are (left, top, right, bottom) in pixels, `spatial_scale` of which are one of the input's; a
    sequence an image, unless `rois_lod` [N + 1] holds the offsets.
    """
    check_type(input, "input", Variable, "roi_pool")
    inputs = {"X": input, "ROIs": rois}
    if rois_lod is not None:
        inputs["RoisLod"] = rois_lod
    attrs = {"pooled_height": pooled_height, "pooled_width": pooled_width, "spatial_scale": spatial_scale}
    return one_op("roi_pool", inputs, attrs, dtype=input.dtype, extra={"Argmax": "int32"})


def roi_align(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_lod: Variable | None = None,
) -> Variable:
    """The means of bilinear samples in the bins of regions (Mask R-CNN), regions as `roi_pool` takes them.

    A bin has `sampling_ratio` samples down and as many across; one a pixel where that is not positive.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "roi_align")
    check_variable_and_dtype(rois, "rois", _FLOATS, "roi_align")
    inputs = {"X": input, "ROIs": rois}
    if rois_lod is not None:
        inputs["RoisLod"] = rois_lod
    attrs = {
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
        "spatial_scale": spatial_scale,
        "sampling_ratio": sampling_ratio,
    }
    return one_op("roi_align", inputs, attrs, dtype=input.dtype, name=name)


def psroi_pool(
    input: Variable,
    rois: Variable,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
) -> Variable:
    """The means over the bins of regions, each bin of channels of its own (R-FCN).

    `input` has output_channels * pooled_height * pooled_width channels.
    """
    _check_types(Variable, input=input)
    _check_types(int, output_channels=output_channels)
    _check_types(float, spatial_scale=spatial_scale)
    _check_types(int, pooled_height=pooled_height, pooled_width=pooled_width)
    attrs = {
        "output_channels": output_channels,
        "spatial_scale": spatial_scale,
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
    }
    return one_op("psroi_pool", {"X": input, "ROIs": rois}, attrs, dtype=input.dtype, name=name)


def prroi_pool(
    input: Variable,
    rois: Variable,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The exact means of the bilinear interpolation over the bins of regions, which get gradients too.

    `batch_roi_nums` [N] says how many regions each image has, where `rois` are no sequences.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "prroi_pool")
    _check_types(float, spatial_scale=spatial_scale)
    _check_types(int, pooled_height=pooled_height, pooled_width=pooled_width)
    inputs = {"X": input, "ROIs": rois}
    if batch_roi_nums is not None:
        inputs["BatchRoINums"] = batch_roi_nums
    attrs = {"spatial_scale": spatial_scale, "pooled_height": pooled_height, "pooled_width": pooled_width}
    return one_op("prroi_pool", inputs, attrs, dtype=input.dtype, name=name)


def deformable_conv(
    input: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    modulated: bool = True,
    name: str | None = None,
) -> Variable:
    """A convolution whose filters read the image beside their regular places, and a bias.

    `offset` [N, 2 * deformable_groups * taps, H, W] has (y, x) for each tap of a filter; with `modulated`,
    `mask` [N, deformable_groups * taps, H, W] has a weight for it.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "deformable_conv")
    check_variable_and_dtype(offset, "offset", _FLOATS, "deformable_conv")
    check_type(mask, "mask", (Variable, type(None)), "deformable_conv")
    helper = LayerHelper("deformable_conv", param_attr=param_attr, bias_attr=bias_attr, name=name)
    filters = _filters(helper, input, num_filters, numbers(filter_size, 2, "filter_size"), groups)
    inputs: dict[str, Any] = {"Input": input, "Filter": filters, "Offset": offset}
    if modulated:
        inputs["Mask"] = mask
    attrs = {
        "strides": numbers(stride, 2, "stride"),
        "paddings": numbers(padding, 2, "padding"),
        "dilations": numbers(dilation, 2, "dilation"),
        "groups": groups or 1,
        "deformable_groups": 1 if deformable_groups is None else deformable_groups,
        "im2col_step": 64 if im2col_step is None else im2col_step,
    }
    out = helper.create_variable_for_type_inference(input.dtype)
    op_type = "deformable_conv" if modulated else "deformable_conv_v1"
    helper.append_op(type=op_type, inputs=inputs, outputs={"Output": out}, attrs=attrs)
    return helper.append_bias_op(out, dim_start=1, dim_end=2)


def _filters(
    helper: LayerHelper, input: Variable, count: int, size: list[int], groups: int | None
) -> Variable:
    """The filters of `deformable_conv`."""
    if helper.param_attr is False:
        raise AssertionError("deformable_conv needs its filters: param_attr should not be False here.")
    channels = input.shape[1]
    if groups is not None and channels % groups:
        raise ValueError(
            f"num_channels must be divisible by groups, but there are {channels} channels and {groups} groups"
        )
    return helper.create_parameter(
        attr=helper.param_attr,
        shape=[count, channels // (groups or 1), *size],
        dtype=input.dtype,
        default_initializer=Normal(0.0, (2.0 / (size[0] * size[1] * channels)) ** 0.5, 0),
    )


def deformable_roi_pooling(
    input: Variable,
    rois: Variable,
    trans: Variable,
    no_trans: bool = False,
    spatial_scale: float = 1.0,
    group_size: Sequence[int] = [1, 1],
    pooled_height: int = 1,
    pooled_width: int = 1,
    part_size: Sequence[int] | None = None,
    sample_per_part: int = 1,
    trans_std: float = 0.1,
    position_sensitive: bool = False,
    name: str | None = None,
) -> Variable:
    """The means over the bins of regions, each bin moved by `trans` [R, 2 * classes, *part_size], in
    `trans_std` of the region's size. `position_sensitive`: each part of a region, of `group_size`, has
    channels of its own.
    """
    for value, key in ((input, "input"), (rois, "rois"), (trans, "trans")):
        check_variable_and_dtype(value, key, _FLOATS, "deformable_roi_pooling")
    check_type(group_size, "group_size", (list, tuple), "deformable_roi_pooling")
    part_size = [pooled_height, pooled_width] if part_size is None else part_size
    check_type(part_size, "part_size", (list, tuple), "deformable_roi_pooling")
    for key, pair in (("group_size", group_size), ("part_size", part_size)):
        if len(pair) != 2:
            raise ValueError(f"The {key}'s length must be 2. Received: {list(pair)}")
    _check_truth(position_sensitive=position_sensitive)
    channels = input.shape[1] // (group_size[0] * group_size[1] if position_sensitive else 1)
    attrs = {
        "no_trans": no_trans,
        "spatial_scale": spatial_scale,
        "output_dim": channels,
        "group_size": group_size,
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
        "part_size": part_size,
        "sample_per_part": sample_per_part,
        "trans_std": trans_std,
    }
    inputs, counts = {"Input": input, "ROIs": rois, "Trans": trans}, {"TopCount": "int32"}
    made: dict[str, Any] = {"dtype": input.dtype, "name": name, "slot": "Output", "extra": counts}
    return one_op("deformable_psroi_pooling", inputs, attrs, **made)
