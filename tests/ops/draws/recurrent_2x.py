"""Recurrent layers, attention and transformers of the 2.x door."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import word

CELLS = ["SimpleRNNCell", "LSTMCell", "GRUCell"]
STACKS = ["SimpleRNN", "LSTM", "GRU"]
WEIGHTS = ("weight_ih_attr", "weight_hh_attr", "bias_ih_attr", "bias_hh_attr")


def _attrs(draw: Draw) -> dict[str, Any]:
    """Attributes of the four parameters of a cell, biases at times left away."""
    return {key: draw.maybe(False, 0.15) if "bias" in key else _weight(draw) for key in WEIGHTS}


def _weight(draw: Draw) -> Any:
    """An attribute of a weight, which may be frozen; or nothing."""
    trainable = draw.maybe(draw.flag(0.5), 0.5)
    return draw.made("paddle.ParamAttr", trainable=trainable) if draw.flag(0.15) else OMIT


def _states(draw: Draw, kind: str, shape: tuple[int, ...]) -> Any:
    """The first states of a cell: two for an LSTM."""
    if kind.startswith("LSTM"):
        return tuple(draw.tensor(shape, "float32") for _ in range(2))
    return draw.tensor(shape, "float32")


@draws(*(f"paddle.nn.{name}" for name in CELLS))
def _(draw: Draw, name: str) -> Any:
    rows, wide, hidden = draw.size(low=1), draw.size(low=1), draw.size(low=1)
    activation = draw.maybe(draw.choice("tanh", "relu")) if word(name) == "SimpleRNNCell" else OMIT
    cell = draw.call(name, wide, hidden, activation=activation, **_attrs(draw))
    states = _states(draw, word(name), (rows, hidden)) if draw.flag(0.7) else OMIT
    return draw.call(cell.name, draw.tensor((rows, wide), "float32"), states)


def _lengths(draw: Draw, batch: int, steps: int) -> Any:
    """Lengths of the sequences, or nothing."""
    if not draw.flag(0.3):
        return OMIT
    array = np.array([draw.int(1, steps) for _ in range(batch)], "int64")
    return draw.feed(array, fixed=True, known=True)


@draws(*(f"paddle.nn.{name}" for name in STACKS))
def _(draw: Draw, name: str) -> Any:
    batch, steps, wide, hidden = draw.int(1, 3), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    direction, layers = draw.maybe(draw.choice("forward", "bidirect", "bidirectional")), draw.int(1, 2)
    major = draw.flag(0.3)
    activation = draw.maybe(draw.choice("tanh", "relu")) if word(name) == "SimpleRNN" else OMIT
    layer = draw.call(
        name,
        wide,
        hidden,
        num_layers=layers,
        direction=direction,
        time_major=True if major else draw.maybe(False),
        activation=activation,
        dropout=draw.maybe(0.0, 0.2),
        **(_attrs(draw) if draw.flag(0.3) else {}),
    )
    both = 1 if direction in (OMIT, "forward") else 2
    states = OMIT
    if draw.flag(0.4):
        states = _states(draw, word(name), (layers * both, batch, hidden))
    shape = (steps, batch, wide) if major else (batch, steps, wide)
    x = draw.tensor(shape, "float32", known=draw.flag(0.7))
    return draw.call(layer.name, x, states, sequence_length=_lengths(draw, batch, steps))


@draws("paddle.nn.RNN", "paddle.nn.BiRNN")
def _(draw: Draw, name: str) -> Any:
    batch, steps, wide, hidden = draw.int(1, 3), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    kind, major = draw.choice(*CELLS), draw.flag(0.3)
    cells = [draw.call(f"paddle.nn.{kind}", wide, hidden) for _ in range(1 + name.endswith("BiRNN"))]
    back = draw.maybe(draw.flag()) if word(name) == "RNN" else OMIT
    layer = draw.call(name, *cells, is_reverse=back, time_major=True if major else draw.maybe(False))
    shape = (steps, batch, wide) if major else (batch, steps, wide)
    states = OMIT
    if word(name) == "RNN" and draw.flag(0.4):
        states = _states(draw, kind, (batch, hidden))
    x = draw.tensor(shape, "float32", known=draw.flag(0.7))
    return draw.call(layer.name, x, states, sequence_length=_lengths(draw, batch, steps))


# ---------------------------------------------------------------------- attention
def _still(draw: Draw, layer: Value) -> None:
    """The layer in evaluation, so that nothing is dropped."""
    draw.call(f"{layer.name}.eval")


def _mask(draw: Draw, shape: tuple[int, ...]) -> Any:
    """An additive or a boolean mask, or nothing."""
    if not draw.flag(0.4):
        return OMIT
    if draw.flag():
        array = draw.numbers(shape, "bool")
        array[..., 0] = True
        return draw.feed(array, fixed=True)
    return draw.tensor(shape, "float32", fixed=True)


@draws("paddle.nn.MultiHeadAttention")
def _(draw: Draw, name: str) -> Any:
    heads, batch, steps = draw.int(1, 2), draw.int(1, 2), draw.int(1, 3)
    wide = heads * draw.int(1, 3)
    own = draw.flag(0.3)
    other = {"kdim": draw.int(1, 3), "vdim": draw.int(1, 3)} if own else {}
    weights = draw.maybe(draw.flag())
    attrs = {"weight_attr": _weight(draw), "bias_attr": draw.maybe(False, 0.2)}
    layer = draw.call(name, wide, heads, 0.0, need_weights=weights, **attrs, **other)
    query = draw.tensor((batch, steps, wide), "float32")
    if not own and draw.flag(0.4):
        return draw.call(layer.name, query, attn_mask=_mask(draw, (batch, heads, steps, steps)))
    length = draw.int(1, 3)
    key = draw.tensor((batch, length, other.get("kdim", wide)), "float32")
    value = draw.tensor((batch, length, other.get("vdim", wide)), "float32")
    return draw.call(layer.name, query, key, value, attn_mask=_mask(draw, (batch, heads, steps, length)))


@draws("paddle.nn.TransformerEncoderLayer", "paddle.nn.TransformerEncoder")
def _(draw: Draw, name: str) -> Any:
    heads, batch, steps = draw.int(1, 2), draw.int(1, 2), draw.int(1, 3)
    wide = heads * draw.int(1, 2)
    layer = _block(draw, "paddle.nn.TransformerEncoderLayer", wide, heads)
    if name.endswith("Encoder"):
        norm = draw.made("paddle.nn.LayerNorm", wide)
        layer = draw.call(name, layer, draw.int(1, 2), draw.maybe(norm))
    _still(draw, layer)
    x = draw.tensor((batch, steps, wide), "float32")
    return draw.call(layer.name, x, _mask(draw, (batch, heads, steps, steps)))


def _block(draw: Draw, path: str, wide: int, heads: int) -> Value:
    return draw.call(
        path,
        wide,
        heads,
        draw.int(1, 4),
        dropout=draw.choice(0.0, OMIT),
        activation=draw.maybe(draw.choice("relu", "gelu")),
        attn_dropout=draw.maybe(0.0, 0.2),
        act_dropout=draw.maybe(0.0, 0.2),
        normalize_before=draw.maybe(draw.flag()),
        weight_attr=_weight(draw),
        bias_attr=draw.maybe(False, 0.15),
    )


@draws("paddle.nn.TransformerDecoderLayer", "paddle.nn.TransformerDecoder")
def _(draw: Draw, name: str) -> Any:
    heads, batch, steps, length = draw.int(1, 2), draw.int(1, 2), draw.int(1, 3), draw.int(1, 3)
    wide = heads * draw.int(1, 2)
    layer = _block(draw, "paddle.nn.TransformerDecoderLayer", wide, heads)
    if name.endswith("Decoder"):
        layer = draw.call(name, layer, draw.int(1, 2), draw.maybe(draw.made("paddle.nn.LayerNorm", wide)))
    _still(draw, layer)
    target, memory = (draw.tensor((batch, size, wide), "float32") for size in (steps, length))
    masks = {"tgt_mask": _mask(draw, (batch, heads, steps, steps))}
    masks["memory_mask"] = _mask(draw, (batch, heads, steps, length))
    return draw.call(layer.name, target, memory, **masks)


@draws("paddle.nn.Transformer")
def _(draw: Draw, name: str) -> Any:
    heads, batch, steps, length = draw.int(1, 2), draw.int(1, 2), draw.int(1, 3), draw.int(1, 3)
    wide = heads * draw.int(1, 2)
    before = draw.maybe(draw.flag())
    more = {
        "activation": draw.maybe(draw.choice("relu", "gelu")),
        "weight_attr": _weight(draw),
        "bias_attr": draw.maybe(False, 0.15),
        "attn_dropout": draw.maybe(0.0, 0.2),
        "act_dropout": draw.maybe(0.0, 0.2),
    }
    layer = draw.call(name, wide, heads, draw.int(1, 2), 1, 2, normalize_before=before, **more)
    _still(draw, layer)
    source, target = (draw.tensor((batch, size, wide), "float32") for size in (length, steps))
    mask = OMIT
    if draw.flag(0.4):
        mask = draw.call(f"{layer.name}.generate_square_subsequent_mask", steps)
    return draw.call(layer.name, source, target, tgt_mask=mask)


@draws("paddle.nn.functional.scaled_dot_product_attention")
def _(draw: Draw, name: str) -> Any:
    batch, steps, heads, depth = draw.int(1, 2), draw.int(1, 3), draw.int(1, 2), draw.int(1, 3)
    kind = draw.choice("float32", "float64")
    items = [draw.tensor((batch, steps, heads, depth), kind) for _ in range(3)]
    mask = draw.tensor((batch, heads, steps, steps), kind, fixed=True) if draw.flag(0.7) else OMIT
    # without a mask, and for causal ones, 2.6.2 asks for kernels of GPUs on some machines
    causal = draw.maybe(draw.flag(0.1))
    return draw.call(name, *items, attn_mask=mask, dropout_p=draw.maybe(0.0), is_causal=causal)


@draws("paddle.nn.BeamSearchDecoder", "paddle.nn.dynamic_decode")
def _(draw: Draw, name: str) -> Any:
    words, hidden, beams = draw.int(4, 6), draw.int(2, 3), draw.int(1, 3)
    draw.gradients = False
    embedding = draw.call("paddle.nn.Embedding", words, hidden)
    out = draw.call("paddle.nn.Linear", hidden, words)
    kind = draw.choice("GRUCell", "LSTMCell")
    cell = draw.call(f"paddle.nn.{kind}", hidden, hidden)
    decoder = draw.call(
        "paddle.nn.BeamSearchDecoder",
        cell,
        start_token=0,
        end_token=1,
        beam_size=beams,
        embedding_fn=embedding,
        output_fn=out,
    )
    states = _states(draw, kind, (draw.int(1, 2), hidden))
    found = draw.call(
        "paddle.nn.dynamic_decode",
        decoder,
        inits=list(states) if isinstance(states, tuple) else states,
        max_step_num=draw.int(2, 4),
        output_time_major=draw.maybe(draw.flag()),
        return_length=draw.maybe(draw.flag()),
        impute_finished=draw.maybe(draw.flag(), 0.2),
        is_test=draw.maybe(draw.flag(), 0.2),
    )
    return draw.call("paddle.assign", found[0])
