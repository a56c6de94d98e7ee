"""Mean average precision of detected boxes, with a running state; a metric, computed on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import lengths_lod, lengths_of
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

_ATTRS = {
    "class_num": required(AttrType.INT),
    "background_label": 0,
    "overlap_threshold": 0.5,
    "evaluate_difficult": True,
    "ap_type": limited("integral", one_of("11point", "integral")),
}
detection_map = Op(
    "detection_map",
    "DetectRes Label HasState? PosCount? TruePos? FalsePos? -> AccumPosCount AccumTruePos AccumFalsePos MAP",
    attrs=_ATTRS,
    lod=None,
    makes_lod=True,
)


@detection_map.shape
def _(DetectRes: Spec, Label: Spec, ap_type: str, class_num: int) -> dict[str, Spec]:
    if len(Label.shape) != 2 or Label.shape[1] not in (5, 6, -1):
        raise ShapeError(
            f"op 'detection_map': Label has the shape {list(Label.shape)}, wanted [N, 6] (label, difficult, "
            f"box) or [N, 5]"
        )
    if ap_type not in ("integral", "11point"):
        raise ShapeError(f"op 'detection_map': ap_type is {ap_type!r}, wanted 'integral' or '11point'")
    marks = Spec((-1, 2), DetectRes.dtype, 1)
    return {
        "AccumPosCount": Spec((class_num, 1), VarType.INT32),
        "AccumTruePos": marks,
        "AccumFalsePos": marks,
        "MAP": Spec((1,), DetectRes.dtype),
    }


def _overlaps(boxes: Array, others: Sequence[Array]) -> Any:
    """Intersection over union of boxes [N, 4], cut off at the image's edges, with others, whose four
    coordinates are [most, N].
    """
    own = boxes.clip(0, 1).T
    both: Any = 1
    for low, high in ((0, 2), (1, 3)):
        both = both * (np.minimum(own[high], others[high]) - np.maximum(own[low], others[low])).clip(0)
    areas, own_areas = ((each[2] - each[0]) * (each[3] - each[1]) for each in (others, own))
    return both / (own_areas + areas - both)


def _groups(rows: Array, lod: Lod, classes: int) -> Array:
    """For each row the number of its image and class together; -1 for a class that there is not."""
    images = np.repeat(np.arange(len(lod[0]) - 1), lengths_of(np.asarray(lod[0])))
    labels = rows[:, 0].astype(np.int64)
    is_known = (labels == rows[:, 0]) & (labels >= 0) & (labels < classes)
    return np.where(is_known, images * classes + labels, -1)


class _Objects:
    """The objects of all images, those of one image and class beside each other."""

    def __init__(self, rows: Array, groups: Array) -> None:
        order = np.argsort(groups, kind="stable")
        self.rows = rows[order]
        self.groups = groups[order]

    def nearest(self, boxes: Array, groups: Array) -> tuple[Array, Array]:
        """For each box its overlap with the object of its group that it overlaps most, and which that is;
        -inf where there is none.
        """
        first, end = (self.groups.searchsorted(groups, side) for side in ("left", "right"))
        most = int((end - first).max(initial=0))
        if not most:
            return np.full(len(boxes), -np.inf), first
        # box by box along the last dimension: groups are small, and NumPy's loops would be as short
        places = first + np.arange(most)[:, None]
        others = [column.take(places, mode="clip") for column in self.rows[:, -4:].T]
        overlaps = np.where(places < end, _overlaps(boxes, others), -np.inf)
        best = overlaps.argmax(axis=0)
        return overlaps[best, np.arange(len(boxes))], first + best


def _marks(
    found: Array, groups: Array, objects: _Objects, threshold: float, count_difficult: bool
) -> tuple[Array, Array]:
    """(score, whether it is right) rows for the boxes found, and the group of each: image by image and class
    by class, the best score first, but as they come where there is no object of the class.
    """
    found = found[groups >= 0]
    groups = groups[groups >= 0]
    is_sought = np.isin(groups, objects.groups)
    order = np.lexsort((np.where(is_sought, -found[:, 1], 0), groups))
    found = found[order]
    groups = groups[order]
    overlap, nearest = objects.nearest(found[:, 2:6], groups)
    is_near = ~(overlap <= threshold)
    kept = np.ones(len(found), bool)
    if not count_difficult and objects.rows.shape[1] == 6:
        kept[is_near] = objects.rows[nearest[is_near], 1] == 0
    # an object is found once, by the box with the best score
    firsts = np.flatnonzero(is_near & kept)
    firsts = firsts[np.unique(nearest[firsts], return_index=True)[1]]
    is_right = np.zeros(len(found), bool)
    is_right[firsts] = True
    return np.stack((found[:, 1], is_right), axis=1)[kept].astype(found.dtype), groups[kept]


def average_precisions(marks: Array, labels: Array, counts: Array, ap_type: str) -> Array:
    """For each class the area under precision over recall of its (score, right) rows, by steps or at 11
    recalls; `labels` are the classes of the rows and `counts` the objects of each class.
    """
    order = np.lexsort((-marks[:, 0], labels))
    marks = marks[order]
    labels = labels[order]
    areas = np.zeros(len(counts))
    if not len(marks):
        return areas
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    present = labels[starts]
    lengths = np.diff(starts, append=len(labels))
    hits = np.cumsum(marks[:, 1], dtype=np.float64)
    hits -= np.repeat(hits[starts] - marks[starts, 1], lengths)
    precision = hits / (np.arange(1, len(marks) + 1) - np.repeat(starts, lengths))
    if ap_type == "11point":
        recall = hits / np.maximum(counts, 1)[labels]
        for level in range(11):
            areas[present] += np.maximum.reduceat(np.where(recall >= level / 10, precision, 0), starts) / 11
    else:
        # recall grows by one object in all of them with each that is right
        areas[present] = np.add.reduceat(precision * marks[:, 1], starts) / np.maximum(counts[present], 1)
    return areas


def _before(
    classes: int, dtype: Any, PosCount: Array | None, TruePos: Array | None, TruePos_lod: Lod
) -> tuple[Array, Array, Array]:
    """Objects counted by class, and (score, right) rows with the class of each, from the states."""
    if PosCount is None or TruePos is None:
        return np.zeros(classes, np.int32), np.zeros((0, 2), dtype), np.zeros(0, np.int64)
    lengths = lengths_of(np.asarray(TruePos_lod[0][: classes + 1]))
    labels = np.repeat(np.arange(len(lengths)), lengths)
    return host(PosCount).reshape(-1).copy(), host(TruePos)[: len(labels)], labels


def _objects_by_class(objects: Array, classes: int, count_difficult: bool) -> Array:
    """The objects of each class, the difficult ones only if they count."""
    if objects.shape[1] != 5 and not count_difficult:
        objects = objects[objects[:, 1] == 0]
    labels = objects[:, 0].astype(np.int64)
    return np.bincount(labels, minlength=classes)


@detection_map.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    DetectRes: Array,
    DetectRes_lod: Lod,
    Label: Array,
    Label_lod: Lod,
    HasState: Array | None,
    PosCount: Array | None,
    TruePos: Array | None,
    TruePos_lod: Lod,
    attrs: dict[str, Any],
) -> dict[str, Any]:
    found = host(DetectRes)
    objects = host(Label)
    classes = attrs["class_num"]
    if HasState is None or not host(HasState).any():
        PosCount = TruePos = None
    counts, marks, labels = _before(classes, found.dtype, PosCount, TruePos, TruePos_lod)
    difficult = attrs["evaluate_difficult"]
    counts += _objects_by_class(objects, classes, difficult).astype(counts.dtype)
    if found.shape[1] == 6:  # or else nothing was found: one row that holds -1
        sought = _Objects(objects, _groups(objects, Label_lod, classes))
        groups = _groups(found, DetectRes_lod, classes)
        new, group = _marks(found, groups, sought, attrs["overlap_threshold"], difficult)
        marks = np.concatenate((marks, new))
        labels = np.concatenate((labels, group % classes))
    # classes without objects do not count, nor, as in 1.8.5, those with as many objects as the background's
    # label says
    kept = (counts != 0) & (counts != attrs["background_label"])
    areas = average_precisions(marks, labels, counts, attrs["ap_type"])
    right = marks[np.argsort(labels, kind="stable")].astype(found.dtype)
    lod = lengths_lod(np.bincount(labels, minlength=classes))
    wrong = right * (1, 0) + (1 - right) * (0, 1)
    return {
        "AccumPosCount": xp.asarray(counts.reshape(-1, 1)),
        "AccumTruePos": WithLod(xp.asarray(right), lod),
        "AccumFalsePos": WithLod(xp.asarray(wrong.astype(found.dtype)), lod),
        "MAP": xp.full(1, areas[kept].sum() / max(np.count_nonzero(kept), 1), found.dtype),
    }
