"""The part of `fluid` that the workloads use, over PaddlePaddle 2.x: its static graphs by their own names.

What 2.x has no layer for (`dynamic_lstm`, sequences with a level of detail) is not here: a workload that asks
for it has no such peer.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy  # noqa: F401  2.6.2 finds the interpreter's NumPy only when it is there first
import paddle
from paddle import static
from paddle.nn import functional

paddle.enable_static()


def fc(x: Any, size: int, *, param_attr: Any = None, act: str | None = None, **options: Any) -> Any:
    return static.nn.fc(x, size, weight_attr=param_attr, activation=act, **options)


def pool2d(
    x: Any, size: Any = 1, kind: str = "max", stride: Any = 1, padding: int = 0, **options: Any
) -> Any:
    if options.get("global_pooling"):
        return functional.adaptive_avg_pool2d(x, 1)
    pool = functional.max_pool2d if kind == "max" else functional.avg_pool2d
    return pool(x, size, stride, padding)


def elementwise_add(x: Any, y: Any, axis: int = -1, act: str | None = None) -> Any:
    if axis > 0:
        y = paddle.reshape(y, [-1] + [1] * (len(x.shape) - axis - len(y.shape)))
    h = paddle.add(x, y)
    return h if act is None else getattr(functional, act)(h)


def matmul(x: Any, y: Any, transpose_y: bool = False, alpha: float = 1.0) -> Any:
    product = paddle.matmul(x, y, transpose_y=transpose_y)
    return product if alpha == 1.0 else paddle.scale(product, alpha)


def lstm(x: Any, h: Any, c: Any, length: int, size: int, count: int) -> Any:
    """As `fluid.layers.lstm`: x is (time, rows, numbers), and as many rows as the first state has."""
    x = paddle.reshape(x, [length, h.shape[1], x.shape[-1]])
    hidden, (last_h, last_c) = paddle.nn.LSTM(x.shape[-1], size, count, time_major=True)(x, (h, c))
    return hidden, last_h, last_c


def reduce_mean(x: Any, dim: Any, keep_dim: bool = False) -> Any:
    return paddle.mean(x, dim, keep_dim)


def reduce_max(x: Any, dim: Any, keep_dim: bool = False) -> Any:
    return paddle.max(x, dim, keep_dim)


def reduce_sum(x: Any, dim: Any, keep_dim: bool = False) -> Any:
    return paddle.sum(x, dim, keepdim=keep_dim)


def resize_nearest(x: Any, scale: float, align_corners: bool) -> Any:
    return functional.interpolate(x, scale_factor=scale, mode="nearest", align_corners=align_corners)


def save_inference_model(folder: str, feeds: list[str], fetches: list[Any], exe: Any, main: Any) -> None:
    fed = [main.global_block().var(name) for name in feeds]
    static.save_inference_model(folder + "/model", fed, fetches, exe, program=main)


def load_inference_model(folder: str, exe: Any) -> Any:
    return static.load_inference_model(folder + "/model", exe)


def momentum(rate: float, mu: float, regularization: Any = None) -> Any:
    return paddle.optimizer.Momentum(rate, mu, weight_decay=regularization)


layers = SimpleNamespace(
    fc=fc,
    conv2d=static.nn.conv2d,
    conv2d_transpose=static.nn.conv2d_transpose,
    batch_norm=static.nn.batch_norm,
    layer_norm=static.nn.layer_norm,
    create_parameter=lambda shape, dtype, name=None, attr=None: static.create_parameter(
        shape, dtype, name, attr
    ),
    pool2d=pool2d,
    lstm=lstm,
    elementwise_add=elementwise_add,
    elementwise_sub=paddle.subtract,
    elementwise_mul=paddle.multiply,
    matmul=matmul,
    mean=paddle.mean,
    reduce_mean=reduce_mean,
    reduce_max=reduce_max,
    reduce_sum=reduce_sum,
    resize_nearest=resize_nearest,
    softmax_with_cross_entropy=functional.softmax_with_cross_entropy,
    softmax=functional.softmax,
    relu=functional.relu,
    relu6=functional.relu6,
    leaky_relu=functional.leaky_relu,
    gelu=functional.gelu,
    sigmoid=functional.sigmoid,
    tanh=paddle.tanh,
    scale=paddle.scale,
    square=paddle.square,
    reshape=paddle.reshape,
    transpose=paddle.transpose,
    concat=paddle.concat,
    split=lambda x, count, dim: paddle.split(x, count, dim),
    slice=paddle.slice,
    expand=paddle.tile,
    flatten=lambda x: paddle.flatten(x, 1),
    fill_constant=lambda shape, dtype, value: paddle.full(shape, value, dtype),
    assign=paddle.assign,
    increment=paddle.increment,
    less_than=paddle.less_than,
    while_loop=static.nn.while_loop,
)
fluid = SimpleNamespace(
    layers=layers,
    data=static.data,
    embedding=static.nn.embedding,
    ParamAttr=paddle.ParamAttr,
    regularizer=SimpleNamespace(L2Decay=paddle.regularizer.L2Decay),
    optimizer=SimpleNamespace(
        SGD=paddle.optimizer.SGD,
        Momentum=momentum,
        Adam=paddle.optimizer.Adam,
        Adagrad=paddle.optimizer.Adagrad,
    ),
    Program=static.Program,
    program_guard=static.program_guard,
    Executor=static.Executor,
    Scope=static.Scope,
    global_scope=static.global_scope,
    scope_guard=static.scope_guard,
    CPUPlace=paddle.CPUPlace,
    io=SimpleNamespace(save_inference_model=save_inference_model, load_inference_model=load_inference_model),
)
