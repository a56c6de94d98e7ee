"""Ops that move values: shapes, slices, joins."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Seq, real, signed, truth, whole


def ints(*values: Any, dtype: str = "int32") -> Any:
    return np.array(values, dtype)


X = real(2, 3, 4)
ROWS = []
for _op in ("reshape", "reshape2"):
    _kind = {"outputs": {"XShape": 1}} if _op == "reshape2" else {}
    ROWS += [
        Row(_op, {"X": X}, {"shape": shape}, grad=["X"], name=str(index), **_kind)
        for index, shape in enumerate(
            [
                [6, 4],
                [-1, 2],
                [0, -1],
                [0, 0, 0],
                [4, 0, -1],
                [24],
                [1, -1, 1],
                [2, 12, 1, 1],
                [-1, -1],
                [5, 5],
                [0, 5],
                [7, -1],
                [0, 0, 2, -1],
                [],
            ]
        )
    ]
    ROWS += [
        Row(_op, {"X": X, "Shape": ints(4, 6)}, {"shape": [6, 4]}, grad=["X"], name="tensor", **_kind),
        Row(_op, {"X": X, "Shape": ints(4, -1)}, {"shape": [6, 4]}, grad=["X"], name="tensor_rest", **_kind),
        Row(_op, {"X": X, "ShapeTensor": [ints(4), ints(6)]}, {"shape": [-1, -1]}, name="tensors", **_kind),
        Row(
            _op,
            {"X": X, "ShapeTensor": [ints(4), ints(-1)]},
            {"shape": [4, -1]},
            undeclared=True,
            name="tensors_rest",
            **_kind,
        ),
        Row(_op, {"X": whole(2, 3)}, {"shape": [3, 2]}, name="int", **_kind),
        Row(_op, {"X": Seq(real(5, 4), [[2, 3]])}, {"shape": [0, 2, 2]}, grad=["X"], name="lod", **_kind),
        Row(_op, {"X": Seq(real(5, 4), [[2, 3]])}, {"shape": [-1, 2]}, grad=["X"], name="lod_rows", **_kind),
    ]
for _op in ("squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten", "flatten2"):
    _kind = {"outputs": {"XShape": 1}} if _op.endswith("2") else {}
    if _op.startswith("squeeze"):
        ROWS += [
            Row(_op, {"X": real(1, 3, 1, 2)}, {"axes": axes}, grad=["X"], name=str(index), **_kind)
            for index, axes in enumerate([[], [0], [0, 2], [-2], [0, -2], [1], [4], [-4, 2]])
        ]
    elif _op.startswith("unsqueeze"):
        ROWS += [
            Row(_op, {"X": real(3, 2)}, {"axes": axes}, grad=["X"], name=str(index), **_kind)
            for index, axes in enumerate(
                [[0], [1], [2], [-1], [0, 2], [0, 1, 2], [-1, 0], [4], [1, 1], [3, 1]]
            )
        ]
        ROWS += [
            Row(_op, {"X": real(3, 2), "AxesTensor": ints(0, 2)}, grad=["X"], name="tensor", **_kind),
            Row(
                _op,
                {"X": real(3, 2), "AxesTensorList": [ints(1), ints(-1)]},
                grad=["X"],
                name="tensors",
                **_kind,
            ),
        ]
    else:
        ROWS += [
            Row(_op, {"X": X}, {"axis": axis}, grad=["X"], name=str(axis), **_kind)
            for axis in (0, 1, 2, 3, 4, -1)
        ]
for _op in ("transpose", "transpose2"):
    _kind = {"outputs": {"XShape": 1}} if _op == "transpose2" else {}
    ROWS += [
        Row(_op, {"X": X}, {"axis": axis}, grad=["X"], name=str(index), **_kind)
        for index, axis in enumerate(
            [[1, 0, 2], [2, 1, 0], [0, 1, 2], [0, 1], [0, 0, 1], [0, 1, 3], [-1, 0, 1]]
        )
    ]
    ROWS += [Row(_op, {"X": whole(2, 3)}, {"axis": [1, 0]}, name="int", **_kind)]
    ROWS += [
        Row(_op, {"X": real(2, 3, 1, 2, 2, 2)}, {"axis": [5, 3, 1, 0, 2, 4]}, grad=["X"], name="six", **_kind)
    ]
Y = real(2, 5, 4)
ROWS += [
    Row("concat", {"X": [X, Y]}, {"axis": 1}, grad=["X"]),
    Row("concat", {"X": [X, Y]}, {"axis": -2}, grad=["X"], name="low"),
    Row("concat", {"X": [X, X]}, {"axis": 0}, grad=["X"], name="first"),
    Row("concat", {"X": [X]}, {"axis": 0}, grad=["X"], name="single"),
    Row("concat", {"X": [X, Y], "AxisTensor": ints(1)}, {"axis": 0}, grad=["X"], name="tensor"),
    Row("concat", {"X": [X, real(2, 3)]}, {"axis": 0}, name="bad_rank"),
    Row("concat", {"X": [X, Y]}, {"axis": 0}, name="bad"),
    Row("concat", {"X": [X, Y]}, {"axis": 3}, name="bad_axis"),
    Row("concat", {"X": [whole(2, 3), whole(1, 3)]}, {"axis": 0}, name="int"),
    Row("concat", {"X": [truth(2, 3), truth(1, 3)]}, {"axis": 0}, name="bool"),
    Row("concat", {"X": [whole(2, 3, dtype="int32"), whole(1, 3, dtype="int32")]}, {"axis": 0}, name="int32"),
    Row("concat", {"X": [whole(2, 3, dtype="uint8"), whole(1, 3, dtype="uint8")]}, {"axis": 0}, name="uint8"),
    Row(
        "concat",
        {"X": [Seq(real(3, 2), [[1, 2]]), Seq(real(3, 4), [[1, 2]])]},
        {"axis": 1},
        grad=["X"],
        name="lod",
    ),
    Row("stack", {"X": [X, X * 2]}, {"axis": 0}, grad=["X"]),
    Row("stack", {"X": [X, X * 2]}, {"axis": -1}, grad=["X"], name="last"),
    Row("stack", {"X": [X, X * 2, X * 3]}, {"axis": 2}, grad=["X"], name="inside"),
    Row("stack", {"X": [X, X * 2]}, {"axis": -4}, grad=["X"], name="low"),
    Row("stack", {"X": [X, X * 2]}, {"axis": 4}, name="bad"),
    Row("stack", {"X": [X, Y]}, {"axis": 0}, name="bad_shape"),
    Row("stack", {"X": [whole(2, 3), whole(2, 3)]}, {"axis": 1}, name="int"),
    Row("unstack", {"X": X}, {"axis": 1, "num": 3}, outputs={"Y": 3}, grad=["X"]),
    Row("unstack", {"X": X}, {"axis": -3, "num": 2}, outputs={"Y": 2}, grad=["X"], name="low"),
    Row("unstack", {"X": X}, {"axis": 1, "num": 2}, outputs={"Y": 2}, name="bad"),
    Row("unbind", {"X": X}, {"axis": 1}, outputs={"Out": 3}, grad=["X"]),
    Row("unbind", {"X": X}, {"axis": -1}, outputs={"Out": 4}, grad=["X"], name="last"),
    Row("split", {"X": X}, {"axis": 1, "num": 3}, outputs={"Out": 3}, grad=["X"]),
    Row("split", {"X": X}, {"axis": -1, "num": 2}, outputs={"Out": 2}, grad=["X"], name="low"),
    Row("split", {"X": X}, {"axis": 1, "sections": [1, 2]}, outputs={"Out": 2}, grad=["X"], name="sections"),
    Row("split", {"X": X}, {"axis": 2, "sections": [1, -1, 2]}, outputs={"Out": 3}, grad=["X"], name="rest"),
    Row(
        "split",
        {"X": X, "AxisTensor": ints(2)},
        {"axis": 1, "num": 2},
        outputs={"Out": 2},
        grad=["X"],
        name="axis_tensor",
    ),
    Row(
        "split",
        {"X": X, "SectionsTensorList": [ints(1), ints(2)]},
        {"axis": 1, "sections": [-1, -1]},
        outputs={"Out": 2},
        grad=["X"],
        name="tensors",
    ),
    Row("split", {"X": X}, {"axis": 1, "num": 2}, outputs={"Out": 2}, name="uneven"),
    Row("split", {"X": X}, {"axis": 1, "sections": [1, 1]}, outputs={"Out": 2}, name="too_few"),
    Row("split", {"X": whole(4, 2)}, {"axis": 0, "num": 2}, outputs={"Out": 2}, name="int"),
    Row("split_byref", {"X": real(5, 2)}, {"sections": [2, 3]}, outputs={"Out": 2}),
    Row(
        "partial_concat",
        {"X": [real(2, 4), real(2, 4, key="b")]},
        {"start_index": 1, "length": 2},
        grad=["X"],
    ),
    Row(
        "partial_concat",
        {"X": [real(2, 4), real(2, 4, key="b")]},
        {"start_index": -3, "length": -1},
        grad=["X"],
        name="low",
    ),
    Row("partial_sum", {"X": [real(2, 4), real(2, 4, key="b")]}, {"start_index": 1, "length": 2}, grad=["X"]),
    Row(
        "partial_sum",
        {"X": [real(2, 4), real(2, 4, key="b")]},
        {"start_index": 0, "length": -1},
        grad=["X"],
        name="whole",
    ),
]
S = real(4, 5, 3)
SLICES = [
    ("plain", [0, 1], [1, 0], [3, 2], []),
    ("low", [0], [-3], [-1], []),
    ("beyond", [1], [2], [100], []),
    ("below", [1], [-100], [2], []),
    ("last", [2], [-1], [1000], []),
    ("decrease", [0], [1], [2], [0]),
    ("decrease_two", [0, 2], [1, 0], [2, 1], [0, 2]),
    ("decrease_all", [0, 1, 2], [1, 0, 2], [2, 1, 3], [0, 1, 2]),
    ("decrease_last", [1], [-1], [1000], [1]),
    ("empty", [0], [2], [2], []),
    ("bad_axis", [3], [0], [1], []),
    ("decrease_bad", [0], [1], [3], [0]),
]
ROWS += [
    Row(
        "slice",
        {"Input": S},
        {"axes": axes, "starts": starts, "ends": ends, "decrease_axis": dec, "infer_flags": [1] * len(axes)},
        grad=["Input"],
        name=name,
    )
    for name, axes, starts, ends, dec in SLICES
]
ROWS += [
    Row(
        "slice",
        {"Input": S, "StartsTensor": ints(1, 0), "EndsTensor": ints(3, 2)},
        {"axes": [0, 1], "starts": [], "ends": [], "infer_flags": [-1, -1]},
        grad=["Input"],
        name="tensors",
    ),
    Row(
        "slice",
        {"Input": S, "StartsTensorList": [ints(1), ints(0)]},
        {"axes": [0, 1], "starts": [-1, 0], "ends": [3, 2], "infer_flags": [-1, 1]},
        grad=["Input"],
        name="starts_list",
    ),
    Row(
        "slice",
        {"Input": S, "StartsTensorList": [ints(1)], "EndsTensorList": [ints(2)]},
        {"axes": [0], "starts": [-1], "ends": [-1], "infer_flags": [-1], "decrease_axis": [0]},
        grad=["Input"],
        name="decrease_list",
    ),
    Row(
        "slice",
        {"Input": S, "StartsTensor": ints(-3, 0, dtype="int64"), "EndsTensor": ints(3, -2, dtype="int64")},
        {"axes": [0, 1], "starts": [], "ends": [], "infer_flags": [-1, -1]},
        grad=["Input"],
        name="tensors64",
    ),
    Row(
        "slice",
        {"Input": whole(4, 3)},
        {"axes": [0], "starts": [1], "ends": [3], "infer_flags": [1]},
        name="int",
    ),
    Row(
        "slice",
        {"Input": Seq(real(5, 4), [[2, 3]])},
        {"axes": [1], "starts": [1], "ends": [3], "infer_flags": [1]},
        grad=["Input"],
        name="lod",
    ),
]
ROWS += [
    Row(
        "slice",
        {"Input": S, "StartsTensorList": [ints(-1)], "EndsTensorList": [ints(0)]},
        {"axes": [1], "starts": [-1], "ends": [-1], "infer_flags": [-1], "decrease_axis": [1]},
        grad=["Input"],
        name="last_by_tensor",
    )
]
STRIDED = [
    ("plain", [0, 1], [0, 0], [4, 5], [2, 2]),
    ("back", [1], [4], [0], [-1]),
    ("back_two", [1], [-1], [-6], [-2]),
    ("back_all", [0], [3], [-5], [-1]),
    ("low", [0, 2], [-3, 0], [4, 3], [1, 2]),
    ("beyond", [1], [1], [100], [3]),
    ("three", [0, 1, 2], [1, -1, 0], [4, 1, 3], [1, -2, 2]),
    ("below", [1], [-100], [3], [1]),
]
ROWS += [
    Row(
        "strided_slice",
        {"Input": S},
        {"axes": axes, "starts": starts, "ends": ends, "strides": strides, "infer_flags": [1] * len(axes)},
        grad=["Input"],
        name=name,
    )
    for name, axes, starts, ends, strides in STRIDED
]
ROWS += [
    Row(
        "strided_slice",
        {"Input": S, "StartsTensor": ints(1, 4), "EndsTensor": ints(3, 0), "StridesTensor": ints(1, -2)},
        {"axes": [0, 1], "starts": [], "ends": [], "strides": [], "infer_flags": [-1, -1]},
        grad=["Input"],
        name="tensors",
        undeclared=True,
    ),
    Row(
        "strided_slice",
        {"Input": S, "StartsTensorList": [ints(1), ints(4)]},
        {"axes": [0, 1], "starts": [-1, -1], "ends": [3, 0], "strides": [1, -1], "infer_flags": [-1, -1]},
        grad=["Input"],
        name="starts_list",
    ),
    Row(
        "strided_slice",
        {"Input": S, "StartsTensor": ints(1, 4), "EndsTensorList": [ints(3), ints(0)]},
        {"axes": [0, 1], "starts": [], "ends": [3, -1], "strides": [1, -1], "infer_flags": [-1, -1]},
        grad=["Input"],
        name="mixed",
        undeclared=True,
    ),
    Row(
        "strided_slice",
        {"Input": S},
        {"axes": [0], "starts": [1], "ends": [2], "strides": [1], "decrease_axis": [0], "infer_flags": [1]},
        name="decrease",
    ),
    Row(
        "strided_slice",
        {"Input": whole(4, 3)},
        {"axes": [0], "starts": [3], "ends": [0], "strides": [-1], "infer_flags": [1]},
        name="int",
    ),
]
ROWS += [
    Row("meshgrid", {"X": [real(2), real(3)]}, outputs={"Out": 2}, grad=["X"]),
    Row("meshgrid", {"X": [real(2), real(3), real(1)]}, outputs={"Out": 3}, grad=["X"], name="three"),
    Row("meshgrid", {"X": [real(2, 2), real(3)]}, outputs={"Out": 2}, name="bad"),
    Row("assign", {"X": X}, grad=["X"]),
    Row("assign", {"X": whole(2, 3)}, name="int"),
    Row("shuffle_channel", {"X": real(2, 9, 2, 3)}, {"group": 3}, grad=["X"]),
    Row("pixel_shuffle", {"X": real(2, 8, 2, 3)}, {"upscale_factor": 2}, grad=["X"]),
    Row("pixel_shuffle", {"X": real(2, 7, 2, 3)}, {"upscale_factor": 2}, name="bad"),
    Row("space_to_depth", {"X": real(2, 4, 4, 6)}, {"blocksize": 2}, grad=["X"]),
    Row("space_to_depth", {"X": real(2, 4, 3, 6)}, {"blocksize": 2}, name="bad"),
    Row("space_to_depth", {"X": real(2, 3, 4, 6)}, {"blocksize": 2}, name="bad_channels"),
    Row("temporal_shift", {"X": real(6, 4, 2, 2)}, {"seg_num": 3, "shift_ratio": 0.25}, grad=["X"]),
    Row(
        "temporal_shift",
        {"X": real(6, 5, 2, 2)},
        {"seg_num": 3, "shift_ratio": 0.4},
        grad=["X"],
        name="uneven",
    ),
    Row("add_position_encoding", {"X": real(2, 3, 4)}, {"alpha": 0.5, "beta": 2.0}, grad=["X"]),
    Row(
        "add_position_encoding",
        {"X": Seq(real(5, 4), [[2, 3]])},
        {"alpha": 0.5, "beta": 2.0},
        grad=["X"],
        name="lod",
    ),
    Row("add_position_encoding", {"X": real(2, 3, 5)}, {"alpha": 0.5, "beta": 2.0}, name="odd"),
    Row("gather_tree", {"Ids": whole(4, 2, 3), "Parents": whole(4, 2, 3, high=3, key="p")}),
    Row(
        "gather_tree",
        {"Ids": whole(4, 2, 3, dtype="int32"), "Parents": whole(4, 2, 3, high=3, key="p", dtype="int32")},
        name="int32",
    ),
    Row("similarity_focus", {"X": real(2, 3, 2, 2)}, {"axis": 1, "indexes": [0, 2]}),
    Row("similarity_focus", {"X": real(2, 3, 2, 2)}, {"axis": 3, "indexes": [1]}, name="last"),
]
ROWS += (
    [
        Row(
            "pad2d",
            {"X": real(2, 2, 3, 4)},
            {"paddings": [1, 2, 0, 1], "mode": mode, "pad_value": 0.5},
            grad=["X"],
            name=mode,
        )
        for mode in ("constant", "reflect", "edge")
    ]
    + [
        Row(
            "pad2d",
            {"X": real(2, 3, 4, 2)},
            {"paddings": [1, 2, 0, 1], "mode": mode, "data_format": "NHWC"},
            grad=["X"],
            name=mode + "_last",
        )
        for mode in ("constant", "reflect", "edge")
    ]
    + [
        Row(
            "pad2d",
            {"X": real(2, 2, 3, 4), "Paddings": ints(1, 2, 0, 1)},
            {"mode": "reflect", "paddings": [0, 0, 0, 0]},
            grad=["X"],
            name="tensor",
            undeclared=True,
        ),
        Row(
            "pad2d",
            {"X": real(2, 2, 3, 4)},
            {"paddings": [3, 2, 0, 1], "mode": "reflect"},
            name="reflect_bad",
        ),
        Row("pad2d", {"X": real(2, 3, 4)}, {"paddings": [3, 2, 0, 1]}, name="bad"),
        Row("pad2d", {"X": whole(1, 1, 2, 2, dtype="int32")}, {"paddings": [1, 1, 0, 1]}, name="int"),
    ]
)
ROWS += [
    Row(
        "cast",
        {"X": signed(3, 4) * 3},
        {"in_dtype": 5, "out_dtype": kind},
        grad=["X"] if kind in (5, 6) else (),
        name=str(kind),
    )
    for kind in (0, 2, 3, 5, 6, 20)
] + [
    Row("cast", {"X": whole(3, 4)}, {"in_dtype": 3, "out_dtype": kind}, name=f"int{kind}")
    for kind in (0, 2, 5, 20)
]
