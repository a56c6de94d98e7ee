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

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import KernelContext, Op, Spec
from fluidlite.ops.kernels.cells import CellForm
from fluidlite.ops.kernels.gated_cells import RESET_AFTER, lstm_form, simple_form
from fluidlite.ops.kernels.last_run import last_run
from fluidlite.ops.kernels.numbers import check_lengths
from fluidlite.ops.kernels.products import shared_product
from fluidlite.ops.kernels.recurrence import TimeSteps, check_first_states, even_steps, ordered_steps
from fluidlite.ops.kernels.recurrent_steps import RecurrentLayer, RecurrentRun, run_rows, run_rows_back
from fluidlite.values.tensor import host

Maybe: TypeAlias = "Array | None"

_MODES = ("GRU", "LSTM", "RNN_RELU", "RNN_TANH")


def _form(mode: str) -> CellForm:
    """The cell of a mode."""
    if mode == "LSTM":
        return lstm_form()
    if mode == "GRU":
        return RESET_AFTER.form(gate_activation="sigmoid", activation="tanh")
    return simple_form(mode.removeprefix("RNN_").lower())


rnn = Op(
    "rnn",
    "Input PreState* WeightList* SequenceLength? -> DropoutState? Reserve? Out State*",
    lod=None,
    random=True,
    drawn_by="dropout_prob",
    constants=("Reserve", "DropoutState"),
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
    idle=("input_size",),
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
    if mode not in _MODES:
        raise ShapeError(f"op 'rnn': mode is {mode!r}, wanted one of {list(_MODES)}")
    if len(WeightList) != 4 * directions * num_layers:
        raise ShapeError(
            f"op 'rnn': WeightList has {len(WeightList)} tensors, wanted {4 * directions * num_layers} for "
            f"{num_layers} layers in {directions} directions"
        )
    wanted = (num_layers * directions, Input.shape[1], hidden_size)
    check_first_states("rnn", wanted, **{f"PreState[{at}]": state for at, state in enumerate(PreState)})
    return {
        "Out": Input.with_shape((*Input.shape[:2], directions * hidden_size)),
        "State": [state.with_shape(state.shape) for state in PreState],
    }


# ---------------------------------------------------------------------- rows and weights
class _BatchRows:
    """The rows of a padded batch [time, batch, ...] of sequences, step by step, longest first."""

    def __init__(self, xp: Any, time: int, batch: int, lengths: Maybe) -> None:
        self.xp, self.time, self.batch = xp, time, batch
        self.index: Array | None = None
        """Their places among all rows, where these are not all."""
        self.order = np.arange(batch)
        """Sequences, longest first."""
        self.steps = [even_steps(xp, time, batch, reverse) for reverse in (False, True)]
        """For each direction."""
        counts = None if lengths is None else host(lengths).reshape(-1)
        if counts is not None:
            check_lengths(np, "rnn", "SequenceLength", counts, batch, time)
        if counts is None or (counts == time).all():
            return
        self.order = np.argsort(-counts, kind="stable")
        ordered = tuple(counts[self.order].tolist())
        self.steps = [ordered_steps(xp, ordered, reverse) for reverse in (False, True)]
        widths = np.diff(self.steps[0].starts)
        ranks = np.arange(len(self.steps[0].rows)) - np.repeat(self.steps[0].starts[:-1], widths)
        self.index = xp.asarray(np.repeat(np.arange(len(widths)), widths) * batch + self.order[ranks])

    def taken(self, X: Array) -> Array:
        """The rows of X [time, batch, ...]."""
        rows = X.reshape(self.time * self.batch, -1)
        return rows if self.index is None else self.xp.take(rows, self.index, axis=0)

    def spread(self, rows: Array) -> Array:
        """The inverse of `taken`, with zeros in other places."""
        if self.index is None:
            return rows.reshape(self.time, self.batch, -1)
        out = self.xp.zeros((self.time * self.batch, rows.shape[1]), rows.dtype)
        out[self.index] = rows
        return out.reshape(self.time, self.batch, -1)

    def first(self, state: Array) -> Array:
        """A state of each sequence [batch, size], longest first."""
        return state if self.index is None else self.xp.take(state, self.xp.asarray(self.order), axis=0)

    def replaced(self, state: Array, found: Array) -> Array:
        """A state of each sequence, with `found` for those that have steps."""
        out = state.copy()
        out[self.xp.asarray(self.order[: len(found)])] = found
        return out


# where a unit of `ops.kernels` has the gates of an input and of a state otherwise than the op
_ENTRY_ORDER = {"LSTM": (2, 0, 1, 3), "GRU": (2, 0, 1)}
_STATE_ORDER = {"LSTM": (2, 0, 1, 3)}


def _reordered(block: Array, order: Sequence[int] | None) -> Array:
    """Blocks of rows in another order."""
    if order is None:
        return block
    return block.reshape(len(order), -1, *block.shape[1:])[list(order)].reshape(block.shape)


def _restored(block: Array, order: Sequence[int] | None) -> Array:
    """The inverse of `_reordered`."""
    return _reordered(block, None if order is None else np.argsort(order).tolist())


class _LayerWeights(NamedTuple):
    """Those of one layer and direction, as the op has them or, for a unit, in its order."""

    entry: Array
    state: Array
    entry_bias: Array
    state_bias: Array

    def ordered(self, mode: str) -> _LayerWeights:
        """In the order of the mode's unit."""
        entry = _ENTRY_ORDER.get(mode)
        state = _STATE_ORDER.get(mode)
        return _LayerWeights(
            _reordered(self.entry, entry),
            _reordered(self.state, state),
            _reordered(self.entry_bias, entry),
            _reordered(self.state_bias, state),
        )

    def restored(self, mode: str) -> _LayerWeights:
        """The inverse of `ordered`."""
        entry = _ENTRY_ORDER.get(mode)
        state = _STATE_ORDER.get(mode)
        return _LayerWeights(
            _restored(self.entry, entry),
            _restored(self.state, state),
            _restored(self.entry_bias, entry),
            _restored(self.state_bias, state),
        )


def _weights(found: list[Array]) -> list[_LayerWeights]:
    half = len(found) // 2
    pairs = range(0, half, 2)
    return [_LayerWeights(found[i], found[i + 1], found[half + i], found[half + i + 1]) for i in pairs]


def _in_order(weights: list[_LayerWeights]) -> list[Array]:
    """The inverse of `_weights`."""
    matrices = [each for one in weights for each in (one.entry, one.state)]
    return matrices + [each for one in weights for each in (one.entry_bias, one.state_bias)]


# ---------------------------------------------------------------------- one layer in one direction
class _DirectionGradients(NamedTuple):
    """Gradients of one layer and direction: of the gates before activation, for the input; of the first
    states of the sequences that have steps; of the weights, in the order of the unit.
    """

    gates: Array
    first: tuple[Array, ...]
    state: Array
    entry_bias: Array
    state_bias: Array


class _LayerDirection:
    """One layer in one direction over a batch; `first` are its states before, longest sequence first."""

    def __init__(
        self,
        ctx: KernelContext,
        xp: Any,
        mode: str,
        weights: _LayerWeights,
        first: tuple[Array, ...],
        steps: TimeSteps,
    ) -> None:
        self.ctx, self.xp, self.mode, self.first, self.steps = ctx, xp, mode, first, steps
        self.weights = weights.ordered(mode)
        first_cells = first[1] if mode == "LSTM" else None
        size = self.weights.state.shape[1]
        state = self.weights.state.T
        self.layer = RecurrentLayer(xp, _form(mode), size, (state,), steps, first[0], first_cells)
        self.run: RecurrentRun | None = None

    def forward(self, x: Array, saves: bool) -> Array:
        """The states of all rows."""
        entry = shared_product(self.ctx, self.xp, x, self.weights.entry.T)
        self.run = run_rows(self.ctx, self.layer, entry, self._bias(), saves)
        return self.run.hidden

    def _bias(self) -> Array:
        """That of a unit's planes."""
        entry = self.weights.entry_bias
        state = self.weights.state_bias
        if self.mode != "GRU":
            return entry + state
        size = len(state) // 3
        return self.xp.concatenate((entry[:size], entry[size:] + state[: 2 * size], state[2 * size :]))

    def last(self) -> tuple[Array, ...]:
        """The last states of the sequences that have steps."""
        assert self.run is not None
        rows = self.xp.asarray(self.steps.last)
        states = [self.run.hidden] if self.run.cells is None else [self.run.hidden, self.run.cells]
        return tuple(self.xp.take(each, rows, axis=0) for each in states)

    def backward(self, d: Array, last: tuple[Maybe, ...]) -> _DirectionGradients:
        """Gradients from those of the states, which are overwritten, and of the last ones."""
        rows = self.xp.asarray(self.steps.last)
        if last[0] is not None:
            d[rows] += last[0][: len(rows)]
        assert self.run is not None
        dcells, last_cells = self._of_cells(self.run.cells, last)
        found = run_rows_back(self.ctx, self.layer, self.run, d, dcells, last_cells)
        first = [each for each in (found.first_states, found.first_cells) if each is not None]
        columns = len(self.weights.entry)
        assert found.weights[0] is not None
        biases = found.bias[:columns], found.bias[-columns:]
        sums = found.sums[:, :columns]
        return _DirectionGradients(sums, tuple(first), found.weights[0].T, *biases)

    def _of_cells(self, cells: Maybe, last: tuple[Maybe, ...]) -> tuple[Maybe, Maybe]:
        """The gradients of all cells, or those of the last ones."""
        if cells is None or last[1] is None:
            return None, None
        running = last[1][: self.steps.running]
        if self.steps.is_steady:
            return None, running
        dcells = self.xp.zeros_like(cells)
        dcells[self.xp.asarray(self.steps.last)] = running
        return dcells, None


# ---------------------------------------------------------------------- all layers
class _RnnLayer(NamedTuple):
    """The rows that a layer reads, and its directions."""

    x: Array
    directions: list[_LayerDirection]


class _RnnStack:
    """All layers over one batch."""

    def __init__(
        self,
        ctx: KernelContext,
        xp: Any,
        mode: str,
        Input: Array,
        PreState: list[Array],
        WeightList: list[Array],
        lengths: Maybe,
        directions: int,
    ) -> None:
        self.ctx, self.xp, self.mode, self.directions = ctx, xp, mode, directions
        self.rows = _BatchRows(xp, Input.shape[0], Input.shape[1], lengths)
        self.Input, self.PreState, self.weights = Input, PreState, _weights(WeightList)
        wanted = (len(self.weights), Input.shape[1], WeightList[1].shape[-1])
        check_first_states("rnn", wanted, **{f"PreState[{at}]": state for at, state in enumerate(PreState)})

    def forward(self, masks: list[Array], saves: bool) -> tuple[Array, list[_RnnLayer]]:
        """The last layer's output [time, batch, ...], and all layers."""
        x, layers = self.rows.taken(self.Input), []
        for start in range(0, len(self.weights), self.directions):
            made = [self._direction(number) for number in range(start, start + self.directions)]
            layers.append(_RnnLayer(x, made))
            outs = [one.forward(x, saves) for one in made]
            x = outs[0] if len(outs) == 1 else self.xp.concatenate(outs, axis=1)
            if len(layers) <= len(masks):
                x = x * self.rows.taken(masks[len(layers) - 1])
        return self.rows.spread(x), layers

    def _direction(self, number: int) -> _LayerDirection:
        first = tuple(self.rows.first(state[number]) for state in self.PreState)
        steps = self.rows.steps[number % self.directions]
        return _LayerDirection(self.ctx, self.xp, self.mode, self.weights[number], first, steps)

    def last(self, layers: list[_RnnLayer]) -> list[Array]:
        """The last states [layers x directions, batch, size]."""
        ends = [one.last() for layer in layers for one in layer.directions]
        return [
            self.xp.stack([self.rows.replaced(*pair) for pair in zip(state, found, strict=True)])
            for state, found in zip(self.PreState, zip(*ends, strict=True), strict=True)
        ]

    def backward(
        self, layers: list[_RnnLayer], dOut: Array, dlast: list[Maybe], masks: list[Array], wants_input: bool
    ) -> tuple[Maybe, list[Array], list[Array]]:
        """The gradients of input, first states and weights."""
        firsts: list[Array] = [
            self.xp.zeros_like(s) if d is None else d.copy() for s, d in self._pairs(dlast)
        ]
        found: list[Any] = [None] * len(self.weights)
        d: Any = self.rows.taken(dOut)
        for layer in range(len(layers) - 1, -1, -1):
            if layer < len(masks):
                d = d * self.rows.taken(masks[layer])
            x, made = layers[layer]
            parts, d = self.xp.split(d, self.directions, axis=1), None
            for number, (one, part) in enumerate(zip(made, parts, strict=True), layer * self.directions):
                ends = tuple(None if each is None else self.rows.first(each[number]) for each in dlast)
                grads = one.backward(part.copy(), ends)
                for state, first in zip(firsts, grads.first, strict=True):
                    state[number] = self.rows.replaced(state[number], first)
                entry = shared_product(self.ctx, self.xp, grads.gates.T, x)
                found[number] = _LayerWeights(entry, *grads[2:]).restored(self.mode)
                if layer or wants_input:
                    dx = shared_product(self.ctx, self.xp, grads.gates, one.weights.entry)
                    d = dx if d is None else d + dx
        return None if d is None else self.rows.spread(d), firsts, _in_order(found)

    def _pairs(self, dlast: list[Maybe]) -> list[tuple[Array, Maybe]]:
        return list(zip(self.PreState, dlast, strict=True))


@rnn.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    PreState: list[Array],
    WeightList: list[Array],
    SequenceLength: Maybe,
    mode: str,
    hidden_size: int,
    num_layers: int,
    is_bidirec: bool,
    dropout_prob: float,
    is_test: bool,
    seed: int,
) -> dict[str, Any]:
    directions = 2 if is_bidirec else 1
    masks: list[Array] = []
    if dropout_prob and not is_test:  # between layers
        shape = (num_layers - 1, *Input.shape[:2], directions * hidden_size)
        kept = ctx.rng(seed).random(shape) >= dropout_prob
        masks = list(xp.asarray(kept.astype(Input.dtype) / Input.dtype.type(1 - dropout_prob)))
    stack = _RnnStack(ctx, xp, mode, Input, PreState, WeightList, SequenceLength, directions)
    out, layers = stack.forward(masks, not is_test)
    if not is_test:
        last_run(ctx, ctx.op.output("Out")[0]).keep(out, layers)
    reserve = xp.stack(masks) if masks else xp.zeros(0, Input.dtype)
    dropout = xp.zeros(0, np.uint8)
    return {"Out": out, "State": stack.last(layers), "Reserve": reserve, "DropoutState": dropout}


