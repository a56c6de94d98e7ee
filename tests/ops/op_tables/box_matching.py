"""Rows for fluidlite.ops.detection.matching; the references look at one pair, or one prior, at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(37)


# ---------------------------------------------------------------------- matches
def matched(near: Any, lengths: list[int], threshold: float | None) -> tuple[Any, Any]:
    rows = np.full((len(lengths), near.shape[1]), -1, "int32")
    values = np.zeros(rows.shape, near.dtype)
    for image, start in enumerate(np.cumsum([0, *lengths[:-1]])):
        part = near[start : start + lengths[image]]
        pairs = [(-part[i, j], i, j) for i, j in np.ndindex(*part.shape) if part[i, j] > 1e-6]
        taken: set[int] = set()
        for value, i, j in sorted(pairs):
            if i not in taken and rows[image, j] < 0:
                taken.add(i)
                rows[image, j], values[image, j] = i, -value
        for j in range(part.shape[1] if len(part) else 0):
            best = part[:, j].argmax()
            if threshold is not None and rows[image, j] < 0 and part[best, j] >= threshold:
                rows[image, j], values[image, j] = best, part[best, j]
    return rows, values


def match_row(name: str, near: Any, lengths: list[int], threshold: float | None = None) -> Case:
    attrs = {} if threshold is None else {"match_type": "per_prediction", "dist_threshold": threshold}
    return Case(
        "bipartite_match",
        {"DistMat": (near, [lengths])},
        matched(near, lengths, threshold),
        attrs=attrs,
        name=name,
    )


NEAR = RNG.uniform(0, 1, (9, 7)).astype("float32")
FAR = np.array([[1e-7, 2e-6, 0.3], [0, 9e-7, 1.1e-6], [-1, -2, -3]], "float32")
MATCHES = [
    match_row("", NEAR, [2, 7]),
    match_row("by column", NEAR, [2, 7], 0.6),
    match_row("nothing near", FAR, [1, 1, 1]),
    match_row("an image without objects", NEAR, [4, 0, 5], 0.5),
    match_row("many objects", RNG.uniform(0, 1, (150, 60)).astype("float32"), [150], 0.9),
]


# ---------------------------------------------------------------------- targets
INDICES = np.array([[0, 1, -1, 0, -1, -1, 0], [-1, 2, -1, 0, 1, -1, 0]], "int32")
NEGATIVES = np.array([[2], [4], [0]], "int32")


def target_row(name: str, x: Any, negatives: bool, mismatch: int) -> Case:
    out = np.zeros((*INDICES.shape, x.shape[2]), x.dtype)
    weights = np.zeros((*INDICES.shape, 1), "float32")
    for image, prior in np.ndindex(*INDICES.shape):
        row = INDICES[image, prior]
        named = prior in ([2, 4], [0])[image]
        out[image, prior] = x[(0, 2)[image] + row, prior % x.shape[1]] if row >= 0 else mismatch
        weights[image, prior] = row >= 0 or (negatives and named)
    inputs = {"X": (x, [[2, 3]]), "MatchIndices": INDICES}
    if negatives:
        inputs["NegIndices"] = (NEGATIVES, [[2, 1]])
    return Case("target_assign", inputs, (out, weights), attrs={"mismatch_value": mismatch}, name=name)


CODES = RNG.uniform(-1, 1, (5, 7, 4)).astype("float32")
LABELS = RNG.randint(1, 9, (5, 1, 1)).astype("int32")
TARGETS = [
    target_row("codes", CODES, False, 0),
    target_row("labels", LABELS, True, 3),
    target_row("fewer columns", CODES[:, :2], False, 1),
    target_row("codes and negatives", CODES, True, 0),
]


# ---------------------------------------------------------------------- mining
LOSS = RNG.permutation(36).reshape(3, 12).astype("float32")
PLACES = RNG.permutation(36).reshape(3, 12).astype("float32") / 7
MATCHED = np.where(RNG.uniform(size=(3, 12)) < 0.25, RNG.randint(0, 3, (3, 12)), -1).astype("int32")
MATCHED[0] = -1  # an image without objects gives no negatives either
OVERLAPS = RNG.uniform(0, 1, (3, 12)).astype("float32")


def mined(ratio: float) -> tuple[list[Any], Any]:
    found = []
    for loss, matches, overlap in zip(LOSS, MATCHED, OVERLAPS, strict=True):
        free = [p for p in range(12) if matches[p] == -1 and overlap[p] < 0.5]
        count = int((matches >= 0).sum() * ratio)
        found.append(sorted(sorted(free, key=lambda p, loss=loss: -loss[p])[:count]))
    return found, MATCHED


def hardest(count: int) -> tuple[list[Any], Any]:
    found, matches = [], MATCHED.copy()
    for image in range(3):
        loss = LOSS[image] + PLACES[image]
        hard = sorted(range(12), key=lambda p, loss=loss: -loss[p])[:count]
        found.append(sorted(p for p in hard if MATCHED[image, p] == -1))
        matches[image, [p for p in range(12) if p not in hard]] = -1
    return found, matches


def mining_row(name: str, wanted: tuple[list[Any], Any], places: bool = False, **attrs: Any) -> Case:
    negatives, matches = wanted
    inputs = {"ClsLoss": LOSS, "MatchIndices": MATCHED, "MatchDist": OVERLAPS}
    return Case(
        "mine_hard_examples",
        {**inputs, "LocLoss": PLACES} if places else inputs,
        (np.array([[p] for part in negatives for p in part], "int32"), matches),
        attrs=attrs,
        lods={"NegIndices": [[len(part) for part in negatives]]},
        name=name,
    )


MINED = [
    mining_row("max_negative", mined(2.0), neg_pos_ratio=2.0, neg_dist_threshold=0.5),
    mining_row("half a negative", mined(1.5), neg_pos_ratio=1.5, neg_dist_threshold=0.5, places=True),
    mining_row("hard_example", hardest(5), places=True, mining_type="hard_example", sample_size=5),
    mining_row("all are hard", hardest(12), places=True, mining_type="hard_example", sample_size=20),
]

CASES = [*MATCHES, *TARGETS, *MINED]
