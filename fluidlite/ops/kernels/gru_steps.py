"""All steps of gated recurrent units, forward and back; gates in the order update, reset, candidate.

As in `lstm_steps` everything between the ops is stored step by step, and the gates of a step lie in planes
[3, n, size].
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import Activation, TimeSteps, chunks, gate_steps, planes

__all__ = ["GruGradients", "GruLayer", "GruRun", "GruUnit", "run", "run_back", "run_rows", "run_rows_back"]

Maybe: TypeAlias = "Array | None"


class GruUnit(NamedTuple):
    """Weights and activations; `origin_mode` says whether the update gate lets the old state through, or the
    new one.
    """

    xp: Any
    size: int
    gate_weight: Array
    candidate_weight: Array
    gate: Activation
    candidate: Activation
    origin_mode: bool

    def mix(self, gates: Array, earlier: Maybe, out: Array) -> None:
        """Write the new state."""
        xp = self.xp
        update, _, candidate = gates
        if earlier is None:
            share = 1 - update if self.origin_mode else update
            xp.multiply(share, candidate, out=out)
            return
        # the state that comes where the update gate is open, and that of where it is closed
        opened, closed = (earlier, candidate) if self.origin_mode else (candidate, earlier)
        xp.subtract(opened, closed, out=out)
        xp.multiply(out, update, out=out)
        xp.add(out, closed, out=out)

    def factors(self, gates: Array, earlier: Array, out: Array, straight: Array) -> None:
        """Write the factors of the gates' gradients [3, n, size], and the share of a gradient that goes
        `straight` to the earlier state.
        """
        xp = self.xp
        update, _, candidate = gates
        self.gate.slope(xp, gates[:2], out[:2])
        self.candidate.slope(xp, candidate, out[2])
        opened, closed = (earlier, candidate) if self.origin_mode else (candidate, earlier)
        xp.subtract(opened, closed, out=straight)
        xp.multiply(out[0], straight, out=out[0])
        xp.multiply(out[1], earlier, out=out[1])
        xp.subtract(1, update, out=straight)
        if self.origin_mode:
            xp.multiply(out[2], straight, out=out[2])
            straight[...] = update
        else:
            xp.multiply(out[2], update, out=out[2])


class GruLayer(NamedTuple):
    """Values that a run and its way back have in common: the unit and its steps, and the first states,
    longest sequence first.
    """

    unit: GruUnit
    steps: TimeSteps
    first_states: Maybe = None


def run(layer: GruLayer, X: Array, bias: Maybe) -> tuple[Array, Array, Array]:
    """All steps over the inputs of the gates, X [rows, 3 size]: gates, reset and new states, step by step."""
    unit, steps, first = layer
    xp, size, count = unit.xp, unit.size, len(steps.rows)
    made = xp.empty((count, 3 * size), X.dtype)
    reset, hidden = (xp.empty((count, size), X.dtype) for _ in range(2))
    for step, entry, gates, earlier in gate_steps(steps, X, 3, made, hidden, first):
        now = step.rows
        if earlier is None:
            gates[...] = entry
        else:
            gate_product(xp, earlier, unit.gate_weight, gates[:2])
            xp.add(gates[:2], entry[:2], out=gates[:2])
            gates[2] = entry[2]
        if bias is not None:
            xp.add(gates, bias.reshape(3, 1, size), out=gates)
        _activate(unit, gates, earlier, reset[now], hidden[now])
        unit.mix(gates, earlier, hidden[now])
    return made, reset, hidden


def _activate(unit: GruUnit, gates: Array, earlier: Maybe, reset: Array, scratch: Array) -> None:
    """Activate the gates, the candidate with what comes from the reset state, which is written."""
    xp, candidate = unit.xp, gates[2]
    if earlier is None:
        unit.gate.apply(xp, gates[:2])
        reset[...] = 0
    else:
        unit.gate.apply(xp, gates[:2])
        xp.multiply(gates[1], earlier, out=reset)
        product(xp, reset, unit.candidate_weight, scratch)
        xp.add(candidate, scratch, out=candidate)
    unit.candidate.apply(xp, candidate)


def run_back(layer: GruLayer, gates: Array, hidden: Array, d: Array) -> tuple[Array, Array]:
    """Gradients of the gates before activation, and of the first states, from `d`, that of the states,
    which is overwritten.
    """
    unit, steps, _ = layer
    xp, size = unit.xp, unit.size
    found = xp.empty(gates.shape, d.dtype)
    scratch = xp.empty((3, steps.running, size), d.dtype)
    passed = scratch[0, :0]
    for chunk in chunks(steps, gates, 3, hidden, layer.first_states):
        factors, straight = chunk.factors, chunk.share
        unit.factors(chunk.gates, chunk.earlier, factors, straight)
        for step in chunk.steps:
            inner = chunk.inner(step)
            first = d[step.start : step.start + len(passed)]
            xp.add(first, passed, out=first)
            dstate, (earlier, dreset, direct) = d[step.rows], scratch[:, : step.width]
            dgates = planes(found[step.rows], 3)
            xp.multiply(factors[::2, inner], dstate, out=dgates[::2])
            product(xp, dgates[2], unit.candidate_weight.T, dreset)
            xp.multiply(factors[1, inner], dreset, out=dgates[1])
            product(xp, found[step.rows, : 2 * size], unit.gate_weight.T, earlier)
            xp.multiply(dreset, chunk.gates[1, inner], out=dreset)
            xp.multiply(dstate, straight[inner], out=direct)
            xp.add(dreset, direct, out=dreset)
            passed = xp.add(earlier, dreset, out=earlier)
    return found, passed


# ---------------------------------------------------------------------- rows as they are given
class GruRun(NamedTuple):
    """Values of a run: states in the order of the rows that were given, gates and the states that the reset
    gate let through step by step.
    """

    hidden: Array
    gates: Array
    reset: Array


class GruGradients(NamedTuple):
    """Gradients in the order of the rows that were given; those of the bias and of the first states, longest
    sequence first; and of the weight, one matrix after the other in a vector, where it is wanted.
    """

    gates: Array
    bias: Array
    first: Array
    weight: Maybe


def run_rows(ctx: KernelContext, layer: GruLayer, X: Array, bias: Maybe, fixed: Hashable = None) -> GruRun:
    """All steps over rows as they are given, by compiled code where the run has it; `fixed` as in
    `lstm_steps.run_rows`.
    """
    if ctx.compiled is not None:
        done: GruRun | None = ctx.compiled.gru(ctx, layer, X, bias, fixed)
        if done is not None:
            return done
    gates, reset, hidden = run(layer, X, bias)
    return GruRun(layer.steps.by_sequence(hidden), gates, reset)


def run_rows_back(
    ctx: KernelContext, layer: GruLayer, made: GruRun, d: Array, wants_weight: bool = True
) -> GruGradients:
    """All steps back, from the gradient of the states; by compiled code where the run has it."""
    unit, steps, first_states = layer
    xp, split, size = unit.xp, 2 * unit.size, unit.size
    weight = xp.empty(3 * size * size, d.dtype) if wants_weight else None
    done: tuple[Array, ...] | None = None
    if ctx.compiled is not None:
        done = ctx.compiled.gru_back(ctx, layer, made, d)
    if done is not None:
        gates, earlier, reset, bias, first = done
        if weight is not None:
            weight[: split * size] = shared_product(ctx, xp, earlier.T, gates[:, :split]).reshape(-1)
            weight[split * size :] = shared_product(ctx, xp, reset.T, gates[:, split:]).reshape(-1)
        return GruGradients(gates, bias, first, weight)
    hidden = steps.by_step(made.hidden)
    dgates, first = run_back(layer, made.gates, hidden, steps.by_step(d))
    if weight is not None:
        of_gates = steps.weight_gradient(ctx, hidden, first_states, dgates[:, :split])
        weight[: split * size] = of_gates.reshape(-1)
        weight[split * size :] = shared_product(ctx, xp, made.reset.T, dgates[:, split:]).reshape(-1)
    return GruGradients(steps.by_sequence(dgates), dgates.sum(axis=0), first, weight)
