"""Regions of images: proposals, and what is read out of maps; pairs of texts, trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_rows.made import RNG, Row, below, layers, normal, sized, uniform

# channels, size of the maps, regions
MAPS = (8, 10, 4), (64, 38, 64), (256, 50, 300)
VARIANCES = [0.1, 0.1, 0.2, 0.2]


def boxes(count: int, scale: float) -> np.ndarray:
    low = RNG.uniform(0, 0.7, (count, 2))
    return (np.concatenate((low, low + RNG.uniform(0.05, 0.3, (count, 2))), -1) * scale).astype("float32")


def regions(build: Any, corners: int = 2) -> Any:
    """Regions of one image, as boxes or as the corners of quadrangles."""

    def row(channels: int, size: int, count: int) -> Row:
        given = boxes(count, 16 * size)
        if corners == 4:
            given = given[:, [0, 1, 2, 1, 2, 3, 0, 3]]
        return layers(build, x=normal(1, channels, size, size), r=(given, [[count]]))

    return row


def proposals(channels: int, size: int, count: int) -> Row:
    """Nine anchors a place."""
    anchors = np.stack([boxes(9, 16 * size)] * size * size).reshape(size, size, 9, 4)
    info = np.array([[16 * size, 16 * size, 1]], "float32")
    inputs = {
        "a": uniform(1, 9, size, size) ** 4,
        "b": normal(1, 36, size, size) / 10,
        "c": info,
        "d": anchors,
        "e": np.broadcast_to(np.array(VARIANCES, "float32"), anchors.shape).copy(),
    }
    return layers(
        lambda fluid, **given: list(
            fluid.layers.generate_proposals(*[given[name] for name in "abcde"], nms_thresh=0.7)
        ),
        grad=False,
        **inputs,
    )


def distributed(channels: int, size: int, count: int) -> Row:
    return layers(
        lambda fluid, r: fluid.layers.distribute_fpn_proposals(r, 2, 5, 4, 224)[0],
        grad=False,
        r=(boxes(count, 16 * size), [[count]]),
    )


def texts(build: Any) -> Any:
    """Pairs of sequences of so many rows."""

    def row(pairs: int, rows: int, size: int) -> Row:
        lod = [[rows] * pairs]
        inputs = {name: (normal(pairs * rows, size), lod) for name in "xy"}
        return layers(build, **inputs)

    return row


def images_of_texts(build: Any) -> Any:
    """Maps of two channels over pairs of sequences."""

    def row(pairs: int, rows: int) -> Row:
        lod = [[rows] * pairs]
        return layers(
            build,
            x=(normal(2 * pairs * rows * rows, 1), [[2 * rows * rows] * pairs]),
            r=(normal(pairs * rows, 1), lod),
            c=(normal(pairs * rows, 1), lod),
        )

    return row


def averages(fluid: Any, x: Any, r: Any, c: Any) -> Any:
    return fluid.contrib.layers.sequence_topk_avg_pooling(x, r, c, [1, 3], 2)


def convolved(fluid: Any, x: Any, r: Any, c: Any) -> Any:
    return fluid.contrib.layers.var_conv_2d(x, r, c, 2, 4, 3)


def erased(rows: int) -> Row:
    ids = (below(50, rows, 1), [[rows // 2, rows - rows // 2]])
    return {
        "op": "sequence_erase",
        "inputs": {"X": ids},
        "outputs": ["Out:int64"],
        "attrs": {"tokens": [1, 2]},
        "grad": [],
    }


def trees(count: int, nodes: int, size: int) -> Row:
    """Each node below that of half its number."""
    children = np.arange(2, nodes + 1)
    edges = np.stack([np.stack((children // 2, children), -1)] * count).astype("int32")
    return layers(
        lambda fluid, x, e: fluid.contrib.layers.tree_conv(x, e, 6, 1, 2),
        x=normal(count, nodes, size),
        e=edges,
    )


TEXTS = (2, 4, 6), (8, 12, 32), (32, 30, 64)
ROWS = {
    "roi_align": sized(regions(lambda fluid, x, r: fluid.layers.roi_align(x, r, 7, 7, 1 / 16, 2)), *MAPS),
    "roi_pool": sized(regions(lambda fluid, x, r: fluid.layers.roi_pool(x, r, 7, 7, 1 / 16)), *MAPS),
    "psroi_pool": sized(
        regions(lambda fluid, x, r: fluid.layers.psroi_pool(x, r, 2, 1 / 16, 2, 2)),
        *((8, size, count) for _, size, count in MAPS),
    ),
    "prroi_pool": sized(regions(lambda fluid, x, r: fluid.layers.prroi_pool(x, r, 1 / 16, 7, 7)), *MAPS),
    "roi_perspective_transform": sized(
        regions(lambda fluid, x, r: fluid.layers.roi_perspective_transform(x, r, 8, 8, 1 / 16)[0], 4),
        *((8, 10, 4), (16, 38, 8), (32, 50, 16)),
    ),
    "generate_proposals": sized(proposals, *MAPS),
    "distribute_fpn_proposals": sized(distributed, *MAPS),
    "similarity_focus": sized(
        lambda images, channels, size: layers(
            lambda fluid, x: fluid.layers.similarity_focus(x, 1, [0, 1]),
            grad=False,
            x=normal(images, channels, size, size),
        ),
        (2, 4, 5),
        (4, 8, 16),
        (16, 16, 32),
    ),
    "match_matrix_tensor": sized(
        texts(lambda fluid, x, y: fluid.contrib.layers.match_matrix_tensor(x, y, 3)[0]), *TEXTS
    ),
    "sequence_topk_avg_pooling": sized(images_of_texts(averages), (2, 4), (8, 12), (32, 30)),
    "var_conv_2d": sized(images_of_texts(convolved), (2, 4), (8, 12), (32, 30)),
    "sequence_erase": sized(erased, (10,), (1000,), (50000,)),
    "tree_conv": sized(trees, (2, 7, 5), (8, 31, 16), (32, 63, 32)),
}
