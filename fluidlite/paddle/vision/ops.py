"""`paddle.vision.ops`: boxes on images, and what detectors compute of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.boxes.yolo import yolov3_loss
from fluidlite.paddle.build import append, append_several, need_dims
from fluidlite.paddle.nn.functional.windows import window
from fluidlite.paddle.nn.initializer import Normal
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.programs import begin
from fluidlite.paddle.vision.blocks import ConvNormActivation
from fluidlite.paddle.vision.suppression import matrix_nms, nms

__all__ = [
    "ConvNormActivation",
    "DeformConv2D",
    "PSRoIPool",
    "RoIAlign",
    "RoIPool",
    "box_coder",
    "decode_jpeg",
    "deform_conv2d",
    "distribute_fpn_proposals",
    "generate_proposals",
    "matrix_nms",
    "nms",
    "prior_box",
    "psroi_pool",
    "read_file",
    "roi_align",
    "roi_pool",
    "yolo_box",
    "yolo_loss",
]


# ---------------------------------------------------------------------- anchors and codes
def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Any,
    max_sizes: Sequence[float] | None = None,
    aspect_ratios: Any = (1.0,),
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Boxes [H, W, boxes, 4] around each pixel of the map `input`, in parts of the image, and the variances
    of their codes (Liu et al. 2016).
    """
    attrs = {
        "min_sizes": _floats(min_sizes),
        "aspect_ratios": _floats(aspect_ratios),
        "variances": [float(one) for one in variance],
        "flip": flip,
        "clip": clip,
        "step_w": float(steps[0]),
        "step_h": float(steps[1]),
        "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    if max_sizes is not None and len(max_sizes) > 0 and max_sizes[0] > 0:
        attrs["max_sizes"] = list(max_sizes)
    inputs = {"Input": [input], "Image": [image]}
    kinds = {"Boxes": input.dtype, "Variances": input.dtype}
    boxes, variances = append_several("prior_box", inputs, attrs, kinds)
    for var in (boxes, variances):
        var.stop_gradient = True
    return boxes, variances


def _floats(sizes: Any) -> list[float]:
    return [float(one) for one in sizes] if isinstance(sizes, (list, tuple)) else [float(sizes)]


def box_coder(
    prior_box: Variable,
    prior_box_var: Any,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    name: str | None = None,
) -> Variable:
    """Boxes as offsets of their centers and logarithms of their sizes with regard to priors, or back."""
    attrs: dict[str, Any] = {"code_type": code_type, "box_normalized": box_normalized, "axis": axis}
    inputs = {"PriorBox": [prior_box], "TargetBox": [target_box]}
    if isinstance(prior_box_var, Variable):
        inputs["PriorBoxVar"] = [prior_box_var]
    elif isinstance(prior_box_var, (list, tuple)):
        attrs["variance"] = list(prior_box_var)
    else:
        raise TypeError("Input prior_box_var must be Variable or list")
    return append("box_coder", inputs, attrs, dtype=prior_box.dtype, name=name, slot="OutputBox")


# ---------------------------------------------------------------------- regions of interest
def roi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The largest element in each of the bins that a box is divided into, [boxes, C, *output_size]."""
    attrs = _bins(output_size, spatial_scale)
    inputs = _regions(x, boxes, boxes_num)
    return append("roi_pool", inputs, attrs, dtype=x.dtype, name=name, extra={"Argmax": VarType.INT32})


def roi_align(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> Variable:
    """The mean of bilinear samples in each of the bins that a box is divided into, [boxes, C, *output_size]
    (He et al. 2017); `aligned` has pixels' values stand in their middles.
    """
    attrs = {**_bins(output_size, spatial_scale), "sampling_ratio": sampling_ratio, "aligned": aligned}
    return append("roi_align", _regions(x, boxes, boxes_num), attrs, dtype=x.dtype, name=name)


def psroi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The mean of each of the bins that a box is divided into, each read in a channel of its own (Dai et al.
    2016).
    """
    if len(x.shape) != 4:
        raise ValueError(f"Input features with shape should be (N, C, H, W), but x is {list(x.shape)}")
    attrs = _bins(output_size, spatial_scale)
    count = attrs["pooled_height"] * attrs["pooled_width"]
    if x.shape[1] <= 0 or x.shape[1] % count != 0:
        raise ValueError(f"psroi_pool: x has {x.shape[1]} channels, which must be a multiple of {count} bins")
    attrs["output_channels"] = x.shape[1] // count
    return append("psroi_pool", _regions(x, boxes, boxes_num), attrs, dtype=x.dtype, name=name)


def _bins(output_size: Any, spatial_scale: float) -> dict[str, Any]:
    high, wide = window(output_size, 2, "output_size")
    return {"pooled_height": high, "pooled_width": wide, "spatial_scale": spatial_scale}


def _regions(x: Variable, boxes: Variable, boxes_num: Variable | None) -> dict[str, Any]:
    need_dims(boxes_num, "boxes_num", "pooling of regions", 1)
    inputs = {"X": [x], "ROIs": [boxes]}
    return inputs if boxes_num is None else {**inputs, "RoisNum": [boxes_num]}


class _Pooling(Layer):
    """The sizes of what regions become."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0) -> None:
        super().__init__()
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def extra_repr(self) -> str:
        """The sizes."""
        return f"output_size={self._output_size}, spatial_scale={self._spatial_scale}"


class RoIPool(_Pooling):
    """The largest element in each of the bins of boxes; see `roi_pool`."""

    def forward(self, x: Any, boxes: Any, boxes_num: Any) -> Any:
        """[boxes, C, *output_size]."""
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class RoIAlign(_Pooling):
    """The mean of samples in each of the bins of boxes; see `roi_align`."""

    def forward(self, x: Any, boxes: Any, boxes_num: Any, aligned: bool = True) -> Any:
        """[boxes, C, *output_size]."""
        size = self._output_size
        scale = self._spatial_scale
        return roi_align(x, boxes, boxes_num, size, scale, aligned=aligned)


class PSRoIPool(_Pooling):
    """The mean of each of the bins of boxes, in channels of their own; see `psroi_pool`."""

    def forward(self, x: Any, boxes: Any, boxes_num: Any) -> Any:
        """[boxes, C / bins, *output_size]."""
        return psroi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


# ---------------------------------------------------------------------- deformable convolution
def deform_conv2d(
    x: Variable,
    offset: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution whose filters read the image `offset` beside their regular places, times `mask` (Dai et
    al. 2017, Zhu et al. 2019): offset [N, 2 * deformable_groups * taps, H, W] has (y, x) for each tap.
    """
    attrs = {
        "strides": window(stride, 2, "stride"),
        "paddings": window(padding, 2, "padding"),
        "dilations": window(dilation, 2, "dilation"),
        "groups": groups,
        "deformable_groups": deformable_groups,
        "im2col_step": 1,
    }
    begin()
    helper = LayerHelper("deformable_conv", name=name)
    inputs = {"Input": [x], "Filter": [weight], "Offset": [offset]}
    if mask is not None:
        inputs["Mask"] = [mask]
    op_type = "deformable_conv_v1" if mask is None else "deformable_conv"
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type=op_type, inputs=inputs, outputs={"Output": [out]}, attrs=attrs)
    if bias is None:
        return out
    biased = helper.create_variable_for_type_inference(x.dtype)
    sums = {"X": [out], "Y": [bias]}
    helper.append_op(type="elementwise_add", inputs=sums, outputs={"Out": [biased]}, attrs={"axis": 1})
    return biased


