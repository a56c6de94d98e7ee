"""Layers of `paddle.static.nn` whose names or defaults differ from fluid's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.contrib.layers import nn as tables
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic import activations, products
from fluidlite.layers.boxes import regions
from fluidlite.layers.flow import conditional
from fluidlite.layers.neural import conv
from fluidlite.layers.neural import norm as normalizations
from fluidlite.layers.tensors import strict
from fluidlite.layers.utils import map_structure
from fluidlite.paddle.nn import functional
from fluidlite.paddle.nn.functional.windows import is_open, window
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.creation import full

__all__ = [
    "cond",
    "conv2d_transpose",
    "deform_conv2d",
    "embedding",
    "fc",
    "instance_norm",
    "prelu",
    "sparse_embedding",
]


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """activation(x @ w + b), the sum over several inputs; `num_flatten_dims` dimensions in front are rows."""
    return products.fc(x, size, num_flatten_dims, weight_attr, bias_attr, activation, name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a table of `size` [rows, columns] for ids of any shape, with a dimension more than these."""
    begin()
    return strict.embedding(input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


_TABLES = ("CommonSparseTable", "SSDSparseTable", "MemorySparseTable")


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: Any = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
    slot: int | None = None,
) -> Variable:
    """Rows of a table that parameter servers keep, as in `fluid.contrib.layers`.

    `table_class` and `slot` are read by the servers of 2.x only.
    """
    begin()
    if table_class not in _TABLES:
        raise ValueError(f"table_class must be in [{', '.join(_TABLES)}], but is {table_class!r}")
    return tables.sparse_embedding(input, size, padding_idx, is_test, entry, param_attr, dtype)


@functools.wraps(conv.conv2d_transpose, assigned=())
def conv2d_transpose(*args: Any, **kwargs: Any) -> Variable:
    """As in fluid; Variables may say `output_size`, where `filter_size` is given."""
    bound = inspect.signature(conv.conv2d_transpose).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if not is_open(given["output_size"]):
        return conv.conv2d_transpose(*args, **kwargs)
    if given["filter_size"] is None:
        raise ValueError("filter_size should not be None when output_size holds Variables")
    x, count, data_format = given["input"], given["groups"] or 1, given["data_format"]
    attrs = {key: given[key] for key in ("param_attr", "bias_attr", "act", "name")}
    helper = LayerHelper("conv2d_transpose", **attrs)
    axis = 3 if data_format == "NHWC" else 1
    shape = [x.shape[axis], given["num_filters"] // count, *window(given["filter_size"], 2, "filter_size")]
    weight = helper.create_parameter(attr=helper.param_attr, dtype=x.dtype, shape=shape)
    moves = {key: given[key] for key in ("stride", "padding", "dilation", "output_size", "data_format")}
    out = functional.conv2d_transpose(x, weight, groups=count, **moves)
    return helper.append_activation(helper.append_bias_op(out, dim_start=axis, dim_end=axis + 1))


def prelu(
    x: Variable, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """x where it is positive, else alpha * x: one alpha for all, for each channel or for each element."""
    last = data_format in ("NLC", "NHWC", "NDHWC")
    if not last and data_format not in ("NC", "NCL", "NCHW", "NCDHW"):
        raise ValueError(
            "data_format must be one of 'NC', 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC', "
            f"but received {data_format}"
        )
    begin()
    return activations.prelu_with_layout(x, mode, param_attr, name, channels_last=last)


def deform_conv2d(
    x: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A convolution whose samples are moved by `offset`, and weighted by `mask` where there is one."""
    return regions.deformable_conv(
        x,
        offset,
        mask,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        deformable_groups,
        im2col_step,
        weight_attr,
        bias_attr,
        mask is not None,
        name,
    )


def instance_norm(
    input: Variable,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalisation over the pixels of each channel of each sample; with a scale and a shift where both
    attributes are given, as in 2.6.2.
    """
    if (param_attr is False) != (bias_attr is False):
        raise AssertionError("instance_norm: param_attr and bias_attr must both be False, or neither")
    if param_attr and bias_attr:
        return normalizations.instance_norm(input, epsilon, param_attr, bias_attr, name)
    return functional.instance_norm(input, eps=epsilon, name=name)


def cond(
    pred: Variable,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    return_names: Any = None,
) -> Any:
    """The result of one of two functions, by a boolean of one element; `return_names` names results in
    2.x's messages.
    """
    return conditional.cond(pred, _with_tensors(true_fn), _with_tensors(false_fn), name)


def _with_tensors(function: Callable[[], Any] | None) -> Callable[[], Any] | None:
    """The function, with tensors of the shape [] for numbers among its results."""
    if not callable(function):
        return function
    return lambda: map_structure(_as_tensor, function())


def _as_tensor(value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return full([], value, "bool" if isinstance(value, bool) else "int64")
    return full([], value, "float64") if isinstance(value, float) else value
