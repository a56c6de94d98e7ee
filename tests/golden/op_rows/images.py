"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, signed


def ints(*values: Any, dtype: str = "int32") -> Any:
    return np.array(values, dtype)


CONV = [
    ("plain", (2, 3, 5, 5), (4, 3, 3, 3), {}),
    ("padded", (2, 3, 5, 5), (4, 3, 3, 3), {"paddings": [1, 1], "strides": [2, 2]}),
    ("uneven", (2, 3, 5, 6), (4, 3, 3, 2), {"paddings": [1, 0], "strides": [1, 2]}),
    ("four_pads", (2, 3, 5, 5), (4, 3, 3, 3), {"paddings": [1, 2, 0, 1]}),
    ("same", (2, 3, 5, 6), (4, 3, 3, 3), {"padding_algorithm": "SAME", "strides": [2, 2]}),
    ("same_dilated", (2, 3, 6, 6), (4, 3, 3, 3), {"padding_algorithm": "SAME", "dilations": [2, 2]}),
    ("valid", (2, 3, 5, 5), (4, 3, 3, 3), {"padding_algorithm": "VALID", "paddings": [1, 1]}),
    ("dilated", (2, 3, 7, 7), (4, 3, 3, 3), {"dilations": [2, 2], "paddings": [1, 1]}),
    ("dilated_uneven", (2, 3, 7, 7), (4, 3, 3, 3), {"dilations": [1, 2], "paddings": [1, 0]}),
    ("groups", (2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "paddings": [1, 1]}),
    ("groups3", (2, 3, 5, 5), (6, 1, 3, 3), {"groups": 3}),
    ("one", (2, 3, 4, 4), (5, 3, 1, 1), {}),
    ("one_stride", (2, 3, 4, 4), (5, 3, 1, 1), {"strides": [2, 2]}),
    ("bad", (2, 3, 4, 4), (5, 2, 3, 3), {}),
    ("bad_groups", (2, 3, 4, 4), (5, 1, 3, 3), {"groups": 3}),
    ("too_big", (2, 3, 2, 2), (5, 3, 3, 3), {}),
]
BASE = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1}
ROWS = [
    Row(
        op,
        {"Input": signed(*x), "Filter": signed(*w)},
        dict(BASE, **attrs),
        grad=["Input", "Filter"],
        name=name,
    )
    for op in ("conv2d",)
    for name, x, w, attrs in CONV
]
ROWS += [
    Row(
        "conv2d",
        {"Input": np.ascontiguousarray(signed(*x).transpose(0, 2, 3, 1)), "Filter": signed(*w)},
        dict(BASE, data_format="NHWC", **attrs),
        grad=["Input", "Filter"],
        name=name + "_last",
    )
    for name, x, w, attrs in CONV
    if "bad" not in name
]
ROWS += [
    Row(
        "depthwise_conv2d",
        {"Input": signed(2, 3, 5, 5), "Filter": signed(*w)},
        dict(BASE, groups=3, **attrs),
        grad=["Input", "Filter"],
        name=name,
    )
    for name, w, attrs in (
        ("plain", (3, 1, 3, 3), {}),
        ("twice", (6, 1, 3, 3), {"paddings": [1, 1]}),
        ("stride", (3, 1, 3, 3), {"strides": [2, 2], "paddings": [1, 1]}),
        ("dilated", (3, 1, 3, 3), {"dilations": [2, 2], "paddings": [2, 2]}),
        ("same", (3, 1, 3, 3), {"padding_algorithm": "SAME"}),
        ("four", (3, 1, 3, 3), {"paddings": [1, 2, 0, 1]}),
    )
]
ROWS += [
    Row(
        "depthwise_conv2d",
        {"Input": signed(2, 5, 5, 3), "Filter": signed(6, 1, 3, 3)},
        dict(BASE, groups=3, data_format="NHWC"),
        grad=["Input", "Filter"],
        name="last",
    )
]
CONV_T = [
    ("plain", (2, 3, 4, 4), (3, 4, 3, 3), {}),
    ("stride", (2, 3, 4, 4), (3, 4, 3, 3), {"strides": [2, 2], "paddings": [1, 1]}),
    (
        "output_size",
        (2, 3, 4, 4),
        (3, 4, 3, 3),
        {"strides": [2, 2], "paddings": [1, 1], "output_size": [8, 8]},
    ),
    (
        "output_size_bad",
        (2, 3, 4, 4),
        (3, 4, 3, 3),
        {"strides": [2, 2], "paddings": [1, 1], "output_size": [12, 8]},
    ),
    ("groups", (2, 4, 4, 4), (4, 3, 3, 3), {"groups": 2}),
    ("dilated", (2, 3, 4, 4), (3, 4, 3, 3), {"dilations": [2, 2], "paddings": [1, 1]}),
    ("four_pads", (2, 3, 4, 4), (3, 4, 3, 3), {"paddings": [1, 0, 1, 2], "strides": [2, 1]}),
    ("same", (2, 3, 4, 4), (3, 4, 3, 3), {"padding_algorithm": "SAME", "strides": [2, 2]}),
    ("valid", (2, 3, 4, 4), (3, 4, 3, 3), {"padding_algorithm": "VALID", "paddings": [1, 1]}),
    ("bad", (2, 3, 4, 4), (4, 4, 3, 3), {}),
]
ROWS += [
    Row(
        "conv2d_transpose",
        {"Input": signed(*x), "Filter": signed(*w)},
        dict(BASE, **attrs),
        grad=["Input", "Filter"],
        name=name,
    )
    for name, x, w, attrs in CONV_T
]
ROWS += [
    Row(
        "conv2d_transpose",
        {"Input": np.ascontiguousarray(signed(*x).transpose(0, 2, 3, 1)), "Filter": signed(*w)},
        dict(BASE, data_format="NHWC", **attrs),
        grad=["Input", "Filter"],
        name=name + "_last",
    )
    for name, x, w, attrs in CONV_T
    if "bad" not in name
]
ROWS += [
    Row(
        "depthwise_conv2d_transpose",
        {"Input": signed(2, 3, 4, 4), "Filter": signed(3, 1, 3, 3)},
        dict(BASE, groups=3, strides=[2, 2], paddings=[1, 1]),
        grad=["Input", "Filter"],
        name="stride",
    )
]
BASE3 = {"strides": [1, 1, 1], "paddings": [0, 0, 0], "dilations": [1, 1, 1], "groups": 1}
ROWS += [
    Row(
        "conv3d",
        {"Input": signed(*x), "Filter": signed(*w)},
        dict(BASE3, **attrs),
        grad=["Input", "Filter"],
        name=name,
    )
    for name, x, w, attrs in (
        ("plain", (2, 2, 4, 4, 4), (3, 2, 2, 2, 2), {}),
        ("padded", (2, 2, 4, 4, 4), (3, 2, 3, 3, 3), {"paddings": [1, 1, 1], "strides": [2, 2, 2]}),
        ("six_pads", (2, 2, 4, 4, 4), (3, 2, 3, 3, 3), {"paddings": [1, 0, 1, 1, 0, 2]}),
        ("groups", (2, 2, 4, 4, 4), (4, 1, 2, 2, 2), {"groups": 2}),
        ("dilated", (2, 2, 5, 5, 5), (3, 2, 2, 2, 2), {"dilations": [2, 1, 2]}),
        ("same", (2, 2, 4, 4, 4), (3, 2, 3, 3, 3), {"padding_algorithm": "SAME"}),
    )
]
ROWS += [
    Row(
        "conv3d",
        {"Input": signed(1, 4, 4, 4, 2), "Filter": signed(3, 2, 2, 2, 2)},
        dict(BASE3, data_format="NDHWC"),
        grad=["Input", "Filter"],
        name="last",
    ),
    Row(
        "conv3d_transpose",
        {"Input": signed(1, 2, 3, 3, 3), "Filter": signed(2, 3, 2, 2, 2)},
        dict(BASE3),
        grad=["Input", "Filter"],
        name="plain",
    ),
    Row(
        "conv3d_transpose",
        {"Input": signed(1, 2, 3, 3, 3), "Filter": signed(2, 3, 3, 3, 3)},
        dict(BASE3, strides=[2, 2, 2], paddings=[1, 1, 1]),
        grad=["Input", "Filter"],
        name="stride",
    ),
    Row(
        "conv3d_transpose",
        {"Input": signed(1, 2, 3, 3, 3), "Filter": signed(2, 3, 2, 2, 2)},
        dict(BASE3, strides=[2, 2, 2], output_size=[7, 6, 7]),
        grad=["Input", "Filter"],
        name="output_size",
    ),
    Row(
        "conv3d_transpose",
        {"Input": signed(1, 4, 3, 3, 3), "Filter": signed(4, 3, 2, 2, 2)},
        dict(BASE3, groups=2),
        grad=["Input", "Filter"],
        name="groups",
    ),
    Row(
        "conv3d_transpose",
        {"Input": signed(1, 3, 3, 3, 2), "Filter": signed(2, 3, 2, 2, 2)},
        dict(BASE3, data_format="NHWC"),
        grad=["Input", "Filter"],
        name="last",
    ),
]
POOL = [
    ("plain", {"ksize": [2, 2]}),
    ("stride", {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
    ("ceil", {"ksize": [3, 2], "strides": [2, 2], "ceil_mode": True}),
    ("inclusive", {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "exclusive": False}),
    ("global", {"ksize": [2, 2], "global_pooling": True}),
    ("global_padded", {"ksize": [2, 2], "global_pooling": True, "paddings": [1, 1]}),
    ("adaptive", {"ksize": [2, 3], "adaptive": True}),
    ("adaptive_one", {"ksize": [1, 1], "adaptive": True}),
    ("adaptive_global", {"ksize": [2, 3], "adaptive": True, "global_pooling": True}),
    ("same", {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"}),
    ("valid", {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "VALID", "paddings": [1, 1]}),
    ("four_pads", {"ksize": [3, 3], "strides": [1, 2], "paddings": [1, 0, 1, 2]}),
    ("ceil_padded", {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "ceil_mode": True}),
    ("bad", {"ksize": [9, 9]}),
]
for _kind in ("max", "avg"):
    for _name, _attrs in POOL:
        if _kind == "max" and "adaptive" in _name:
            continue  # Paddle's are none of the windows' largest
        _attrs = dict({"strides": [1, 1], "paddings": [0, 0], "pooling_type": _kind}, **_attrs)
        ROWS += [
            Row("pool2d", {"X": signed(2, 2, 5, 6)}, _attrs, grad=["X"], name=_kind + "_" + _name),
            Row(
                "pool2d",
                {"X": signed(2, 5, 6, 2)},
                dict(_attrs, data_format="NHWC"),
                grad=["X"],
                name=_kind + "_" + _name + "_last",
            ),
        ]
    for _name, _attrs in (
        ("plain", {"ksize": [2, 2, 2]}),
        ("stride", {"ksize": [3, 3, 3], "strides": [2, 2, 2], "paddings": [1, 1, 1]}),
        ("inclusive", {"ksize": [3, 3, 3], "strides": [2, 2, 2], "paddings": [1, 1, 1], "exclusive": False}),
        ("global", {"ksize": [2, 2, 2], "global_pooling": True}),
        ("adaptive", {"ksize": [2, 3, 2], "adaptive": True}),
        ("same", {"ksize": [3, 3, 3], "padding_algorithm": "SAME"}),
        ("six", {"ksize": [3, 3, 3], "paddings": [1, 0, 1, 1, 0, 1]}),
        ("ceil", {"ksize": [3, 3, 2], "strides": [2, 2, 2], "ceil_mode": True}),
    ):
        if (_kind, _name) == ("max", "adaptive"):
            continue
        _attrs = dict({"strides": [1, 1, 1], "paddings": [0, 0, 0], "pooling_type": _kind}, **_attrs)
        ROWS += [
            Row("pool3d", {"X": signed(1, 2, 4, 4, 5)}, _attrs, grad=["X"], name=_kind + "_" + _name),
            Row(
                "pool3d",
                {"X": signed(1, 4, 4, 5, 2)},
                dict(_attrs, data_format="NDHWC"),
                grad=["X"],
                name=_kind + "_" + _name + "_last",
            ),
        ]
for _name, _attrs in (
    ("plain", {"ksize": [2, 2]}),
    ("stride", {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
    ("global", {"ksize": [3, 3], "global_pooling": True}),
    ("global_padded", {"ksize": [3, 3], "global_pooling": True, "paddings": [1, 1], "strides": [2, 2]}),
    ("adaptive", {"ksize": [2, 3], "adaptive": True}),
    ("adaptive_global", {"ksize": [2, 3], "adaptive": True, "global_pooling": True}),
    ("uneven", {"ksize": [3, 2], "strides": [2, 1], "paddings": [0, 1]}),
):
    ROWS += [
        Row(
            "max_pool2d_with_index",
            {"X": signed(2, 2, 5, 6)},
            dict({"strides": [1, 1], "paddings": [0, 0]}, **_attrs),
            grad=["X"],
            name=_name,
        )
    ]
for _name, _attrs in (
    ("plain", {"ksize": [2, 2, 2]}),
    ("stride", {"ksize": [3, 3, 3], "strides": [2, 2, 2], "paddings": [1, 1, 1]}),
    ("global", {"ksize": [3, 3, 3], "global_pooling": True}),
    ("adaptive", {"ksize": [2, 3, 2], "adaptive": True}),
):
    ROWS += [
        Row(
            "max_pool3d_with_index",
            {"X": signed(1, 2, 4, 4, 5)},
            dict({"strides": [1, 1, 1], "paddings": [0, 0, 0]}, **_attrs),
            grad=["X"],
            name=_name,
        )
    ]
ROWS += [
    Row(
        "unpool",
        {"X": signed(1, 2, 2, 2), "Indices": ints([[[0, 2], [8, 10]], [[5, 7], [13, 15]]])},
        {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "unpooling_type": "max"},
        grad=["X"],
    ),
    Row(
        "unpool",
        {"X": signed(1, 1, 2, 2), "Indices": ints([[[0, 4], [12, 20]]])},
        {"ksize": [3, 3], "strides": [2, 2], "paddings": [0, 0], "unpooling_type": "max"},
        grad=["X"],
        name="three",
    ),
]