class DeformConv2D(Layer):
    """A convolution with offsets, as a layer that owns its filters; see `deform_conv2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__("deform_conv2d")
        if weight_attr is False:
            raise AssertionError("weight_attr should not be False in Conv.")
        if in_channels % groups != 0:
            raise ValueError(f"in_channels {in_channels} must be divisible by groups {groups}.")
        self._settings = (stride, padding, dilation, deformable_groups, groups)
        sizes = window(kernel_size, 2, "kernel_size")
        self.weight = self.create_parameter(
            [out_channels, in_channels // groups, *sizes],
            weight_attr,
            default_initializer=Normal(0.0, math.sqrt(2.0 / (math.prod(sizes) * in_channels))),
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Any, offset: Any, mask: Any = None) -> Any:
        """The convolution of `x`."""
        return deform_conv2d(x, offset, self.weight, self.bias, *self._settings, mask=mask)


# ---------------------------------------------------------------------- YOLO
def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Variable, Variable]:
    """The boxes that YOLO's map `x` tells of, and their scores (Redmon and Farhadi 2018)."""
    attrs = {
        "anchors": list(anchors),
        "class_num": class_num,
        "conf_thresh": conf_thresh,
        "downsample_ratio": downsample_ratio,
        "clip_bbox": clip_bbox,
        "scale_x_y": scale_x_y,
        "iou_aware": iou_aware,
        "iou_aware_factor": iou_aware_factor,
    }
    inputs = {"X": [x], "ImgSize": [img_size]}
    boxes, scores = append_several("yolo_box", inputs, attrs, {"Boxes": x.dtype, "Scores": x.dtype})
    return boxes, scores


