"""All steps of the units of PaddlePaddle 2.x's op `rnn` that read their whole state in one product: a gated
recurrent unit whose reset gate comes after the product, and a simple recurrence.

As in `lstm_steps` everything between the ops is stored step by step, and gates lie in planes inside a step.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable
from typing import Any, ClassVar, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import ACTIVATIONS, Activation, TimeSteps, chunks, planes

__all__ = [
    "CellGradients",
    "CellLayer",
    "CellRun",
    "CellUnit",
    "ResetAfterUnit",
    "SimpleUnit",
    "run_rows",
    "run_rows_back",
]

Maybe: TypeAlias = "Array | None"

_SIGMOID, _TANH = ACTIVATIONS["sigmoid"], ACTIVATIONS["tanh"]


@dataclass(frozen=True)
class CellUnit(abc.ABC):
    """A unit: numbers of planes, and what a step does between its products."""

    xp: Any
    size: int
    weight: Array
    """Of the state, [size, products x size]."""
    products: ClassVar[int]
    kept: ClassVar[int]
    """Planes that only the gradient reads; 0 where the states are enough."""
    made: ClassVar[int]
    """Planes of gradients: the first `products` are the input's, the last `products` the product's."""
    goes_straight: ClassVar[bool]
    """A part of the state goes on without a product."""

    @abc.abstractmethod
    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """Write the new states, and what is kept, from the inputs and the `sums` of the product, which are
        overwritten; `bias` is what the entry's lacks of all `made` planes.
        """

    @abc.abstractmethod
    def factors(self, kept: Array, before: Array, out: Array, straight: Array) -> None:
        """Write the factors of the gradients [made, n, size], and what goes `straight` back."""


@dataclass(frozen=True)
class ResetAfterUnit(CellUnit):
    """h' = z h + (1 - z) c with c = tanh(x_c + r p), p being the product with h, and its bias.

    Planes are c, r and z of the input, r, z and p of the product; c, r, z, p are kept.
    """

    products: ClassVar[int] = 3
    kept: ClassVar[int] = 4
    made: ClassVar[int] = 4
    goes_straight: ClassVar[bool] = True

    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """One step; see `CellUnit`."""
        xp = self.xp
        gates, inner = sums[:2], sums[2]
        xp.add(gates, entry[1:], out=gates)
        _SIGMOID.apply(xp, gates)
        xp.add(inner, bias, out=inner)
        kept[1:] = sums
        candidate = xp.multiply(gates[0], inner, out=inner)
        xp.add(candidate, entry[0], out=candidate)
        _TANH.apply(xp, candidate)
        kept[0] = candidate
        xp.subtract(before, candidate, out=out)
        xp.multiply(out, gates[1], out=out)
        xp.add(out, candidate, out=out)

    def factors(self, kept: Array, before: Array, out: Array, straight: Array) -> None:
        """The factors of one step or more; see `CellUnit`."""
        xp = self.xp
        candidate, reset, update, inner = kept
        dcandidate, dreset, dupdate, dinner = out
        _TANH.slope(xp, candidate, dcandidate)
        xp.subtract(1, update, out=straight)
        xp.multiply(dcandidate, straight, out=dcandidate)
        _SIGMOID.slope(xp, kept[1:3], out[1:3])
        xp.multiply(dreset, inner, out=dreset)
        xp.multiply(dreset, dcandidate, out=dreset)
        xp.subtract(before, candidate, out=straight)
        xp.multiply(dupdate, straight, out=dupdate)
        xp.multiply(dcandidate, reset, out=dinner)
        straight[...] = update


@dataclass(frozen=True)
class SimpleUnit(CellUnit):
    """h' = f(x + p), p being the product with h."""

    activation: Activation
    products: ClassVar[int] = 1
    kept: ClassVar[int] = 0
    made: ClassVar[int] = 1
    goes_straight: ClassVar[bool] = False

    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """One step; see `CellUnit`."""
        self.xp.add(sums[0], entry[0], out=out)
        self.activation.apply(self.xp, out)

    def factors(self, kept: Array, before: Array, out: Array, straight: Array) -> None:
        """The factors of one step or more; see `CellUnit`."""
        self.activation.slope(self.xp, kept, out)


