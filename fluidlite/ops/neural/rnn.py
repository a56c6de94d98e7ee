"""The op `rnn` of PaddlePaddle 2.x: stacked LSTM, GRU or simple recurrence over a padded batch [time,
batch, features], in one or both directions.

WeightList holds for each layer and direction the weights of the input [gates * size, features] and of the
state [gates * size, size], and after all of these their biases. Gates are i, f, g, o of an LSTM and r, z, c
of a GRU:

    c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')
    h' = z h + (1 - z) tanh(x_c + r h_c)

Steps beyond a sequence's length leave its state as it is, and their outputs are zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import KernelContext, Op, Spec
from fluidlite.ops.kernels.last_run import last_run

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

rnn = Op(
    "rnn",
    "Input PreState* WeightList* SequenceLength? -> DropoutState? Reserve? Out State*",
    lod=None,
    random=True,
    attrs={
        "dropout_prob": 0.0,
        "is_bidirec": False,
        "input_size": 10,
        "hidden_size": 100,
        "num_layers": 1,
        "mode": "RNN_TANH",
        "is_test": False,
        "seed": 0,
    },
)


@rnn.shape
def _(
    Input: Spec,
    PreState: list[Spec],
    WeightList: list[Spec],
    mode: str,
    hidden_size: int,
    num_layers: int,
    is_bidirec: bool,
) -> dict[str, Any]:
    directions = 2 if is_bidirec else 1
    if len(Input.shape) != 3:
        raise ShapeError(f"op 'rnn': Input has shape {list(Input.shape)}, wanted [time, batch, features]")
    if mode not in GATES:
        raise ShapeError(f"op 'rnn': mode is {mode!r}, wanted one of {sorted(GATES)}")
    if len(WeightList) != 4 * directions * num_layers:
        raise ShapeError(
            f"op 'rnn': WeightList has {len(WeightList)} tensors, wanted {4 * directions * num_layers} for "
            f"{num_layers} layers in {directions} directions"
        )
    return {
        "Out": Input.with_shape((*Input.shape[:2], directions * hidden_size)),
        "State": [state.with_shape(state.shape) for state in PreState],
    }


# ---------------------------------------------------------------------- one layer in one direction
@dataclass
class _CellWeights:
    """The weights and biases of one layer and direction."""

    entry: Array
    state: Array
    entry_bias: Array
    state_bias: Array


def _weights(found: list[Array]) -> list[_CellWeights]:
    half = len(found) // 2
    pairs = range(0, half, 2)
    return [_CellWeights(found[i], found[i + 1], found[half + i], found[half + i + 1]) for i in pairs]


def _in_order(weights: list[_CellWeights]) -> list[Array]:
    """The inverse of `_weights`."""
    matrices = [each for one in weights for each in (one.entry, one.state)]
    return matrices + [each for one in weights for each in (one.entry_bias, one.state_bias)]


def _sigmoid(xp: Any, x: Array) -> Array:
    half: Array = 0.5 * xp.tanh(0.5 * x) + 0.5  # cannot overflow
    return half


@dataclass
class _CellStep:
    """The values of one step that its gradient reads."""

    x: Array
    before: tuple[Array, ...]
    gates: tuple[Array, ...]
    mask: Array | None


def _lstm(xp: Any, entry: Array, state: Array, before: tuple[Array, ...]) -> tuple[Any, Any]:
    i, f, g, o = xp.split(entry + state, 4, axis=-1)
    i, f, o, g = _sigmoid(xp, i), _sigmoid(xp, f), _sigmoid(xp, o), xp.tanh(g)
    cell = f * before[1] + i * g
    shown = xp.tanh(cell)
    return (o * shown, cell), (i, f, g, o, shown)


def _lstm_back(
    xp: Any, step: _CellStep, d: tuple[Array, ...]
) -> tuple[Array, Array, tuple[Array | None, Array]]:
    i, f, g, o, shown = step.gates
    d_cell = d[1] + d[0] * o * (1 - shown * shown)
    parts = (
        d_cell * g * i * (1 - i),
        d_cell * step.before[1] * f * (1 - f),
        d_cell * i * (1 - g * g),
        d[0] * shown * o * (1 - o),
    )
    joined = xp.concatenate(parts, axis=-1)
    return joined, joined, (None, d_cell * f)


def _gru(xp: Any, entry: Array, state: Array, before: tuple[Array, ...]) -> tuple[Any, Any]:
    (xr, xz, xc), (hr, hz, hc) = xp.split(entry, 3, axis=-1), xp.split(state, 3, axis=-1)
    r, z = _sigmoid(xp, xr + hr), _sigmoid(xp, xz + hz)
    c = xp.tanh(xc + r * hc)
    return ((before[0] - c) * z + c,), (r, z, c, hc)


def _gru_back(
    xp: Any, step: _CellStep, d: tuple[Array, ...]
) -> tuple[Array, Array, tuple[Array | None, ...]]:
    r, z, c, hc = step.gates
    d_c = d[0] * (1 - z) * (1 - c * c)
    d_r, d_z = d_c * hc * r * (1 - r), d[0] * (step.before[0] - c) * z * (1 - z)
    entry = xp.concatenate((d_r, d_z, d_c), axis=-1)
    return entry, xp.concatenate((d_r, d_z, d_c * r), axis=-1), (d[0] * z,)


def _simple(mode: str) -> Any:
    def forward(xp: Any, entry: Array, state: Array, before: tuple[Array, ...]) -> tuple[Any, Any]:
        total = entry + state
        out = xp.tanh(total) if mode == "RNN_TANH" else xp.maximum(total, 0)
        return (out,), (out,)

    def backward(
        xp: Any, step: _CellStep, d: tuple[Array, ...]
    ) -> tuple[Array, Array, tuple[Array | None, ...]]:
        out = step.gates[0]
        slope = d[0] * (1 - out * out if mode == "RNN_TANH" else (out > 0))
        return slope, slope, (None,)

    return forward, backward


_CELLS = {
    "LSTM": (_lstm, _lstm_back),
    "GRU": (_gru, _gru_back),
    "RNN_TANH": _simple("RNN_TANH"),
    "RNN_RELU": _simple("RNN_RELU"),
}


@dataclass
class _DirectionRun:
    """A layer's run in one direction: outputs, last states, and its steps in the order in which they ran."""

    outs: Array
    last: tuple[Array, ...]
    steps: list[tuple[int, _CellStep]]


