"""ONNX for recurrent networks: over sequences, over padded batches, and single steps.

ONNX has no level of detail: a variable that has one becomes the rows of one sequence, and the exported model
takes one sequence at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.sequences import check_single

__all__ = ["ACTIVATIONS"]

ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def _ordered(gates: Array, order: Sequence[int]) -> Array:
    """Columns of gates in another order, as rows: [depth, gates x size] -> [gates x size, depth]."""
    parts = np.split(gates, len(order), axis=1)
    return np.concatenate([parts[place] for place in order], axis=1).T


def _state(op: OpView, slot: str) -> str:
    """A first state as ONNX wants it, [directions, batch, size]; "" where there is none."""
    return str(op.add("Unsqueeze", op.x(slot), op.ints(0))) if op.has(slot) else ""


def _direction(op: OpView, kinds: list[str]) -> dict[str, object]:
    if any(kind not in ACTIVATIONS for kind in kinds):
        raise op.error(f"activations {kinds}, and the rule knows {', '.join(ACTIVATIONS)}")
    direction = "reverse" if op.attr("is_reverse") else "forward"
    return {"activations": [ACTIVATIONS[kind] for kind in kinds], "direction": direction}


# ----------------------------------------------------------------------- over sequences
@exports("lstm")
def _lstm(op: OpView) -> None:
    """Its gates come in the order candidate, input, forget, output; ONNX has input, output, forget, cell. The
    products with the input are done before, so its weight puts them in order.
    """
    check_single(op, "Input")
    order = (1, 3, 2, 0)
    weight = op.parameter("Weight")
    size = weight.shape[0]
    bias = op.parameter("Bias").reshape(1, -1)
    whole = np.concatenate(
        [_ordered(bias[:, : 4 * size], order).T, np.zeros((1, 4 * size), bias.dtype)], axis=1
    )
    inputs = [
        op.add("Unsqueeze", op.x("Input"), op.ints(1)),
        op.graph.constant(_ordered(np.eye(4 * size, dtype=weight.dtype), order)[None]),
        op.graph.constant(_ordered(weight, order)[None]),
        op.graph.constant(whole),
        "",
        _state(op, "H0"),
        _state(op, "C0"),
    ]
    if op.attr("use_peepholes") and bias.shape[1] > 4 * size:
        into, forget, out = np.split(bias[:, 4 * size :], 3, axis=1)
        made = op.graph.constant(np.concatenate([into, out, forget], axis=1))
        inputs.append(made)
    kinds = [op.attr(f"{part}_activation") for part in ("gate", "candidate", "cell")]
    hidden, _, _ = op.add("LSTM", *inputs, outputs=3, hidden_size=size, **_direction(op, kinds))
    reshaped = op.add("Reshape", hidden, op.ints(-1, size))
    op.put(reshaped, "Hidden")


@exports("gru")
def _gru(op: OpView) -> None:
    """Its gates come in the order update, reset, candidate, as ONNX's; but without `origin_mode` the update
    gate keeps what ONNX's forgets, so that its weights change their sign.
    """
    check_single(op, "Input")
    kinds = [op.attr("gate_activation"), op.attr("activation")]
    if not op.attr("origin_mode") and kinds[0] != "sigmoid":
        raise op.error(f"gate_activation {kinds[0]!r} without origin_mode: 1 - sigmoid(x) is sigmoid(-x)")
    weight = op.parameter("Weight")
    size = weight.shape[0]
    bias = np.zeros((1, 3 * size), weight.dtype)
    if op.has("Bias"):
        bias = op.parameter("Bias").reshape(1, -1)
    sign = np.ones(3 * size, weight.dtype)
    if not op.attr("origin_mode"):
        sign[:size] = -1
    order = (0, 1, 2)
    inputs = [
        op.add("Unsqueeze", op.x("Input"), op.ints(1)),
        op.graph.constant(_ordered(np.eye(3 * size, dtype=weight.dtype) * sign, order)[None]),
        op.graph.constant(_ordered(np.concatenate(_two_matrices(weight), axis=1) * sign, order)[None]),
        op.graph.constant(np.concatenate([bias * sign, np.zeros_like(bias)], axis=1)),
        "",
        _state(op, "H0"),
    ]
    hidden, _ = op.add("GRU", *inputs, outputs=2, hidden_size=size, **_direction(op, kinds))
    made = op.add("Reshape", hidden, op.ints(-1, size))
    op.put(made, "Hidden")


def _two_matrices(weight: Array) -> tuple[Array, Array]:
    """The weights of the two gates and of the candidate, which lie one behind the other, not side by side."""
    size = weight.shape[0]
    flat = weight.reshape(-1)
    gates = flat[: 2 * size * size].reshape(size, 2 * size)
    return gates, flat[2 * size * size :].reshape(size, size)


# ----------------------------------------------------------------------- over padded batches
def _of_onnx(gates: Array, order: Sequence[int]) -> Array:
    """Rows of gates in another order."""
    reshaped = gates.reshape(len(order), -1, *gates.shape[1:])[list(order)].reshape(gates.shape)
    return reshaped


_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}


@exports("cudnn_lstm")
def _cudnn_lstm(op: OpView) -> None:
    """Several layers over padded batches [time, batch, features], their weights in one vector."""
    _check_no_draws(op)
    size = int(op.attr("hidden_size"))
    layers = int(op.attr("num_layers"))
    ways = 2 if op.attr("is_bidirec") else 1
    weights = op.parameter("W")
    biases = weights[-layers * ways * 8 * size :].reshape(layers * ways, 2, 4 * size)
    features = op.shape("Input")[2]
    at = 0
    found = []
    for number in range(layers * ways):
        columns = [features if number < ways else ways * size, size]
        pair = []
        for depth in columns:
            reshaped = weights[at : at + 4 * size * depth].reshape(4 * size, depth)
            pair.append(reshaped)
            at += 4 * size * depth
        found.append((*pair, *biases[number]))
    states = [op.x("InitH"), op.x("InitC")]
    out, last = _layers(op, "LSTM", found, states, ways, size, "")
    op.put(out)
    for value, slot in zip(last, ("last_h", "last_c"), strict=True):
        op.put(value, slot)


@exports("rnn")
def _rnn(op: OpView) -> None:
    """As `cudnn_lstm`, of several kinds, with a tensor for each weight."""
    _check_no_draws(op)
    mode = op.attr("mode")
    ways = 2 if op.attr("is_bidirec") else 1
    op.all("WeightList")
    arrays = [op.array(name) for name in op.op.inputs["WeightList"]]
    half = len(arrays) // 2
    weights = [
        (arrays[at], arrays[at + 1], arrays[half + at], arrays[half + at + 1]) for at in range(0, half, 2)
    ]
    op.idle("num_layers")
    lengths = op.cast(op.x("SequenceLength"), np.int32) if op.has("SequenceLength") else ""
    hidden_size = op.attr("hidden_size")
    out, last = _layers(op, mode, weights, op.all("PreState"), ways, int(hidden_size), lengths)
    op.put(out)
    for place, value in enumerate(last):
        op.put(value, "State", place)


def _check_no_draws(op: OpView) -> None:
    op.idle("seed", "Cache")
    if op.attr("dropout_prob") and not op.attr("is_test"):
        raise op.error("it draws: export the program's clone(for_test=True)")
    op.idle("is_test", "dropout_prob")


def _layers(
    op: OpView,
    mode: str,
    weights: Sequence[tuple[Array, ...]],
    states: Sequence[str],
    ways: int,
    size: int,
    lengths: str,
) -> tuple[str, list[str]]:
    """The output of the last layer, and the last states of all; `weights` are those of the input and of the
    state and their biases, of each layer and direction.
    """
    order = _ORDERS[mode]
    x = op.x("Input")
    ends = []
    for start in range(0, len(weights), ways):
        layer = weights[start : start + ways]
        parts = [np.stack([_of_onnx(one[at], order) for one in layer]) for at in (0, 1)]
        parts.append(np.stack([np.concatenate([_of_onnx(part, order) for part in one[2:]]) for one in layer]))
        first = [
            op.add("Slice", state, op.ints(start), op.ints(start + ways), op.ints(0)) for state in states
        ]
        y, *last = op.add(
            mode.partition("_")[0],
            x,
            *[op.graph.constant(part) for part in parts],
            lengths,
            *first,
            outputs=1 + len(states),
            hidden_size=size,
            direction="bidirectional" if ways == 2 else "forward",
            activations=[mode.partition("_")[2].capitalize()] * ways if mode.startswith("RNN") else None,
            linear_before_reset=1 if mode == "GRU" else None,
        )
        ends.append(last)
        turned = op.add("Transpose", y, perm=[0, 2, 1, 3])
        x = op.add("Reshape", turned, op.ints(0, 0, ways * size))
    return x, [op.add("Concat", *each, axis=0) for each in zip(*ends, strict=True)]


# ----------------------------------------------------------------------- single steps
@exports("lstm_unit")
def _lstm_unit(op: OpView) -> None:
    """Gates in the order input, forget, output, candidate, whose products are done before."""
    size = op.shape("C_prev")[1]
    entry, forget, out, candidate = op.add("Split", op.x(), op.ints(*[size] * 4), outputs=4, axis=1)
    bias = op.attr("forget_bias")
    forget = op.add("Add", forget, op.number(bias)) if bias else forget
    entry, forget, out = (op.add("Sigmoid", gate) for gate in (entry, forget, out))
    kept = op.add("Mul", forget, op.x("C_prev"))
    wave = op.add("Tanh", candidate)
    mul = op.add("Mul", entry, wave)
    cell = op.add("Add", kept, mul)
    op.put(cell, "C")
    tanh = op.add("Tanh", cell)
    product = op.add("Mul", out, tanh)
    op.put(product, "H")


_CODES = ("identity", "sigmoid", "tanh", "relu")


@exports("gru_unit")
def _gru_unit(op: OpView) -> None:
    """Gates in the order update, reset, candidate; the products with the input are done before."""
    kinds = [_CODES[op.attr(name)] for name in ("gate_activation", "activation")]

    def active(value: str, kind: str) -> str:
        return value if kind == "identity" else str(op.add(ACTIVATIONS[kind], value))

    gates_weight, weight = _two_matrices(op.parameter("Weight"))
    size = len(weight)
    before = op.x("HiddenPrev")
    x = op.add("Add", op.x("Input"), op.x("Bias")) if op.has("Bias") else op.x("Input")
    of_gates, of_candidate = op.add("Split", x, op.ints(2 * size, size), outputs=2, axis=1)
    matmul = op.add("MatMul", before, op.graph.constant(gates_weight))
    sums = op.add("Add", of_gates, matmul)
    gates = active(sums, kinds[0])
    update, reset = op.add("Split", gates, op.ints(size, size), outputs=2, axis=1)
    kept = op.add("Mul", reset, before)
    product = op.add("MatMul", kept, op.graph.constant(weight))
    total = op.add("Add", of_candidate, product)
    candidate = active(total, kinds[1])
    opened, closed = (before, candidate) if op.attr("origin_mode") else (candidate, before)
    difference = op.add("Sub", opened, closed)
    apart = op.add("Mul", difference, update)
    made = op.add("Add", apart, closed)
    op.put(made, "Hidden")
    op.put(kept, "ResetHiddenPrev")
    together = op.add("Concat", update, reset, candidate, axis=1)
    op.put(together, "Gate")
