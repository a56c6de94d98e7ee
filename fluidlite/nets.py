"""Small nets made of several layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.elementwise import elementwise_mul, scale
from fluidlite.layers.arithmetic.products import fc, matmul
from fluidlite.layers.neural.conv import conv2d, pool2d
from fluidlite.layers.neural.norm import batch_norm, dropout
from fluidlite.layers.ops import sigmoid
from fluidlite.layers.sequence_lod import sequence_conv, sequence_pool
from fluidlite.layers.tensors.shaping import reshape, split, transpose

__all__ = [
    "glu",
    "img_conv_group",
    "scaled_dot_product_attention",
    "sequence_conv_pool",
    "simple_img_conv_pool",
]

_FLOATS = ["float16", "float32", "float64"]


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    pool_size: Any,
    pool_stride: Any,
    pool_padding: Any = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Any = 1,
    conv_padding: Any = 0,
    conv_dilation: Any = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: Any = None,
    use_cudnn: bool = True,
) -> Variable:
    """`layers.conv2d`, then `layers.pool2d`."""
    hidden = conv2d(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        use_cudnn=use_cudnn,
    )
    return pool2d(
        input=hidden,
        pool_size=pool_size,
        pool_type=pool_type,
        pool_stride=pool_stride,
        pool_padding=pool_padding,
        global_pooling=global_pooling,
        use_cudnn=use_cudnn,
    )


def _one_for_each(value: Any, count: int) -> list[Any]:
    """A list with one entry for each of `count` convolutions; what is no list or tuple stands for all."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    assert len(value) == count, f"{value!r} must have an entry for each of the {count} convolutions"
    return list(value)


def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: Any,
    conv_padding: Any = 1,
    conv_filter_size: Any = 3,
    conv_act: Any = None,
    param_attr: Any = None,
    conv_with_batchnorm: Any = False,
    conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """As many convolutions as `conv_num_filter` has entries, each with batch norm and dropout where asked
    for, then a pool.

    The arguments that describe a convolution may be lists with one entry for each.
    """
    assert isinstance(conv_num_filter, (list, tuple)), (
        f"conv_num_filter must be a list, but is {conv_num_filter!r}"
    )

    described = (conv_padding, conv_filter_size, param_attr, conv_with_batchnorm, conv_batchnorm_drop_rate)
    columns = [_one_for_each(value, len(conv_num_filter)) for value in described]
    hidden = input
    for filters, padding, size, attr, normal, rate in zip(conv_num_filter, *columns, strict=True):
        hidden = conv2d(
            input=hidden,
            num_filters=filters,
            filter_size=size,
            padding=padding,
            param_attr=attr,
            act=None if normal else conv_act,
            use_cudnn=use_cudnn,
        )
        if normal:
            hidden = batch_norm(input=hidden, act=conv_act)
            if abs(rate) > 1e-5:
                hidden = dropout(x=hidden, dropout_prob=rate)
    return pool2d(
        input=hidden, pool_size=pool_size, pool_type=pool_type, pool_stride=pool_stride, use_cudnn=use_cudnn
    )


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: Any = "sigmoid",
    pool_type: str = "max",
    bias_attr: Any = None,
) -> Variable:
    """`layers.sequence_conv`, then `layers.sequence_pool`."""
    check_variable_and_dtype(input, "input", ["float32", "float64"], "input")
    hidden = sequence_conv(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
    )
    return sequence_pool(input=hidden, pool_type=pool_type)


def glu(input: Variable, dim: int = -1) -> Variable:
    """a * sigmoid(b) for the two halves a and b of the input along `dim`."""
    check_variable_and_dtype(input, "input", _FLOATS, "glu")
    a, b = split(input, num_or_sections=2, dim=dim)
    return elementwise_mul(x=a, y=sigmoid(x=b))


def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """softmax(q k' / sqrt(width of a head)) v for each of `num_heads` heads, side by side in the result.

    All inputs are (batch, length, width). With several heads queries, keys and values go through a fully
    connected layer each.
    """
    _check_attention(queries, keys, values, num_heads)
    if num_heads > 1:
        queries, keys, values = (
            fc(input=item, size=item.shape[-1], num_flatten_dims=2) for item in (queries, keys, values)
        )
    q, k, v = (_split_heads(item, num_heads) for item in (queries, keys, values))
    scaled = scale(x=q, scale=float(keys.shape[-1] // num_heads) ** -0.5)
    product = matmul(x=scaled, y=k, transpose_y=True)
    weights = reshape(x=reshape(x=product, shape=[-1, product.shape[-1]], act="softmax"), shape=product.shape)
    if dropout_rate:
        weights = dropout(weights, dropout_prob=dropout_rate, is_test=False)
    return _join_heads(matmul(weights, v))


def _check_attention(queries: Variable, keys: Variable, values: Variable, num_heads: int) -> None:
    for name, item in (("queries", queries), ("keys", keys), ("values", values)):
        check_variable_and_dtype(item, name, _FLOATS, "scaled_dot_product_attention")
        if len(item.shape) != 3:
            raise ValueError(
                f"queries, keys and values must have 3 dimensions, but {name} has shape {item.shape}"
            )
    if not queries.dtype == keys.dtype == values.dtype:
        raise TypeError(
            f"queries, keys and values must have the same dtype, but theirs are {queries.dtype}, "
            f"{keys.dtype} and {values.dtype}"
        )
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"queries and keys must have the same width, but theirs are {queries.shape[-1]} and "
            f"{keys.shape[-1]}"
        )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"there must be a value for each key, but their lengths are {values.shape[-2]} and "
            f"{keys.shape[-2]}"
        )
    for name, item in (("keys", keys), ("values", values)):
        if item.shape[-1] % num_heads:
            raise ValueError(f"the width {item.shape[-1]} of {name} does not divide into {num_heads} heads")


def _split_heads(x: Variable, num_heads: int) -> Variable:
    """(batch, length, width) as (batch, heads, length, width of a head); x itself for one head."""
    if num_heads == 1:
        return x
    shape = [*x.shape[:-1], num_heads, x.shape[-1] // num_heads]
    return transpose(x=reshape(x=x, shape=shape), perm=[0, 2, 1, 3])


def _join_heads(x: Variable) -> Variable:
    """The inverse of `_split_heads`."""
    if len(x.shape) == 3:
        return x
    turned = transpose(x, perm=[0, 2, 1, 3])
    return reshape(
        x=turned, shape=[int(dim) for dim in (*turned.shape[:2], turned.shape[2] * turned.shape[3])]
    )


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