def _run(
    xp: Any,
    mode: str,
    x: Array,
    weights: _CellWeights,
    start: tuple[Array, ...],
    lengths: Any,
    backwards: bool,
) -> _DirectionRun:
    forward, _ = _CELLS[mode]
    # one product for all steps: the input does not depend on the state
    entries = x @ weights.entry.T + weights.entry_bias
    outs = xp.zeros((*x.shape[:2], start[0].shape[-1]), x.dtype)
    state, steps = start, []
    for time in _times(len(x), backwards):
        made, gates = forward(xp, entries[time], state[0] @ weights.state.T + weights.state_bias, state)
        mask = None if lengths is None else (lengths > time)[:, None]
        steps.append((time, _CellStep(x[time], state, gates, mask)))
        if mask is None:
            outs[time], state = made[0], made
        else:
            outs[time] = made[0] * mask
            state = tuple(xp.where(mask, new, old) for new, old in zip(made, state, strict=True))
    return _DirectionRun(outs, state, steps)


def _times(count: int, backwards: bool) -> Iterator[int]:
    return iter(range(count - 1, -1, -1) if backwards else range(count))


def _run_back(
    xp: Any, mode: str, run: _DirectionRun, weights: _CellWeights, d_outs: Array, d_last: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...], _CellWeights]:
    """The gradients of input, first states and weights."""
    _, backward = _CELLS[mode]
    rows = dict(run.steps)
    d_entries: list[Any] = [None] * len(d_outs)
    d_states: list[Any] = [None] * len(d_outs)
    d_state = d_last
    for time, step in reversed(run.steps):
        d_out = d_outs[time]
        through = d_state
        if step.mask is not None:
            d_out = d_out * step.mask
            through = tuple(d * step.mask for d in d_state)
        entry, state, direct = backward(xp, step, (through[0] + d_out, *through[1:]))
        d_entries[time], d_states[time] = entry, state
        earlier = [state @ weights.state, *(xp.zeros_like(d) for d in d_state[1:])]
        for index, part in enumerate(direct):
            earlier[index] = earlier[index] if part is None else earlier[index] + part
        if step.mask is not None:  # a step beyond the end hands the gradient on
            earlier = [new + d * ~step.mask for new, d in zip(earlier, d_state, strict=True)]
        d_state = tuple(earlier)
    d_entry, d_hidden = xp.stack(d_entries), xp.stack(d_states)
    x = xp.stack([rows[time].x for time in range(len(d_outs))])
    before = xp.stack([rows[time].before[0] for time in range(len(d_outs))])
    found = _CellWeights(
        xp.tensordot(d_entry, x, axes=((0, 1), (0, 1))),
        xp.tensordot(d_hidden, before, axes=((0, 1), (0, 1))),
        d_entry.sum((0, 1)),
        d_hidden.sum((0, 1)),
    )
    return d_entry @ weights.entry, d_state, found


