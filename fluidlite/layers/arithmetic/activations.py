"""Activations with parameters: the element-wise functions of `fluid.layers.nn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.variables import assign

__all__ = [
    "brelu",
    "elu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log",
    "log1p",
    "mish",
    "pow",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sign",
    "soft_relu",
    "stanh",
    "swish",
]

FLOATS = ("float16", "float32", "float64")
WIDE_FLOATS = ("float32", "float64")


def append_unary(
    type: str,
    x: Variable,
    name: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    dtypes: Sequence[str] = FLOATS,
    out: Variable | None = None,
) -> Variable:
    """Append the op `X -> Out` of that type to the program; TypeError where x's dtype is none of `dtypes`."""
    check_variable_and_dtype(x, "x", list(dtypes), type)
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(x.dtype) if out is None else out
    helper.append_op(type=type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    return out


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0), element by element.

    Parameters
    ----------
    x: a Variable of floating-point numbers.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([-1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.relu(x)])[0]
    array([0., 2.], dtype=float32)
    """
    return append_unary("relu", x, name)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """min(max(x, 0), threshold)."""
    return append_unary("relu6", x, name, {"threshold": threshold})


def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """min(max(x, t_min), t_max)."""
    return append_unary("brelu", x, name, {"t_min": t_min, "t_max": t_max})


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where x > 0, else alpha * x, element by element.

    Parameters
    ----------
    x: a Variable of floating-point numbers.
    alpha: the slope for negative elements.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([-1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.leaky_relu(x, alpha=0.1)])[0]
    array([-0.1,  2. ], dtype=float32)
    """
    return append_unary("leaky_relu", x, name, {"alpha": alpha})


def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """log(1 + exp(x)), with x cut off at +-threshold."""
    return append_unary("soft_relu", x, name, {"threshold": threshold})


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, else alpha (exp(x) - 1)."""
    return append_unary("elu", x, name, {"alpha": alpha})


def selu(
    x: Variable, scale: float | None = None, alpha: float | None = None, name: str | None = None
) -> Variable:
    """scale x where x is positive, else scale alpha (exp(x) - 1); by default with the constants of a
    self-normalizing net.
    """
    attrs = {key: value for key, value in (("scale", scale), ("alpha", alpha)) if value is not None}
    return append_unary("selu", x, name, attrs, WIDE_FLOATS)


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b tanh(scale_a x)."""
    return append_unary("stanh", x, name, {"scale_a": scale_a, "scale_b": scale_b})


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x / (1 + exp(-x)). As in 1.8.5, `beta` has no effect: that layer hands it over under a name which
    the op does not read.
    """
    return append_unary("swish", x, name)


def mish(x: Variable, threshold: float = 20, name: str | None = None) -> Variable:
    """x tanh(log(1 + exp(x))), the logarithm by its asymptotes beyond +-threshold."""
    check_type(threshold, "threshold", (float, int), "mish")
    assert threshold > 0, f"threshold of mish should be greater than 0, but got {threshold}"
    return append_unary("mish", x, name, {"threshold": threshold}, WIDE_FLOATS)


def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope x + offset, cut off at 0 and 1."""
    return append_unary("hard_sigmoid", x, name, {"slope": slope, "offset": offset})


def hard_swish(
    x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None
) -> Variable:
    """x min(max(x + offset, 0), threshold) / scale."""
    return append_unary("hard_swish", x, name, {"threshold": threshold, "scale": scale, "offset": offset})


def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm, element by element.

    Parameters
    ----------
    x: a Variable of floating-point numbers. 0 gives minus infinity, negative elements NaN.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([1, np.e], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.log(x)])[0]
    array([0., 1.], dtype=float32)
    """
    return append_unary("log", x, name, dtypes=WIDE_FLOATS)


def log1p(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """log(1 + x), written to `out` where that is given."""
    return append_unary("log1p", x, name, dtypes=WIDE_FLOATS, out=out)


def sign(x: Variable) -> Variable:
    """-1, 0 or 1; a NumPy array becomes a constant first."""
    check_type(x, "x", (Variable, np.ndarray), "sign")
    if not isinstance(x, Variable):
        x = assign(x)
    return append_unary("sign", x)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power of `factor`, a number or a Variable of shape [1] (through which no gradient flows)."""
    check_variable_and_dtype(x, "x", ["int32", "int64", "float32", "float64"], "pow")
    helper = LayerHelper("pow", name=name)
    inputs, attrs = {"X": x}, {}
    if isinstance(factor, Variable):
        check_variable_and_dtype(factor, "factor", ["float32"], "pow")
        factor.stop_gradient = True
        inputs["FactorTensor"] = factor
    else:
        attrs["factor"] = factor
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="pow", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """x where it is positive, else a x with trained slopes a, 0.25 at first.

    `mode`: one slope for "all", one for each "channel", or one for each "element" of a sample.
    """
    return prelu_with_layout(x, mode, param_attr, name, channels_last=None)


def prelu_with_layout(
    x: Variable, mode: str, param_attr: Any, name: str | None, channels_last: bool | None
) -> Variable:
    """`prelu`, whose channels are where 2.x says and whose slopes have the dtype of x; fluid's op, with None,
    has channels in dimension 1 and slopes of float32.
    """
    check_variable_and_dtype(x, "x", list(WIDE_FLOATS), "prelu")
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    if mode not in ("all", "channel", "element"):
        raise ValueError(f"mode should be one of all, channel, element, not {mode!r}.")
    if mode == "channel" and len(x.shape) < 2:
        raise AssertionError(f"prelu needs a dimension of channels in mode 'channel', but x has {x.shape}")
    shape = [1, *x.shape[1:]] if mode == "element" else [1]
    if mode == "channel":
        shape = [1, 1, 1, x.shape[-1]] if channels_last else [1, x.shape[1], 1, 1]
    attrs = {"mode": mode}
    dtype = "float32" if channels_last is None else x.dtype
    if channels_last is not None:
        attrs["data_format"] = "NHWC" if channels_last else "NCHW"
    alpha = helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype=dtype, is_bias=False, default_initializer=Constant(0.25)
    )
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="prelu", inputs={"X": x, "Alpha": alpha}, attrs=attrs, outputs={"Out": out})
    return out
