"""Rows for fluidlite.ops.detection: proposals, anchor_targets, proposal_targets, mask_targets, retinanet.

The references go box by box, as the papers tell it; golden cases hold the same ops to PaddlePaddle's numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(47)
INFO = np.array([[60, 70, 1.5], [50, 64, 0.5]], "float32")


def boxes(count: int, low: float = 0, high: float = 60) -> Any:
    first, second = RNG.uniform(low, high, (2, count, 2))
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), 1).astype("float32")


def side(box: Any, axis: int) -> float:
    return box[axis + 2] - box[axis] + 1


def overlap(one: Any, other: Any) -> float:
    both = 1.0
    for axis in (0, 1):
        both *= max(min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis]) + 1, 0)
    return both / (side(one, 0) * side(one, 1) + side(other, 0) * side(other, 1) - both)


def code(box: Any, target: Any) -> list[float]:
    offsets = [
        (target[axis] + side(target, axis) / 2 - box[axis] - side(box, axis) / 2) / side(box, axis)
        for axis in (0, 1)
    ]
    return offsets + [math.log(side(target, axis) / side(box, axis)) for axis in (0, 1)]


def decoded(anchor: Any, deltas: Any) -> Any:
    out = np.zeros(4)
    for axis in (0, 1):
        center = deltas[axis] * side(anchor, axis) + anchor[axis] + side(anchor, axis) / 2
        half = math.exp(deltas[axis + 2]) * side(anchor, axis) / 2
        out[axis], out[axis + 2] = center - half, center + half - 1
    return out


def suppressed(found: list[Any], threshold: float, eta: float = 1.0) -> list[Any]:
    """The (score, box, ...) that no better kept one overlaps too much, best first."""
    kept: list[Any] = []
    for one in sorted(found, key=lambda row: -row[0]):
        if all(overlap(one[1], other[1]) <= threshold for other in kept):
            kept.append(one)
            threshold *= eta if threshold > 0.5 else 1
    return kept


def rows_of(value: Any, counts: list[int], image: int) -> Any:
    return value[sum(counts[:image]) : sum(counts[: image + 1])]


# ------------------------------------------------------------------ generate_proposals
def proposed(
    Scores: Any, BboxDeltas: Any, ImInfo: Any, Anchors: Any, Variances: Any, eta: float
) -> list[list[Any]]:
    images = []
    for image, (high, wide, scale) in enumerate(ImInfo):
        found = []
        for y, x, a in np.ndindex(*Anchors.shape[:3]):
            deltas = BboxDeltas[image, 4 * a : 4 * a + 4, y, x] * Variances[y, x, a]
            deltas[2:] = np.minimum(deltas[2:], math.log(1000 / 16))
            found.append((Scores[image, a, y, x], decoded(Anchors[y, x, a], deltas)))
        found = sorted(found, key=lambda row: -row[0])[:15]
        limits = np.array([wide, high, wide, high]) - 1
        found = [(score, np.clip(box, 0, limits)) for score, box in found]
        found = [
            (score, box)
            for score, box in found
            if all((box[axis + 2] - box[axis]) / scale + 1 >= 4 for axis in (0, 1))
        ]
        images.append(suppressed(found, 0.6, eta)[:6])
    return images


def proposals(eta: float) -> Case:
    inputs = {
        "Scores": RNG.uniform(0, 1, (2, 2, 3, 4)).astype("float32"),
        "BboxDeltas": RNG.uniform(-0.5, 0.5, (2, 8, 3, 4)).astype("float32"),
        "ImInfo": INFO,
        "Anchors": boxes(24).reshape(3, 4, 2, 4),
        "Variances": RNG.uniform(0.5, 1.5, (3, 4, 2, 4)).astype("float32"),
    }
    images = proposed(**inputs, eta=eta)
    counts = [len(image) for image in images]
    found = [row for image in images for row in image]
    return Case(
        "generate_proposals",
        inputs,
        {
            "RpnRois": np.array([box for _, box in found]),
            "RpnRoiProbs": np.array([[score] for score, _ in found]),
            "RpnRoisLod": np.cumsum(counts),
        },
        {"pre_nms_topN": 15, "post_nms_topN": 6, "nms_thresh": 0.6, "min_size": 4.0, "eta": eta},
        lods={"RpnRois": [counts], "RpnRoiProbs": [counts]},
        atol=1e-4,
        name=f"eta {eta}",
    )


def proposals_of_equal_scores() -> Case:
    """Of equal scores the last comes first."""
    anchors = np.array([[10 * x, 2, 10 * x + 5, 8] for x in range(5)], "float32")
    scores = np.array([0.5, 0.2, 0.5, 0.2, 0.5], "float32")
    order = [4, 2, 0, 3, 1]
    return Case(
        "generate_proposals",
        {
            "Scores": scores.reshape(1, 1, 5, 1),
            "BboxDeltas": np.zeros((1, 4, 5, 1), "float32"),
            "ImInfo": INFO[:1],
            "Anchors": anchors.reshape(5, 1, 1, 4),
            "Variances": np.ones((5, 1, 1, 4), "float32"),
        },
        {"RpnRois": anchors[order], "RpnRoiProbs": scores[order][:, None], "RpnRoisLod": np.array([5])},
        {"pre_nms_topN": 15, "post_nms_topN": 6, "nms_thresh": 0.6, "min_size": 1.0, "eta": 1.0},
        lods={"RpnRois": [[5]], "RpnRoiProbs": [[5]]},
        name="equal scores",
    )


def proposals_v2() -> Case:
    """Of images that were never scaled, whose boxes' last pixels belong to them."""
    old = proposals(1.0)
    inputs = {slot: value for slot, value in old.inputs.items() if slot != "ImInfo"}
    images = proposed(**inputs, ImInfo=np.array([[60, 70, 1], [50, 64, 1]], "float32"), eta=1.0)
    found = [row for image in images for row in image]
    return Case(
        "generate_proposals_v2",
        {**inputs, "ImShape": np.array([[60, 70], [50, 64]], "float32")},
        {
            "RpnRois": np.array([box for _, box in found]),
            "RpnRoiProbs": np.array([[score] for score, _ in found]),
            "RpnRoisNum": np.array([len(image) for image in images], "int32"),
        },
        {**old.attrs, "pixel_offset": True},
        atol=1e-4,
    )


