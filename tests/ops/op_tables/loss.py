"""Rows for fluidlite.ops.loss and fluidlite.ops.distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case
from scipy import special

RNG = np.random.RandomState(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(low, high, shape).astype("float32")


X, Y, SCORE, OTHER = floats(3, 4), floats(3, 4), floats(8, 1), floats(8, 1)
P, Q = floats(8, 1, low=0.1, high=0.9), floats(3, 4, low=0.1, high=0.9)
BINARY = np.array([[0, 1, 0, 1]] * 3, "float32")
BIT = np.array([[0], [1]] * 4, "float32")
EDGES = np.array([[-2.3], [-0.9], [-0.5], [0.1], [0.3], [0.8], [1.7], [2.6]], "float32")
TEACHER = np.array([[-2], [-1], [-0.5], [0], [0.3], [1], [1.7], [-2]], "float32")
LABEL = np.array([[0], [1], [3]])
TARGET = np.array([[0.2, 0, 0.8, 0.1], [-1, 0.1, 0.2, 0.3], [0.4, 0.4, 0.1, 0.1]], "float32")
CENTERS = floats(2, 4)
CUBE, CUBE2 = floats(2, 3, 4), floats(2, 3, 4)
IMAGES, IMAGES2 = floats(2, 3, 2, 2), floats(2, 2, 2, 2)
CLASS_WEIGHT = np.array([0.1, 0.2, 0.3, 0.4], "float32")


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.logaddexp(0, x)


def huber(r: Any, delta: float) -> Any:
    """Quadratic up to delta, linear beyond."""
    return np.where(abs(r) <= delta, r * r / 2, delta * (abs(r) - delta / 2))


def kl(X: Any, Target: Any) -> Any:
    """Target (log Target - X), 0 where Target is not positive."""
    return np.where(Target > 0, Target * (np.log(np.maximum(Target, 1e-30)) - X), 0)


def student(X: Any, Label: Any) -> Any:
    """The clicks' loss, and the teacher's where there is one."""
    click = np.where(Label < 0, Label >= -1, Label >= 1)
    return softplus(X) - X * click + np.where(Label < 0, 0, softplus(X) - X * (Label - (Label >= 1)))


def focal(X: Any, Label: Any, FgNum: Any, gamma: float = 2.0, alpha: float = 0.25) -> Any:
    """The focal loss of scores X for labels from 1; 0 is the background, -1 does not count."""
    p, hit = special.expit(X.astype("float64")), Label == np.arange(1, X.shape[1] + 1)
    loss = np.where(hit, -alpha * (1 - p) ** gamma * np.log(p), -(1 - alpha) * p**gamma * np.log(1 - p))
    return np.where(Label == -1, 0, loss) / max(FgNum[0], 1)


def bpr(X: Any, Label: Any) -> Any:
    """The mean over the other classes of log(1 + exp(x - x_label))."""
    behind = softplus(X - np.take_along_axis(X, Label, -1))
    return (behind.sum(-1, keepdims=True) - np.log(2)) / (X.shape[-1] - 1)


def cosine(X: Any, Y: Any) -> dict[str, Any]:
    """Cosines of rows, and the norms."""
    x, y = X.reshape(len(X), -1), Y.reshape(len(Y), -1)
    nx, ny = np.linalg.norm(x, axis=1, keepdims=True), np.linalg.norm(y, axis=1, keepdims=True)
    return {"Out": (x * y).sum(1, keepdims=True) / nx / ny, "XNorm": nx, "YNorm": ny}


def nll(X: Any, Label: Any, weight: Any = 1.0) -> Any:
    """Minus X at the label, times the label's weight."""
    return -np.take_along_axis(X, Label[:, None], 1)[:, 0] * weight