rnn_grad = Op(
    "rnn_grad",
    "Input PreState* WeightList* SequenceLength? DropoutState? Reserve? Out Out@GRAD? State@GRAD*? -> "
    "Input@GRAD? PreState@GRAD*? WeightList@GRAD*?",
    attrs=rnn.attr_defs,
    lod=None,
).derive(rnn)


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
    SequenceLength: Maybe,
    Reserve: Maybe,
    Out: Array,
    dOut: Maybe,
    dState: list[Maybe],
    mode: str,
    is_bidirec: bool,
    wants: frozenset[str],
) -> dict[str, Any]:
    """The forward pass is run again where its steps, which the gradient reads, were not kept."""
    directions = 2 if is_bidirec else 1
    masks = list(Reserve) if Reserve is not None and Reserve.size else []
    stack = _RnnStack(ctx, xp, mode, Input, PreState, WeightList, SequenceLength, directions)
    layers = last_run(ctx, ctx.op.input("Out")[0]).take(Out)
    if layers is None:
        _, layers = stack.forward(masks, True)
    given = [*dState, *[None] * (len(PreState) - len(dState))]
    d = xp.zeros_like(Out) if dOut is None else dOut
    found, first, weights = stack.backward(layers, d, given, masks, "Input@GRAD" in wants)
    return {"Input@GRAD": found, "PreState@GRAD": first, "WeightList@GRAD": weights}
