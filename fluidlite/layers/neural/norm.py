"""Normalisation layers and dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Constant, Normal
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import check_groups, temporaries
from fluidlite.param_attr import ParamAttr

__all__ = [
    "affine_channel",
    "batch_norm",
    "data_norm",
    "dropout",
    "group_norm",
    "inplace_abn",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "lrn",
    "spectral_norm",
]

_FLOATS = ["float16", "float32", "float64"]


def _layout(name: str, value: str, caller: str) -> None:
    if not isinstance(value, str) or value not in ("NCHW", "NHWC"):
        raise ArgumentError(f"{name} of layers.{caller} must be 'NCHW' or 'NHWC', but is {value!r}")


def _statistics_dtype(dtype: VarType) -> VarType:
    """Scales, biases and running statistics of half precision inputs are float32."""
    return VarType.FP32 if dtype == VarType.FP16 else dtype


def _scale(helper: LayerHelper, shape: list[int], dtype: Any) -> Any:
    """The factors of a normalisation, ones at first."""
    return helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0)
    )


def _bias(helper: LayerHelper, shape: list[int], dtype: Any) -> Any:
    """The bias of a normalisation, zeros at first."""
    return helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)


# ------------------------------------------------------------------ batch_norm
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Batch normalisation: act(scale * (x - mean) / sqrt(variance + epsilon) + bias), for each channel.

    While training, mean and variance are those of the batch, and running averages of both are kept: running =
    momentum * running + (1 - momentum) * batch. In test programs (`clone(for_test=True)`) the running
    averages are used.

    Parameters
    ----------
    input: a Variable [N, channels, ...], or [N, ..., channels] with `data_layout="NHWC"`.
    act: the name of an activation.
    is_test: use the running averages, and do not change them.
    momentum: the weight of the old running average, a number or a Variable of one element.
    epsilon: at most 0.001.
    param_attr: settings of the scale [channels], which begins with ones.
    bias_attr: settings of the bias [channels], which begins with zeros.
    data_layout: "NCHW" or "NHWC".
    in_place: the result shares the memory of the input.
    name: the prefix of the names of parameters and results.
    moving_mean_name: the name of the running mean.
    moving_variance_name: the name of the running variance.
    do_model_average_for_mean_and_var: `ModelAverage` averages the running values too.
    use_global_stats: use the running averages while training as well.

    Returns
    -------
    A Variable of the shape of `input`.

    >>> image = fluid.data("image", [None, 8, 32, 32])
    >>> fluid.layers.batch_norm(image, act="relu").shape
    (-1, 8, 32, 32)
    """
    return _batch_norm("batch_norm", locals(), {})


