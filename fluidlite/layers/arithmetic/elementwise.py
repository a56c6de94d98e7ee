"""Layers of arithmetic: element-wise ops of two tensors, scaling, sums, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import is_float
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors.variables import assign, sums

__all__ = [
    "add_position_encoding",
    "addcmul",
    "addmm",
    "allclose",
    "clamp",
    "clip",
    "clip_by_norm",
    "cross",
    "elementwise_add",
    "elementwise_div",
    "elementwise_equal",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "scale",
    "sum",
]

_NUMBERS = ["float32", "float64", "int32", "int64"]
_FLOATS = ["float32", "float64"]
_ARITHMETIC = ["float16", "float32", "float64", "int32", "int64"]


def _binary(type: str, x: Variable, y: Variable, axis: int, act: str | None, name: str | None) -> Variable:
    """Append an op that lays `y` over the dimensions of `x` from `axis` on, -1 for the last ones; then the
    activation.
    """
    check_type(x, "x", Variable, type)
    check_type(y, "y", Variable, type)
    check_variable_and_dtype(x, "x", _ARITHMETIC, type)
    check_variable_and_dtype(y, "y", _ARITHMETIC, type)
    helper = LayerHelper(type, x=x, y=y, axis=axis, act=act, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type=type, inputs={"X": x, "Y": y}, outputs={"Out": out}, attrs={"axis": axis, "use_mkldnn": False}
    )
    return helper.append_activation(out)


def elementwise_add(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x + y`, element by element, with `y` broadcast over `x`.

    The dimensions of `y` are laid beside those of `x` from dimension `axis` on; a dimension of 1 in `y` is
    repeated. `axis=-1` lays them beside the last ones, as NumPy does.

    Parameters
    ----------
    x: a Variable of any shape.
    y: a Variable of the same data type, whose shape is a part of the shape of `x`.
    axis: the dimension of `x` beside which the first one of `y` stands.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> y = fluid.layers.assign(np.array([10, 20], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.elementwise_add(x, y, axis=0)])[0]
    array([[11., 12.],
           [23., 24.]], dtype=float32)
    """
    return _binary("elementwise_add", x, y, axis, act, name)