# ------------------------------------------------------------------ feature pyramids
SIZES = boxes(9, high=400)
SIZES[2] = [9, 9, 5, 5]  # turned inside out: of the finest level


def dealt(FpnRois: Any) -> dict[str, Any]:
    levels: list[list[int]] = [[], [], []]
    for number, box in enumerate(FpnRois):
        area = side(box, 0) * side(box, 1) if (box[2:] >= box[:2]).all() else 0
        level = math.floor(math.log2(math.sqrt(area) / 100 + 1e-6)) + 3
        levels[min(max(level, 2), 4) - 2].append(number)
    order = [number for level in levels for number in level]
    restore = np.array([[order.index(number)] for number in range(len(FpnRois))])
    return {"MultiFpnRois": [FpnRois[level] for level in levels], "RestoreIndex": restore}


def counted(FpnRois: Any) -> list[Any]:
    """How many boxes of the images of 4 and 5 boxes lie in each level."""
    first, second = dealt(FpnRois[:4])["MultiFpnRois"], dealt(FpnRois[4:])["MultiFpnRois"]
    return [np.array([len(one), len(other)], "int32") for one, other in zip(first, second, strict=True)]


LEVELS = [(boxes(4), [[1, 3]]), (boxes(5), [[3, 2]])]
SCORES = [RNG.uniform(0, 1, (4, 1)).astype("float32"), RNG.uniform(0, 1, (5, 1)).astype("float32")]
SCORES[1][2] = SCORES[0][1]  # of equal ones the first


def collected(MultiLevelRois: Any, MultiLevelScores: Any) -> Any:
    image = [0, 1, 1, 1, 0, 0, 0, 1, 1]
    scores = np.concatenate(MultiLevelScores)[:, 0]
    best = sorted(range(9), key=lambda row: (-scores[row], row))[:6]
    return np.concatenate(MultiLevelRois)[sorted(best, key=lambda row: image[row])]


def collected_counts() -> list[int]:
    scores = np.concatenate(SCORES)[:, 0]
    best = sorted(range(9), key=lambda row: (-scores[row], row))[:6]
    ones = sum([0, 1, 1, 1, 0, 0, 0, 1, 1][row] for row in best)
    return [6 - ones, ones]


