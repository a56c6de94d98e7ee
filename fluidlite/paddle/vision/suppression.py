"""Boxes that remain when those that overlap a better one are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several
from fluidlite.paddle.tensor.creation import full_like, to_tensor
from fluidlite.paddle.tensor.logic import equal
from fluidlite.paddle.tensor.manipulation import gather_nd, reshape, scatter, unsqueeze
from fluidlite.paddle.tensor.search import argsort, nonzero

__all__ = ["matrix_nms", "nms"]


def nms(
    boxes: Variable,
    iou_threshold: float = 0.3,
    scores: Variable | None = None,
    category_idxs: Variable | None = None,
    categories: Sequence[int] | None = None,
    top_k: int | None = None,
) -> Variable:
    """The places of the boxes [count, 4] that overlap no better one by more than `iou_threshold`: in their
    own order, or the best `scores` first; with `category_idxs` only boxes of one category compete, and
    the best `top_k` remain.
    """
    if scores is None:
        return _kept(boxes, iou_threshold)
    if category_idxs is None:
        order = argsort(scores, descending=True)
        return _take(order, _kept(_take(boxes, order), iou_threshold))
    if categories is None:
        raise AssertionError("nms: if category_idxs is given, categories which is a list of unique id of all")
    mask = full_like(scores, 0, "int32")
    for label in categories:
        rows = reshape(nonzero(equal(category_idxs, to_tensor(label, category_idxs.dtype))), [-1])
        members = _take(boxes, rows)
        order = argsort(_take(scores, rows), descending=True)
        kept = _take(order, _kept(_take(members, order), iou_threshold))
        ones = full_like(_take(rows, kept), 1, "int32")
        mask = scatter(mask, _take(rows, kept), ones)
    rows = reshape(nonzero(mask), [-1])
    order = argsort(_take(scores, rows), descending=True)
    if top_k is not None:
        order = order[:top_k]
    return _take(rows, order)


def _kept(boxes: Variable, threshold: float) -> Variable:
    attrs = {"iou_threshold": threshold}
    return append("nms", {"Boxes": [boxes]}, attrs, dtype=VarType.INT64, slot="KeepBoxesIdxs")


def _take(x: Variable, rows: Variable) -> Variable:
    return gather_nd(x, unsqueeze(rows, -1))


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
    return_rois_num: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable | None, Variable | None]:
    """The boxes [kept, 6] whose scores remain above `post_threshold` when they decay by their overlaps with
    better ones (Wang et al. 2020), their number in each image, and their places among all.
    """
    attrs = {
        "score_threshold": score_threshold,
        "post_threshold": post_threshold,
        "nms_top_k": nms_top_k,
        "keep_top_k": keep_top_k,
        "use_gaussian": use_gaussian,
        "gaussian_sigma": gaussian_sigma,
        "background_label": background_label,
        "normalized": normalized,
    }
    kinds = {"Out": bboxes.dtype, "Index": VarType.INT32}
    if return_rois_num:
        kinds["RoisNum"] = VarType.INT32
    inputs = {"BBoxes": [bboxes], "Scores": [scores]}
    found = append_several("matrix_nms", inputs, attrs, kinds)
    found[0].stop_gradient = True
    return found[0], found[2] if return_rois_num else None, found[1] if return_index else None
