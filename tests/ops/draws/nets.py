"""Small networks of `fluid.nets`, and distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")


@draws("fluid.nets.glu")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4)))
    dim = draw.axis(len(shape))
    shape[dim] = 2 * draw.int(1, 3)
    x = draw.tensor(shape, FLOATS, known=True)
    return draw.call(name, x, dim=OMIT if dim in (-1, len(shape) - 1) and draw.flag() else dim)


@draws("fluid.nets.scaled_dot_product_attention")
def _(draw: Draw, name: str) -> Any:
    heads, batch, dtype = draw.choice(1, 1, 2), draw.int(1, 3), draw.choice(*FLOATS)
    width, values = heads * draw.int(1, 3), heads * draw.int(1, 3)
    queries, keys = draw.int(1, 4), draw.int(1, 4)
    shapes = [(batch, queries, width), (batch, keys, width), (batch, keys, values)]
    tensors = [draw.tensor(shape, dtype) for shape in shapes]
    count = OMIT if heads == 1 and draw.flag() else heads
    return draw.call(name, *tensors, num_heads=count, dropout_rate=draw.maybe(0.0, 0.2))


def pictures(draw: Draw) -> Value:
    """A batch of small images."""
    return draw.tensor(
        (draw.int(1, 2), draw.int(1, 3), draw.int(5, 7), draw.int(5, 7)), FLOATS, distinct=True
    )


@draws("fluid.nets.simple_img_conv_pool")
def _(draw: Draw, name: str) -> Any:
    return draw.call(
        name,
        pictures(draw),
        draw.int(1, 3),
        draw.int(1, 3),
        draw.int(1, 2),
        draw.int(1, 2),
        pool_padding=draw.choice(OMIT, 0),
        conv_dilation=draw.choice(OMIT, OMIT, 2),
        conv_groups=draw.choice(OMIT, 1),
        param_attr=draw.attr(0.15),
        pool_type=draw.choice(OMIT, "max", "avg"),
        global_pooling=draw.maybe(draw.flag(), 0.3),
        conv_stride=draw.choice(OMIT, 2),
        conv_padding=draw.choice(OMIT, 1),
        bias_attr=draw.choice(OMIT, False),
        act=draw.act(),
    )


@draws("fluid.nets.img_conv_group")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(1, 2)
    normal = draw.flag(0.4)
    return draw.call(
        name,
        pictures(draw),
        [draw.int(1, 3) for _ in range(count)],
        2,
        conv_padding=1,
        conv_filter_size=draw.choice(OMIT, 3),
        conv_act=draw.choice(OMIT, "relu", "tanh"),
        conv_with_batchnorm=normal or OMIT,
        conv_batchnorm_drop_rate=draw.choice(OMIT, 0.0, [0.0] * count),
        param_attr=draw.attr(0.15),
        pool_stride=draw.int(1, 2),
        pool_type=draw.choice(OMIT, "max", "avg"),
    )


@draws("fluid.nets.sequence_conv_pool")
def _(draw: Draw, name: str) -> Any:
    x = draw.sequences((draw.int(1, 4),), "float32", empty=False)
    kind = draw.choice(OMIT, "max", "sum", "average", "sqrt")
    act = draw.choice(OMIT, "tanh", "relu")
    return draw.call(name, x, draw.int(1, 3), draw.int(1, 3), act=act, pool_type=kind)


# ---------------------------------------------------------------------- distributions
METHODS = ("entropy", "log_prob", "kl_divergence", "sample")


@draws("fluid.layers.Normal", "fluid.layers.Uniform")
def _(draw: Draw, name: str) -> Any:
    normal = name.endswith("Normal")
    shape = draw.shape((1, 2))

    def made() -> Value:
        low, high = (-1.0, 1.0), (1.5, 3.0)
        if draw.flag():
            return draw.call(name, *(draw.tensor(shape, "float32", *limits) for limits in (low, high)))
        return draw.call(name, draw.real(*low), draw.real(*high))

    first = made()
    method = draw.choice("entropy", "log_prob", "sample", *(["kl_divergence"] if normal else []))
    if method == "kl_divergence":
        return draw.call(f"{first.name}.{method}", made())
    if method == "log_prob":
        return draw.call(f"{first.name}.{method}", draw.tensor(shape, "float32", -0.9, 1.4))
    if method == "sample":
        draw.random = True
        return draw.call(f"{first.name}.{method}", [draw.int(1, 3)], seed=draw.choice(OMIT, 5))
    return draw.call(f"{first.name}.{method}")


@draws("fluid.layers.Categorical")
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((1, 3))
    first = draw.call(name, draw.tensor(shape, "float32"))
    if draw.flag():
        return draw.call(f"{first.name}.entropy")
    return draw.call(f"{first.name}.kl_divergence", draw.call(name, draw.tensor(shape, "float32")))


@draws("fluid.layers.MultivariateNormalDiag")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(1, 4)

    def made() -> Value:
        scale = np.diag(draw.numbers((count,), "float32", 0.5, 2.0)).astype("float32")
        return draw.call(name, draw.tensor((count,), "float32"), draw.feed(scale, fixed=True))

    first = made()
    if draw.flag():
        return draw.call(f"{first.name}.entropy")
    return draw.call(f"{first.name}.kl_divergence", made())
