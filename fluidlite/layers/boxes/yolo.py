"""YOLOv3: its loss, and the boxes of its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import temporaries

__all__ = ["yolo_box", "yolov3_loss"]


def _check(layer: str, kind: Any, article: str, **arguments: Any) -> None:
    """TypeError unless each argument is a `kind`."""
    for what, value in arguments.items():
        if not isinstance(value, kind):
            part = "Input" if kind is Variable else "Attr"
            raise TypeError(f"{part} {what} of {layer} must be {article}, but is {value!r}")


def yolov3_loss(
    x: Variable,
    gt_box: Variable,
    gt_label: Variable,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Variable | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Variable:
    """The loss of YOLOv3 (Redmon and Farhadi 2018) on one feature map, a number an image, [N].

    `x` [N, anchors * (5 + class_num), H, W] has for each anchor of `anchor_mask` x, y, width, height,
    objectness and a score a class; `gt_box` [N, objects, 4] are (centre x, centre y, width, height) as parts
    of the image, with a width of 0 where there is no object; `gt_label` [N, objects] (int32) their classes,
    `gt_score` [N, objects] their weights. `anchors` are widths and heights in pixels. Places whose box
    overlaps an object by more than `ignore_thresh` do not learn that there is none.
    """
    scores = {} if gt_score is None else {"gtscore": gt_score}
    _check("yolov3_loss", Variable, "Variable", x=x, gtbox=gt_box, gtlabel=gt_label, **scores)
    _check("yolov3_loss", (list, tuple), "list or tuple", anchors=anchors, anchor_mask=anchor_mask)
    _check("yolov3_loss", int, "an integer", class_num=class_num)
    _check("yolov3_loss", float, "a float number", ignore_thresh=ignore_thresh)
    _check("yolov3_loss", bool, "a bool value", use_label_smooth=use_label_smooth)
    helper = LayerHelper("yolov3_loss", name=name)
    loss = helper.create_variable_for_type_inference(dtype=x.dtype)
    objects, matches = temporaries(helper, 2, "int32")
    inputs = {"X": x, "GTBox": gt_box, "GTLabel": gt_label, "GTScore": gt_score}
    helper.append_op(
        type="yolov3_loss",
        inputs={slot: var for slot, var in inputs.items() if var is not None},
        outputs={"Loss": loss, "ObjectnessMask": objects, "GTMatchMask": matches},
        attrs={
            "anchors": anchors,
            "anchor_mask": anchor_mask,
            "class_num": class_num,
            "ignore_thresh": ignore_thresh,
            "downsample_ratio": downsample_ratio,
            "use_label_smooth": use_label_smooth,
            "scale_x_y": scale_x_y,
        },
    )
    return loss


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Variable, Variable]:
    """(boxes [N, M, 4] in pixels of the images, scores [N, M, class_num]) of YOLOv3's predictions on one map.

    `x` is as in `yolov3_loss`, with an entry for each of `anchors`; `img_size` [N, 2] (int32) heights and
    widths. Boxes whose objectness is below `conf_thresh` are zeros. `clip_bbox` keeps boxes in the image.
    """
    _check("yolo_box", Variable, "Variable", x=x, img_size=img_size)
    _check("yolo_box", (list, tuple), "list or tuple", anchors=anchors)
    _check("yolo_box", int, "an integer", class_num=class_num)
    _check("yolo_box", float, "a float number", ignore_thresh=conf_thresh)
    helper = LayerHelper("yolo_box", name=name)
    boxes, scores = temporaries(helper, 2, x.dtype)
    helper.append_op(
        type="yolo_box",
        inputs={"X": x, "ImgSize": img_size},
        outputs={"Boxes": boxes, "Scores": scores},
        attrs={
            "anchors": anchors,
            "class_num": class_num,
            "conf_thresh": conf_thresh,
            "downsample_ratio": downsample_ratio,
            "clip_bbox": clip_bbox,
            "scale_x_y": scale_x_y,
        },
    )
    return boxes, scores
