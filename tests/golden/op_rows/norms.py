"""Normalisations, and what is done to each channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, real, signed


def ints(*values: Any, dtype: str = "int32") -> Any:
    return np.array(values, dtype)


ROWS = []
C = 3
SCALE = {"Scale": real(C, key="s"), "Bias": real(C, key="b")}
STATS = {"Mean": real(C, key="m"), "Variance": real(C, key="v")}
for _name, _x, _attrs in (
    ("image", (2, 3, 4, 4), {}),
    ("last", (2, 4, 4, 3), {"data_layout": "NHWC"}),
    ("matrix", (4, 3), {}),
    ("three", (2, 3, 5), {}),
    ("five", (2, 3, 2, 2, 2), {}),
    ("momentum", (2, 3, 4, 4), {"momentum": 0.5, "epsilon": 1e-3}),
    ("test", (2, 3, 4, 4), {"is_test": True}),
    ("global", (2, 3, 4, 4), {"use_global_stats": True}),
    ("global_last", (2, 4, 4, 3), {"use_global_stats": True, "data_layout": "NHWC"}),
    ("trainable", (2, 3, 4, 4), {"is_test": True, "trainable_statistics": True}),
    ("epsilon", (2, 3, 4, 4), {"epsilon": 0.1}),
):
    ROWS += [
        Row(
            "batch_norm",
            dict({"X": signed(*_x)}, **dict(SCALE, **STATS)),
            dict({"epsilon": 1e-5, "momentum": 0.9}, **_attrs),
            grad=["X", "Scale", "Bias"] if _name not in ("test", "trainable") else (),
            wants=["Y"],
            alias={"MeanOut": "Mean", "VarianceOut": "Variance"},
            outputs={"SavedMean": 1, "SavedVariance": 1},
            ignore=["ReserveSpace"]
            + (["SavedMean", "SavedVariance"] if "global" in _name or _name == "test" else []),
            name=_name,
            tolerance=1e-4,
        )
    ]
ROWS += [
    Row(
        "batch_norm",
        dict({"X": signed(4, 3), "MomentumTensor": np.array([0.3], "float32")}, **dict(SCALE, **STATS)),
        {},
        alias={"MeanOut": "Mean", "VarianceOut": "Variance"},
        outputs={"SavedMean": 1, "SavedVariance": 1},
        ignore=["ReserveSpace"],
        name="momentum_tensor",
        tolerance=1e-4,
    )
]
for _name, _x, _axis in (
    ("plain", (3, 4), 1),
    ("two", (2, 3, 4), 2),
    ("first", (2, 3, 4), 1),
    ("four", (2, 3, 4, 2), 2),
    ("bad", (2, 3), 2),
):
    _size = int(np.prod(_x[_axis:]))
    _parts = {"Scale": real(_size, key="s"), "Bias": real(_size, key="b")}
    for _with in ((), ("Scale",), ("Bias",), ("Scale", "Bias")):
        ROWS += [
            Row(
                "layer_norm",
                dict({"X": signed(*_x)}, **{slot: _parts[slot] for slot in _with}),
                {"begin_norm_axis": _axis, "epsilon": 1e-4},
                grad=["X"] + list(_with),
                wants=["Y"],
                outputs={"Mean": 1, "Variance": 1},
                name=_name + "_" + "".join(_with),
                tolerance=1e-4,
            )
        ]
for _name, _x, _groups, _attrs in (
    ("plain", (2, 4, 3, 3), 2, {}),
    ("one", (2, 4, 3, 3), 1, {}),
    ("all", (2, 4, 3, 3), 4, {}),
    ("last", (2, 3, 3, 4), 2, {"data_layout": "NHWC"}),
):
    _size = _x[-1] if _attrs else _x[1]
    ROWS += [
        Row(
            "group_norm",
            {"X": signed(*_x), "Scale": real(_size, key="s"), "Bias": real(_size, key="b")},
            dict({"groups": _groups, "epsilon": 1e-5}, **_attrs),
            grad=["X", "Scale", "Bias"],
            wants=["Y"],
            outputs={"Mean": 1, "Variance": 1},
            name=_name,
            tolerance=1e-4,
        ),
        Row(
            "group_norm",
            {"X": signed(*_x)},
            dict({"groups": _groups, "epsilon": 1e-5}, **_attrs),
            grad=["X"],
            wants=["Y"],
            outputs={"Mean": 1, "Variance": 1},
            name=_name + "_bare",
            tolerance=1e-4,
        ),
    ]
ROWS += [
    Row(
        "instance_norm",
        dict({"X": signed(*x)}, **SCALE),
        {"epsilon": 1e-5},
        grad=["X", "Scale", "Bias"],
        wants=["Y"],
        outputs={"SavedMean": 1, "SavedVariance": 1},
        name=name,
        tolerance=1e-4,
    )
    for name, x in (("image", (2, 3, 4, 4)), ("three", (2, 3, 5)), ("five", (2, 3, 2, 2, 2)))
]
ROWS += [
    Row(
        "data_norm",
        {
            "X": signed(4, 3),
            "BatchSize": real(3) * 100,
            "BatchSum": real(3, key="s"),
            "BatchSquareSum": real(3, key="q") * 50,
        },
        {"epsilon": 1e-4},
        grad=["X"],
        wants=["Y"],
        outputs={"Means": 1, "Scales": 1},
    ),
    Row(
        "data_norm",
        {
            "X": signed(4, 3),
            "BatchSize": real(3) * 100,
            "BatchSum": real(3, key="s"),
            "BatchSquareSum": real(3, key="q") * 50,
            "scale_w": real(3),
            "bias": real(3, key="b"),
        },
        {"epsilon": 1e-4, "enable_scale_and_shift": True},
        grad=["X", "scale_w", "bias"],
        wants=["Y"],
        outputs={"Means": 1, "Scales": 1},
        name="shift",
    ),
    Row(
        "data_norm",
        {
            "X": np.array([[1, 0, 0, 3], [0, 1, 2, 0]], "float32"),
            "BatchSize": real(4) * 100,
            "BatchSum": real(4, key="s"),
            "BatchSquareSum": real(4, key="q") * 50,
        },
        {"epsilon": 1e-4, "slot_dim": 2},
        grad=["X"],
        wants=["Y"],
        outputs={"Means": 1, "Scales": 1},
        name="slots",
    ),
    Row("lrn", {"X": real(2, 6, 3, 3)}, {"n": 5, "k": 1.0, "alpha": 0.1, "beta": 0.75}, grad=["X"]),
    Row(
        "lrn", {"X": real(2, 3, 3, 6)}, {"n": 3, "data_format": "NHWC", "alpha": 0.1}, grad=["X"], name="last"
    ),
    Row("lrn", {"X": real(2, 3, 3, 6)}, {"n": 4}, name="even"),
    Row(
        "affine_channel",
        dict({"X": signed(2, 3, 4, 4)}, **SCALE),
        {"data_layout": "NCHW"},
        grad=["X", "Scale", "Bias"],
    ),
    Row(
        "affine_channel",
        dict({"X": signed(2, 4, 4, 3)}, **SCALE),
        {"data_layout": "NHWC"},
        grad=["X", "Scale", "Bias"],
        name="last",
    ),
    Row(
        "affine_channel",
        dict({"X": signed(2, 3)}, **SCALE),
        {"data_layout": "NCHW"},
        grad=["X", "Scale", "Bias"],
        name="matrix",
    ),
]
