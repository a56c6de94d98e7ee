"""Layers of detectors in two stages: proposals, and their way through a feature pyramid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import temporaries

__all__ = ["collect_fpn_proposals", "distribute_fpn_proposals", "generate_proposals"]


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    im_info: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
    return_rois_num: bool = False,
) -> Any:
    """The boxes that a region proposal network takes for objects, [R, 4], and their scores, [R, 1]; a
    sequence an image, best first.

    `scores` [N, A, H, W] and `bbox_deltas` [N, 4 A, H, W] belong to `anchors` [H, W, A, 4]; `im_info` [N, 3]
    has height, width and scale of each image. Of the `pre_nms_top_n` best boxes, those are left out whose
    sides are shorter than `min_size` before the image was scaled, and those that overlap a better one by
    more than `nms_thresh`. `return_rois_num`: also where the images' rows end, [N].
    """
    for value, key in ((scores, "scores"), (bbox_deltas, "bbox_deltas")):
        check_variable_and_dtype(value, key, ["float32"], "generate_proposals")
    check_variable_and_dtype(im_info, "im_info", ["float32", "float64"], "generate_proposals")
    for value, key in ((anchors, "anchors"), (variances, "variances")):
        check_variable_and_dtype(value, key, ["float32"], "generate_proposals")
    helper = LayerHelper("generate_proposals", name=name)
    dtypes = {"RpnRois": bbox_deltas.dtype, "RpnRoiProbs": scores.dtype, "RpnRoisLod": "int32"}
    outputs = {slot: helper.create_variable_for_type_inference(dtype=dtype) for slot, dtype in dtypes.items()}
    inputs = {
        "Scores": scores,
        "BboxDeltas": bbox_deltas,
        "ImInfo": im_info,
        "Anchors": anchors,
        "Variances": variances,
    }
    attrs = {
        "pre_nms_topN": pre_nms_top_n,
        "post_nms_topN": post_nms_top_n,
        "nms_thresh": nms_thresh,
        "min_size": min_size,
        "eta": eta,
    }
    helper.append_op(type="generate_proposals", inputs=inputs, outputs=outputs, attrs=attrs)
    for out in outputs.values():
        out.stop_gradient = True
    return tuple(outputs.values())[: 3 if return_rois_num else 2]


def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    name: str | None = None,
) -> tuple[list[Variable], Variable]:
    """Regions by the level of a feature pyramid that fits their size, and the rows [R, 1] that put the
    levels, one after the other, back in order.

    A region whose area has the root `refer_scale` belongs to `refer_level`, one of twice that side to the
    next.
    """
    check_type(fpn_rois, "fpn_rois", Variable, "distribute_fpn_proposals")
    helper = LayerHelper("distribute_fpn_proposals", name=name)
    dtype = fpn_rois.dtype
    levels = temporaries(helper, max_level - min_level + 1, dtype)
    restore = helper.create_variable_for_type_inference(dtype="int32")
    helper.append_op(
        type="distribute_fpn_proposals",
        inputs={"FpnRois": fpn_rois},
        outputs={"MultiFpnRois": levels, "RestoreIndex": restore},
        attrs={
            "min_level": min_level,
            "max_level": max_level,
            "refer_level": refer_level,
            "refer_scale": refer_scale,
        },
    )
    return levels, restore


def collect_fpn_proposals(
    multi_rois: Sequence[Variable],
    multi_scores: Sequence[Variable],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
) -> Variable:
    """The `post_nms_top_n` best regions of all levels and images together, by image, best first."""
    helper = LayerHelper("collect_fpn_proposals", name=name)
    levels = max_level - min_level + 1
    for name, given in (("multi_rois", multi_rois), ("multi_scores", multi_scores)):
        for var in given[:levels]:
            check_type(var, name, Variable, "collect_fpn_proposals")
    dtypes = [var.dtype for var in multi_rois]
    if len(set(dtypes[:levels])) > 1:
        raise ArgumentError(f"collect_fpn_proposals: multi_rois have different dtypes, {dtypes}")
    out = helper.create_variable_for_type_inference(dtypes[0])
    out.stop_gradient = True
    helper.append_op(
        type="collect_fpn_proposals",
        inputs={"MultiLevelRois": list(multi_rois[:levels]), "MultiLevelScores": list(multi_scores[:levels])},
        outputs={"FpnRois": out},
        attrs={"post_nms_topN": post_nms_top_n},
    )
    return out
