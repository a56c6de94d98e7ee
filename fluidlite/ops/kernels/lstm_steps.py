"""All steps of a long short-term memory, forward and back; gates in the order candidate, input, forget,
output.

Between the ops everything is stored step by step, a row for each sequence that still runs (see
`recurrence.TimeSteps`). Inside a step the gates lie in planes [4, n, size], so that element-wise calls go
over contiguous memory: of 32 rows of 128 they take half as long. The backward pass computes, for some steps
at a time, all that does not depend on the step after: a step is then one product and a few element-wise
calls.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import (
    Activation,
    Chunk,
    TimeStep,
    TimeSteps,
    chunks,
    gate_steps,
    planes,
)

__all__ = [
    "Gradients",
    "LstmCell",
    "LstmGradients",
    "LstmLayer",
    "LstmRun",
    "ProjectedGradients",
    "ProjectedRun",
    "Projection",
    "Tape",
    "bias_gradient",
    "run",
    "run_back",
    "run_projected",
    "run_projected_back",
    "run_rows",
    "run_rows_back",
]

Maybe: TypeAlias = "Array | None"


class LstmCell(NamedTuple):
    """One step: activations, peephole weights (input, forget, output; None without), and the bound on the
    cells (0: none).
    """

    xp: Any
    size: int
    gate: Activation
    state: Activation
    candidate: Activation
    peepholes: tuple[Array, Array, Array] | None
    clip: float = 0.0

    def run(self, gates: Array, earlier: Maybe, cells: Array, active: Array, hidden: Array) -> None:
        """Activate the gates [4, n, size] in place; write the cells, the cells activated, and the state."""
        xp = self.xp
        candidate, entry, forget, output = gates
        self.candidate.apply(xp, candidate)
        if self.peepholes is None:
            self.gate.apply(xp, gates[1:])
        else:
            if earlier is not None:
                xp.add(entry, earlier * self.peepholes[0], out=entry)
                xp.add(forget, earlier * self.peepholes[1], out=forget)
            self.gate.apply(xp, gates[1:3])
        xp.multiply(candidate, entry, out=cells)
        if earlier is not None:
            # the state is written last, so that until then its place is free for a product
            xp.multiply(forget, earlier, out=hidden)
            xp.add(cells, hidden, out=cells)
        if self.clip > 0:
            xp.clip(cells, -self.clip, self.clip, out=cells)
        if self.peepholes is not None:
            xp.add(output, cells * self.peepholes[2], out=output)
            self.gate.apply(xp, output)
        active[...] = cells
        self.state.apply(xp, active)
        xp.multiply(output, active, out=hidden)

    def inside(self, cells: Array) -> Array:
        """True for cells within the bound, where gradients pass."""
        inside: Array = abs(cells) < self.clip
        return inside

    def factors(self, gates: Array, earlier: Array, active: Array, out: Array, share: Array) -> None:
        """Write the factors of the gates' gradients [4, n, size] (of the cell's gradient, for the output gate
        of the state's), and the `share` of the state's gradient that the cell has.
        """
        xp = self.xp
        candidate, entry, _, output = gates
        self.candidate.slope(xp, candidate, out[0])
        self.gate.slope(xp, gates[1:], out[1:])
        for factor, part in zip(out, (entry, candidate, earlier, active), strict=True):
            xp.multiply(factor, part, out=factor)
        self.state.slope(xp, active, share)
        xp.multiply(share, output, out=share)

    def back(
        self, d: Array, carried: Maybe, factors: Array, share: Array, inside: Maybe, dgates: Array
    ) -> None:
        """One step back: write the gates' gradients; `share` becomes the cells' gradient."""
        xp = self.xp
        xp.multiply(factors[3], d, out=dgates[3])
        xp.multiply(share, d, out=share)
        if carried is not None:
            first = share[: len(carried)]
            xp.add(first, carried, out=first)
        if self.peepholes is not None:
            xp.add(share, dgates[3] * self.peepholes[2], out=share)
        if inside is not None:
            xp.multiply(share, inside, out=share)
        xp.multiply(factors[:3], share, out=dgates[:3])

    def carry(self, share: Array, forget: Array, dgates: Array, out: Array) -> None:
        """Write what goes on to the earlier cells."""
        xp = self.xp
        xp.multiply(share, forget, out=out)
        if self.peepholes is not None:
            xp.add(out, dgates[1] * self.peepholes[0], out=out)
            xp.add(out, dgates[2] * self.peepholes[1], out=out)


class Projection(NamedTuple):
    """From the hidden state to the recurrent one: a product, an activation, a bound (0: none)."""

    weight: Array
    activation: Activation
    clip: float

    def run(self, xp: Any, hidden: Array, out: Array) -> None:
        """Write the projected state."""
        product(xp, hidden, self.weight, out)
        self.activation.apply(xp, out)
        if self.clip > 0:
            xp.clip(out, -self.clip, self.clip, out=out)

    def slopes(self, xp: Any, state: Array) -> Array:
        """Derivatives where the projected state is `state`."""
        found = xp.empty_like(state)
        self.activation.slope(xp, state, found)
        return found * (abs(state) < self.clip) if self.clip > 0 else found


class LstmLayer(NamedTuple):
    """Values that a run and its way back have in common: the cell and its steps, the weight of the recurrence
    [size, 4 size] (with a projection [projected, 4 size]), and the first states and cells, longest sequence
    first.
    """

    cell: LstmCell
    steps: TimeSteps
    weight: Array
    first_states: Maybe = None
    first_cells: Maybe = None
    projection: Projection | None = None


class Tape(NamedTuple):
    """Values of a run saved for the backward pass, stored step by step; `state` is what the recurrence reads:
    `hidden`, or its projection.
    """

    gates: Array
    cells: Array
    active: Array
    hidden: Array
    state: Array


def run(layer: LstmLayer, X: Array, bias: Array) -> Tape:
    """All steps over the inputs of the gates, X [rows, 4 size]."""
    cell, steps, projection = layer.cell, layer.steps, layer.projection
    xp, size, count = cell.xp, cell.size, len(steps.rows)
    made = xp.empty((count, 4 * size), X.dtype)
    cells, active, hidden = (xp.empty((count, size), X.dtype) for _ in range(3))
    state = hidden if projection is None else xp.empty((count, len(layer.weight)), X.dtype)
    offset = bias.reshape(4, 1, size)
    for step, entry, gates, before in gate_steps(steps, X, 4, made, state, layer.first_states):
        now = step.rows
        if before is None:
            xp.add(entry, offset, out=gates)
        else:
            gate_product(xp, before, layer.weight, gates)
            xp.add(gates, entry, out=gates)
            xp.add(gates, offset, out=gates)
        earlier = steps.one_before(step, cells, layer.first_cells)
        cell.run(gates, earlier, cells[now], active[now], hidden[now])
        if projection is not None:
            projection.run(xp, hidden[now], state[now])
    return Tape(made, cells, active, hidden, state)


class Gradients(NamedTuple):
    """Gradients stored step by step: of the gates before activation, of the projection before its, of the
    first cells and states.
    """

    gates: Array
    projected: Array
    first_cells: Array
    first_states: Array


def run_back(
    layer: LstmLayer, tape: Tape, d: Array, dcells: Maybe = None, last_cells: Maybe = None
) -> Gradients:
    """All steps back from `d`, the gradient of the states step by step, which is overwritten; `dcells` and
    `last_cells`, those of all cells and of the last ones, come on top of it.
    """
    cell, steps, projection = layer.cell, layer.steps, layer.projection
    xp, size, weight = cell.xp, cell.size, layer.weight
    found = xp.empty(tape.gates.shape, d.dtype)
    slopes = None if projection is None else projection.slopes(xp, tape.state)
    next_cells = xp.empty((steps.running, size), d.dtype)
    next_states = xp.empty((steps.running, len(weight)), d.dtype)
    carried, passed = last_cells, next_states[:0]
    for chunk in chunks(steps, tape.gates, 4, tape.cells, layer.first_cells):
        cell.factors(chunk.gates, chunk.earlier, tape.active[chunk.rows], chunk.factors, chunk.share)
        for step in chunk.steps:
            now, width = step.rows, step.width
            dstate = d[step.start : step.start + len(passed)]
            xp.add(dstate, passed, out=dstate)
            dhidden = d[now]
            if projection is not None and slopes is not None:
                xp.multiply(dhidden, slopes[now], out=dhidden)
                dhidden = product(xp, dhidden, projection.weight.T)
            if dcells is not None:
                carried = _joined(dcells[now], carried)
            dgates = planes(found[now], 4)
            carried = _step_back(cell, chunk, step, tape.cells, dhidden, carried, dgates, next_cells[:width])
            passed = product(xp, found[now], weight.T, next_states[:width])
    return Gradients(found, d, carried if carried is not None else xp.zeros((0, size), d.dtype), passed)


def _step_back(
    cell: LstmCell,
    chunk: Chunk,
    step: TimeStep,
    cells: Array,
    d: Array,
    carried: Maybe,
    dgates: Array,
    out: Array,
) -> Array:
    """One step of a chunk: write the gates' gradients; gives what goes on to the earlier cells, in `out`."""
    now = chunk.inner(step)
    share = chunk.share[now]
    inside = cell.inside(cells[step.rows]) if cell.clip > 0 else None
    cell.back(d, carried, chunk.factors[:, now], share, inside, dgates)
    cell.carry(share, chunk.gates[2, now], dgates, out)
    return out


