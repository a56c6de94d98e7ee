"""Arithmetic and logic on two tensors, with fluid's broadcasting at `axis`."""
from __future__ import annotations

from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op

__all__ = ["clip", "clip_by_norm", "elementwise_add", "elementwise_div", "elementwise_floordiv", "elementwise_max", "elementwise_min",
           "elementwise_mod", "elementwise_mul", "elementwise_pow", "elementwise_sub", "logical_and", "logical_not", "logical_or",
           "logical_xor", "scale", "sum"]

_NUMBERS = ["float16", "float32", "float64", "int32", "int64"]


def _elementwise(op_type: str, x: Variable, y: Variable, axis: int, act: str | None, name: str | None) -> Variable:
    check_variable_and_dtype(x, "x", _NUMBERS, op_type)
    check_variable_and_dtype(y, "y", _NUMBERS, op_type)
    helper = LayerHelper(op_type, act=act, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type=op_type, inputs={"X": x, "Y": y}, outputs={"Out": out}, attrs={"axis": axis, "use_mkldnn": False})
    return helper.append_activation(out)


def elementwise_add(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x + y; y's dimensions stand at `axis` of x's (-1: at the end)."""
    return _elementwise("elementwise_add", x, y, axis, act, name)


def elementwise_sub(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x - y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x * y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_mul", x, y, axis, act, name)


def elementwise_div(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x / y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_div", x, y, axis, act, name)


def elementwise_max(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The larger of x and y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_max", x, y, axis, act, name)


def elementwise_min(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The smaller of x and y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_min", x, y, axis, act, name)


def elementwise_pow(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x to the power y; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_pow", x, y, axis, act, name)


def elementwise_mod(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The remainder of x by y, with y's sign; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_mod", x, y, axis, act, name)


def elementwise_floordiv(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x divided by y and rounded down; y's dimensions stand at `axis` of x's."""
    return _elementwise("elementwise_floordiv", x, y, axis, act, name)


def _logical(op_type: str, x: Variable, y: Variable | None, out: Variable | None, name: str | None) -> Variable:
    check_variable_and_dtype(x, "x", ["bool"], op_type)
    if y is not None:
        check_variable_and_dtype(y, "y", ["bool"], op_type)
    if out is not None:
        check_type(out, "out", Variable, op_type)
    return one_op(op_type, {"X": x} if y is None else {"X": x, "Y": y}, dtype="bool", name=name, out=out)


def logical_and(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """x and y, element by element; bool tensors."""
    return _logical("logical_and", x, y, out, name)


def logical_or(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """x or y, element by element; bool tensors."""
    return _logical("logical_or", x, y, out, name)


def logical_xor(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether just one of x and y is true, element by element; bool tensors."""
    return _logical("logical_xor", x, y, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """not x, element by element; a bool tensor."""
    return _logical("logical_not", x, None, out, name)


def scale(x: Variable, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None,
          name: str | None = None) -> Variable:
    """scale * x + bias, or scale * (x + bias); `scale` may be a Variable of one element."""
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"], "scale")
    helper = LayerHelper("scale", act=act, name=name)
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = [scale]
    else:
        attrs["scale"] = float(scale)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="scale", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return helper.append_activation(out)


def sum(x: Any) -> Variable:
    """The sum of a list of tensors of one shape (or of one tensor: a copy)."""
    items = list(x) if isinstance(x, (list, tuple)) else [x]
    for item in items:
        check_variable_and_dtype(item, "x", ["float16", "float32", "float64", "int32", "int64"], "sum")
    return one_op("sum", {"X": items}, {"use_mkldnn": False}, dtype=items[0].dtype)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """x with elements below `min` raised to it and elements above `max` lowered to it."""
    check_variable_and_dtype(x, "x", ["float32", "float64"], "clip")
    return one_op("clip", {"X": x}, {"min": min, "max": max}, dtype=x.dtype, name=name)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """x scaled down, where its L2 norm is above `max_norm`, so that it is just that."""
    check_variable_and_dtype(x, "X", ["float32"], "clip_by_norm")
    check_type(max_norm, "max_norm", float, "clip_by_norm")
    return one_op("clip_by_norm", {"X": x}, {"max_norm": max_norm}, dtype=x.dtype, name=name)
