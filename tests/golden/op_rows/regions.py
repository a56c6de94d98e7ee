"""Regions of interest, deformable convolutions and pools, pyramids of pools."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from .rows import Row, Seq, real, signed

LENGTHS = [[2, 3]]
IMAGES = (2, 4, 9, 8)


def boxes(count: int, size: float = 30, key: str = "") -> Any:
    """Regions of which some stand over the image's edge."""
    first, second = (real(count, 2, low=-3, high=size, key=key + side) for side in "ab")
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), axis=1)


def odd_boxes() -> Any:
    """Five regions: a plain one, a point, one that covers all, one turned inside out, one outside."""
    made = boxes(5)
    made[1] = [5, 5, 5, 5]
    made[2] = [-4, -4, 60, 60]
    made[3] = [14, 13, 12, 11]
    made[4] = [70, 70, 90, 90]
    return made


SIZES = [
    ("one", {"pooled_height": 1, "pooled_width": 1, "spatial_scale": 1.0}),
    ("half", {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.5}),
    ("quarter", {"pooled_height": 3, "pooled_width": 2, "spatial_scale": 0.25}),
    ("many", {"pooled_height": 7, "pooled_width": 7, "spatial_scale": 0.3}),
]
BOXES = {"plain": boxes(5, key="plain"), "odd": odd_boxes(), "small": boxes(5, 8)}
ROWS: List[Row] = []  # noqa: UP006
for size, attrs in SIZES:
    for kind, rois in BOXES.items():
        name = f"{size} {kind}"
        X, sequences = signed(*IMAGES), Seq(rois, LENGTHS)
        wide = signed(2, 2 * attrs["pooled_height"] * attrs["pooled_width"], 9, 8)  # type: ignore[operator]
        ROWS.append(
            # 1.8.5 declares places as it is told, and counts in int64
            Row(
                "roi_pool",
                {"X": X, "ROIs": sequences},
                attrs,
                ["X"],
                ["Out"],
                outputs={"Argmax": 1},
                ignore=["Argmax"],
                name=name,
            )
        )
        for ratio in (-1, 1, 3):
            more = dict(attrs, sampling_ratio=ratio)
            ROWS.append(Row("roi_align", {"X": X, "ROIs": sequences}, more, ["X"], name=f"{name} {ratio}"))
        ROWS.append(
            Row(
                "psroi_pool", {"X": wide, "ROIs": sequences}, dict(attrs, output_channels=2), ["X"], name=name
            )
        )
        if kind != "odd":  # its empty regions have gradients that are not numbers
            ROWS.append(Row("prroi_pool", {"X": X, "ROIs": sequences}, attrs, ["X", "ROIs"], name=name))
OFFSETS = np.array([0, 2, 5], "int64")
HALF = SIZES[1][1]
DOUBLE = {"X": signed(*IMAGES, dtype="float64"), "ROIs": Seq(boxes(5).astype("float64"), LENGTHS)}
ROWS += [
    Row(
        "roi_align",
        {"X": signed(*IMAGES), "ROIs": boxes(5), "RoisLod": OFFSETS},
        dict(HALF, sampling_ratio=2),
        ["X"],
        name="offsets",
    ),
    Row(
        "prroi_pool",
        {"X": signed(*IMAGES), "ROIs": boxes(5), "BatchRoINums": np.array([1, 4], "int64")},
        HALF,
        ["X", "ROIs"],
        name="counts",
    ),
    Row("roi_align", DOUBLE, dict(HALF, sampling_ratio=2), ["X"], name="double"),
    Row("roi_align", {"X": signed(*IMAGES), "ROIs": Seq(boxes(5), [[0, 5]])}, HALF, ["X"], name="second"),
    Row("roi_align", {"X": signed(4, 9, 8), "ROIs": Seq(boxes(5), LENGTHS)}, HALF, name="bad image"),
    Row("roi_pool", {"X": signed(*IMAGES), "ROIs": Seq(boxes(5)[:, :3], LENGTHS)}, HALF, name="bad columns"),
    Row(
        "psroi_pool",
        {"X": signed(*IMAGES), "ROIs": Seq(boxes(5), LENGTHS)},
        dict(HALF, output_channels=2),
        name="bad channels",
    ),
]


# ------------------------------------------------------------------ quadrilaterals
def quads(spread: float, key: str) -> Any:
    made = boxes(5, 16, key)
    left, top, right, bottom = made.T
    right, bottom = right + 4, bottom + 4
    corners = np.stack((left, top, right, top, right, bottom, left, bottom), axis=1)
    return corners + real(5, 8, low=0, high=spread, key=key)


ROWS += [
    Row(
        "roi_perspective_transform",
        {"X": signed(2, 3, 9, 8), "ROIs": Seq(quads(spread, name), LENGTHS)},
        {"transformed_height": height, "transformed_width": width, "spatial_scale": scale},
        ["X"],
        ["Out"],
        outputs={"Out2InIdx": 1, "Out2InWeights": 1},
        ignore=["Out2InIdx", "Out2InWeights"],  # made on a GPU only
        name=name,
        tolerance=1e-4,
    )
    for name, spread, height, width, scale in (
        ("plain", 2, 4, 5, 0.5),
        ("wide", 3, 3, 12, 0.5),
        ("tall", 1, 9, 2, 0.5),
        ("whole", 2, 6, 6, 1.0),
        ("small", 2, 2, 2, 0.25),
    )
]

