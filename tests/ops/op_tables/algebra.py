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


def einsum(equation: str, *shapes: tuple[int, ...]) -> Case:
    return Case(
        "einsum",
        {"Operands": [f(*shape) for shape in shapes]},
        lambda Operands: np.einsum(equation, *Operands),
        {"equation": equation},
        grad=["Operands"],
        name=equation.replace(",", " ").replace("...", "_"),
        of_2x=True,
    )


EQUATIONS = [
    einsum("ij,jk->ik", (2, 3), (3, 4)),
    einsum("bij,bjk->kbi", (2, 3, 4), (2, 4, 2)),
    einsum("i,j->ji", (2,), (3,)),
    einsum("ijj->j", (2, 3, 3)),
    einsum("ijk,lji->lk", (2, 3, 4), (5, 3, 2)),
    einsum("ij,k->k", (2, 3), (4,)),
    einsum("...ij,...jk->...ik", (5, 1, 2, 3), (2, 3, 4)),
    einsum("...i->i...", (2, 1, 3)),
    einsum("a...,b...->...ab", (2, 1), (3, 1)),
    einsum("iij,jjk->ik", (2, 2, 3), (3, 3, 2)),
    einsum("ij,jk,lk,i->il", (2, 3), (3, 4), (2, 4), (2,)),
]
ENCODING = {"alpha": 0.7, "beta": 0.3}
CASES = [
    *EQUATIONS,
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
    Case(
        "addmm",
        {"Input": np.full((2, 4), np.inf, "float32"), "X": f(2, 3), "Y": f(3, 4)},
        lambda Input, X, Y: 2 * (X @ Y),
        {"Alpha": 2.0, "Beta": 0.0},
        name="input without a part",
    ),
    Case(
        "addmm",
        {"Input": f(1, 4), "X": np.full((2, 3), np.nan, "float32"), "Y": f(3, 4)},
        lambda Input, X, Y: np.concatenate([Input, Input]),
        {"Alpha": 0.0},
        name="product without a part",
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
