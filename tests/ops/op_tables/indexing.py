"""Slices, gather, scatter, order."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(3)


def f(*shape: int) -> np.ndarray:
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32") / 7


def _scattered(X: np.ndarray, Ids: np.ndarray, Updates: np.ndarray) -> np.ndarray:
    out = X.copy()
    out[Ids] = 0
    np.add.at(out, Ids, Updates)
    return out


def _overwritten(X: np.ndarray, Ids: np.ndarray, Updates: np.ndarray) -> np.ndarray:
    out = X.copy()
    out[Ids] = Updates
    return out


def _added(X: np.ndarray, Index: np.ndarray, Updates: np.ndarray) -> np.ndarray:
    out = X.copy()
    np.add.at(out, tuple(Index.T), Updates)
    return out


CASES = [
    Case(
        "slice",
        {"Input": f(4, 5)},
        lambda Input: Input[1:3, -2:],
        {"axes": [0, 1], "starts": [1, -2], "ends": [3, 100]},
        grad=["Input"],
    ),
    Case(
        "slice",
        {"Input": f(4, 5)},
        lambda Input: Input[:, 1],
        {"axes": [1], "starts": [1], "ends": [2], "decrease_axis": [1]},
        grad=["Input"],
        name="decrease",
    ),
    Case(
        "slice",
        {"Input": f(4), "StartsTensor": np.array([1], "int32"), "EndsTensor": np.array([3], "int32")},
        lambda Input, **_: Input[1:3],
        {"axes": [0], "infer_flags": [-1]},
        grad=["Input"],
        name="tensors",
    ),
    Case(
        "strided_slice",
        {"Input": f(6, 5)},
        lambda Input: Input[1:6:2, ::-1],
        {"axes": [0, 1], "starts": [1, -1], "ends": [6, -6], "strides": [2, -1]},
        grad=["Input"],
    ),
    Case(
        "gather",
        {"X": f(5, 2), "Index": np.array([3, 0, 3], "int64")},
        lambda X, Index: X[Index],
        {"overwrite": False},
        grad=["X"],
    ),
    Case(
        "gather",
        {"X": f(5, 2), "Index": np.array([[1], [4]], "int32")},
        lambda X, Index: X[Index[:, 0]],
        grad=["X"],
        name="column",
    ),
    Case(
        "gather_nd",
        {"X": f(3, 4, 2), "Index": np.array([[0, 1], [2, 3], [0, 1]], "int64")},
        lambda X, Index: X[tuple(Index.T)],
        grad=["X"],
    ),
    Case(
        "scatter",
        {"X": f(5, 2), "Ids": np.array([3, 0], "int64"), "Updates": f(2, 2)},
        _overwritten,
        grad=["X", "Updates"],
    ),
    Case(
        "scatter",
        {"X": f(5, 2), "Ids": np.array([3, 0, 3], "int64"), "Updates": f(3, 2)},
        _overwritten,
        name="twice",
        grad=["X", "Updates"],
    ),
    Case(
        "scatter",
        {"X": f(5, 2), "Ids": np.array([3, 0, 3], "int64"), "Updates": f(3, 2)},
        _scattered,
        {"overwrite": False},
        name="add",
        grad=["X", "Updates"],
    ),
    Case(
        "scatter_nd_add",
        {"X": f(3, 4), "Index": np.array([[0, 1], [2, 3], [0, 1]], "int64"), "Updates": f(3)},
        _added,
        grad=["X", "Updates"],
    ),
    Case(
        "index_select",
        {"X": f(3, 4), "Index": np.array([2, 0, 2], "int64")},
        lambda X, Index: X[:, Index],
        {"dim": 1},
        grad=["X"],
    ),
    Case(
        "index_select",
        {"X": f(3, 4), "Index": np.array([2, 2], "int32")},
        lambda X, Index: X[Index],
        grad=["X"],
        name="rows",
    ),
    Case(
        "index_sample",
        {"X": f(2, 4), "Index": np.array([[0, 3, 3], [1, 2, 1]], "int64")},
        lambda X, Index: np.take_along_axis(X, Index, 1),
        grad=["X"],
    ),
    Case(
        "slice",
        {"Input": (f(5, 3), [[2, 3]])},
        lambda Input: Input[:, 1:],
        {"axes": [1], "starts": [1], "ends": [3]},
        lods={"Out": [[2, 3]]},
        grad=["Input"],
        name="sequences",
    ),
    Case(
        "slice",
        {"Input": (f(5, 3), [[2, 3]])},
        lambda Input: Input[1:],
        {"axes": [0], "starts": [1], "ends": [5]},
        lods={"Out": []},
        name="rows of sequences",
    ),
    Case(
        "one_hot",
        {"X": np.array([[1], [0], [3]], "int64")},
        lambda X: np.eye(4, dtype="float32")[X[:, 0]],
        {"depth": 4},
    ),
    Case(
        "one_hot_v2",
        {"X": np.array([[1, 2], [0, 3]], "int64")},
        lambda X: np.eye(4, dtype="float32")[X],
        {"depth": 4},
    ),
    Case(
        "where",
        {"Condition": np.array([True, False, True]), "X": f(3), "Y": f(3)},
        lambda Condition, X, Y: np.where(Condition, X, Y),
        grad=["X", "Y"],
    ),
    Case(
        "where_index",
        {"Condition": np.array([[True, False], [True, True]])},
        lambda Condition: np.argwhere(Condition),
    ),
    Case(
        "multiplex",
        {"X": [f(3, 2), f(3, 2)], "Ids": np.array([[1], [0], [1]], "int32")},
        lambda X, Ids: np.stack(X)[Ids[:, 0], np.arange(3)],
        grad=["X"],
    ),
    Case("reverse", {"X": f(3, 2)}, lambda X: X[::-1], {"axis": [0]}, grad=["X"]),
    Case(
        "top_k",
        {"X": f(3, 5)},
        lambda X: (np.sort(X)[:, ::-1][:, :2], np.argsort(-X, kind="stable")[:, :2]),
        {"k": 2},
        grad=["X"],
    ),
    # equal elements, also at the end of the k largest; test_heap_order.py is about their order
    *(
        Case("top_k", {"X": X}, lambda X: -np.sort(-X)[:, :20], {"k": 20}, of_2x=X.dtype.kind == "i")
        for X in (
            f(5, 203),
            np.floor(f(5, 203)),
            np.where(np.arange(203) % 19 == 3, f(5, 203), np.float32(-np.inf)),
            np.arange(406).reshape(2, 203) % 101,
        )
    ),
    Case(
        "top_k_v2",
        {"X": f(3, 5)},
        lambda X: (np.sort(X, 0)[:2], np.argsort(X, 0)[:2]),
        {"k": 2, "axis": 0, "largest": False},
        grad=["X"],
    ),
    Case(
        "top_k_v2",
        {"X": f(4, 3)},
        lambda X: (np.sort(X, 0)[:2], np.argsort(X, 0)[:2]),
        {"k": 2, "axis": 0, "largest": False},
        grad=["X"],
    ),
    Case("argsort", {"X": f(3, 5)}, lambda X: (np.sort(X, 0), np.argsort(X, 0)), {"axis": 0}, grad=["X"]),
    Case(
        "argsort",
        {"X": f(3, 5)},
        lambda X: (-np.sort(-X), np.argsort(-X)),
        {"descending": True},
        grad=["X"],
        name="descending",
    ),
    Case("arg_max", {"X": f(3, 5)}, lambda X: X.argmax(1), {"axis": 1}),
    Case("arg_min", {"X": f(3, 5)}, lambda X: X.argmin(0), {"axis": 0}),
    Case("arg_max", {"X": f(5)}, lambda X: np.array(X.argmax()), {"axis": 0}, name="all"),
    Case(
        "arg_max",
        {"X": f(3, 5)},
        lambda X: X.argmax(1).astype("int32")[:, None],
        {"axis": 1, "dtype": 2, "keepdims": True},
        name="keep",
    ),
    Case(
        "argsort",
        {"X": (f(5, 2), [[2, 3]])},
        lambda X: (np.sort(X), np.argsort(X)),
        lods={"Out": [[2, 3]], "Indices": [[2, 3]]},
        name="sequences",
    ),
    Case("cumsum", {"X": f(3, 4)}, lambda X: np.cumsum(X, 1), {"axis": 1}, grad=["X"]),
    Case(
        "cumsum",
        {"X": np.array([1e8, 1, 1], "float32")},
        np.array([0, 1e8, 1e8], "float32"),
        {"exclusive": True},
        name="large",
    ),
    Case(
        "cumsum",
        {"X": f(3, 4)},
        lambda X: (np.cumsum(X[:, ::-1], 1) - X[:, ::-1])[:, ::-1],
        {"axis": 1, "exclusive": True, "reverse": True},
        grad=["X"],
        name="exclusive-reverse",
    ),
]
