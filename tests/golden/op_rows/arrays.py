"""Beams, arrays of tensors by rank table, branches by mask, and other ops on levels of detail."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Seq, real, signed, truth, whole


def ints(*values: Any, dtype: str = "int64") -> Any:
    return np.array(values, dtype)


IDS, SCORES = Seq(ints([1], [2], [3], [4]), [[2, 2], [1, 1, 1, 1]]), [[2, 2], [1, 1, 1, 1]]
CANDIDATES = {
    "pre_ids": IDS,
    "pre_scores": Seq(real(4, 1, low=0.1, high=0.4), SCORES),
    "ids": Seq(whole(4, 3, low=1, high=9), SCORES),
    "scores": Seq(real(4, 3), SCORES),
}
ROWS = [
    Row(
        "beam_search",
        CANDIDATES,
        {"level": 0, "beam_size": size, "end_id": end, "is_accumulated": added},
        name=f"{size}_{end}_{int(added)}",
    )
    for size in (1, 2)
    for end in (0, 2)
    for added in (True, False)
]
ROWS += [
    Row(
        "split_lod_tensor", {"X": real(4, 2), "Mask": truth(4, 1)}, {"level": 0}, grad=["X"], undeclared=True
    ),
    Row(
        "merge_lod_tensor",
        {
            "X": real(4, 2),
            "Mask": np.array([[1], [0], [0], [1]], "bool"),
            "InTrue": real(2, 2, key="t"),
            "InFalse": real(2, 2, key="f"),
        },
        {"level": 0},
        grad=["InTrue", "InFalse"],
        undeclared=True,
    ),
    Row(
        "select_input",
        {"X": [real(2, 2), real(2, 2, key="b")], "Mask": ints([1], dtype="int32")},
        undeclared=True,
    ),
    Row("rnn_memory_helper", {"X": real(3, 2)}, grad=["X"]),
    Row(
        "lookup_table",
        {"W": real(5, 3), "Ids": Seq(whole(6, 1), [[2, 1], [1, 3, 2]])},
        grad=["W"],
        name="two",
    ),
    Row("sequence_softmax", {"X": Seq(signed(6, 1), [[2, 1], [1, 3, 2]])}, grad=["X"], name="two"),
    Row("sequence_reverse", {"X": Seq(signed(6, 2), [[2, 1], [1, 3, 2]])}, grad=["X"], name="two"),
    Row("sequence_expand_as", {"X": real(2, 2), "Y": Seq(real(4, 1), [[0, 4]])}, grad=["X"], name="none"),
    Row("sequence_expand", {"X": real(2, 2), "Y": Seq(real(4, 1), [[0, 4]])}, grad=["X"], name="none"),
    Row(
        "sequence_concat",
        {"X": [Seq(signed(3, 2), [[0, 3]]), Seq(signed(4, 2), [[3, 1]])]},
        grad=["X"],
        name="none",
    ),
    Row("elementwise_mul", {"X": Seq(real(5, 2), [[2, 3]]), "Y": real(2)}, grad=["X", "Y"], name="sequences"),
    Row("concat", {"X": [Seq(real(3, 2), [[1, 2]]), Seq(real(2, 2), [[2]])]}, {"axis": 0}, name="sequences"),
    Row(
        "transpose2",
        {"X": Seq(real(5, 2, 3), [[2, 3]])},
        {"axis": [0, 2, 1]},
        outputs={"XShape": 1},
        name="lod",
    ),
    Row("gather", {"X": Seq(real(5, 2), [[2, 3]]), "Index": ints(1, 3, dtype="int32")}, name="lod"),
    Row("softmax", {"X": Seq(real(5, 2), [[2, 3]])}, grad=["X"], name="lod"),
    Row("top_k", {"X": Seq(signed(6, 4), [[2, 1], [1, 3, 2]])}, {"k": 2}, name="two"),
    Row("dropout", {"X": Seq(real(5, 2), [[2, 3]])}, {"dropout_prob": 0.0}, outputs={"Mask": 1}, name="lod"),
    Row("cast", {"X": Seq(real(5, 2), [[2, 3]])}, {"in_dtype": 5, "out_dtype": 3}, name="lod"),
    Row(
        "slice",
        {"Input": Seq(real(5, 2), [[2, 3]])},
        {"axes": [0], "starts": [1], "ends": [3]},
        name="lod_rows",
    ),
    Row("one_hot_v2", {"X": Seq(whole(5, high=4), [[2, 3]])}, {"depth": 4}, name="lod"),
    Row("mean", {"X": Seq(real(5, 2), [[2, 3]])}, grad=["X"], name="lod"),
    Row("reduce_sum", {"X": Seq(real(5, 2), [[2, 3]])}, {"dim": [0]}, grad=["X"], name="lod_rows"),
    Row("matmul", {"X": Seq(real(5, 2), [[2, 3]]), "Y": real(2, 3)}, grad=["X", "Y"], name="lod"),
    Row("sum", {"X": [Seq(real(5, 2), [[2, 3]]), Seq(real(5, 2), [[2, 3]])]}, grad=["X"], name="both_lod"),
    Row("layer_norm", {"X": Seq(real(5, 4), [[2, 3]])}, outputs={"Mean": 1, "Variance": 1}, name="lod"),
    Row("stack", {"X": [Seq(real(5, 2), [[2, 3]]), Seq(real(5, 2), [[2, 3]])]}, {"axis": 1}, name="lod"),
    Row("arg_max", {"X": Seq(real(5, 4), [[2, 3]])}, {"axis": 1}, name="lod"),
    Row("argsort", {"X": Seq(real(5, 4), [[2, 3]])}, {"axis": 1}, name="lod"),
    Row("expand", {"X": Seq(real(5, 2), [[2, 3]])}, {"expand_times": [1, 2]}, name="lod"),
    Row("where", {"Condition": truth(2, 3), "X": real(2, 3), "Y": real(2, 3, key="y")}, name="plain"),
    Row("scale", {"X": Seq(real(6, 2), [[2, 1], [1, 3, 2]])}, {"scale": 2.0}, grad=["X"], name="two_levels"),
    Row("fill_any_like", {"X": Seq(real(5, 2), [[2, 3]])}, {"value": 2.0}, name="lod"),
    Row("sequence_mask", {"X": Seq(ints(2, 1, 3), [[1, 2]])}, {"maxlen": 3, "out_dtype": 3}, name="lod"),
    Row(
        "cross_entropy2",
        {"X": Seq(real(3, 4, low=0.1, high=0.3), [[1, 2]]), "Label": Seq(ints([1], [0], [3]), [[1, 2]])},
        grad=["X"],
        wants=["Y"],
        name="both_lod",
    ),
]
