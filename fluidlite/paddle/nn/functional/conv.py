"""Convolutions of 2.x, with weights [out channels, in channels / groups, ...] that the caller has; those of
the transposed ones are [in channels, out channels / groups, ...].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.reduce import reduce_all
from fluidlite.layers.flow.debug import Assert
from fluidlite.layers.tensors.variables import assign
from fluidlite.paddle.build import append, cast, need_variable
from fluidlite.paddle.nn.functional.windows import is_last, is_open, line_padding, padding_of, window
from fluidlite.paddle.tensor.logic import less_equal, logical_and
from fluidlite.paddle.tensor.manipulation import concat, reshape, slice, squeeze, unsqueeze
from fluidlite.paddle.tensor.shapes import number_tensors, shape_of

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]


def _paddings(padding: Any, dims: int, data_format: str) -> tuple[list[int], str]:
    """Numbers and algorithm of paddings, none of which is below 0."""
    found, algorithm = padding_of(padding, dims, data_format)
    if min(found, default=0) < 0:
        raise ValueError(f"each padding must be at least 0, but padding is {padding}")
    return found, algorithm


def _conv(
    dims: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_format: str,
    name: str | None,
    layer: str | None = None,
) -> Variable:
    need_variable(x, "x", f"conv{dims}d")
    last = is_last(data_format, dims)
    channels, filters = x.shape[-1 if last else 1], weight.shape[0]
    if groups < 1 or channels % groups or filters % groups:
        raise ValueError(
            f"the channels of x, {channels}, and the filters, {filters}, must be divisible by groups={groups}"
        )
    if channels > 0 and channels != weight.shape[1] * groups:
        raise ValueError(
            f"x has {channels} channels, but the weight {list(weight.shape)} with groups={groups} "
            f"needs {weight.shape[1] * groups}"
        )
    paddings, algorithm = _paddings(padding, dims, data_format)
    depthwise = dims == 2 and channels == groups and channels != 1 and filters % channels == 0
    attrs = {
        "strides": window(stride, dims, "stride"),
        "paddings": paddings,
        "padding_algorithm": algorithm,
        "dilations": window(dilation, dims, "dilation"),
        "groups": groups,
        "data_format": data_format,
    }
    op_type = "depthwise_conv2d" if depthwise else f"conv{dims}d"
    inputs = {"Input": [x], "Filter": [weight]}
    out = append(op_type, inputs, attrs, dtype=x.dtype, slot="Output", layer=layer, name=name)
    return _with_bias(out, bias, dims, last)


def _with_bias(out: Variable, bias: Variable | None, dims: int, last: bool) -> Variable:
    if bias is None:
        return out
    if last:
        return out + bias
    return out + reshape(bias, [1, bias.shape[0], *[1] * dims])


def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """As `conv2d`, over [batch, channels, length]."""
    last = is_last(data_format, 1)
    line = 1 if last else 2  # the dimension of height one
    steps = [1, *window(stride, 1, "stride")]
    spread = [1, *window(dilation, 1, "dilation")]
    layout = "NHWC" if last else "NCHW"
    picture = unsqueeze(x, [line])
    filters = unsqueeze(weight, [2])
    pads = line_padding(padding, data_format)
    # counted as conv2d, also where each channel has its own filters
    out = _conv(2, picture, filters, bias, steps, pads, spread, groups, layout, name, layer="conv2d")
    return squeeze(out, [line])


def conv2d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The convolution of images, [batch, channels, height, width], plus `bias`, one number a filter.

    stride, dilation: one number, or one a dimension. padding: one, or two, numbers a dimension, pairs for all
    dimensions, "SAME" or "VALID". groups: parts of the channels, each with filters of its own.
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def conv3d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """As `conv2d`, over depth, height and width."""
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format, name)


# ---------------------------------------------------------------------- transposed
def _transposed(
    dims: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    output_size: Any,
    data_format: str,
    name: str | None,
) -> Variable:
    need_variable(x, "x", f"conv{dims}d_transpose")
    last = is_last(data_format, dims)
    channels = _checked_channels(x, weight, last)
    if output_size is not None and output_padding not in (0, [0] * dims):
        raise ValueError("output_padding option is mutually exclusive with output_size")
    if is_open(output_size):
        beyond = [step - 1 for step in window(stride, dims, "stride")]
        options = (stride, padding, beyond, dilation, groups, None, data_format, name)
        return _cut(_transposed(dims, x, weight, bias, *options), output_size, beyond, last)
    paddings, algorithm = _paddings(padding, dims, data_format)
    attrs = {
        "output_padding": [] if output_size is not None else _beyond(output_padding, dims),
        "output_size": [] if output_size is None else window(output_size, dims, "output_size"),
        "strides": window(stride, dims, "stride"),
        "paddings": paddings,
        "padding_algorithm": algorithm,
        "dilations": window(dilation, dims, "dilation"),
        "groups": groups,
        "data_format": "NHWC" if last else "NCHW",  # said of three dimensions too
    }
    depthwise = dims == 2 and channels == groups == weight.shape[1] * groups != 1
    op_type = "depthwise_conv2d_transpose" if depthwise else f"conv{dims}d_transpose"
    inputs = {"Input": [x], "Filter": [weight]}
    out = append(op_type, inputs, attrs, dtype=x.dtype, slot="Output", name=name)
    return _with_bias(out, bias, dims, last)


def _checked_channels(x: Variable, weight: Variable, last: bool) -> int:
    """The channels of x, -1 where they are unknown; ValueError where the weight takes other ones."""
    channels = x.shape[-1 if last else 1]
    if channels > 0 and channels != weight.shape[0]:
        raise ValueError(
            f"x has {channels} channels, but the weight {list(weight.shape)} needs {weight.shape[0]}"
        )
    return channels


def _cut(out: Variable, output_size: Any, beyond: list[int], last: bool) -> Variable:
    """The first rows and columns of the largest result that a stride allows, as many as Variables say.

    A size that has not `beyond` rows less, or more than there are, ends the run.
    """
    dims = len(beyond)
    axes = list(range(1, 1 + dims)) if last else list(range(2, 2 + dims))
    if isinstance(output_size, Variable):
        sizes = cast(output_size, "int32")
    else:
        sizes = concat([reshape(one, [1]) for one in number_tensors(output_size)])
    most = slice(shape_of(out), [0], [axes[0]], [axes[-1] + 1])
    least = most - assign(np.array(beyond, "int32"))
    Assert(reduce_all(logical_and(less_equal(least, sizes), less_equal(sizes, most))), [sizes])
    return slice(out, axes, [0] * dims, sizes)


def _beyond(output_padding: Any, dims: int) -> list[int]:
    """Rows that the result has beyond its least size; none for 0."""
    rows = window(output_padding, dims, "output_padding")
    return rows if any(rows) else []


def conv1d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """As `conv2d_transpose`, over [batch, channels, length]."""
    last = is_last(data_format, 1)
    line = 1 if last else 2
    steps = [1, *window(stride, 1, "stride")]
    spread = [1, *window(dilation, 1, "dilation")]
    beyond = [0, *window(output_padding, 1, "output_padding")]
    size = None if output_size is None else [1, *window(output_size, 1, "output_size")]
    out = _transposed(
        2,
        unsqueeze(x, [line]),
        unsqueeze(weight, [2]),
        bias,
        steps,
        line_padding(padding, data_format),
        beyond,
        spread,
        groups,
        size,
        "NHWC" if last else "NCHW",
        name,
    )
    return squeeze(out, [line])


def conv2d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The gradient of `conv2d` with respect to its input, taken as a layer.

    output_size: the size of the result, of those that the stride allows; or output_padding, rows and columns
    beyond the least one. The rest as in `conv2d`.
    """
    return _transposed(
        2, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name
    )


def conv3d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """As `conv2d_transpose`, over depth, height and width."""
    return _transposed(
        3, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name
    )
