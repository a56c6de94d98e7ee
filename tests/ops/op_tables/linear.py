"""Systems of linear equations and decompositions of matrices, ops of PaddlePaddle 2.x."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case
from scipy import linalg

rng = np.random.RandomState(32)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


A = f(2, 3, 3) + 2 * np.eye(3, dtype="float32")
S = A @ A.swapaxes(-1, -2)
B, V, TALL, WIDE = f(2, 3, 2), f(3), f(4, 3), f(2, 3)
EVEN = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
LOOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def _parts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    packed, places = linalg.lu_factor(X)
    return packed, (places + 1).astype("int32")


PACKED, PIVOTS = _parts(A[0])

CASES = [
    Case("determinant", {"Input": A}, lambda Input: np.linalg.det(Input), grad=["Input"], **LOOSE),
    Case(
        "slogdeterminant",
        {"Input": -A},
        lambda Input: np.stack(np.linalg.slogdet(Input)),
        grad=["Input"],
        **LOOSE,
    ),
    Case("solve", {"X": A, "Y": B}, lambda X, Y: np.linalg.solve(X, Y), grad=["X", "Y"], **LOOSE),
    Case(
        "solve",
        {"X": A[0], "Y": V},
        lambda X, Y: np.linalg.solve(X, Y),
        grad=["X", "Y"],
        name="vector",
        **LOOSE,
    ),
    Case(
        "solve",
        {"X": A, "Y": B[0]},
        lambda X, Y: np.linalg.solve(X, Y),
        grad=["X", "Y"],
        name="one right side",
        **LOOSE,
    ),
    Case(
        "triangular_solve",
        {"X": A, "Y": B},
        lambda X, Y: np.linalg.solve(np.triu(X), Y),
        grad=["X", "Y"],
        **LOOSE,
    ),
    Case(
        "triangular_solve",
        {"X": A, "Y": B},
        lambda X, Y: np.linalg.solve((np.tril(X, -1) + np.eye(3)).swapaxes(-1, -2), Y),
        {"upper": False, "transpose": True, "unitriangular": True},
        grad=["X", "Y"],
        name="lower, transposed, ones",
        **LOOSE,
    ),
    Case(
        "cholesky_solve",
        {"X": B, "Y": np.tril(A)},
        lambda X, Y: np.linalg.solve(Y @ Y.swapaxes(-1, -2), X),
        grad=["X", "Y"],
        **LOOSE,
    ),
    Case(
        "cholesky_solve",
        {"X": B[0], "Y": np.triu(A[0])},
        lambda X, Y: np.linalg.solve(Y.T @ Y, X),
        {"upper": True},
        grad=["X", "Y"],
        name="upper",
        **LOOSE,
    ),
    Case(
        "lstsq",
        {"X": TALL, "Y": f(4, 2)},
        lambda X, Y: np.linalg.lstsq(X, Y, rcond=None),
        {"rcond": 1e-7, "driver": "gelsd"},
        **LOOSE,
    ),
    Case(
        "lstsq",
        {"X": EVEN, "Y": EVEN @ np.array([[2.0], [0.5]])},
        # singular values are 3 ** 0.5 and 1, which counts as none: what is along [1, 1] stays
        lambda X, Y: (np.full((2, 1), 1.25), np.full(1, 1.125), np.array(1, "int32"), np.array([3**0.5, 1])),
        {"rcond": 0.6, "driver": "gelsd"},
        name="cut off",
        **LOOSE,
    ),
    Case(
        "lstsq",
        {"X": WIDE, "Y": f(2, 1)},
        lambda X, Y: (np.linalg.pinv(X) @ Y, np.zeros(0, "float32"), np.array(2, "int32")),
        {"rcond": 1e-7},
        ignore=["SingularValues"],
        name="wide",
        **LOOSE,
    ),
    Case("matrix_power", {"X": A}, lambda X: np.linalg.matrix_power(X, 3), {"n": 3}, grad=["X"], **LOOSE),
    Case("matrix_power", {"X": A}, lambda X: np.linalg.matrix_power(X, -2), {"n": -2}, grad=["X"], **LOOSE),
    Case(
        "multi_dot",
        {"X": [V, A[0], TALL.T, f(4)]},
        lambda X: np.asarray(np.linalg.multi_dot(X)),
        grad=["X"],
        **LOOSE,
    ),
    Case("multi_dot", {"X": [f(1, 3), f(3, 2)]}, lambda X: X[0] @ X[1], grad=["X"], name="two"),
    Case("matrix_rank", {"X": S}, {"Out": np.array([3, 3], "int32")}),
    Case(
        "matrix_rank",
        {"X": np.diag([1, 0.5, 0.1]).astype("float32")},
        {"Out": np.array(2, "int32")},
        {"use_default_tol": False, "tol": 0.2, "hermitian": True},
    ),
    Case("qr", {"X": TALL}, lambda X: tuple(np.linalg.qr(X)), grad=["X"], wants=["Q", "R"], **LOOSE),
    Case("qr", {"X": WIDE}, lambda X: tuple(np.linalg.qr(X)), grad=["X"], wants=["R", "Q"], name="wide"),
    Case("qr", {"X": A}, lambda X: tuple(np.linalg.qr(X)), grad=["X"], wants=["R"], name="batch", **LOOSE),
    Case("qr", {"X": TALL}, lambda X: {"R": np.linalg.qr(X, "r")}, {"mode": "r"}, name="r"),
    Case(
        "svd",
        {"X": TALL},
        lambda X: tuple(np.linalg.svd(X, full_matrices=False)),
        grad=["X"],
        wants=["U", "S", "VH"],
        **LOOSE,
    ),
    Case(
        "svd",
        {"X": WIDE},
        lambda X: tuple(np.linalg.svd(X, full_matrices=False)),
        grad=["X"],
        wants=["S", "VH"],
        name="wide",
        **LOOSE,
    ),
    Case("svd", {"X": WIDE}, lambda X: tuple(np.linalg.svd(X)), {"full_matrices": True}, name="full"),
    Case("eigh", {"X": S}, lambda X: tuple(np.linalg.eigh(X)), **LOOSE),
    Case("eigvalsh", {"X": S}, lambda X: tuple(np.linalg.eigh(X, "U")), {"UPLO": "U"}, **LOOSE),
    Case("lu", {"X": A[1]}, lambda X: (*_parts(X), np.zeros(1, "int32")), grad=["X"], **LOOSE),
    Case(
        "lu_unpack",
        {"X": PACKED, "Pivots": PIVOTS},
        lambda X, Pivots: linalg.lu(A[0]),
        grad=["X"],
        wants=["L", "U"],
        **LOOSE,
    ),
]
