"""All steps of the units of PaddlePaddle 2.x's op `rnn` that read their whole state in one product: a gated
recurrent unit whose reset gate comes after the product, and a simple recurrence.

As in `lstm_steps` everything between the ops is stored step by step, and gates lie in planes inside a step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.cell_calls import ArrayPart, cell_calls, in_planes
from fluidlite.ops.kernels.cells import CellForm, CellSteps, Layout, StepCell, gradient
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import TimeSteps, chunks, planes

__all__ = ["CellGradients", "CellLayer", "CellRun", "CellUnit", "run_rows", "run_rows_back"]

RESET_AFTER = StepCell(
    "x_candidate x_reset x_update x_inner | before -> candidate reset update inner hidden",
    """
    reset = gate_activation(x_reset)
    update = gate_activation(x_update)
    inner = x_inner
    candidate = activation(x_candidate + reset * inner)
    hidden = (before - candidate) * update + candidate
    """,
    Layout(((1, 4),), 3, ("candidate", "reset", "update", "inner")),
)
"""The gates' sums have the product with the state, the candidate's has not: that is `inner`."""
SIMPLE = StepCell("x | -> hidden", "hidden = activation(x)")


class CellUnit(NamedTuple):
    """A unit: the weight of its state, [size, planes of the product x size], and its form."""

    xp: Any
    size: int
    weight: Array
    form: CellForm

    @property
    def kept(self) -> int:
        """Number of planes that only the gradient reads; 0 where the states are enough."""
        return len(self.form.cell.layout.saved)

    @property
    def made(self) -> int:
        """Number of planes of gradients: the first ones are the input's, the last ones the product's."""
        return len(self.form.cell.once)

    @property
    def products(self) -> int:
        """Number of planes of the product, and of the input."""
        return self.form.cell.layout.entries


@functools.cache
def _forward_calls(form: CellForm) -> Callable[..., Any]:
    """The calls of a step, which leave in the sums what the gradient reads."""
    cell = form.cell
    sums = in_planes("sums", cell.once)
    (first, _), *_ = cell.layout.products
    only_given = in_planes("entry", cell.once[:first])
    known = {name: ArrayPart(name) for name in form.known}
    writes = {**in_planes("sums", cell.layout.saved), "hidden": ArrayPart("hidden")}
    parameters = ("entry", "sums", "hidden", *form.known)
    return cell_calls(form.forward, parameters, {**sums, **only_given, **known}, writes)


@functools.cache
def _factor_calls(form: CellForm) -> Callable[..., Any]:
    """The calls that write the factors of the gradients [made, n, size], and what goes straight back."""
    back = form.back(is_flat=True)
    cell = form.cell
    values = {gradient(name): back.only_factor(name)[1] for name in back.wanted}
    reads = {**in_planes("kept", cell.layout.saved or ("hidden",)), "before": ArrayPart("before")}
    writes = in_planes("out", list(map(gradient, cell.once)))
    writes |= {gradient(name): ArrayPart("straight") for name in form.known}
    return cell_calls(CellSteps(back.steps, values), ("kept", "before", "out", "straight"), reads, writes)


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
    rest = bias[count * size :].reshape(-1, 1, size)
    hidden = xp.empty((len(X), size), X.dtype)
    kept = xp.empty((len(X), unit.kept * size), X.dtype)
    taken = xp.empty_like(entries[: steps.running])
    scratch = xp.empty(steps.running * unit.made * size, X.dtype)
    kept_planes = planes(kept, unit.kept) if unit.kept else None
    calls = _forward_calls(unit.form)
    ((first, _),) = unit.form.cell.layout.products
    for step in steps:
        before = steps.one_before(step, hidden, first_states)
        assert before is not None  # the op has first states
        sums = scratch[: unit.made * step.width * size].reshape(unit.made, step.width, size)
        gate_product(xp, before, unit.weight, sums[first:])
        entry = planes(steps.taken(entries, step, taken), count)
        both = sums[first:count]
        xp.add(both, entry[first:], out=both)
        if len(rest):
            xp.add(sums[count:], rest, out=sums[count:])
        known = (before,) if unit.form.known else ()
        calls(xp, entry, sums, hidden[step.rows], *known)
        if kept_planes is not None:
            kept_planes[:, step.rows] = sums
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
    goes_straight = bool(unit.form.known)
    factors = _factor_calls(unit.form)
    for chunk in chunks(steps, kept, max(unit.kept, 1), hidden, first_states):
        factors(xp, chunk.gates, chunk.earlier, chunk.factors, chunk.share)
        for step in chunk.steps:
            now, inner = step.rows, chunk.inner(step)
            first = d[step.start : step.start + len(passed)]
            xp.add(first, passed, out=first)
            xp.multiply(chunk.factors[:, inner], d[now], out=found_planes[:, now])
            behind = found[now, -unit.products * size :]
            passed = product(xp, behind, unit.weight.T, scratch[: step.width])
            if goes_straight:
                xp.add(passed, chunk.share[inner] * d[now], out=passed)
    return found, passed
