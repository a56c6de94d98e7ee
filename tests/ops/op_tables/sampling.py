"""Rows for fluidlite.ops.sampling; samples were recorded from PaddlePaddle 1.8.5."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case
from scipy import special

RNG = np.random.RandomState(9)


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1, 1, shape).astype("float32")


X, W, BIAS = floats(3, 4), floats(5, 4), floats(5, 1)
LABEL = np.array([[0], [3], [5]])
# class c is leaf c + 6 of a complete tree; node n is row n - 1
WAYS = {0: ([2, 0], [0, 1]), 3: ([3, 1, 0], [1, 0, 0]), 5: ([4, 1, 0], [1, 1, 0])}
TABLE, CODE = np.array([[0, 1, -1], [0, 2, 4], [0, -1, -1]]), np.array([[0, 1, -1], [1, 0, 1], [1, -1, -1]])
ALL_SAMPLES = np.array([[0, 3, 0], [2, 3, 0], [1, 3, 0]])
TRUE = np.array([[0], [2], [1]])


def tree_cost(ways: Any, depth: int, bias: Any) -> Any:
    """The summed costs of the turns, plus log 2 for each entry that is missing to `depth`."""
    rows = []
    for x, (nodes, turns) in zip(X, ways, strict=True):
        score = W[nodes] @ x + bias[nodes, 0]
        rows.append([np.logaddexp(0, score).sum() - (score * turns).sum() + (depth - len(nodes)) * np.log(2)])
    return np.array(rows)


def nce_cost(samples: Any, noise: Any, bias: Any, weight: Any = 1.0, true: int = 1) -> Any:
    """The cost of telling the first `true` samples from the others."""
    chance = special.expit(np.einsum("nkd,nd->nk", W[samples], X) + bias[samples, 0])
    cost = -np.log(np.where(np.arange(samples.shape[1]) < true, chance, noise) / (chance + noise))
    return cost.sum(1, keepdims=True) * weight


LOG_UNIFORM = 2 * np.log((ALL_SAMPLES + 2) / (ALL_SAMPLES + 1)) / np.log(5)
PAIRS = np.array([[0, 1], [2, 3], [1, 4]])
PAIR_SAMPLES = np.array([[0, 1, 3, 0], [2, 3, 3, 0], [1, 4, 3, 0]])
DIST = np.array([0.1, 0.2, 0.3, 0.3, 0.1], "float32")
NCE = {"Input": X, "Label": TRUE, "Weight": W}
FIXED = {"num_total_classes": 5, "num_neg_samples": 2, "custom_neg_classes": [3, 0]}
LOGITS = floats(2, 60)
DRAWN = np.array([[0, 21, 48, 0, 38, 29], [2, 21, 48, 0, 38, 29]])
CHANCE = 1 - (1 - np.log((DRAWN + 2) / (DRAWN + 1)) / np.log(61)) ** 7
HIT = np.array([[0, 0, 0, 1, 0, 0], [0] * 6])

CASES: list[Case] = [
    Case(
        "hierarchical_sigmoid",
        {"X": X, "W": W, "Label": LABEL, "Bias": BIAS},
        {"Out": tree_cost([WAYS[0], WAYS[3], WAYS[5]], 3, BIAS)},
        attrs={"num_classes": 6},
        grad=["X", "W", "Bias"],
    ),
    Case(
        "hierarchical_sigmoid",
        {"X": X, "W": W, "Label": LABEL, "PathTable": TABLE, "PathCode": CODE},
        {"Out": tree_cost([([0, 1], [0, 1]), ([0, 2, 4], [1, 0, 1]), ([0], [1])], 3, BIAS * 0)},
        attrs={"num_classes": 6},
        grad=["X", "W"],
        name="custom",
    ),
    Case(
        "hierarchical_sigmoid",
        {"X": X, "W": W, "Label": LABEL, "PathTable": TABLE, "PathCode": CODE},
        {"Out": tree_cost([([0, 1], [0, 1]), ([0, 2, 4], [1, 0, 1]), ([0], [1])], 3, BIAS * 0)},
        attrs={"num_classes": 6, "is_sparse": True},
        grad=["X", "W"],
        name="sparse",
    ),
    Case(
        "nce",
        {**NCE, "Bias": BIAS},
        {"Cost": nce_cost(ALL_SAMPLES, 0.4, BIAS), "SampleLabels": ALL_SAMPLES},
        attrs=FIXED,
        grad=["Input", "Weight", "Bias"],
    ),
    Case(
        "nce",
        {**NCE, "SampleWeight": np.array([[0.5], [1], [2]], "float32")},
        {"Cost": nce_cost(ALL_SAMPLES, LOG_UNIFORM, BIAS * 0, np.array([[0.5], [1], [2]]))},
        attrs={**FIXED, "sampler": 1},
        grad=["Input", "Weight"],
        name="log uniform",
    ),
    Case(
        "nce",
        {
            **NCE,
            "Label": PAIRS,
            "CustomDistProbs": DIST,
            "CustomDistAlias": np.arange(5, dtype="int32"),
            "CustomDistAliasProbs": np.ones(5, "float32"),
        },
        {"Cost": nce_cost(PAIR_SAMPLES, 2 * DIST[PAIR_SAMPLES], BIAS * 0, true=2)},
        attrs={**FIXED, "sampler": 2, "is_sparse": True},
        grad=["Input", "Weight"],
        name="custom",
    ),
    Case(
        "nce",
        {**NCE, "Weight": floats(50, 4)},
        {
            "SampleLabels": np.array(
                [[0, 37, 47, 5, 44, 7, 2], [2, 41, 45, 12, 35, 37, 29], [1, 19, 15, 41, 15, 49, 49]]
            )
        },
        attrs={"num_total_classes": 50, "num_neg_samples": 6, "seed": 7},
        name="uniform samples",
    ),
    Case(
        "nce",
        {**NCE, "Weight": floats(50, 4)},
        {
            "SampleLabels": np.array(
                [[0, 18, 40, 0, 31, 0, 0], [2, 24, 32, 1, 15, 18, 9], [1, 3, 2, 24, 2, 48, 47]]
            )
        },
        attrs={"num_total_classes": 50, "num_neg_samples": 6, "seed": 7, "sampler": 1},
        name="log-uniform samples",
    ),
    Case(
        "nce",
        {
            **NCE,
            "Weight": floats(6, 4),
            "CustomDistProbs": np.array([0.1, 0.1, 0.2, 0.2, 0.3, 0.1], "float32"),
            "CustomDistAlias": np.array([4, 4, 2, 3, -1, 2], "int32"),
            "CustomDistAliasProbs": np.array([0.6, 0.6, 0.9, 0.8, 1.0, 0.6], "float32"),
        },
        {"SampleLabels": np.array([[0, 4, 4, 4, 1, 3, 2], [2, 2, 5, 2, 4, 5, 2], [1, 5, 4, 5, 4, 5, 2]])},
        attrs={"num_total_classes": 6, "num_neg_samples": 6, "seed": 7, "sampler": 2},
        name="custom samples",
    ),
    Case(
        "sample_logits",
        {"Logits": LOGITS, "Labels": np.array([[0], [2]])},
        {
            "Samples": DRAWN,
            "Probabilities": CHANCE,
            "SampledLabels": np.zeros((2, 1)),
            "SampledLogits": np.take_along_axis(LOGITS, DRAWN, 1) - 1e20 * HIT - np.log(CHANCE),
        },
        attrs={"num_samples": 5, "seed": 7},
        rtol=1e-4,
    ),
    Case(
        "sample_logits",
        {"Logits": LOGITS, "Labels": np.array([[0], [2]])},
        {"SampledLogits": np.take_along_axis(LOGITS, DRAWN, 1) - np.log(CHANCE)},
        rtol=1e-4,
        attrs={"num_samples": 5, "seed": 7, "remove_accidental_hits": False},
        grad=["Logits"],
        wants=["SampledLogits"],
        name="hits",
    ),
    Case(
        "sample_logits",
        {
            "Logits": LOGITS,
            "Labels": np.array([[0], [2]]),
            "CustomizedSamples": DRAWN,
            "CustomizedProbabilities": CHANCE.astype("float32"),
        },
        {"SampledLogits": np.take_along_axis(LOGITS, DRAWN, 1) - 1e20 * HIT - np.log(CHANCE)},
        attrs={"num_samples": 5, "use_customized_samples": True},
        rtol=1e-4,
        name="customized",
    ),
]
