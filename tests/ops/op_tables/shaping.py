"""Reshape and its like, concat, split, stack, expand, and values from attributes."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(2)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


CASES = []
for _version in ("", "2"):
    _ignore = ["XShape"] if _version else []
    CASES += [
        Case(
            "reshape" + _version,
            {"X": f(2, 6)},
            lambda X: X.reshape(2, 3, 2),
            {"shape": [0, 3, -1]},
            grad=["X"],
            ignore=_ignore,
        ),
        Case(
            "squeeze" + _version,
            {"X": f(2, 1, 3, 1)},
            lambda X: X.reshape(2, 3, 1),
            {"axes": [1]},
            grad=["X"],
            ignore=_ignore,
        ),
        Case(
            "squeeze" + _version,
            {"X": f(2, 1, 3, 1)},
            lambda X: X.reshape(2, 3),
            grad=["X"],
            ignore=_ignore,
            name="all",
        ),
        Case(
            "unsqueeze" + _version,
            {"X": f(2, 3)},
            lambda X: X.reshape(1, 2, 3, 1),
            {"axes": [0, -1]},
            grad=["X"],
            ignore=_ignore,
        ),
        Case(
            "flatten" + _version,
            {"X": f(2, 3, 4)},
            lambda X: X.reshape(6, 4),
            {"axis": 2},
            grad=["X"],
            ignore=_ignore,
        ),
        Case(
            "transpose" + _version,
            {"X": f(2, 3, 4)},
            lambda X: X.transpose(2, 0, 1),
            {"axis": [2, 0, 1]},
            grad=["X"],
            ignore=_ignore,
        ),
    ]
CASES += [
    Case(
        "concat", {"X": [f(2, 3), f(2, 1), f(2, 2)]}, lambda X: np.concatenate(X, 1), {"axis": 1}, grad=["X"]
    ),
    Case(
        "concat",
        {"X": [f(2, 3), f(1, 3)]},
        lambda X: np.concatenate(X, 0),
        {"axis": -2},
        grad=["X"],
        name="negative",
    ),
    Case(
        "split",
        {"X": f(2, 6)},
        lambda X: {"Out": np.split(X, 3, 1)},
        {"num": 3, "axis": 1},
        outputs={"Out": 3},
        grad=["X"],
    ),
    Case(
        "split",
        {"X": f(2, 6)},
        lambda X: {"Out": np.split(X, [1, 3], 1)},
        {"sections": [1, 2, -1], "axis": 1},
        outputs={"Out": 3},
        grad=["X"],
        name="sections",
    ),
    Case(
        "split",
        {"X": (f(5, 2), [[2, 3]])},
        lambda X: {"Out": np.split(X, 2, 1)},
        {"num": 2, "axis": 1},
        outputs={"Out": 2},
        lods={"Out": [[2, 3]]},
        name="sequences",
    ),
    Case(
        "concat",
        {"X": [(f(5, 2), [[2, 3]]), (f(3, 2), [[1, 2]])]},
        lambda X: np.concatenate(X),
        lods={"Out": [[2, 3, 1, 2]]},
        grad=["X"],
        name="sequences",
    ),
    Case(
        "concat",
        {"X": [f(2, 3), f(2, 3)], "AxisTensor": np.array([1], "int32")},
        lambda X, AxisTensor: np.concatenate(X, 1),
        name="tensor",
    ),
    Case(
        "reshape2",
        {"X": (f(6, 4), [[2, 4]])},
        lambda X: X.reshape(6, 2, 2),
        {"shape": [0, 2, -1]},
        lods={"Out": [[2, 4]]},
        grad=["X"],
        ignore=["XShape"],
        name="sequences",
    ),
    Case(
        "reshape2",
        {"X": (f(6, 4), [[2, 4]])},
        lambda X: X.reshape(4, 6),
        {"shape": [4, 6]},
        lods={"Out": []},
        ignore=["XShape"],
        name="no sequences",
    ),
    Case(
        "reshape2",
        {"X": f(2, 6), "ShapeTensor": [np.array([3], "int32"), np.array([-1], "int32")]},
        lambda X, ShapeTensor: X.reshape(3, 4),
        {"shape": [-1, -1]},
        grad=["X"],
        ignore=["XShape"],
        name="tensors",
    ),
    Case(
        "transpose2",
        {"X": (f(6, 4), [[2, 4]])},
        lambda X: X.T,
        {"axis": [1, 0]},
        lods={"Out": []},
        ignore=["XShape"],
        name="sequences",
    ),
    Case(
        "unsqueeze2",
        {"X": f(2, 3), "AxesTensor": np.array([0, 2], "int32")},
        lambda X, AxesTensor: X.reshape(1, 2, 1, 3),
        grad=["X"],
        ignore=["XShape"],
        name="tensor",
    ),
    Case(
        "expand",
        {"X": (f(3, 2), [[1, 2]])},
        lambda X: np.tile(X, (1, 2)),
        {"expand_times": [1, 2]},
        lods={"Out": [[1, 2]]},
        name="sequences",
    ),
    Case("stack", {"X": [f(2, 3), f(2, 3)]}, lambda X: np.stack(X, 1), {"axis": 1}, grad=["X"]),
    Case(
        "unstack",
        {"X": f(3, 2)},
        lambda X: {"Y": list(X)},
        {"axis": 0, "num": 3},
        outputs={"Y": 3},
        grad=["X"],
    ),
    Case(
        "expand", {"X": f(2, 1, 3)}, lambda X: np.tile(X, (2, 3, 1)), {"expand_times": [2, 3, 1]}, grad=["X"]
    ),
    Case(
        "expand_as",
        {"X": f(2, 1), "target_tensor": f(4, 3)},
        lambda X, target_tensor: np.tile(X, (2, 3)),
        grad=["X"],
    ),
    Case("tile", {"X": f(2, 1)}, lambda X: np.tile(X, (3, 1, 2)), {"repeat_times": [3, 1, 2]}, grad=["X"]),
    Case(
        "tile",
        {"X": f(2, 2, 1)},
        lambda X: np.tile(X, (2, 3)),
        {"repeat_times": [2, 3]},
        grad=["X"],
        name="fewer",
    ),
    Case(
        "expand_v2",
        {"X": f(2, 1)},
        lambda X: np.broadcast_to(X, (3, 2, 4)),
        {"shape": [3, -1, 4]},
        grad=["X"],
    ),
    Case(
        "expand_v2",
        {"X": f(2, 1), "Shape": np.array([2, 3], "int32")},
        lambda X, Shape: np.broadcast_to(X, (2, 3)),
        grad=["X"],
        name="tensor",
    ),
    Case("expand_as_v2", {"X": f(1, 3), "Y": f(2, 3)}, lambda X, Y: np.broadcast_to(X, (2, 3)), grad=["X"]),
    Case("shape", {"Input": f(2, 3)}, lambda Input: np.array([2, 3], "int32")),
    Case(
        "flatten_contiguous_range",
        {"X": f(2, 3, 4)},
        lambda X: X.reshape(2, 12),
        {"start_axis": 1, "stop_axis": 2},
        grad=["X"],
        ignore=["XShape"],
    ),
    Case("size", {"Input": f(2, 3)}, lambda Input: np.array([6])),
    Case("fill_constant", {}, np.full((2, 3), 1.5, "float32"), {"shape": [2, 3], "value": 1.5}),
    Case(
        "fill_constant",
        {},
        np.full((2,), 7, "int64"),
        {"shape": [2], "str_value": "7", "dtype": 3},
        name="int64",
    ),
    Case(
        "fill_constant",
        {"ShapeTensor": np.array([2, 3], "int32")},
        lambda ShapeTensor: np.full((2, 3), 2, "float32"),
        {"value": 2.0},
        name="tensor",
    ),
    Case(
        "fill_constant_batch_size_like",
        {"Input": f(4, 3)},
        lambda Input: np.full((4, 2), 3, "float32"),
        {"shape": [-1, 2], "value": 3.0},
    ),
    Case(
        "fill_constant",
        {},
        np.full((2,), 2**40 + 1, "int64"),
        {"shape": [2], "str_value": str(2**40 + 1), "dtype": 3},
        name="large",
    ),
    Case("fill_constant", {}, np.zeros(2, bool), {"shape": [2], "str_value": "0.0", "dtype": 0}, name="bool"),
    Case(
        "fill_constant",
        {"ValueTensor": np.array([3], "float32")},
        lambda ValueTensor: np.full(2, 3, "int32"),
        {"shape": [2], "dtype": 2},
        name="value tensor",
    ),
    Case(
        "fill_constant",
        {"ShapeTensorList": [np.array([2], "int32"), np.array([3], "int64")]},
        np.full((2, 3), 2, "float32"),
        {"shape": [2, -1], "value": 2.0},
        name="tensors",
    ),
    Case(
        "fill_constant_batch_size_like",
        {"Input": (f(5, 3), [[2, 3]])},
        np.full((2, 4), 3, "int64"),
        {"shape": [-1, 4], "value": 3.0, "dtype": 3},
        lods={"Out": []},
        name="sequences",
    ),
    Case("fill_zeros_like2", {"X": f(2, 3)}, np.zeros((2, 3), "float64"), {"dtype": 6}),
    Case(
        "fill",
        {},
        np.array([[1, 2], [3, 4]], "int64"),
        {"value": [1.0, 2.0, 3.0, 4.0], "shape": [2, 2], "dtype": 3},
    ),
    Case("fill_zeros_like", {"X": f(2, 3)}, lambda X: np.zeros_like(X)),
    Case("fill_any_like", {"X": f(2, 3)}, lambda X: np.full_like(X, 2), {"value": 2.0}),
    Case(
        "assign_value",
        {},
        np.array([[1, 2]], "float32"),
        {"shape": [1, 2], "dtype": 5, "fp32_values": [1.0, 2.0]},
    ),
    Case(
        "range",
        {"Start": np.array([1], "int64"), "End": np.array([7], "int64"), "Step": np.array([2], "int64")},
        lambda **_: np.arange(1, 7, 2),
    ),
    Case(
        "linspace",
        {"Start": np.array([0], "float32"), "Stop": np.array([1], "float32"), "Num": np.array([5], "int32")},
        lambda **_: np.linspace(0, 1, 5, dtype="float32"),
    ),
    Case("eye", {}, np.eye(2, 3, dtype="float32"), {"num_rows": 2, "num_columns": 3}),
    Case("diag", {"Diagonal": f(3)}, lambda Diagonal: np.diag(Diagonal)),
]