# ------------------------------------------------------------------ anchors
OBJECTS = np.array([[5, 5, 25, 25], [30, 10, 55, 40], [1, 30, 25, 55], [10, 10, 40, 40]], "float32")
COUNTS = [3, 1]
CROWD = np.array([[0], [0], [1], [0]], "int32")
CLASSES = np.array([[2], [1], [3], [2]], "int32")
ANCHORS = boxes(30, low=-4, high=70)


def chosen(anchors: Any, objects: Any, positive: float, negative: float, batch: int, fraction: float) -> Any:
    """(located rows with weights, scored rows with True for those that show something)."""
    table = np.array([[overlap(anchor, one) for one in objects] for anchor in anchors])
    best = [
        number
        for number, row in enumerate(table)
        if row.max() >= positive or any(abs(row[k] - table[:, k].max()) < 1e-5 for k in range(len(objects)))
    ][: int(batch * fraction)]
    none = [number for number, row in enumerate(table) if row.max() < negative][: batch - len(best)]
    rest = [number for number in best if number not in none]
    located = [(best[0], 0.0)] * (len(best) - len(rest)) + [(number, 1.0) for number in rest]
    scored = [(number, True) for number in rest] + [(number, False) for number in none]
    return located, scored, table.argmax(axis=1)


def anchor_targets(straddle: float, batch: int, fraction: float, positive: float, negative: float) -> Any:
    parts: dict[str, list[Any]] = {
        slot: []
        for slot in ("LocationIndex", "ScoreIndex", "TargetBBox", "TargetLabel", "BBoxInsideWeight", "Count")
    }
    for image, (high, wide, scale) in enumerate(INFO):
        keep = rows_of(CROWD, COUNTS, image)[:, 0] == 0
        objects = rows_of(OBJECTS, COUNTS, image)[keep] * scale
        classes = rows_of(CLASSES, COUNTS, image)[keep, 0]
        inside = [
            number
            for number, (left, top, right, bottom) in enumerate(ANCHORS)
            if straddle < 0
            or (min(left, top) >= -straddle and right < wide + straddle and bottom < high + straddle)
        ]
        located, scored, match = chosen(ANCHORS[inside], objects, positive, negative, batch, fraction)
        first = image * len(ANCHORS)
        parts["LocationIndex"] += [first + inside[number] for number, _ in located]
        parts["ScoreIndex"] += [first + inside[number] for number, _ in scored]
        parts["TargetBBox"] += [code(ANCHORS[inside[k]], objects[match[k]]) for k, _ in located]
        parts["TargetLabel"] += [[classes[match[k]] if shows else 0] for k, shows in scored]
        parts["BBoxInsideWeight"] += [[weight] * 4 for _, weight in located]
        parts["Count"].append([len(located) + 1])
    return {slot: np.array(values) for slot, values in parts.items()}


def rpn(name: str, *options: float) -> Case:
    straddle, batch, fraction, positive, negative = options
    expect = anchor_targets(straddle, int(batch), fraction, positive, negative)
    expect["TargetLabel"] = np.minimum(expect["TargetLabel"], 1)
    del expect["Count"]
    attrs = {
        "rpn_batch_size_per_im": int(batch),
        "rpn_straddle_thresh": straddle,
        "rpn_fg_fraction": fraction,
        "rpn_positive_overlap": positive,
        "rpn_negative_overlap": negative,
        "use_random": False,
    }
    inputs = {"Anchor": ANCHORS, "GtBoxes": (OBJECTS, [COUNTS]), "IsCrowd": (CROWD, [COUNTS]), "ImInfo": INFO}
    return Case("rpn_target_assign", inputs, expect, attrs, atol=1e-4, name=name)


def retinanet_targets(positive: float, negative: float) -> Case:
    expect = anchor_targets(-1, 1000, 1, positive, negative)
    expect["ForegroundNumber"] = expect.pop("Count")
    inputs = {
        "Anchor": ANCHORS,
        "GtBoxes": (OBJECTS, [COUNTS]),
        "GtLabels": (CLASSES, [COUNTS]),
        "IsCrowd": (CROWD, [COUNTS]),
        "ImInfo": INFO,
    }
    attrs = {"positive_overlap": positive, "negative_overlap": negative}
    return Case("retinanet_target_assign", inputs, expect, attrs, atol=1e-4)


