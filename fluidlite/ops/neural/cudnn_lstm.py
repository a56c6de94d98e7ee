"""Stacked long short-term memory over a padded batch [time, batch, features], its weights in cuDNN's order in
one vector.

For each layer and direction first the weights: four matrices [size, features] for the input, then four [size,
size] for the state; after all of these, for each layer and direction, four biases for the input and four for
the state. Four stand for input gate, forget gate, candidate and output gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import KernelContext, Op, Spec
from fluidlite.ops.kernels.gated_cells import lstm_form
from fluidlite.ops.kernels.last_run import LastRun, last_run
from fluidlite.ops.kernels.products import shared_product
from fluidlite.ops.kernels.recurrence import check_first_states, even_steps
from fluidlite.ops.kernels.recurrent_steps import (
    RecurrentGradients,
    RecurrentLayer,
    RecurrentRun,
    run_rows,
    run_rows_back,
)

_GATES = (2, 0, 1, 3)  # `ops.lstm` has the candidate first

cudnn_lstm = Op(
    "cudnn_lstm",
    "Input InitH InitC W Cache? -> Out last_h last_c",
    lod=None,
    random=True,
    attrs={
        "max_len": 20,
        "dropout_prob": 0.0,
        "is_bidirec": False,
        "input_size": 10,
        "hidden_size": 100,
        "num_layers": 1,
        "is_test": False,
        "seed": -1,
    },
    idle=("input_size", "max_len"),
    version=1,
    alike=("Input", "InitH", "InitC", "W"),
)


def _sizes(columns: int, hidden_size: int, num_layers: int, directions: int) -> list[int]:
    """Number of features that each layer reads."""
    return [columns] + [directions * hidden_size] * (num_layers - 1)


@cudnn_lstm.shape
def _(
    Input: Spec, InitH: Spec, InitC: Spec, W: Spec, hidden_size: int, num_layers: int, is_bidirec: bool
) -> tuple[Spec, Spec, Spec]:
    directions = 2 if is_bidirec else 1
    if len(Input.shape) != 3:
        raise ShapeError(
            f"op 'cudnn_lstm': Input has shape {list(Input.shape)}, wanted [time, batch, features]"
        )
    weights = sum(
        4 * hidden_size * (size + hidden_size + 2)
        for size in _sizes(Input.shape[2], hidden_size, num_layers, directions)
    )
    if len(W.shape) != 1 or not fits(W.shape[0], directions * weights):
        raise ShapeError(
            f"op 'cudnn_lstm': W has shape {list(W.shape)}, wanted {directions * weights} numbers for "
            f"{num_layers} layers of {hidden_size} over {Input.shape[2]} features"
        )
    wanted = (num_layers * directions, Input.shape[1], hidden_size)
    check_first_states("cudnn_lstm", wanted, InitH=InitH, InitC=InitC)
    return (
        Input.with_shape((*Input.shape[:2], directions * hidden_size)),
        InitH.with_shape(InitH.shape),
        InitC.with_shape(InitC.shape),
    )


# ---------------------------------------------------------------------- weights
class _Weights(NamedTuple):
    """Those of one layer and direction, gates in the order of `ops.lstm`: [4 size, features], [4 size,
    size], [4 size].
    """

    entry: Array
    state: Array
    bias: Array


def _reordered(block: Array, size: int, order: Sequence[int]) -> Array:
    """Four blocks of `size` rows in another order."""
    return block.reshape(4, size, -1)[list(order)].reshape(4 * size, -1)


def _cut(W: Array, sizes: Sequence[int], size: int, directions: int) -> list[_Weights]:
    """The weights of each layer and direction."""
    matrices, at = [], 0
    for features in np.repeat(sizes, directions).tolist():
        parts = []
        for columns in (features, size):
            parts.append(_reordered(W[at : at + 4 * size * columns], size, _GATES))
            at += 4 * size * columns
        matrices.append(parts)
    biases = W[at:].reshape(len(matrices), 2, -1).sum(axis=1)
    return [
        _Weights(entry, state, _reordered(bias, size, _GATES).reshape(-1))
        for (entry, state), bias in zip(matrices, biases, strict=True)
    ]


def _joined(xp: Any, gradients: Sequence[_Weights], size: int) -> Array:
    """The inverse of `_cut`, for gradients."""
    back = np.argsort(_GATES).tolist()
    matrices = [
        _reordered(part, size, back).reshape(-1) for found in gradients for part in (found.entry, found.state)
    ]
    biases = [_reordered(found.bias, size, back).reshape(-1) for found in gradients for _ in range(2)]
    return xp.concatenate(matrices + biases)


# ---------------------------------------------------------------------- a run
class _Layer(NamedTuple):
    """Inputs of one layer, and what each of its directions saved for the backward pass."""

    entry: Array
    tapes: list[RecurrentRun]


class _LstmStack:
    """All layers over one batch."""

    def __init__(
        self,
        xp: Any,
        ctx: KernelContext,
        Input: Array,
        InitH: Array,
        InitC: Array,
        W: Array,
        hidden_size: int,
        num_layers: int,
        is_bidirec: bool,
    ) -> None:
        self.ctx = ctx
        self.xp, self.size, self.directions, self.layers = xp, hidden_size, 2 if is_bidirec else 1, num_layers
        self.time, self.batch, features = Input.shape
        self.InitH, self.InitC = InitH, InitC
        wanted = (self.layers * self.directions, self.batch, self.size)
        check_first_states("cudnn_lstm", wanted, InitH=InitH, InitC=InitC)
        sizes = _sizes(features, hidden_size, num_layers, self.directions)
        self.weights = _cut(W, sizes, hidden_size, self.directions)
        self.steps = even_steps(xp, self.time, self.batch)

    def layer(self, k: int) -> RecurrentLayer:
        """One layer in one direction."""
        weights = (self.weights[k].state.T,)
        first = self.InitH[k], self.InitC[k]
        return RecurrentLayer(self.xp, lstm_form(), self.size, weights, self.steps, *first)

    def turned(self, X: Array, direction: int) -> Array:
        """[time, batch, ...] in the order in which the direction goes through it."""
        return X[::-1] if direction else X

    def rows(self, X: Array) -> Array:
        """[time x batch, ...]."""
        return X.reshape(self.time * self.batch, -1)

    def steps_of(self, rows: Array) -> Array:
        """[time, batch, ...]."""
        return rows.reshape(self.time, self.batch, -1)

    def forward(self, Input: Array, masks: Iterator[Array | None]) -> tuple[Array, list[_Layer]]:
        """The last layer's states, and the layers."""
        X, layers = Input, []
        for layer in range(self.layers):
            tapes = []
            for direction in range(self.directions):
                k = layer * self.directions + direction
                weights = self.weights[k]
                rows = self.rows(self.turned(X, direction))
                entry = shared_product(self.ctx, self.xp, rows, weights.entry.T)
                tapes.append(run_rows(self.ctx, self.layer(k), entry, weights.bias))
            layers.append(_Layer(X, tapes))
            X = self.xp.concatenate(
                [self.turned(self.steps_of(tape.hidden), i) for i, tape in enumerate(tapes)], axis=2
            )
            mask = next(masks) if layer + 1 < self.layers else None
            X = X if mask is None else X * mask
        return X, layers

    def last(self, layers: list[_Layer], name: str) -> Array:
        """[layers x directions, batch, size] of the last step of the tapes' part `name`."""
        return self.xp.stack([getattr(tape, name)[-self.batch :] for layer in layers for tape in layer.tapes])

    def backward(
        self,
        layers: list[_Layer],
        d: Array,
        dlast: tuple[Array | None, Array | None],
        masks: Sequence[Array | None],
    ) -> tuple[Array, list[RecurrentGradients], list[_Weights]]:
        """Gradients of the input, and of each layer and direction."""
        found: dict[int, tuple[RecurrentGradients, _Weights]] = {}
        for number in reversed(range(self.layers)):
            layer = layers[number]
            dentry = self.xp.zeros_like(layers[number].entry)
            for direction, tape in enumerate(layer.tapes):
                k = number * self.directions + direction
                part = self.turned(d[:, :, direction * self.size : (direction + 1) * self.size], direction)
                found[k] = self._one(
                    k, tape, self.turned(layer.entry, direction), self.rows(part).copy(), dlast
                )
                back = shared_product(self.ctx, self.xp, found[k][0].sums, self.weights[k].entry)
                dentry += self.turned(self.steps_of(back), direction)
            mask = masks[number - 1] if number else None
            d = dentry if mask is None else dentry * mask
        ordered = [found[k] for k in sorted(found)]
        return d, [gradients for gradients, _ in ordered], [weights for _, weights in ordered]

    def _one(
        self, k: int, tape: RecurrentRun, entry: Array, d: Array, dlast: tuple[Array | None, Array | None]
    ) -> tuple[RecurrentGradients, _Weights]:
        """Gradients of one layer and direction, from that of its states."""
        dstate, dcells = (None if part is None else part[k] for part in dlast)
        if dstate is not None:
            d[-self.batch :] += dstate
        found = run_rows_back(self.ctx, self.layer(k), tape, d, last_cells=dcells)
        assert found.weights[0] is not None
        entry_gradient = shared_product(self.ctx, self.xp, found.sums.T, self.rows(entry))
        return found, _Weights(entry_gradient, found.weights[0].T, found.bias)


