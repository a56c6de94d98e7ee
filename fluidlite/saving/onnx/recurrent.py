"""ONNX for recurrent networks and ops on sequences.

ONNX has no level of detail: a variable that has one becomes the rows of one sequence, and the exported model
takes one sequence at a time.
"""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.saving.onnx.graph import OpView, exports

_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "identity": "Affine"}


def _ordered(gates: Array, order: tuple[int, ...]) -> Array:
    """Columns of gates in another order, as rows: [depth, gates x size] -> [gates x size, depth]."""
    parts = np.split(gates, len(order), axis=1)
    return np.concatenate([parts[place] for place in order], axis=1).T


def _state(op: OpView, slot: str) -> str:
    """A first state as ONNX wants it, [directions, batch, size]; "" where there is none."""
    return str(op.add("Unsqueeze", op.x(slot), op.ints(0))) if op.has(slot) else ""


@exports("lstm")
def _lstm(op: OpView) -> None:
    """Its gates come in the order candidate, input, forget, output; ONNX has input, output, forget, cell. The
    products with the input are done before, so its weight puts them in order.
    """
    order = (1, 3, 2, 0)
    weight = op.array(op.op.inputs["Weight"][0])
    size = weight.shape[0]
    bias = op.array(op.op.inputs["Bias"][0]).reshape(1, -1)
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
    if op.attr("use_peepholes", True) and bias.shape[1] > 4 * size:
        into, forget, out = np.split(bias[:, 4 * size :], 3, axis=1)
        inputs.append(op.graph.constant(np.concatenate([into, out, forget], axis=1)))
    kinds = [op.attr("gate_activation", "sigmoid"), op.attr("candidate_activation", "tanh")]
    kinds.append(op.attr("cell_activation", "tanh"))
    hidden, _, _ = op.add("LSTM", *inputs, outputs=3, hidden_size=size, **_direction(op, kinds))
    op.put(op.add("Reshape", hidden, op.ints(-1, size)), "Hidden")


def _direction(op: OpView, kinds: list[str]) -> dict[str, object]:
    if any(kind not in ("sigmoid", "tanh", "relu") for kind in kinds):
        raise op.error(f"activations {kinds}")
    direction = "reverse" if op.attr("is_reverse", False) else "forward"
    return {"activations": [_ACTIVATIONS[kind] for kind in kinds], "direction": direction}


@exports("gru")
def _gru(op: OpView) -> None:
    """Its gates come in the order update, reset, candidate, as ONNX's; but without `origin_mode` the update
    gate keeps what ONNX's forgets, so that its weights change their sign.
    """
    weight = op.array(op.op.inputs["Weight"][0])
    size = weight.shape[0]
    bias = np.zeros((1, 3 * size), weight.dtype)
    if op.has("Bias"):
        bias = op.array(op.op.inputs["Bias"][0]).reshape(1, -1)
    sign = np.ones(3 * size, weight.dtype)
    if not op.attr("origin_mode", False):
        sign[:size] = -1
    order = (0, 1, 2)
    inputs = [
        op.add("Unsqueeze", op.x("Input"), op.ints(1)),
        op.graph.constant(_ordered(np.eye(3 * size, dtype=weight.dtype) * sign, order)[None]),
        # the weights of the two gates and of the candidate lie one behind the other, not side by side
        op.graph.constant(_ordered(_side_by_side(weight) * sign, order)[None]),
        op.graph.constant(np.concatenate([bias * sign, np.zeros_like(bias)], axis=1)),
        "",
        _state(op, "H0"),
    ]
    kinds = [op.attr("gate_activation", "sigmoid"), op.attr("activation", "tanh")]
    hidden, _ = op.add("GRU", *inputs, outputs=2, hidden_size=size, **_direction(op, kinds))
    op.put(op.add("Reshape", hidden, op.ints(-1, size)), "Hidden")


def _side_by_side(weight: Array) -> Array:
    size = weight.shape[0]
    flat = weight.reshape(-1)
    gates = flat[: 2 * size * size].reshape(size, 2 * size)
    return np.concatenate([gates, flat[2 * size * size :].reshape(size, size)], axis=1)


