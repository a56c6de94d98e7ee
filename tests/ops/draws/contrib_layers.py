"""Layers of `fluid.contrib.layers`."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws

C = "fluid.contrib.layers."
FLOATS = ("float32", "float64")


def gates_of_units(draw: Draw) -> dict[str, Any]:
    """Activations of gates and candidates, as functions; the dtype."""
    acts = [{"$": "var", "name": f"fluid.layers.{one}"} for one in ("tanh", "sigmoid", "relu")]
    keys = ("gate_activation", "activation")
    return {**{key: draw.maybe(draw.choice(*acts), 0.2) for key in keys}, "dtype": draw.maybe("float32", 0.2)}


@draws(C + "basic_gru", C + "basic_lstm")
def _(draw: Draw, name: str) -> Any:
    batch, steps, width, hidden = draw.int(1, 3), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    layers, both, first = draw.int(1, 2), draw.flag(0.4), draw.flag(0.6)
    x = draw.tensor((batch, steps, width) if first else (steps, batch, width), "float32")
    starts: list[Any] = [None] * (2 if name.endswith("lstm") else 1)
    if draw.flag(0.4):
        starts = [draw.tensor((layers * (1 + both), batch, hidden), "float32") for _ in starts]
    lengths = draw.tensor((batch,), "int64", 1, steps) if draw.flag(0.4) else OMIT
    return draw.call(
        name,
        x,
        *starts,
        hidden,
        num_layers=layers,
        sequence_length=lengths,
        bidirectional=both,
        batch_first=first,
        forget_bias=draw.choice(OMIT, 0.5) if name.endswith("lstm") else OMIT,
        dropout_prob=draw.maybe(0.0, 0.2),
        **gates_of_units(draw),
    )


@draws(C + "BasicGRUUnit", C + "BasicLSTMUnit")
def _(draw: Draw, name: str) -> Any:
    batch, width, hidden = draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    long = "LSTM" in name
    bias = draw.choice(OMIT, 0.5) if long else OMIT
    made = draw.call(name, "unit", hidden, forget_bias=bias, **gates_of_units(draw))
    states = [draw.tensor((batch, hidden), "float32") for _ in range(1 + long)]
    return draw.call(made.name, draw.tensor((batch, width), "float32"), *states)


@draws(C + "ctr_metric_bundle")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(1, 5)
    draw.gradients = False
    x = draw.tensor((count, 1), "float32", 0.05, 0.95)
    return draw.call(name, x, draw.tensor((count, 1), "float32", 0, 1))


@draws(C + "fused_elemwise_activation")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    pairs = "elementwise_add scale,elementwise_add relu,scale elementwise_add,relu elementwise_add"
    functors = draw.choice(*pairs.split(","), "elementwise_mul scale").split()
    y = shape if draw.flag(0.6) else shape[-1:]
    return draw.call(
        name,
        draw.tensor(shape, dtype),
        draw.tensor(y, dtype),
        functors,
        axis=draw.choice(OMIT, -1),
        scale=draw.choice(OMIT, 0.5),
        save_intermediate_out=draw.maybe(draw.flag()),
    )


@draws(C + "fused_embedding_seq_pool")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(2, 6)
    ids = draw.sequences((1,), "int64", low=0, high=count - 1, empty=False)
    return draw.call(
        name,
        ids,
        [count, draw.int(1, 4)],
        is_sparse=draw.maybe(draw.flag()),
        padding_idx=draw.choice(OMIT, 0, count - 1),
        combiner=draw.choice(OMIT, "sum"),
    )


@draws(C + "partial_concat", C + "partial_sum")
def _(draw: Draw, name: str) -> Any:
    batch, width, dtype = draw.int(1, 3), draw.int(2, 5), draw.choice(*FLOATS)
    xs = [draw.tensor((batch, width), dtype, known=True) for _ in range(draw.int(1, 3))]
    start = draw.int(0, width - 1)
    length = draw.choice(-1, draw.int(1, width - start))
    return draw.call(name, xs, start_index=start, length=length)


def grids(draw: Draw, count: int) -> tuple[list[int], list[int], list[int]]:
    """Rows and columns of matrices in sequences, and the lengths of channels * rows * columns."""
    rows, columns = ([draw.int(1, 3) for _ in range(count)] for _ in range(2))
    return rows, columns, [one * two for one, two in zip(rows, columns, strict=True)]


@draws(C + "match_matrix_tensor")
def _(draw: Draw, name: str) -> Any:
    width, rows, columns = draw.int(1, 3), *grids(draw, draw.int(1, 3))[:2]
    x, y = (draw.tensor((sum(sizes), width), "float32", lengths=[sizes]) for sizes in (rows, columns))
    return draw.call(name, x, y, draw.int(1, 3), act=draw.act("relu", "tanh"))


@draws(C + "sequence_topk_avg_pooling", C + "var_conv_2d")
def _(draw: Draw, name: str) -> Any:
    channels = draw.int(1, 2)
    rows, columns, cells = grids(draw, draw.int(1, 3))
    lengths = [channels * one for one in cells]
    x = draw.tensor((sum(lengths), 1), "float32", distinct=True, lengths=[lengths])
    sizes = [draw.tensor((sum(one), 1), "float32", lengths=[one]) for one in (rows, columns)]
    for size in sizes:
        draw.feeds[size.name]["stop"] = True
    if name.endswith("pooling"):
        return draw.call(name, x, *sizes, draw.choice([1], [1, 2], [1, 3]), channels)
    return draw.call(
        name,
        x,
        *sizes,
        channels,
        draw.int(1, 3),
        draw.choice(1, 2, 3, [1, 2]),
        stride=draw.choice(OMIT, 1, [2, 1]),
        act=draw.act("relu", "tanh"),
    )


@draws(C + "tdm_child")
def _(draw: Draw, name: str) -> Any:
    nodes = draw.int(3, 7)
    x = draw.tensor((draw.int(1, 4), 1), ("int32", "int64"), 0, nodes - 1)
    children = 2
    rows = []
    for at in range(nodes):
        below = [2 * at + 1 + k if 0 < at and 2 * at + 1 + k < nodes else 0 for k in range(children)]
        rows.append([at if at >= nodes // 2 else 0, at // 2, max((at - 1) // 2, 0), *below])
    value = draw.made("fluid.initializer.NumpyArrayInitializer", np.array(rows, "int32"))
    attr = draw.made("fluid.ParamAttr", name="tree", initializer=value)
    return draw.call(name, x, nodes, children, attr, dtype=draw.choice(OMIT, "int32"))


@draws(C + "tdm_sampler")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    layers, leaves = [2, 4], 4
    travel = np.array([[1, 3], [1, 4], [2, 5], [2, 6]], "int32")
    tree = np.array([[1], [2], [3], [4], [5], [6]], "int32")
    attrs = []
    for key, array in (("travel", travel), ("layer", tree)):
        value = draw.made("fluid.initializer.NumpyArrayInitializer", array)
        attrs.append(draw.made("fluid.ParamAttr", name=key, initializer=value))
    x = draw.tensor((draw.int(1, 4), 1), "int32", 0, leaves - 1)
    return draw.call(
        name,
        x,
        [draw.int(0, 1), draw.int(1, 3)],
        layers,
        leaves,
        *attrs,
        output_positive=draw.maybe(draw.flag()),
        output_list=draw.maybe(True),
        seed=draw.choice(OMIT, 3),
    )


@draws(C + "tree_conv")
def _(draw: Draw, name: str) -> Any:
    batch, nodes, width = draw.int(1, 2), draw.int(2, 6), draw.int(1, 3)
    vectors = draw.tensor((batch, nodes, width), "float32")
    edges = [[[draw.int(1, at - 1), at] for at in range(2, nodes + 1)] for _ in range(batch)]
    edge = draw.feed(np.array(edges, "int32").reshape(batch, -1, 2), fixed=True)
    return draw.call(
        name,
        vectors,
        edge,
        draw.int(1, 3),
        num_filters=draw.choice(OMIT, 2),
        max_depth=draw.choice(OMIT, 2, 3),
        param_attr=draw.attr(0.15),
        act=draw.choice(OMIT, "relu", None),
        bias_attr=draw.choice(OMIT, False),
    )


@draws(C + "search_pyramid_hash")
def _(draw: Draw, name: str) -> Any:
    ids = draw.sequences((1,), "int32", low=1, high=50, empty=False)
    width = 8
    attr = draw.made("fluid.ParamAttr", name="space", learning_rate=0)
    return draw.call(
        name,
        ids,
        width,
        64,
        draw.int(2, 3),
        rand_len=4,
        drop_out_percent=0,
        is_training=True,
        use_filter=False,
        white_list_len=400,
        black_list_len=2800,
        seed=3,
        lr=0.1,
        param_attr=attr,
        param_attr_wl=draw.made("fluid.ParamAttr", name="wl", trainable=False),
        param_attr_bl=draw.made("fluid.ParamAttr", name="bl", trainable=False),
    )
