"""Rows for fluidlite.ops.detection_map; the mean average precisions were worked out by hand and checked
with PaddlePaddle 1.8.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

OBJECTS = np.array(
    [
        [1, 0, 0.1, 0.1, 0.3, 0.3],
        [1, 1, 0.6, 0.6, 0.8, 0.8],
        [2, 0, 0.3, 0.3, 0.6, 0.5],
        [1, 0, 0.7, 0.1, 0.9, 0.3],
    ],
    "float32",
)
FOUND = np.array(
    [
        [1, 0.3, 0.1, 0, 0.4, 0.3],
        [1, 0.7, 0, 0.1, 0.2, 0.3],
        [1, 0.9, 0.7, 0.6, 0.8, 0.8],
        [2, 0.8, 0.2, 0.1, 0.4, 0.4],
        [2, 0.1, 0.4, 0.3, 0.7, 0.5],
        [1, 0.2, 0.8, 0.1, 1, 0.3],
        [3, 0.2, 0.8, 0.1, 1, 0.3],
    ],
    "float32",
)
COUNTS = np.array([[0], [3], [1], [0]])
SCORES = np.array([0.9, 0.7, 0.3, 0.2, 0.8, 0.1, 0.2])
STATES = {
    "HasState": np.array([1], "int32"),
    "PosCount": np.array([[0], [2], [0], [1]], "int32"),
    "TruePos": (np.array([[0.5, 1], [0.3, 0], [0.6, 1]], "float32"), [[0, 2, 0, 1]]),
    "FalsePos": (np.array([[0.5, 0], [0.3, 1], [0.6, 0]], "float32"), [[0, 2, 0, 1]]),
}


def row(
    name: str,
    precision: float,
    attrs: Any = None,
    states: Any = None,
    objects: Any = OBJECTS,
    lengths: Any = (2, 2),
    **expect: Any,
) -> Case:
    """A row with two images."""
    inputs = {"DetectRes": (FOUND, [[3, 4]]), "Label": (objects, [list(lengths)]), **(states or {})}
    return Case(
        "detection_map",
        inputs,
        {"MAP": np.array([precision]), **expect},
        attrs={"class_num": 4, **(attrs or {})},
        name=name,
    )


CASES: list[Case] = [
    row(
        "integral",
        (1 / 3 + 1 / 2) / 2,
        AccumPosCount=COUNTS,
        AccumTruePos=np.stack([SCORES, [1, 0, 0, 0, 0, 1, 0]], 1),
        AccumFalsePos=np.stack([SCORES, [0, 1, 1, 1, 1, 0, 1]], 1),
    ),
    row("11point", (4 / 11 + 1 / 2) / 2, {"ap_type": "11point"}),
    row("easy", (0 + 1 / 2) / 2, {"evaluate_difficult": False}),
    row("loose", (2 / 3 + 1 / 3 * 3 / 4 + 1 / 2) / 2, {"overlap_threshold": 0.3}),
    row(
        "state",
        (3 / 5 + 4 / 6 / 5 + 1 / 2 + 1) / 3,
        {"overlap_threshold": 0.3},
        STATES,
        AccumPosCount=np.array([[0], [5], [1], [1]]),
    ),
    row(
        "no state yet",
        (2 / 3 + 1 / 3 * 3 / 4 + 1 / 2) / 2,
        {"overlap_threshold": 0.3},
        {**STATES, "HasState": np.array([0], "int32")},
    ),
    row(
        "without difficulty",
        0.25,
        {"overlap_threshold": 0.3},
        objects=OBJECTS[[0, 2]][:, [0, 2, 3, 4, 5]],
        lengths=(2, 0),
    ),
]
