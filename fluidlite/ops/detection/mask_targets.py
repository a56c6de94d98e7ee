"""Targets of the mask head of a Mask R-CNN: generate_mask_labels.

On the host, as in PaddlePaddle, whatever the device: how many regions take part depends on their labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.detection.boxes import check_boxes
from fluidlite.ops.kernels.boxes import overlaps
from fluidlite.ops.kernels.polygons import polygon_masks
from fluidlite.ops.kernels.regions import images_of, joined
from fluidlite.ops.kernels.sampled_rows import entries_of
from fluidlite.values.tensor import host

generate_mask_labels = Op(
    "generate_mask_labels",
    "ImInfo GtClasses IsCrowd GtSegms Rois LabelsInt32 -> MaskRois RoiHasMaskInt32 MaskInt32",
    attrs={"num_classes": required(AttrType.INT), "resolution": required(AttrType.INT)},
    lod=None,
    makes_lod=True,
)


@generate_mask_labels.shape
def _(ImInfo: Spec, Rois: Spec, num_classes: int, resolution: int) -> dict[str, Spec]:
    check_boxes("generate_mask_labels", "Rois", Rois)
    if len(ImInfo.shape) != 2:
        raise ShapeError(
            f"op 'generate_mask_labels': ImInfo has the shape {list(ImInfo.shape)}, wanted [N, 3]"
        )
    level = Rois.lod_level
    return {
        "MaskRois": Spec((-1, 4), Rois.dtype, level),
        "RoiHasMaskInt32": Spec((-1, 1), VarType.INT32, level),
        "MaskInt32": Spec((-1, num_classes * resolution * resolution), VarType.INT32, level),
    }


class _Shapes(NamedTuple):
    """Polygons of all objects: corners (x, y), where each polygon's begin, and where each object's polygons
    begin.
    """

    points: Array
    polygons: Array
    objects: Array

    def boxes(self, objects: Array) -> Array:
        """The smallest box around each object."""
        first = self.polygons[self.objects[:-1]]
        low, high = (extreme.reduceat(self.points, first) for extreme in (np.minimum, np.maximum))
        return np.concatenate((low, high), axis=1)[objects]

    def masks(self, objects: Array, boxes: Array, size: int) -> Array:
        """(R, size, size): object r in box r of pixels, stretched to the mask."""
        owner, ordinal = entries_of(np, np.diff(self.objects)[objects])
        polygon = self.objects[objects][owner] + ordinal
        lengths = np.diff(self.polygons)[polygon]
        part, number = entries_of(np, lengths)
        region = boxes[owner[part]]
        points = self.points[self.polygons[polygon][part] + number]
        stretched = (points - region[:, :2]) * size / np.maximum(region[:, 2:] - region[:, :2], 1)
        out = np.zeros((len(objects), size, size), bool)
        masks = polygon_masks(stretched.astype(np.float32), lengths, size)
        for turn in range(int(ordinal.max(initial=-1)) + 1):  # objects have few polygons, mostly one
            rows = ordinal == turn
            out[owner[rows]] |= masks[rows]
        return out


def _masks_of_image(
    shapes: _Shapes, counted: Array, rois: Array, labels: Array, classes: int, size: int
) -> tuple[Array, Array, Array]:
    """The three outputs for one image, whose `counted` objects may be in a mask; boxes as before the image
    was scaled.
    """
    shown = np.flatnonzero(labels > 0)
    if not len(shown) or not len(counted):
        # something must go through the network: the first region of the background, whose mask nobody learns
        empty = np.flatnonzero(labels == 0)[:1]
        nothing = np.full((len(empty), classes * size * size), -1, np.int32)
        return rois[empty], np.zeros((len(empty), 1), np.int32), nothing
    nearest = overlaps(np, rois[shown], shapes.boxes(counted), normalized=False).argmax(axis=1)
    out = np.full((len(shown), classes, size, size), -1, np.int32)
    masks = shapes.masks(counted[nearest], rois[shown], size)
    out[np.arange(len(shown)), labels[shown]] = masks
    return rois[shown], shown.astype(np.int32)[:, None], out.reshape(len(shown), -1)


@generate_mask_labels.kernel
def _(
    xp: Any,
    ImInfo: Array,
    GtClasses: Array,
    GtClasses_lod: Lod,
    IsCrowd: Array,
    GtSegms: Array,
    GtSegms_lod: Lod,
    Rois: Array,
    Rois_lod: Lod,
    LabelsInt32: Array,
    num_classes: int,
    resolution: int,
) -> dict[str, WithLod]:
    if len(GtSegms_lod) != 3:
        raise ShapeError(
            f"op 'generate_mask_labels': GtSegms has {len(GtSegms_lod)} levels of detail, wanted 3: objects "
            f"of an image, polygons of an object, corners of a polygon"
        )
    shapes = _Shapes(host(GtSegms), np.array(GtSegms_lod[2]), np.array(GtSegms_lod[1]))
    objects = images_of(GtClasses_lod, GtClasses, IsCrowd, np.arange(len(GtClasses)))
    regions = images_of(Rois_lod, Rois, LabelsInt32)
    parts = []
    for (classes, crowd, number), (rois, labels), info in zip(objects, regions, host(ImInfo), strict=True):
        counted = number[(classes.reshape(-1) > 0) & (crowd.reshape(-1) == 0)]
        boxes, owners, masks = _masks_of_image(
            shapes, counted, rois / info[2], labels.reshape(-1), num_classes, resolution
        )
        parts.append((boxes * info[2], owners, masks))
    names = ("MaskRois", "RoiHasMaskInt32", "MaskInt32")
    return {
        name: joined(xp, list(arrays)) for name, arrays in zip(names, zip(*parts, strict=True), strict=True)
    }
