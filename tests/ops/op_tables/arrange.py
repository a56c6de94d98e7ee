"""Crops, diagonals, turns, grids, columns."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(7)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


I32 = np.int32
WINDOW = {"shape": [2, 2], "offsets": [1, 0]}

CASES = [
    Case("crop", {"X": f(3, 4)}, lambda X: X[1:3, :2], WINDOW, grad=["X"]),
    Case(
        "crop",
        {"X": f(3, 4), "Y": f(2, 3), "Offsets": np.array([0, 1], I32)},
        lambda X, **_: X[:2, 1:],
        grad=["X"],
        name="tensors",
    ),
    Case("crop_tensor", {"X": f(3, 4)}, lambda X: X[1:3, :2], WINDOW, grad=["X"]),
    Case(
        "crop_tensor",
        {"X": f(3, 4)},
        lambda X: X[1:, :2],
        {"shape": [-1, 2], "offsets": [1, 0]},
        grad=["X"],
        name="rest",
    ),
    Case(
        "crop_tensor",
        {
            "X": f(3, 4),
            "ShapeTensor": [np.array([2], I32), np.array([3], I32)],
            "OffsetsTensor": [np.array([1], I32), np.array([1], I32)],
        },
        lambda X, **_: X[1:3, 1:],
        {"shape": [0, 3], "offsets": [-1, 1]},
        grad=["X"],
        name="lists",
    ),
    Case(
        "crop_tensor",
        {"X": f(3, 4), "OffsetsTensor": [np.array([1], I32)]},
        lambda X, **_: X[1:3, :3],
        {"shape": [2, 3], "offsets": [-1, 1]},
        grad=["X"],
        name="the first offset alone",
    ),
    Case(
        "crop_tensor",
        {"X": f(3, 4), "Shape": np.array([2, 2], I32), "Offsets": np.array([1, 2], I32)},
        lambda X, **_: X[1:, 2:],
        grad=["X"],
        name="tensors",
    ),
    Case(
        "tril_triu", {"X": f(2, 3, 4)}, lambda X: np.tril(X, -1), {"lower": True, "diagonal": -1}, grad=["X"]
    ),
    Case(
        "tril_triu",
        {"X": f(3, 4)},
        lambda X: np.triu(X, 1),
        {"lower": False, "diagonal": 1},
        grad=["X"],
        name="upper",
    ),
    Case(
        "trace",
        {"Input": f(3, 4)},
        lambda Input: np.trace(Input).reshape(1),
        {"dim1": 0, "dim2": 1},
        grad=["Input"],
    ),
    Case(
        "trace",
        {"Input": f(2, 3, 4, 2)},
        lambda Input: np.trace(Input, 1, 1, 2),
        {"offset": 1, "dim1": 1, "dim2": -2},
        grad=["Input"],
        name="inside",
    ),
    Case("diag_embed", {"Input": f(2, 3)}, lambda Input: np.stack([np.diag(row) for row in Input])),
    Case(
        "diag_embed",
        {"Input": f(2, 3)},
        lambda Input: np.stack([np.diag(row, -2) for row in Input]).transpose(1, 0, 2),
        {"offset": -2, "dim1": 0, "dim2": 2},
        name="offset",
    ),
    Case("flip", {"X": f(2, 3)}, lambda X: X[::-1, ::-1], {"dims": [0, -1]}, grad=["X"]),
    Case(
        "roll",
        {"X": f(3, 4)},
        lambda X: np.roll(X, (1, -2), (0, 1)),
        {"shifts": [1, -2], "dims": [0, 1]},
        grad=["X"],
    ),
    Case(
        "meshgrid",
        {"X": [f(2), f(3)]},
        lambda X: {"Out": list(np.meshgrid(*X, indexing="ij"))},
        outputs={"Out": 2},
        grad=["X"],
    ),
    Case("unbind", {"X": f(2, 3)}, lambda X: {"Out": list(X.T)}, {"axis": 1}, outputs={"Out": 3}, grad=["X"]),
    Case(
        "partial_concat",
        {"X": [f(2, 4), f(2, 4)]},
        lambda X: np.concatenate([x[:, 1:3] for x in X], 1),
        {"start_index": 1, "length": 2},
        grad=["X"],
    ),
    Case(
        "partial_sum",
        {"X": [f(2, 4), f(2, 4)]},
        lambda X: (X[0] + X[1])[:, 2:],
        {"start_index": -2},
        grad=["X"],
    ),
]
