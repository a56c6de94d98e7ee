"""Rows for the fused pairs of ops: against the two ops one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(3)
FACTOR = 0.7


def floats(*shape: int) -> Any:
    """Random float32 numbers, none of them near zero, where relu has a corner."""
    return (RNG.uniform(0.3, 1.5, shape) * RNG.choice([-1, 1], shape)).astype("float32")


FUNCTIONS: dict[str, Any] = {
    "elementwise_add": np.add,
    "elementwise_mul": np.multiply,
    "scale": lambda x: FACTOR * x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def row(
    outer: str, inner: str, x: tuple[int, ...], y: tuple[int, ...], axis: int = -1, save: bool = True
) -> Case:
    """One pair of functions."""
    attrs = {"functor_list": [outer, inner], "axis": axis, "scale": FACTOR, "save_intermediate_out": save}

    def reference(X: Any, Y: Any) -> Any:
        f, g = FUNCTIONS[outer], FUNCTIONS[inner]
        placed = Y.reshape(Y.shape + (1,) * (X.ndim - Y.ndim - axis)) if axis >= 0 else Y
        if inner.startswith("elementwise"):
            out = {"Out": f(g(X, placed)), "IntermediateOut": g(X, placed)}
        else:
            out = {"Out": f(X, g(placed)), "IntermediateOut": g(Y)}
        return out if save else {"Out": out["Out"]}

    name = f"{outer} {inner} {list(x)} {list(y)}{'' if save else ' unsaved'}"
    inputs = {"X": floats(*x), "Y": floats(*y)}
    return Case("fused_elemwise_activation", inputs, reference, attrs, grad=["X", "Y"], name=name)


IDS = np.array([[1], [2], [2], [5], [0]])
TABLE = floats(6, 3)
ZEROED = TABLE * (np.arange(6) != 2)[:, None]
CASES = [
    row("elementwise_add", "relu", (2, 3, 4), (3,), axis=1),
    row("elementwise_add", "scale", (2, 3), (2, 3)),
    row("elementwise_mul", "tanh", (2, 3), (3,)),
    row("elementwise_mul", "sigmoid", (3,), (2, 3)),
    row("elementwise_mul", "scale", (2, 3), (3,), save=False),
    row("relu", "elementwise_add", (2, 3), (3,)),
    row("scale", "elementwise_add", (3,), (2, 3)),
    row("tanh", "elementwise_add", (2, 3), (2, 3), save=False),
    row("sigmoid", "elementwise_mul", (2, 3, 4), (3,), axis=1),
    *(
        Case(
            "fused_embedding_seq_pool",
            {"W": TABLE, "Ids": (IDS, [[3, 0, 2]])},
            np.stack([table[[1, 2, 2]].sum(0), np.zeros(3), table[[5, 0]].sum(0)]).astype("float32"),
            {"padding_idx": padding, "is_sparse": is_sparse},
            grad=["W"],
            name=f"padding {padding}{' sparse' if is_sparse else ''}",
        )
        for padding, table in ((-1, TABLE), (2, ZEROED))
        for is_sparse in (False, True)
    ),
]
