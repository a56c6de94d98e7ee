"""Activations of 2.x: each one op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.ir.variable import Variable
from fluidlite.layers.signatures import Unary
from fluidlite.paddle.build import append, check_axis, need_float, need_variable
from fluidlite.paddle.tensor.manipulation import split
from fluidlite.paddle.tensor.math import cast, multiply

__all__ = [
    "celu",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_sigmoid",
    "log_softmax",
    "maxout",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmax_",
    "softplus",
    "softshrink",
    "softsign",
    "swish",
    "tanhshrink",
    "thresholded_relu",
    "thresholded_relu_",
]


def _op(
    op_type: str, x: Variable, attrs: Mapping[str, Any], name: str | None, layer: str | None = None
) -> Variable:
    need_variable(x, "x", op_type)
    need_float(x, op_type)
    return append(op_type, {"X": [x]}, attrs, dtype=x.dtype, name=name, layer=layer)


def _plain(op_type: str, formula: str, layer: str | None = None) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        return _op(op_type, x, {}, name, layer)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"{formula}, element by element."
    return function


relu = _plain("relu", "max(x, 0)")
sigmoid = _plain("sigmoid", "1 / (1 + exp(-x))")
log_sigmoid = _plain("logsigmoid", "log(sigmoid(x))", "log_sigmoid")
softsign = _plain("softsign", "x / (1 + |x|)")
tanhshrink = _plain("tanh_shrink", "x - tanh(x)")
silu = _plain("silu", "x * sigmoid(x)")
swish = _plain("swish", "x * sigmoid(x)")
relu6 = _plain("relu6", "min(max(x, 0), 6)")


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return _op("elu", x, {"alpha": alpha}, name)


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """x times the normal distribution function of x, or its approximation by tanh."""
    return _op("gelu", x, {"approximate": approximate}, name)


def hardshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x where |x| > threshold, else 0."""
    return _op("hard_shrink", x, {"threshold": threshold}, name, "hardshrink")


def hardsigmoid(
    x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Variable:
    """slope * x + offset, kept between 0 and 1."""
    return _op("hard_sigmoid", x, {"slope": slope, "offset": offset}, name, "hardsigmoid")


def hardswish(x: Variable, name: str | None = None) -> Variable:
    """x * min(max(x + 3, 0), 6) / 6."""
    return _op("hard_swish", x, {}, name, "hardswish")


def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """x, kept between `min` and `max`."""
    return _op("brelu", x, {"t_min": min, "t_max": max}, name, "hardtanh")


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x where it is positive, else negative_slope * x."""
    return _op("leaky_relu", x, {"alpha": negative_slope}, name)


def prelu(x: Variable, weight: Variable, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """x where it is positive, else weight * x; `weight` holds one number, or one a channel."""
    need_variable(x, "x", "prelu")
    mode = "all" if weight.shape in ((), (1,)) else "channel"
    if mode == "channel" and len(x.shape) < 2:
        raise ValueError(f"x has {len(x.shape)} dimensions, but one slope per channel needs two or more")
    layout = "NHWC" if data_format.endswith("C") and len(data_format) > 2 else "NCHW"
    inputs = {"X": [x], "Alpha": [weight]}
    return append("prelu", inputs, {"mode": mode, "data_format": layout}, dtype=x.dtype, name=name)


def selu(
    x: Variable,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Variable:
    """scale * (x where it is positive, else alpha * (exp(x) - 1)) (Klambauer et al., 2017)."""
    if scale <= 1.0:
        raise ValueError(f"The scale must be greater than 1.0. Received: {scale}.")
    if alpha < 0:
        raise ValueError(f"The alpha must be no less than zero. Received: {alpha}.")
    return _op("selu", x, {"scale": scale, "alpha": alpha}, name)


def softmax(x: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """exp(x) over its sum along `axis`; of x in `dtype`, where that is given."""
    return _op("softmax", x if dtype is None else cast(x, dtype), {"axis": axis}, name)


def log_softmax(
    x: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """The logarithm of `softmax`."""
    check_axis("log_softmax", axis, x)
    return _op("log_softmax", x if dtype is None else cast(x, dtype), {"axis": axis}, name)


def softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    """log(1 + exp(beta * x)) / beta; x where beta * x is greater than `threshold`."""
    return _op("softplus", x, {"beta": float(beta), "threshold": float(threshold)}, name)


def softshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x moved towards 0 by `threshold`, and no further than 0."""
    if threshold < 0:
        raise ValueError(f"The threshold must be no less than zero. Received: {threshold}.")
    return _op("softshrink", x, {"lambda": threshold}, name)


def thresholded_relu(x: Variable, threshold: float = 1.0, name: str | None = None) -> Variable:
    """x where it is greater than `threshold`, else 0."""
    return _op("thresholded_relu", x, {"threshold": threshold}, name)


def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """The largest of each `groups` channels that follow each other; the channels are in dimension `axis`."""
    if axis not in (1, -1, 3):
        raise ValueError(f"Attr(axis) should be 1 when data format is NCHW, -1 or 3 when it is NHWC: {axis}")
    return _op("maxout", x, {"groups": groups, "axis": 3 if axis == -1 else axis}, name)


def celu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, else alpha * (exp(x / alpha) - 1) (Barron, 2017)."""
    if alpha == 0:
        raise ZeroDivisionError("alpha cannot be 0 for celu")
    return _op("celu", x, {"alpha": alpha}, name)


def mish(x: Variable, name: str | None = None) -> Variable:
    """x * tanh(log(1 + exp(x))) (Misra, 2019)."""
    return _op("mish", x, {}, name)


def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The first half along `axis` times the sigmoid of the second (Dauphin et al., 2017)."""
    if not -len(x.shape) <= axis < len(x.shape):
        raise ValueError(
            f"Expected value range of `axis` is [{-len(x.shape)}, {len(x.shape)}), but received axis: {axis}"
        )
    first, second = split(x, 2, axis=axis, name=name)
    return multiply(first, sigmoid(second, name=name))


def rrelu(
    x: Variable,
    lower: float = 1.0 / 8.0,
    upper: float = 1.0 / 3.0,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """x where it is positive, else times a slope: drawn between both limits for each element, or, where the
    program does not train, the middle of them (Xu et al., 2015).
    """
    if not 0 <= lower <= upper <= 1:
        raise ValueError(f"The slopes must have 0 <= lower <= upper <= 1. Received: {lower}, {upper}.")
    attrs = {"lower": lower, "upper": upper, "is_test": not training}
    extra = {"Noise": x.dtype}
    return append("rrelu", {"X": [x]}, attrs, dtype=x.dtype, name=name, extra=extra)


def gumbel_softmax(
    x: Variable, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None
) -> Variable:
    """A draw from the categories along `axis` whose scores x holds: shares, or, with `hard`, 1 for one of
    them and 0 for others (Jang et al., 2017).
    """
    need_float(x, "gumbel_softmax")
    attrs = {"temperature": temperature, "hard": hard, "axis": axis}
    return append("gumbel_softmax", {"X": [x]}, attrs, dtype=x.dtype, name=name)


# a program has no other way to write over a variable
relu_, elu_, softmax_ = relu, elu, softmax
leaky_relu_, hardtanh_, thresholded_relu_ = leaky_relu, hardtanh, thresholded_relu
