"""Layers that resize images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "image_resize",
    "image_resize_short",
    "interpolate",
    "resize_bilinear",
    "resize_nearest",
    "resize_trilinear",
]

_METHODS = {"BILINEAR": "bilinear", "TRILINEAR": "trilinear", "NEAREST": "nearest", "BICUBIC": "bicubic"}
_NAMES = ("out_d", "out_h", "out_w")


def image_resize(
    input: Variable,
    out_shape: Any = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """The input resized to `out_shape` (height and width, or depth, height and width) or by the factor
    `scale`.

    Either may be a Variable, and so may entries of `out_shape`. With `align_corners` the corners' centres
    stay where they are; without, `align_mode` 0 puts the centre of place i at i + 0.5 and 1 at i.
    """
    if resample not in ("BILINEAR", "TRILINEAR", "NEAREST"):
        raise ValueError(
            f"resample of layers.image_resize must be 'BILINEAR', 'TRILINEAR' or 'NEAREST', but is "
            f"{resample!r}"
        )
    return interpolate(
        input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode, data_format
    )


def interpolate(
    input: Variable,
    out_shape: Any = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` that also knows "BICUBIC", between the sixteen nearest pixels."""
    if resample not in _METHODS:
        raise ValueError(
            f"resample of layers.interpolate must be 'BILINEAR', 'TRILINEAR', 'BICUBIC' or 'NEAREST', but is "
            f"{resample!r}"
        )
    method = _METHODS[resample]
    _check(input, method, align_corners, align_mode)
    if out_shape is None and scale is None:
        raise ValueError("One of out_shape and scale must not be None.")
    helper = LayerHelper(f"{method}_interp", input=input, name=name)
    dtype = helper.input_dtype()
    _check_layout(len(input.shape), data_format)
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {
        **dict.fromkeys(_NAMES, -1),
        "interp_method": method,
        "align_corners": align_corners,
        "align_mode": align_mode,
        "data_layout": "NCHW" if data_format in ("NCHW", "NCDHW") else "NHWC",
    }
    if out_shape is not None:
        _take_out_shape(helper, out_shape, len(input.shape) - 2, inputs, attrs)
    else:
        _take_scale(scale, inputs, attrs)
    _take_actual_shape(actual_shape, inputs)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type=f"{method}_interp", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _check(input: Variable, method: str, align_corners: bool, align_mode: int) -> None:
    rank = len(input.shape)
    if (rank == 5) != (method == "trilinear") or rank not in (4, 5):
        raise ValueError(
            f"layers.image_resize: {method} is for {5 if method == 'trilinear' else 4} dimensions, but the "
            f"input has shape {input.shape}"
        )
    if not isinstance(align_corners, bool):
        raise TypeError(f"Attr align_corners should be a bool value, but is {align_corners!r}")
    if align_mode not in (0, 1):
        raise ValueError(f"align_mode can only be 0 or 1, but is {align_mode!r}")


def _check_layout(rank: int, data_format: str) -> None:
    layouts = ("NCHW", "NHWC") if rank == 4 else ("NCDHW", "NDHWC")
    if data_format not in layouts:
        raise ArgumentError(
            f"data_format of layers.image_resize must be one of {layouts} for {rank} dimensions, but is "
            f"{data_format!r}"
        )


def _take_out_shape(
    helper: LayerHelper, out_shape: Any, dims: int, inputs: dict[str, Any], attrs: dict[str, Any]
) -> None:
    if isinstance(out_shape, Variable):
        out_shape.stop_gradient = True
        inputs["OutSize"] = out_shape
        return
    if not isinstance(out_shape, (list, tuple)):
        raise TypeError(f"out_shape should be a list or tuple or Variable, but is {out_shape!r}")
    if len(out_shape) != dims:
        raise ValueError(
            f"out_shape length should be {dims} for input {dims + 2}-D tensor, but is {out_shape!r}"
        )
    if any(isinstance(size, Variable) for size in out_shape):
        inputs["SizeTensor"] = [_as_tensor(helper, size) for size in out_shape]
    if any(not isinstance(size, Variable) and size <= 0 for size in out_shape):
        raise AssertionError(
            f"Each dimension size given in out_shape must be greater than 0, but it is {out_shape!r}"
        )
    known = [-1 if isinstance(size, Variable) else int(size) for size in out_shape]
    attrs.update(zip(_NAMES[-dims:], known, strict=True))


def _as_tensor(helper: LayerHelper, size: Any) -> Variable:
    """One entry of a shape as a variable."""
    if isinstance(size, Variable):
        size.stop_gradient = True
        return size
    out = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    helper.append_op(
        type="fill_constant",
        inputs={},
        outputs={"Out": [out]},
        attrs={
            "shape": [1],
            "dtype": VarType.INT32,
            "value": float(size),
            "force_cpu": True,
            "str_value": str(size),
        },
    )
    return out


def _take_actual_shape(actual_shape: Any, inputs: dict[str, Any]) -> None:
    """The shape that goes before the others at run time."""
    if actual_shape is not None:
        warn_user(
            "actual_shape will be deprecated, it is recommended to use out_shape instead of actual_shape to "
            "specify output shape dynamically.",
            category=UserWarning,
        )
    if isinstance(actual_shape, Variable):
        actual_shape.stop_gradient = True
        inputs["OutSize"] = actual_shape
    elif actual_shape is not None:
        raise TypeError(f"actual_shape should either be Variable or None, but is {actual_shape!r}")


def _take_scale(scale: Any, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    if isinstance(scale, Variable):
        scale.stop_gradient = True
        inputs["Scale"] = scale
        return
    if not isinstance(scale, (int, float)):
        raise TypeError(f"Attr(scale)'s type should be float, int or Variable, but is {scale!r}")
    if scale <= 0:
        raise ValueError(f"Attr(scale) should be greater than zero, but is {scale}")
    attrs["scale"] = float(scale)


def resize_bilinear(
    input: Variable,
    out_shape: Any = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` between the four nearest pixels."""
    return image_resize(
        input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_trilinear(
    input: Variable,
    out_shape: Any = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """`image_resize` of volumes, between the eight nearest places."""
    return image_resize(
        input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_nearest(
    input: Variable,
    out_shape: Any = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` that takes the nearest pixel."""
    return image_resize(
        input,
        out_shape,
        scale,
        name,
        "NEAREST",
        actual_shape,
        align_corners,
        align_mode=1,
        data_format=data_format,
    )


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """`image_resize` so that the shorter of height and width becomes `out_short_len` and their ratio
    stays.
    """
    if len(input.shape) != 4:
        raise ValueError(
            f"the input of layers.image_resize_short must have 4 dimensions, but has shape {input.shape}"
        )
    sizes: Sequence[int] = input.shape[2:4]
    short = list(sizes).index(min(sizes))
    out_shape = list(sizes)
    out_shape[short] = out_short_len
    out_shape[1 - short] = int(
        float(out_shape[1 - short]) * (float(out_short_len) / float(sizes[short])) + 0.5
    )
    return image_resize(input=input, out_shape=out_shape, resample=resample)
