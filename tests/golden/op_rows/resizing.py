"""Images in other sizes, windows of images as rows, and other ops on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Seq, real, signed, whole


def ints(*values: Any, dtype: str = "int32") -> Any:
    return np.array(values, dtype)


ROWS = [
    Row("affine_grid", {"Theta": real(2, 2, 3)}, {"output_shape": [2, 3, 4, 5]}, grad=["Theta"]),
    Row(
        "affine_grid",
        {"Theta": real(2, 2, 3), "OutputShape": ints(2, 3, 4, 5)},
        {"output_shape": []},
        grad=["Theta"],
        name="tensor",
    ),
    Row(
        "grid_sampler",
        {"X": real(2, 3, 4, 5), "Grid": real(2, 3, 2, 2, low=-1.2, high=1.2)},
        grad=["X", "Grid"],
    ),
    Row(
        "spectral_norm",
        {"Weight": signed(3, 4), "U": signed(3), "V": signed(4)},
        {"dim": 0, "power_iters": 2},
        grad=["Weight"],
        tolerance=1e-4,
    ),
    Row(
        "spectral_norm",
        {"Weight": signed(2, 3, 2, 2), "U": signed(3), "V": signed(8)},
        {"dim": 1, "power_iters": 1},
        grad=["Weight"],
        name="four",
        tolerance=1e-4,
    ),
    Row(
        "spectral_norm",
        {"Weight": signed(3, 4), "U": signed(3), "V": signed(4)},
        {"dim": 0, "power_iters": 0},
        grad=["Weight"],
        name="zero",
        tolerance=1e-4,
    ),
    Row("row_conv", {"X": Seq(real(5, 3), [[2, 3]]), "Filter": real(2, 3)}, grad=["X", "Filter"]),
    Row("row_conv", {"X": real(2, 4, 3), "Filter": real(2, 3)}, grad=["X", "Filter"], name="padded"),
    Row(
        "im2sequence",
        {"X": real(2, 2, 4, 5)},
        {"kernels": [2, 2], "strides": [1, 2], "paddings": [1, 1, 0, 1]},
        grad=["X"],
        undeclared=True,
    ),
    Row(
        "im2sequence",
        {"X": real(2, 1, 7, 6), "Y": np.array([[7, 6], [4, 5]], "float32")},
        {"kernels": [2, 2], "strides": [2, 3], "paddings": [1, 0, 0, 1], "out_stride": [1, 2]},
        name="sizes_stride",
        undeclared=True,
    ),
    Row(
        "im2sequence",
        {"X": real(2, 1, 6, 6), "Y": np.array([[6, 6], [4, 5]], "float32")},
        {"kernels": [2, 2], "strides": [1, 1], "paddings": [0, 0, 0, 0], "out_stride": [2, 2]},
        name="sizes",
        undeclared=True,
    ),
    Row(
        "unfold",
        {"X": real(2, 3, 5, 5)},
        {"kernel_sizes": [2, 3], "strides": [1, 2], "paddings": [1, 1, 0, 1], "dilations": [1, 1]},
        grad=["X"],
    ),
    Row(
        "unfold",
        {"X": real(2, 3, 5, 5)},
        {"kernel_sizes": [2, 2], "strides": [1, 1], "paddings": [0, 0, 0, 0], "dilations": [2, 2]},
        grad=["X"],
        name="dilated",
    ),
    Row(
        "unfold",
        {"X": real(2, 3, 5, 5)},
        {"kernel_sizes": [7, 2], "strides": [1, 1], "paddings": [0, 0, 0, 0], "dilations": [1, 1]},
        name="bad",
    ),
]
for _op, _method, _x, _out in (
    ("bilinear_interp", "bilinear", (2, 3, 4, 5), {"out_h": 7, "out_w": 3}),
    ("nearest_interp", "nearest", (2, 3, 4, 5), {"out_h": 7, "out_w": 3}),
    ("bicubic_interp", "bicubic", (2, 3, 4, 5), {"out_h": 7, "out_w": 3}),
    ("trilinear_interp", "trilinear", (1, 2, 3, 4, 5), {"out_d": 5, "out_h": 7, "out_w": 3}),
):
    _rank = len(_x) - 2
    _sizes = ints(*list(_out.values()))
    _last = "NDHWC" if _rank == 3 else "NHWC"
    for _corners, _mode in ((True, 1), (False, 0), (False, 1)):
        _base = {"interp_method": _method, "align_corners": _corners, "align_mode": _mode}
        _tag = f"{int(_corners)}{_mode}"
        ROWS += [
            Row(_op, {"X": real(*_x)}, dict(_base, **_out), grad=["X"], name="size" + _tag),
            Row(
                _op,
                {"X": real(*_x)},
                dict(_base, scale=1.6, **dict.fromkeys(_out, -1)),
                grad=["X"],
                name="scale" + _tag,
            ),
            Row(
                _op,
                {"X": real(*_x), "OutSize": _sizes + 1},
                dict(_base, **_out),
                grad=["X"],
                name="out_size" + _tag,
            ),
            Row(
                _op,
                {"X": real(*_x), "SizeTensor": [ints(int(s)) for s in _sizes]},
                dict(_base, **dict.fromkeys(_out, -1)),
                grad=["X"],
                name="size_tensors" + _tag,
            ),
            Row(
                _op,
                {"X": real(*_x), "Scale": np.array([1.5], "float32")},
                dict(_base, **dict.fromkeys(_out, -1)),
                grad=["X"],
                name="scale_tensor" + _tag,
            ),
        ]
        if _rank == 2:
            ROWS += [
                Row(
                    _op,
                    {"X": np.moveaxis(real(*_x), 1, -1).copy()},
                    dict(_base, data_layout=_last, **_out),
                    grad=["X"],
                    name="last" + _tag,
                )
            ]
    ROWS += [
        Row(
            _op,
            {"X": real(*_x)},
            dict({"interp_method": _method}, **dict.fromkeys(_out, 1)),
            grad=["X"],
            name="one",
        ),
        Row(
            _op,
            {"X": real(*_x)},
            dict({"interp_method": _method}, **dict(zip(_out, _x[2:]))),
            grad=["X"],
            name="same",
        ),
        Row(
            _op,
            {"X": whole(*_x, high=250, dtype="uint8")},
            dict({"interp_method": _method}, **_out),
            name="uint8",
        ),
        Row(
            _op,
            {"X": whole(*_x, high=250, dtype="uint8")},
            dict({"interp_method": _method, "align_corners": False, "align_mode": 0}, **_out),
            name="uint8_00",
            tolerance=1e-3,
        ),
        Row(
            _op,
            {"X": real(*_x)},
            dict({"interp_method": _method, "scale": -1.0}, **dict.fromkeys(_out, -1)),
            name="bad",
        ),
    ]
