"""Rows for fluidlite.ops.softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case
from scipy import special

RNG = np.random.RandomState(4)
X = RNG.uniform(-2, 2, (4, 3)).astype("float32")
P = special.softmax(X, axis=-1)
CUBE = RNG.uniform(-2, 2, (2, 3, 4)).astype("float32")
LABEL = np.array([[0], [2], [1], [2]], "int64")
CUBE_LABEL = np.array([[[3], [0], [2]], [[1], [1], [0]]], "int64")
SOFT = special.softmax(RNG.uniform(-1, 1, (4, 3)), axis=-1).astype("float32")
FAR = np.array([[0, -200, -63.5, -100]], "float32")


def nll(p: Any, label: Any, axis: int = -1) -> Any:
    """Minus the logarithm of the probability at the label."""
    return -np.log(np.take_along_axis(p, label, axis))


def flat_nll(X: Any, Label: Any) -> Any:
    """The same for labels without the last dimension."""
    return nll(X, Label[:, None])[:, 0]


def ignoring(value: Any, label: Any, ignored: int) -> Any:
    """`value` with zeros where the label is ignored."""
    return np.where(label == ignored, 0, value)


CASES: list[Case] = [
    Case("softmax", {"X": X}, lambda X: special.softmax(X, -1), grad=["X"]),
    Case("softmax", {"X": CUBE}, lambda X: special.softmax(X, 1), attrs={"axis": 1}, grad=["X"], name="axis"),
    Case("softmax", {"X": FAR}, np.exp(np.maximum(FAR, -64)), atol=0, name="clipped at -64"),
    Case(
        "softmax", {"X": (X, [[1, 3]])}, lambda X: special.softmax(X, -1), lods={"Out": [[1, 3]]}, name="lod"
    ),
    Case("log_softmax", {"X": CUBE}, lambda X: special.log_softmax(X, 1), attrs={"axis": 1}, grad=["X"]),
    Case("cross_entropy", {"X": P, "Label": LABEL}, lambda X, Label: nll(X, Label), grad=["X"]),
    Case(
        "cross_entropy",
        {"X": P, "Label": LABEL},
        lambda X, Label: ignoring(nll(X, Label), Label, 2),
        attrs={"ignore_index": 2},
        grad=["X"],
        name="ignore",
    ),
    Case("cross_entropy", {"X": P, "Label": LABEL[:, 0]}, flat_nll, grad=["X"], name="flat labels"),
    Case(
        "cross_entropy",
        {"X": P, "Label": SOFT},
        lambda X, Label: -(Label * np.log(X)).sum(-1, keepdims=True),
        attrs={"soft_label": True},
        grad=["X"],
        name="soft",
    ),
    Case(
        "cross_entropy",
        {"X": np.array([[0, 1]], "float32"), "Label": np.array([[0]])},
        np.array([[1e20]]),
        name="log of 0",
    ),
    Case(
        "cross_entropy2",
        {"X": P, "Label": LABEL},
        {"Y": nll(P, LABEL), "MatchX": np.take_along_axis(P, LABEL, 1)},
        grad=["X"],
    ),
    Case(
        "cross_entropy2",
        {"X": special.softmax(CUBE, -1), "Label": CUBE_LABEL},
        lambda X, Label: ignoring(nll(X, Label), Label, 1),
        attrs={"ignore_index": 1},
        grad=["X"],
        name="ignore",
    ),
    Case("cross_entropy2", {"X": P, "Label": LABEL[:, 0]}, flat_nll, grad=["X"], name="flat labels"),
    Case(
        "cross_entropy2",
        {"X": np.array([[0, 1]], "float32"), "Label": np.array([[0]])},
        np.array([[1e20]]),
        name="log of 0",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": X, "Label": LABEL},
        {"Softmax": P, "Loss": nll(P, LABEL)},
        grad=["Logits"],
        wants=["Loss"],
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": (X, [[1, 3]]), "Label": LABEL},
        {"Softmax": P, "Loss": nll(P, LABEL)},
        lods={"Softmax": [[1, 3]], "Loss": [[1, 3]]},
        name="lod",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": CUBE, "Label": CUBE_LABEL[:, :1, [0] * 4] % 3},
        {"Loss": nll(special.softmax(CUBE, 1), CUBE_LABEL[:, :1, [0] * 4] % 3, 1)},
        attrs={"axis": 1},
        grad=["Logits"],
        wants=["Loss"],
        name="axis",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": X, "Label": SOFT},
        {"Loss": -(SOFT * np.log(P)).sum(-1, keepdims=True)},
        attrs={"soft_label": True},
        grad=["Logits"],
        wants=["Loss"],
        name="soft",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": X, "Label": LABEL},
        {"Loss": ignoring(nll(P, LABEL), LABEL, 2)},
        attrs={"ignore_index": 2},
        grad=["Logits"],
        wants=["Loss"],
        name="ignore",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": X, "Label": np.where(LABEL == 2, -100, LABEL)},
        {"Loss": ignoring(nll(P, LABEL), LABEL, 2)},
        grad=["Logits"],
        wants=["Loss"],
        name="ignore none",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": FAR, "Label": np.array([[1]])},
        {"Loss": np.array([[64]])},
        name="clipped",
    ),
]
