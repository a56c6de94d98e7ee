"""Layers that pad, cut up, rearrange and warp images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "affine_grid",
    "grid_sampler",
    "im2sequence",
    "maxout",
    "pad",
    "pad2d",
    "pad_constant_like",
    "pixel_shuffle",
    "row_conv",
    "shuffle_channel",
    "space_to_depth",
    "temporal_shift",
    "unfold",
]

_FLOATS = ["float32", "float64"]


def _apply(
    helper: LayerHelper,
    type: str,
    inputs: dict[str, Any],
    dtype: Any,
    attrs: dict[str, Any] | None = None,
    slot: str = "Out",
) -> Variable:
    """Append an op with one output."""
    out = helper.create_variable_for_type_inference(dtype=dtype)
    helper.append_op(type=type, inputs=inputs, outputs={slot: out}, attrs=attrs)
    return out


# ------------------------------------------------------------------ padding
def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """x within `pad_value`; `paddings` holds before and after for each dimension, one after the other."""
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int32", "int64"], "pad")
    helper = LayerHelper("pad", input=x, name=name)
    return _apply(
        helper, "pad", {"X": x}, helper.input_dtype(), {"paddings": paddings, "pad_value": float(pad_value)}
    )


def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """y padded with `pad_value` after its elements to the shape of x."""
    check_type(x, "x", Variable, "pad_constant_like")
    check_variable_and_dtype(y, "y", ["float32", "float64", "int32", "int64"], "pad_constant_like")
    helper = LayerHelper("pad_constant_like", input=x, name=name)
    return _apply(
        helper, "pad_constant_like", {"X": x, "Y": y}, helper.input_dtype(), {"pad_value": float(pad_value)}
    )


def pad2d(
    input: Variable,
    paddings: Sequence[int] | Variable = [0, 0, 0, 0],  # noqa: B006
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images with [top, bottom, left, right] `paddings` of `pad_value` ("constant"), of what they mirror
    ("reflect"), or of their borders ("edge").
    """
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64", "int32", "int64"], "pad2d")
    if mode not in ("constant", "reflect", "edge"):
        raise ArgumentError(f"pad2d: mode should be one of constant, reflect, edge, but is {mode!r}")
    inputs = {"X": [input]} | ({"Paddings": [paddings]} if isinstance(paddings, Variable) else {})
    attrs = {
        "mode": mode,
        "pad_value": pad_value,
        "data_format": data_format,
        "paddings": [] if isinstance(paddings, Variable) else list(paddings),
    }
    return _apply(LayerHelper("pad2d", name=name), "pad2d", inputs, input.dtype, attrs)


