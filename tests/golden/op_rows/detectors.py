"""Proposals, what anchors and proposals learn, masks, feature pyramids, a RetinaNet's detections."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from .rows import Row, Seq, real, whole


def boxes(count: int, low: float = 0, high: float = 60, key: str = "") -> Any:
    first, second = (real(count, 2, low=low, high=high, key=key + side) for side in "ab")
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), axis=1)


INFO = np.array([[90, 100, 1.5], [70, 112, 0.5]], "float32")
ROUGH = np.array([[60.7, 80.2, 1.3], [70, 62, 1.0]], "float32")
ROWS: List[Row] = []  # noqa: UP006

# ------------------------------------------------------------------ proposals
PROPOSE: Dict[str, Any] = {  # noqa: UP006
    "pre_nms_topN": 60,
    "post_nms_topN": 20,
    "nms_thresh": 0.6,
    "min_size": 3.0,
    "eta": 1.0,
}
ROWS += [
    Row(
        "generate_proposals",
        {
            "Scores": real(2, 3, 4, 6, low=0, high=1, key=name),
            "BboxDeltas": real(2, 12, 4, 6, low=-stretch, high=stretch, key=name),
            "ImInfo": info,
            "Anchors": boxes(72, -10, 100).reshape(4, 6, 3, 4),
            "Variances": real(4, 6, 3, 4, low=0.2, high=1),
        },
        dict(PROPOSE, **attrs),
        undeclared=True,  # RpnRoisLod: 1.8.5 says nothing
        name=name,
    )
    for name, stretch, info, attrs in (
        ("plain", 0.5, INFO, {}),
        ("rough", 0.5, ROUGH, {}),
        ("stretched", 8, INFO, {}),
        ("all", 0.5, INFO, {"pre_nms_topN": 6000, "post_nms_topN": 1000}),
        ("no limit", 0.5, INFO, {"pre_nms_topN": 0, "post_nms_topN": 0}),
        ("few", 0.5, INFO, {"pre_nms_topN": 5, "post_nms_topN": 2}),
        ("eta", 0.5, INFO, {"eta": 0.7, "nms_thresh": 0.9}),
        ("strict", 0.5, INFO, {"nms_thresh": 0.01}),
        ("large only", 0.5, INFO, {"min_size": 30.0}),
        ("smallest", 0.5, INFO, {"min_size": 0.0}),
    )
]

# ------------------------------------------------------------------ feature pyramids
ROWS += [
    Row(
        "distribute_fpn_proposals",
        {"FpnRois": Seq(boxes(17, 0, size, key=str(size)), [lengths])},
        {"min_level": first, "max_level": last, "refer_level": refer, "refer_scale": scale},
        outputs={"MultiFpnRois": last - first + 1},
        ignore=[] if full else ["MultiFpnRois"],  # what 1.8.5 leaves of an empty level is nothing
        name=f"{size} {lengths} {first} {last} {scale}",
    )
    for size, lengths, first, last, refer, scale, full in (
        (300, [8, 9], 2, 4, 3, 100, True),
        (300, [3, 7, 7], 2, 3, 3, 100, True),
        (900, [8, 9], 2, 5, 4, 224, False),
        (20, [8, 9], 2, 5, 4, 224, False),
    )
]
LEVELS = ((4, [1, 3]), (5, [5, 0]), (3, [1, 2]))
ROWS += [
    Row(
        "collect_fpn_proposals",
        {
            "MultiLevelRois": [Seq(boxes(count), [lengths]) for count, lengths in LEVELS],
            "MultiLevelScores": [Seq(real(count, 1), [lengths]) for count, lengths in LEVELS],
        },
        {"post_nms_topN": most},
        name=str(most),
    )
    for most in (3, 5, 12, 100)  # fewer leave an image without any, which 1.8.5 then leaves out
]

# ------------------------------------------------------------------ anchors
ANCHORS = boxes(80, -8, 110)
OBJECTS = np.array(
    [[10, 10, 40, 40], [50, 20, 90, 70], [30, 30, 60, 60], [2, 3, 20, 22], [40, 40, 100, 66]], "float32"
)
COUNTS = [[3, 2]]
SCALED = OBJECTS / INFO[[0, 0, 0, 1, 1], 2:]
CROWD = np.array([[0], [0], [1], [0], [0]], "int32")
CLASSES = np.array([[1], [3], [2], [4], [2]], "int32")
FAR = SCALED + 4000
BOXED = {"GtBoxes": Seq(SCALED, COUNTS), "IsCrowd": Seq(CROWD, COUNTS), "ImInfo": INFO}
RPN: Dict[str, Any] = {  # noqa: UP006
    "rpn_batch_size_per_im": 20,
    "rpn_straddle_thresh": 0.0,
    "rpn_fg_fraction": 0.5,
    "rpn_positive_overlap": 0.6,
    "rpn_negative_overlap": 0.3,
    "use_random": False,
}
ROWS += [
    Row(
        "rpn_target_assign",
        dict(BOXED, Anchor=ANCHORS, GtBoxes=Seq(objects, COUNTS)),
        dict(RPN, **attrs),
        name=name,
    )
    for name, objects, attrs in (
        ("plain", SCALED, {}),
        ("small batch", SCALED, {"rpn_batch_size_per_im": 4}),
        ("large batch", SCALED, {"rpn_batch_size_per_im": 500}),
        ("over the edge", SCALED, {"rpn_straddle_thresh": 6.0}),
        ("anywhere", SCALED, {"rpn_straddle_thresh": -1.0}),
        ("easy", SCALED, {"rpn_positive_overlap": 0.1, "rpn_batch_size_per_im": 12}),
        ("both", SCALED, {"rpn_positive_overlap": 0.1, "rpn_negative_overlap": 0.8}),
        ("few in front", SCALED, {"rpn_fg_fraction": 0.1}),
        ("far", FAR, {}),
    )
]
ROWS += [
    Row(
        "retinanet_target_assign",
        dict(BOXED, Anchor=ANCHORS, GtBoxes=Seq(objects, COUNTS), GtLabels=Seq(CLASSES, COUNTS)),
        {"positive_overlap": positive, "negative_overlap": negative},
        name=name,
    )
    for name, objects, positive, negative in (
        ("plain", SCALED, 0.5, 0.4),
        ("easy", SCALED, 0.2, 0.1),
        ("hard", SCALED, 0.95, 0.6),
        ("both", SCALED, 0.3, 0.8),
        ("far", FAR, 0.5, 0.4),
    )
]

# ------------------------------------------------------------------ proposals
PROPOSALS = boxes(40, 0, 100)
PROPOSALS[7], PROPOSALS[30] = [0, 0, 0, 0], [9, 9, 5, 5]
LABEL: Dict[str, Any] = {  # noqa: UP006
    "batch_size_per_im": 12,
    "fg_fraction": 0.5,
    "fg_thresh": 0.5,
    "bg_thresh_hi": 0.5,
    "bg_thresh_lo": 0.0,
    "bbox_reg_weights": [0.1, 0.1, 0.2, 0.2],
    "class_nums": 6,
    "use_random": False,
    "is_cls_agnostic": False,
    "is_cascade_rcnn": False,
}
ROWS += [
    Row(
        "generate_proposal_labels",
        dict(BOXED, RpnRois=Seq(PROPOSALS, [lengths]), GtClasses=Seq(CLASSES, COUNTS)),
        dict(LABEL, **attrs),
        name=name,
    )
    for name, lengths, attrs in (
        ("plain", [18, 22], {}),
        ("uneven", [35, 5], {"batch_size_per_im": 30}),
        ("no proposals", [40, 0], {}),
        ("weights", [18, 22], {"bbox_reg_weights": [1.0, 2.0, 0.5, 0.25]}),
        ("agnostic", [18, 22], {"is_cls_agnostic": True, "class_nums": 2, "fg_thresh": 0.3}),
        ("easy", [18, 22], {"fg_thresh": 0.1, "bg_thresh_hi": 0.1}),
        ("band", [18, 22], {"bg_thresh_hi": 0.3, "bg_thresh_lo": 0.1}),
        ("front", [18, 22], {"fg_fraction": 0.95, "fg_thresh": 0.2, "batch_size_per_im": 5}),
        ("cascade", [18, 22], {"is_cascade_rcnn": True, "batch_size_per_im": 64}),
        (
            "cascade agnostic",
            [18, 22],
            {"is_cascade_rcnn": True, "batch_size_per_im": 64, "is_cls_agnostic": True, "fg_thresh": 0.3},
        ),
    )
]

# ------------------------------------------------------------------ masks
CORNERS = [5, 4, 7, 3, 6, 12]


def outlines(size: float) -> Any:
    """Polygons, each around a center of its own, as unlike circles as the numbers have it."""
    parts = []
    for number, corners in enumerate(CORNERS):
        key = str(number)
        turns = np.sort(real(corners, 1, low=0, high=6.28, key=key), axis=0)
        radii = real(corners, 1, low=0.3 * size, high=size, key=key)
        center = real(1, 2, low=15, high=60, key=key)
        parts.append(center + radii * np.concatenate((np.cos(turns), np.sin(turns)), axis=1))
    return np.concatenate(parts).astype("float32")


def masks(name: str, size: float, resolution: int, labels: Any, crowd: Any = CROWD) -> Row:
    count = len(labels)
    lengths = [[count // 2, count - count // 2]]
    rois = (boxes(count, 0, 75, name) * np.repeat([1.5, 0.5], lengths[0])[:, None]).astype("float32")
    inputs = {
        "ImInfo": INFO,
        "GtClasses": Seq(CLASSES, COUNTS),
        "IsCrowd": Seq(crowd, COUNTS),
        "GtSegms": Seq(outlines(size), COUNTS + [[2, 1, 1, 1, 1], CORNERS]),
        "Rois": Seq(rois, lengths),
        "LabelsInt32": Seq(labels, lengths),
    }
    return Row("generate_mask_labels", inputs, {"num_classes": 5, "resolution": resolution}, name=name)


ROWS += [
    masks("plain", 20, 14, whole(12, 1, dtype="int32")),
    masks("coarse", 20, 3, whole(12, 1, dtype="int32")),
    masks("fine", 40, 28, whole(30, 1, dtype="int32")),
    masks("small", 4, 14, whole(30, 1, dtype="int32")),
    masks("no crowd", 30, 9, whole(12, 1, dtype="int32"), CROWD * 0),
    masks("background", 20, 7, np.zeros((8, 1), "int32")),
]

# ------------------------------------------------------------------ detections
FOUND = (30, 12, 5)
DETECT: Dict[str, Any] = {  # noqa: UP006
    "score_threshold": 0.3,
    "nms_top_k": 20,
    "nms_threshold": 0.4,
    "nms_eta": 1.0,
    "keep_top_k": 15,
}
ROWS += [
    Row(
        "retinanet_detection_output",
        {
            "BBoxes": [real(2, count, 4, low=-0.6, high=0.6, key=name) for count in FOUND],
            "Scores": [real(2, count, classes, low=low, high=1, key=name) for count in FOUND],
            "Anchors": [boxes(count, 0, 90) for count in FOUND],
            "ImInfo": info,
        },
        dict(DETECT, **attrs),
        name=name,
    )
    for name, classes, low, info, attrs in (
        ("plain", 3, 0, INFO, {}),
        ("rough", 3, 0, ROUGH, {}),
        ("one class", 1, 0, INFO, {}),
        ("all", 4, 0, INFO, {"nms_top_k": 1000, "keep_top_k": 100}),
        ("high", 3, 0, INFO, {"score_threshold": 0.99}),
        ("negative", 3, -2, INFO, {}),
        ("eta", 3, 0, INFO, {"nms_eta": 0.8, "nms_threshold": 0.8}),
        ("strict", 3, 0, INFO, {"nms_threshold": 0.01}),
        ("few", 3, 0, INFO, {"nms_top_k": 3, "keep_top_k": 4}),
    )
]

# boxes without area, as those clipped to the picture are: a point twice, a line through it, others
_POINTS = np.array(
    [
        [0.5, 0.5, 0.5, 0.5],
        [0.2, 0.2, 0.6, 0.6],
        [0.5, 0.5, 0.5, 0.5],
        [0.5, 0.4, 0.5, 0.8],
        [0.9, 0.9, 0.9, 0.9],
        [0.2, 0.2, 0.6, 0.59],
        [0.9, 0.9, 0.9, 0.9],
        [0.4, 0.4, 0.4, 0.4],
    ],
    "float32",
)
ROWS += [
    Row(
        "multiclass_nms",
        {"BBoxes": _POINTS.astype(dtype)[None], "Scores": np.linspace(0.9, 0.2, 8).astype(dtype)[None, None]},
        {
            "background_label": -1,
            "score_threshold": 0.1,
            "nms_top_k": -1,
            "nms_threshold": 0.3,
            "keep_top_k": -1,
        },
        name=f"points_{dtype}",
    )
    for dtype in ("float32", "float64")
]
