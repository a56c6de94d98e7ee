"""Functions of the 2.x door that make tensors: filled, counted or drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import FLOATS, INTS, REAL, functions, kinds, scalar, sizes, word

MADE = kinds("bool int16 int32 int64 float16 float32 float64")


@draws("paddle.zeros", "paddle.ones", "paddle.empty", "paddle.full")
def _(draw: Draw, name: str) -> Any:
    draw.random = word(name) == "empty"
    shape = sizes(draw, draw.shape((0, 4)))
    value = [draw.choice(draw.int(-3, 3), draw.real(), draw.flag())] if word(name) == "full" else []
    if value and draw.flag(0.15):
        value = [draw.variable(draw.int(-3, 3), "float32")]
    return draw.call(name, shape, *value, dtype=draw.maybe(draw.choice(*MADE)))


@draws("paddle.zeros_like", "paddle.ones_like", "paddle.empty_like", "paddle.full_like")
def _(draw: Draw, name: str) -> Any:
    draw.random = word(name) == "empty_like"
    x = draw.tensor(dtype=kinds("bool int32 int64 float32 float64"), rank=(0, 4))
    value = [draw.choice(draw.int(-3, 3), draw.real(), draw.flag())] if word(name) == "full_like" else []
    return draw.call(name, x, *value, dtype=draw.maybe(draw.choice(*MADE), 0.4))


@draws("paddle.arange", "paddle.linspace", "paddle.logspace")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "arange":
        wanted = draw.maybe(draw.choice(*REAL), 0.5)
        if draw.flag(0.3):
            return draw.call(name, scalar(draw, draw.int(0, 6), "int64"), dtype=wanted)
        step = draw.choice(1, 2, -1, 0.5, 3)
        start = draw.choice(draw.int(-3, 3), draw.real())
        stop = start + (1 if step > 0 else -1) * draw.choice(draw.int(0, 6), draw.real(0, 5))
        return draw.call(name, start, round(stop, 3), step, dtype=wanted)
    ends = [draw.choice(draw.int(-3, 3), draw.real()) for _ in range(2)]
    count = scalar(draw, draw.int(1, 6), "int32")
    base = draw.maybe(draw.choice(2.0, 3, 0.5)) if word(name) == "logspace" else OMIT
    wanted = draw.maybe(draw.choice(*REAL), 0.5)
    return draw.call(
        name, *[scalar(draw, one, "float32", 0.1) for one in ends], count, base=base, dtype=wanted
    )


@draws("paddle.eye", "paddle.tril_indices", "paddle.triu_indices")
def _(draw: Draw, name: str) -> Any:
    rows, columns = draw.size(), draw.size()
    if word(name) == "eye":
        return draw.call(name, rows, draw.maybe(columns), dtype=draw.maybe(draw.choice(*REAL)))
    given = columns if word(name) == "tril_indices" else draw.maybe(columns)
    return draw.call(
        name, row=rows, col=given, offset=draw.maybe(draw.int(-2, 2)), dtype=draw.maybe(draw.choice(*INTS))
    )


@draws(*functions("vander combinations"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((draw.size(low=1),), FLOATS, known=draw.flag(0.7))
    if word(name) == "vander":
        return draw.call(name, x, n=draw.maybe(draw.int(0, 5)), increasing=draw.maybe(draw.flag()))
    again = draw.maybe(draw.flag())
    return draw.call(name, x, r=draw.maybe(draw.int(0, 3)), with_replacement=again)


@draws("paddle.to_tensor")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*kinds("bool int32 int64 float32 float64"))
    array = draw.numbers(draw.shape((0, 3), low=1), kind)
    given = draw.choice(array, array.tolist(), array.reshape(-1)[0].item() if array.size else 1)
    wanted = draw.maybe(draw.choice("float32", "float64", "int64"), 0.3)
    return draw.call(name, given, dtype=wanted, stop_gradient=draw.maybe(draw.flag(), 0.3))


@draws("paddle.create_parameter", "paddle.static.create_parameter", "paddle.static.create_global_var")
def _(draw: Draw, name: str) -> Any:
    shape, kind = list(draw.shape((1, 3), low=1)), draw.choice("float32", "float64")
    if word(name) == "create_global_var":
        made = draw.call(name, shape, draw.real(), kind, persistable=True)
    else:
        initializer = draw.made("paddle.nn.initializer.Constant", draw.real())
        made = draw.call(
            name,
            shape,
            kind,
            attr=draw.attr(),
            is_bias=draw.maybe(draw.flag()),
            default_initializer=draw.maybe(initializer),
        )
    return draw.call("paddle.scale", made, 2.0)


# ---------------------------------------------------------------------- drawn
@draws(
    *(
        f"paddle.{name}"
        for name in ["rand", "randn", "standard_normal", "uniform", "normal", "randint", "randperm"]
    )
)
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    shape = sizes(draw, draw.shape((0, 3)))
    wanted = draw.maybe(draw.choice("float32", "float64"))
    if word(name) == "randperm":
        return draw.call(name, draw.size(high=6), dtype=draw.maybe(draw.choice(*INTS, "float32")))
    if word(name) == "randint":
        low = draw.int(-3, 3)
        ends = [low, low + draw.int(1, 5)] if draw.flag() else [draw.int(1, 5)]
        return draw.call(name, *ends, shape=shape, dtype=draw.maybe(draw.choice(*INTS)))
    if word(name) == "uniform":
        low = draw.real(-2, 0)
        return draw.call(name, shape, dtype=wanted, min=draw.maybe(low), max=1.0, seed=draw.maybe(3, 0.2))
    if word(name) == "normal":
        if draw.flag(0.6):
            return draw.call(name, draw.real(), draw.real(0.1), shape=shape)
        mean = draw.tensor(dtype="float32", rank=(1, 3))
        std = draw.choice(draw.real(0.1, 1), draw.tensor(mean.shape, "float32", 0.1, 1))
        return draw.call(name, mean, std)
    return draw.call(name, shape, dtype=wanted)


@draws(*functions("bernoulli poisson multinomial randint_like"))
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    if word(name) == "multinomial":
        x = draw.tensor(draw.shape((1, 2), low=2), FLOATS, 0.1, 1, fixed=True)
        return draw.call(name, x, num_samples=draw.maybe(draw.int(1, 2)), replacement=draw.maybe(draw.flag()))
    if word(name) == "randint_like":
        x = draw.tensor(dtype=kinds("int32 int64 float32 float64"), rank=(0, 3))
        return draw.call(name, x, -3, 4, dtype=draw.maybe(draw.choice(*INTS, "float32")))
    return draw.call(name, draw.tensor(dtype=FLOATS, rank=(0, 4), low=0, high=1, fixed=True))


@draws("paddle.Tensor.exponential_")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    return draw.call(name, draw.tensor(dtype=FLOATS, rank=(0, 4)), lam=draw.maybe(2.0))


@draws(
    "paddle.nn.functional.dropout",
    "paddle.nn.functional.dropout2d",
    "paddle.nn.functional.dropout3d",
    "paddle.nn.functional.alpha_dropout",
)
def _(draw: Draw, name: str) -> Any:
    p = draw.choice(0.0, 0.0, 1.0, 0.4, OMIT)
    training = draw.choice(False, False, True, OMIT)
    draw.random = training is not False and p not in (0.0, 1.0)
    given: dict[str, Any] = {"p": p, "training": training}
    rank = {"dropout2d": 4, "dropout3d": 5}.get(word(name), draw.int(0, 4))
    x = draw.tensor(draw.shape(rank), FLOATS)
    if word(name) == "dropout":
        given["mode"] = draw.maybe(draw.choice("upscale_in_train", "downscale_in_infer"))
        if rank:
            given["axis"] = draw.maybe(
                draw.choice(draw.axes(x, negative=False), draw.axis(x, negative=False)), 0.3
            )
    elif rank != 0 and word(name) != "alpha_dropout":
        given["data_format"] = draw.maybe(draw.choice("NCHW", "NHWC") if rank == 4 else "NDHWC")
    return draw.call(name, x, **given)


@draws("paddle.nn.Dropout", "paddle.nn.Dropout2D", "paddle.nn.Dropout3D", "paddle.nn.AlphaDropout")
def _(draw: Draw, name: str) -> Any:
    p = draw.choice(0.0, 0.4, OMIT)
    draw.random = p != 0.0
    mode = draw.maybe(draw.choice("upscale_in_train", "downscale_in_infer")) if name.endswith("t") else OMIT
    layer = draw.call(name, p=p, mode=mode if "Alpha" not in name else OMIT)
    if draw.flag(0.6):
        draw.call(f"{layer.name}.eval")
        draw.random = False
    rank = {"D": 4, "t": 3}[name[-1]] + ("3D" in name)
    return draw.call(layer.name, draw.tensor(draw.shape(rank), FLOATS))


@draws("paddle.nn.functional.rrelu", "paddle.nn.RReLU")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(1, 4))
    if name.endswith("rrelu"):
        training = draw.flag(0.3)
        draw.random = training
        return draw.call(name, x, lower=0.1, upper=draw.choice(0.1, 0.4), training=training)
    layer = draw.call(name, lower=draw.maybe(0.1), upper=draw.maybe(0.4))
    draw.call(f"{layer.name}.eval")
    return draw.call(layer.name, x)


@draws("paddle.nn.functional.gumbel_softmax", "paddle.nn.functional.class_center_sample")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    if word(name) == "class_center_sample":
        labels = draw.feed(np.array([draw.int(0, 9) for _ in range(4)], "int64"), fixed=True, known=True)
        draw.gradients = False
        return draw.call(name, labels, 10, draw.int(4, 8))
    x = draw.tensor(dtype=FLOATS, rank=(1, 4))
    return draw.call(name, x, temperature=draw.maybe(0.5), hard=draw.maybe(draw.flag()), axis=draw.axis(x))


@draws("paddle.nn.functional.label_smooth")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(2, 3), low=0, high=1)
    prior = (
        draw.tensor((1, (x.shape or (1,))[-1]), x.dtype or "", 0, 1, known=True) if draw.flag(0.3) else OMIT
    )
    return draw.call(name, x, prior_dist=prior, epsilon=draw.maybe(draw.real(0, 1)))
