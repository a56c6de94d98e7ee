"""All steps of gated recurrent units, forward and back; gates in the order update, reset, candidate.

As in `lstm_steps` everything between the ops is stored step by step, and the gates of a step lie in planes
[3, n, size].
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.activations import Activation
from fluidlite.ops.kernels.cell_calls import ArrayPart, cell_calls, in_planes
from fluidlite.ops.kernels.cells import CellForm, CellSteps, Layout, StepCell, gradient
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import TimeSteps, chunks, gate_steps, planes

__all__ = ["GruGradients", "GruLayer", "GruRun", "GruUnit", "run", "run_back", "run_rows", "run_rows_back"]

Maybe: TypeAlias = "Array | None"


GATES = ("update", "reset", "candidate")
GRU = StepCell(
    "x_update x_reset x_candidate | before=0 origin_mode -> update reset kept candidate hidden",
    """
    update = gate_activation(x_update)
    reset = gate_activation(x_reset)
    kept = reset * before
    candidate = activation(x_candidate)
    opened = where(origin_mode, before, candidate)
    closed = where(origin_mode, candidate, before)
    hidden = (opened - closed) * update + closed
    """,
    Layout(((0, 2), (2, 3)), 3, GATES, sources=("hidden", "kept")),
)
"""The product with `kept`, the state that the reset gate lets through, is a part of `x_candidate`."""


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

    def form(self, has_before: bool = True) -> CellForm:
        """The declared cell as it is here; without a state before where there is none."""
        kinds = {"gate_activation": self.gate.name, "activation": self.candidate.name}
        if has_before:
            return GRU.form(origin_mode=self.origin_mode, **kinds)
        return GRU.form(origin_mode=self.origin_mode, before=None, **kinds)

    def factors(self, gates: Array, earlier: Array, out: Array, straight: Array) -> None:
        """Write the factors of the gates' gradients [3, n, size], and the share of a gradient that goes
        `straight` to the earlier state.
        """
        _factor_calls(self.form())(self.xp, gates, earlier, out, straight)


@functools.cache
def _forward_calls(form: CellForm) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The calls that open the gates, and those after the product with what the reset gate lets through."""
    known = form.known
    before = {name: ArrayPart(name) for name in known}
    raw = in_planes("gates", [f"x_{name}" for name in GATES])
    gates = in_planes("gates", GATES)
    candidate = {"candidate": gates.pop("candidate"), "hidden": ArrayPart("hidden")}
    opened = {**gates, "kept": ArrayPart("kept")}
    return (
        cell_calls(form.forward, ("gates", "kept", *known), {**raw, **before}, opened),
        cell_calls(form.forward, ("gates", "hidden", *known), {**raw, **before, **gates}, candidate),
    )


@functools.cache
def _factor_calls(form: CellForm) -> Callable[..., Any]:
    """The calls that compute what gradients are multiplied by: of the reset gate that of what it lets
    through, of all else the state's.
    """
    back = form.back(is_flat=True)
    through = back.factors_of("before")
    assert through["kept"] == "reset"
    values = {gradient("before"): through["hidden"]}
    for name, wanted in (("x_update", "hidden"), ("x_reset", "kept"), ("x_candidate", "hidden")):
        source, values[gradient(name)] = back.only_factor(name)
        assert source == wanted
    reads = {**in_planes("gates", GATES), "before": ArrayPart("before")}
    writes = in_planes("factors", [gradient(f"x_{name}") for name in GATES])
    writes[gradient("before")] = ArrayPart("straight")
    steps = CellSteps(back.steps, values)
    return cell_calls(steps, ("gates", "before", "factors", "straight"), reads, writes)


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
    first_calls, later_calls = (_forward_calls(unit.form(has_before)) for has_before in (False, True))
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
        open_gates, new_states = first_calls if earlier is None else later_calls
        known = () if earlier is None else (earlier,)
        state, kept = hidden[now], reset[now]
        open_gates(xp, gates, kept, *known)
        if earlier is not None:
            product(xp, kept, unit.candidate_weight, state)
            xp.add(gates[2], state, out=gates[2])
        new_states(xp, gates, state, *known)
    return made, reset, hidden


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
