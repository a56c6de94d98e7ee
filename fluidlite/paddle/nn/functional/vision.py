"""Functions of 2.x that move the pixels of pictures, and two that sequences need."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_variable

__all__ = ["affine_grid", "diag_embed", "gather_tree", "grid_sample", "pixel_shuffle", "temporal_shift"]


def affine_grid(
    theta: Variable, out_shape: Any, align_corners: bool = True, name: str | None = None
) -> Variable:
    """Places [batch, height, width, 2] that the maps theta, [batch, 2, 3], send the pixels of pictures of
    `out_shape` to, from -1 to 1; `grid_sample` takes them.
    """
    need_variable(theta, "theta", "affine_grid")
    inputs, attrs = {"Theta": [theta]}, {"align_corners": align_corners}
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
    """The values of pictures at the places of `grid` (x, y), from -1 to 1: of the "nearest" pixel, or between
    four ("bilinear"). What lies outside is 0 ("zeros"), the "border", or the picture's "reflection".
    """
    if mode not in ("bilinear", "nearest"):
        raise ValueError(
            f"The mode of grid sample function should be in [bilinear, nearest], but got: {mode}"
        )
    if padding_mode not in ("zeros", "reflection", "border"):
        raise ValueError(f"The padding mode should be zeros, reflection or border, but got: {padding_mode}")
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    inputs = {"X": [x], "Grid": [grid]}
    return append("grid_sampler", inputs, attrs, dtype=x.dtype, slot="Output", name=name)


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


def temporal_shift(
    x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: str = "NCHW"
) -> Variable:
    """A share of the channels taken from the picture before, and as many from the one after, in each group of
    `seg_num` pictures (Lin et al., 2019).
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