# ---------------------------------------------------------------------- all layers
def _layers(
    xp: Any,
    mode: str,
    Input: Array,
    PreState: list[Array],
    WeightList: list[Array],
    lengths: Any,
    directions: int,
    masks: list[Array],
) -> tuple[Array, list[_DirectionRun]]:
    """The last layer's output, and the runs of all layers and directions."""
    weights, runs, x = _weights(WeightList), [], Input
    for number, one in enumerate(weights):
        start = tuple(state[number] for state in PreState)
        runs.append(_run(xp, mode, x, one, start, lengths, number % directions == 1))
        if (number + 1) % directions == 0:
            layer = number // directions
            x = xp.concatenate([run.outs for run in runs[-directions:]], axis=-1)
            if layer < len(masks):
                x = x * masks[layer]
    return x, runs


@rnn.kernel
def _(
    xp: Any,
    Input: Array,
    PreState: list[Array],
    WeightList: list[Array],
    SequenceLength: Array | None,
    mode: str,
    hidden_size: int,
    num_layers: int,
    is_bidirec: bool,
    dropout_prob: float,
    is_test: bool,
    seed: int,
    ctx: Any,
) -> dict[str, Any]:
    directions = 2 if is_bidirec else 1
    masks: list[Array] = []
    if dropout_prob and not is_test:  # between layers
        shape = (num_layers - 1, *Input.shape[:2], directions * hidden_size)
        kept = ctx.rng(seed).random(shape) >= dropout_prob
        masks = list(xp.asarray(kept.astype(Input.dtype) / Input.dtype.type(1 - dropout_prob)))
    x, runs = _layers(xp, mode, Input, PreState, WeightList, SequenceLength, directions, masks)
    if not is_test:
        last_run(ctx, ctx.op.output("Out")[0]).keep(x, runs)
    states = [xp.stack(each) for each in zip(*(run.last for run in runs), strict=True)]
    reserve = xp.stack(masks) if masks else xp.zeros(0, Input.dtype)
    return {"Out": x, "State": states, "Reserve": reserve, "DropoutState": xp.zeros(0, np.uint8)}


rnn_grad = Op(
    "rnn_grad",
    "Input PreState* WeightList* SequenceLength? DropoutState? Reserve? Out Out@GRAD? State@GRAD*? -> "
    "Input@GRAD? PreState@GRAD*? WeightList@GRAD*?",
    attrs=rnn.attr_defs,
    lod=None,
)


@rnn.grad_rule("Input PreState WeightList")
def _(context: Any) -> None:
    inputs = {slot: context.input(slot) for slot in ("Input", "PreState", "WeightList", "SequenceLength")}
    inputs.update({slot: context.output(slot) for slot in ("DropoutState", "Reserve", "Out")})
    inputs.update({f"{slot}@GRAD": context.out_grad(slot) for slot in ("Out", "State")})
    wrt = ("Input", "PreState", "WeightList")
    context.emit("rnn_grad", inputs, {f"{slot}@GRAD": context.in_grad(slot) for slot in wrt})


@rnn_grad.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    PreState: list[Array],
    WeightList: list[Array],
    SequenceLength: Array | None,
    Reserve: Array | None,
    Out: Array,
    dOut: Array | None,
    dState: list[Array | None],
    mode: str,
    is_bidirec: bool,
) -> dict[str, Any]:
    """The forward pass is run again where its steps, which the gradient reads, were not kept."""
    directions = 2 if is_bidirec else 1
    masks = list(Reserve) if Reserve is not None and Reserve.size else []
    runs = last_run(ctx, ctx.op.input("Out")[0]).take(Out)
    if runs is None:
        _, runs = _layers(xp, mode, Input, PreState, WeightList, SequenceLength, directions, masks)
    given = [*dState, *[None] * (len(PreState) - len(dState))]
    last = [xp.zeros_like(s) if d is None else d for s, d in zip(PreState, given, strict=True)]
    weights: list[_CellWeights] = _weights(WeightList)
    found: list[Any] = [None] * len(runs)
    first = [xp.zeros_like(state) for state in PreState]
    d = xp.zeros_like(Out) if dOut is None else dOut
    for layer in range(len(runs) // directions - 1, -1, -1):
        if layer < len(masks):
            d = d * masks[layer]
        parts = xp.split(d, directions, axis=-1)
        total: Any = 0
        for number in range(layer * directions, (layer + 1) * directions):
            ends = tuple(each[number] for each in last)
            part = parts[number % directions]
            dx, starts, found[number] = _run_back(xp, mode, runs[number], weights[number], part, ends)
            total = total + dx
            for each, value in zip(first, starts, strict=True):
                each[number] = value
        d = total
    return {"Input@GRAD": d, "PreState@GRAD": first, "WeightList@GRAD": _in_order(found)}
