"""Rows for the ops with which ranks share layers, as far as they need no other rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RANDOM = np.random.RandomState(3)
X = RANDOM.uniform(-1, 1, (2, 3, 4)).astype("float32")
W = RANDOM.uniform(-1, 1, (5, 3)).astype("float32")
IDS = np.array([[3, 7, 0], [5, 8, 3]], "int64")


def embedded(W: Any, Ids: Any) -> Any:
    """Rows 3 to 7 of a larger table; other ids read zeros."""
    table = np.zeros((10, 3), "float32")
    table[3:8] = W
    return table[Ids]


COSINES = RANDOM.uniform(-0.9, 0.9, (4, 5)).astype("float32")
CLASSES = np.array([0, 4, 2, 2], "int64")


def with_margin(
    Logits: Any,
    Label: Any,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
) -> Any:
    """Softmax and loss of scaled cosines, where that of the label's class is made smaller."""
    scaled = Logits.astype("float64")
    rows = np.arange(len(scaled)), Label.ravel()
    scaled[rows] = np.cos(margin1 * np.arccos(scaled[rows]) + margin2) - margin3
    softmax = np.exp(scaled * scale)
    softmax /= softmax.sum(1, keepdims=True)
    return {"Softmax": softmax, "Loss": -np.log(softmax[rows])[:, None]}


_MARGINS = [
    ("", CLASSES, {"scale": 4.0}),
    ("three-margins", CLASSES[:, None], {"scale": 2.0, "margin1": 1.1, "margin2": 0.1, "margin3": 0.2}),
]
CASES = [
    *(
        Case(
            "margin_cross_entropy",
            {"Logits": COSINES, "Label": labels},
            lambda Logits, Label, attrs=attrs: with_margin(Logits, Label, **attrs),
            attrs,
            grad=["Logits"],
            name=name,
            rtol=1e-4,
        )
        for name, labels, attrs in _MARGINS
    ),
    Case("c_identity", {"X": X}, X),
    Case("c_split", {"X": X}, X[..., 2:], {"rank": 1, "nranks": 2}, name="last"),
    Case("c_split", {"X": X}, X, {"rank": 0, "nranks": 1}),
    Case("c_embedding", {"W": W, "Ids": IDS}, embedded, {"start_index": 3}, grad=["W"]),
    Case("c_embedding", {"W": W, "Ids": IDS.astype("int32")}, embedded, {"start_index": 3}, name="int32"),
    Case("c_wait_comm", {"X": [X, W]}, {"Out": [X, W]}, {"ring_id": 1}, outputs={"Out": 2}),
    Case("c_wait_compute", {"X": [X, W]}, {"Out": [X, W]}, outputs={"Out": 2}),
]
