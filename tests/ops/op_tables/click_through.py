"""Rows for shows and clicks, samples by tag and attention by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(7)


def floats(*shape: int) -> Any:
    """Random float32 numbers above zero."""
    return RNG.uniform(0.5, 2.5, shape).astype("float32")


def with_logs(X: Any, CVM: Any) -> Any:
    """The log of shows, and of clicks per show."""
    return np.concatenate([np.log(X[:, :1] + 1), np.log((X[:, 1:2] + 1) / (X[:, :1] + 1)), X[:, 2:]], 1)


TAGS = (np.array([[1], [2], [3], [4], [1], [7]]), [[2, 1, 2, 1]])
ROWS = floats(6, 2)
SAMPLES = (ROWS, [[1, 2, 2, 1]])
WANTED = np.array([1, 7])


def kept(rows: Any, index: Any) -> dict[str, Any]:
    """The outputs for samples that carry a tag."""
    return {"Out": rows, "LossWeight": np.ones((len(index), 1), "float32"), "IndexMap": np.array(index)}


# own rank, then (rank, row) of each sample of the page view; a rank of 0 is none
RANKS = np.array([[1, 1, 0, 2, 1], [2, 1, 0, 2, 1], [0, 1, 2, 2, 0], [1, 1, 3, 0, 0]], "int32")
INPUTS, MATRICES = floats(4, 3), floats(2 * 2 * 3, 2)


def attended(X: Any, RankOffset: Any, RankParam: Any) -> Any:
    """Sample by sample."""
    out = np.zeros((len(X), RankParam.shape[1]), "float32")
    matrices = RankParam.reshape(2, 2, X.shape[1], -1)
    for sample, (own, *places) in enumerate(RankOffset):
        for rank, row in zip(places[::2], places[1::2], strict=True):
            if own and rank:
                out[sample] += X[row] @ matrices[own - 1, rank - 1]
    return out


CASES = [
    Case("cvm", {"X": floats(3, 5), "CVM": floats(3, 2)}, with_logs, {"use_cvm": True}),
    Case("cvm", {"X": floats(3, 5), "CVM": floats(3, 2)}, lambda X, CVM: X[:, 2:], {"use_cvm": False}),
    Case(
        "cvm_grad",
        {"X": (floats(3, 5), [[2, 1]]), "CVM": (CVM := floats(2, 2)), "Y@GRAD": (D := floats(3, 3))},
        {"X@GRAD": np.concatenate([CVM[[0, 0, 1]], D], axis=1)},
        {"use_cvm": False},
        name="a sample of two rows",
    ),
    Case(
        "filter_by_instag",
        {"Ins": SAMPLES, "Ins_tag": TAGS, "Filter_tag": WANTED},
        kept(ROWS[[0, 3, 4, 5]], [[0, 0, 1], [1, 3, 2], [3, 5, 1]]),
        {"is_lod": True},
        grad=["Ins"],
        lods={"Out": [[1, 2, 1]], "LossWeight": [[1, 1, 1]]},
    ),
    Case(
        "filter_by_instag",
        {"Ins": ROWS[:4], "Ins_tag": TAGS, "Filter_tag": np.array([3])},
        kept(ROWS[[1]], [[0, 1, 1]]),
        {"is_lod": False},
        grad=["Ins"],
        name="rows",
    ),
    Case(
        "filter_by_instag",
        {"Ins": SAMPLES, "Ins_tag": TAGS, "Filter_tag": np.array([9])},
        {
            "Out": np.full((1, 2), 5, "float32"),
            "LossWeight": np.zeros((1, 1), "float32"),
            "IndexMap": np.array([[0, 1, 1]]),
        },
        {"is_lod": True, "out_val_if_empty": 5},
        grad=["Ins"],
        lods={"Out": [[1]]},
        name="none",
    ),
    Case(
        "rank_attention",
        {"X": INPUTS, "RankOffset": RANKS, "RankParam": MATRICES},
        attended,
        {"MaxRank": 2},
        grad=["RankParam"],
    ),
    Case(
        "rank_attention",
        {"X": (INPUTS, [[1, len(INPUTS) - 1]]), "RankOffset": RANKS, "RankParam": MATRICES},
        attended,
        {"MaxRank": 2},
        lods={"Out": [[1, len(INPUTS) - 1]]},
        name="sequences",
    ),
]