def inplace_abn(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Variable:
    """`batch_norm` and an activation ("leaky_relu", "elu", "identity" or None) that overwrite their input."""
    if act not in (None, "identity", "leaky_relu", "elu"):
        raise AssertionError(
            f"inplace_abn supports the activations None, 'identity', 'leaky_relu' and 'elu', not {act!r}"
        )
    more = {"alpha": act_alpha} | ({} if act is None else {"activation": act})
    return _batch_norm("inplace_abn", {**locals(), "in_place": True, "act": None}, more)


def _batch_norm(type: str, given: dict[str, Any], attrs: dict[str, Any]) -> Variable:
    input, layout, momentum = given["input"], given["data_layout"], given["momentum"]
    for key in ("bias_attr", "param_attr"):
        if given[key] is False:
            raise AssertionError(f"{key} should not be False in {type}.")
    helper = LayerHelper(
        type,
        input=input,
        act=given["act"],
        name=given["name"],
        param_attr=given["param_attr"],
        bias_attr=given["bias_attr"],
    )
    # the activation in place has no kernel of half precision
    check_variable_and_dtype(input, "input", _FLOATS if type == "batch_norm" else _FLOATS[1:], type)
    if layout not in ("NCHW", "NHWC"):
        raise ArgumentError(f"unsupported data layout:{layout}")
    dtype = _statistics_dtype(helper.input_dtype())
    shape = [input.shape[1 if layout == "NCHW" else -1]]
    inputs = {"X": input, "Scale": _scale(helper, shape, dtype), "Bias": _bias(helper, shape, dtype)}
    mean, variance = (
        _running(helper, given[key], value, given, shape, dtype)
        for key, value in (("moving_mean_name", 0.0), ("moving_variance_name", 1.0))
    )
    inputs |= {"Mean": mean, "Variance": variance}
    saved_mean, saved_variance = temporaries(helper, 2, dtype, stop_gradient=True)
    out = input if given["in_place"] else helper.create_variable_for_type_inference(input.dtype)
    attrs = attrs | {name: given[name] for name in ("epsilon", "is_test", "data_layout", "use_global_stats")}
    attrs |= {"use_mkldnn": False, "fuse_with_relu": False}
    if isinstance(momentum, Variable):
        inputs["MomentumTensor"] = momentum
    else:
        attrs["momentum"] = momentum
    outputs = {"Y": out, "MeanOut": mean, "VarianceOut": variance}
    outputs |= {"SavedMean": saved_mean, "SavedVariance": saved_variance}
    helper.append_op(type=type, inputs=inputs, attrs=attrs, outputs=outputs)
    return out if type == "inplace_abn" else helper.append_activation(out)


def _running(
    helper: LayerHelper,
    name: str | None,
    value: float,
    given: dict[str, Any],
    shape: list[int],
    dtype: VarType,
) -> Any:
    """A running statistic: a parameter that no optimizer moves."""
    attr = ParamAttr(
        name=name,
        initializer=Constant(value),
        trainable=False,
        do_model_average=given["do_model_average_for_mean_and_var"],
    )
    variable = helper.create_parameter(attr=attr, shape=shape, dtype=dtype)
    variable.stop_gradient = True
    return variable


# ------------------------------------------------------------------ other statistics
def instance_norm(
    input: Variable,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias with the statistics of each channel of each
    instance.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "instance_norm")
    for key, attr in (("bias_attr", bias_attr), ("param_attr", param_attr)):
        if attr is False or attr == []:
            raise ArgumentError(f"instance_norm has a scale and a bias: {key} cannot be {attr!r}")
    helper = LayerHelper("instance_norm", input=input, name=name, param_attr=param_attr, bias_attr=bias_attr)
    dtype = _statistics_dtype(helper.input_dtype())
    shape = [input.shape[1]]
    scale, bias = _scale(helper, shape, dtype), _bias(helper, shape, dtype)
    mean, variance = temporaries(helper, 2, dtype, stop_gradient=True)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="instance_norm",
        inputs={"X": input, "Scale": scale, "Bias": bias},
        attrs={"epsilon": epsilon},
        outputs={"Y": out, "SavedMean": mean, "SavedVariance": variance},
    )
    return out


