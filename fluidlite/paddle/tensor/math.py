"""`paddle.tensor.math`: functions of elements."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from fluidlite.base.dtypes import REAL_PARTS, DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.signatures import Binary, Unary
from fluidlite.paddle.build import WHOLE, append, cast, need_float, need_numbers, need_summable, need_variable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.promotion import beside_number, promoted
from fluidlite.paddle.tensor.chosen_axis import along

__all__ = [
    "abs",
    "acos",
    "add",
    "add_n",
    "asin",
    "atan",
    "cast",
    "ceil",
    "clip",
    "conj",
    "cos",
    "cosh",
    "cumsum",
    "divide",
    "elementwise",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "imag",
    "increment",
    "kron",
    "log",
    "log10",
    "log1p",
    "log2",
    "maximum",
    "minimum",
    "mod",
    "multiplex",
    "multiply",
    "pow",
    "real",
    "reciprocal",
    "round",
    "rsqrt",
    "running_sum",
    "scale",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "stanh",
    "subtract",
    "tan",
    "tanh",
    "tanh_",
]


# ---------------------------------------------------------------------- one operand
_OF_INTEGERS = frozenset(
    ["exp", "expm1", "log", "log10", "log1p", "log2"]
)  # which give single precision in 2.x
_OF_FLOATS = frozenset(
    ["acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "floor", "reciprocal", "round", "rsqrt", "sin"]
    + ["sinh", "sqrt", "tan", "tanh"]
)


def _unary(op_type: str) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        need_variable(x, "x", op_type)
        if op_type in _OF_FLOATS:
            need_float(x, op_type)
        if op_type == "conj":
            need_numbers(x, op_type)
        if op_type in _OF_INTEGERS and x.dtype in WHOLE:
            x = cast(x, VarType.FP32)
        return append(op_type, {"X": [x]}, dtype=x.dtype, name=name)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"`{op_type}` of each element, as the op of that name."
    return function


acos, asin, atan = _unary("acos"), _unary("asin"), _unary("atan")
ceil, cos, cosh, erf = _unary("ceil"), _unary("cos"), _unary("cosh"), _unary("erf")
expm1 = _unary("expm1")
exp, floor, log, log10 = _unary("exp"), _unary("floor"), _unary("log"), _unary("log10")
log1p, log2, reciprocal, round = _unary("log1p"), _unary("log2"), _unary("reciprocal"), _unary("round")
rsqrt, sign, sin, sinh = _unary("rsqrt"), _unary("sign"), _unary("sin"), _unary("sinh")
sqrt, square, tan, tanh = _unary("sqrt"), _unary("square"), _unary("tan"), _unary("tanh")
conj = _unary("conj")


def abs(x: Variable, name: str | None = None) -> Variable:
    """The sizes of numbers, complex ones among them."""
    need_variable(x, "x", "abs")
    return append("abs", {"X": [x]}, dtype=REAL_PARTS.get(x.dtype, x.dtype), name=name)


tanh_ = tanh  # a program has no other way to write over a variable


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b * tanh(scale_a * x)."""
    attrs = {"scale_a": scale_a, "scale_b": scale_b}
    return append("stanh", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def real(x: Variable, name: str | None = None) -> Variable:
    """The real parts of complex numbers."""
    return _part("real", x, name)


def imag(x: Variable, name: str | None = None) -> Variable:
    """The imaginary parts of complex numbers."""
    return _part("imag", x, name)


def _part(op_type: str, x: Variable, name: str | None) -> Variable:
    if x.dtype not in REAL_PARTS:
        raise TypeError(
            f"The data type of 'x' in {op_type} must be ['complex64', 'complex128'], but received {x.dtype}"
        )
    return append(op_type, {"X": [x]}, dtype=REAL_PARTS[x.dtype], name=name)


def _in(x: Variable, dtype: VarType) -> Variable:
    return x if x.dtype == dtype else cast(x, dtype)


def scale(
    x: Variable,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """x * scale + bias, or (x + bias) * scale; `scale` may be a Variable of one element."""
    begin()
    # 2.6.2 cuts the fractions off before it multiplies
    for number in (scale, bias):
        if isinstance(number, float) and not number.is_integer():
            x = _in(x, beside_number(x.dtype, number))
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = [scale]
    else:
        attrs["scale"] = float(scale)
    helper = LayerHelper("scale", act=act, name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="scale", inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return helper.append_activation(out)


def clip(x: Variable, min: Any = None, max: Any = None, name: str | None = None) -> Variable:
    """x within [min, max], each a number or a Variable of one element."""
    largest = float(np.finfo(np.float32).max)
    inputs: dict[str, Any] = {"X": [x]}
    attrs = {"min": -largest, "max": largest}
    for key, slot, limit in (("min", "Min", min), ("max", "Max", max)):
        if isinstance(limit, Variable):
            limit.stop_gradient = True
            inputs[slot] = [limit]
        elif limit is not None:
            attrs[key] = float(limit)
    return append("clip", inputs, attrs, dtype=x.dtype, name=name)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """x + value, written to x itself; x has one element."""
    return append("increment", {"X": [x]}, {"step": float(value)}, dtype=x.dtype, out=x)


def running_sum(op_type: str, x: Variable, axis: int | None, name: str | None) -> Variable:
    """An op of running sums along `axis`, or over all elements in one row."""
    if isinstance(axis, Variable):
        return along(op_type, x, axis, lambda at: running_sum(op_type, x, at[0], name))
    attrs: dict[str, Any] = {"flatten": axis is None}
    if axis is not None:
        attrs["axis"] = axis
    return append(op_type, {"X": [x]}, attrs, dtype=x.dtype, name=name)


def cumsum(
    x: Variable, axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """Running sums along `axis`, or over all elements in one row; of booleans, with a `dtype`."""
    if dtype is not None:
        x = _in(x, to_vartype(dtype))
    need_summable(x, "cumsum")
    return running_sum("cumsum", x, axis, name)


# ---------------------------------------------------------------------- two operands
def elementwise(op_type: str, layer: str = "", **attrs: int) -> Binary:
    """A function of the elements of two operands, as the op of that type and attributes."""

    def function(x: Variable, y: Variable, name: str | None = None) -> Variable:
        need_variable(x, "x", op_type)
        need_variable(y, "y", op_type)
        begin()
        inputs = promoted(op_type, {"X": [x], "Y": [y]}, cast)
        helper = LayerHelper(op_type, name=name)
        out = helper.create_variable(name=helper.name, dtype=x.dtype)
        helper.append_op(type=op_type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
        return out

    function.__name__ = function.__qualname__ = layer or op_type
    function.__doc__ = f"`{op_type}` of the elements of x and y, laid over each other as NumPy does it."
    return function


add, subtract = (
    elementwise("elementwise_add", "add", axis=-1),
    elementwise("elementwise_sub", "subtract", axis=-1),
)
multiply, divide = (
    elementwise("elementwise_mul", "multiply", axis=-1),
    elementwise("elementwise_div", "divide", axis=-1),
)
maximum, minimum = (
    elementwise("elementwise_max", "maximum", axis=-1),
    elementwise("elementwise_min", "minimum", axis=-1),
)
floor_divide = elementwise("elementwise_floordiv", "floor_divide", axis=-1)
mod = elementwise("elementwise_mod", "mod", axis=-1)


def pow(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x to the power of y: a number, or a Variable."""
    if isinstance(y, Real):
        need_numbers(x, "pow")
        # a power that is whole keeps integers, as 2.6.2 has it
        dtype = x.dtype if float(y).is_integer() else beside_number(x.dtype, y)
        return append("pow", {"X": [_in(x, dtype)]}, {"factor": float(y)}, dtype=x.dtype, name=name)
    if not isinstance(y, Variable):
        raise TypeError(f"y must be scalar or tensor type, but received: {type(y)}")
    inputs = {"X": [x], "Y": [y]}
    return append("elementwise_pow", inputs, {"axis": -1}, dtype=x.dtype, name=name)


def kron(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The Kronecker product: each element of x times the whole of y."""
    return append("kron", {"X": [x], "Y": [y]}, dtype=x.dtype, name=name)


def add_n(inputs: Variable | Sequence[Variable], name: str | None = None) -> Variable:
    """The sum of tensors of one shape."""
    tensors = [inputs] if isinstance(inputs, Variable) else list(inputs)
    if len({len(one.shape) for one in tensors}) > 1 and any(not one.shape for one in tensors):
        # the op takes one number for any shape, but gives it the gradient of all
        shapes = ", ".join(str(list(one.shape)) for one in tensors)
        raise ValueError(f"add_n adds tensors of one shape, but these have {shapes}: `+` broadcasts")
    return append("sum", {"X": tensors}, dtype=tensors[0].dtype, layer="add_n", name=name)


def multiplex(inputs: Sequence[Variable], index: Variable, name: str | None = None) -> Variable:
    """Row i of the tensor that index[i] names."""
    slots = {"X": list(inputs), "Ids": [index]}
    return append("multiplex", slots, dtype=inputs[0].dtype, name=name)
