"""Rows for fluidlite.ops.reduce."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(3)
X = RNG.uniform(0.5, 2.0, (2, 3, 4)).astype("float32")
PERMUTED = (RNG.permutation(24).reshape(2, 3, 4) * 0.1).astype("float32")
INTS = np.array([[-1, -2, -4], [-4, 5, 2]], "int64")


def over(function: Any, axis: Any, keepdims: bool = False) -> Any:
    """A reference: `function` over `axis`, at least of shape [1]."""
    return lambda X: np.atleast_1d(function(X, axis=axis, keepdims=keepdims))


CASES: list[Case] = [
    Case("reduce_sum", {"X": X}, over(np.sum, 0), grad=["X"], name="default"),
    Case("reduce_sum", {"X": X}, over(np.sum, 2), attrs={"dim": [-1]}, grad=["X"], name="last"),
    Case(
        "reduce_sum",
        {"X": X},
        over(np.sum, (0, 2), True),
        attrs={"dim": [0, -1], "keep_dim": True},
        grad=["X"],
        name="keep",
    ),
    Case("reduce_sum", {"X": X}, over(np.sum, None), attrs={"reduce_all": True}, grad=["X"], name="all"),
    Case(
        "reduce_sum",
        {"X": X},
        over(np.sum, None, True),
        attrs={"reduce_all": True, "keep_dim": True},
        name="all keep",
    ),
    Case("reduce_sum", {"X": X}, over(np.sum, None), attrs={"dim": [0, 1, 2]}, name="each"),
    Case("reduce_sum", {"X": INTS}, over(np.sum, 1), attrs={"dim": [1]}, name="int64"),
    Case(
        "reduce_sum",
        {"X": INTS.astype("int32")},
        lambda X: X.sum(1, dtype="int32"),
        attrs={"dim": [1]},
        name="int32",
    ),
    Case(
        "reduce_sum",
        {"X": (X.reshape(6, 4), [[2, 4]])},
        over(np.sum, 1, True),
        attrs={"dim": [1], "keep_dim": True},
        lods={"Out": [[2, 4]]},
        grad=["X"],
        name="lod",
    ),
    Case(
        "reduce_sum", {"X": (X.reshape(6, 4), [[2, 4]])}, over(np.sum, 0), lods={"Out": []}, name="lod lost"
    ),
    Case("reduce_mean", {"X": X}, over(np.mean, (1, 2)), attrs={"dim": [1, 2]}, grad=["X"]),
    Case("reduce_mean", {"X": X}, over(np.mean, None), attrs={"reduce_all": True}, grad=["X"], name="all"),
    Case("reduce_mean", {"X": INTS}, lambda X: np.array([-2, 1, -1]), name="ints towards zero"),
    Case("reduce_max", {"X": PERMUTED}, over(np.max, 1), attrs={"dim": [1]}, grad=["X"]),
    Case(
        "reduce_max", {"X": PERMUTED}, over(np.max, None), attrs={"reduce_all": True}, grad=["X"], name="all"
    ),
    Case(
        "reduce_min",
        {"X": PERMUTED},
        over(np.min, -1, True),
        attrs={"dim": [2], "keep_dim": True},
        grad=["X"],
    ),
    Case("reduce_prod", {"X": X}, over(np.prod, 1), attrs={"dim": [1]}, grad=["X"]),
    Case(
        "reduce_prod", {"X": X[:1]}, over(np.prod, None), attrs={"reduce_all": True}, grad=["X"], name="all"
    ),
    Case("reduce_all", {"X": X > 1}, over(np.all, 1), attrs={"dim": [1]}),
    Case("reduce_any", {"X": X > 1.5}, over(np.any, 2, True), attrs={"dim": [2], "keep_dim": True}),
    Case(
        "frobenius_norm", {"X": X}, lambda X: np.sqrt((X * X).sum((1, 2))), attrs={"dim": [1, 2]}, grad=["X"]
    ),
    Case("mean", {"X": X}, over(np.mean, None), grad=["X"]),
    Case("logsumexp", {"X": X}, lambda X: np.log(np.exp(X).sum((1, 2))), attrs={"axis": [1, -1]}, grad=["X"]),
    Case(
        "logsumexp",
        {"X": X},
        lambda X: np.log(np.exp(X).sum())[None],
        attrs={"reduce_all": True},
        grad=["X"],
        name="all",
    ),
]