# ------------------------------------------------------------------ moved bins
MOVED: Dict[str, Any] = {  # noqa: UP006
    "no_trans": False,
    "spatial_scale": 0.5,
    "output_dim": 2,
    "group_size": [1, 1],
    "pooled_height": 3,
    "pooled_width": 2,
    "part_size": [3, 2],  # of parts that are not square 1.8.5's gradient mostly takes wrong ones
    "sample_per_part": 2,
    "trans_std": 0.1,
}
ROWS += [
    Row(
        "deformable_psroi_pooling",
        {
            "Input": signed(2, 2 * rows * columns, 9, 8),
            "ROIs": Seq(rois, LENGTHS),
            "Trans": signed(5, 2 * classes, *(attrs.get("part_size") or [3, 2])),
        },
        dict(MOVED, group_size=[rows, columns], **attrs),
        ["Input", "Trans"],
        ["Output"],
        ignore=["TopCount"],  # declared as it is told
        name=name,
    )
    for name, rois, classes, (rows, columns), attrs in (
        ("plain", boxes(5), 1, (1, 1), {}),
        ("odd", odd_boxes(), 1, (1, 1), {"sample_per_part": 4}),
        ("classes", boxes(5), 2, (1, 1), {"trans_std": 0.5}),
        ("groups", boxes(5), 1, (2, 3), {}),
        ("parts", boxes(5), 2, (2, 2), {"part_size": [2, 2]}),
        ("one", boxes(5), 1, (1, 1), {"pooled_height": 1, "pooled_width": 1, "part_size": [1, 1]}),
        ("still", boxes(5), 1, (1, 1), {"no_trans": True}),
    )
]

# ------------------------------------------------------------------ deformable convolutions
CONV: Dict[str, Any] = {  # noqa: UP006
    "strides": [1, 1],
    "paddings": [0, 0],
    "dilations": [1, 1],
    "groups": 1,
    "deformable_groups": 1,
    "im2col_step": 1,
}


def convolution(name: str, size: Any, filters: Any, **attrs: Any) -> List[Row]:  # noqa: UP006
    """The op with and without masks."""
    attrs = dict(CONV, **attrs)
    reach = [attrs["dilations"][axis] * (filters[axis + 2] - 1) + 1 for axis in (0, 1)]
    out = [
        (size[axis + 2] + 2 * attrs["paddings"][axis] - reach[axis]) // attrs["strides"][axis] + 1
        for axis in (0, 1)
    ]
    taps = attrs["deformable_groups"] * filters[2] * filters[3]
    inputs = {"Input": signed(*size), "Offset": signed(size[0], 2 * taps, *out)}
    masked = dict(inputs, Mask=real(size[0], taps, *out, low=0), Filter=signed(*filters))
    plain = dict(inputs, Filter=signed(*filters))
    return [
        Row("deformable_conv", masked, attrs, list(masked), name=name, tolerance=1e-4),
        Row("deformable_conv_v1", plain, attrs, list(plain), name=name, tolerance=1e-4),
    ]


ROWS += convolution("plain", (2, 3, 6, 5), (4, 3, 3, 3))
ROWS += convolution("padded", (2, 3, 6, 5), (4, 3, 3, 3), paddings=[1, 2], strides=[2, 1])
ROWS += convolution("dilated", (1, 3, 7, 7), (2, 3, 2, 3), dilations=[2, 1], paddings=[1, 1])
ROWS += convolution("groups", (2, 4, 6, 5), (6, 2, 3, 3), groups=2, paddings=[1, 1])
ROWS += convolution("parts", (2, 4, 6, 5), (2, 4, 3, 3), deformable_groups=2)
ROWS += convolution("both", (2, 4, 6, 5), (4, 2, 2, 2), groups=2, deformable_groups=4)
ROWS += convolution("one", (2, 3, 4, 4), (5, 3, 1, 1))
ROWS += convolution("bad", (2, 3, 4, 4), (5, 2, 3, 3))

# ------------------------------------------------------------------ pyramids, turned rows
ROWS += [
    Row(
        "spp",
        {"X": signed(*size)},
        {"pyramid_height": height, "pooling_type": kind},
        ["X"],
        name=f"{kind} {height} {size[2:]}",
    )
    for kind in ("max", "avg")
    for size, height in (((2, 3, 8, 8), 3), ((1, 2, 9, 11), 3), ((2, 2, 5, 7), 2), ((2, 2, 3, 3), 1))
]
ROWS += [
    Row("conv_shift", {"X": signed(*x), "Y": signed(*y)}, {}, ["X", "Y"], name=name)
    for name, x, y in (
        ("plain", (3, 8), (3, 5)),
        ("one", (3, 8), (3, 1)),
        ("whole", (2, 7), (2, 7)),
        ("bad even", (2, 7), (2, 4)),
        ("bad rows", (2, 7), (3, 5)),
        ("bad long", (2, 5), (2, 7)),
    )
]
