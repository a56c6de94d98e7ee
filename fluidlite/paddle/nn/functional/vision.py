"""Functions of 2.x that move the pixels of images, and two that sequences need."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_variable
from fluidlite.paddle.nn.functional.windows import window

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "diag_embed",
    "fold",
    "gather_tree",
    "grid_sample",
    "pixel_shuffle",
    "pixel_unshuffle",
    "temporal_shift",
]


def affine_grid(
    theta: Variable, out_shape: Any, align_corners: bool = True, name: str | None = None
) -> Variable:
    """Places [batch, height, width, 2] that the maps theta, [batch, 2, 3], send the pixels of images of
    `out_shape` to, from -1 to 1; `grid_sample` takes them.
    """
    need_variable(theta, "theta", "affine_grid")
    inputs = {"Theta": [theta]}
    attrs = {"align_corners": align_corners}
    if isinstance(out_shape, Variable):
        inputs["OutputShape"] = [out_shape]
    else:
        attrs["output_shape"] = list(out_shape)  # type: ignore[assignment]
    return append("affine_grid", inputs, attrs, dtype=theta.dtype, slot="Output")


def grid_sample(
    x: Variable,
    grid: Variable,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Variable:
    """The values of images at the places of `grid` (x, y), from -1 to 1: of the "nearest" pixel, or between
    four ("bilinear"). What lies outside is 0 ("zeros"), the "border", or the image's "reflection".
    """
    if mode not in ("bilinear", "nearest"):
        raise ValueError(
            f"The mode of grid sample function should be in [bilinear, nearest], but got: {mode}"
        )
    if padding_mode not in ("zeros", "reflection", "border"):
        raise ValueError(f"The padding mode should be zeros, reflection or border, but got: {padding_mode}")
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    inputs = {"X": [x], "Grid": [grid]}
    return append("grid_sampler", inputs, attrs, dtype=x.dtype, slot="Output", layer="grid_sample", name=name)


def pixel_shuffle(
    x: Variable, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Channels as pixels: [batch, c * r * r, h, w] -> [batch, c, h * r, w * r] (Shi et al., 2016)."""
    if not isinstance(upscale_factor, int):
        raise TypeError("upscale factor must be int type")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC'. But received {data_format}")
    attrs = {"upscale_factor": upscale_factor, "data_format": data_format}
    return append("pixel_shuffle", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def pixel_unshuffle(
    x: Variable, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Pixels as channels: [batch, c, h * r, w * r] -> [batch, c * r * r, h, w]."""
    if len(x.shape) != 4:
        raise ValueError(f"Input x should be 4D tensor, but received x with the shape of {x.shape}")
    if not isinstance(downscale_factor, int):
        raise TypeError("Downscale factor must be int type")
    _check_pictures(data_format)
    attrs = {"downscale_factor": downscale_factor, "data_format": data_format}
    return append("pixel_unshuffle", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def _check_pictures(data_format: str) -> None:
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC'. But received {data_format}")


def channel_shuffle(x: Variable, groups: int, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """The first channel of each group, then the second of each, and so on (Zhang et al., 2018)."""
    if len(x.shape) != 4:
        raise ValueError(f"Input x should be 4D tensor, but received x with the shape of {x.shape}")
    if not isinstance(groups, int):
        raise TypeError("groups must be int type")
    if groups <= 0:
        raise ValueError("groups must be positive")
    _check_pictures(data_format)
    attrs = {"groups": groups, "data_format": data_format}
    return append("channel_shuffle", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def fold(
    x: Variable,
    output_sizes: Any,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Windows [batch, channels * window, number of windows] as images of `output_sizes`, added up where
    they lie over each other: the way back from `unfold`.
    """
    if len(x.shape) != 3:
        raise AssertionError(f"input should be the format of [N, C, L], but x is {list(x.shape)}")
    sides = [paddings] * 4 if isinstance(paddings, Integral) else list(paddings)
    attrs = {
        "output_sizes": window(output_sizes, 2, "output_sizes"),
        "kernel_sizes": window(kernel_sizes, 2, "kernel_sizes"),
        "strides": window(strides, 2, "strides"),
        "paddings": sides * 2 if len(sides) == 2 else sides,
        "dilations": window(dilations, 2, "dilations"),
    }
    return append("fold", {"X": [x]}, attrs, dtype=x.dtype, slot="Y", name=name)


def temporal_shift(
    x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: str = "NCHW"
) -> Variable:
    """A share of the channels taken from the image before, and as many from the one after, in each group of
    `seg_num` images (Lin et al., 2019).
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC'. Received: {data_format}.")
    attrs = {"seg_num": seg_num, "shift_ratio": shift_ratio, "data_format": data_format}
    return append("temporal_shift", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def diag_embed(input: Variable, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices, in the dimensions `dim1` and `dim2` of the result, with the last dimension of `input` on
    their diagonal, or `offset` places above it.
    """
    attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return append("diag_embed", {"Input": [input]}, attrs, dtype=input.dtype, stop_gradient=True)


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """The whole sequences [time, batch, beams] of a beam search, from ids and the beams that each came
    from.
    """
    inputs = {"Ids": [ids], "Parents": [parents]}
    return append("gather_tree", inputs, dtype=ids.dtype)
