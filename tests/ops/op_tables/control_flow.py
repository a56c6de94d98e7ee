"""Rows for fluidlite.ops.compare, and for those of control_flow, array and debug that need no arrays or
blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(9)
A = RNG.randint(0, 4, (2, 3, 4)).astype("float32")
B = RNG.randint(0, 4, (2, 3, 4)).astype("float32")
INTS = RNG.randint(0, 3, (5,))
TRUTH, OTHER = A > 1, B > 1
ROWS = np.arange(6, dtype="float32").reshape(6, 1)
MASK = np.array([[True], [False], [True]])
PRINT = {
    "first_n": -1,
    "message": "",
    "summarize": 20,
    "print_tensor_name": True,
    "print_tensor_type": True,
    "print_tensor_shape": True,
    "print_tensor_lod": True,
}


def along(function: Any, axes: tuple[int, ...]) -> Any:
    """A reference that gives Y new dimensions at `axes`."""
    return lambda X, Y: function(X, np.expand_dims(Y, axes))


COMPARISONS = {
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}

CASES: list[Case] = [
    *(Case(op, {"X": A, "Y": B}, lambda X, Y, f=function: f(X, Y)) for op, function in COMPARISONS.items()),
    *(
        Case(op, {"X": INTS, "Y": INTS[::-1].copy()}, lambda X, Y, f=function: f(X, Y), name="int64")
        for op, function in COMPARISONS.items()
    ),
    Case(
        "less_than", {"X": A, "Y": B[0, :, 0].copy()}, along(np.less, (0, 2)), attrs={"axis": 1}, name="axis"
    ),
    Case("less_than", {"X": A, "Y": B[0, 0]}, lambda X, Y: X < Y, name="last"),
    Case("greater_equal", {"X": A, "Y": B[:, :1]}, lambda X, Y: X >= Y, name="ones"),
    Case(
        "equal",
        {"X": (ROWS, [[2, 4]]), "Y": np.array([3], "float32")},
        lambda X, Y: X == Y,
        lods={"Out": [[2, 4]]},
        name="lod",
    ),
    *(Case(op, {"X": TRUTH, "Y": OTHER}, lambda X, Y, f=function: f(X, Y)) for op, function in LOGIC.items()),
    Case("logical_and", {"X": TRUTH, "Y": OTHER[0]}, lambda X, Y: X & Y, name="broadcast", of_2x=True),
    Case("logical_not", {"X": TRUTH}, lambda X: ~X),
    Case("increment", {"X": np.array([3], "int64")}, lambda X: X + 2, attrs={"step": 2.0}),
    Case(
        "increment",
        {"X": np.array([3.5], "float32")},
        lambda X: X + np.float32(0.1),
        attrs={"step": 0.1},
        name="float32",
    ),
    Case("is_empty", {"X": A}, lambda X: np.array([False])),
    Case("is_empty", {"X": np.zeros((0, 3), "float32")}, lambda X: np.array([True]), name="empty"),
    Case("select_input", {"X": [A, B], "Mask": np.array([1], "int32")}, lambda X, Mask: X[1]),
    Case(
        "select_input", {"X": [A[0], B], "Mask": np.array([0], "int32")}, lambda X, Mask: X[0], name="first"
    ),
    Case("rnn_memory_helper", {"X": A}, lambda X: X, grad=["X"]),
    Case(
        "split_lod_tensor",
        {"X": A, "Mask": np.array([[False], [True]])},
        lambda X, Mask: (X[1:], X[:1]),
        grad=["X"],
        wants=["OutTrue", "OutFalse"],
    ),
    Case(
        "split_lod_tensor",
        {"X": (ROWS, [[1, 2, 3]]), "Mask": MASK},
        lambda X, Mask: (X[[0, 3, 4, 5]], X[1:3]),
        name="lod",
        lods={"OutTrue": [[1, 3]], "OutFalse": [[2]]},
        grad=["X"],
        wants=["OutTrue", "OutFalse"],
    ),
    Case(
        "split_lod_tensor",
        {"X": (ROWS, [[2, 1], [1, 2, 3]]), "Mask": MASK[:2]},
        lambda X, Mask: (X[:3], X[3:]),
        lods={"OutTrue": [[2], [1, 2]], "OutFalse": [[1], [3]]},
        name="two levels",
    ),
    Case(
        "split_lod_tensor",
        {"X": (ROWS, [[2, 1], [1, 2, 3]]), "Mask": MASK},
        lambda X, Mask: (X[[0, 3, 4, 5]], X[1:3]),
        lods={"OutTrue": [[1, 3]], "OutFalse": [[2]]},
        attrs={"level": 1},
        name="level 1",
    ),
    Case(
        "merge_lod_tensor",
        {"X": MASK, "Mask": MASK, "InTrue": ROWS[:2], "InFalse": ROWS[5:]},
        lambda X, Mask, InTrue, InFalse: np.stack([InTrue[0], InFalse[0], InTrue[1]]),
        grad=["InTrue", "InFalse"],
    ),
    Case(
        "merge_lod_tensor",
        {
            "X": (ROWS, [[1, 2, 3]]),
            "Mask": MASK,
            "InTrue": (ROWS[[0, 3, 4, 5]], [[1, 3]]),
            "InFalse": (ROWS[1:3], [[2]]),
        },
        lambda X, **parts: X,
        lods={"Out": [[1, 2, 3]]},
        name="lod",
    ),
    Case(
        "merge_lod_tensor_infer",
        {"X": MASK, "Mask": MASK, "InTrue": ROWS[:2], "InFalse": ROWS[5:]},
        lambda X, Mask, InTrue, InFalse: np.stack([InTrue[0], InFalse[0], InTrue[1]]),
    ),
    Case("print", {"In": A}, lambda In: In, attrs=PRINT, grad=["In"]),
]