def _joined(d: Array, carried: Maybe) -> Array:
    """The gradient of a step's cells: their own, and what comes back from the sequences that go on."""
    total = d.copy()
    if carried is not None:
        total[: len(carried)] += carried
    return total


# ---------------------------------------------------------------------- rows as they are given
class LstmRun(NamedTuple):
    """Values of a run: states and cells in the order of the rows that were given, the others step by step."""

    hidden: Array
    cells: Array
    gates: Array
    active: Array


class LstmGradients(NamedTuple):
    """Gradients in the order of the rows that were given; that of the bias, with those of the peephole
    weights; of the first cells, longest sequence first; and of the weight, where it is wanted.
    """

    gates: Array
    bias: Array
    first_cells: Array
    weight: Maybe


def run_rows(
    ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, saves: bool = True, fixed: Hashable = None
) -> LstmRun:
    """All steps over rows as they are given, by compiled code where the run has it.

    Gates and activated cells are of use to a gradient only: without `saves` they need not be there. `fixed`
    stands for a weight, among those of the op, that changes only where persistable variables do.
    """
    if ctx.compiled is not None:
        done: LstmRun | None = ctx.compiled.lstm(ctx, layer, X, bias, saves, fixed)
        if done is not None:
            return done
    tape = run(layer, X, bias)
    hidden, cells = map(layer.steps.by_sequence, (tape.hidden, tape.cells))
    return LstmRun(hidden, cells, tape.gates, tape.active)


