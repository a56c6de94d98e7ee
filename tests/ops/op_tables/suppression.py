"""Rows for fluidlite.ops.detection.suppression; the references look at one box and one kept box at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

from op_tables.boxes import overlap

RNG = np.random.RandomState(41)
COUNTS = {"nms_top_k": -1, "keep_top_k": -1, "score_threshold": 0.2, "nms_threshold": 0.3}


def corners(*shape: int, size: float = 1.0) -> Any:
    low = RNG.uniform(0, size, (*shape, 2))
    return np.concatenate((low, low + RNG.uniform(0.05, 0.4, (*shape, 2)) * size), axis=-1).astype("float32")


def scores(*shape: int) -> Any:
    """No two are alike, so that the order is the same everywhere."""
    count = int(np.prod(shape))
    return ((RNG.permutation(count).reshape(shape) + 0.5) / count).astype("float32")


# ---------------------------------------------------------------------- by class
def shared(one: Any, other: Any, normalized: bool = True) -> float:
    """Overlap, 0 for pixel boxes with a gap between them, however small."""
    apart = any(max(one[i], other[i]) > min(one[i + 2], other[i + 2]) for i in (0, 1))
    return 0.0 if apart else overlap(one, other, int(not normalized))


def best(rows: Any, boxes: Any, values: Any, attrs: Any, alike: Any = shared) -> list[int]:
    """Rows that remain of one class, the best first."""
    limit, kept = attrs["nms_threshold"], []
    order = sorted((row for row in rows if values[row] > attrs["score_threshold"]), key=lambda r: -values[r])
    for row in order[: attrs["nms_top_k"]] if attrs["nms_top_k"] >= 0 else order:
        if all(alike(boxes[row], boxes[other], attrs.get("normalized", True)) <= limit for other in kept):
            kept.append(row)
            eta = attrs.get("nms_eta", 1.0)
            limit *= eta if eta < 1 and limit > 0.5 else 1
    return kept


def image_rows(boxes: Any, values: Any, attrs: Any, alike: Any = shared) -> tuple[list[Any], list[int]]:
    """[class, score, box] rows of one image and their places; `boxes` by class, `values` [classes, M]."""
    background = attrs.get("background_label", 0)
    found = [
        (label, row)
        for label in range(len(values))
        if label != background
        for row in best(range(values.shape[1]), boxes[label], values[label], attrs, alike)
    ]
    if 0 <= attrs["keep_top_k"] < len(found):
        found = sorted(found, key=lambda place: -values[place])[: attrs["keep_top_k"]]
        found.sort(key=lambda place: place[0])
    rows = [[label, values[label, row], *boxes[label][row]] for label, row in found]
    return rows, [row for _, row in found]


def nms_row(name: str, boxes: Any, values: Any, op: str = "multiclass_nms2", **more: Any) -> Case:
    attrs = {**COUNTS, **more}
    images = [
        image_rows([part] * len(value), value, attrs) for part, value in zip(boxes, values, strict=True)
    ]
    rows = np.array([row for part, _ in images for row in part], "float32")
    index = [image * boxes.shape[1] + place for image, (_, places) in enumerate(images) for place in places]
    lengths = [len(part) for part, _ in images]
    expect = {"Out": rows, "Index": np.array(index, "int32")[:, None]}
    slots = ["Out", "Index"] if op.endswith("2") else ["Out"]
    return Case(
        op,
        {"BBoxes": boxes, "Scores": values},
        {slot: expect[slot] for slot in slots},
        attrs=attrs,
        lods={slot: [lengths] for slot in slots},
        name=name,
    )


BOXES, SCORES = corners(2, 30), scores(2, 3, 30)
SEVERAL = [
    nms_row(name, BOXES, SCORES, op, **attrs)
    for op in ("multiclass_nms", "multiclass_nms2")
    for name, attrs in [
        ("", {}),
        ("no background", {"background_label": -1, "nms_top_k": 10, "keep_top_k": 8}),
        ("falling threshold", {"nms_eta": 0.8, "nms_threshold": 0.8, "keep_top_k": 5}),
    ]
]
PIXELS = nms_row("pixels", corners(2, 30, size=20), SCORES, normalized=False)
MANY = nms_row("many", corners(1, 400), scores(1, 3, 400), nms_threshold=0.6, nms_eta=0.98)
NOTHING = [
    Case(
        "multiclass_nms",
        {"BBoxes": BOXES, "Scores": SCORES},
        np.array([[-1.0]]),
        attrs={**COUNTS, "score_threshold": 2.0},
        lods={"Out": [[1]]},
        name="nothing",
    ),
    Case(
        "multiclass_nms2",
        {"BBoxes": BOXES, "Scores": SCORES},
        {"Out": np.zeros((0, 6)), "Index": np.zeros((0, 1))},
        attrs={**COUNTS, "score_threshold": 2.0},
        lods={"Out": [[0, 0]], "Index": [[0, 0]]},
        name="nothing",
    ),
]


def by_class_row() -> Case:
    """A box a class and place, [M, classes, 4], in sequences; the rows of a class come in their order."""
    boxes, values, attrs = corners(9, 3), scores(9, 3), {**COUNTS, "keep_top_k": 4}
    rows, index, lengths = [], [], [4, 5]
    for start, end in ((0, 4), (4, 9)):
        part = boxes[start:end].swapaxes(0, 1)
        found, places = image_rows(part, values[start:end].T, attrs)
        order = sorted(range(len(found)), key=lambda i, f=found, p=places: (f[i][0], p[i]))  # type: ignore[misc]
        rows += [found[i] for i in order]
        index += [[(start + places[i]) * 3 + int(found[i][0])] for i in order]
    return Case(
        "multiclass_nms2",
        {"BBoxes": (boxes, [lengths]), "Scores": (values, [lengths])},
        {"Out": np.array(rows), "Index": np.array(index)},
        attrs=attrs,
        name="a box a class",
    )


# ---------------------------------------------------------------------- polygons
def turned_squares(count: int) -> Any:
    """Squares with a side of 2, of which some overlap."""
    angle = RNG.uniform(0, np.pi / 2, (count, 1)) + np.arange(4) * np.pi / 2
    ring = np.stack((np.cos(angle), np.sin(angle)), axis=-1) * np.sqrt(2)
    return (RNG.uniform(0, 3, (count, 1, 2)) + ring).reshape(count, 8).astype("float32")


def polygons_shared(one: Any, other: Any, normalized: bool) -> float:
    """Overlap of two squares, by cutting the one at each side of the other."""
    part = [tuple(point) for point in one.reshape(-1, 2).astype(float)]
    sides = other.reshape(-1, 2).astype(float)
    for a, b in zip(sides, np.roll(sides, -1, axis=0), strict=True):
        part = cut(part, a, b)
    both = area(part)
    return both / (area(one.reshape(-1, 2)) + area(sides) - both)


def area(points: Any) -> float:
    x, y = np.array(points, float).reshape(-1, 2).T
    return float(abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2)


def cut(points: Any, a: Any, b: Any) -> list[Any]:
    """Corners of the part on the left of the line from a to b."""
    kept = []
    for p, q in zip(points, [*points[1:], *points[:1]], strict=True):
        left, right = ((b[0] - a[0]) * (r[1] - a[1]) - (b[1] - a[1]) * (r[0] - a[0]) for r in (p, q))
        if left >= 0:
            kept.append(p)
        if left * right < 0:
            share = left / (left - right)
            kept.append((p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])))
    return kept


def polygon_row() -> Case:
    boxes, values = turned_squares(20)[None], scores(1, 2, 20)
    rows, _ = image_rows([boxes[0]] * 2, values[0], COUNTS, polygons_shared)
    assert 4 < len(rows) < 16  # some went
    return Case(
        "multiclass_nms", {"BBoxes": boxes, "Scores": values}, np.array(rows), attrs=COUNTS, name="polygons"
    )


# ---------------------------------------------------------------------- by decay
def decayed(boxes: Any, values: Any, attrs: Any) -> list[tuple[float, int]]:
    """(score, row) of one class, the best first."""
    order = sorted((r for r in range(len(boxes)) if values[r] > 0.2), key=lambda r: -values[r])
    largest: list[float] = []
    found = []
    for place, row in enumerate(order):
        covers = [shared(boxes[row], boxes[other]) for other in order[:place]]
        factor = 1.0
        for cover, before in zip(covers, largest, strict=True):
            if attrs["use_gaussian"]:
                factor = min(factor, float(np.exp((before**2 - cover**2) * 2.0)))
            elif before < 1:
                factor = min(factor, (1 - cover) / (1 - before))
        largest.append(max(covers, default=0.0))
        found.append((values[row] * factor, row))
    return found


def matrix_row(name: str, gaussian: bool, boxes: Any = BOXES, most: int = -1) -> Case:
    attrs = {**COUNTS, "post_threshold": 0.3, "use_gaussian": gaussian, "keep_top_k": most}
    del attrs["nms_threshold"]
    rows, index, lengths = [], [], []
    for image in range(2):
        found = [
            (score, label, row)
            for label in (1, 2)
            for score, row in decayed(boxes[image], SCORES[image, label], attrs)
            if score > 0.3
        ]
        found = sorted(found, reverse=True)[: most if most >= 0 else None]
        rows += [[label, score, *boxes[image, row]] for score, label, row in found]
        index += [[image * 30 + row] for _, _, row in found]
        lengths.append(len(found))
    return Case(
        "matrix_nms",
        {"BBoxes": boxes, "Scores": SCORES},
        (np.array(rows), np.array(index)),
        attrs=attrs,
        lods={"Out": [lengths], "Index": [lengths]},
        rtol=1e-4,
        name=name,
    )


DECAY = [
    matrix_row("linear", False),
    matrix_row("gaussian", True),
    matrix_row("the best six", False, most=6),
    matrix_row("box upon box", False, np.repeat(BOXES[:, :10], 3, axis=1)),
]


def counted_row() -> Case:
    """In programs of 2.x a tensor says how many boxes each image has, in place of levels of detail."""
    old = matrix_row("counted", False)
    counts = np.array(old.lods["Out"][0], "int32")
    outputs = {**dict(zip(("Out", "Index"), old.expect, strict=True)), "RoisNum": counts}
    attrs = {**old.attrs, "of_2x": True}
    return Case("matrix_nms", old.inputs, outputs, attrs, rtol=1e-4, name="counted", of_2x=True)


def plain_row() -> Case:
    """Boxes are dropped in their own order."""
    kept: list[int] = []
    for row, box in enumerate(BOXES[0]):
        if all(shared(box, BOXES[0, other]) <= 0.3 for other in kept):
            kept.append(row)
    return Case("nms", {"Boxes": BOXES[0]}, np.array(kept), {"iou_threshold": 0.3})


# ---------------------------------------------------------------------- by neighbours
def merged(boxes: Any, values: Any) -> tuple[Any, Any]:
    heads: list[list[Any]] = []
    for box, value in zip(boxes.astype(float), values.astype(float), strict=True):
        if heads and shared(box, heads[-1][0]) > 0.3:
            (old, weight), total = heads[-1], heads[-1][1] + value
            heads[-1] = [(old * weight + box * value) / total, total]
        else:
            heads.append([box, value])
    return [box for box, _ in heads], np.array([value for _, value in heads])


def neighbour_row() -> Case:
    boxes = np.repeat(corners(2, 8), 4, axis=1) + RNG.normal(0, 0.02, (2, 32, 4)).astype("float32")
    values = scores(2, 1, 32)
    rows, lengths = [], []
    for image in range(2):
        heads, totals = merged(boxes[image], values[image, 0])
        kept = best(range(len(heads)), heads, totals, COUNTS)
        rows += [[0, totals[row], *heads[row]] for row in kept]
        lengths.append(len(kept))
    return Case(
        "locality_aware_nms",
        {"BBoxes": boxes, "Scores": values},
        np.array(rows),
        attrs=COUNTS,
        lods={"Out": [lengths]},
        rtol=1e-4,
    )


CASES = [
    *SEVERAL,
    PIXELS,
    MANY,
    *NOTHING,
    by_class_row(),
    polygon_row(),
    *DECAY,
    counted_row(),
    plain_row(),
    neighbour_row(),
]
