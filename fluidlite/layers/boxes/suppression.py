"""Non-maximum suppression: of boxes that overlap, the best are kept."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["locality_aware_nms", "matrix_nms", "multiclass_nms"]

_FLOATS = ["float32", "float64"]


def _check(layer: str, bboxes: Variable, scores: Variable, **numbers: tuple[object, type]) -> None:
    """The types of the arguments of a suppression: variables, and numbers of exactly these types."""
    check_variable_and_dtype(bboxes, "BBoxes", _FLOATS, layer)
    check_variable_and_dtype(scores, "Scores", _FLOATS, layer)
    for what, (value, kind) in numbers.items():
        check_type(value, what, kind, layer)


def _append(
    op_type: str,
    name: str | None,
    bboxes: Variable,
    scores: Variable,
    attrs: dict[str, Any],
    index: DTypeLike | None = None,
) -> tuple[Variable, ...]:
    """The op's boxes, which have no gradient, and where a dtype `index` is given their positions."""
    helper = LayerHelper(op_type, name=name)
    outputs = {"Out": helper.create_variable_for_type_inference(dtype=bboxes.dtype)}
    if index is not None:
        outputs["Index"] = helper.create_variable_for_type_inference(dtype=index)
    helper.append_op(type=op_type, inputs={"BBoxes": bboxes, "Scores": scores}, outputs=outputs, attrs=attrs)
    outputs["Out"].stop_gradient = True
    return tuple(outputs.values())


def multiclass_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    name: str | None = None,
) -> Variable:
    """Boxes that no better one of their class covers: [count, 6] rows of (class, score, box), a sequence an
    image; [[-1]] where there are none at all.

    `bboxes` [N, M, 4 (or the 8, 16, 24, 32 coordinates of a polygon)] with `scores` [N, classes, M]; or
    `bboxes` [M, classes, 4] and `scores` [M, classes] with a sequence an image. Of each class but
    `background_label` the `nms_top_k` best scores above `score_threshold` are looked at, from the best on; a
    box that overlaps a kept one by more than `nms_threshold` goes. `nms_eta` below 1 lowers that threshold,
    while above 0.5, box by box. The `keep_top_k` best of an image remain; -1 means all in both.
    """
    _check(
        "multiclass_nms",
        bboxes,
        scores,
        score_threshold=(score_threshold, float),
        nums_top_k=(nms_top_k, int),
        keep_top_k=(keep_top_k, int),
        nms_threshold=(nms_threshold, float),
        normalized=(normalized, bool),
        nms_eta=(nms_eta, float),
        background_label=(background_label, int),
    )
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "nms_top_k": nms_top_k,
        "nms_threshold": nms_threshold,
        "nms_eta": nms_eta,
        "keep_top_k": keep_top_k,
        "normalized": normalized,
    }
    (out,) = _append("multiclass_nms", name, bboxes, scores, attrs)
    return out


def multiclass_nms2(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    return_index: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """`multiclass_nms` which can also say where its boxes come from, and gives no row at all where there is
    none: `fluid.contrib.layers.multiclass_nms2`.

    With `return_index` also [count, 1] positions in `bboxes`, all images' boxes counted on.
    """
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "nms_top_k": nms_top_k,
        "nms_threshold": nms_threshold,
        "nms_eta": nms_eta,
        "keep_top_k": keep_top_k,
        "normalized": normalized,
    }
    out, index = _append("multiclass_nms2", name, bboxes, scores, attrs, "int")
    index.stop_gradient = True
    return (out, index) if return_index else out


def locality_aware_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
    name: str | None = None,
) -> Variable:
    """The suppression of EAST (Zhou et al. 2017): neighbours in the order of rows that overlap are first
    merged, by their scores, then `multiclass_nms` picks the best.

    `bboxes` [N, M, 4 (or 8, 16, 24, 32)], `scores` [N, 1, M]; a merged box's score is the sum of the scores.
    """
    check_type(scores, "scores", Variable, "locality_aware_nms")
    shape = list(scores.shape)
    assert len(shape) == 3, f"dim size of scores must be 3, but scores have the shape {shape}"
    wanted = "locality_aware_nms only support one class, Tensor score shape must be [N, 1, M]"
    assert shape[1] == 1, f"{wanted}, but is {shape}"
    _check(
        "locality_aware_nms",
        bboxes,
        scores,
        background_label=(background_label, int),
        score_threshold=(score_threshold, float),
        nms_top_k=(nms_top_k, int),
        nms_eta=(nms_eta, float),
        nms_threshold=(nms_threshold, float),
        keep_top_k=(keep_top_k, int),
        normalized=(normalized, bool),
    )
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "nms_top_k": nms_top_k,
        "nms_threshold": nms_threshold,
        "nms_eta": nms_eta,
        "keep_top_k": keep_top_k,
        "normalized": normalized,
    }
    (out,) = _append("locality_aware_nms", name, bboxes, scores, attrs)
    return out


def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """The suppression of SOLOv2 (Wang et al. 2020): [count, 6] rows of (class, score, box), a sequence an
    image. No box is dropped for its overlap; its score decays by its overlaps with better ones of its class.

    `bboxes` [N, M, 4], `scores` [N, classes, M]. Of each class but `background_label` the `nms_top_k` best
    scores above `score_threshold` decay, linearly or as a Gaussian; those above `post_threshold` and among
    the `keep_top_k` best of the image remain. With `return_index` also [count, 1] positions in `bboxes`.
    """
    _check(
        "matrix_nms",
        bboxes,
        scores,
        score_threshold=(score_threshold, float),
        post_threshold=(post_threshold, float),
        nums_top_k=(nms_top_k, int),
        keep_top_k=(keep_top_k, int),
        normalized=(normalized, bool),
        use_gaussian=(use_gaussian, bool),
        gaussian_sigma=(gaussian_sigma, float),
        background_label=(background_label, int),
    )
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "post_threshold": post_threshold,
        "nms_top_k": nms_top_k,
        "gaussian_sigma": gaussian_sigma,
        "use_gaussian": use_gaussian,
        "keep_top_k": keep_top_k,
        "normalized": normalized,
    }
    out, index = _append("matrix_nms", name, bboxes, scores, attrs, "int32")
    return (out, index) if return_index else out
