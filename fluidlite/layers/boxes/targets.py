"""Layers that say what a detector in two stages, or a RetinaNet, is to learn of its anchors and proposals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.indexing import gather
from fluidlite.layers.tensors.shaping import reshape

__all__ = [
    "generate_mask_labels",
    "generate_proposal_labels",
    "retinanet_detection_output",
    "retinanet_target_assign",
    "rpn_target_assign",
]

_FLOATS = ["float32", "float64"]


def _check(layer: str, dtypes: list[str], **values: Variable) -> None:
    for name, value in values.items():
        check_variable_and_dtype(value, name, dtypes, layer)


def _append(
    layer: str, inputs: dict[str, Any], dtypes: dict[str, Any], attrs: dict[str, Any]
) -> dict[str, Variable]:
    """Append the layer's op, with outputs that need no gradients; `dtypes` by slot, in the order of names."""
    helper = LayerHelper(layer)
    outputs = {slot: helper.create_variable_for_type_inference(dtype=dtype) for slot, dtype in dtypes.items()}
    helper.append_op(type=layer, inputs=inputs, outputs=outputs, attrs=attrs)
    for out in outputs.values():
        out.stop_gradient = True
    return outputs


def rpn_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    is_crowd: Variable,
    im_info: Variable,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """Predictions of a region proposal network for the anchors that learn, and their targets: scores [S, 1],
    boxes [L, 4], labels [S, 1], codes of boxes [L, 4], and their weights [L, 4].

    `bbox_pred` is [N, M, 4] and `cls_logits` [N, M, 1] for `anchor_box` [M, 4]. An anchor shows an object
    that it overlaps by `rpn_positive_overlap`, or more than any other anchor does; it shows none where it
    overlaps all by less than `rpn_negative_overlap`. Of each image `rpn_batch_size_per_im` learn,
    `rpn_fg_fraction` of them such as show an object: any, or without `use_random` the first. Anchors that
    stand over the image's edge by more than `rpn_straddle_thresh` do not, unless that is negative.
    """
    _check("rpn_target_assign", _FLOATS, bbox_pred=bbox_pred, cls_logits=cls_logits, anchor_box=anchor_box)
    _check("rpn_target_assign", _FLOATS, anchor_var=anchor_var, gt_boxes=gt_boxes)
    _check("rpn_target_assign", ["int32"], is_crowd=is_crowd)
    _check("rpn_target_assign", _FLOATS, im_info=im_info)
    found = _append(
        "rpn_target_assign",
        {"Anchor": anchor_box, "GtBoxes": gt_boxes, "IsCrowd": is_crowd, "ImInfo": im_info},
        _anchor_targets(anchor_box.dtype),
        {
            "rpn_batch_size_per_im": rpn_batch_size_per_im,
            "rpn_straddle_thresh": rpn_straddle_thresh,
            "rpn_positive_overlap": rpn_positive_overlap,
            "rpn_negative_overlap": rpn_negative_overlap,
            "rpn_fg_fraction": rpn_fg_fraction,
            "use_random": use_random,
        },
    )
    scores, boxes = _predicted(cls_logits, 1, bbox_pred, found)
    return scores, boxes, found["TargetLabel"], found["TargetBBox"], found["BBoxInsideWeight"]


def _anchor_targets(dtype: Any) -> dict[str, Any]:
    """Output slots of the ops on anchors, with their dtypes."""
    return {
        "LocationIndex": "int32",
        "ScoreIndex": "int32",
        "TargetLabel": "int32",
        "TargetBBox": dtype,
        "BBoxInsideWeight": dtype,
    }


def _predicted(
    logits: Variable, classes: int, boxes: Variable, found: dict[str, Variable]
) -> tuple[Variable, Variable]:
    """The predictions for the anchors that learn."""
    logits = reshape(x=logits, shape=(-1, classes))
    boxes = reshape(x=boxes, shape=(-1, 4))
    return gather(logits, found["ScoreIndex"]), gather(boxes, found["LocationIndex"])


def retinanet_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    gt_labels: Variable,
    is_crowd: Variable,
    im_info: Variable,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """Predictions of a RetinaNet for the anchors that learn, and their targets: as `rpn_target_assign`, but
    with scores [S, num_classes], labels from 1 (0 is the background), no sampling, and in the end how many
    anchors of each image show an object, plus 1: [N, 1].
    """
    layer = "retinanet_target_assign"
    _check(layer, _FLOATS, bbox_pred=bbox_pred, cls_logits=cls_logits, anchor_box=anchor_box)
    _check(layer, _FLOATS, anchor_var=anchor_var, gt_boxes=gt_boxes)
    _check(layer, ["int32"], gt_labels=gt_labels, is_crowd=is_crowd)
    _check(layer, _FLOATS, im_info=im_info)
    found = _append(
        layer,
        {
            "Anchor": anchor_box,
            "GtBoxes": gt_boxes,
            "GtLabels": gt_labels,
            "IsCrowd": is_crowd,
            "ImInfo": im_info,
        },
        {**_anchor_targets(anchor_box.dtype), "ForegroundNumber": "int32"},
        {"positive_overlap": positive_overlap, "negative_overlap": negative_overlap},
    )
    scores, boxes = _predicted(cls_logits, num_classes, bbox_pred, found)
    rest = (found["TargetBBox"], found["BBoxInsideWeight"], found["ForegroundNumber"])
    return scores, boxes, found["TargetLabel"], *rest


