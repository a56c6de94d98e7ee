"""Segments and graphs: paddle.geometric and their older names in paddle.incubate; other functions there."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import FLOATS, INTS, REAL, word

SEGMENTS = [
    f"paddle.{home}.segment_{how}"
    for home in ("geometric", "incubate")
    for how in ["sum", "mean", "max", "min"]
]


@draws(*SEGMENTS)
def _(draw: Draw, name: str) -> Any:
    rows = draw.size(low=1, high=6)
    x = draw.tensor((rows, *draw.shape((0, 2))), REAL)
    ids = sorted(draw.int(0, 4) for _ in range(rows))
    return draw.call(name, x, draw.feed(np.array(ids, draw.choice(*INTS)), fixed=True))


def _edges(draw: Draw, nodes: int) -> list[Any]:
    """Sources and targets of some edges."""
    count, kind = draw.int(1, 6), draw.choice(*INTS)
    return [draw.tensor((count,), kind, 0, nodes - 1, fixed=True) for _ in range(2)]


@draws("paddle.geometric.send_u_recv", "paddle.incubate.graph_send_recv")
def _(draw: Draw, name: str) -> Any:
    nodes = draw.int(1, 4)
    x = draw.tensor((nodes, *draw.shape((0, 2))), REAL)
    key = "reduce_op" if "geometric" in name else "pool_type"
    how = draw.choice("sum", "mean", "max", "min")
    count = draw.choice(OMIT, OMIT, None, nodes, nodes + 1)
    if count == nodes and draw.flag(0.3):
        count = draw.variable(nodes, "int32")
    return draw.call(name, x, *_edges(draw, nodes), **{key: how}, out_size=count)


@draws("paddle.geometric.send_ue_recv", "paddle.geometric.send_uv")
def _(draw: Draw, name: str) -> Any:
    nodes, kind = draw.int(1, 4), draw.choice(*REAL)
    edges = _edges(draw, nodes)
    tail = draw.shape((0, 2)) or (draw.size(),)
    x = draw.tensor((nodes, *tail), kind, 1, 3)
    other = tuple(1 if draw.flag(0.2) else size for size in tail)
    given = {"message_op": draw.choice("add", "sub", "mul", "div")}
    if word(name) == "send_uv":
        return draw.call(name, x, draw.tensor((nodes, *other), kind, 1, 3), *edges, **given)
    assert edges[0].shape is not None
    y = draw.tensor((edges[0].shape[0], *other), kind, 1, 3)
    given["reduce_op"] = draw.choice("sum", "mean", "max", "min")
    count = draw.choice(OMIT, None, nodes, nodes + 1)
    return draw.call(name, x, y, *edges, **given, out_size=count)


@draws(
    "paddle.geometric.reindex_graph", "paddle.incubate.graph_reindex", "paddle.geometric.reindex_heter_graph"
)
def _(draw: Draw, name: str) -> Any:
    kind, nodes = draw.choice(*INTS), draw.rng.sample(range(20), draw.int(1, 3))

    def edges() -> list[Any]:
        counts = [draw.int(1, 3) for _ in nodes]
        neighbors = [draw.int(0, 19) for _ in range(sum(counts))]
        given = [draw.feed(np.array(one, kind), fixed=True, known=True) for one in (neighbors, counts)]
        return [given[0], draw.call("paddle.cast", given[1], "int32")]

    x = draw.feed(np.array(nodes, kind), fixed=True, known=True)
    if "heter" in name:
        pairs = [edges() for _ in range(draw.int(1, 2))]
        return draw.call(name, x, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return draw.call(name, x, *edges())


@draws("paddle.incubate.softmax_mask_fuse")
def _(draw: Draw, name: str) -> Any:
    batch, heads, side = draw.int(1, 2), draw.int(1, 2), draw.int(1, 4)
    x = draw.tensor((batch, heads, side, side), "float32")
    return draw.call(name, x, draw.tensor((batch, 1, side, side), "float32"))


@draws("paddle.incubate.identity_loss")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(0, 3))
    return draw.call(name, x, reduction=draw.choice("mean", "sum", "none", 0, 1, 2))


# ---------------------------------------------------------------------- paddle.incubate.nn's
@draws("paddle.incubate.nn.functional.fused_matmul_bias", "paddle.incubate.nn.functional.fused_linear")
def _(draw: Draw, name: str) -> Any:
    kind, wide, out = draw.choice(*FLOATS), draw.size(), draw.size()
    front = draw.shape((1, 2))
    turned = "matmul" in name and draw.flag(0.2)
    x = draw.tensor((*front[:-1], wide, front[-1]) if turned else (*front, wide), kind)
    flip = draw.flag(0.3)
    weight = draw.tensor((out, wide) if flip else (wide, out), kind)
    bias = draw.tensor((out,), kind) if draw.flag(0.05) else OMIT  # 2.6.2 has that on GPUs alone
    key = "transpose_y" if "matmul" in name else "transpose_weight"
    more = {"transpose_x": True} if turned else {}
    return draw.call(name, x, weight, bias=bias, **{key: flip}, **more)


@draws("paddle.incubate.nn.functional.fused_dropout_add")
def _(draw: Draw, name: str) -> Any:
    shape = (draw.int(1, 2), draw.int(1, 3), draw.int(2, 4))
    inputs = [draw.tensor(shape, FLOATS) for _ in range(1)]
    inputs.append(draw.tensor(shape, inputs[0].dtype or ""))
    return draw.call(name, *inputs, p=0.0, training=draw.maybe(draw.flag()))


@draws("paddle.text.viterbi_decode", "paddle.text.ViterbiDecoder")
def _(draw: Draw, name: str) -> Any:
    batch, steps, tags, kind = (
        draw.int(1, 3),
        draw.int(1, 4),
        draw.int(3, 4),
        draw.choice("float32", "float64"),
    )
    draw.gradients = False
    potentials = draw.tensor((batch, steps, tags), kind, known=True)
    table = draw.tensor((tags, tags), kind, known=True)
    lengths = draw.tensor((batch,), "int64", 1, steps, known=True)
    flag = draw.maybe(draw.flag())
    if name.endswith("Decoder"):
        return draw.call(draw.call(name, table, include_bos_eos_tag=flag).name, potentials, lengths)
    return draw.call(name, potentials, table, lengths, include_bos_eos_tag=flag)


@draws(
    *(
        f"paddle.audio.functional.{name}"
        for name in ["power_to_db", "create_dct", "fft_frequencies", "get_window"]
    )
)
def _(draw: Draw, name: str) -> Any:
    if word(name) == "power_to_db":
        x = draw.tensor(dtype=FLOATS, rank=(0, 3), low=0.1, high=3)
        least = {
            "ref_value": draw.maybe(draw.real(0.5, 2), 0.3),
            "amin": draw.maybe(draw.choice(0.2, 1.5), 0.3),
        }
        return draw.call(name, x, top_db=draw.choice(None, 10.0, OMIT), **least)
    wanted = draw.maybe(draw.choice("float32", "float64"))
    if word(name) == "get_window":
        words = ("hamming", "hann", "blackman", "cosine", "triang", "bohman")
        kind = draw.choice(*words, ("gaussian", 2.0), ("exponential", None, 1.0))
        return draw.call(name, kind, draw.int(2, 7), fftbins=draw.maybe(draw.flag()), dtype=wanted)
    if word(name) == "create_dct":
        return draw.call(name, draw.int(1, 4), draw.int(1, 4), norm=None, dtype=wanted)
    return draw.call(name, draw.int(8, 16), draw.int(2, 8), dtype=wanted)
