"""Rows for fluidlite.ops.detection.boxes; the references go box by box and number by number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(31)


def corners(count: int, size: float = 1.0) -> Any:
    """Boxes of which some overlap."""
    low = RNG.uniform(0, size, (count, 2))
    return np.concatenate((low, low + RNG.uniform(0.1, size, (count, 2))), axis=1).astype("float32")


# ---------------------------------------------------------------------- overlaps
def overlap(one: Any, other: Any, extra: float) -> float:
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[2], other[2]), min(one[3], other[3])
    both = max(right - left + extra, 0) * max(bottom - top + extra, 0)
    sizes = [(box[2] - box[0] + extra) * (box[3] - box[1] + extra) for box in (one, other)]
    union = sum(sizes) - both
    return both / union if union else 0.0


def overlap_row(name: str, x: Any, y: Any, normalized: bool = True) -> Case:
    boxes = x[0] if isinstance(x, tuple) else x
    return Case(
        "iou_similarity",
        {"X": x, "Y": y},
        np.array([[overlap(one, other, 0 if normalized else 1) for other in y] for one in boxes]),
        attrs={"box_normalized": normalized},
        lods={"Out": x[1]} if isinstance(x, tuple) else {},
        name=name,
    )


EMPTY = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]], "float32")
OVERLAPS = [
    overlap_row("", corners(5), corners(7)),
    overlap_row("pixels", (corners(5, 9), [[2, 3]]), corners(3, 9), normalized=False),
    overlap_row("empty boxes", EMPTY, EMPTY),
]


# ---------------------------------------------------------------------- clip
def clipped(Input: Any, ImInfo: Any) -> Any:
    """Two images: the first has the first two boxes."""
    out = Input.copy()
    for number, box in enumerate(out):
        height, width, scale = ImInfo[0 if number < 2 else 1]
        for index in np.ndindex(*box.shape):
            size = width if index[-1] % 2 == 0 else height
            box[index] = min(max(box[index], 0), math.floor(size / scale + 0.5) - 1)
    return out


INFO = np.array([[30, 20, 1], [25, 33, 2]], "float32")  # 25 / 2 rounds up, to 13
CLIPS = [
    Case(
        "box_clip",
        {"Input": (RNG.uniform(-5, 40, shape).astype("float32"), [[2, 4]]), "ImInfo": INFO},
        clipped,
        lods={"Output": [[2, 4]]},
        name=f"{len(shape)} dimensions",
    )
    for shape in ((6, 4), (6, 3, 4))
]
CLIPS.append(
    Case(
        "box_clip",
        {"Input": np.array([[3, -2, 5, 7]], "float32"), "ImInfo": np.array([[0.3, 0.2, 1]], "float32")},
        np.zeros((1, 4), "float32"),
        name="an image of no pixel",
    )
)


# ---------------------------------------------------------------------- codes
def encoded(box: Any, prior: Any, variance: Any, extra: float) -> list[float]:
    code = []
    for axis in (0, 1):
        size = prior[axis + 2] - prior[axis] + extra
        center = prior[axis] + size / 2
        code.append(((box[axis] + box[axis + 2]) / 2 - center) / size)
    for axis in (0, 1):
        ratio = (box[axis + 2] - box[axis] + extra) / (prior[axis + 2] - prior[axis] + extra)
        code.append(math.log(abs(ratio)))
    return [number / scale for number, scale in zip(code, variance)]


def decoded(code: Any, prior: Any, variance: Any, extra: float, limit: float = math.inf) -> list[float]:
    offsets = [number * scale for number, scale in zip(code, variance)]
    low, high = [], []
    for axis in (0, 1):
        size = prior[axis + 2] - prior[axis] + extra
        center = prior[axis] + size / 2 + offsets[axis] * size
        half = math.exp(min(offsets[axis + 2], limit)) * size / 2
        low.append(center - half)
        high.append(center + half - extra)
    return low + high


PRIORS, VARIANCES = corners(7), RNG.uniform(0.1, 0.3, (7, 4)).astype("float32")
FOUR = [0.1, 0.2, 0.3, 0.4]
KINDS: list[tuple[str, Any, Any, Any]] = [
    ("a variance each", {"PriorBoxVar": VARIANCES}, {}, VARIANCES),
    ("four variances", {}, {"variance": FOUR}, [FOUR] * 7),
    ("no variance", {}, {}, np.ones((7, 4))),
]


def encoder_row(kind: tuple[str, Any, Any, Any], normalized: bool) -> Case:
    name, inputs, attrs, variances = kind
    boxes, extra = corners(5), 0 if normalized else 1
    wanted = [[encoded(box, *pair, extra) for pair in zip(PRIORS, variances)] for box in boxes]
    return Case(
        "box_coder",
        {"PriorBox": PRIORS, **inputs, "TargetBox": (boxes, [[2, 3]])},
        np.array(wanted),
        attrs={"code_type": "encode_center_size", "box_normalized": normalized, **attrs},
        rtol=1e-4,
        lods={"OutputBox": [[2, 3]]},
        name=f"encode, {name}" + ", pixels" * (not normalized),
    )


def decoder_row(kind: tuple[str, Any, Any, Any], normalized: bool, axis: int) -> Case:
    name, inputs, attrs, variances = kind
    extra = 0 if normalized else 1
    codes = RNG.uniform(-1, 1, (5, 7, 4) if axis == 0 else (7, 5, 4)).astype("float32")
    wanted = np.zeros(codes.shape)
    for i, j in np.ndindex(*codes.shape[:2]):
        prior = j if axis == 0 else i
        wanted[i, j] = decoded(codes[i, j], PRIORS[prior], variances[prior], extra)
    return Case(
        "box_coder",
        {"PriorBox": PRIORS, **inputs, "TargetBox": codes},
        wanted,
        attrs={"code_type": "decode_center_size", "box_normalized": normalized, "axis": axis, **attrs},
        rtol=1e-4,
        name=f"decode along {axis}, {name}" + ", pixels" * (not normalized),
    )


def best_boxes(PriorBox: Any, PriorBoxVar: Any, TargetBox: Any, BoxScore: Any) -> Any:
    boxes, best = np.zeros(TargetBox.shape), PriorBox.copy()
    for n, prior in enumerate(PriorBox):
        highest = -1.0
        for label in range(BoxScore.shape[1]):
            place = slice(4 * label, 4 * label + 4)
            boxes[n, place] = decoded(TargetBox[n, place], prior, PriorBoxVar, 1, limit=1.2)
            if label and BoxScore[n, label] > highest:
                highest, best[n] = BoxScore[n, label], boxes[n, place]
    return boxes, best


SCORES = RNG.uniform(0, 1, (6, 3)).astype("float32")
SCORES[:4] = [[0.2, 0.4, 0.4], [0.5, -1, -2], [0.9, 0, -1], [0.1, np.nan, 0.3]]
ASSIGNED = Case(
    "box_decoder_and_assign",
    {
        "PriorBox": corners(6, 30),
        "PriorBoxVar": np.array(FOUR, "float32"),
        "TargetBox": RNG.uniform(-2, 8, (6, 12)).astype("float32"),
        "BoxScore": SCORES,
    },
    best_boxes,
    attrs={"box_clip": 1.2},
    rtol=1e-4,
)


# ---------------------------------------------------------------------- text
def corners_of_text(Input: Any) -> Any:
    out = np.zeros(Input.shape)
    for n, c, y, x in np.ndindex(*Input.shape):
        out[n, c, y, x] = 4 * (y if c % 2 else x) - Input[n, c, y, x]
    return out


TEXT = Case(
    "polygon_box_transform", {"Input": RNG.uniform(-1, 1, (2, 8, 3, 5)).astype("float32")}, corners_of_text
)

CASES = [
    *OVERLAPS,
    *CLIPS,
    *(encoder_row(kind, normalized) for kind in KINDS for normalized in (True, False)),
    *(
        decoder_row(kind, normalized, axis)
        for kind in KINDS
        for normalized in (True, False)
        for axis in (0, 1)
    ),
    ASSIGNED,
    TEXT,
]