def run_rows_back(
    ctx: KernelContext,
    layer: LstmLayer,
    run: LstmRun,
    d: Maybe,
    dcells: Maybe = None,
    last_cells: Maybe = None,
    wants_weight: bool = True,
) -> LstmGradients:
    """All steps back, from the gradients of states and cells; by compiled code where the run has it."""
    steps, xp = layer.steps, layer.cell.xp
    if ctx.compiled is not None:
        done: tuple[Array, ...] | None = ctx.compiled.lstm_back(ctx, layer, run, d, dcells, last_cells)
        if done is not None:
            gates, earlier, bias, first_cells = done
            weight = shared_product(ctx, xp, earlier.T, gates) if wants_weight else None
            return LstmGradients(gates, bias, first_cells, weight)
    hidden = steps.by_step(run.hidden)
    tape = Tape(run.gates, steps.by_step(run.cells), run.active, hidden, hidden)
    given = xp.zeros_like(hidden) if d is None else steps.by_step(d)
    back = None if dcells is None else steps.by_step(dcells)
    found = run_back(layer, tape, given, back, last_cells)
    return LstmGradients(
        steps.by_sequence(found.gates),
        bias_gradient(layer, tape, found.gates),
        found.first_cells,
        steps.weight_gradient(ctx, hidden, layer.first_states, found.gates) if wants_weight else None,
    )


