"""Rows for spp and conv_shift; the references go element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(43)


def pyramid(X: Any, levels: int, mean: bool) -> Any:
    parts = []
    for level in range(levels):
        bins = 2**level
        out = np.zeros((*X.shape[:2], bins, bins))
        for p, q in np.ndindex(bins, bins):
            sides = []
            for number, size in ((p, X.shape[2]), (q, X.shape[3])):
                length = math.ceil(size / bins)
                start = number * length - (length * bins - size + 1) // 2
                sides.append(slice(max(start, 0), min(start + length, size)))
            part = X[:, :, sides[0], sides[1]]
            out[:, :, p, q] = part.mean(axis=(2, 3)) if mean else part.max(axis=(2, 3))
        parts.append(out.reshape(len(X), -1))
    return np.concatenate(parts, axis=1)


def pooled(kind: str, *shape: int) -> Case:
    image = (RNG.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1).astype("float32")
    return Case(
        "spp",
        {"X": image},
        lambda X: pyramid(X, 3, kind == "avg"),
        {"pyramid_height": 3, "pooling_type": kind},
        grad=["X"],
        name=kind,
    )


def turned(X: Any, Y: Any) -> Any:
    out = np.zeros_like(X)
    half = Y.shape[1] // 2
    for row, place, tap in np.ndindex(*X.shape, Y.shape[1]):
        out[row, place] += X[row, (place + tap - half) % X.shape[1]] * Y[row, tap]
    return out


ROWS = RNG.uniform(-1, 1, (3, 7)).astype("float32")
TAPS = RNG.uniform(-1, 1, (3, 5)).astype("float32")
CASES = [
    pooled("max", 2, 2, 7, 8),
    pooled("avg", 2, 2, 7, 8),
    pooled("max", 1, 2, 4, 11),
    Case("conv_shift", {"X": ROWS, "Y": TAPS}, turned, grad=["X", "Y"]),
    Case("conv_shift", {"X": (ROWS, [[1, 2]]), "Y": TAPS}, turned, lods={"Out": [[1, 2]]}, name="sequences"),
    Case("conv_shift", {"X": ROWS, "Y": ROWS}, turned, grad=["X", "Y"], name="as wide"),
]
