"""Rows for fluidlite.ops.detection.yolo; the references go cell by cell and object by object."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from optest import Case

from op_tables.boxes import overlap

RNG = np.random.RandomState(43)
ANCHORS = [10, 13, 16, 30, 33, 23, 60, 50]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# ---------------------------------------------------------------------- boxes
def boxes_of(X: Any, ImgSize: Any, attrs: Any) -> tuple[Any, Any]:
    n, channels, height, width = X.shape
    classes = attrs["class_num"]
    aware = attrs.get("iou_aware", False)
    count = channels // (5 + aware + classes)
    grid = X[:, count * aware :].reshape(n, count, 5 + classes, height, width)
    boxes, scores = np.zeros((n, count, height, width, 4)), np.zeros((n, count, height, width, classes))
    stretch = attrs.get("scale_x_y", 1.0)
    wide = width if attrs.get("of_2x") else height  # in 1.8.5 rows count for the width, too
    for image, a, row, column in np.ndindex(n, count, height, width):
        said = grid[image, a, :, row, column]
        sure = sigmoid(said[4])
        if aware:
            share = attrs["iou_aware_factor"]
            sure = sure ** (1 - share) * sigmoid(X[image, a, row, column]) ** share
        if sure < attrs["conf_thresh"]:
            continue
        down, across = ImgSize[image]
        x, y = (
            (place + sigmoid(value) * stretch - 0.5 * (stretch - 1)) * size / cells
            for place, value, size, cells in ((column, said[0], across, wide), (row, said[1], down, height))
        )
        w = math.exp(said[2]) * ANCHORS[2 * a] * across / (attrs["downsample_ratio"] * wide)
        h = math.exp(said[3]) * ANCHORS[2 * a + 1] * down / (attrs["downsample_ratio"] * height)
        box = [x - w / 2, y - h / 2, x + w / 2, y + h / 2]
        if attrs.get("clip_bbox", True):
            box = [max(box[0], 0), max(box[1], 0), min(box[2], across - 1), min(box[3], down - 1)]
        boxes[image, a, row, column] = box
        scores[image, a, row, column] = [sure * sigmoid(value) for value in said[5:]]
    return boxes.reshape(n, -1, 4), scores.reshape(n, -1, classes)


def box_row(
    name: str, classes: int = 3, anchors: int = 3, shape: tuple[int, int] = (3, 3), **more: Any
) -> Case:
    attrs = {"class_num": classes, "conf_thresh": 0.4, "downsample_ratio": 32, **more}
    channels = 5 + attrs.get("iou_aware", False) + classes
    inputs = {
        "X": RNG.normal(0, 1.5, (2, anchors * channels, *shape)).astype("float32"),
        "ImgSize": RNG.randint(50, 120, (2, 2)).astype("int32"),
    }
    return Case(
        "yolo_box",
        inputs,
        lambda X, ImgSize: boxes_of(X, ImgSize, attrs),
        attrs={**attrs, "anchors": ANCHORS[: 2 * anchors]},
        rtol=1e-4,
        atol=1e-4,
        name=name,
    )


BOXES = [
    box_row(""),
    box_row("not clipped", clip_bbox=False),
    box_row("stretched", scale_x_y=1.2),
    box_row("one class", 1, 2, downsample_ratio=8),
    box_row("wide", shape=(3, 5)),
    box_row("wide of 2x", shape=(3, 5), of_2x=True),
    box_row("aware of overlaps", iou_aware=True, iou_aware_factor=0.3),
    box_row("none is sure", conf_thresh=2.0),
]


# ---------------------------------------------------------------------- loss
def entropy(x: float, label: float) -> float:
    return max(x, 0) - x * label + math.log1p(math.exp(-abs(x)))


def edges(x: float, y: float, w: float, h: float) -> list[float]:
    return [x - w / 2, y - h / 2, x + w / 2, y + h / 2]


class Reference:
    """The loss of one image, told cell by cell; `grid` is [anchors, 5 + classes, H, H]."""

    def __init__(self, grid: Any, objects: list[Any], attrs: Any) -> None:
        self.grid, self.attrs, self.size = grid, attrs, grid.shape[2]
        self.objects = [one for one in objects if min(one[0][2:]) > 1e-6]
        self.pixels = attrs["downsample_ratio"] * self.size
        self.mask = np.zeros((len(grid), self.size, self.size))

    def run(self) -> float:
        for cell in np.ndindex(*self.mask.shape):
            covers = (overlap(self.predicted(*cell), edges(*box), 0) for box, _, _ in self.objects)
            self.mask[cell] = -1 if max(covers, default=0) > self.attrs["ignore_thresh"] else 0
        loss = sum(self.of_object(*one) for one in self.objects)
        for cell in np.ndindex(*self.mask.shape):
            sure = self.grid[cell[0], 4, cell[1], cell[2]]
            if self.mask[cell] > 0:
                loss += entropy(sure, 1) * self.mask[cell]
            elif self.mask[cell] == 0:
                loss += entropy(sure, 0)
        return loss

    def predicted(self, a: int, row: int, column: int) -> list[float]:
        said, stretch = self.grid[a, :, row, column], self.attrs.get("scale_x_y", 1.0)
        anchor = self.attrs["anchor_mask"][a]
        return edges(
            (column + sigmoid(said[0]) * stretch - 0.5 * (stretch - 1)) / self.size,
            (row + sigmoid(said[1]) * stretch - 0.5 * (stretch - 1)) / self.size,
            math.exp(said[2]) * ANCHORS[2 * anchor] / self.pixels,
            math.exp(said[3]) * ANCHORS[2 * anchor + 1] / self.pixels,
        )

    def match(self, box: Any) -> int:
        """The position in the mask of the anchor that is most like the box, or -1."""
        w, h = box[2:]
        shapes = [(ANCHORS[i] / self.pixels, ANCHORS[i + 1] / self.pixels) for i in range(0, len(ANCHORS), 2)]
        covers = [overlap(edges(0, 0, w, h), edges(0, 0, *shape), 0) for shape in shapes]
        best = int(np.argmax(covers))
        return self.attrs["anchor_mask"].index(best) if best in self.attrs["anchor_mask"] else -1

    def of_object(self, box: Any, label: int, score: float) -> float:
        a = self.match(box)
        if a < 0:
            return 0.0
        column, row = int(box[0] * self.size), int(box[1] * self.size)
        said, anchor = self.grid[a, :, row, column], self.attrs["anchor_mask"][a]
        self.mask[a, row, column] = score
        weight = (2 - box[2] * box[3]) * score
        loss = weight * entropy(said[0], box[0] * self.size - column)
        loss += weight * entropy(said[1], box[1] * self.size - row)
        for i in (0, 1):
            wanted = math.log(box[2 + i] * self.pixels / ANCHORS[2 * anchor + i])
            loss += weight * abs(wanted - said[2 + i])
        classes = len(said) - 5
        smooth = min(1 / classes, 1 / 40) if self.attrs.get("use_label_smooth", True) else 0
        for kind in range(classes):
            loss += score * entropy(said[5 + kind], 1 - smooth if kind == label else smooth)
        return loss


def images(X: Any, GTBox: Any, GTLabel: Any, GTScore: Any, attrs: Any) -> Iterator[tuple[Any, Any]]:
    """(reference, boxes) of each image."""
    grid = X.reshape(len(X), len(attrs["anchor_mask"]), -1, *X.shape[2:]).astype(float)
    scores = np.ones(GTLabel.shape) if GTScore is None else GTScore
    for image in range(len(X)):
        objects = list(zip(GTBox[image].astype(float), GTLabel[image], scores[image], strict=True))
        yield Reference(grid[image], objects, attrs), GTBox[image]


def losses(attrs: Any, X: Any, GTBox: Any, GTLabel: Any, GTScore: Any = None) -> tuple[Any, Any, Any]:
    found, masks, matches = [], [], []
    for reference, boxes in images(X, GTBox, GTLabel, GTScore, attrs):
        found.append(reference.run())
        masks.append(reference.mask)
        matches.append([reference.match(box) if min(box[2:]) > 1e-6 else -1 for box in boxes])
    return np.array(found), np.array(masks), np.array(matches)


def objects_of(count: int) -> Any:
    """Objects in cells of their own, two of them padding."""
    places = (
        RNG.permutation(16)[: 2 * count, None] // [4, 1] % 4 + RNG.uniform(0.2, 0.8, (2 * count, 2))
    ) / 4
    found = np.concatenate((places, RNG.uniform(0.05, 0.5, (2 * count, 2))), axis=1).reshape(2, count, 4)
    found[0, -1] = 0
    found[1, 0, 2] = 0
    return found.astype("float32")


def loss_row(name: str, mask: list[int], classes: int = 3, scored: bool = False, **more: Any) -> Case:
    attrs = {"anchor_mask": mask, "class_num": classes, "ignore_thresh": 0.4, "downsample_ratio": 32, **more}
    inputs = {
        "X": RNG.normal(0, 1, (2, len(mask) * (5 + classes), 4, 4)).astype("float32"),
        "GTBox": objects_of(5),
        "GTLabel": RNG.randint(0, classes, (2, 5)).astype("int32"),
    }
    if scored:
        inputs["GTScore"] = RNG.uniform(0.2, 1, (2, 5)).astype("float32")
    return Case(
        "yolov3_loss",
        inputs,
        lambda X, GTBox, GTLabel, GTScore=None: losses(attrs, X, GTBox, GTLabel, GTScore),
        attrs={**attrs, "anchors": ANCHORS},
        grad=["X"],
        rtol=1e-4,
        name=name,
    )


LOSSES = [
    loss_row("", [0, 1, 2, 3]),
    loss_row("scored", [2, 0, 3], scored=True),
    loss_row("sharp labels", [1, 3], use_label_smooth=False),
    loss_row("one class", [0, 3], classes=1, scale_x_y=1.2),
    loss_row("much ignored", [3, 2, 1], ignore_thresh=0.05, downsample_ratio=16),
]

CASES = [*BOXES, *LOSSES]