# ---------------------------------------------------------------------- with a projection
class ProjectedRun(NamedTuple):
    """Values of a run with a projection: projected states (`hidden`) and cells in the order of the rows that
    were given, gates, activated cells and the states before the projection (`inner`) step by step.
    """

    hidden: Array
    cells: Array
    gates: Array
    active: Array
    inner: Array


class ProjectedGradients(NamedTuple):
    """Gradients of the gates, in the order of the rows that were given; of both weights, where they are
    wanted; of the bias; of the first cells and states, longest sequence first.
    """

    gates: Array
    weight: Maybe
    projection: Maybe
    bias: Array
    first_cells: Array
    first_states: Array


def run_projected(
    ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, fixed: Hashable = None
) -> ProjectedRun:
    """All steps over rows as they are given, as `run_rows` without a projection."""
    if ctx.compiled is not None:
        done: ProjectedRun | None = ctx.compiled.lstmp(ctx, layer, X, bias, fixed)
        if done is not None:
            return done
    tape = run(layer, X, bias)
    state, cells = map(layer.steps.by_sequence, (tape.state, tape.cells))
    return ProjectedRun(state, cells, tape.gates, tape.active, tape.hidden)


def run_projected_back(
    ctx: KernelContext, layer: LstmLayer, run: ProjectedRun, d: Array, dcells: Maybe, wants: tuple[bool, bool]
) -> ProjectedGradients:
    """All steps back, from the gradients of projected states and cells; `wants` the weight's gradient, and
    the projection's.
    """
    steps, xp = layer.steps, layer.cell.xp
    if ctx.compiled is not None:
        done: tuple[Array, ...] | None = ctx.compiled.lstmp_back(ctx, layer, run, d, dcells)
        if done is not None:
            return _projected_gradients(ctx, layer, run, done, wants)
    state = steps.by_step(run.hidden)
    tape = Tape(run.gates, steps.by_step(run.cells), run.active, run.inner, state)
    back = None if dcells is None else steps.by_step(dcells)
    found = run_back(layer, tape, steps.by_step(d), back)
    return ProjectedGradients(
        steps.by_sequence(found.gates),
        steps.weight_gradient(ctx, state, layer.first_states, found.gates) if wants[0] else None,
        shared_product(ctx, xp, run.inner.T, found.projected) if wants[1] else None,
        bias_gradient(layer, tape, found.gates),
        found.first_cells,
        found.first_states,
    )


def _projected_gradients(
    ctx: KernelContext, layer: LstmLayer, run: ProjectedRun, done: tuple[Array, ...], wants: tuple[bool, bool]
) -> ProjectedGradients:
    """The gradients, from those that compiled code gives."""
    steps, xp = layer.steps, layer.cell.xp
    gates, earlier, projected, bias, first_cells = done
    first_rows = gates[xp.asarray(steps.rows[: steps.running])]
    return ProjectedGradients(
        gates,
        shared_product(ctx, xp, earlier.T, gates) if wants[0] else None,
        shared_product(ctx, xp, run.inner.T, projected) if wants[1] else None,
        bias,
        first_cells,
        product(xp, first_rows, layer.weight.T),
    )


def bias_gradient(layer: LstmLayer, tape: Tape, dgates: Array) -> Array:
    """[4 size], or [7 size] with the peephole weights'."""
    cell = layer.cell
    parts = [dgates.sum(axis=0)]
    if cell.peepholes is not None:
        earlier = layer.steps.earlier(tape.cells, layer.first_cells)
        size = cell.size
        for values, k in ((earlier, 1), (earlier, 2), (tape.cells, 3)):
            parts.append((values * dgates[:, k * size : (k + 1) * size]).sum(axis=0))
    total: Array = cell.xp.concatenate(parts)
    return total
