"""Recurrent layers, cells and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
GATES = ("sigmoid", "tanh", "relu", "identity")


def gates(draw: Draw, *keys: str) -> dict[str, Any]:
    """Activations of gates and candidates."""
    return {key: draw.choice(OMIT, OMIT, *GATES) for key in keys}


@draws("fluid.layers.dynamic_lstm", "fluid.layers.dynamic_lstmp")
def _(draw: Draw, name: str) -> Any:
    projected, hidden = name.endswith("p"), draw.int(1, 4)
    dtype = draw.choice(*FLOATS)
    x = draw.sequences((4 * hidden,), dtype, empty=draw.flag(0.2))
    count = len(draw.feeds[x.name]["lengths"][0])
    kwargs: dict[str, Any] = gates(draw, "gate_activation", "cell_activation", "candidate_activation")
    width = hidden
    args: list[Any] = [x, 4 * hidden]
    if projected:
        width = draw.int(1, 4)
        args.append(width)
        kwargs["proj_activation"] = draw.choice(OMIT, *GATES)
        kwargs.update(cell_clip=draw.choice(OMIT, OMIT, 0.5), proj_clip=draw.choice(OMIT, OMIT, 0.4))
    if draw.flag(0.3):
        kwargs["h_0"], kwargs["c_0"] = (draw.batches((count, size), dtype) for size in (width, hidden))
    return draw.call(
        name,
        *args,
        param_attr=draw.attr(0.15),
        bias_attr=draw.maybe("shift", 0.15),
        use_peepholes=draw.maybe(draw.flag()),
        is_reverse=draw.maybe(draw.flag(), 0.5),
        dtype=dtype,
        **kwargs,
    )


@draws("fluid.layers.dynamic_gru")
def _(draw: Draw, name: str) -> Any:
    hidden, dtype = draw.int(1, 4), draw.choice(*FLOATS)
    x = draw.sequences((3 * hidden,), dtype, empty=draw.flag(0.2))
    count = len(draw.feeds[x.name]["lengths"][0])
    return draw.call(
        name,
        x,
        hidden,
        param_attr=draw.attr(0.15),
        bias_attr=draw.choice(OMIT, OMIT, False),
        is_reverse=draw.maybe(draw.flag(), 0.5),
        h_0=draw.batches((count, hidden), dtype) if draw.flag(0.3) else OMIT,
        origin_mode=draw.maybe(draw.flag(), 0.5),
        **gates(draw, "gate_activation", "candidate_activation"),
    )


@draws("fluid.layers.gru_unit")
def _(draw: Draw, name: str) -> Any:
    hidden, rows, dtype = draw.int(1, 4), draw.int(1, 4), draw.choice(*FLOATS)
    return draw.call(
        name,
        draw.tensor((rows, 3 * hidden), dtype),
        draw.tensor((rows, hidden), dtype),
        3 * hidden,
        param_attr=draw.attr(0.15),
        bias_attr=draw.choice(OMIT, OMIT, False),
        origin_mode=draw.maybe(draw.flag(), 0.5),
        **gates(draw, "activation", "gate_activation"),
    )


@draws("fluid.layers.lstm_unit")
def _(draw: Draw, name: str) -> Any:
    rows, hidden, dtype = draw.int(1, 4), draw.int(1, 4), draw.choice(*FLOATS)
    tensors = [draw.tensor((rows, width), dtype) for width in (draw.int(1, 4), hidden, hidden)]
    return draw.call(
        name,
        *tensors,
        forget_bias=draw.choice(OMIT, 1.0, -0.5),
        param_attr=draw.attr(0.15),
        bias_attr=draw.choice(OMIT, OMIT, "b"),
    )


# ---------------------------------------------------------------------- cells
def cell(draw: Draw, kind: str, hidden: int) -> Value:
    """A cell of the kind "GRU" or "LSTM"."""
    forget = draw.choice(OMIT, 0.5) if kind == "LSTM" else OMIT
    acts = [{"$": "var", "name": f"fluid.layers.{one}"} for one in ("tanh", "sigmoid", "relu")]
    gate, act = (draw.maybe(draw.choice(*acts), 0.2) for _ in range(2))
    return draw.call(
        f"fluid.layers.{kind}Cell",
        hidden,
        param_attr=draw.attr(0.15),
        bias_attr=draw.maybe("shift", 0.15),
        gate_activation=gate,
        activation=act,
        forget_bias=forget,
    )


def states(draw: Draw, kind: str, rows: int, hidden: int) -> Any:
    """First states of a cell."""
    if kind == "GRU":
        return draw.batches((rows, hidden), "float32")
    return [draw.batches((rows, hidden), "float32") for _ in range(2)]


@draws("fluid.layers.GRUCell", "fluid.layers.LSTMCell")
def _(draw: Draw, name: str) -> Any:
    kind, rows, hidden = name.rpartition(".")[2][:-4], draw.int(1, 3), draw.int(1, 4)
    made = cell(draw, kind, hidden)
    return draw.call(
        made.name, draw.tensor((rows, draw.int(1, 4)), "float32"), states(draw, kind, rows, hidden)
    )


@draws("fluid.layers.RNNCell")
def _(draw: Draw, name: str) -> Any:
    kind, rows = draw.choice("GRU", "LSTM"), draw.int(1, 3)
    made = cell(draw, kind, draw.int(1, 4))
    x = draw.tensor((rows, draw.int(1, 4)), "float32")
    first = draw.call(f"{made.name}.get_initial_states", batch_ref=x, init_value=draw.choice(OMIT, 0.5))
    return [draw.call(made.name, x, first)]


@draws("fluid.layers.rnn")
def _(draw: Draw, name: str) -> Any:
    kind, hidden = draw.choice("GRU", "LSTM"), draw.int(1, 3)
    rows, steps, width = draw.int(1, 3), draw.int(1, 4), draw.int(1, 3)
    major = draw.flag(0.3)
    made = cell(draw, kind, hidden)
    x = draw.tensor((steps, rows, width) if major else (rows, steps, width), "float32")
    lengths = OMIT
    if draw.flag(0.4):
        lengths = draw.tensor((rows,), "int64", 1, steps)
    return draw.call(
        name,
        made,
        x,
        initial_states=states(draw, kind, rows, hidden) if kind == "GRU" and draw.flag() else OMIT,
        sequence_length=lengths,
        time_major=True if major else draw.maybe(False),
        is_reverse=draw.maybe(draw.flag(), 0.4),
    )


# ---------------------------------------------------------------------- decoders
def words(draw: Draw, count: int, width: int) -> Any:
    """A function that looks words up."""
    attr = draw.made("fluid.ParamAttr", name="words")
    return draw.block(["ids"], lambda ids: draw.call("fluid.embedding", ids, [count, width], param_attr=attr))


def scores(draw: Draw, count: int, lead: int = 1) -> Any:
    """A function from states, with so many sizes in front, to a score a word."""
    weight, shift = (draw.made("fluid.ParamAttr", name=name) for name in ("out_w", "out_b"))
    return draw.block(
        ["hidden"],
        lambda hidden: draw.call("fluid.layers.fc", hidden, count, lead, param_attr=weight, bias_attr=shift),
    )


def decoding(draw: Draw, decoder: Value, inits: Any, **kwargs: Any) -> Value:
    """The results of a decoder."""
    return draw.call(
        "fluid.layers.dynamic_decode",
        decoder,
        inits=inits,
        max_step_num=draw.int(1, 4),
        output_time_major=draw.maybe(draw.flag(), 0.4),
        return_length=draw.maybe(draw.flag(), 0.4),
        **kwargs,
    )


@draws("fluid.layers.BeamSearchDecoder", "fluid.layers.Decoder", "fluid.layers.dynamic_decode")
def _(draw: Draw, name: str) -> Any:
    kind, hidden, rows, count = draw.choice("GRU", "LSTM"), draw.int(1, 3), draw.int(1, 2), draw.int(3, 5)
    made = cell(draw, kind, hidden)
    look, out = words(draw, count, draw.int(1, 3)), scores(draw, count, 2)
    decoder = draw.call(
        "fluid.layers.BeamSearchDecoder",
        made,
        start_token=0,
        end_token=1,
        beam_size=draw.int(1, 3),
        embedding_fn=look,
        output_fn=out,
    )
    draw.gradients = False
    imputed = draw.maybe(draw.flag(), 0.3)
    return decoding(draw, decoder, states(draw, kind, rows, hidden), impute_finished=imputed)


HELPERS = "TrainingHelper GreedyEmbeddingHelper SampleEmbeddingHelper"


@draws(*(f"fluid.layers.{name}" for name in (HELPERS + " BasicDecoder DecodeHelper").split()))
def _(draw: Draw, name: str) -> Any:
    helper_kind = name.rpartition(".")[2]
    if helper_kind not in HELPERS:
        helper_kind = draw.choice("TrainingHelper", "GreedyEmbeddingHelper")
    kind, hidden, rows, count = draw.choice("GRU", "LSTM"), draw.int(1, 3), draw.int(1, 3), draw.int(3, 5)
    made = cell(draw, kind, hidden)
    if helper_kind == "TrainingHelper":
        steps, major = draw.int(1, 4), draw.flag(0.3)
        shape = (steps, rows, 2) if major else (rows, steps, 2)
        x = draw.tensor(shape, "float32")
        lengths = draw.tensor((rows,), "int64", 1, steps)
        helper = draw.call(f"fluid.layers.{helper_kind}", x, lengths, time_major=major)
    else:
        draw.random = helper_kind.startswith("Sample")
        start = draw.feed(np.zeros(rows, "int64"), fixed=True, known=True)
        # a word that is never drawn, and one seed: the number of steps would be drawn otherwise
        end, seed = (count, draw.int(1, 9)) if draw.random else (1, OMIT)
        helper = draw.call(f"fluid.layers.{helper_kind}", words(draw, count, 2), start, end, seed=seed)
    decoder = draw.call("fluid.layers.BasicDecoder", made, helper, output_fn=scores(draw, count))
    draw.gradients = helper_kind == "TrainingHelper"
    return decoding(
        draw, decoder, states(draw, kind, rows, hidden), impute_finished=draw.maybe(draw.flag(), 0.3)
    )


@draws("fluid.layers.gather_tree")
def _(draw: Draw, name: str) -> Any:
    steps, batch, beam = draw.int(1, 4), draw.int(1, 3), draw.int(1, 3)
    dtype = draw.choice("int32", "int64")
    ids = draw.tensor((steps, batch, beam), dtype, 0, 9)
    return draw.call(name, ids, draw.tensor((steps, batch, beam), dtype, 0, beam - 1))


def beams(draw: Draw, most: int = 3) -> tuple[Value, Value, Value, int]:
    """One step of a beam search: ids and scores in front of it, its results, and how many beams it keeps."""
    sources, width, count = draw.int(1, 3), draw.int(1, 3), draw.int(3, 4)
    sizes = [draw.int(1, min(width, most)) for _ in range(sources)]
    rows = sum(sizes)
    levels = [sizes, [1] * rows]
    pre_ids = draw.tensor((rows, 1), "int64", 2, 9, lengths=levels)
    pre_scores = draw.tensor((rows, 1), "float32", lengths=levels)
    accumulated = draw.choice(OMIT, True, False)
    low, high = (0.05, 0.95) if accumulated is False else (-3.0, 0.0)
    ids = draw.tensor((rows, count), "int64", 0, 9, lengths=levels) if draw.flag(0.8) else None
    found = draw.tensor((rows, count), "float32", low, high, distinct=True, lengths=levels)
    result = draw.call(
        "fluid.layers.beam_search",
        pre_ids,
        pre_scores,
        ids,
        found,
        width,
        draw.int(0, 1),
        is_accumulated=accumulated,
        return_parent_idx=True,
    )
    return pre_ids, pre_scores, result, width


@draws("fluid.layers.beam_search")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    return beams(draw)[2]


@draws("fluid.layers.beam_search_decode")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    *first, result, width = beams(draw, 1)
    zero, one = (draw.call("fluid.layers.fill_constant", [1], "int64", at) for at in (0, 1))
    arrays = [draw.call("fluid.layers.array_write", start, zero) for start in first]
    for which, array in enumerate(arrays):
        draw.call("fluid.layers.array_write", result[which], one, array=array)
    return draw.call(name, *arrays, width, 0)
