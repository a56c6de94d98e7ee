"""Both ends of a detector's boxes: the head that predicts them, and the boxes that come out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.reduce import softmax
from fluidlite.layers.boxes.coding import box_coder
from fluidlite.layers.boxes.priors import prior_box
from fluidlite.layers.neural.conv import conv2d
from fluidlite.layers.tensors.shaping import flatten, reshape, transpose
from fluidlite.layers.tensors.variables import concat

__all__ = ["detection_output", "multi_box_head"]


def detection_output(
    loc: Variable,
    scores: Variable,
    prior_box: Variable,
    prior_box_var: Variable,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
    return_index: bool = False,
) -> Variable | tuple[Variable, Variable]:
    """SSD's boxes, [count, 6] rows of (class, score, xmin, ymin, xmax, ymax), a sequence an image.

    `loc` [N, priors, 4] are codes, `scores` [N, priors, classes] numbers whose softmax are probabilities. See
    `multiclass_nms` for the limits. With `return_index` also the number of each box's prior.
    """
    helper = LayerHelper("detection_output")
    boxes = box_coder(prior_box, prior_box_var, loc, code_type="decode_center_size")
    by_class = transpose(softmax(scores), perm=[0, 2, 1])
    by_class.stop_gradient = True
    out = helper.create_variable_for_type_inference(dtype=boxes.dtype)
    outputs = {"Out": out}
    if return_index:
        outputs["Index"] = index = helper.create_variable_for_type_inference(dtype="int64")
        index.stop_gradient = True
    helper.append_op(
        type="multiclass_nms2" if return_index else "multiclass_nms",
        inputs={"Scores": by_class, "BBoxes": boxes},
        outputs=outputs,
        attrs={
            # whatever the arguments say: so does 1.8.5
            "background_label": 0,
            "nms_eta": 1.0,
            "nms_threshold": nms_threshold,
            "nms_top_k": nms_top_k,
            "keep_top_k": keep_top_k,
            "score_threshold": score_threshold,
        },
    )
    out.stop_gradient = True
    return (out, index) if return_index else out


def _check_one_an_input(what: str, value: Any, count: int) -> None:
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise ValueError(
            f"{what} should be list or tuple, and the length of inputs and {what} should be the same, but is "
            f"{value!r} for {count} inputs"
        )


def _sizes_between(
    base_size: float, min_ratio: int | None, max_ratio: int | None, count: int
) -> tuple[list[float], list[float]]:
    """Smallest and largest size of the priors of each map, from the ratios (percent of `base_size`) of the
    second map and the last, in equal steps; the first map has 10 to 20 percent.
    """
    assert min_ratio is not None and max_ratio is not None
    step = math.floor((max_ratio - min_ratio) / (count - 2))
    ratios = range(min_ratio, max_ratio + 1, step)
    return (
        [base_size * 0.10, *(base_size * ratio / 100.0 for ratio in ratios)],
        [base_size * 0.20, *(base_size * (ratio + step) / 100.0 for ratio in ratios)],
    )


def _sizes(
    count: int, base_size: float, ratios: tuple[int | None, int | None], given: tuple[Any, Any]
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Smallest and largest sizes of each map: those given, or from the ratios."""
    smallest, largest = given
    if count <= 2:
        assert smallest is not None and largest is not None, "one or two maps need min_sizes and max_sizes"
        assert len(smallest) == len(largest) == count, (
            f"{count} maps have {len(smallest)} min_sizes and {len(largest)} max_sizes"
        )
    elif smallest is None and largest is None:
        return _sizes_between(base_size, *ratios, count)
    return smallest, largest