# ------------------------------------------------------------------ proposals' labels
PROPOSALS = boxes(14)
PROPOSALS[3] = [9, 9, 44, 43]
PROPOSED = [6, 8]
WEIGHTS = [0.1, 0.2, 0.5, 1.0]


def labelled(batch: int, fraction: float, front: float, low: float, high: float, agnostic: bool) -> Any:
    parts: list[list[Any]] = [[], [], [], []]
    for image, (_, _, scale) in enumerate(INFO):
        objects = rows_of(OBJECTS, COUNTS, image)
        crowd, classes = (rows_of(value, COUNTS, image)[:, 0] for value in (CROWD, CLASSES))
        candidates = [*objects, *(rows_of(PROPOSALS, PROPOSED, image) / scale)]
        shows, none = [], []
        for number, box in enumerate(candidates):
            shared = [overlap(box, one) for one in objects]
            most = -1 if number < len(objects) and crowd[number] else max(shared)
            if most >= front:
                shows.append((box, int(np.argmax(shared))))
            elif low <= most < high:
                none.append(box)
        shows = shows[: int(batch * fraction)]
        none = none[: batch - len(shows)]
        for box, match in shows:
            target, weights = np.zeros(16), np.zeros(16)
            column = 1 if agnostic else classes[match]
            target[4 * column : 4 * column + 4] = np.array(code(box, objects[match])) / WEIGHTS
            weights[4 * column : 4 * column + 4] = 1
            for part, value in zip(parts, (box * scale, [classes[match]], target, weights), strict=True):
                part.append(value)
        for box in none:
            for part, value in zip(parts, (box * scale, [0], np.zeros(16), np.zeros(16)), strict=True):
                part.append(value)
    rois, labels, targets, weights = (np.array(part) for part in parts)
    return {
        "Rois": rois,
        "LabelsInt32": labels,
        "BboxTargets": targets,
        "BboxInsideWeights": weights,
        "BboxOutsideWeights": weights,
    }


def labels_row(name: str, *options: Any) -> Case:
    batch, fraction, front, low, high, agnostic = options
    attrs = {
        "batch_size_per_im": batch,
        "fg_fraction": fraction,
        "fg_thresh": front,
        "bg_thresh_lo": low,
        "bg_thresh_hi": high,
        "bbox_reg_weights": WEIGHTS,
        "class_nums": 4,
        "use_random": False,
        "is_cls_agnostic": agnostic,
    }
    inputs = {
        "RpnRois": (PROPOSALS, [PROPOSED]),
        "GtClasses": (CLASSES, [COUNTS]),
        "IsCrowd": (CROWD, [COUNTS]),
        "GtBoxes": (OBJECTS, [COUNTS]),
        "ImInfo": INFO,
    }
    return Case("generate_proposal_labels", inputs, labelled(*options), attrs, atol=1e-4, name=name)


# ------------------------------------------------------------------ masks
# rectangles whose edges lie between the pixels of the mask: inside is what it looks like
RECTANGLES = [(0, 0, 8, 4), (8, 8, 16, 16), (4, 0, 12, 16), (0, 8, 16, 12)]
SEGMENTS = np.array([[[a, b], [c, b], [c, d], [a, d]] for a, b, c, d in RECTANGLES], "float32").reshape(-1, 2)
REGIONS = np.array([[0, 0, 16, 16], [1, 0, 15, 14], [4, 0, 12, 16], [0, 0, 16, 16]], "float32")


def masks() -> Case:
    """Object 0 is rectangles 0 and 1, object 1 rectangle 2 (a crowd), object 2, of the other image, 3."""
    square, part = np.zeros((4, 4), "int32"), np.full((3, 4, 4), -1, "int32")
    square[:1, :2], square[2:, 2:] = 1, 1
    part[1] = square
    other = np.full((3, 4, 4), -1, "int32")
    other[2] = np.repeat([[0], [0], [1], [0]], 4, axis=1)
    inputs = {
        "ImInfo": np.array([[16, 16, 1.0], [32, 32, 2.0]], "float32"),
        "GtClasses": (np.array([[1], [2], [2]], "int32"), [[2, 1]]),
        "IsCrowd": (np.array([[0], [1], [0]], "int32"), [[2, 1]]),
        "GtSegms": (SEGMENTS, [[2, 1], [2, 1, 1], [4, 4, 4, 4]]),
        "Rois": (REGIONS * [[1], [1], [1], [2]], [[3, 1]]),
        "LabelsInt32": (np.array([[1], [0], [0], [2]], "int32"), [[3, 1]]),
    }
    inputs["Rois"] = (inputs["Rois"][0].astype("float32"), [[3, 1]])
    expect = {
        "MaskRois": np.array([[0, 0, 16, 16], [0, 0, 32, 32]], "float32"),
        "RoiHasMaskInt32": np.zeros((2, 1), "int32"),
        "MaskInt32": np.stack((part.reshape(-1), other.reshape(-1))),
    }
    return Case("generate_mask_labels", inputs, expect, {"num_classes": 3, "resolution": 4})


