"""ONNX ops of recurrent layers: the op `rnn` where it has the same gates, else steps one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.rules.control import last_of, recurrent

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Places of ONNX's gates in the order of the op `rnn`."""
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_FUNCTIONS = ("sigmoid", "tanh", "relu", "softsign", "softplus")


class _GatedLayer:
    """A node's weights and attributes, checked."""

    def __init__(self, op: NodeView) -> None:
        self.op = op
        self.directions = 2 if op.attr("direction") == "bidirectional" else 1
        self.is_reverse = op.attr("direction") == "reverse"
        if op.attr("layout") or op.attr("clip") or op.attr("input_forget"):
            raise op.error("its attribute 'layout', 'clip' or 'input_forget' is set")
        named = op.attr("activations") or _USUAL[op.kind] * self.directions
        self.kinds = [name.lower() for name in named]
        if any(kind not in _FUNCTIONS for kind in self.kinds):
            raise op.error(f"activations {named}, and the rule knows {', '.join(_FUNCTIONS)}")
        if op.attr("activation_alpha") or op.attr("activation_beta"):
            raise op.error("its activations have numbers of their own")
        array = op.array(1)
        self.weight = array
        self.recurrence = op.array(2)
        gates = _GATES[op.kind]
        self.size = self.recurrence.shape[-1]
        shapes = (self.directions, gates * self.size)
        if self.weight.ndim != 3 or self.weight.shape[:2] != shapes or self.recurrence.shape[:2] != shapes:
            raise op.malformed(f"its weights have the shapes {self.weight.shape} and {self.recurrence.shape}")
        if op.attr("hidden_size") not in (None, self.size):
            raise op.malformed(
                f"its attribute 'hidden_size' is {op.attr('hidden_size')}, and not {self.size}"
            )
        self.biases = (
            op.array(3)
            if op.has(3)
            else np.zeros((self.directions, 2 * gates * self.size), self.weight.dtype)
        )
        self.after = bool(op.attr("linear_before_reset")) if op.kind == "GRU" else True

    def states(self) -> list[Variable]:
        """The first states [directions, batch, size]."""
        places = (5, 6) if self.op.kind == "LSTM" else (5,)
        return [self.op.x(place) if self.op.has(place) else self._zeros() for place in places]

    def _zeros(self) -> Variable:
        batch = self.op.shape()[1]
        shape = [self.directions, batch, self.size]
        if batch >= 0:
            zeros = np.zeros(shape)
            return self.op.fixed(zeros, self.weight.dtype)
        attrs = {"shape": shape, "input_dim_idx": 1, "output_dim_idx": 1, "dtype": self.op.x().dtype}
        return self.op.emit("fill_constant_batch_size_like", {"Input": self.op.x()}, {**attrs, "value": 0.0})

    def peepholes(self) -> Array | None:
        """Weights of the cells in the gates, [directions, 3 size]; None where they are zeros."""
        found = self.op.array(7) if self.op.kind == "LSTM" and self.op.has(7) else None
        return found if found is not None and found.any() else None


@reads("LSTM", "GRU", "RNN")
def _layer(op: NodeView) -> None:
    layer = _GatedLayer(op)
    usual = layer.kinds == _USUAL[op.kind] * layer.directions or (
        op.kind == "RNN" and len(set(layer.kinds)) == 1 and layer.kinds[0] in ("tanh", "relu")
    )
    if usual and layer.after and layer.peepholes() is None and not layer.is_reverse:
        _as_rnn(layer)
    else:
        _step_by_step(layer)


def _ordered(rows: Array, order: Sequence[int]) -> Array:
    """Rows of gates in another order."""
    count = len(order)
    parts = np.split(rows, count, axis=0)
    return np.concatenate([parts[place] for place in order], axis=0)


def _as_rnn(layer: _GatedLayer) -> None:
    op = layer.op
    order = _ORDERS[op.kind]
    weights = []
    biases = []
    for at in range(layer.directions):
        weights += [layer.weight[at], layer.recurrence[at]]
        biases += np.split(layer.biases[at], 2)
    first = layer.states()
    inputs: dict[str, Any] = {
        "Input": op.x(),
        "PreState": first,
        "WeightList": [op.fixed(_ordered(each, order)) for each in (*weights, *biases)],
    }
    if op.has(4):
        inputs["SequenceLength"] = op.x(4)
    attrs = {
        "mode": op.kind if op.kind != "RNN" else f"RNN_{layer.kinds[0].upper()}",
        "hidden_size": layer.size,
        "input_size": layer.weight.shape[2],
        "is_bidirec": layer.directions == 2,
        "is_test": True,
    }
    count = len(first)
    out, *states = op.emit_all("rnn", inputs, attrs, {"Out": 1, "State": count})
    # [time, batch, directions x size] -> [time, directions, batch, size]
    apart = op.reshaped(out, [0, 0, layer.directions, layer.size])
    turned = op.transposed(apart, [0, 2, 1, 3])
    op.put_all([turned, *states])


# ----------------------------------------------------------------------- step by step
Cell: TypeAlias = "Callable[[Variable, list[Variable]], list[Variable]]"


