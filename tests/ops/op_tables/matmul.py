"""Rows for fluidlite.ops.matmul."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(11)


def values(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def matmul(
    name: str, x: tuple[int, ...], y: tuple[int, ...], tx: bool = False, ty: bool = False, alpha: float = 1.0
) -> Case:
    """A row whose reference swaps the last two dimensions as told."""

    def reference(X: Any, Y: Any) -> Any:
        a = X[None] if X.ndim == 1 else X
        b = Y[:, None] if Y.ndim == 1 else Y
        out = np.matmul(a.swapaxes(-1, -2) if tx else a, b.swapaxes(-1, -2) if ty else b) * np.float32(alpha)
        if Y.ndim == 1 and out.shape[-1] == 1:
            out = out.squeeze(-1)
        if X.ndim == 1 and not tx:
            out = out.squeeze(-2 if Y.ndim > 1 or ty else -1)
        return np.atleast_1d(out)

    return Case(
        "matmul",
        {"X": values(*x), "Y": values(*y)},
        reference,
        grad=["X", "Y"],
        name=name,
        attrs={"transpose_X": tx, "transpose_Y": ty, "alpha": alpha},
    )


def heads(name: str, x: tuple[int, ...], y: tuple[int, ...], ty: bool = False) -> Case:
    """A row of two heads: X cut by columns, Y by rows, or by columns where it has the rows of one head."""

    def reference(X: Any, Y: Any) -> Any:
        right = Y.swapaxes(-1, -2) if ty else Y
        by_rows = right.shape[-2] == X.shape[-1]
        parts = zip(np.split(X, 2, -1), np.split(right, 2, -2 if by_rows else -1), strict=True)
        return np.concatenate([np.matmul(a, b) for a, b in parts], -1)

    return Case(
        "matmul",
        {"X": values(*x), "Y": values(*y)},
        reference,
        {"head_number": 2, "transpose_Y": ty},
        grad=["X", "Y"],
        name=name,
    )


CASES: list[Case] = [
    heads("heads by rows", (2, 4), (4, 3)),
    heads("heads by rows, turned", (2, 3, 4), (2, 5, 4), ty=True),
    heads("heads by columns", (2, 3, 4), (2, 2, 6)),
    Case("mul", {"X": values(3, 4), "Y": values(4, 5)}, lambda X, Y: X @ Y, grad=["X", "Y"]),
    Case(
        "mul",
        {"X": values(2, 3, 2, 2), "Y": values(2, 2, 5, 2)},
        lambda X, Y: np.tensordot(X, Y, 2),
        grad=["X", "Y"],
        attrs={"x_num_col_dims": 2, "y_num_col_dims": 2},
        name="cols",
    ),
    Case(
        "mul",
        {"X": (values(3, 4), [[1, 2]]), "Y": values(4, 5)},
        lambda X, Y: X @ Y,
        lods={"Out": [[1, 2]]},
        name="lod",
    ),
    matmul("matrices", (3, 4), (4, 5)),
    matmul("turned", (4, 3), (5, 4), True, True, 0.5),
    matmul("stacks", (2, 3, 4), (2, 4, 5)),
    matmul("stacks turned left", (2, 4, 3), (2, 4, 5), True),
    matmul("stacks turned right", (2, 3, 4), (2, 5, 4), False, True, 2.0),
    matmul("stack by matrix", (2, 3, 4), (4, 5)),
    matmul("turned stack by matrix", (2, 4, 3), (4, 5), True),
    matmul("matrix by stack", (3, 4), (2, 4, 5)),
    matmul("deep", (2, 3, 4, 5), (2, 3, 5, 2)),
    matmul("vectors", (4,), (4,)),
    matmul("outer", (3,), (4,), True, True),
    matmul("matrix by vector", (3, 4), (4,)),
    matmul("vector by matrix", (4,), (4, 3)),
    matmul("stack by vector", (2, 3, 4), (4,)),
    matmul("vector by stack", (4,), (2, 4, 3)),
    Case(
        "matmul",
        {"X": np.full((2, 2, 3), np.nan, "float32"), "Y": values(2, 3, 4)},
        np.zeros((2, 2, 4), "float32"),
        {"alpha": 0.0},
        name="product without a part",
    ),
    Case(
        "matmul",
        {"X": values(2, 3, 2, 4), "Y": values(6, 4, 2)},
        grad=["X", "Y"],
        name="regrouped",
        expect=lambda X, Y: (X.reshape(6, 2, 4) @ Y).reshape(2, 3, 2, 2),
    ),
    Case(
        "matmul_v2",
        {"X": values(2, 1, 3, 4), "Y": values(3, 5, 4)},
        lambda X, Y: X @ Y.swapaxes(1, 2),
        grad=["X", "Y"],
        attrs={"trans_y": True},
    ),
    Case(
        "matmul_v2",
        {"X": values(2, 3, 4), "Y": values(4)},
        lambda X, Y: X @ Y,
        grad=["X", "Y"],
        name="vector",
    ),
    Case("bmm", {"X": values(2, 3, 4), "Y": values(2, 4, 5)}, lambda X, Y: X @ Y, grad=["X", "Y"]),
    Case("mv", {"X": values(3, 4), "Vec": values(4)}, lambda X, Vec: X @ Vec, grad=["X", "Vec"]),
    Case(
        "dot",
        {"X": values(3, 4), "Y": values(3, 4)},
        lambda X, Y: (X * Y).sum(1, keepdims=True),
        grad=["X", "Y"],
    ),
    Case(
        "dot",
        {"X": values(4), "Y": values(4)},
        lambda X, Y: (X * Y).sum(keepdims=True),
        grad=["X", "Y"],
        name="vectors",
    ),
    Case(
        "bilinear_tensor_product",
        {"X": values(3, 4), "Y": values(3, 2), "Weight": values(5, 4, 2), "Bias": values(1, 5)},
        lambda X, Y, Weight, Bias: np.einsum("ni,kij,nj->nk", X, Weight, Y) + Bias,
        grad=["X", "Y", "Weight", "Bias"],
    ),
    Case(
        "bilinear_tensor_product",
        {"X": values(3, 4), "Y": values(3, 2), "Weight": values(5, 4, 2)},
        lambda X, Y, Weight: np.einsum("ni,kij,nj->nk", X, Weight, Y),
        grad=["X", "Y", "Weight"],
        name="no bias",
    ),
]
