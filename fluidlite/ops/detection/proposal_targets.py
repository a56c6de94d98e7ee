"""Targets of the second stage of a Faster or Cascade R-CNN: generate_proposal_labels.

On the host, as in PaddlePaddle, whatever the device: how many proposals take part depends on the boxes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, KernelContext, Lod, Op, Spec, WithLod, required
from fluidlite.ops.detection.anchor_targets import sampled
from fluidlite.ops.detection.boxes import check_boxes
from fluidlite.ops.kernels.boxes import codes, overlaps
from fluidlite.ops.kernels.regions import images_of, joined
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

Attrs: TypeAlias = "dict[str, Any]"

_INT, _FLOAT = required(AttrType.INT), required(AttrType.FLOAT)
_ATTRS = {
    "batch_size_per_im": _INT,
    "fg_fraction": _FLOAT,
    "fg_thresh": _FLOAT,
    "bg_thresh_hi": _FLOAT,
    "bg_thresh_lo": _FLOAT,
    "bbox_reg_weights": required(AttrType.FLOATS),
    "class_nums": _INT,
    "use_random": True,
    "is_cls_agnostic": False,
    "is_cascade_rcnn": False,
}
generate_proposal_labels = Op(
    "generate_proposal_labels",
    "RpnRois. GtClasses IsCrowd GtBoxes. ImInfo. -> Rois LabelsInt32 BboxTargets BboxInsideWeights "
    "BboxOutsideWeights",
    attrs=_ATTRS,
    lod=None,
    random=True,
    makes_lod=True,
    version=2,
)


@generate_proposal_labels.shape
def _(RpnRois: Spec, GtBoxes: Spec, ImInfo: Spec, class_nums: int) -> dict[str, Spec]:
    check_boxes("generate_proposal_labels", "RpnRois", RpnRois)
    check_boxes("generate_proposal_labels", "GtBoxes", GtBoxes)
    if len(ImInfo.shape) != 2:
        raise ShapeError(
            f"op 'generate_proposal_labels': ImInfo has the shape {list(ImInfo.shape)}, wanted [N, 3]"
        )
    targets = RpnRois.with_shape((-1, 4 * class_nums))
    return {
        "Rois": RpnRois.with_shape((-1, 4)),
        "LabelsInt32": Spec((-1, 1), VarType.INT32),
        "BboxTargets": targets,
        "BboxInsideWeights": targets,
        "BboxOutsideWeights": targets,
    }


class _Image(NamedTuple):
    """The inputs of one image; boxes in pixels of the scaled image, scale 1 those of the image as it was."""

    proposals: Array
    classes: Array
    crowd: Array
    objects: Array
    scale: Any


def _candidates(image: _Image, cascade: bool) -> Array:
    """The boxes to sample from, as before the image was scaled: the objects, then the proposals."""
    if not cascade:
        return np.concatenate((image.objects, image.proposals / image.scale))
    # the later stages of a cascade take proposals alone. 1.8.5 goes on as if the objects stood in front: as
    # many rows are neither scaled back, nor sampled where an object is a crowd
    proposals = image.proposals[(image.proposals[:, 2:] - image.proposals[:, :2] + 1 > 0).all(axis=1)]
    first = len(image.objects)
    return np.concatenate((proposals[:first], proposals[first:] / image.scale))


def _sample(image: _Image, boxes: Array, attrs: Attrs, rng: Any) -> tuple[Array, Array, Array]:
    """The rows of boxes that show an object, the rows of those that show none, and the former's objects."""
    if not len(image.proposals):  # nothing learns then, not even from the objects
        return (np.empty(0, np.int64),) * 3
    shared = overlaps(np, image.objects, boxes, normalized=False)
    if not len(image.objects):
        shared = np.zeros((1, len(boxes)), boxes.dtype)
    most = shared.max(axis=0)
    crowd = np.flatnonzero(image.crowd)
    most[crowd[crowd < len(most)]] = -1
    high = np.float32(attrs["bg_thresh_hi"])
    low = np.float32(attrs["bg_thresh_lo"])
    shows = most >= np.float32(attrs["fg_thresh"])
    front = np.flatnonzero(shows)
    back = np.flatnonzero(~shows & (most >= low) & (most < high))
    if not attrs["is_cascade_rcnn"]:
        size = attrs["batch_size_per_im"]
        front = sampled(front, int(np.floor(np.float32(size) * np.float32(attrs["fg_fraction"]))), rng)
        back = sampled(back, size - len(front), rng)
    return front, back, shared[:, front].argmax(axis=0)


def _by_class(values: Array, classes: Array, columns: int) -> Array:
    """(R, columns, 4) as (R, columns * 4) with the values in the column of each row's class."""
    out = np.zeros((len(values), columns, 4), values.dtype)
    out[np.arange(len(values)), classes] = values
    return out.reshape(len(values), columns * 4)


def _labelled(image: _Image, attrs: Attrs, rng: Any) -> tuple[Array, ...]:
    """The five outputs for one image."""
    boxes = _candidates(image, attrs["is_cascade_rcnn"])
    front, back, matches = _sample(image, boxes, attrs, rng)
    labels = np.concatenate((image.classes[matches], np.zeros(len(back), np.int32)))
    targets = codes(np, boxes[front], image.objects[matches])
    targets /= np.array(attrs["bbox_reg_weights"], np.float32)
    columns = labels[: len(front)]
    if attrs["is_cls_agnostic"]:
        columns = np.minimum(columns, 1)
    rows = len(front) + len(back)
    wide = np.zeros((rows, attrs["class_nums"] * 4), boxes.dtype)
    weights = wide.copy()
    wide[: len(front)] = _by_class(targets, columns, attrs["class_nums"])
    weights[: len(front)] = _by_class(np.ones_like(targets), columns, attrs["class_nums"])
    rois = boxes[np.concatenate((front, back))] * image.scale
    return rois, labels.astype(np.int32)[:, None], wide, weights, weights


@generate_proposal_labels.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    RpnRois: Array,
    RpnRois_lod: Lod,
    GtClasses: Array,
    IsCrowd: Array,
    GtBoxes: Array,
    GtBoxes_lod: Lod,
    ImInfo: Array,
    ctx: KernelContext,
    attrs: Attrs,
) -> tuple[WithLod, ...]:
    rng = ctx.rng(0) if attrs["use_random"] else None
    proposals = images_of(RpnRois_lod, RpnRois)
    objects = images_of(GtBoxes_lod, GtClasses, IsCrowd, GtBoxes)
    found = [
        _labelled(_Image(rois, classes.reshape(-1), crowd.reshape(-1), boxes, info[2]), attrs, rng)
        for (rois,), (classes, crowd, boxes), info in zip(proposals, objects, host(ImInfo), strict=True)
    ]
    return tuple(joined(xp, list(parts)) for parts in zip(*found, strict=True))