def _step_by_step(layer: _GatedLayer) -> None:
    """A recurrence for each direction, whose products with the input are done before."""
    op = layer.op
    if op.has(4):
        raise op.error("sequences have lengths, and its gates are not those of the op rnn")
    x = op.x()
    states = layer.states()
    rows = []
    lasts = []
    for at in range(layer.directions):
        firsts = [op.squeezed(op.part(state, 0, at, at + 1), [0]) for state in states]
        entry, cell = _CELLS[op.kind](layer, at)
        constant = op.fixed(layer.weight[at].T)
        given = op.emit("matmul_v2", {"X": x, "Y": constant})
        fixed = op.fixed(entry)
        given = op.two("elementwise_add", given, fixed)

        backwards = layer.is_reverse or at == 1
        made = recurrent(op, [given], firsts, functools.partial(_step, cell), backwards)
        wide = op.unsqueezed(made[0], [1])
        rows.append(wide)
        lasts.append([op.unsqueezed(last_of(op, each, backwards), [0]) for each in made])
    joined = [rows, *map(list, zip(*lasts, strict=True))]
    axes = [1, *[0] * len(states)]
    op.put_all(
        [
            op.emit("concat", {"X": parts}, {"axis": axis}) if len(parts) > 1 else parts[0]
            for parts, axis in zip(joined, axes, strict=True)
        ]
    )


def _step(cell: Cell, rows: list[Variable], states: list[Variable]) -> tuple[list[Variable], list[Variable]]:
    """The states of a cell, which are its results as well."""
    made = cell(rows[0], states)
    return made, made


def _kinds(layer: _GatedLayer, at: int) -> list[str]:
    count = len(_USUAL[layer.op.kind])
    return layer.kinds[at * count : (at + 1) * count]


def _gates(op: NodeView, x: Variable, count: int) -> list[Variable]:
    return op.emit_all("split", {"X": x}, {"axis": 1, "num": count}, {"Out": count})


def _simple(layer: _GatedLayer, at: int) -> tuple[Array, Cell]:
    op = layer.op
    of_x, of_h = np.split(layer.biases[at], 2)
    recurrence = op.fixed(layer.recurrence[at].T)

    def cell(x: Variable, states: list[Variable]) -> list[Variable]:
        product = op.two("matmul_v2", states[0], recurrence)
        total = op.two("elementwise_add", x, product)
        made = op.one(_kinds(layer, at)[0], total)
        return [made]

    return of_x + of_h, cell


def _lstm(layer: _GatedLayer, at: int) -> tuple[Array, Cell]:
    """Gates input, output, forget, cell; peepholes of the first three."""
    op = layer.op
    of_x, of_h = np.split(layer.biases[at], 2)
    recurrence = op.fixed(layer.recurrence[at].T)
    peepholes = layer.peepholes()
    seen = [] if peepholes is None else [op.fixed(part) for part in np.split(peepholes[at], 3)]
    gate, wave, out = _kinds(layer, at)

    def with_cell(x: Variable, place: int, cell: Variable) -> Variable:
        return op.two("elementwise_add", x, op.two("elementwise_mul", cell, seen[place])) if seen else x

    def cell(x: Variable, states: list[Variable]) -> list[Variable]:
        hidden, before = states
        product = op.two("matmul_v2", hidden, recurrence)
        total = op.two("elementwise_add", x, product)
        entry, opened, forget, candidate = _gates(op, total, 4)
        entry = op.one(gate, with_cell(entry, 0, before))
        forget = op.one(gate, with_cell(forget, 2, before))
        kept = op.two("elementwise_mul", forget, before)
        made = op.one(wave, candidate)
        scaled = op.two("elementwise_mul", entry, made)
        new = op.two("elementwise_add", kept, scaled)
        opened = op.one(gate, with_cell(opened, 1, new))
        found = op.one(out, new)
        result = op.two("elementwise_mul", opened, found)
        return [result, new]

    return of_x + of_h, cell


def _gru(layer: _GatedLayer, at: int) -> tuple[Array, Cell]:
    """Gates update, reset, candidate; the reset gate comes before the product or behind it."""
    op = layer.op
    size = layer.size
    of_x, of_h = np.split(layer.biases[at], 2)
    of_gates = op.fixed(layer.recurrence[at][: 2 * size].T)
    of_candidate = op.fixed(layer.recurrence[at][2 * size :].T)
    # the candidate's second bias belongs to its product
    more = op.fixed(of_h[2 * size :])
    gate, wave = _kinds(layer, at)

    def cell(x: Variable, states: list[Variable]) -> list[Variable]:
        hidden = states[0]
        entry = op.part(x, 1, 0, 2 * size)
        of_state = op.two("matmul_v2", hidden, of_gates)
        together = op.two("elementwise_add", entry, of_state)
        gates = op.one(gate, together)
        update, reset = _gates(op, gates, 2)
        if layer.after:
            made = op.two("matmul_v2", hidden, of_candidate)
            product = op.two("elementwise_add", made, more)
            product = op.two("elementwise_mul", reset, product)
        else:
            kept = op.two("elementwise_mul", reset, hidden)
            result = op.two("matmul_v2", kept, of_candidate)
            product = op.two("elementwise_add", result, more)
        part = op.part(x, 1, 2 * size, 3 * size)
        total = op.two("elementwise_add", part, product)
        candidate = op.one(wave, total)
        # (1 - z) candidate + z hidden
        difference = op.two("elementwise_sub", hidden, candidate)
        apart = op.two("elementwise_mul", update, difference)
        found = op.two("elementwise_add", candidate, apart)
        return [found]

    entry = of_x + np.concatenate([of_h[: 2 * size], np.zeros_like(of_h[2 * size :])])
    return entry, cell


_CELLS = {"LSTM": _lstm, "GRU": _gru, "RNN": _simple}
