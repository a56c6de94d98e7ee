"""Rows for fluidlite.ops.detection.priors; the references go place by place, as the papers' figures do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optest import Case

VARIANCES = [0.1, 0.1, 0.2, 0.2]


def maps(rows: int = 3, columns: int = 4, height: int = 33, width: int = 40) -> dict[str, Any]:
    return {
        "Input": np.zeros((1, 2, rows, columns), "float32"),
        "Image": np.zeros((1, 3, height, width), "float32"),
    }


def with_variances(boxes: list[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    made = np.array(boxes).reshape(shape)
    return made, np.broadcast_to(VARIANCES, shape)


# ---------------------------------------------------------------------- prior_box
def priors_at(x: float, y: float, sizes: list[tuple[float, float]], inputs: Any, clip: bool) -> list[Any]:
    height, width = inputs["Image"].shape[2:]
    found = []
    for w, h in sizes:
        box = [(x - w / 2) / width, (y - h / 2) / height, (x + w / 2) / width, (y + h / 2) / height]
        found.append([min(max(side, 0), 1) for side in box] if clip else box)
    return found


def prior_row(name: str, sizes: list[tuple[float, float]], inputs: Any = None, **attrs: Any) -> Case:
    """`sizes` are what a place should have, width and height in pixels."""
    inputs = inputs or maps()
    (rows, columns), (height, width) = inputs["Input"].shape[2:], inputs["Image"].shape[2:]
    step_w, step_h = attrs.get("step_w") or width / columns, attrs.get("step_h") or height / rows
    offset = attrs.get("offset", 0.5)
    boxes = [
        priors_at(
            (column + offset) * step_w, (row + offset) * step_h, sizes, inputs, attrs.get("clip", False)
        )
        for row in range(rows)
        for column in range(columns)
    ]
    fixed = {"clip": False, "flip": False, "aspect_ratios": [1.0], "variances": VARIANCES}
    return Case(
        "prior_box",
        inputs,
        dict(zip(("Boxes", "Variances"), with_variances(boxes, (rows, columns, len(sizes), 4)), strict=True)),
        attrs={**fixed, **attrs},
        name=name,
    )


def of_ratio(size: float, ratio: float) -> tuple[float, float]:
    return size * math.sqrt(ratio), size / math.sqrt(ratio)


def square(size: float) -> tuple[float, float]:
    return size, size


SSD_SIZES = [square(4), of_ratio(4, 2), of_ratio(4, 0.5), square(math.sqrt(32))]
PRIORS = [
    prior_row("one size", [square(4)], min_sizes=[4.0]),
    prior_row(
        "flipped", SSD_SIZES, min_sizes=[4.0], max_sizes=[8.0], aspect_ratios=[1.0, 2.0, 2.0], flip=True
    ),
    prior_row(
        "max second",
        [SSD_SIZES[0], SSD_SIZES[3], SSD_SIZES[1], SSD_SIZES[2]],
        min_sizes=[4.0],
        max_sizes=[8.0],
        aspect_ratios=[2.0],
        flip=True,
        min_max_aspect_ratios_order=True,
    ),
    prior_row(
        "two sizes",
        [square(4), square(6), square(9), square(12)],
        min_sizes=[4.0, 9.0],
        max_sizes=[9.0, 16.0],
    ),
    prior_row("clipped", [square(30), of_ratio(30, 3)], min_sizes=[30.0], aspect_ratios=[3.0], clip=True),
    prior_row("steps", [square(5)], min_sizes=[5.0], step_w=7.0, step_h=9.0, offset=0.25),
]


# ---------------------------------------------------------------------- density_prior_box
def dense_at(x: float, y: float, step: int, attrs: Any, inputs: Any) -> list[Any]:
    height, width = inputs["Image"].shape[2:]
    found = []
    for size, density in zip(attrs["fixed_sizes"], attrs["densities"], strict=True):
        shift = step // density
        for ratio in attrs["fixed_ratios"]:
            w, h = of_ratio(size, ratio)
            for down in range(density):
                for across in range(density):
                    cx = x - step / 2 + shift / 2 + across * shift
                    cy = y - step / 2 + shift / 2 + down * shift
                    low = [max((cx - w / 2) / width, 0), max((cy - h / 2) / height, 0)]
                    found.append(low + [min((cx + w / 2) / width, 1), min((cy + h / 2) / height, 1)])
    return found


def dense_row(name: str, flatten: bool = False, **more: Any) -> Case:
    inputs = maps()
    attrs = {"densities": [2, 1], "fixed_sizes": [4.0, 20.0], "fixed_ratios": [1.0, 2.0], **more}
    step_w, step_h = attrs.get("step_w") or 10, attrs.get("step_h") or 11
    boxes = [
        dense_at((column + 0.5) * step_w, (row + 0.5) * step_h, int((step_w + step_h) / 2), attrs, inputs)
        for row in range(3)
        for column in range(4)
    ]
    shape = (120, 4) if flatten else (3, 4, 10, 4)
    return Case(
        "density_prior_box",
        inputs,
        dict(zip(("Boxes", "Variances"), with_variances(boxes, shape), strict=True)),
        attrs={**attrs, "variances": VARIANCES, "clip": False, "flatten_to_2d": flatten},
        name=name,
    )


DENSE = [dense_row(""), dense_row("flat", True), dense_row("steps", step_w=7.0, step_h=10.0)]


# ---------------------------------------------------------------------- anchor_generator
def anchors_at(x: float, y: float, stride: list[float], sizes: Any, ratios: Any) -> list[Any]:
    found = []
    for ratio in ratios:
        base = math.floor(math.sqrt(stride[0] * stride[1] / ratio) + 0.5)
        tall = math.floor(base * ratio + 0.5)
        for size in sizes:
            w, h = size / stride[0] * base - 1, size / stride[1] * tall - 1
            found.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    return found


def anchor_row(name: str, stride: list[float], offset: float = 0.5) -> Case:
    sizes, ratios = [32.0, 70.0], [0.5, 1.0, 1.7]
    boxes = [
        anchors_at(
            column * stride[0] + offset * (stride[0] - 1),
            row * stride[1] + offset * (stride[1] - 1),
            stride,
            sizes,
            ratios,
        )
        for row in range(3)
        for column in range(4)
    ]
    return Case(
        "anchor_generator",
        {"Input": maps()["Input"]},
        dict(zip(("Anchors", "Variances"), with_variances(boxes, (3, 4, 6, 4)), strict=True)),
        attrs={
            "anchor_sizes": sizes,
            "aspect_ratios": ratios,
            "variances": VARIANCES,
            "stride": stride,
            "offset": offset,
        },
        name=name,
    )


CASES = [*PRIORS, *DENSE, anchor_row("", [16.0, 16.0]), anchor_row("two strides", [8.0, 12.0], 0.3)]
