"""Convolution and pooling layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError, SlotError
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Normal
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "adaptive_pool2d",
    "adaptive_pool3d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "pool2d",
    "pool3d",
]

_FLOATS = ["float16", "float32", "float64"]
_LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


# ------------------------------------------------------------------ arguments
def numbers(value: Any, count: int, name: str) -> list[int]:
    """`value` as a list of `count` integers: one number stands for all; ValueError otherwise."""
    if isinstance(value, int):
        return [value] * count
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ArgumentError(f"{name} must be an integer or {count} of them, but is {value!r}")
    items = list(value)
    if len(items) != count:
        raise ValueError(f"{name} must hold {count} numbers, but is {value!r}")
    # 2.0 is no size either: 1.8.5 fails at the op's attribute
    if not all(isinstance(item, (int, np.integer)) for item in items):
        raise SlotError(f"{name} must hold {count} integers, but is {value!r}")
    return [int(item) for item in items]


def _choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        raise ArgumentError(f"{name} must be one of {list(choices)}, but is {value!r}")


def _flag(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} must be True or False, but is {value!r}")


def padding_of(padding: int | str | Sequence[Any], dims: int, data_format: str) -> tuple[list[int], str]:
    """Numbers and algorithm for what users write: a number, one or two numbers a dimension, pairs for all
    dimensions, or a name.
    """
    if isinstance(padding, str):
        _choice("padding", padding.upper(), ("SAME", "VALID"))
        return [0] * dims, padding.upper()
    if (
        isinstance(padding, (list, tuple))
        and len(padding) == dims + 2
        and isinstance(padding[0], (list, tuple))
    ):
        padding = _spatial_pairs(padding, data_format)
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * dims:
        found = numbers(padding, 2 * dims, "padding")
        return (found[::2] if found[::2] == found[1::2] else found), "EXPLICIT"
    return numbers(padding, dims, "padding"), "EXPLICIT"


def _spatial_pairs(padding: Sequence[Sequence[int]], data_format: str) -> list[int]:
    """The pairs of the spatial dimensions, one after the other; ValueError where the batch or the channels
    are padded.
    """
    channel = len(padding) - 1 if data_format.endswith("C") else 1
    if any(any(padding[i]) for i in (0, channel)):
        raise ValueError(
            f"padding {padding} pads the batch or the channels of a {data_format} input: these pairs must be "
            f"zero"
        )
    return [number for i, pair in enumerate(padding) if i not in (0, channel) for number in pair]


def _channels(input: Variable, data_format: str) -> int:
    return input.shape[-1 if data_format.endswith("C") else 1]


def _finish(helper: LayerHelper, out: Variable, data_format: str) -> Variable:
    """Bias and activation."""
    if data_format.endswith("C"):
        return helper.append_activation(
            helper.append_bias_op(out, dim_start=len(data_format) - 1, dim_end=len(data_format))
        )
    return helper.append_activation(helper.append_bias_op(out, dim_start=1, dim_end=2))


# ------------------------------------------------------------------ convolutions
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """A two-dimensional convolution: act(input * filters + bias).

    Each output has (in + padding - dilation * (filter - 1) - 1) // stride + 1 rows or columns.

    Parameters
    ----------
    input: images [N, channels, height, width], or [N, height, width, channels] with `data_format="NHWC"`. The
        number of channels must be known.
    num_filters: the number of channels of the result.
    filter_size: height and width of the filters, one number for both or [height, width].
    stride: the step between windows, in the same forms.
    padding: zeros around the image: a number, [height, width], [top, bottom, left, right], a pair for each of
        the four dimensions, "SAME" (out = ceil(in / stride), no dilation) or "VALID" (none).
    dilation: the distance between elements of a filter.
    groups: channels and filters are divided into so many groups, which do not see each other; None is 1.
    param_attr: settings of the filters [num_filters, channels / groups, height, width]; the default
        initializer is He's normal one.
    bias_attr: settings of the bias [num_filters]; False for none.
    use_cudnn: chooses among kernels of a device; the result is the same.
    act: the name of an activation, such as "relu".
    name: the prefix of the names of parameters and results.
    data_format: "NCHW" or "NHWC".

    Returns
    -------
    A Variable [N, num_filters, height, width], or with the channels last.

    >>> image = fluid.data("image", [None, 3, 32, 32])
    >>> fluid.layers.conv2d(image, num_filters=8, filter_size=3, padding=1, act="relu").shape
    (-1, 8, 32, 32)
    >>> fluid.layers.conv2d(image, num_filters=8, filter_size=3, stride=2, padding="SAME").shape
    (-1, 8, 16, 16)
    """
    check_variable_and_dtype(input, "input", _FLOATS, "conv2d")
    _flag("use_cudnn", use_cudnn)
    _choice("data_format", data_format, _LAYOUTS[2])
    # fluid takes its own depthwise kernel only where cuDNN, which has one too, is not asked for
    depthwise = (
        groups is not None
        and _channels(input, data_format) == groups
        and num_filters % groups == 0
        and not use_cudnn
    )
    return _conv("depthwise_conv2d" if depthwise else "conv2d", 2, locals())


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """A three-dimensional convolution; as `conv2d` with depth before height and width."""
    check_type(input, "input", Variable, "conv3d")
    _flag("use_cudnn", use_cudnn)
    _choice("data_format", data_format, _LAYOUTS[3])
    return _conv("conv3d", 3, locals())


def _conv(type: str, dims: int, given: dict[str, Any]) -> Variable:
    input, num_filters, groups, data_format = (
        given[name] for name in ("input", "num_filters", "groups", "data_format")
    )
    if given["param_attr"] is False:
        raise AssertionError("param_attr should not be False here.")
    channels = _known_channels(input, groups, data_format)
    helper = LayerHelper(type, **_layer_arguments(given))
    dtype = helper.input_dtype()
    size = numbers(given["filter_size"], dims, "filter_size")
    strides = numbers(given["stride"], dims, "stride")
    dilations = numbers(given["dilation"], dims, "dilation")
    paddings, algorithm = padding_of(given["padding"], dims, data_format)
    # He's initialisation: with relu after it the variance stays the same from layer to layer
    deviation = math.sqrt(2.0 / (math.prod(size) * channels))
    weight = helper.create_parameter(
        attr=helper.param_attr,
        shape=[num_filters, channels // (groups or 1), *size],
        dtype=dtype,
        default_initializer=Normal(0.0, deviation, 0),
    )
    out = helper.create_variable_for_type_inference(dtype)
    attrs = {
        "strides": strides,
        "paddings": paddings,
        "dilations": dilations,
        "groups": groups or 1,
        "use_cudnn": given["use_cudnn"],
        "use_mkldnn": False,
        "padding_algorithm": algorithm,
        "data_format": data_format,
    }
    if dims == 2:
        attrs["fuse_relu_before_depthwise_conv"] = False
    helper.append_op(
        type=type, inputs={"Input": input, "Filter": weight}, outputs={"Output": out}, attrs=attrs
    )
    return _finish(helper, out, data_format)


def _known_channels(input: Variable, groups: int | None, data_format: str) -> int:
    """The channels of the input; ValueError where they are not known or do not divide into the groups."""
    channels = _channels(input, data_format)
    if channels < 0:
        raise ValueError(
            f"the channels of the input must be known, but its shape is {input.shape} ({data_format})"
        )
    if groups is not None and channels % groups:
        raise ValueError(f"the {channels} channels of the input do not divide into {groups} groups")
    return channels


def _layer_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a layer that its LayerHelper reads."""
    return {name: given[name] for name in ("input", "param_attr", "bias_attr", "act", "name", "use_cudnn")}


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """A two-dimensional transposed convolution, which enlarges images.

    Each output has (in - 1) * stride - padding + dilation * (filter - 1) + 1 rows or columns.

    Parameters
    ----------
    input: images [N, channels, height, width], or with the channels last.
    num_filters: the number of channels of the result.
    output_size: height and width of the result: up to stride - 1 more than the formula gives, or in place of
        a `filter_size` that is not given.
    filter_size: height and width of the filters, one number for both or [height, width].
    padding: as in `conv2d`; it makes the result smaller.
    stride: how many times as large the result is.
    dilation: the distance between elements of a filter.
    groups: channels and filters are divided into so many groups; None is 1.
    param_attr: settings of the filters [channels, num_filters / groups, height, width].
    bias_attr: settings of the bias [num_filters]; False for none.
    use_cudnn: chooses among kernels of a device; the result is the same.
    act: the name of an activation.
    name: the prefix of the names of parameters and results.
    data_format: "NCHW" or "NHWC".

    Returns
    -------
    A Variable [N, num_filters, height, width], or with the channels last.

    >>> image = fluid.data("image", [None, 8, 16, 16])
    >>> fluid.layers.conv2d_transpose(image, num_filters=3, filter_size=2, stride=2).shape
    (-1, 3, 32, 32)
    """
    _choice("data_format", data_format, _LAYOUTS[2])
    channels = input.shape[-1 if data_format == "NHWC" else 1]
    depthwise = groups is not None and channels == groups == num_filters and not use_cudnn
    return _conv_transpose("depthwise_conv2d_transpose" if depthwise else "conv2d_transpose", 2, locals())


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """A three-dimensional transposed convolution; as `conv2d_transpose` with depth before height and
    width.
    """
    _choice("data_format", data_format, _LAYOUTS[3])
    return _conv_transpose("conv3d_transpose", 3, locals())


