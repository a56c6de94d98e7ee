"""Optimizer steps, ops on SELECTED_ROWS, and ops that make values from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Rows, Seq, real, signed, whole


def ints(*values: Any, dtype: str = "int64") -> Any:
    return np.array(values, dtype)


P, G, LR = real(5, 3, key="p"), signed(5, 3, key="g"), np.array([0.1], "float32")
SPARSE = Rows(signed(3, 3, key="sparse"), [1, 3, 1], 5)
ALONE = Rows(signed(2, 3, key="sparse"), [1, 3], 5)


def moments(*names):
    return {name: real(5, 3, key=name) for name in names}


STEPS = [
    ("sgd", {}, {}, {"ParamOut": "Param"}),
    ("momentum", moments("Velocity"), {"mu": 0.9}, {"VelocityOut": "Velocity"}),
    ("momentum", moments("Velocity"), {"mu": 0.9, "use_nesterov": True}, {"VelocityOut": "Velocity"}),
    (
        "lars_momentum",
        moments("Velocity"),
        {"mu": 0.9, "lars_coeff": 0.01, "lars_weight_decay": [0.1]},
        {"VelocityOut": "Velocity"},
    ),
    (
        "adam",
        dict(
            moments("Moment1", "Moment2"),
            Beta1Pow=np.array([0.81], "float32"),
            Beta2Pow=np.array([0.99], "float32"),
        ),
        {},
        {
            "Moment1Out": "Moment1",
            "Moment2Out": "Moment2",
            "Beta1PowOut": "Beta1Pow",
            "Beta2PowOut": "Beta2Pow",
        },
    ),
    (
        "adam",
        dict(
            moments("Moment1", "Moment2"),
            Beta1Pow=np.array([0.81], "float32"),
            Beta2Pow=np.array([0.99], "float32"),
            Beta1Tensor=np.array([0.5], "float32"),
            Beta2Tensor=np.array([0.7], "float32"),
        ),
        {"epsilon": 1e-3},
        {
            "Moment1Out": "Moment1",
            "Moment2Out": "Moment2",
            "Beta1PowOut": "Beta1Pow",
            "Beta2PowOut": "Beta2Pow",
        },
    ),
    (
        "adamax",
        dict(moments("Moment", "InfNorm"), Beta1Pow=np.array([0.81], "float32")),
        {"beta1": 0.8, "epsilon": 1e-3},
        {"MomentOut": "Moment", "InfNormOut": "InfNorm"},
    ),
    ("adagrad", moments("Moment"), {"epsilon": 1e-3}, {"MomentOut": "Moment"}),
    ("decayed_adagrad", moments("Moment"), {"decay": 0.8, "epsilon": 1e-3}, {"MomentOut": "Moment"}),
    ("adadelta", moments("AvgSquaredGrad", "AvgSquaredUpdate"), {"rho": 0.9, "epsilon": 1e-3}, {}),
    (
        "rmsprop",
        moments("MeanSquare", "Moment"),
        {"decay": 0.8, "epsilon": 1e-3, "momentum": 0.5},
        {"MomentOut": "Moment", "MeanSquareOut": "MeanSquare"},
    ),
    (
        "rmsprop",
        dict(moments("MeanSquare", "Moment"), MeanGrad=real(5, 3, key="mg") * 0.1),
        {"decay": 0.8, "epsilon": 1e-3, "momentum": 0.5, "centered": True},
        {"MomentOut": "Moment", "MeanSquareOut": "MeanSquare", "MeanGradOut": "MeanGrad"},
    ),
    (
        "ftrl",
        moments("SquaredAccumulator", "LinearAccumulator"),
        {"l1": 0.1, "l2": 0.2, "lr_power": -0.5},
        {"SquaredAccumOut": "SquaredAccumulator", "LinearAccumOut": "LinearAccumulator"},
    ),
    (
        "ftrl",
        moments("SquaredAccumulator", "LinearAccumulator"),
        {"l1": 0.1, "l2": 0.2, "lr_power": -0.3},
        {"SquaredAccumOut": "SquaredAccumulator", "LinearAccumOut": "LinearAccumulator"},
    ),
    ("proximal_gd", {}, {"l1": 0.1, "l2": 0.2}, {}),
    ("proximal_adagrad", moments("Moment"), {"l1": 0.1, "l2": 0.2}, {"MomentOut": "Moment"}),
    (
        "lamb",
        dict(
            moments("Moment1", "Moment2"),
            Beta1Pow=np.array([0.81], "float32"),
            Beta2Pow=np.array([0.99], "float32"),
        ),
        {"weight_decay": 0.01, "epsilon": 1e-3},
        {"Moment1Out": "Moment1", "Moment2Out": "Moment2"},
    ),
]
ROWS = []
for _index, (_op, _state, _attrs, _alias) in enumerate(STEPS):
    _alias = dict({"ParamOut": "Param"}, **_alias)
    _rate = {} if _op == "adadelta" else {"LearningRate": LR}
    _more = {} if "MeanGrad" in _state or _op != "rmsprop" else {"MeanGradOut": 1}
    _ignore = ["MeanGradOut"] if _more else []
    ROWS += [
        Row(
            _op,
            dict({"Param": P, "Grad": G}, **dict(_rate, **_state)),
            _attrs,
            alias=_alias,
            ignore=_ignore,
            name=str(_index),
        )
    ]
    if _op in ("sgd", "momentum", "adagrad", "rmsprop"):
        ROWS += [
            Row(
                _op,
                dict({"Param": P, "Grad": grad}, **dict(_rate, **_state)),
                _attrs,
                alias=_alias,
                ignore=_ignore,
                name=f"{name}_{_index}",
            )
            for name, grad in (("sparse", SPARSE), ("alone", ALONE))
        ]
ROWS += [
    Row(
        "sgd", {"Param": P, "Grad": signed(4, 3), "LearningRate": LR}, alias={"ParamOut": "Param"}, name="bad"
    ),
    Row(
        "sgd", {"Param": P, "Grad": G, "LearningRate": real(2)}, alias={"ParamOut": "Param"}, name="bad_rate"
    ),
    Row(
        "sgd",
        {
            "Param": Rows(real(4, 3, key="table"), [1, 3, 0, 4], 6),
            "Grad": Rows(signed(2, 3), [3, 0], 6),
            "LearningRate": LR,
        },
        alias={"ParamOut": "Param"},
        name="rows",
    ),
    Row(
        "momentum",
        {"Param": P, "Grad": G, "Velocity": real(4, 3), "LearningRate": LR},
        {"mu": 0.9},
        alias={"ParamOut": "Param", "VelocityOut": "Velocity"},
        name="bad",
    ),
    Row(
        "dpsgd",
        {"Param": P, "Grad": G, "LearningRate": LR},
        {"clip": 1.0, "batch_size": 4.0, "sigma": 0.0, "seed": 3},
        alias={"ParamOut": "Param"},
    ),
    Row(
        "average_accumulates",
        {
            "param": P,
            "in_sum_1": real(5, 3, key="1"),
            "in_sum_2": real(5, 3, key="2"),
            "in_sum_3": real(5, 3, key="3"),
            "in_num_accumulates": ints(3),
            "in_old_num_accumulates": ints(2),
            "in_num_updates": ints(7),
        },
        {"average_window": 0.5, "max_average_window": 10, "min_average_window": 2},
    ),
    Row(
        "average_accumulates",
        {
            "param": P,
            "in_sum_1": real(5, 3, key="1"),
            "in_sum_2": real(5, 3, key="2"),
            "in_sum_3": real(5, 3, key="3"),
            "in_num_accumulates": ints(0),
            "in_old_num_accumulates": ints(2),
            "in_num_updates": ints(0),
        },
        {"average_window": 0.0, "max_average_window": 10, "min_average_window": 5},
        name="start",
    ),
    # SELECTED_ROWS
    Row("scale", {"X": SPARSE}, {"scale": 2.0}, name="rows", rows=["Out"]),
    Row("sum", {"X": [SPARSE, ALONE]}, name="rows", rows=["Out"]),
    Row("sum", {"X": [P, SPARSE]}, name="rows_dense"),
    Row("sum", {"X": [SPARSE, P]}, name="dense_rows"),
    Row("sum", {"X": [SPARSE]}, name="rows_one", rows=["Out"]),
    Row("clip", {"X": SPARSE}, {"min": -0.5, "max": 0.5}, name="rows", rows=["Out"]),
    Row("clip_by_norm", {"X": SPARSE}, {"max_norm": 1.0}, name="rows", rows=["Out"]),
    Row("merge_selected_rows", {"X": SPARSE}, rows=["Out"]),
    Row("get_tensor_from_selected_rows", {"X": SPARSE}),
    Row("squared_l2_norm", {"X": P}),
    Row("square", {"X": ALONE}, name="rows", rows=["Out"]),
    Row("elementwise_mul", {"X": ALONE, "Y": LR}, name="rows", rows=["Out"]),
    Row("elementwise_div", {"X": ALONE, "Y": LR}, name="rows", rows=["Out"]),
    Row(
        "split_selected_rows",
        {"X": Rows(real(4, 2), [0, 5, 3, 9], 10)},
        {"height_sections": [4, 6]},
        outputs={"Out": 2},
        rows=["Out"],
    ),
    Row("split_ids", {"Ids": [ints([0], [3], [2], [5])]}, outputs={"Out": 2}),
    Row(
        "split_ids",
        {"Ids": [Rows(real(4, 2), [0, 5, 3, 9], 10)]},
        outputs={"Out": 2},
        name="rows",
        rows=["Out"],
    ),
    Row(
        "merge_ids",
        {"Ids": [ints([0], [3], [2])], "Rows": [ints([0], [2]), ints([3])], "X": [real(2, 2), real(1, 2)]},
    ),
    Row("lookup_table", {"W": Rows(real(4, 2), [0, 5, 3, 9], 10), "Ids": ints([5], [9], [0])}, name="rows"),
    Row("lookup_table_v2", {"W": Rows(real(4, 2), [0, 5, 3, 9], 10), "Ids": ints(5, 9, 0)}, name="rows"),
    Row(
        "lookup_table",
        {"W": Rows(real(4, 2), [0, 5, 3, 9], 10), "Ids": ints([5], [9], [0])},
        {"padding_idx": 9},
        name="rows_padding",
    ),
    Row(
        "lookup_sparse_table",
        {"W": Rows(real(5, 2), [0, 5, 3], 10), "Ids": ints([5], [9], [0], [9], [4])},
        name="grow",
        undeclared=True,
    ),
    Row(
        "lookup_sparse_table",
        {"W": Rows(real(4, 2), [0, 5, 3, 9], 10), "Ids": ints([5], [9], [0])},
        {"is_test": True},
        name="test",
        undeclared=True,
    ),
    Row("isfinite", {"X": ALONE}, name="rows"),
    Row("assign", {"X": ALONE}, name="rows", rows=["Out"]),
    Row("shape", {"Input": ALONE}, name="rows"),
    Row("fill_constant", {}, {"shape": [4, 2], "value": 1.5}, name="rows", rows=["Out"]),
    Row("uniform_random", {}, {"shape": [4, 2], "min": 1.5, "max": 1.500001}, name="rows", rows=["Out"]),
    Row("fake_init", {}, {"shape": [4, 2]}, name="rows", rows=["Out"], ignore=["Out"]),
    Row("fake_init", {}, {"shape": [4, 2]}, ignore=["Out"]),
]
# ---------------------------------------------------------------------- from nothing
ROWS += [
    Row("fill_constant", {}, {"shape": [2, 3], "value": 2.5, "dtype": kind}, name=str(kind))
    for kind in (0, 1, 2, 3, 4, 5, 6, 20, 21)
] + [
    Row("fill_constant", {}, {"shape": [2], "str_value": "12345678901", "dtype": 3}, name="str"),
    Row("fill_constant", {}, {"shape": [], "value": 1.0}, name="no_shape"),
    Row("fill_constant", {}, {"shape": [2, 0], "value": 1.0}, name="empty"),
    Row("fill_constant", {}, {"shape": [2, -1], "value": 1.0}, name="bad"),
    Row(
        "fill_constant",
        {"ShapeTensor": ints(2, 3, dtype="int32")},
        {"shape": [], "value": 1.5},
        name="tensor",
    ),
    Row("fill_constant", {"ShapeTensor": ints(2, 3)}, {"shape": [1, 1], "value": 1.5}, name="tensor64"),
    Row(
        "fill_constant",
        {"ShapeTensorList": [ints(2, dtype="int32"), ints(3, dtype="int32")]},
        {"shape": [-1, -1], "value": 1.5},
        name="tensors",
    ),
    Row(
        "fill_constant", {"ValueTensor": np.array([3], "float32")}, {"shape": [2], "value": 1.5}, name="value"
    ),
    Row("fill", {}, {"shape": [2, 2], "value": [1.0, 2.0, 3.0, 4.0], "dtype": 5}),
    Row("fill", {}, {"shape": [2, 2], "value": [1.0, 2.0, 3.0, 4.0], "dtype": 3}, name="int"),
    Row("fill_any_like", {"X": real(2, 3)}, {"value": 2.5}),
    Row("fill_any_like", {"X": whole(2, 3)}, {"value": 2.5}, name="int"),
    Row("fill_any_like", {"X": real(2, 3)}, {"value": 2.5, "dtype": 3}, name="cast"),
    Row("fill_any_like", {"X": whole(2, 3, dtype="int32")}, {"value": 3e9}, name="beyond"),
    Row("fill_any_like", {"X": whole(2, 3, dtype="int32")}, {"value": -3e9}, name="below"),
    Row("fill_any_like", {"X": real(2, 3)}, {"value": float("inf")}, name="inf"),
    Row("fill_zeros_like", {"X": whole(2, 3)}),
    Row("fill_zeros_like", {"X": Seq(real(5, 2), [[2, 3]])}, name="lod"),
    Row("fill_zeros_like2", {"X": real(2, 3)}, {"dtype": 5}),
    Row("fill_constant_batch_size_like", {"Input": real(4, 3)}, {"shape": [-1, 2], "value": 1.5}),
    Row(
        "fill_constant_batch_size_like",
        {"Input": real(4, 3)},
        {"shape": [7, -1], "value": 1.5, "input_dim_idx": 1, "output_dim_idx": 1, "dtype": 3},
        name="second",
    ),
    Row(
        "fill_constant_batch_size_like",
        {"Input": Seq(real(5, 3), [[2, 1, 2]])},
        {"shape": [-1, 2], "value": 1.5},
        name="lod",
    ),
    Row(
        "fill_constant_batch_size_like",
        {"Input": real(4, 3)},
        {"shape": [-1, 2], "str_value": "2.5"},
        name="str",
    ),
    Row("assign_value", {}, {"shape": [2, 2], "dtype": 5, "fp32_values": [1.0, 2.0, 3.0, 4.0]}),
    Row("assign_value", {}, {"shape": [2, 2], "dtype": 2, "int32_values": [1, 2, 3, 4]}, name="int32"),
    Row("assign_value", {}, {"shape": [2], "dtype": 3, "int64_values": [1, 2]}, name="int64"),
    Row("assign_value", {}, {"shape": [2], "dtype": 0, "bool_values": [1, 0]}, name="bool"),
    Row("eye", {}, {"num_rows": 3}),
    Row("eye", {}, {"num_rows": 2, "num_columns": 4, "dtype": 3}, name="wide"),
    Row("eye", {}, {"num_rows": 4, "num_columns": 2, "dtype": 6}, name="high"),
    Row("linspace", {"Start": real(1), "Stop": real(1) + 4, "Num": ints(5, dtype="int32")}),
    Row("linspace", {"Start": real(1), "Stop": real(1) - 4, "Num": ints(1, dtype="int32")}, name="one"),
    Row(
        "range",
        {
            "Start": np.array([1], "float32"),
            "End": np.array([4.5], "float32"),
            "Step": np.array([0.5], "float32"),
        },
    ),
    Row("range", {"Start": ints(7), "End": ints(1), "Step": ints(-2)}, name="down"),
    Row(
        "range",
        {"Start": ints(1, dtype="int32"), "End": ints(8, dtype="int32"), "Step": ints(3, dtype="int32")},
        name="int32",
    ),
    Row("range", {"Start": ints(1), "End": ints(8), "Step": ints(-3)}, name="bad"),
    Row("gaussian_random", {}, {"shape": [3, 0]}, name="empty"),
    Row("uniform_random", {}, {"shape": [2, 2], "min": 1.0, "max": 1.0}, name="same"),
    Row("randint", {}, {"shape": [2, 2], "low": 3, "high": 4}, name="same"),
    Row("randint", {}, {"shape": [2, 2], "low": 3, "high": 4, "dtype": 2}, name="int32"),
    Row("randint", {}, {"shape": [2, 2], "low": 4, "high": 3}, name="bad"),
    Row("randperm", {}, {"n": 1}, name="one"),
    Row("randperm", {}, {"n": 0}, name="bad"),
]
