"""Rows for convolution over trees, and for trees of items; the references walk each tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(6)


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1.5, 1.5, shape).astype("float32")


def convolved(depth: int) -> Any:
    """The reference for windows of `depth` levels."""

    def reference(NodesVector: Any, EdgeSet: Any, Filter: Any) -> Any:
        out = np.zeros((*NodesVector.shape[:2], *Filter.shape[2:]), "float32")
        for tree, edges in enumerate(EdgeSet):
            edges = edges[: int(np.cumprod((edges > 0).all(1)).sum())]
            children: dict[int, list[int]] = {}
            for parent, child in edges.tolist():
                children.setdefault(parent, []).append(child)
            for root in range(1, len(edges) + 2):
                out[tree, root - 1] = window(NodesVector[tree], children, root, Filter, depth)
        return out

    return reference


def window(nodes: Any, children: dict[int, list[int]], root: int, weights: Any, depth: int) -> Any:
    """The window of one node."""
    total = np.zeros(weights.shape[2:])
    level = [(root, 1, 1)]
    for below in range(depth):
        top = (depth - below) / depth
        for node, number, siblings in level:
            left = (1 - top) * (0.5 if siblings == 1 else (number - 1) / (siblings - 1))
            parts = np.array([left, (1 - top) * (1 - left), top])
            total += np.einsum("w,p,wpof->of", nodes[node - 1], parts, weights)
        level = [
            (child, number, len(children[node]))
            for node, _, _ in level
            for number, child in enumerate(children.get(node, []), 1)
        ]
    return total


EDGES = np.zeros((2, 6, 2), "int32")
EDGES[0, :6] = [[1, 2], [1, 3], [2, 4], [1, 5], [4, 6], [2, 7]]
EDGES[1, :2] = [[1, 2], [2, 3]]

TREE = np.array(
    [[0, 0, 0, 1, 0], [0, 1, 0, 2, 3], [0, 2, 1, 4, 5], [9, 2, 1, 0, 0], [7, 3, 2, 0, 0], [8, 3, 2, 0, 0]],
    "int32",
)
PATHS = np.array([[1, 3], [1, 4], [2, 5], [2, 0]], "int32")
LAYERS = np.array([[1], [2], [3], [4], [5], [6]], "int32")

CASES = [
    Case(
        "tree_conv",
        {"NodesVector": floats(2, 8, 3), "EdgeSet": EDGES, "Filter": floats(3, 3, 2, 2)},
        convolved(depth),
        {"max_depth": depth},
        grad=["NodesVector", "Filter"],
        rtol=1e-4,
        name=f"depth {depth}",
    )
    for depth in (2, 3)  # 1.8.5 takes no less
]
CASES += [
    Case(
        "tdm_child",
        {"X": np.array([[0], [1], [2], [3]], "int32"), "TreeInfo": TREE},
        {
            "Child": np.array([[[0, 0]], [[2, 3]], [[4, 5]], [[0, 0]]], "int32"),
            "LeafMask": np.array([[[0, 0]], [[0, 1]], [[1, 1]], [[0, 0]]], "int32"),
        },
        {"child_nums": 2},
    ),
    # as many drawn as there are: nothing is left to chance
    Case(
        "tdm_sampler",
        {"X": np.array([[0], [3]], "int32"), "Travel": PATHS, "Layer": LAYERS},
        {
            "Out": np.array([[1, 2, 3], [2, 1, 0]], "int32"),
            "Labels": np.array([[1, 0, 1], [1, 0, 0]], "int32"),
            "Mask": np.array([[1, 1, 1], [1, 1, 0]], "int32"),
        },
        {"neg_samples_num_list": [1, 0], "layer_offset_lod": [0, 2, 6], "output_positive": True},
    ),
    Case(
        "tdm_sampler",
        {"X": np.array([[0], [1]]), "Travel": PATHS, "Layer": LAYERS},
        {"Out": np.array([[2], [2]]), "Labels": np.array([[0], [0]]), "Mask": np.array([[1], [1]])},
        {"neg_samples_num_list": [1], "layer_offset_lod": [0, 2], "output_positive": False, "dtype": 3},
        name="int64, negatives only",
    ),
]