def _last_run(ctx: KernelContext) -> LastRun | None:
    """The object that keeps layers beside the variable Cache; None for an op without one."""
    names = ctx.op.input("Cache")
    return last_run(ctx, names[0]) if names else None


# ---------------------------------------------------------------------- dropout between the layers
def _masks(stack: _LstmStack, dtype: Any, probability: float, seed: int | None) -> list[Array | None]:
    """Factors of dropout between two layers; None for all with nothing to drop."""
    if seed is None:
        return [None] * (stack.layers - 1)
    shape = (stack.layers - 1, stack.time, stack.batch, stack.directions * stack.size)
    kept = np.random.default_rng(seed).random(shape, "float32") >= probability
    return list(stack.xp.asarray(kept * dtype.type(1 / (1 - probability) if probability < 1 else 0)))


def _seed(ctx: KernelContext, dropout_prob: float, is_test: bool, seed: int, advance: bool) -> int | None:
    """The seed of this run's masks; None where nothing is dropped. It is kept in the variable Cache, for
    the gradient.
    """
    if is_test or dropout_prob == 0:
        return None
    names = ctx.op.input("Cache")
    if not names:
        return max(seed, 0)
    cache = ctx.scope.var(names[0])
    if not isinstance(cache.value, int):
        cache.set_int(seed if seed >= 0 else int(ctx.rng(0).integers(1 << 30)))
    elif advance:
        cache.set_int(cache.value + 1)
    return int(cache.value)