def _elements_from(input: Variable, axis: int, has_factors: bool) -> int:
    """The elements that a layer's factors have; ArgumentError where there is no such dimension."""
    if has_factors and axis >= len(input.shape):
        raise ArgumentError(f"layer_norm: begin_norm_axis is {axis}, but x has {input.shape}")
    return math.prod(input.shape[axis:])


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Layer normalisation: act(scale * (x - mean) / sqrt(variance + epsilon) + bias), for each row.

    Parameters
    ----------
    input: a Variable [N, ...].
    scale: multiply by a trained scale.
    shift: add a trained bias.
    begin_norm_axis: dimensions from this one on form a row, over which mean and variance are computed.
    epsilon: keeps the division from zero.
    param_attr: settings of the scale, one number per element of a row; it begins with ones.
    bias_attr: settings of the bias, which begins with zeros.
    act: the name of an activation.
    name: the prefix of the names of parameters and results.

    Returns
    -------
    A Variable of the shape of `input`.

    >>> x = fluid.layers.assign(np.array([[1, 3], [10, 30]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.layer_norm(x, scale=False, shift=False)])[0].round(2)
    array([[-1.,  1.],
           [-1.,  1.]], dtype=float32)
    """
    helper = LayerHelper(
        "layer_norm", input=input, act=act, name=name, param_attr=param_attr, bias_attr=bias_attr
    )
    check_variable_and_dtype(input, "input", ["float32", "float64"], "layer_norm")
    dtype = helper.input_dtype()
    inputs: dict[str, Any] = {"X": input}
    shape = [_elements_from(input, begin_norm_axis, scale or shift)]
    if scale:
        if param_attr is False:
            raise AssertionError("param_attr should not be False when using scale.")
        inputs["Scale"] = _scale(helper, shape, dtype)
    elif param_attr:
        warn_user("param_attr is only available with scale is True.", category=UserWarning)
    if shift:
        if bias_attr is False:
            raise AssertionError("bias_attr should not be False when using shift.")
        inputs["Bias"] = _bias(helper, shape, dtype)
    elif bias_attr:
        warn_user("bias_attr is only available with shift is True.", category=UserWarning)
    mean, variance = temporaries(helper, 2, dtype, stop_gradient=True)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="layer_norm",
        inputs=inputs,
        outputs={"Y": out, "Mean": mean, "Variance": variance},
        attrs={"epsilon": epsilon, "begin_norm_axis": begin_norm_axis},
    )
    return helper.append_activation(out)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalises each of `groups` groups of channels of each instance; scale and bias only where an attr
    asks for them.
    """
    helper = LayerHelper(
        "group_norm", input=input, act=act, name=name, param_attr=param_attr, bias_attr=bias_attr
    )
    dtype = helper.input_dtype()
    check_variable_and_dtype(input, "input", ["float32", "float64"], "group_norm")
    _layout("data_layout", data_layout, "group_norm")
    inputs: dict[str, Any] = {"X": input}
    shape = [input.shape[1 if data_layout == "NCHW" else -1]]
    if default_main_program().is_of_2x:  # in 1.8.5 the last group may be a smaller one
        check_groups(shape[0], groups)
    if param_attr:
        inputs["Scale"] = _scale(helper, shape, dtype)
    if bias_attr:
        inputs["Bias"] = _bias(helper, shape, dtype)
    # plain variables, as in fluid: their names, _generated_var_N, are in its programs
    mean, variance = (helper.create_variable(dtype=dtype, stop_gradient=True) for _ in range(2))
    out = helper.create_variable(dtype=dtype)
    helper.append_op(
        type="group_norm",
        inputs=inputs,
        outputs={"Y": out, "Mean": mean, "Variance": variance},
        attrs={"epsilon": epsilon, "groups": groups, "data_layout": data_layout},
    )
    return helper.append_activation(out)


# slot, suffix of the parameter's name, key in `param_attr`, value where that has none
_FACTORS = (("scale_w", "scale_w", "scale_w", 1.0), ("bias", "bias", "bias", 0.0))
_SUMMARIES = (
    ("BatchSize", "batch_size", "batch_size", 1e4),
    ("BatchSum", "batch_sum", "batch_sum", 0.0),
    ("BatchSquareSum", "batch_square_sum", "batch_square", 1e4),
)


def _columns(input: Variable, data_layout: str, name: str | None, slot_dim: int) -> list[int]:
    """The shape of `data_norm`'s sums; ArgumentError for arguments of a wrong kind."""
    _layout("data_layout", data_layout, "data_norm")
    check_type(name, "name", (str, type(None)), "data_norm")
    check_type(slot_dim, "slot_dim", (int, np.integer), "data_norm")
    return [input.shape[1 if data_layout == "NCHW" else -1]]


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """(x - sum / size) * sqrt(size / square_sum) with running sums over all batches, which training moves as
    parameters.

    `param_attr` is a dict of initial values: batch_size, batch_sum, batch_square, scale_w, bias. `slot_dim`:
    columns come in slots of that many, and a slot that begins with zero is left out.
    """
    helper = LayerHelper("data_norm", input=input, act=act, name=name)
    shape = _columns(helper.input(), data_layout, name, slot_dim)
    initial: Mapping[str, Any] = param_attr if param_attr and isinstance(param_attr, Mapping) else {}
    inputs: dict[str, Any] = {"X": input}
    for slot, suffix, key, value in (*(_FACTORS if enable_scale_and_shift else ()), *_SUMMARIES):
        start = Constant(float(initial.get(key, value)))
        attr = ParamAttr(name=f"{name or 'dn'}.{suffix}", initializer=start, trainable=True)
        inputs[slot] = helper.create_parameter(attr=attr, shape=shape, dtype=input.dtype)
    # plain variables, as in fluid: their names, _generated_var_N, are in its programs
    means, scales = (helper.create_variable(dtype=input.dtype, stop_gradient=True) for _ in range(2))
    out = input if in_place else helper.create_variable(dtype=input.dtype)
    helper.append_op(
        type="data_norm",
        inputs=inputs,
        outputs={"Y": out, "Means": means, "Scales": scales},
        attrs={
            "epsilon": epsilon,
            "sync_stats": sync_stats,
            "summary_decay_rate": summary_decay_rate,
            "slot_dim": slot_dim,
            "enable_scale_and_shift": enable_scale_and_shift,
        },
    )
    return helper.append_activation(out)


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """x / (k + alpha * sum of x^2 over the n channels around) ^ beta; n is odd."""
    helper = LayerHelper("lrn", input=input, name=name)
    check_variable_and_dtype(input, "input", ["float32"], "lrn")
    dtype = helper.input_dtype()
    if len(input.shape) != 4:
        raise ValueError(f"the input of layers.lrn must have 4 dimensions, but has shape {input.shape}")
    _layout("data_format", data_format, "lrn")
    middle = helper.create_variable_for_type_inference(dtype=dtype, stop_gradient=True)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="lrn",
        inputs={"X": input},
        outputs={"Out": out, "MidOut": middle},
        attrs={"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format},
    )
    return out


def l2_normalize(x: Variable, axis: int | None, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """`x` divided by its length along one dimension: x / sqrt(max(sum(x * x), epsilon)).

    Parameters
    ----------
    x: a Variable.
    axis: the dimension; negative numbers count from the end.
    epsilon: the least square of a length, which keeps the division from zero.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.array([[3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.l2_normalize(x, axis=1)])[0]
    array([[0.6, 0.8]], dtype=float32)
    """
    if len(x.shape) == 1:
        axis = 0
    check_variable_and_dtype(x, "X", ["float32", "float64"], "norm")
    helper = LayerHelper("l2_normalize", name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    length = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="norm",
        inputs={"X": x},
        outputs={"Out": out, "Norm": length},
        attrs={"axis": 1 if axis is None else axis, "epsilon": epsilon},
    )
    return out


def spectral_norm(
    weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None
) -> Variable:
    """weight / its largest singular value as a matrix whose rows are dimension `dim`, by power iteration."""
    helper = LayerHelper("spectral_norm", name=name)
    check_variable_and_dtype(weight, "weight", ["float32", "float64"], "spectral_norm")
    check_type(dim, "dim", int, "spectral_norm")
    check_type(power_iters, "power_iters", int, "spectral_norm")
    check_type(eps, "eps", float, "spectral_norm")
    dtype = weight.dtype
    height = weight.shape[dim]
    inputs = {"Weight": weight}
    for slot, length in (("U", height), ("V", math.prod(weight.shape) // height)):
        inputs[slot] = helper.create_parameter(
            attr=ParamAttr(), shape=[length], dtype=dtype, default_initializer=Normal(0.0, 1.0)
        )
        inputs[slot].stop_gradient = True
    out = helper.create_variable(dtype=dtype)
    helper.append_op(
        type="spectral_norm",
        inputs=inputs,
        outputs={"Out": out},
        attrs={"dim": dim, "power_iters": power_iters, "eps": eps},
    )
    return out


def affine_channel(
    x: Variable,
    scale: Variable | None = None,
    bias: Variable | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Variable:
    """act(scale * x + bias) with a scale and a bias for each channel."""
    helper = LayerHelper("affine_channel", input=x, act=act, name=name)
    check_variable_and_dtype(x, "x", ["float32", "float64"], "affine_channel")
    for key, value in (("scale", scale), ("bias", bias)):
        if not isinstance(value, Variable):
            raise TypeError(f"{key} of layers.affine_channel must be a Variable, but is {value!r}")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="affine_channel",
        inputs={"X": x, "Scale": scale, "Bias": bias},
        attrs={"data_layout": data_layout},
        outputs={"Out": out},
    )
    return helper.append_activation(out)


# ------------------------------------------------------------------ dropout
def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Drops each element with the probability `dropout_prob` while training.

    Parameters
    ----------
    x: a Variable of any shape.
    dropout_prob: a number from 0 to 1.
    is_test: drop nothing. `clone(for_test=True)` of a program sets it.
    seed: a number other than 0 makes every run drop the same elements; None takes that of the program.
    name: the prefix of the result's name.
    dropout_implementation: "downgrade_in_infer" multiplies by 1 - dropout_prob in tests; "upscale_in_train"
        divides the kept elements by it while training, and does nothing in tests.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> x = fluid.layers.assign(np.ones((2, 2), "float32"))
    >>> exe.run(fetch_list=[fluid.layers.dropout(x, 0.25, is_test=True)])[0]
    array([[0.75, 0.75],
           [0.75, 0.75]], dtype=float32)
    """
    helper = LayerHelper("dropout", x=x, name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "dropout")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    mask = helper.create_variable_for_type_inference(dtype=VarType.UINT8, stop_gradient=True)
    if (seed is None or seed == 0) and helper.main_program.random_seed != 0:
        seed = helper.main_program.random_seed
    helper.append_op(
        type="dropout",
        inputs={"X": [x]},
        outputs={"Out": [out], "Mask": [mask]},
        attrs={
            "dropout_prob": dropout_prob,
            "is_test": is_test,
            "fix_seed": seed is not None,
            "seed": seed if seed is not None else 0,
            "dropout_implementation": dropout_implementation,
        },
    )
    return out