# ------------------------------------------------------------------ channels and places
def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """The largest of each `groups` neighbouring channels; `axis` is 1, or 3 or -1 where channels are last."""
    check_variable_and_dtype(x, "x", _FLOATS, "maxout")
    helper = LayerHelper("maxout", name=name)
    if axis not in (1, -1, 3):
        raise ValueError(f"axis of layers.maxout must be 1 (NCHW), or 3 or -1 (NHWC), but is {axis}")
    return _apply(helper, "maxout", {"X": x}, x.dtype, {"groups": groups, "axis": 3 if axis == -1 else axis})


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """(N, C r^2, H, W) as (N, C, H r, W r) for r = `upscale_factor`."""
    check_variable_and_dtype(x, "x", _FLOATS, "pixel_shuffle")
    helper = LayerHelper("pixel_shuffle", x=x)
    if not isinstance(upscale_factor, int):
        raise TypeError(f"upscale factor must be int type, but is {upscale_factor!r}")
    return _apply(helper, "pixel_shuffle", {"X": x}, x.dtype, {"upscale_factor": upscale_factor})


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """(N, C, H, W) as (N, C b^2, H / b, W / b) for b = `blocksize`, in the order of Paddle's (and
    darknet's) reorg.
    """
    helper = LayerHelper("space_to_depth", x=x, name=name)
    if not isinstance(blocksize, int):
        raise ValueError(f"blocksize must be a python Int, but is {blocksize!r}")
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int32", "int64"], "space_to_depth")
    return _apply(helper, "space_to_depth", {"X": x}, x.dtype, {"blocksize": blocksize})


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """Channels dealt out from `group` groups in turn (ShuffleNet)."""
    helper = LayerHelper("shuffle_channel", x=x, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    if not isinstance(group, int):
        raise TypeError(f"group must be int type, but is {group!r}")
    helper.append_op(type="shuffle_channel", inputs={"X": x}, outputs={"Out": out}, attrs={"group": group})
    return out


def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Moves `shift_ratio` of the channels one frame on and as many one frame back, within segments of
    `seg_num` frames.
    """
    helper = LayerHelper("temporal_shift", x=x, name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "temporal_shift")
    check_type(seg_num, "seg_num", int, "temporal_shift")
    check_type(shift_ratio, "shift_ratio", float, "temporal_shift")
    return _apply(
        helper, "temporal_shift", {"X": x}, x.dtype, {"seg_num": seg_num, "shift_ratio": shift_ratio}
    )


# ------------------------------------------------------------------ windows
def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    input_image_size: Variable | None = None,
    out_stride: Any = 1,
    name: str | None = None,
) -> Variable:
    """A sequence for each image whose rows are its windows, flattened.

    `padding` is a number, [vertical, horizontal], or [top, left, bottom, right]. `input_image_size` (N, 2)
    holds sizes of images in pixels, of which `out_stride` pixels make one place of the input: windows outside
    these are left out.
    """
    check_variable_and_dtype(input, "input", ["float32"], "im2sequence")
    padding = _pair(padding)
    if len(padding) == 2:
        padding = padding * 2
    inputs = {"X": input}
    attrs = {"kernels": _pair(filter_size), "strides": _pair(stride), "paddings": padding}
    if input_image_size is not None:
        inputs["Y"] = input_image_size
        attrs["out_stride"] = _pair(out_stride)
    helper = LayerHelper("im2sequence", input=input, name=name)
    return _apply(helper, "im2sequence", inputs, helper.input_dtype(), attrs)


def unfold(
    x: Variable,
    kernel_sizes: Any,
    strides: int | Sequence[int] = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Windows of images as columns: (N, C * height * width of a window, number of windows).

    `paddings` is a number, [vertical, horizontal], or [top, left, bottom, right].
    """
    helper = LayerHelper("unfold", x=x, name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "unfold")
    if len(x.shape) != 4:
        raise AssertionError(f"the input of layers.unfold must be (N, C, H, W), but has shape {x.shape}")
    attrs = {
        key: _two(key, value)
        for key, value in (("kernel_sizes", kernel_sizes), ("strides", strides), ("dilations", dilations))
    }
    attrs["paddings"] = (
        list(paddings)
        if isinstance(paddings, list) and len(paddings) == 4
        else _two("paddings", paddings) * 2
    )
    return _apply(helper, "unfold", {"X": x}, x.dtype, attrs, slot="Y")


def _two(name: str, value: Any) -> list[int]:
    if isinstance(value, int) or (isinstance(value, list) and len(value) == 2):
        return _pair(value)
    raise ArgumentError(f"{name} must be an integer or a list of two of them, but is {value!r}")


def row_conv(
    input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None
) -> Variable:
    """act(sum over i of weight i * row t + i) for each row t of a sequence and the `future_context_size`
    rows after it.
    """
    helper = LayerHelper("row_conv", input=input, param_attr=param_attr, act=act)
    check_variable_and_dtype(input, "input", ["float32"], "row_conv")
    dtype = helper.input_dtype()
    weights = helper.create_parameter(
        attr=helper.param_attr, shape=[future_context_size + 1, input.shape[-1]], dtype=dtype
    )
    return helper.append_activation(_apply(helper, "row_conv", {"X": [input], "Filter": [weights]}, dtype))


# ------------------------------------------------------------------ warping
def affine_grid(theta: Variable, out_shape: Any, name: str | None = None) -> Variable:
    """Sources of the points of an image of `out_shape` [N, C, H, W] under the maps theta (N, 2, 3): (N, H, W,
    2) in [-1, 1].
    """
    helper = LayerHelper("affine_grid")
    check_variable_and_dtype(theta, "theta", _FLOATS, "affine_grid")
    if not isinstance(out_shape, (Variable, list, tuple)):
        raise ArgumentError(
            f"out_shape of affine_grid should be a list, tuple or Variable, but is {out_shape!r}"
        )
    out = helper.create_variable_for_type_inference(theta.dtype)
    inputs, attrs = {"Theta": theta}, {}
    if isinstance(out_shape, Variable):
        inputs["OutputShape"] = out_shape
        check_variable_and_dtype(out_shape, "out_shape", ["int32"], "affine_grid")
        if len(out_shape.shape) != 1:
            raise ArgumentError(f"out_shape of affine_grid has the shape {list(out_shape.shape)}, wanted [4]")
    elif len(out_shape) != 4:
        raise ArgumentError(f"out_shape of affine_grid is {out_shape!r}, wanted four numbers [N, C, H, W]")
    else:
        attrs["output_shape"] = out_shape
    helper.append_op(type="affine_grid", inputs=inputs, outputs={"Output": out}, attrs=attrs)
    return out


def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """x at the points of `grid` (N, H, W, 2), columns and rows in [-1, 1], between pixels bilinear,
    outside zero.
    """
    helper = LayerHelper("grid_sampler", name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "grid_sampler")
    check_variable_and_dtype(grid, "grid", _FLOATS, "grid_sampler")
    return _apply(helper, "grid_sampler", {"X": x, "Grid": grid}, x.dtype, slot="Output")
