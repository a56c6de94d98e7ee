"""Layers of paddle.static.nn, with sequences and control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import FLOATS, word
from ops.draws.conv_2x import _conv, _image, _per_side, _sizes_out

NN = "paddle.static.nn."


@draws(f"{NN}fc")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(2, 4), known=True)
    items: Any = x
    if draw.flag(0.15):
        items = [x, draw.tensor(x.shape, x.dtype or "", known=True)]
    flat = draw.maybe(draw.int(1, x.rank - 1))
    attrs = {"weight_attr": draw.attr(), "bias_attr": draw.maybe(False, 0.3)}
    return draw.call(name, items, draw.size(), num_flatten_dims=flat, **attrs, activation=draw.act())


@draws(f"{NN}embedding")
def _(draw: Draw, name: str) -> Any:
    rows, width = draw.int(2, 5), draw.size(low=1)
    ids = draw.tensor(draw.shape((1, 3)), "int64", 0, rows - 1)
    padding = draw.maybe(draw.int(-rows, rows - 1), 0.4)
    more = {"is_sparse": draw.maybe(draw.flag(0.3)), "is_distributed": draw.maybe(False, 0.2)}
    more |= {"dtype": draw.maybe(draw.choice("float32", "float64"), 0.3), "param_attr": draw.attr()}
    return draw.call(name, ids, (rows, width), padding_idx=padding, **more)


@draws(f"{NN}bilinear_tensor_product")
def _(draw: Draw, name: str) -> Any:
    rows, kind = draw.size(low=1), draw.choice(*FLOATS)
    inputs = [draw.tensor((rows, draw.size(low=1)), kind, known=True) for _ in range(2)]
    attrs = {"param_attr": draw.attr(), "bias_attr": draw.maybe(False, 0.3)}
    return draw.call(name, *inputs, draw.size(low=1), act=draw.act(), **attrs)


@draws(*(f"{NN}conv{count}d{end}" for count in (2, 3) for end in ("", "_transpose")))
def _(draw: Draw, name: str) -> Any:
    count = int(word(name)[4])
    given, layout, (inside, outside) = _conv(draw, count, False)
    if "transpose" in name:
        given["groups"] = OMIT if given["groups"] is OMIT else given["groups"]
    x = _image(draw, count, inside, layout, draw.choice(*FLOATS))
    size = _per_side(draw, count, 1, 3)
    if "transpose" in name:
        reach = [size] * count if isinstance(size, int) else list(size)
        given["output_size"] = _sizes_out(draw, x, reach, given, layout)
        given.pop("output_padding", None)
    given |= {"act": draw.act(), "bias_attr": draw.maybe(False, 0.3), "param_attr": draw.attr()}
    return draw.call(name, x, outside, filter_size=size, **given)


@draws(f"{NN}prelu")
def _(draw: Draw, name: str) -> Any:
    rank = draw.int(2, 4)
    layout = draw.choice("NCHW", "NHWC") if rank == 4 else "NCHW"
    x = draw.tensor(draw.shape(rank, low=1), FLOATS, known=True)
    mode = draw.choice("all", "channel", "element")
    return draw.call(name, x, mode, param_attr=draw.attr(), data_format=layout if mode != "all" else OMIT)


@draws(f"{NN}row_conv")
def _(draw: Draw, name: str) -> Any:
    wide, ahead = draw.int(1, 3), draw.int(1, 3)
    if draw.flag():
        x = draw.sequences((wide,), "float32")
        return draw.call(name, x, ahead, param_attr=draw.attr(), act=draw.act())
    x = draw.tensor((draw.int(1, 2), draw.int(1, 4), wide), "float32", known=True)
    return draw.call(name, x, ahead, act=draw.act())


@draws(f"{NN}nce")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    rows, wide = draw.int(1, 3), draw.int(1, 3)
    x = draw.tensor((rows, wide), "float32", known=True)
    label = draw.tensor((rows, draw.int(1, 2)), "int64", 0, 6, fixed=True, known=True)
    kind = draw.maybe(draw.choice("uniform", "log_uniform"))
    more: dict[str, Any] = {
        "sample_weight": draw.tensor((rows, 1), "float32", 0, 1) if draw.flag(0.2) else OMIT
    }
    more |= {"param_attr": draw.attr(), "bias_attr": draw.maybe(False, 0.2)}
    more["is_sparse"] = draw.maybe(draw.flag(), 0.2)
    if draw.flag(0.15):
        kind, more["custom_dist"] = "custom_dist", [0.1, 0.2, 0.1, 0.2, 0.1, 0.1, 0.2]
    count = draw.maybe(draw.int(1, 4))
    return draw.call(name, x, label, 7, num_neg_samples=count, sampler=kind, seed=draw.maybe(5), **more)


@draws(f"{NN}deform_conv2d")
def _(draw: Draw, name: str) -> Any:
    kernel, parts = draw.int(1, 3), draw.int(1, 2)
    inside, groups = parts * draw.int(1, 2), draw.choice(1, parts)
    batch, height, width = draw.int(1, 2), draw.int(5, 6), draw.int(5, 6)
    step, pad, apart = draw.int(1, 2), draw.int(0, 1), draw.int(1, 2)
    places = [(size + 2 * pad - apart * (kernel - 1) - 1) // step + 1 for size in (height, width)]
    count = kernel * kernel * parts
    more = {"stride": step, "padding": pad, "dilation": apart, "groups": groups, "deformable_groups": parts}
    more |= {"weight_attr": draw.attr(), "im2col_step": draw.maybe(draw.int(1, 2), 0.2)}
    x = draw.tensor((batch, inside, height, width), FLOATS, known=True)
    offset = draw.tensor((batch, 2 * count, *places), x.dtype or "", -0.9, 0.9, known=True)
    mask = draw.choice(None, draw.tensor((batch, count, *places), x.dtype or "", 0, 1, known=True))
    filters = groups * draw.int(1, 2)
    return draw.call(name, x, offset, mask, filters, kernel, bias_attr=draw.maybe(False, 0.3), **more)


# ---------------------------------------------------------------------- sequences
@draws(*(f"{NN}sequence_{what}" for what in ["softmax", "first_step", "last_step", "reverse", "pool"]))
def _(draw: Draw, name: str) -> Any:
    what = word(name)
    empty = what in ("sequence_pool", "sequence_reverse")
    if what == "sequence_softmax":
        width: tuple[int, ...] = draw.choice((1,), ())
        return draw.call(name, draw.sequences(width, empty=False))
    x = draw.sequences((draw.int(1, 3),), empty=empty and draw.flag())
    if what != "sequence_pool":
        return draw.call(name, x)
    kind = draw.choice("sum", "average", "sqrt", "max", "last", "first")
    return draw.call(name, x, kind, pad_value=draw.maybe(draw.real(), 0.3))


@draws(f"{NN}sequence_conv", f"{NN}sequence_reshape")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "sequence_conv":
        x = draw.sequences((draw.int(1, 3),), "float32")
        start = draw.maybe(draw.int(-2, 1), 0.3)
        size = draw.maybe(draw.int(1, 3))
        bias = draw.maybe(False, 0.3)
        more = {"filter_stride": draw.maybe(1, 0.2), "padding": draw.maybe(draw.choice(None, True), 0.2)}
        more |= {"param_attr": draw.attr(), "act": draw.act()}
        return draw.call(
            name, x, draw.int(1, 3), filter_size=size, padding_start=start, bias_attr=bias, **more
        )
    width = draw.choice(2, 4)
    return draw.call(name, draw.sequences((width,)), draw.choice(1, 2, width))


@draws(f"{NN}sequence_concat")
def _(draw: Draw, name: str) -> Any:
    width, kind, count = draw.int(1, 3), draw.choice(*FLOATS), draw.int(1, 3)
    items = []
    for _ in range(draw.int(2, 3)):
        lengths = [draw.int(1, 3) for _ in range(count)]
        items.append(draw.tensor((sum(lengths), width), kind, lengths=[lengths]))
    return draw.call(name, items)


@draws(f"{NN}sequence_slice", f"{NN}sequence_enumerate")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "sequence_enumerate":
        x = draw.sequences((1,), "int64", low=0, high=9, empty=False)
        return draw.call(name, x, draw.int(2, 4), pad_value=draw.maybe(draw.int(0, 5)))
    lengths = [draw.int(1, 4) for _ in range(draw.int(1, 3))]
    x = draw.tensor((sum(lengths), draw.int(1, 3)), FLOATS, lengths=[lengths])
    starts = [draw.int(0, one - 1) for one in lengths]
    counts = [draw.int(1, one - start) for one, start in zip(lengths, starts, strict=True)]
    columns = [np.array(one, "int64").reshape(-1, 1) for one in (starts, counts)]
    return draw.call(name, x, *[draw.feed(column, fixed=True, known=True) for column in columns])


@draws(f"{NN}sequence_expand", f"{NN}sequence_expand_as")
def _(draw: Draw, name: str) -> Any:
    count, width, kind = draw.int(1, 3), draw.int(1, 3), draw.choice(*FLOATS)
    repeats = [draw.int(1, 3) for _ in range(count)]
    y = draw.tensor((sum(repeats), 1), kind, lengths=[repeats])
    x = draw.tensor((count, width), kind)
    if word(name) == "sequence_expand":
        return draw.call(name, x, y, ref_level=draw.maybe(draw.choice(0, -1)))
    return draw.call(name, x, y)


@draws(f"{NN}sequence_pad", f"{NN}sequence_unpad")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "sequence_unpad":
        rows, steps = draw.int(1, 3), draw.int(1, 4)
        x = draw.tensor((rows, steps, draw.int(1, 2)), FLOATS)
        lengths = np.array([draw.int(1, steps) for _ in range(rows)], "int64")
        return draw.call(name, x, draw.feed(lengths, fixed=True))
    x = draw.sequences((draw.int(1, 3),))
    value = draw.variable(draw.real(), x.dtype or "")
    return draw.call(name, x, value, maxlen=draw.maybe(draw.int(4, 6), 0.4))


@draws(f"{NN}sequence_scatter")
def _(draw: Draw, name: str) -> Any:
    rows, width, kind = draw.int(1, 3), draw.int(2, 5), draw.choice(*FLOATS)
    lengths = [draw.int(1, 2) for _ in range(rows)]
    found = [draw.rng.sample(range(width), one) for one in lengths]
    ids = np.array([one for row in found for one in row], "int64").reshape(-1, 1)
    index = draw.feed(ids, fixed=True, lengths=[lengths])
    updates = draw.tensor((sum(lengths), 1), kind, lengths=[lengths])
    return draw.call(name, draw.tensor((rows, width), kind), index, updates)


@draws(f"{NN}static_pylayer")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(1, 3))
    forward = draw.block(["a"], lambda a: draw.call("paddle.tanh", a))
    backward = draw.block(["g"], lambda g: draw.call("paddle.scale", g, 2.0))
    return draw.call(name, forward, [x], backward)
