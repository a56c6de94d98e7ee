"""The same small rows in every type that 1.8.5 has a kernel for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, signed, whole

TYPES = ("float32", "float64", "int32", "int64", "int16", "int8", "uint8", "bool")


def made(dtype: str, *shape: int, key: str = "") -> Any:
    """Small numbers of a type."""
    if dtype == "bool":
        return whole(*shape, high=2, key=key).astype("bool")
    low = 0 if dtype == "uint8" else -4
    return (
        signed(*shape, key=key).astype(dtype)
        if dtype[0] == "f"
        else whole(*shape, low=low, dtype=dtype, key=key)
    )


INDEX = np.array([2, 0], "int64")
MADE = {
    "assign": ({}, {}),
    "concat": ({"axis": 0}, {}),
    "cumsum": ({"axis": 1}, {}),
    "expand": ({"expand_times": [2, 1]}, {}),
    "fill_zeros_like": ({}, {}),
    "flatten2": ({"axis": 1}, {}),
    "flip": ({"dims": [0]}, {}),
    "gather": ({}, {"Index": INDEX}),
    "gather_nd": ({}, {"Index": INDEX[:, None]}),
    "index_select": ({"dim": 1}, {"Index": INDEX}),
    "is_empty": ({}, {}),
    "pad": ({"paddings": [0, 1, 1, 0]}, {}),
    "reshape2": ({"shape": [-1, 2]}, {}),
    "reverse": ({"axis": [1]}, {}),
    "roll": ({"shifts": [1], "dims": [1]}, {}),
    "scatter": ({}, {"Ids": INDEX}),
    "slice": ({"axes": [0], "starts": [1], "ends": [3], "infer_flags": [1]}, {}),
    "split": ({"axis": 1, "num": 2}, {}),
    "squeeze2": ({"axes": []}, {}),
    "stack": ({"axis": 1}, {}),
    "strided_slice": ({"axes": [1], "starts": [3], "ends": [0], "strides": [-2], "infer_flags": [1]}, {}),
    "transpose2": ({"axis": [1, 0]}, {}),
    "tril_triu": ({"lower": True}, {}),
    "unsqueeze2": ({"axes": [1]}, {}),
    "unstack": ({"axis": 0, "num": 3}, {}),
    "where": ({}, {"Condition": whole(3, 4, high=2).astype("bool")}),
    "where_index": ({}, {}),
    "reduce_max": ({"dim": [1]}, {}),
    "reduce_sum": ({"dim": [0]}, {}),
    "arg_min": ({"axis": 0}, {}),
    "argsort": ({"axis": 1}, {}),
    "shape": ({}, {}),
    "size": ({}, {}),
    "sum": ({}, {}),
    "scale": ({"scale": 3.0, "bias": 1.0}, {}),
    "abs": ({}, {}),
    "square": ({}, {}),
    "elementwise_add": ({}, {}),
    "elementwise_max": ({}, {}),
    "equal": ({}, {}),
    "greater_than": ({}, {}),
    "fill_any_like": ({"value": 1.0}, {}),
    "fill_constant_batch_size_like": ({"shape": [-1, 2], "value": 1.0}, {}),
    "unbind": ({"axis": 0}, {}),
    "diag": ({}, {}),
    "kron": ({}, {}),
    "dot": ({}, {}),
    "multiplex": ({}, {"Ids": np.array([[1], [0], [1]], "int32")}),
    "crop_tensor": ({"offsets": [0, 1], "shape": [2, 2]}, {}),
    "label_smooth": ({"epsilon": 0.1}, {}),
    "isfinite": ({}, {}),
    "clip": ({"min": -1.0, "max": 1.0}, {}),
}
SECOND = {"elementwise_add", "elementwise_max", "equal", "greater_than", "where", "kron", "dot"}
MANY = {"concat", "stack", "sum", "multiplex"}
OUTPUTS = {"split": 2, "unstack": 3, "unbind": 3}
INPUT = {
    "slice": "Input",
    "strided_slice": "Input",
    "shape": "Input",
    "size": "Input",
    "fill_constant_batch_size_like": "Input",
    "where_index": "Condition",
    "diag": "Diagonal",
}


def row(op: str, dtype: str) -> Row:
    attrs, fixed = MADE[op]
    shape = {"diag": (3,), "squeeze2": (3, 1, 2)}.get(op, (3, 4))
    x = made(dtype, *shape)
    inputs = {INPUT.get(op, "X"): [x, made(dtype, *shape, key="b")] if op in MANY else x, **fixed}
    if op in SECOND:
        inputs["Y"] = made(dtype, *shape, key="y")
    if op == "scatter":
        inputs["Updates"] = made(dtype, 2, 4, key="u")
    slot = "Y" if op == "unstack" else "Out"
    outputs = {slot: OUTPUTS[op]} if op in OUTPUTS else {}
    if op.endswith("2"):
        outputs = {"XShape": 1}
    return Row(op, inputs, attrs, outputs=outputs, name=dtype)


ROWS = [row(op, dtype) for op in MADE for dtype in TYPES]
