"""Mean average precision of detected boxes, with a running state; a metric, computed on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import host

_ATTRS = {
    "class_num": required(AttrType.INT),
    "background_label": 0,
    "overlap_threshold": 0.5,
    "evaluate_difficult": True,
    "ap_type": "integral",
}
detection_map = Op(
    "detection_map",
    "DetectRes Label HasState? PosCount? TruePos? FalsePos? -> AccumPosCount AccumTruePos AccumFalsePos MAP",
    attrs=_ATTRS,
    lod=None,
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


def _overlaps(box: Array, others: Array) -> Any:
    """Intersection over union of a box, cut off at the image's edges, with others."""
    box = box.clip(0, 1)
    size = (np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])).clip(0)
    both = size[:, 0] * size[:, 1]
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1)
    return both / ((box[2:] - box[:2]).prod() + areas - both)


def _marks(
    found: Array, objects: Array, threshold: float, count_difficult: bool
) -> Iterator[tuple[float, bool]]:
    """(score, whether it is right) for the boxes found of one class in one image, best score first; as they
    come where there is no object of the class.
    """
    if not len(objects):
        yield from ((float(score), False) for score in found[:, 1])
        return
    taken = np.zeros(len(objects), bool)
    for row in found[np.argsort(-found[:, 1], kind="stable")]:
        overlaps = _overlaps(row[2:6], objects[:, -4:])
        best = int(overlaps.argmax())
        if overlaps[best] <= threshold:
            yield float(row[1]), False
        elif count_difficult or not (objects.shape[1] == 6 and objects[best, 1]):
            yield float(row[1]), not taken[best]
            taken[best] = True


def average_precision(marks: Array, count: int, ap_type: str) -> float:
    """The area under precision over recall of (score, right) rows with `count` objects, by steps or at 11
    recalls.
    """
    marks = marks[np.argsort(-marks[:, 0], kind="stable")]
    hits = np.cumsum(marks[:, 1])
    precision, recall = hits / np.arange(1, len(marks) + 1), hits / count
    if ap_type == "11point":
        return float(sum(precision[recall >= level / 10].max(initial=0) for level in range(11))) / 11
    return float((precision * np.diff(recall, prepend=0)).sum())


def _rows(value: Array, lod: Lod, index: int) -> Array:
    return value[lod[0][index] : lod[0][index + 1]]


def _before(
    classes: int, dtype: Any, PosCount: Array | None, TruePos: Array | None, TruePos_lod: Lod
) -> tuple[Any, list[Any]]:
    """(objects counted, (score, right) rows) by class, from the states."""
    if PosCount is None or TruePos is None:
        return np.zeros(classes, np.int32), [np.zeros((0, 2), dtype) for _ in range(classes)]
    return host(PosCount).reshape(-1).copy(), [
        _rows(host(TruePos), TruePos_lod, label) for label in range(classes)
    ]


def _count_image(
    found: Array, objects: Array, counts: Array, marks: list[Any], attrs: Mapping[str, Any]
) -> None:
    """Add one image to the objects counted and to the (score, right) rows, both by class."""
    difficult = attrs["evaluate_difficult"]
    counted = objects if difficult or objects.shape[1] == 5 else objects[objects[:, 1] == 0]
    counts += np.bincount(counted[:, 0].astype(np.int64), minlength=len(counts)).astype(counts.dtype)
    if found.shape[1] != 6:  # nothing was found: one row that holds -1
        return
    for label in np.unique(found[:, 0]).astype(int):
        same_found, same_objects = (rows[rows[:, 0] == label] for rows in (found, objects))
        new = list(_marks(same_found, same_objects, attrs["overlap_threshold"], difficult))
        marks[label] = np.concatenate((marks[label], np.array(new, found.dtype).reshape(-1, 2)))


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
    found, objects, classes = host(DetectRes), host(Label), attrs["class_num"]
    if HasState is None or not host(HasState).any():
        PosCount = TruePos = None
    counts, marks = _before(classes, found.dtype, PosCount, TruePos, TruePos_lod)
    for image in range(len(Label_lod[0]) - 1):
        here, there = _rows(found, DetectRes_lod, image), _rows(objects, Label_lod, image)
        _count_image(here, there, counts, marks, attrs)
    # classes without objects do not count, nor, as in 1.8.5, those with as many objects as the background's
    # label says
    background = attrs["background_label"]
    kept = [label for label in range(classes) if counts[label] and counts[label] != background]
    total = sum(average_precision(marks[label], int(counts[label]), attrs["ap_type"]) for label in kept)
    right = np.concatenate(marks).astype(found.dtype)
    lod = ((0, *(int(end) for end in np.cumsum([len(rows) for rows in marks]))),)
    wrong = right * (1, 0) + (1 - right) * (0, 1)
    return {
        "AccumPosCount": xp.asarray(counts.reshape(-1, 1)),
        "AccumTruePos": WithLod(xp.asarray(right), lod),
        "AccumFalsePos": WithLod(xp.asarray(wrong.astype(found.dtype)), lod),
        "MAP": xp.full(1, total / max(len(kept), 1), found.dtype),
    }
