"""Distinct values, shards, hashes, beams, and questions about values."""

from __future__ import annotations

import numpy as np
from optest import Case

VALUES = np.array([2, 3, 3, 1, 5, 3], "int64")
FIRST = [np.array([2, 3, 1, 5]), np.array([0, 1, 1, 2, 3, 1], "int32"), np.array([1, 3, 1, 1], "int32")]
ODD = np.array([[1.0, np.inf], [np.nan, -3.0]], "float32")


def ids(rows: int, width: int, dtype: str) -> np.ndarray:
    return (np.arange(rows * width).reshape(rows, width) * 7919 + 3).astype(dtype)


def hashed(dtype: str, width: int, count: int, modulus: int, *expect: int) -> Case:
    """Numbers recorded from PaddlePaddle 1.8.5."""
    return Case(
        "hash",
        {"X": ids(3, width, dtype)},
        np.array(expect, dtype).reshape(3, count, 1),
        {"num_hash": count, "mod_by": modulus},
        name=f"{dtype} {width}",
    )


CASES = [
    Case("unique", {"X": VALUES}, (FIRST[0], FIRST[1]), {"dtype": 2}),
    Case(
        "unique",
        {"X": VALUES.astype("float32")},
        (FIRST[0].astype("float32"), FIRST[1].astype("int64")),
        {"dtype": 3},
        name="real",
    ),
    Case("unique_with_counts", {"X": VALUES}, tuple(FIRST), {"dtype": 2}),
    Case(
        "histogram", {"X": np.array([1, 2, 1, 5], "float32")}, np.array([0, 2, 1, 0]), {"bins": 4, "max": 3}
    ),
    Case(
        "histogram", {"X": np.array([1, 2, 1, 5], "int64")}, np.array([3, 1]), {"bins": 2}, name="own range"
    ),
    Case(
        "shard_index",
        {"X": np.array([[1], [16], [19]], "int64")},
        np.array([[-1], [2], [5]]),
        {"index_num": 20, "nshards": 3, "shard_id": 2},
    ),
    hashed("int64", 2, 1, 100, 79, 26, 86),
    hashed("int64", 1, 2, 100000, 58465, 15822, 170, 77439, 36251, 13648),
    hashed("int64", 9, 2, 10**9, 367948132, 722106461, 152832920, 485620978, 302707613, 4310909),
    hashed("int32", 1, 2, 10**9, 151369407, 169716715, 220319781, 972353805, 593047102, 902512684),
    hashed("int32", 3, 2, 10**9, 102656503, 184041092, 566040149, 899161013, 223797378, 428705314),
    hashed("int32", 17, 2, 10**9, 290707437, 982862486, 925399649, 522734119, 474648966, 134290153),
    # the example of PaddlePaddle's documentation
    Case(
        "gather_tree",
        {
            "Ids": np.array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]], "int64"),
            "Parents": np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]], "int64"),
        },
        np.array([[[2, 2], [1, 6]], [[3, 3], [6, 1]], [[0, 1], [9, 0]]]),
    ),
    Case(
        "similarity_focus",
        {"X": np.array([[[[3, 1, 2], [5, 4, 0]], [[0, 0, 0], [0, 0, 0]]]], "float32")},
        np.array([[[[0, 0, 1], [1, 0, 0]]] * 2], "float32"),
        {"axis": 1, "indexes": [0]},
    ),
    Case("isfinite", {"X": ODD}, np.array([False])),
    Case("isfinite", {"X": np.array([1, 2], "int32")}, np.array([True]), name="integers"),
    Case("isinf", {"X": ODD}, np.array([True])),
    Case("isnan", {"X": ODD[:1]}, np.array([False])),
    Case("isfinite_v2", {"X": ODD}, np.isfinite(ODD)),
    Case("isinf_v2", {"X": ODD}, np.isinf(ODD)),
    Case("isnan_v2", {"X": ODD}, np.isnan(ODD)),
    Case(
        "allclose",
        {"Input": np.array([1.0, 1e-9], "float32"), "Other": np.array([1.0, 0.0], "float32")},
        np.array([True]),
    ),
    Case("allclose", {"Input": ODD, "Other": ODD}, np.array([False]), name="nan"),
    Case("isclose", {"Input": ODD, "Other": ODD}, np.isclose(ODD, ODD)),
    Case(
        "isclose",
        {"Input": np.array([[1.0], [2.0]], "float32"), "Other": np.array([[1.05], [2.5]], "float32")},
        np.array([[True], [False]]),
        {"rtol": 0.1},
        name="tolerance",
    ),
    Case("allclose", {"Input": ODD, "Other": ODD}, np.array([True]), {"equal_nan": True}, name="equal nan"),
]