@cudnn_lstm.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    InitH: Array,
    InitC: Array,
    W: Array,
    hidden_size: int,
    num_layers: int,
    is_bidirec: bool,
    dropout_prob: float,
    is_test: bool,
    seed: int,
) -> tuple[Array, Array, Array]:
    stack = _LstmStack(xp, ctx, Input, InitH, InitC, W, hidden_size, num_layers, is_bidirec)
    masks = _masks(stack, Input.dtype, dropout_prob, _seed(ctx, dropout_prob, is_test, seed, advance=True))
    out, layers = stack.forward(Input, iter(masks))
    last = None if is_test else _last_run(ctx)
    if last is not None:
        last.keep(out, layers)
    return out, stack.last(layers, "hidden"), stack.last(layers, "cells")


@cudnn_lstm.grad_rule("Input InitH InitC W")
def _(context: Any) -> None:
    inputs = {slot: context.input(slot) for slot in ("Input", "InitH", "InitC", "W", "Cache")}
    inputs |= {"Out": context.output("Out")} | {
        slot + "@GRAD": context.out_grad(slot) for slot in ("Out", "last_h", "last_c")
    }
    context.emit(
        "cudnn_lstm_grad",
        inputs,
        {slot + "@GRAD": context.in_grad(slot) for slot in ("Input", "InitH", "InitC", "W")},
    )


@cudnn_lstm.grad("Input InitH InitC W")
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    InitH: Array,
    InitC: Array,
    W: Array,
    Cache: Any,
    Out: Array,
    dOut: Array | None,
    dlast_h: Array | None,
    dlast_c: Array | None,
    hidden_size: int,
    num_layers: int,
    is_bidirec: bool,
    dropout_prob: float,
    is_test: bool,
    seed: int,
) -> tuple[Array, Array, Array, Array]:
    stack = _LstmStack(xp, ctx, Input, InitH, InitC, W, hidden_size, num_layers, is_bidirec)
    masks = _masks(stack, Input.dtype, dropout_prob, _seed(ctx, dropout_prob, is_test, seed, advance=False))
    last = _last_run(ctx)
    layers = None if last is None else last.take(Out)
    if layers is None:
        # another run of the op has come between, as in a loop, or Out was fed
        _, layers = stack.forward(Input, iter(masks))
    d, found, weights = stack.backward(
        layers, xp.zeros_like(Out) if dOut is None else dOut, (dlast_h, dlast_c), masks
    )
    return (
        d,
        xp.stack([part.first_states for part in found]),
        xp.stack([part.first_cells for part in found]),
        _joined(xp, weights, hidden_size),
    )
