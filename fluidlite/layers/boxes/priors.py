"""Priors and anchors: boxes that stand in the same way at every place of a feature map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import temporaries

__all__ = ["anchor_generator", "density_prior_box", "prior_box"]

_FLOATS = ["float32", "float64"]
_VARIANCE = [0.1, 0.1, 0.2, 0.2]


def _append(
    op_type: str, name: str | None, slot: str, inputs: dict[str, Variable], attrs: dict[str, Any]
) -> tuple[Variable, Variable]:
    """The op's boxes, in its output `slot`, and their variances; neither has a gradient."""
    helper = LayerHelper(op_type, name=name)
    boxes, variances = temporaries(helper, 2, inputs["Input"].dtype)
    helper.append_op(type=op_type, inputs=inputs, outputs={slot: boxes, "Variances": variances}, attrs=attrs)
    boxes.stop_gradient = variances.stop_gradient = True
    return boxes, variances


def _pair(what: str, value: Any) -> list[float]:
    """A list or tuple of two numbers, or one number in it, which stands for both."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError(
            f"{what} should be a list or tuple with length 2, ({what}_width, {what}_height), but is {value!r}"
        )
    return list(value)


def _numbers(value: Any) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Sequence[float] | float,
    max_sizes: Sequence[float] | None = None,
    aspect_ratios: Sequence[float] | float = [1.0],
    variance: Sequence[float] = _VARIANCE,
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = [0.0, 0.0],
    offset: float = 0.5,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable]:
    """Priors of SSD at each place of the feature map `input` [N, C, H, W], as parts of the image: boxes and
    variances, [H, W, priors, 4] each.

    Sizes are in pixels of `image`. For each min_size a box of each ratio (1 always; `flip` adds inverses);
    for each max_size a square between the two. `steps` (width, height) are pixels between places, 0 for
    image over map; `clip` keeps the boxes inside.
    """
    check_variable_and_dtype(input, "input", ["uint8", "int8", *_FLOATS], "prior_box")
    attrs: dict[str, Any] = {
        "min_sizes": [float(size) for size in _numbers(min_sizes)],
        "aspect_ratios": [float(ratio) for ratio in _numbers(aspect_ratios)],
        "variances": variance,
        "flip": flip,
        "clip": clip,
        "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    attrs["step_w"], attrs["step_h"] = (float(step) for step in _pair("steps", steps))
    check_type(max_sizes, "max_sizes", (list, tuple, type(None)), "prior_box")
    if max_sizes and max_sizes[0] > 0:
        attrs["max_sizes"] = [float(size) for size in max_sizes]
    return _append("prior_box", name, "Boxes", {"Input": input, "Image": image}, attrs)


def density_prior_box(
    input: Variable,
    image: Variable,
    densities: Sequence[int] | None = None,
    fixed_sizes: Sequence[float] | None = None,
    fixed_ratios: Sequence[float] | None = None,
    variance: Sequence[float] = _VARIANCE,
    clip: bool = False,
    steps: Sequence[float] = [0.0, 0.0],
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Priors of FaceBoxes: as `prior_box`, but each size and ratio stands density by density times at a
    place.

    `densities` and `fixed_sizes` have one entry a size. With `flatten_to_2d` boxes and variances are
    [priors, 4].
    """
    check_variable_and_dtype(input, "input", _FLOATS, "density_prior_box")
    for what, value in (
        ("densities", densities),
        ("fixed_sizes", fixed_sizes),
        ("fixed_ratios", fixed_ratios),
    ):
        check_type(value, what, (list, tuple), "density_prior_box")
    assert densities is not None and fixed_sizes is not None and fixed_ratios is not None
    if len(densities) != len(fixed_sizes):
        raise ValueError(
            f"densities and fixed_sizes length should be equal, but are {len(densities)} and "
            f"{len(fixed_sizes)}"
        )
    attrs: dict[str, Any] = {
        "variances": variance,
        "clip": clip,
        "offset": offset,
        "densities": [int(density) for density in densities],
        "fixed_sizes": [float(size) for size in fixed_sizes],
        "fixed_ratios": [float(ratio) for ratio in fixed_ratios],
        "flatten_to_2d": flatten_to_2d,
    }
    attrs["step_w"], attrs["step_h"] = (float(step) for step in _pair("steps", steps))
    return _append("density_prior_box", name, "Boxes", {"Input": input, "Image": image}, attrs)


def anchor_generator(
    input: Variable,
    anchor_sizes: Sequence[float] | float | None = None,
    aspect_ratios: Sequence[float] | float | None = None,
    variance: Sequence[float] = _VARIANCE,
    stride: Sequence[float] | None = None,
    offset: float = 0.5,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Anchors of Faster R-CNN at each place of the feature map `input` [N, C, H, W], in pixels of the image:
    boxes and variances, [H, W, anchors, 4] each.

    Each ratio (height over width) with each size; `stride` (width, height) are pixels between places.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "anchor_generator")
    attrs = {
        "anchor_sizes": [float(size) for size in _numbers(anchor_sizes)],
        "aspect_ratios": [float(ratio) for ratio in _numbers(aspect_ratios)],
        "variances": variance,
        "stride": [float(step) for step in _pair("stride", stride)],
        "offset": offset,
    }
    return _append("anchor_generator", name, "Anchors", {"Input": input}, attrs)
