"""Kronecker and cross products, addmm, inverses, position encodings."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(8)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(0.5, 1.5, shape).astype("float32")


def _symmetric(n: int) -> np.ndarray:
    x = f(n, n)
    return (x @ x.T + np.eye(n)).astype("float32")


def _encoded(steps: list[int], X: np.ndarray) -> np.ndarray:
    half = X.shape[-1] // 2
    angle = np.array(steps)[:, None] / 10000 ** (np.arange(half) / (half - 1))
    return 0.7 * X + 0.3 * np.concatenate((np.sin(angle), np.cos(angle)), 1)


ENCODING = {"alpha": 0.7, "beta": 0.3}
CASES = [
    Case("kron", {"X": f(2, 3), "Y": f(3, 2)}, lambda X, Y: np.kron(X, Y), grad=["X", "Y"]),
    Case("kron", {"X": f(3), "Y": f(2, 2)}, lambda X, Y: np.kron(X, Y), grad=["X", "Y"], name="ranks"),
    Case("cross", {"X": f(2, 3), "Y": f(2, 3)}, lambda X, Y: np.cross(X, Y), grad=["X", "Y"]),
    Case(
        "cross",
        {"X": f(3, 3), "Y": f(3, 3)},
        lambda X, Y: np.cross(X, Y, axis=0),
        grad=["X", "Y"],
        name="first of three",
    ),
    Case(
        "cross",
        {"X": f(3, 3), "Y": f(3, 3)},
        lambda X, Y: np.cross(X, Y, axis=1),
        {"dim": 1},
        grad=["X", "Y"],
        name="dim",
    ),
    Case(
        "addmm",
        {"Input": f(2, 4), "X": f(2, 3), "Y": f(3, 4)},
        lambda Input, X, Y: 0.5 * Input + 2 * (X @ Y),
        {"Alpha": 2.0, "Beta": 0.5},
        grad=["Input", "X", "Y"],
    ),
    Case(
        "addmm",
        {"Input": f(1, 4), "X": f(2, 3), "Y": f(3, 4)},
        lambda Input, X, Y: Input + X @ Y,
        grad=["Input", "X", "Y"],
        name="row",
    ),
    Case("inverse", {"Input": _symmetric(3)}, lambda Input: np.linalg.inv(Input), grad=["Input"], rtol=1e-4),
    Case("cholesky", {"X": _symmetric(3)}, lambda X: np.linalg.cholesky(X)),
    Case("cholesky", {"X": _symmetric(3)}, lambda X: np.linalg.cholesky(X).T, {"upper": True}, name="upper"),
    Case("add_position_encoding", {"X": f(2, 3, 4)}, lambda X: _encoded([0, 1, 2], X), ENCODING, grad=["X"]),
    Case(
        "add_position_encoding",
        {"X": (f(5, 4), [[2, 3]])},
        lambda X: _encoded([0, 1, 0, 1, 2], X),
        ENCODING,
        lods={"Out": [[2, 3]]},
        grad=["X"],
        name="sequences",
    ),
]