def _maps(
    inputs: Sequence[Variable], sizes: Any, aspect_ratios: Any, steps: tuple[Any, Any]
) -> Iterator[tuple[Variable, dict[str, Any]]]:
    """Each map with the arguments that its priors have of their own."""
    count = len(inputs)
    ratios, step_w, step_h = aspect_ratios or [1.0] * count, *(step or [0.0] * count for step in steps)
    for what, value in (("aspect_ratios", ratios), ("step_w", step_w), ("step_h", step_h)):
        _check_one_an_input(what, value, count)
    smallest, largest = sizes
    for index, input in enumerate(inputs):
        own = {"min_sizes": smallest[index], "aspect_ratios": ratios[index]}
        if largest:
            own["max_sizes"] = largest[index]
            if not isinstance(largest[index], (list, tuple)):
                own["max_sizes"] = [largest[index]]
        yield input, {**own, "steps": [step_w[index], step_h[index]]}


def _parts(
    input: Variable, image: Variable, num_classes: int, conv: dict[str, Any], options: dict[str, Any]
) -> tuple[Variable, Variable, Variable, Variable]:
    """Codes and scores that two convolutions predict, place by place, priors and variances of one map."""
    box, variances = prior_box(input, image, **options)
    codes, scores = (
        flatten(transpose(conv2d(input, box.shape[2] * width, **conv), perm=[0, 2, 3, 1]), axis=1)
        for width in (4, num_classes)
    )
    return codes, scores, box, variances


def multi_box_head(
    inputs: Sequence[Variable],
    image: Variable,
    base_size: float,
    num_classes: int,
    aspect_ratios: Sequence[Any],
    min_ratio: int | None = None,
    max_ratio: int | None = None,
    min_sizes: Sequence[Any] | None = None,
    max_sizes: Sequence[Any] | None = None,
    steps: Sequence[float] | None = None,
    step_w: Sequence[float] | None = None,
    step_h: Sequence[float] | None = None,
    offset: float = 0.5,
    variance: Sequence[float] = [0.1, 0.1, 0.2, 0.2],
    flip: bool = True,
    clip: bool = False,
    kernel_size: int = 1,
    pad: int = 0,
    stride: int = 1,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable, Variable, Variable]:
    """The head of SSD over several feature maps: codes [N, priors, 4], scores [N, priors, num_classes],
    priors and their variances [priors, 4].

    Each map has priors (`prior_box`) of its own sizes, ratios and steps, and two convolutions that predict
    codes and scores of these. Sizes are given by `min_sizes` and `max_sizes`, or, from three maps on, by
    `min_ratio` and `max_ratio` in percent of `base_size`.
    """
    if not isinstance(inputs, (list, tuple)):
        raise ValueError(f"inputs should be a list or tuple, but is {type(inputs).__name__}.")
    conv = {"filter_size": kernel_size, "padding": pad, "stride": stride}
    common = {"variance": variance, "flip": flip, "clip": clip, "offset": offset}
    common["min_max_aspect_ratios_order"] = min_max_aspect_ratios_order
    for what, given in (("steps", steps), ("step_w", step_w), ("step_h", step_h)):
        if given is not None:
            _check_one_an_input(what, given, len(inputs))
    sizes = _sizes(len(inputs), base_size, (min_ratio, max_ratio), (min_sizes, max_sizes))
    maps = _maps(inputs, sizes, aspect_ratios, (steps or step_w, steps or step_h))
    parts = [_parts(input, image, num_classes, conv, {**common, **own}) for input, own in maps]
    return _joined(parts, num_classes)


def _joined(
    parts: list[tuple[Variable, Variable, Variable, Variable]], num_classes: int
) -> tuple[Variable, Variable, Variable, Variable]:
    """The parts of all maps in one; those of a single map stay as they are: so does 1.8.5."""
    if len(parts) == 1:
        return parts[0]
    flat = [(flatten(box, axis=3), flatten(variances, axis=3)) for _, _, box, variances in parts]
    priors, variances = (concat(list(column)) for column in zip(*flat, strict=True))
    priors.stop_gradient = variances.stop_gradient = True
    codes = reshape(concat([part[0] for part in parts], axis=1), shape=[0, -1, 4])
    scores = reshape(concat([part[1] for part in parts], axis=1), shape=[0, -1, num_classes])
    return codes, scores, priors, variances
