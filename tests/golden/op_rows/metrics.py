"""Metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, real, whole


def ints(*values: Any, dtype: str = "int64") -> Any:
    return np.array(values, dtype)


def soft(*shape: int) -> Any:
    made = real(*shape, key="soft")
    return made / made.sum(-1, keepdims=True)


def history(key: str) -> Any:
    """Two steps of ten and one bins, their sum, and the number of steps so far."""
    first, second = whole(11, key=key), whole(11, key=key + "2")
    return np.concatenate([first, second, first + second, ints(3)])


ROWS = [
    Row(
        "accuracy", {"Out": soft(4, 2), "Indices": whole(4, 2, high=3), "Label": whole(4, 1, high=3, key="l")}
    ),
    Row(
        "accuracy",
        {"Out": soft(4, 3), "Indices": whole(4, 3, high=5), "Label": whole(4, 1, high=5, key="l")},
        name="three",
    ),
    Row(
        "auc",
        {
            "Predict": soft(6, 2),
            "Label": ints([1], [0], [1], [1], [0], [0]),
            "StatPos": np.zeros((1, 11), "int64"),
            "StatNeg": np.zeros((1, 11), "int64"),
        },
        {"num_thresholds": 10, "slide_steps": 0},
        alias={"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
    ),
    Row(
        "auc",
        {
            "Predict": soft(6, 2),
            "Label": ints([1], [0], [1], [1], [0], [0]),
            "StatPos": np.zeros((1, 23), "int64"),
            "StatNeg": np.zeros((1, 23), "int64"),
        },
        {"num_thresholds": 10, "slide_steps": 1},
        ignore=["StatPosOut", "StatNegOut"],
        name="slide",
    ),
    Row(
        "auc",
        {
            "Predict": soft(6, 2),
            "Label": ints([1], [0], [1], [1], [0], [0]),
            "StatPos": history("p"),
            "StatNeg": history("n"),
        },
        {"num_thresholds": 10, "slide_steps": 2},
        alias={"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
        name="slide2",
    ),
    Row(
        "auc",
        {
            "Predict": soft(6, 2),
            "Label": ints([1], [0], [1], [1], [0], [0]),
            "StatPos": np.zeros((1, 11), "int64"),
            "StatNeg": np.zeros((1, 11), "int64"),
        },
        {"num_thresholds": 10, "slide_steps": 0, "curve": "PR"},
        alias={"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
        name="PR",
    ),
    Row(
        "precision_recall",
        {
            "MaxProbs": real(6, 1, low=0, high=1),
            "Indices": whole(6, 1, high=3, dtype="int32"),
            "Labels": whole(6, 1, high=3, dtype="int32", key="l"),
        },
        {"class_number": 3},
    ),
    Row(
        "precision_recall",
        {
            "MaxProbs": real(6, 1, low=0, high=1),
            "Indices": whole(6, 1, high=3, dtype="int32"),
            "Labels": whole(6, 1, high=3, dtype="int32", key="l"),
            "Weights": real(6, 1),
            "StatesInfo": whole(3, 4, dtype="float32"),
        },
        {"class_number": 3},
        name="states",
    ),
    Row(
        "positive_negative_pair",
        {
            "Score": real(6, 1),
            "Label": whole(6, 1, high=3, dtype="float32"),
            "QueryID": ints([0], [0], [0], [1], [1], [1]),
        },
        {"column": 0},
    ),
    Row(
        "positive_negative_pair",
        {
            "Score": real(6, 2),
            "Label": whole(6, 1, high=3, dtype="float32"),
            "QueryID": ints([0], [0], [0], [1], [1], [1]),
            "Weight": real(6, 1),
            "AccumulatePositivePair": real(1),
            "AccumulateNegativePair": real(1),
            "AccumulateNeutralPair": real(1),
        },
        {"column": 1},
        name="weights",
    ),
    Row(
        "mean_iou",
        {"Predictions": whole(6, high=3, dtype="int32"), "Labels": whole(6, high=3, dtype="int32", key="l")},
        {"num_classes": 4},
    ),
    Row(
        "mean_iou",
        {
            "Predictions": whole(6, high=3, dtype="int32"),
            "Labels": whole(6, high=3, dtype="int32", key="l"),
            "InWrongs": [whole(3, dtype="int32")],
            "InCorrects": [whole(3, dtype="int32")],
            "InMeanIou": [real(1)],
        },
        {"num_classes": 3},
        name="more",
    ),
]