@functools.wraps(yolov3_loss)
def yolo_loss(*args: Any, **kwargs: Any) -> Variable:
    """The loss [N] of YOLO's map: the arguments are those of `fluid.layers.yolov3_loss`."""
    begin()
    return yolov3_loss(*args, **kwargs)


# ---------------------------------------------------------------------- proposals
def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> tuple[list[Variable], Variable, list[Variable] | None]:
    """The boxes of each level of a pyramid (Lin et al. 2017), the place of each box in all of them together,
    and with `rois_num` how many of each image are in each level.
    """
    if min_level > max_level:
        raise AssertionError(f"min_level {min_level} must not be above max_level {max_level}")
    begin()
    helper = LayerHelper("distribute_fpn_proposals", name=name)
    count = max_level - min_level + 1
    levels = [helper.create_variable_for_type_inference(fpn_rois.dtype) for _ in range(count)]
    restore = helper.create_variable_for_type_inference(VarType.INT32)
    inputs = {"FpnRois": [fpn_rois]}
    outputs = {"MultiFpnRois": levels, "RestoreIndex": [restore]}
    counts = None
    if rois_num is not None:
        counts = [helper.create_variable_for_type_inference(VarType.INT32) for _ in range(count)]
        inputs["RoisNum"], outputs["MultiLevelRoIsNum"] = [rois_num], counts
    attrs = {
        "min_level": min_level,
        "max_level": max_level,
        "refer_level": refer_level,
        "refer_scale": refer_scale,
        "pixel_offset": pixel_offset,
    }
    helper.append_op(type="distribute_fpn_proposals", inputs=inputs, outputs=outputs, attrs=attrs)
    return levels, restore, counts


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    img_size: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable | None]:
    """The boxes that remain of those that a region proposal network tells of (Ren et al. 2015), their scores,
    and with `return_rois_num` how many there are of each image.
    """
    inputs = {
        "Scores": [scores],
        "BboxDeltas": [bbox_deltas],
        "ImShape": [img_size],
        "Anchors": [anchors],
        "Variances": [variances],
    }
    attrs = {
        "pre_nms_topN": pre_nms_top_n,
        "post_nms_topN": post_nms_top_n,
        "nms_thresh": nms_thresh,
        "min_size": min_size,
        "eta": eta,
        "pixel_offset": pixel_offset,
    }
    kinds = {"RpnRois": bbox_deltas.dtype, "RpnRoiProbs": scores.dtype}
    if return_rois_num:
        kinds["RpnRoisNum"] = VarType.INT32
    found = append_several("generate_proposals_v2", inputs, attrs, kinds)
    for var in found:
        var.stop_gradient = True
    return found[0], found[1], found[2] if return_rois_num else None


# ---------------------------------------------------------------------- files
def read_file(filename: str, name: str | None = None) -> Variable:
    """The bytes of a file [n] as uint8, read when the program runs."""
    return append("read_file", {}, {"filename": filename}, dtype=VarType.UINT8, name=name, stop_gradient=True)


def decode_jpeg(x: Variable, mode: str = "unchanged", name: str | None = None) -> Variable:
    """The picture [channels, height, width] in the bytes of a JPEG file; mode: "unchanged", "gray", "rgb"."""
    return append(
        "decode_jpeg", {"X": [x]}, {"mode": mode}, dtype=VarType.UINT8, name=name, stop_gradient=True
    )


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