@exports("cudnn_lstm")
def _cudnn_lstm(op: OpView) -> None:
    """Several layers over padded batches [time, batch, features], their weights in one vector."""
    size, layers = int(op.attr("hidden_size", 100)), int(op.attr("num_layers", 1))
    ways = 2 if op.attr("is_bidirec", False) else 1
    weights, x = op.array(op.op.inputs["W"][0]), op.x("Input")
    biases = weights[-layers * ways * 8 * size :].reshape(layers, ways, 8 * size)
    features, at = op.shape("Input")[2], 0
    last: list[tuple[str, str]] = []
    for layer in range(layers):
        parts = []
        for columns in [features, size] * ways:
            parts.append(_of_onnx(weights[at : at + 4 * size * columns], size))
            at += 4 * size * columns
        bias = [[_of_onnx(part, size).reshape(-1) for part in np.split(one, 2)] for one in biases[layer]]
        inputs = [
            np.stack(parts[0::2]),
            np.stack(parts[1::2]),
            np.stack([np.concatenate(one) for one in bias]),
        ]
        states = [
            op.add("Slice", op.x(slot), op.ints(layer * ways), op.ints((layer + 1) * ways), op.ints(0))
            for slot in ("InitH", "InitC")
        ]
        direction = "bidirectional" if ways == 2 else "forward"
        constants = [op.graph.constant(each) for each in inputs]
        y, *ends = op.add(
            "LSTM", x, *constants, "", *states, outputs=3, hidden_size=size, direction=direction
        )
        last.append((ends[0], ends[1]))
        x = op.add("Reshape", op.add("Transpose", y, perm=[0, 2, 1, 3]), op.ints(0, 0, ways * size))
        features = ways * size
    op.put(x)
    for slot, place in (("last_h", 0), ("last_c", 1)):
        op.put(op.add("Concat", *[pair[place] for pair in last], axis=0), slot)


def _of_onnx(gates: Array, size: int) -> Array:
    """Rows in the order input, forget, candidate, output in ONNX's."""
    return gates.reshape(4, size, -1)[[0, 3, 1, 2]].reshape(4 * size, -1)


# ----------------------------------------------------------------------- sequences
_POOLS = {"MAX": "ReduceMax", "AVERAGE": "ReduceMean", "SUM": "ReduceSum"}


@exports("sequence_pool")
def _sequence_pool(op: OpView) -> None:
    kind = op.attr("pooltype", "AVERAGE").upper()
    if kind == "SUM":
        op.put(op.add("ReduceSum", op.x(), op.ints(0), keepdims=1))
    elif kind in _POOLS:
        op.put(op.add(_POOLS[kind], op.x(), axes=[0], keepdims=1))
    elif kind == "SQRT":
        rows = op.add("Cast", op.add("Slice", op.add("Shape", op.x()), op.ints(0), op.ints(1)), to=1)
        whole = op.add("ReduceSum", op.x(), op.ints(0), keepdims=1)
        op.put(op.add("Div", whole, op.add("Sqrt", rows)))
    else:
        start, end = (0, 1) if kind == "FIRST" else (-1, 2**31 - 1)
        op.put(op.add("Slice", op.x(), op.ints(start), op.ints(end), op.ints(0)))


@exports("sequence_softmax")
def _sequence_softmax(op: OpView) -> None:
    op.put(op.add("Softmax", op.x(), axis=0))


@exports("sequence_reshape")
def _sequence_reshape(op: OpView) -> None:
    op.put(op.add("Reshape", op.x(), op.ints(-1, int(op.attr("new_dim")))))


@exports("sequence_expand", "sequence_expand_as")
def _sequence_expand(op: OpView) -> None:
    """One row becomes as many as the other sequence has."""
    rows = op.add("Slice", op.add("Shape", op.x("Y")), op.ints(0), op.ints(1))
    shape = op.add("Concat", rows, op.ints(*[1] * (op.rank() - 1)), axis=0)
    op.put(op.add("Expand", op.x(), shape))


@exports("sequence_conv")
def _sequence_conv(op: OpView) -> None:
    """Each row beside its neighbours, and one product; rows before the first and after the last are 0."""
    start, length = int(op.attr("contextStart", 0)), int(op.attr("contextLength", 1))
    if int(op.attr("contextStride", 1)) != 1 or op.attr("paddingTrainable", False):
        raise op.error("a stride, or padding that is learned")
    before, after = max(-start, 0), max(start + length - 1, 0)
    x = op.add("Pad", op.x(), op.ints(before, 0, after, 0), op.number(0.0))
    rows = op.add("Slice", op.add("Shape", op.x()), op.ints(0), op.ints(1))
    columns = []
    for place in range(length):
        first = op.ints(start + place + before)
        last = op.add("Add", rows, first)
        columns.append(op.add("Slice", x, first, last, op.ints(0)))
    op.put(op.add("MatMul", op.add("Concat", *columns, axis=1), op.x("Filter")))
