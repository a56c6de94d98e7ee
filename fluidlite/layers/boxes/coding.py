"""Boxes one by one: their overlaps, their codes relative to priors, and their place in the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op, temporaries

__all__ = ["box_clip", "box_coder", "box_decoder_and_assign", "iou_similarity", "polygon_box_transform"]

_FLOATS = ["float32", "float64"]


def iou_similarity(
    x: Variable, y: Variable, box_normalized: bool = True, name: str | None = None
) -> Variable:
    """Intersection over union, [N, M], of the boxes `x` [N, 4] with the boxes `y` [M, 4]; sequences as `x`.

    Boxes are (xmin, ymin, xmax, ymax); without `box_normalized` the pixels at both ends belong to the box.
    """
    return one_op(
        "iou_similarity", {"X": x, "Y": y}, {"box_normalized": box_normalized}, dtype=x.dtype, name=name
    )


def box_coder(
    prior_box: Variable,
    prior_box_var: Variable | Sequence[float],
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    name: str | None = None,
    axis: int = 0,
) -> Variable:
    """Codes of boxes relative to priors [M, 4], or the boxes of codes.

    "encode_center_size": boxes [N, 4] become codes [N, M, 4]: offset of the centre in sizes of the prior, and
    logarithm of the size's ratio, divided by `prior_box_var` ([M, 4], or four numbers).
    "decode_center_size": codes [N, M, 4] become boxes; `axis` is the dimension along which priors repeat.
    """
    check_variable_and_dtype(prior_box, "prior_box", _FLOATS, "box_coder")
    check_variable_and_dtype(target_box, "target_box", _FLOATS, "box_coder")
    inputs: dict[str, Any] = {"PriorBox": prior_box, "TargetBox": target_box}
    attrs: dict[str, Any] = {"code_type": code_type, "box_normalized": box_normalized, "axis": axis}
    if isinstance(prior_box_var, Variable):
        inputs["PriorBoxVar"] = prior_box_var
    elif isinstance(prior_box_var, list):
        attrs["variance"] = prior_box_var
    else:
        raise TypeError(f"Input variance of box_coder must be Variable or list, but is {prior_box_var!r}")
    return one_op("box_coder", inputs, attrs, dtype=prior_box.dtype, name=name, slot="OutputBox")


def box_clip(input: Variable, im_info: Variable, name: str | None = None) -> Variable:
    """Boxes cut off at the edges of their images; a sequence an image.

    `im_info` [N, 3] has height and width of each image as scaled, and the scale: boxes lie in the image as it
    was before.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "box_clip")
    check_variable_and_dtype(im_info, "im_info", _FLOATS, "box_clip")
    return one_op(
        "box_clip", {"Input": input, "ImInfo": im_info}, dtype=input.dtype, name=name, slot="Output"
    )


def polygon_box_transform(input: Variable, name: str | None = None) -> Variable:
    """Corners of text boxes from offsets [N, 2 * corners, H, W] (x and y in turn) to each place of a map of a
    quarter of the image's size.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "polygon_box_transform")
    return one_op("polygon_box_transform", {"Input": input}, dtype=input.dtype, name=name, slot="Output")


def box_decoder_and_assign(
    prior_box: Variable,
    prior_box_var: Variable,
    target_box: Variable,
    box_score: Variable,
    box_clip: float,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Boxes [N, classes * 4] of codes of every class relative to priors [N, 4], and for each prior the box
    [N, 4] of its best class (class 0 is the background).

    `box_score` is [N, classes]; `box_clip` limits the logarithm of a size's ratio.
    """
    check_variable_and_dtype(prior_box, "prior_box", _FLOATS, "box_decoder_and_assign")
    check_variable_and_dtype(target_box, "target_box", _FLOATS, "box_decoder_and_assign")
    check_variable_and_dtype(box_score, "box_score", _FLOATS, "box_decoder_and_assign")
    helper = LayerHelper("box_decoder_and_assign", name=name)
    boxes, best = temporaries(helper, 2, prior_box.dtype)
    helper.append_op(
        type="box_decoder_and_assign",
        inputs={
            "PriorBox": prior_box,
            "PriorBoxVar": prior_box_var,
            "TargetBox": target_box,
            "BoxScore": box_score,
        },
        outputs={"DecodeBox": boxes, "OutputAssignBox": best},
        attrs={"box_clip": box_clip},
    )
    return boxes, best