class CellLayer(NamedTuple):
    """Values that a run and its way back have in common: the unit and its steps, and the first states,
    longest sequence first.
    """

    unit: CellUnit
    steps: TimeSteps
    first_states: Array


class CellRun(NamedTuple):
    """Values of a run: states in the order of the rows that were given, what is kept step by step."""

    hidden: Array
    kept: Array


class CellGradients(NamedTuple):
    """Gradients of all `made` planes, in the order of the rows that were given; of their biases, of the first
    states, longest sequence first, and of the weight.
    """

    gates: Array
    bias: Array
    first: Array
    weight: Array


def run_rows(ctx: KernelContext, layer: CellLayer, X: Array, bias: Array, fixed: Hashable = None) -> CellRun:
    """All steps over rows as they are given, X [rows, products x size], by compiled code where the run has
    it; `bias` [made x size], `fixed` as in `lstm_steps.run_rows`.
    """
    if ctx.compiled is not None:
        done: CellRun | None = ctx.compiled.cells(ctx, layer, X, bias, fixed)
        if done is not None:
            return done
    hidden, kept = _run(layer, X, bias)
    return CellRun(layer.steps.by_sequence(hidden), kept)


def _run(layer: CellLayer, X: Array, bias: Array) -> tuple[Array, Array]:
    """States and what is kept, step by step."""
    unit, steps, first_states = layer
    xp, size, count = unit.xp, unit.size, unit.products
    entries = X + bias[: count * size]
    rest = bias[count * size :]
    hidden = xp.empty((len(X), size), X.dtype)
    kept = xp.empty((len(X), unit.kept * size), X.dtype)
    taken = xp.empty_like(entries[: steps.running])
    scratch = xp.empty(steps.running * count * size, X.dtype)
    kept_planes = planes(kept, unit.kept) if unit.kept else xp.empty((0, *hidden.shape), X.dtype)
    for step in steps:
        now = step.rows
        before = steps.one_before(step, hidden, first_states)
        assert before is not None  # the op has first states
        sums = scratch[: count * step.width * size].reshape(count, step.width, size)
        gate_product(xp, before, unit.weight, sums)
        entry = planes(steps.taken(entries, step, taken), count)
        unit.step(entry, sums, rest, before, kept_planes[:, now], hidden[now])
    return hidden, kept


def run_rows_back(ctx: KernelContext, layer: CellLayer, made: CellRun, d: Array) -> CellGradients:
    """All steps back, from the gradient of the states; by compiled code where the run has it."""
    unit, steps, first_states = layer
    xp, inner = unit.xp, -unit.products * unit.size
    done: tuple[Array, ...] | None = None
    if ctx.compiled is not None:
        done = ctx.compiled.cells_back(ctx, layer, made, d)
    if done is not None:
        gates, earlier, bias, first = done
        return CellGradients(gates, bias, first, shared_product(ctx, xp, earlier.T, gates[:, inner:]))
    hidden = steps.by_step(made.hidden)
    found, first = _run_back(layer, made.kept if unit.kept else hidden, hidden, steps.by_step(d))
    weight = steps.weight_gradient(ctx, hidden, first_states, found[:, inner:])
    return CellGradients(steps.by_sequence(found), found.sum(axis=0), first, weight)


def _run_back(layer: CellLayer, kept: Array, hidden: Array, d: Array) -> tuple[Array, Array]:
    """Gradients of the planes and of the first states from `d`, which is overwritten; all step by step."""
    unit, steps, first_states = layer
    xp, size = unit.xp, unit.size
    found = xp.empty((len(d), unit.made * size), d.dtype)
    found_planes = planes(found, unit.made)
    scratch = xp.empty((steps.running, size), d.dtype)
    passed = scratch[:0]
    for chunk in chunks(steps, kept, max(unit.kept, 1), hidden, first_states):
        unit.factors(chunk.gates, chunk.earlier, chunk.factors, chunk.share)
        for step in chunk.steps:
            now, inner = step.rows, chunk.inner(step)
            first = d[step.start : step.start + len(passed)]
            xp.add(first, passed, out=first)
            xp.multiply(chunk.factors[:, inner], d[now], out=found_planes[:, now])
            behind = found[now, -unit.products * size :]
            passed = product(xp, behind, unit.weight.T, scratch[: step.width])
            if unit.goes_straight:
                xp.add(passed, chunk.share[inner] * d[now], out=passed)
    return found, passed