# ------------------------------------------------------------------ retinanet_detection_output
FOUND = [14, 4]  # 1.8.5 declares as many rows as the first level has anchors: so many come out


def detected(BBoxes: Any, Scores: Any, Anchors: Any, ImInfo: Any) -> tuple[Any, list[int]]:
    images = []
    for image, (high, wide, scale) in enumerate(ImInfo):
        by_class: dict[int, list[Any]] = {}
        limits = [math.floor(size / scale + 0.5) - 1 for size in (wide, high, wide, high)]
        for level, threshold in ((0, 0.3), (1, 0.0)):
            places = sorted(np.ndindex(FOUND[level], 2), key=lambda place: -Scores[level][image][place])
            for row, label in places[:5]:
                if Scores[level][image, row, label] > threshold:
                    box = decoded(Anchors[level][row], BBoxes[level][image, row]) / scale
                    row_found = (Scores[level][image, row, label], np.clip(box, 0, limits), label + 1)
                    by_class.setdefault(label, []).append(row_found)
        found = [one for rows in by_class.values() for one in suppressed(rows, 0.4)]
        images.append(sorted(found, key=lambda one: -one[0])[:7])
    rows = [[label, score, *box] for image in images for score, box, label in image]
    return np.array(rows), [len(image) for image in images]


def detections() -> Case:
    inputs = {
        "BBoxes": [RNG.uniform(-0.5, 0.5, (2, count, 4)).astype("float32") for count in FOUND],
        "Scores": [RNG.uniform(0, 1, (2, count, 2)).astype("float32") for count in FOUND],
        "Anchors": [boxes(count) for count in FOUND],
        "ImInfo": INFO,
    }
    rows, counts = detected(**inputs)
    return Case(
        "retinanet_detection_output",
        inputs,
        {"Out": rows},
        {"score_threshold": 0.3, "nms_top_k": 5, "nms_threshold": 0.4, "nms_eta": 1.0, "keep_top_k": 7},
        lods={"Out": [counts]},
        atol=1e-4,
    )


CASES = [
    proposals(eta=1.0),
    proposals(eta=0.8),
    Case(
        "distribute_fpn_proposals",
        {"FpnRois": (SIZES, [[4, 5]])},
        dealt,
        {"min_level": 2, "max_level": 4, "refer_level": 3, "refer_scale": 100},
        outputs={"MultiFpnRois": 3},
    ),
    proposals_v2(),
    proposals_of_equal_scores(),
    Case(
        "distribute_fpn_proposals",
        {"FpnRois": SIZES, "RoisNum": np.array([4, 5], "int32")},
        lambda FpnRois, RoisNum: {**dealt(FpnRois), "MultiLevelRoIsNum": counted(FpnRois)},
        {"min_level": 2, "max_level": 4, "refer_level": 3, "refer_scale": 100},
        outputs={"MultiFpnRois": 3, "MultiLevelRoIsNum": 3},
        name="numbers of boxes",
    ),
    Case(
        "collect_fpn_proposals",
        {"MultiLevelRois": LEVELS, "MultiLevelScores": SCORES},
        collected,
        {"post_nms_topN": 6},
        lods={"FpnRois": [collected_counts()]},
    ),
    rpn("few", 0.0, 6, 0.5, 0.7, 0.3),
    rpn("all inside", 100.0, 200, 0.5, 0.4, 0.3),
    rpn("both", -1.0, 8, 0.75, 0.1, 0.6),
    retinanet_targets(0.5, 0.4),
    retinanet_targets(0.3, 0.5),
    labels_row("few", 6, 0.5, 0.5, 0.0, 0.5, False),
    labels_row("agnostic", 20, 0.4, 0.3, 0.05, 0.2, True),
    masks(),
    detections(),
]
