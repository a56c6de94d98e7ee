"""Rows for fluidlite.ops.metric; numbers without a formula were recorded from PaddlePaddle 1.8.5."""

from __future__ import annotations

import numpy as np
from optest import Case

RNG = np.random.RandomState(6)
PREDICT = np.array([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9], [1, 0], [0, 1]], "float32")
LABEL = np.array([[0], [1], [1], [0], [0], [3]], "int64")
POSITIVE, NEGATIVE = np.array([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1]), np.array([1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0])
ZEROS, STEP1, STEP3 = np.zeros(11, "int64"), np.arange(23), np.arange(45)
STEP1[-1], STEP3[-1] = 0, 7
FOUND, WANTED = np.array([[0], [1], [2], [1], [0]], "int32"), np.array([[0], [1], [1], [2], [2]], "int32")
WEIGHTS, STATES = RNG.rand(5, 1).astype("float32"), RNG.randint(0, 5, (4, 4)).astype("float32")
SCORE = np.array([[0.1, 0.5], [0.3, 0.4], [0.3, 0.2], [0.9, 0.9], [0.2, 0.1], [0.2, 0.5]], "float32")
RANK, QUERY = np.array([[1], [0], [2], [1], [1], [0]], "float32"), np.array([[0], [0], [0], [1], [1], [1]])


def windows(steps: np.ndarray, batch: np.ndarray, index: int, count: int) -> np.ndarray:
    """The states after one batch: histogram `index` replaced, the sum adjusted, the counter advanced."""
    out = steps.copy()
    out[count * 11 : -1] += batch - steps[index * 11 : index * 11 + 11]
    out[index * 11 : index * 11 + 11] = batch
    out[-1] += 1
    return out


CASES: list[Case] = [
    Case(
        "accuracy",
        {
            "Out": np.ones((4, 2), "float32"),
            "Indices": np.array([[2, 1], [1, 0], [0, 1], [0, 1]]),
            "Label": np.array([[0], [1], [1], [2]]),
        },
        (np.array([0.5]), np.array([2]), np.array([4])),
    ),
    Case(
        "auc",
        {"Predict": PREDICT, "Label": LABEL, "StatPos": ZEROS, "StatNeg": ZEROS},
        (np.array([7 / 9]), POSITIVE[None], NEGATIVE[None]),
        attrs={"num_thresholds": 10, "slide_steps": 0},
    ),
    Case(
        "auc",
        {"Predict": PREDICT[:, 1:], "Label": LABEL, "StatPos": ZEROS[None], "StatNeg": ZEROS[None]},
        (np.array([7 / 9]), POSITIVE[None], NEGATIVE[None]),
        attrs={"num_thresholds": 10, "slide_steps": 0},
        name="one column",
    ),
    Case(
        "auc",
        {"Predict": PREDICT, "Label": LABEL, "StatPos": STEP1, "StatNeg": STEP1},
        (np.array([0.5073165972944849]), windows(STEP1, POSITIVE, 0, 1), windows(STEP1, NEGATIVE, 0, 1)),
        attrs={"num_thresholds": 10},
        name="slide 1",
    ),
    Case(
        "auc",
        {"Predict": PREDICT, "Label": LABEL, "StatPos": STEP3, "StatNeg": STEP3},
        (np.array([0.5037067888379843]), windows(STEP3, POSITIVE, 1, 3), windows(STEP3, NEGATIVE, 1, 3)),
        attrs={"num_thresholds": 10, "slide_steps": 3},
        name="slide 3",
    ),
    Case(
        "auc",
        {"Predict": PREDICT, "Label": LABEL * 0, "StatPos": ZEROS, "StatNeg": ZEROS},
        {"AUC": np.array([0.0])},
        attrs={"num_thresholds": 10, "slide_steps": 0},
        name="no positive",
    ),
    Case(
        "precision_recall",
        {"MaxProbs": WEIGHTS, "Indices": FOUND, "Labels": WANTED},
        {
            "BatchMetrics": np.array([0.5, 0.625, 0.5555556, 0.4, 0.4, 0.4]),
            "AccumMetrics": np.array([0.5, 0.625, 0.5555556, 0.4, 0.4, 0.4]),
            "AccumStatesInfo": np.array([[1, 1, 3, 0], [1, 1, 2, 1], [0, 1, 2, 2], [0, 0, 5, 0]]),
        },
        attrs={"class_number": 4},
    ),
    Case(
        "precision_recall",
        {"MaxProbs": WEIGHTS, "Indices": FOUND, "Labels": WANTED, "Weights": WEIGHTS, "StatesInfo": STATES},
        {"BatchMetrics": np.array([0.6952035, 0.5719687, 0.6275937, 0.5579063, 0.5579063, 0.5579063])},
        attrs={"class_number": 4},
        name="weights",
    ),
    Case(
        "mean_iou",
        {"Predictions": FOUND[:, 0], "Labels": WANTED[:, 0]},
        (np.array([5 / 18]), np.array([1, 2, 3, 0]), np.array([1, 1, 0, 0])),
        attrs={"num_classes": 4},
    ),
    Case(
        "mean_iou",
        {
            "Predictions": FOUND.T,
            "Labels": WANTED.T,
            "InWrongs": [np.array([1, 2, 3, 4], "int32"), np.array([1, 0, 0, 0], "int32")],
            "InCorrects": [np.array([1, 1, 1, 0], "int32")],
            "InMeanIou": [np.array([0.3], "float32")],
        },
        (np.array([0.3 + 23 / 105]), np.array([3, 4, 6, 4]), np.array([2, 2, 1, 0])),
        attrs={"num_classes": 4},
        name="running",
    ),
    Case(
        "positive_negative_pair",
        {"Score": SCORE, "Label": RANK, "QueryID": QUERY},
        {"PositivePair": np.array([2.0]), "NegativePair": np.array([3.0]), "NeutralPair": np.array([2.0])},
        name="ties",
    ),
    Case(
        "positive_negative_pair",
        {
            "Score": SCORE,
            "Label": RANK,
            "QueryID": QUERY,
            "AccumulatePositivePair": np.ones(1, "float32"),
            "AccumulateNegativePair": np.full(1, 2, "float32"),
            "AccumulateNeutralPair": np.full(1, 3, "float32"),
            "Weight": np.arange(6, dtype="float32")[:, None],
        },
        {"PositivePair": np.array([5.5]), "NegativePair": np.array([9.0]), "NeutralPair": np.array([3.0])},
        attrs={"column": 1},
        name="running",
    ),
]