BY_ELEMENT = [
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"X": X, "Label": Q},
        lambda X, Label: softplus(X) - X * Label,
        grad=["X"],
    ),
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"X": X, "Label": BINARY},
        lambda X, Label: softplus(X) * (Label != 0) - X * Label,
        attrs={"ignore_index": 0},
        grad=["X"],
        name="ignore",
    ),
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"X": X, "Label": BINARY},
        lambda X, Label: softplus(X) * (Label != 1) / 6,
        attrs={"ignore_index": 1, "normalize": True},
        grad=["X"],
        name="normalize",
    ),
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"X": X, "Label": Q},
        lambda X, Label: X * 0,
        attrs={"ignore_index": 0, "normalize": True},
        name="none counts",
    ),
    Case(
        "log_loss",
        {"Predicted": P, "Labels": BIT},
        lambda Predicted, Labels: (
            -Labels * np.log(Predicted + 1e-4) - (1 - Labels) * np.log(1.0001 - Predicted)
        ),
        attrs={"epsilon": 1e-4},
        grad=["Predicted"],
    ),
    Case(
        "bce_loss",
        {"X": Q, "Label": BINARY},
        lambda X, Label: -np.log(np.where(Label > 0, X, 1 - X)),
        grad=["X"],
    ),
    Case(
        "bce_loss",
        {"X": np.array([[0, 1]], "float32"), "Label": np.array([[0.3, 0.7]], "float32")},
        np.array([[30, 30]]),
        name="log of 0",
    ),
    Case(
        "huber_loss",
        {"X": X, "Y": Y},
        {"Residual": Y - X, "Out": huber(Y - X, 1.5)},
        attrs={"delta": 1.5},
        grad=["X", "Y"],
        wants=["Out"],
    ),
    Case(
        "smooth_l1_loss",
        {"X": X, "Y": Y},
        {"Diff": X - Y, "Out": huber(X - Y, 1).sum(1, keepdims=True)},
        grad=["X", "Y"],
        wants=["Out"],
    ),
    Case(
        "smooth_l1_loss",
        {"X": CUBE, "Y": CUBE2, "InsideWeight": abs(CUBE2), "OutsideWeight": CUBE},
        {"Out": (CUBE * 4 * huber((CUBE - CUBE2) * abs(CUBE2), 0.25)).sum((1, 2))[:, None]},
        attrs={"sigma": 2.0},
        grad=["X", "Y"],
        wants=["Out"],
        name="weights",
    ),
    *(
        Case(
            "kldiv_loss",
            {"X": CUBE[0, 0] + X, "Target": TARGET},
            lambda X, Target, reduce=reduce: reduce(kl(X, Target)),
            attrs={"reduction": reduction},
            grad=["X"],
            name=reduction,
        )
        for reduction, reduce in (
            ("none", lambda x: x),
            ("mean", lambda x: x.mean()[None]),
            ("sum", lambda x: x.sum()[None]),
            ("batchmean", lambda x: x.sum()[None] / 3),
        )
    ),
    Case(
        "sigmoid_focal_loss",
        {"X": X, "Label": np.array([[0], [1], [-1]], "int32"), "FgNum": np.array([2], "int32")},
        focal,
        grad=["X"],
    ),
    Case(
        "sigmoid_focal_loss",
        {"X": X, "Label": np.array([[4], [1], [2]], "int32"), "FgNum": np.array([0], "int32")},
        lambda X, Label, FgNum: focal(X, Label, FgNum, 1.5, 0.4),
        attrs={"gamma": 1.5, "alpha": 0.4},
        grad=["X"],
        name="attrs",
    ),
    Case("label_smooth", {"X": BINARY}, lambda X: 0.9 * X + 0.025, attrs={"epsilon": 0.1}, grad=["X"]),
    Case(
        "label_smooth",
        {"X": BINARY, "PriorDist": CLASS_WEIGHT[None]},
        lambda X, PriorDist: 0.9 * X + 0.1 * PriorDist,
        attrs={"epsilon": 0.1},
        grad=["X"],
        name="prior",
    ),
]
BY_SCORE = [
    Case(
        "hinge_loss",
        {"Logits": EDGES, "Labels": BIT},
        lambda Logits, Labels: np.maximum(1 - Logits * (2 * Labels - 1), 0),
        grad=["Logits"],
    ),
    Case(
        "modified_huber_loss",
        {"X": EDGES, "Y": BIT},
        {
            "IntermediateVal": EDGES * (2 * BIT - 1),
            "Out": np.where(
                EDGES * (2 * BIT - 1) < -1,
                -4 * EDGES * (2 * BIT - 1),
                np.maximum(1 - EDGES * (2 * BIT - 1), 0) ** 2,
            ),
        },
        grad=["X"],
        wants=["Out"],
    ),
    Case("teacher_student_sigmoid_loss", {"X": EDGES, "Label": TEACHER}, student, grad=["X"]),
    Case(
        "teacher_student_sigmoid_loss",
        {"X": np.array([[-np.inf]], "float32"), "Label": np.array([[-2]], "float32")},
        np.zeros((1, 1)),
        name="certainly no click",
    ),
    Case(
        "rank_loss",
        {"Label": BIT, "Left": SCORE, "Right": OTHER},
        lambda Label, Left, Right: softplus(Left - Right) - Label * (Left - Right),
        grad=["Left", "Right"],
    ),
    Case(
        "margin_rank_loss",
        {"X1": SCORE, "X2": OTHER, "Label": 2 * BIT - 1},
        {
            "Out": np.maximum(-(2 * BIT - 1) * (SCORE - OTHER) + 0.3, 0),
            "Activated": -(2 * BIT - 1) * (SCORE - OTHER) + 0.3 > 0,
        },
        attrs={"margin": 0.3},
        grad=["X1", "X2"],
        wants=["Out"],
    ),
    Case("bpr_loss", {"X": X, "Label": LABEL}, bpr, grad=["X"]),
    Case(
        "nll_loss",
        {"X": X, "Label": LABEL[:, 0]},
        {"Out": nll(X, LABEL[:, 0]).mean()[None], "Total_weight": np.array([3.0])},
        grad=["X"],
    ),
    Case(
        "nll_loss",
        {"X": X, "Label": LABEL[:, 0], "Weight": CLASS_WEIGHT},
        {"Out": nll(X, LABEL[:, 0], [0.1, 0.2, 0]).sum()[None] / 0.3, "Total_weight": np.array([0.3])},
        attrs={"ignore_index": 3},
        grad=["X"],
        name="ignore",
    ),
    Case(
        "nll_loss",
        {"X": X, "Label": LABEL[:, 0], "Weight": CLASS_WEIGHT},
        {"Out": nll(X, LABEL[:, 0], [0.1, 0.2, 0.4]).sum()[None]},
        attrs={"reduction": "sum"},
        grad=["X"],
        name="sum",
    ),
    Case(
        "nll_loss",
        {"X": IMAGES, "Label": np.array([[[0, 2], [1, 1]]] * 2)},
        lambda X, Label: nll(X, Label),
        attrs={"reduction": "none"},
        grad=["X"],
        name="image",
    ),
]
DISTANCES = [
    Case("squared_l2_norm", {"X": X}, lambda X: (X * X).sum()[None], grad=["X"]),
    Case("l1_norm", {"X": X}, lambda X: abs(X).sum()[None], grad=["X"]),
    *(
        Case(
            "p_norm",
            {"X": CUBE},
            lambda X, p=p: np.linalg.norm(X, p, axis=1),
            attrs={"porder": p, "axis": 1},
            grad=["X"],
            name=f"{p}",
            of_2x=bool(np.isinf(p)),
        )
        for p in (1.0, 2.0, 3.0, 0.5, np.inf, -np.inf)
    ),
    Case(
        "p_norm",
        {"X": X},
        lambda X: np.linalg.norm(X, axis=0, keepdims=True),
        attrs={"axis": -2, "keepdim": True},
        grad=["X"],
        name="keep",
    ),
    *(
        Case(
            "dist",
            {"X": X, "Y": Y[:1]},
            lambda X, Y, p=p: np.linalg.norm((X - Y).ravel(), p)[None],
            attrs={"p": p},
            grad=["X", "Y"],
            name=f"{p}",
        )
        for p in (2.0, 1.0, 0.0, np.inf)
    ),
    Case(
        "squared_l2_distance",
        {"X": X, "Y": Y},
        {"sub_result": X - Y, "Out": ((X - Y) ** 2).sum(1, keepdims=True)},
        grad=["X", "Y"],
        wants=["Out"],
    ),
    Case(
        "squared_l2_distance",
        {"X": CUBE, "Y": CUBE2[:1]},
        {"Out": ((CUBE - CUBE2[:1]) ** 2).sum((1, 2))[:, None]},
        grad=["X", "Y"],
        wants=["Out"],
        name="one row",
    ),
    Case("cos_sim", {"X": X, "Y": Y}, cosine(X, Y), grad=["X", "Y"]),
    Case("cos_sim", {"X": CUBE, "Y": CUBE2[:1]}, cosine(CUBE, CUBE2[:1]), grad=["X", "Y"], name="one row"),
    Case(
        "fsp",
        {"X": IMAGES, "Y": IMAGES2},
        lambda X, Y: np.einsum("nihw,njhw->nij", X, Y) / 4,
        grad=["X", "Y"],
    ),
    Case(
        "center_loss",
        {"X": X, "Label": LABEL % 2, "Centers": CENTERS, "CenterUpdateRate": np.array([0.5], "float32")},
        {
            "CentersOut": CENTERS
            + 0.5 * np.array([(X - CENTERS[0])[0] / 2, (X - CENTERS[1])[1:].sum(0) / 3]),
            "SampleCenterDiff": X - CENTERS[[0, 1, 1]],
            "Loss": ((X - CENTERS[[0, 1, 1]]) ** 2).sum(1, keepdims=True) / 2,
        },
        attrs={"cluster_num": 2, "need_update": True},
        grad=["X"],
        wants=["Loss"],
    ),
    Case(
        "center_loss",
        {
            "X": X,
            "Label": LABEL[:, 0] % 2,
            "Centers": CENTERS,
            "CenterUpdateRate": np.array([0.5], "float32"),
        },
        {"CentersOut": CENTERS},
        attrs={"cluster_num": 2, "need_update": False},
        name="fixed",
    ),
]
CASES: list[Case] = [*BY_ELEMENT, *BY_SCORE, *DISTANCES]
