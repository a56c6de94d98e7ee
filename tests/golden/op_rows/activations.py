"""Scalar functions: types, sizes, arguments far out, and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Seq, real, signed, whole

PLAIN = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "erf",
    "exp",
    "floor",
    "log",
    "log1p",
    "logsigmoid",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "tanh",
    "tanh_shrink",
]
ATTRS = {
    "brelu": [{}, {"t_min": 1.0, "t_max": 4.0}, {"t_min": -0.5, "t_max": 0.5}],
    "elu": [{}, {"alpha": 0.3}, {"alpha": -0.5}],
    "gelu": [{}, {"approximate": True}],
    "hard_shrink": [{}, {"threshold": 1.0}],
    "hard_sigmoid": [{}, {"slope": 0.5, "offset": 0.1}],
    "hard_swish": [{}, {"threshold": 3.0, "scale": 3.0, "offset": 1.0}],
    "leaky_relu": [{}, {"alpha": 0.5}, {"alpha": 0.9}],
    "mish": [{}, {"threshold": 1.0}],
    "pow": [{}, {"factor": 2.5}, {"factor": 0.0}, {"factor": -1.0}],
    "relu6": [{}, {"threshold": 1.0}],
    "selu": [{}, {"alpha": 1.0, "scale": 2.0}],
    "soft_relu": [{}, {"threshold": 1.0}],
    "softshrink": [{}, {"lambda": 1.0}],
    "stanh": [{}, {"scale_a": 0.3, "scale_b": 2.0}],
    "swish": [{}, {"beta": 2.5}],
    "thresholded_relu": [{}, {"threshold": 0.3}],
    "scale": [{}, {"scale": 2.0, "bias": 1.0}, {"scale": 2.0, "bias": 1.0, "bias_after_scale": False}],
    "clip": [{"min": -0.5, "max": 0.7}, {"min": 0.7, "max": -0.5}],
    "label_smooth": [{"epsilon": 0.1}],
    "increment": [{"step": 2.0}],
    "cumsum": [
        {},
        {"axis": 0},
        {"axis": -1, "reverse": True},
        {"axis": 1, "exclusive": True},
        {"axis": -2, "exclusive": True, "reverse": True},
        {"axis": 2},
        {"axis": -3},
    ],
    "softmax": [{}, {"axis": 0}, {"axis": 1}, {"axis": -2}, {"axis": 2}, {"axis": -3}],
    "maxout": [],
    "norm": [{"axis": 1}, {"axis": -1, "epsilon": 1e-3}, {"axis": 0}],
    "p_norm": [
        {},
        {"porder": 1.0, "axis": 0},
        {"porder": 3.0, "axis": -2, "keepdim": True},
        {"porder": 0.0},
        {"porder": float("inf")},
        {"porder": float("-inf")},
        {"porder": 0.5},
    ],
    "l1_norm": [{}],
    "squared_l2_norm": [{}],
    "mean": [{}],
    "clip_by_norm": [{"max_norm": 1.0}, {"max_norm": 100.0}],
    "logical_not": [],
}
NO_GRAD = ("clip_by_norm",)
EXTRA = {"norm": {"Norm": 1}}
POSITIVE = ("log", "sqrt", "rsqrt", "log1p", "pow", "acos", "asin")


def _input(name: str, shape: Any, dtype: str = "float32") -> Any:
    if name in ("acos", "asin"):
        return real(*shape, low=-0.9, high=0.9, dtype=dtype)
    return real(*shape, dtype=dtype) if name in POSITIVE else signed(*shape, dtype=dtype)


ROWS = []
for _name in PLAIN + list(ATTRS):
    for _index, _attrs in enumerate(ATTRS.get(_name, [{}])):
        _grad = () if _name in NO_GRAD else ("X",)
        _kind = {"outputs": EXTRA.get(_name, {})}
        _x = _input(_name, (3, 4)) if _name != "increment" else signed(1)
        ROWS += [Row(_name, {"X": _x}, _attrs, grad=_grad, name=str(_index), **_kind)]
        if _name not in ("increment",):
            ROWS += [
                Row(
                    _name,
                    {"X": _input(_name, (2, 3, 4), "float64")},
                    _attrs,
                    grad=_grad,
                    name=f"64_{_index}",
                    **_kind,
                )
            ]
    if _name in ("increment",):
        continue
    _attrs = (ATTRS.get(_name) or [{}])[0]
    if _name not in ("norm", "p_norm", "label_smooth", "maxout", "softmax"):
        ROWS += [
            Row(_name, {"X": whole(3, 4, low=-3, high=3, dtype=_dtype)}, _attrs, name=_dtype)
            for _dtype in ("int64", "int32")
        ]
        ROWS += [Row(_name, {"X": Seq(_input(_name, (5, 2)), [[2, 3]])}, _attrs, name="lod", grad=_grad)]
    if _name in PLAIN or _name in (
        "swish",
        "elu",
        "gelu",
        "mish",
        "soft_relu",
        "stanh",
        "selu",
        "hard_swish",
    ):
        ROWS += [
            Row(
                _name,
                {"X": np.array([-100, -50, -20, -13.5, -1e-3, 0, 1e-3, 13.5, 20, 50, 90], "float32")},
                name="far",
            )
        ]
ROWS += [
    Row(
        "maxout",
        {"X": signed(2, 6, 3, 2)},
        {"groups": groups, "axis": axis},
        grad=["X"],
        name=f"{groups}_{axis}",
    )
    for groups, axis in ((2, 1), (3, 1), (6, 1), (1, 1))
] + [
    Row("maxout", {"X": signed(2, 3, 2, 6)}, {"groups": 2, "axis": axis}, grad=["X"], name=f"last_{axis}")
    for axis in (3,)
]
ROWS += [
    Row("maxout", {"X": signed(2, 6, 3, 2)}, {"groups": 4, "axis": 1}, name="uneven"),
    Row("maxout", {"X": signed(2, 6, 3)}, {"groups": 2, "axis": 1}, name="rank3"),
    Row("maxout", {"X": signed(2, 6, 3, 2)}, {"groups": 1, "axis": 0}, name="axis0"),
    Row("increment", {"X": np.array([3], "int64")}, {"step": 2.0}, name="int64"),
    Row("increment", {"X": np.array([3], "int32")}, {"step": 1.5}, name="int32"),
    Row("increment", {"X": real(2)}, {"step": 1.5}, name="two"),
    Row(
        "pow",
        {"X": real(2, 3), "FactorTensor": np.array([3], "float32")},
        {"factor": 1.0},
        grad=["X"],
        name="tensor",
    ),
    Row(
        "scale",
        {"X": real(2, 3), "ScaleTensor": np.array([3], "float32")},
        {"bias": 1.0},
        name="tensor",
        grad=["X"],
    ),
    Row(
        "scale", {"X": whole(2, 3, low=-3, dtype="int64")}, {"scale": 2.5, "bias": 1.0}, name="int64_fraction"
    ),
    Row("scale", {"X": whole(2, 3, dtype="int16")}, {"scale": 2.0}, name="int16"),
    Row("scale", {"X": whole(2, 3, dtype="uint8")}, {"scale": 2.0}, name="uint8"),
    Row("scale", {"X": whole(2, 3, dtype="int8")}, {"scale": 2.0}, name="int8"),
    Row(
        "clip",
        {"X": signed(2, 3), "Min": np.array([-0.3], "float32"), "Max": np.array([0.3], "float32")},
        {"min": -1.0, "max": 1.0},
        grad=["X"],
        name="tensors",
    ),
    Row(
        "clip",
        {"X": signed(2, 3), "Min": np.array([-0.3], "float32")},
        {"min": -1.0, "max": 1.0},
        grad=["X"],
        name="min_tensor",
    ),
    Row(
        "label_smooth", {"X": real(3, 4), "PriorDist": real(1, 4)}, {"epsilon": 0.1}, grad=["X"], name="prior"
    ),
    Row("softmax", {"X": signed(2, 3) * 40}, name="far"),
    Row("softmax", {"X": np.array([[-1000, 0, 1000]], "float32")}, name="farther"),
    Row("softmax", {"X": real(4)}, name="vector", grad=["X"]),
    Row("softmax", {"X": real(2, 1)}, name="one", grad=["X"]),
    Row("softmax", {"X": real(0, 3)}, name="empty"),
    Row("prelu", {"X": signed(2, 3, 4), "Alpha": real(1)}, {"mode": "all"}, grad=["X", "Alpha"], name="all"),
    Row(
        "prelu",
        {"X": signed(2, 3, 4), "Alpha": real(3)},
        {"mode": "channel"},
        grad=["X", "Alpha"],
        name="channel_flat",
    ),
    Row(
        "prelu",
        {"X": signed(2, 3, 4), "Alpha": real(1, 3, 1)},
        {"mode": "channel"},
        grad=["X", "Alpha"],
        name="channel",
    ),
    Row(
        "prelu",
        {"X": signed(2, 3, 4, 2), "Alpha": real(1, 3, 1, 1)},
        {"mode": "channel"},
        grad=["X", "Alpha"],
        name="channel4",
    ),
    Row(
        "prelu",
        {"X": signed(2, 3, 4), "Alpha": real(1, 3, 4)},
        {"mode": "element"},
        grad=["X", "Alpha"],
        name="element",
    ),
    Row(
        "prelu",
        {"X": signed(2, 3, 4), "Alpha": real(3, 4)},
        {"mode": "element"},
        grad=["X", "Alpha"],
        name="element_low",
    ),
    Row("prelu", {"X": signed(2, 3, 4), "Alpha": real(2)}, {"mode": "channel"}, name="channel_bad"),
    Row("prelu", {"X": signed(2, 3, 4), "Alpha": real(2)}, {"mode": "all"}, name="all_bad"),
    Row("prelu", {"X": signed(2, 3, 4), "Alpha": real(1)}, {"mode": "other"}, name="mode_bad"),
    Row("isfinite", {"X": np.array([1, np.inf, np.nan], "float32")}),
    Row("isinf", {"X": np.array([1, np.inf, np.nan], "float32")}),
    Row("isnan", {"X": np.array([1, np.inf, np.nan], "float32")}),
    Row("isnan", {"X": whole(3, dtype="int32")}, name="int"),
    Row("isfinite", {"X": whole(3, dtype="int64")}, name="int"),
    Row("mean", {"X": real(0, 3)}, name="empty"),
    Row("cumsum", {"X": real(4)}, {"axis": 0, "exclusive": True}, grad=["X"], name="vector"),
    Row("cumsum", {"X": real(3, 4)}, {"axis": 2}, name="bad"),
    Row("allclose", {"Input": real(3), "Other": real(3)}),
    Row("allclose", {"Input": real(3), "Other": real(3) + 1e-4}, {"atol": 1e-3}, name="near"),
    Row(
        "allclose",
        {"Input": np.array([1, np.nan], "float32"), "Other": np.array([1, np.nan], "float32")},
        name="nan",
    ),
    Row(
        "allclose",
        {"Input": np.array([1, np.nan], "float32"), "Other": np.array([1, np.nan], "float32")},
        {"equal_nan": True},
        name="equal_nan",
    ),
]