def generate_proposal_labels(
    rpn_rois: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_boxes: Variable,
    im_info: Variable,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Sequence[float] = [0.1, 0.1, 0.2, 0.2],
    class_nums: int | None = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """The proposals that learn [S, 4], their labels [S, 1] (0 is the background), codes of the boxes that
    they should become, [S, 4 * class_nums], and the codes' weights in and outside of the loss.

    Of each image `batch_size_per_im` learn, at most `fg_fraction` of them such as overlap an object by
    `fg_thresh`; the others overlap the nearest by `bg_thresh_lo` to `bg_thresh_hi`. Objects are proposals,
    too, but not in the later stages of a cascade (`is_cascade_rcnn`), where all proposals learn.
    """
    layer = "generate_proposal_labels"
    _check(layer, _FLOATS, rpn_rois=rpn_rois)
    if len(bbox_reg_weights) != 4:
        raise ArgumentError(f"{layer}: bbox_reg_weights is {bbox_reg_weights!r}, wanted four numbers")
    _check(layer, ["int32"], gt_classes=gt_classes, is_crowd=is_crowd)
    boxes = {"RpnRois": rpn_rois, "GtBoxes": gt_boxes}
    inputs = {**boxes, "GtClasses": gt_classes, "IsCrowd": is_crowd, "ImInfo": im_info}
    slots = ("Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights")
    attrs = {
        "batch_size_per_im": batch_size_per_im,
        "fg_fraction": fg_fraction,
        "fg_thresh": fg_thresh,
        "bg_thresh_hi": bg_thresh_hi,
        "bg_thresh_lo": bg_thresh_lo,
        "bbox_reg_weights": bbox_reg_weights,
        "class_nums": class_nums,
        "use_random": use_random,
        "is_cls_agnostic": is_cls_agnostic,
        "is_cascade_rcnn": is_cascade_rcnn,
    }
    dtypes = {**dict.fromkeys(slots, rpn_rois.dtype), "LabelsInt32": gt_classes.dtype}
    rois, labels, targets, inside, outside = _append(layer, inputs, dtypes, attrs).values()
    return rois, labels, targets, inside, outside


def generate_mask_labels(
    im_info: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_segms: Variable,
    rois: Variable,
    labels_int32: Variable,
    num_classes: int,
    resolution: int,
) -> tuple[Variable, Variable, Variable]:
    """The regions with an object [R, 4], their numbers among the image's `rois` [R, 1], and the objects'
    masks [R, num_classes * resolution * resolution], which are -1 for all classes but the region's.

    `gt_segms` [P, 2] has the corners of polygons, with the levels objects, polygons, corners.
    """
    found = _append(
        "generate_mask_labels",
        {
            "ImInfo": im_info,
            "GtClasses": gt_classes,
            "IsCrowd": is_crowd,
            "GtSegms": gt_segms,
            "Rois": rois,
            "LabelsInt32": labels_int32,
        },
        {"MaskRois": rois.dtype, "RoiHasMaskInt32": gt_classes.dtype, "MaskInt32": gt_classes.dtype},
        {"num_classes": num_classes, "resolution": resolution},
    )
    boxes, numbers, masks = found.values()
    return boxes, numbers, masks


def retinanet_detection_output(
    bboxes: Sequence[Variable],
    scores: Sequence[Variable],
    anchors: Sequence[Variable],
    im_info: Variable,
    score_threshold: float = 0.05,
    nms_top_k: int = 1000,
    keep_top_k: int = 100,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
) -> Variable:
    """Detections of a RetinaNet: rows of label (from 1), score, box in the image before it was scaled; best
    first.

    Each level has codes of boxes [N, M, 4], scores [N, M, classes] and anchors [M, 4]. Of each level the
    `nms_top_k` best scores above `score_threshold` (of the last level, above 0) take part, of each image at
    most `keep_top_k` boxes come out.
    """
    layer = "retinanet_detection_output"
    for kind, name in ((bboxes, "bbox"), (scores, "score"), (anchors, "anchor")):
        for number, level in enumerate(kind):
            _check(layer, _FLOATS, **{f"{name}{number}": level})
    _check(layer, _FLOATS, im_info=im_info)
    found = _append(
        layer,
        {"BBoxes": bboxes, "Scores": scores, "Anchors": anchors, "ImInfo": im_info},
        {"Out": bboxes[0].dtype},
        {
            "score_threshold": score_threshold,
            "nms_top_k": nms_top_k,
            "nms_threshold": nms_threshold,
            "keep_top_k": keep_top_k,
            "nms_eta": nms_eta,
        },
    )
    return found["Out"]
