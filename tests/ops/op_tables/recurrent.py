"""Rows for the recurrent ops, against recurrences that go sequence by sequence and row by row, and for the
beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(21)
LENGTHS = [2, 3, 1]
GAPS = [2, 0, 3]


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-0.9, 0.9, shape).astype("float32")


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {"sigmoid": sigmoid, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "identity": lambda x: x}


def by_sequence(rows: Any, lengths: Any, reverse: bool, run: Any) -> tuple[Any, ...]:
    """`run(sequence number, rows)` for each sequence, its results in the order of the rows."""
    found = []
    for i, part in enumerate(np.split(rows, np.cumsum(lengths)[:-1])):
        results = run(i, part[::-1] if reverse else part)
        found.append([result[::-1] if reverse else result for result in results])
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


# ---------------------------------------------------------------------- lstm
def lstm(
    lengths: Any = LENGTHS,
    peepholes: bool = True,
    reverse: bool = False,
    gate: str = "sigmoid",
    cell: str = "tanh",
    candidate: str = "tanh",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    projection: str = "tanh",
) -> Any:
    """The reference for an lstm or lstmp."""

    def run(
        Input: Any, Weight: Any, Bias: Any, H0: Any = None, C0: Any = None, ProjWeight: Any = None
    ) -> Any:
        size = Weight.shape[1] // 4
        bias = Bias[0, : 4 * size]
        wi, wf, wo = Bias[0, 4 * size :].reshape(3, size) if peepholes else np.zeros((3, size))

        def sequence(i: int, rows: Any) -> Any:
            h = np.zeros(len(Weight)) if H0 is None else H0[i]
            c = np.zeros(size) if C0 is None else C0[i]
            hidden, cells = [np.zeros((0, len(Weight)))], [np.zeros((0, size))]
            for row in rows:
                new, entry, forget, output = np.split(row + bias + h @ Weight, 4)
                c = FUNCTIONS[gate](forget + c * wf) * c + FUNCTIONS[gate](entry + c * wi) * FUNCTIONS[
                    candidate
                ](new)
                c = np.clip(c, -cell_clip, cell_clip) if cell_clip else c
                h = FUNCTIONS[gate](output + c * wo) * FUNCTIONS[cell](c)
                if ProjWeight is not None:
                    h = FUNCTIONS[projection](h @ ProjWeight)
                    h = np.clip(h, -proj_clip, proj_clip) if proj_clip else h
                hidden.append(h[None])
                cells.append(c[None])
            return np.concatenate(hidden), np.concatenate(cells)

        return by_sequence(Input, lengths, reverse, sequence)

    return run


def lstm_case(
    name: str,
    lengths: Any = LENGTHS,
    first: bool = False,
    projected: int = 0,
    wants: Sequence[str] = (),
    **options: Any,
) -> Case:
    """One row; the options are those of the reference."""
    size, peepholes = 2, options.get("peepholes", True)
    inputs = {
        "Input": (floats(sum(lengths), 4 * size), [lengths]),
        "Weight": floats(projected or size, 4 * size),
        "Bias": floats(1, (7 if peepholes else 4) * size),
    }
    if first:
        inputs |= {"H0": floats(len(lengths), projected or size), "C0": floats(len(lengths), size)}
    if projected:
        inputs["ProjWeight"] = floats(size, projected)
    names = {
        "gate": "gate_activation",
        "cell": "cell_activation",
        "candidate": "candidate_activation",
        "peepholes": "use_peepholes",
        "reverse": "is_reverse",
        "projection": "proj_activation",
    }
    outputs = ["BatchGate", "BatchCellPreAct"] + ["BatchHidden"] * bool(projected)
    return Case(
        "lstmp" if projected else "lstm",
        inputs,
        lstm(lengths, **options),
        {names.get(key, key): value for key, value in options.items()},
        grad=list(inputs),
        ignore=outputs,
        wants=wants,
        lods={"Projection" if projected else "Hidden": [lengths], "Cell": [lengths]},
        name=name,
    )


LSTM = [
    lstm_case(""),
    lstm_case("plain", peepholes=False),
    lstm_case("reverse", reverse=True),
    lstm_case("first", first=True),
    lstm_case("first plain reverse", first=True, peepholes=False, reverse=True),
    lstm_case("empty", lengths=GAPS, first=True),
    lstm_case("activations", gate="tanh", cell="relu", candidate="sigmoid"),
    lstm_case("identities", cell="identity", candidate="identity"),
    lstm_case("one row", lengths=[1]),
    lstm_case("", projected=1),
    lstm_case("plain reverse", projected=1, peepholes=False, reverse=True),
    lstm_case("first", projected=3, first=True),
    lstm_case("identity", projected=1, projection="identity", first=True),
    lstm_case("clip", projected=1, cell_clip=0.3, proj_clip=0.1, projection="identity"),
    lstm_case("clipped cells", projected=1, cell_clip=0.3, first=True),
    lstm_case("clipped states", projected=1, proj_clip=0.1),
    lstm_case("cells", wants=["Hidden", "Cell"], first=True),
    lstm_case("cells alone", wants=["Cell"], reverse=True, lengths=GAPS),
    lstm_case("cells", projected=1, wants=["Projection", "Cell"], cell_clip=0.3, peepholes=False),
]


# ---------------------------------------------------------------------- gru
def gru_step(row: Any, h: Any, Weight: Any, gate: Any, candidate: Any, origin_mode: bool) -> tuple[Any, ...]:
    """(gates, reset state, new state)."""
    size = len(Weight)
    flat = Weight.reshape(-1)
    update, reset = np.split(
        gate(row[..., : 2 * size] + h @ flat[: 2 * size * size].reshape(size, -1)), 2, axis=-1
    )
    new = candidate(row[..., 2 * size :] + (reset * h) @ flat[2 * size * size :].reshape(size, size))
    h, old = (update * h + (1 - update) * new if origin_mode else (1 - update) * h + update * new), h
    return np.concatenate([update, reset, new], axis=-1), reset * old, h


def gru(
    lengths: Any = LENGTHS,
    reverse: bool = False,
    gate: str = "sigmoid",
    candidate: str = "tanh",
    origin_mode: bool = False,
) -> Any:
    """The reference for a gru."""

    def run(Input: Any, Weight: Any, Bias: Any = None, H0: Any = None) -> Any:
        def sequence(i: int, rows: Any) -> Any:
            h = np.zeros(len(Weight)) if H0 is None else H0[i]
            hidden = [np.zeros((0, len(Weight)))]
            for row in rows:
                h = gru_step(
                    row if Bias is None else row + Bias[0],
                    h,
                    Weight,
                    FUNCTIONS[gate],
                    FUNCTIONS[candidate],
                    origin_mode,
                )[2]
                hidden.append(h[None])
            return (np.concatenate(hidden),)

        return {"Hidden": by_sequence(Input, lengths, reverse, sequence)[0]}

    return run


def gru_case(
    name: str, lengths: Any = LENGTHS, first: bool = False, bias: bool = True, **options: Any
) -> Case:
    """One row."""
    inputs = {"Input": (floats(sum(lengths), 6), [lengths]), "Weight": floats(2, 6)}
    inputs |= {"Bias": floats(1, 6)} if bias else {}
    inputs |= {"H0": floats(len(lengths), 2)} if first else {}
    names = {"gate": "gate_activation", "candidate": "activation", "reverse": "is_reverse"}
    return Case(
        "gru",
        inputs,
        gru(lengths, **options),
        {names.get(key, key): value for key, value in options.items()},
        grad=list(inputs),
        ignore=["BatchGate", "BatchResetHiddenPrev", "BatchHidden"],
        lods={"Hidden": [lengths]},
        wants=["Hidden"],
        name=name,
    )


def gru_unit(gate: str, candidate: str, origin_mode: bool = False) -> Any:
    """The reference for a gru_unit."""

    def run(Input: Any, HiddenPrev: Any, Weight: Any, Bias: Any = 0) -> Any:
        found = gru_step(Input + Bias, HiddenPrev, Weight, FUNCTIONS[gate], FUNCTIONS[candidate], origin_mode)
        return dict(zip(("Gate", "ResetHiddenPrev", "Hidden"), found, strict=True))

    return run


UNIT = {"Input": floats(4, 9), "HiddenPrev": floats(4, 3), "Weight": floats(3, 9), "Bias": floats(1, 9)}
GRU = [
    gru_case(""),
    gru_case("reverse", reverse=True, bias=False),
    gru_case("first", first=True),
    gru_case("empty", lengths=GAPS),
    gru_case("origin", first=True, origin_mode=True),
    gru_case("origin reverse", origin_mode=True, reverse=True),
    gru_case("activations", gate="tanh", candidate="relu", first=True),
    gru_case("identities", gate="sigmoid", candidate="identity"),
    Case(
        "gru_unit",
        UNIT,
        gru_unit("sigmoid", "tanh"),
        grad=list(UNIT),
        wants=["Hidden"],
        ignore=["Gate", "ResetHiddenPrev"],
    ),
    Case(
        "gru_unit",
        {slot: UNIT[slot] for slot in ("Input", "HiddenPrev", "Weight")},
        gru_unit("tanh", "sigmoid"),
        {"activation": 1, "gate_activation": 2},
        grad=["Input", "HiddenPrev", "Weight"],
        wants=["Hidden"],
        ignore=["Gate", "ResetHiddenPrev"],
        name="no bias",
    ),
    Case(
        "gru_unit",
        UNIT,
        gru_unit("sigmoid", "relu", True),
        {"activation": 3, "origin_mode": True},
        grad=list(UNIT),
        wants=["Hidden"],
        ignore=["Gate", "ResetHiddenPrev"],
        name="origin",
    ),
]


# ---------------------------------------------------------------------- one step of an lstm
def lstm_unit(forget_bias: float) -> Any:
    """The reference for an lstm_unit."""

    def run(X: Any, C_prev: Any) -> Any:
        entry, forget, output, new = np.split(X, 4, axis=1)
        cells = sigmoid(forget + forget_bias) * C_prev + sigmoid(entry) * np.tanh(new)
        return cells, sigmoid(output) * np.tanh(cells)

    return run


LSTM += [
    Case(
        "lstm_unit",
        {"X": floats(3, 8), "C_prev": floats(3, 2)},
        lstm_unit(0.5),
        {"forget_bias": 0.5},
        grad=["X", "C_prev"],
        wants=slots,
        name=" ".join(slots),
    )
    for slots in (["C", "H"], ["C"], ["H"])
]


# ---------- stacked lstm, weights in cuDNN's order
def stacked(layers: int, directions: int) -> Any:
    """The reference for a cudnn_lstm: weights taken one by one off the front of W, biases as well."""

    def run(Input: Any, InitH: Any, InitC: Any, W: Any) -> Any:
        size, steps = InitH.shape[2], Input
        weights, at = [], 0
        for features in [Input.shape[2]] * directions + [directions * size] * (layers - 1) * directions:
            weights.append([])
            for columns in [features] * 4 + [size] * 4:
                weights[-1].append(W[at : at + size * columns].reshape(size, columns))
                at += size * columns
        biases = W[at:].reshape(-1, 8, size)
        last_h, last_c = [], []
        for layer in range(layers):
            outs = []
            for direction in range(directions):
                k = layer * directions + direction
                h, c, states = InitH[k], InitC[k], []
                for x in steps[::-1] if direction else steps:
                    i, f, g, o = (
                        x @ weights[k][n].T + h @ weights[k][4 + n].T + biases[k][n] + biases[k][4 + n]
                        for n in range(4)
                    )
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                    states.append(h)
                outs.append(np.stack(states[::-1] if direction else states))
                last_h.append(h)
                last_c.append(c)
            steps = np.concatenate(outs, axis=2)
        return steps, np.stack(last_h), np.stack(last_c)

    return run


def stacked_case(layers: int, directions: int, name: str) -> Case:
    """One row: 3 steps of 2 sequences of 3 features, states of 2."""
    weights = sum(directions * 8 * (features + 4) for features in [3] + [2 * directions] * (layers - 1))
    inputs = {
        "Input": floats(3, 2, 3),
        "InitH": floats(layers * directions, 2, 2),
        "InitC": floats(layers * directions, 2, 2),
        "W": floats(weights),
    }
    return Case(
        "cudnn_lstm",
        inputs,
        stacked(layers, directions),
        {
            "hidden_size": 2,
            "num_layers": layers,
            "is_bidirec": directions == 2,
            "input_size": 3,
            "max_len": 3,
        },
        grad=list(inputs),
        wants=["Out", "last_h", "last_c"],
        name=name,
    )


STACKED = [stacked_case(1, 1, "one"), stacked_case(2, 1, "two layers"), stacked_case(2, 2, "both ways")]

# ---------- beam search, checked with PaddlePaddle 1.8.5
PREFIXES = [[2, 1], [1, 1, 1]]
SCORES = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.2, 0.9, 0.4]], "float32")
CHOICES = np.array([[4, 2, 5], [2, 1, 3], [3, 5, 2]])
ENDED = np.array([[1], [0], [1]])
TOTALS = np.array([[0.55], [0.2], [0.1]], "float32")


def beam_case(
    name: str, beam_size: int, pre_ids: Any, lengths: Any, ids: Any, scores: Any, rows: Any, **attrs: Any
) -> Case:
    """One row: what is selected, in the order of the prefixes, with the score and the prefix of each."""
    inputs = {
        "pre_ids": (pre_ids, PREFIXES),
        "pre_scores": (TOTALS, PREFIXES),
        "ids": (CHOICES, PREFIXES),
        "scores": (SCORES, PREFIXES),
    }
    lods = [PREFIXES[0], lengths]
    return Case(
        "beam_search",
        inputs,
        {
            "selected_ids": np.array(ids).reshape(-1, 1),
            "selected_scores": np.array(scores).reshape(-1, 1),
            "parent_idx": np.array(rows),
        },
        {"level": 0, "beam_size": beam_size, "end_id": 1, **attrs},
        lods={"selected_ids": lods, "selected_scores": lods},
        name=name,
    )


BEAMS = [
    beam_case("", 2, np.zeros((3, 1), "int64"), [1, 1, 2], [4, 2, 5, 2], [0.5, 0.6, 0.9, 0.4], [0, 1, 2, 2]),
    beam_case("ended", 2, ENDED, [1, 1, 0], [1, 2], [0.55, 0.6], [0, 1]),
    beam_case(
        "products",
        2,
        np.zeros((3, 1), "int64"),
        [1, 1, 2],
        [4, 2, 5, 2],
        [0.55 + np.log(0.5), 0.2 + np.log(0.6), 0.1 + np.log(0.9), 0.1 + np.log(0.4)],
        [0, 1, 2, 2],
        is_accumulated=False,
    ),
]

CASES = LSTM + GRU + STACKED + BEAMS