def _conv_transpose(type: str, dims: int, given: dict[str, Any]) -> Variable:
    input, num_filters, data_format = given["input"], given["num_filters"], given["data_format"]
    if given["param_attr"] is False:
        raise AssertionError(f"param_attr should not be False in {type}.")
    helper = LayerHelper(type, **_layer_arguments(given))
    if not isinstance(input, Variable):
        raise TypeError(f"Input of {type} must be Variable, but is {input!r}")
    strides, dilations = (
        numbers(given["stride"], dims, "stride"),
        numbers(given["dilation"], dims, "dilation"),
    )
    _flag("use_cudnn", given["use_cudnn"])
    paddings, algorithm = padding_of(given["padding"], dims, data_format)
    output_size = [] if given["output_size"] is None else numbers(given["output_size"], dims, "output_size")
    size = _filter_size(given["filter_size"], output_size, input, strides, paddings, dilations, data_format)
    groups = 1 if given["groups"] is None else given["groups"]
    weight = helper.create_parameter(
        attr=helper.param_attr,
        dtype=input.dtype,
        shape=[_channels(input, data_format), num_filters // groups, *size],
    )
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    # Paddle says NCHW or NHWC for three dimensions too
    helper.append_op(
        type=type,
        inputs={"Input": [input], "Filter": [weight]},
        outputs={"Output": out},
        attrs={
            "output_size": output_size,
            "strides": strides,
            "paddings": paddings,
            "padding_algorithm": algorithm,
            "dilations": dilations,
            "groups": groups,
            "use_cudnn": given["use_cudnn"],
            "data_format": "NHWC" if data_format.endswith("C") else "NCHW",
        },
    )
    return _finish(helper, out, data_format)


def _filter_size(
    wanted: Any,
    output_size: list[int],
    input: Variable,
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
    data_format: str,
) -> list[int]:
    """The filter's size, from the output's where it is not given."""
    dims = len(strides)
    if wanted is not None:
        return numbers(wanted, dims, "filter_size")
    if not output_size:
        raise ValueError("output_size must be set when filter_size is None")
    places = input.shape[1:-1] if data_format.endswith("C") else input.shape[2:]
    totals = (
        [2 * pad for pad in paddings]
        if len(paddings) == dims
        else [a + b for a, b in zip(paddings[::2], paddings[1::2])]
    )
    return [
        (out - (size - 1) * s + pad - 1) // d + 1
        for out, size, s, pad, d in zip(output_size, places, strides, totals, dilations)
    ]


# ------------------------------------------------------------------ pools
def pool2d(
    input: Variable,
    pool_size: int | Sequence[int] = -1,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] = 1,
    pool_padding: int | str | Sequence[Any] = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """The largest element, or the mean, of each window of an image.

    Parameters
    ----------
    input: images [N, channels, height, width], or with the channels last.
    pool_size: height and width of a window, one number for both or [height, width].
    pool_type: "max" or "avg".
    pool_stride: the step between windows, in the same forms.
    pool_padding: padding around the image, in the forms of `conv2d`.
    global_pooling: one window, the whole image; `pool_size` and `pool_padding` are ignored.
    use_cudnn: chooses among kernels of a device; the result is the same.
    ceil_mode: sizes are rounded up, so that a window may reach beyond the image.
    name: the prefix of the result's name.
    exclusive: a mean does not count the padding.
    data_format: "NCHW" or "NHWC".

    Returns
    -------
    A Variable [N, channels, height, width], or with the channels last.

    >>> image = fluid.data("image", [None, 8, 32, 32])
    >>> fluid.layers.pool2d(image, pool_size=2, pool_stride=2).shape
    (-1, 8, 16, 16)
    >>> fluid.layers.pool2d(image, pool_type="avg", global_pooling=True).shape
    (-1, 8, 1, 1)
    """
    return _pool(2, locals())


def pool3d(
    input: Variable,
    pool_size: int | Sequence[int] = -1,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] = 1,
    pool_padding: int | str | Sequence[Any] = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """As `pool2d`, over depth, height and width."""
    return _pool(3, locals())


def _pool(dims: int, given: dict[str, Any]) -> Variable:
    input, data_format, padding = given["input"], given["data_format"], given["pool_padding"]
    _choice("pool_type", given["pool_type"], ("max", "avg"))
    if given["global_pooling"] is False and given["pool_size"] == -1:
        raise ValueError("pool_size must be given unless global_pooling is True")
    _flag("use_cudnn", given["use_cudnn"], TypeError)
    _choice("data_format", data_format, _LAYOUTS[dims])
    size, strides = (
        numbers(given["pool_size"], dims, "pool_size"),
        numbers(given["pool_stride"], dims, "pool_stride"),
    )
    paddings, algorithm = padding_of(padding, dims, data_format)
    if algorithm == "VALID" and given["ceil_mode"]:
        raise ValueError("ceil_mode must be False when pool_padding is 'VALID'")
    helper = LayerHelper(f"pool{dims}d", input=input, name=given["name"])
    out = helper.create_variable_for_type_inference(helper.input_dtype())
    helper.append_op(
        type=f"pool{dims}d",
        inputs={"X": input},
        outputs={"Out": out},
        attrs={
            "pooling_type": given["pool_type"],
            "ksize": size,
            "global_pooling": given["global_pooling"],
            "strides": strides,
            "paddings": paddings,
            "padding_algorithm": algorithm,
            "use_cudnn": given["use_cudnn"],
            "ceil_mode": given["ceil_mode"],
            "use_mkldnn": False,
            "exclusive": given["exclusive"],
            "data_format": data_format,
        },
    )
    return out


def adaptive_pool2d(
    input: Variable,
    pool_size: int | Sequence[int],
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Any:
    """Pools into an output of `pool_size` [height, width], whose windows follow from it.

    With `require_index` (of "max" only) also the position of each maximum in its image, height * width +
    column.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "adaptive_pool2d")
    return _adaptive_pool(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(
    input: Variable,
    pool_size: int | Sequence[int],
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Any:
    """As `adaptive_pool2d`, over depth, height and width."""
    check_variable_and_dtype(input, "input", _FLOATS, "adaptive_pool3d")
    return _adaptive_pool(3, input, pool_size, pool_type, require_index, name)


def _adaptive_pool(
    dims: int,
    input: Variable,
    pool_size: int | Sequence[int],
    pool_type: str,
    require_index: bool,
    name: str | None,
) -> Any:
    caller = f"adaptive_pool{dims}d"
    check_type(pool_type, "pool_type", str, caller)
    check_type(pool_size, "pool_size", (int, list, tuple), caller)
    check_type(require_index, "require_index", bool, caller)
    _choice("pool_type", pool_type, ("max", "avg"))
    if pool_type == "avg" and require_index:
        raise ValueError("an average has no index: require_index is for pool_type 'max'")
    type = f"max_pool{dims}d_with_index" if pool_type == "max" else f"pool{dims}d"
    helper = LayerHelper(type, input=input, name=name)
    dtype = helper.input_dtype()
    out = helper.create_variable_for_type_inference(dtype)
    outputs, attrs = {"Out": out}, {"ksize": numbers(pool_size, dims, "pool_size"), "adaptive": True}
    if pool_type == "max":
        outputs["Mask"] = helper.create_variable_for_type_inference(dtype)
    else:
        attrs["pooling_type"] = pool_type
    helper.append_op(type=type, inputs={"X": input}, outputs=outputs, attrs=attrs)
    return (out, outputs["Mask"]) if require_index else out
