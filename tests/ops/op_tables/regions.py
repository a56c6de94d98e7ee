"""Rows for regions of interest: fluidlite.ops.detection.roi_*, deformable_*; references go bin by bin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(41)
SIZES = {"spatial_scale": 0.5, "pooled_height": 2, "pooled_width": 3}
COUNTS = [[1, 2]]  # regions of the two images
# inside, over the edge, and one turned inside out
REGIONS = np.array([[1.3, 2.2, 9.1, 7.7], [-3, 4.2, 6.4, 30], [7.1, 6.3, 6.2, 5.1]], "float32")
INNER = np.array([[1.3, 2.2, 9.1, 7.7], [0.6, 1.2, 6.4, 8.3], [3.1, 2.3, 7.2, 5.1]], "float32")
IMAGES = [0, 1, 1]


def values(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def bilinear(image: Any, y: float, x: float) -> Any:
    """(C,) between the pixels of (C, H, W), which are 0 outside."""
    out = np.zeros(len(image))
    top, left = math.floor(y), math.floor(x)
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
            out += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return out


def per_bin(X: Any, rois: Any, channels: int, bin_value: Any) -> Any:
    """(R, channels, 2, 3) of `bin_value(image, region, down, across)`."""
    out = np.zeros((len(rois), channels, 2, 3))
    for r, p, q in np.ndindex(len(rois), 2, 3):
        out[r, :, p, q] = bin_value(X[IMAGES[r]], rois[r], p, q)
    return out


# ------------------------------------------------------------------ roi_align
def sampled(image: Any, roi: Any, p: int, q: int, ratio: int) -> Any:
    left, top, right, bottom = roi * 0.5
    high, wide = max(bottom - top, 1) / 2, max(right - left, 1) / 3
    counts = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
    out = np.zeros(len(image))
    for i, j in np.ndindex(*counts):
        y, x = top + (p + (i + 0.5) / counts[0]) * high, left + (q + (j + 0.5) / counts[1]) * wide
        if -1 <= y <= image.shape[1] and -1 <= x <= image.shape[2]:
            out += bilinear(image, np.clip(y, 0, image.shape[1] - 1), np.clip(x, 0, image.shape[2] - 1))
    return out / (counts[0] * counts[1])


def align(ratio: int, offsets: bool = False) -> Case:
    inputs = {"X": values(2, 2, 5, 6), "ROIs": REGIONS if offsets else (REGIONS, COUNTS)}
    if offsets:
        inputs["RoisLod"] = np.array([0, 1, 3], "int64")

    def expect(X: Any, ROIs: Any, RoisLod: Any = None) -> Any:
        return per_bin(X, ROIs, 2, lambda *place: sampled(*place, ratio))

    attrs = {**SIZES, "sampling_ratio": ratio}
    return Case("roi_align", inputs, expect, attrs, grad=["X"], name=f"{ratio}{' offsets' * offsets}")


# ------------------------------------------------------------------ roi_pool
def rounded(x: float) -> int:
    return math.floor(abs(x) + 0.5) * (1 if x > 0 else -1)


def largest(image: Any, roi: Any, p: int, q: int) -> Any:
    left, top, right, bottom = (rounded(side * 0.5) for side in roi)
    high, wide = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 3
    rows = range(max(math.floor(p * high) + top, 0), min(math.ceil((p + 1) * high) + top, image.shape[1]))
    columns = range(
        max(math.floor(q * wide) + left, 0), min(math.ceil((q + 1) * wide) + left, image.shape[2])
    )
    best = [(0.0, -1)] * len(image)
    for channel in range(len(image)):
        found = [(image[channel, y, x], y * image.shape[2] + x) for y in rows for x in columns]
        best[channel] = max(found, key=lambda pair: pair[0], default=best[channel])
    return best


def pooled(X: Any, ROIs: Any, RoisLod: Any = None) -> Any:
    both = [
        per_bin(X, ROIs, 2, lambda *place, part=part: [pair[part] for pair in largest(*place)])
        for part in (0, 1)
    ]
    return both[0], both[1].astype("int32")


def distinct(*shape: int) -> Any:
    return (RNG.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1).astype("float32")


# ------------------------------------------------------------------ psroi_pool
def own_channels(X: Any, ROIs: Any) -> Any:
    def mean(image: Any, roi: Any, p: int, q: int) -> Any:
        left, top = rounded(roi[0]) * 0.5, rounded(roi[1]) * 0.5
        wide = max((rounded(roi[2]) + 1) * 0.5 - left, 0.1) / 3
        high = max((rounded(roi[3]) + 1) * 0.5 - top, 0.1) / 2
        rows = np.clip([math.floor(p * high + top), math.ceil((p + 1) * high + top)], 0, image.shape[1])
        columns = np.clip([math.floor(q * wide + left), math.ceil((q + 1) * wide + left)], 0, image.shape[2])
        part = image.reshape(2, 6, *image.shape[1:])[:, p * 3 + q, slice(*rows), slice(*columns)]
        return part.mean(axis=(1, 2)) if part.size else np.zeros(2)

    return per_bin(X, ROIs, 2, mean)


# ------------------------------------------------------------------ prroi_pool
def integrated(X: Any, ROIs: Any, BatchRoINums: Any = None) -> Any:
    """The mean of so many samples that it is the integral to the tolerance of the row."""

    def mean(image: Any, roi: Any, p: int, q: int) -> Any:
        left, top, right, bottom = roi * 0.5
        high, wide = (bottom - top) / 2, (right - left) / 3
        steps = 60
        points = np.ndindex(steps, steps)
        return sum(
            bilinear(image, top + (p + (i + 0.5) / steps) * high, left + (q + (j + 0.5) / steps) * wide)
            for i, j in points
        ) / (steps * steps)

    return per_bin(X, ROIs, 2, mean)


def precise(counts: bool) -> Case:
    inputs = {"X": values(2, 2, 4, 5), "ROIs": INNER if counts else (INNER, COUNTS)}
    if counts:
        inputs["BatchRoINums"] = np.array([1, 2], "int64")
    return Case(
        "prroi_pool",
        inputs,
        integrated,
        SIZES,
        grad=["X", "ROIs"],
        rtol=1e-3,
        atol=1e-3,
        name="counts" if counts else "",
    )


# ------------------------------------------------------------------ roi_perspective_transform
QUADS = np.array(
    [[1, 1, 9, 2, 8.5, 8, 2, 9], [0.4, 1.2, 6.1, 1, 6.4, 6.3, 0.2, 7.4], [-4, -3, 5, 2, 6, 8, 1, 7]],
    "float32",
)


def solved(quad: Any, high: int, wide: int) -> Any:
    """The perspective map that takes the corners of a rectangle to those of the quadrilateral."""
    x, y = quad[0::2] * 0.5, quad[1::2] * 0.5
    sides = np.hypot(x - np.roll(x, -1), y - np.roll(y, -1))
    columns = rounded((sides[0] + sides[2]) * (high - 1) / (sides[1] + sides[3])) + 1
    columns = max(2, min(columns, wide))
    corners = [(0, 0), (columns - 1, 0), (columns - 1, high - 1), (0, high - 1)]
    rows, wanted = [], []
    for (u, v), px, py in zip(corners, x, y, strict=True):
        rows += [[u, v, 1, 0, 0, 0, -u * px, -v * px], [0, 0, 0, u, v, 1, -u * py, -v * py]]
        wanted += [px, py]
    return np.append(np.linalg.solve(np.array(rows), np.array(wanted)), 1)


def within(quad: Any, x: float, y: float) -> bool:
    """True if the point is to the right of all sides, or on one."""
    corners = quad.reshape(4, 2) * 0.5
    return all(
        (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -1e-3
        for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    )


def straightened(X: Any, ROIs: Any) -> dict[str, Any]:
    high, wide = 4, 5
    out, mask = np.zeros((3, 2, high, wide)), np.zeros((3, 1, high, wide), "int32")
    matrices = np.stack([solved(quad, high, wide) for quad in ROIs])
    for r, i, j in np.ndindex(3, high, wide):
        u, v, w = matrices[r].reshape(3, 3) @ (j, i, 1)
        x, y = u / w, v / w
        image = X[IMAGES[r]]
        if within(ROIs[r], x, y) and -0.5 < x < image.shape[2] - 0.5 and -0.5 < y < image.shape[1] - 0.5:
            mask[r, 0, i, j] = 1
            y, x = np.clip(y, 0, image.shape[1] - 1), np.clip(x, 0, image.shape[2] - 1)
            out[r, :, i, j] = bilinear(image, y, x)
    return {"Out": out, "Mask": mask, "TransformMatrix": matrices}


# ------------------------------------------------------------------ deformable_psroi_pooling
MOVED = {
    "no_trans": False,
    "spatial_scale": 0.5,
    "output_dim": 2,
    "group_size": [2, 1],
    "pooled_height": 2,
    "pooled_width": 3,
    "part_size": [2, 2],
    "sample_per_part": 2,
    "trans_std": 0.1,
}


def moved(Input: Any, ROIs: Any, Trans: Any, no_trans: bool = False) -> dict[str, Any]:
    counts = np.zeros((3, 2, 2, 3), "int32")

    def mean(image: Any, roi: Any, p: int, q: int) -> Any:
        left, top = rounded(roi[0]) * 0.5 - 0.5, rounded(roi[1]) * 0.5 - 0.5
        wide = max((rounded(roi[2]) + 1) * 0.5 - 0.5 - left, 0.1)
        high = max((rounded(roi[3]) + 1) * 0.5 - 0.5 - top, 0.1)
        r = next(number for number, other in enumerate(ROIs) if other is roi or (other == roi).all())
        out = np.zeros(2)
        for channel in range(2):
            dx, dy = (0, 0) if no_trans else Trans[r, 2 * channel : 2 * channel + 2, p, q * 2 // 3] * 0.1
            group = image.reshape(2, 2, *image.shape[1:])[channel : channel + 1, p]
            for i, j in np.ndindex(2, 2):
                y = top + (p + i / 2) * high / 2 + dy * high
                x = left + (q + j / 2) * wide / 3 + dx * wide
                if -0.5 <= x <= group.shape[2] - 0.5 and -0.5 <= y <= group.shape[1] - 0.5:
                    counts[r, channel, p, q] += 1
                    y, x = np.clip(y, 0, group.shape[1] - 1), np.clip(x, 0, group.shape[2] - 1)
                    out[channel] += bilinear(group, y, x)[0]
            out[channel] /= max(counts[r, channel, p, q], 1)
        return out

    return {"Output": per_bin(Input, ROIs, 2, mean), "TopCount": counts}


def moved_row(no_trans: bool) -> Case:
    return Case(
        "deformable_psroi_pooling",
        {"Input": values(2, 4, 5, 6), "ROIs": (REGIONS, COUNTS), "Trans": values(3, 4, 2, 2)},
        lambda Input, ROIs, Trans: moved(Input, ROIs, Trans, no_trans),
        attrs={**MOVED, "no_trans": no_trans},
        grad=["Input", "Trans"],
        wants=["Output"],
        name="not moved" if no_trans else "",
    )


# ------------------------------------------------------------------ deformable convolutions
CONV = {"strides": [2, 1], "paddings": [1, 0], "dilations": [1, 2], "groups": 2, "deformable_groups": 2}


def deformed(Input: Any, Offset: Any, Filter: Any, Mask: Any = None) -> Any:
    n, channels, _, _ = Input.shape
    filters, inside, high, wide = Filter.shape
    out = np.zeros((n, filters, *Offset.shape[2:]))
    for image, f, row, column in np.ndindex(out.shape):
        for c, i, j in np.ndindex(inside, high, wide):
            channel = f // (filters // 2) * inside + c
            tap = channel // (channels // 2) * high * wide + i * wide + j
            dy, dx = Offset[image, 2 * tap : 2 * tap + 2, row, column]
            value = bilinear(Input[image, channel : channel + 1], row * 2 - 1 + i + dy, column + 2 * j + dx)
            weight = 1 if Mask is None else Mask[image, tap, row, column]
            out[image, f, row, column] += Filter[f, c, i, j] * weight * value[0]
    return out


def deformed_row(masked: bool) -> Case:
    inputs = {"Input": values(2, 4, 4, 5), "Offset": values(2, 16, 3, 3) * 2}
    if masked:
        inputs["Mask"] = values(2, 8, 3, 3)
    inputs["Filter"] = values(2, 2, 2, 2)
    type = "deformable_conv" if masked else "deformable_conv_v1"
    return Case(type, inputs, deformed, CONV, grad=list(inputs))


CASES = [
    align(-1),
    align(2),
    align(2, offsets=True),
    Case("roi_pool", {"X": distinct(2, 2, 5, 6), "ROIs": (REGIONS, COUNTS)}, pooled, SIZES, grad=["X"]),
    Case(
        "roi_pool",
        {"X": distinct(2, 2, 5, 6), "ROIs": REGIONS, "RoisLod": np.array([0, 1, 3], "int64")},
        pooled,
        SIZES,
        grad=["X"],
        name="offsets",
    ),
    Case(
        "roi_pool",
        {"X": np.ones((2, 2, 5, 6), "float32"), "ROIs": (REGIONS, COUNTS)},
        pooled,
        SIZES,
        name="ties",
    ),
    Case(
        "psroi_pool",
        {"X": values(2, 12, 5, 6), "ROIs": (REGIONS, COUNTS)},
        own_channels,
        {**SIZES, "output_channels": 2},
        grad=["X"],
    ),
    precise(counts=False),
    precise(counts=True),
    Case(
        "roi_perspective_transform",
        {"X": values(2, 2, 5, 6), "ROIs": (QUADS, COUNTS)},
        straightened,
        {"spatial_scale": 0.5, "transformed_height": 4, "transformed_width": 5},
        grad=["X"],
        lods={"Out": COUNTS},
        rtol=1e-3,  # 1.8.5 adds 1e-5 to a denominator
        atol=1e-3,
    ),
    moved_row(no_trans=False),
    moved_row(no_trans=True),
    deformed_row(masked=True),
    deformed_row(masked=False),
]