def elementwise_sub(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x - y`, element by element, with `y` broadcast over `x` as in `elementwise_add`.

    Parameters
    ----------
    x: a Variable of any shape.
    y: a Variable of the same data type, whose shape is a part of the shape of `x`.
    axis: the dimension of `x` beside which the first one of `y` stands; -1 for the last ones.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> y = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.elementwise_sub(x, y)])[0]
    array([[0., 0.],
           [2., 2.]], dtype=float32)
    """
    return _binary("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x * y`, element by element, with `y` broadcast over `x` as in `elementwise_add`.

    Parameters
    ----------
    x: a Variable of any shape.
    y: a Variable of the same data type, whose shape is a part of the shape of `x`.
    axis: the dimension of `x` beside which the first one of `y` stands; -1 for the last ones.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> y = fluid.layers.assign(np.array([0, 1], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.elementwise_mul(x, y)])[0]
    array([[0., 2.],
           [0., 4.]], dtype=float32)
    """
    return _binary("elementwise_mul", x, y, axis, act, name)


def elementwise_div(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x / y`, element by element, with `y` broadcast over `x` as in `elementwise_add`.

    Integers are divided without rest, rounded towards zero.

    Parameters
    ----------
    x: a Variable of any shape.
    y: a Variable of the same data type, whose shape is a part of the shape of `x`.
    axis: the dimension of `x` beside which the first one of `y` stands; -1 for the last ones.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> y = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.elementwise_div(x, y, axis=0)])[0]
    array([[1. , 2. ],
           [1.5, 2. ]], dtype=float32)
    """
    return _binary("elementwise_div", x, y, axis, act, name)


def elementwise_max(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The larger one of `x` and `y`, element by element, with `y` broadcast over `x` as in `elementwise_add`.

    Parameters
    ----------
    x: a Variable of any shape.
    y: a Variable of the same data type, whose shape is a part of the shape of `x`.
    axis: the dimension of `x` beside which the first one of `y` stands; -1 for the last ones.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([-1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.elementwise_max(x, x * -1.0)])[0]
    array([1., 2.], dtype=float32)
    """
    return _binary("elementwise_max", x, y, axis, act, name)


def elementwise_min(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The smaller of `x` and `y`, where `y` is laid over the dimensions of `x` from `axis` on."""
    return _binary("elementwise_min", x, y, axis, act, name)


def elementwise_pow(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x` to the power of `y`, where `y` is laid over the dimensions of `x` from `axis` on."""
    return _binary("elementwise_pow", x, y, axis, act, name)


def elementwise_mod(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The remainder of `x` by `y`, with the sign of `y`, where `y` is laid over the dimensions of `x` from
    `axis` on.
    """
    return _binary("elementwise_mod", x, y, axis, act, name)


def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x / y` of integers without the remainder, where `y` is laid over the dimensions of `x` from `axis`
    on.
    """
    return _binary("elementwise_floordiv", x, y, axis, act, name)


def elementwise_equal(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """`x == y`, element by element."""
    return one_op(
        "equal", {"X": [x], "Y": [y]}, dtype="bool", layer="elementwise_equal", name=name, stop_gradient=True
    )


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """`scale * x + bias`, or `scale * (x + bias)`.

    Parameters
    ----------
    x: a Variable of any shape, of floating-point numbers or integers.
    scale: the factor, a number or a Variable of one element.
    bias: the number that is added.
    bias_after_scale: multiply first, then add; False adds first.
    act: the name of an activation of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape and data type of `x`.

    >>> x = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.scale(x, scale=2.0, bias=1.0)])[0]
    array([3., 5.], dtype=float32)
    """
    check_variable_and_dtype(
        x, "x", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"], "scale"
    )
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = [scale]
    else:
        attrs["scale"] = float(scale)
    helper = LayerHelper("scale", x=x, act=act, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="scale", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return helper.append_activation(out)


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """The sum of Variables of one shape."""
    return sums(x)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Elements below `min` become `min`, those above `max` become `max`.

    Parameters
    ----------
    x: a Variable of floating-point numbers of any shape.
    min: the smallest value, a number.
    max: the largest value, a number.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`. Elements that were changed have the gradient 0.

    >>> x = fluid.layers.assign(np.array([-1, 0.5, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.clip(x, min=0.0, max=1.0)])[0]
    array([0. , 0.5, 1. ], dtype=float32)
    """
    check_variable_and_dtype(x, "x", _FLOATS, "clip")
    return _named_unary("clip", x, {"min": min, "max": max}, name)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """`x` shrunk to an L2 norm of `max_norm` where its norm is larger."""
    check_variable_and_dtype(x, "X", ["float32"], "clip_by_norm")
    check_type(max_norm, "max_norm", float, "clip_by_norm")
    return _named_unary("clip_by_norm", x, {"max_norm": max_norm}, name)


def _named_unary(type: str, x: Variable, attrs: dict[str, Any], name: str | None) -> Variable:
    """Append an op whose output is called `name` itself, where one is given."""
    helper = LayerHelper(type, x=x, name=name)
    out = helper.create_variable(
        type=x.type,
        name=unique_name.generate(f"{helper.name}.tmp") if name is None else name,
        dtype=x.dtype,
        persistable=False,
    )
    helper.append_op(type=type, inputs={"X": x}, attrs=attrs, outputs={"Out": out})
    return out


def clamp(
    input: Variable, min: Any = None, max: Any = None, output: Variable | None = None, name: str | None = None
) -> Variable:
    """`input` with what is below `min` or above `max` (numbers, one-element Variables, or None) set to it."""
    check_type(input, "input", Variable, "clamp")
    assert min is not None or max is not None, "either min or max should be defined."
    for bound_name, bound in (("min", min), ("max", max)):
        if isinstance(bound, Variable):
            check_variable_and_dtype(bound, bound_name, ["float32", "float64", "int32"], "clamp")
        elif bound is not None:
            check_type(bound, bound_name, float, "clamp")
    inputs: dict[str, Any] = {"X": input}
    attrs = {"min": float("-inf"), "max": float("inf")}
    for slot, bound in (("Min", min), ("Max", max)):
        if isinstance(bound, Variable):
            bound.stop_gradient = True
            inputs[slot] = bound
        elif bound is not None:
            attrs[slot.lower()] = float(bound)
    return one_op("clip", inputs, attrs, dtype=input.dtype, layer="clamp", name=name, out=output)


def addcmul(
    input: Variable,
    tensor1: Variable,
    tensor2: Variable,
    value: float = 1.0,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """`input + value * tensor1 * tensor2`."""
    for var_name, var in (("input", input), ("tensor1", tensor1), ("tensor2", tensor2)):
        check_variable_and_dtype(var, var_name, _NUMBERS, "addcmul")
    check_type(value, "value", float if is_float(input.dtype) else int, "addcmul")
    result = elementwise_add(input, elementwise_mul(tensor1, tensor2) * value)
    if out is None:
        return result
    return assign(result, out)


def addmm(
    input: Variable, x: Variable, y: Variable, alpha: float = 1.0, beta: float = 1.0, name: str | None = None
) -> Variable:
    """`beta * input + alpha * x y`, a matrix product added to `input`, which is repeated to its shape."""
    for var_name, var in (("Input", input), ("X", x), ("Y", y)):
        check_variable_and_dtype(var, var_name, _FLOATS, "addmm")
    if x.shape[1] != y.shape[0] and -1 not in (x.shape[1], y.shape[0]):
        raise ValueError(
            "The input Variable x's width must be equal with Variable y' height. But received x's shape = "
            f"{x.shape}, y's shape = {y.shape}"
        )
    return one_op(
        "addmm",
        {"Input": input, "X": x, "Y": y},
        {"Alpha": alpha, "Beta": beta},
        dtype=input.dtype,
        name=name,
    )


def allclose(
    input: Variable,
    other: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """True if no element of `input` is further than `atol + rtol * abs(other)` from that of `other`; of shape
    [1].
    """
    check_variable_and_dtype(input, "input", _FLOATS, "allclose")
    check_variable_and_dtype(other, "other", _FLOATS, "allclose")
    check_type(rtol, "rtol", float, "allclose")
    check_type(atol, "atol", float, "allclose")
    check_type(equal_nan, "equal_nan", bool, "allclose")
    return one_op(
        "allclose",
        {"Input": input, "Other": other},
        {"rtol": rtol, "atol": atol, "equal_nan": equal_nan},
        dtype="bool",
        name=name,
    )


def cross(input: Variable, other: Variable, dim: int | None = None) -> Variable:
    """The cross products of vectors of three, which lie along dimension `dim`, by default the first of
    size three.
    """
    return one_op("cross", {"X": input, "Y": other}, {} if dim is None else {"dim": dim}, dtype=input.dtype)


def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = None) -> Variable:
    """`alpha * input + beta * PE`: input [batch, steps, width], or sequences; PE holds sines and cosines
    of the step.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "add_position_encoding")
    return one_op(
        "add_position_encoding", {"X": input}, {"alpha": alpha, "beta": beta}, dtype=input.dtype, name=name
    )
