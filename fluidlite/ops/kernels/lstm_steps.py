"""All steps of a long short-term memory, forward and back; gates in the order candidate, input, forget,
output.

Between the ops everything is stored step by step, a row for each sequence that still runs (see
`recurrence.TimeSteps`). Inside a step the gates lie in planes [4, n, size], so that element-wise calls go
over contiguous memory: of 32 rows of 128 they take half as long. The backward pass computes, for some steps
at a time, all that does not depend on the step after: a step is then one product and a few element-wise
calls.
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
from fluidlite.ops.kernels.scalar_steps import Operand

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


GATES = ("candidate", "entry", "forget", "output")
_PEEPHOLES = ("of_entry", "of_forget", "of_output")
LSTM = StepCell(
    "x_candidate x_entry x_forget x_output | before=0 of_entry=0 of_forget=0 of_output=0 clip -> "
    "candidate entry forget output cell shown hidden",
    """
    candidate = candidate_activation(x_candidate)
    entry = gate_activation(x_entry + before * of_entry)
    forget = gate_activation(x_forget + before * of_forget)
    cell = bounded(candidate * entry + forget * before, clip)
    output = gate_activation(x_output + cell * of_output)
    shown = cell_activation(cell)
    hidden = output * shown
    """,
    Layout(((0, 4),), 4, GATES, "cell", ("hidden", "cell")),
)
"""`before` is the cell before, `of_...` are peephole weights."""
PROJECTION = StepCell(
    "x | clip -> state", "state = bounded(activation(x), clip)", Layout(entries=0, sources=("state",))
)
"""From the product with the hidden state to the state that the recurrence reads."""


@functools.cache
def _form(
    gate: str, state: str, candidate: str, clip: float, has_peepholes: bool, has_before: bool
) -> CellForm:
    """A form of the cell; kept by plain values, because steps ask for it."""
    absent = () if has_peepholes else _PEEPHOLES
    return LSTM.form(
        gate_activation=gate,
        cell_activation=state,
        candidate_activation=candidate,
        clip=clip,
        **dict.fromkeys(absent if has_before else (*absent, "before")),
    )


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

    def form(self, has_before: bool = True) -> CellForm:
        """The declared cell as it is here; without a cell before where there is none."""
        kinds = self.gate.name, self.state.name, self.candidate.name
        return _form(*kinds, self.clip, self.peepholes is not None, has_before)

    def run(self, gates: Array, earlier: Maybe, cells: Array, active: Array, hidden: Array) -> None:
        """Activate the gates [4, n, size] in place, from their sums; write the cells, the cells activated,
        and the state.
        """
        call = forward_calls(self.form(earlier is not None))
        call(self.xp, gates, cells, active, hidden, *self.known(earlier))

    def known(self, earlier: Maybe) -> tuple[Array, ...]:
        """The values that the cell reads beside its gates."""
        return (*(() if earlier is None else (earlier,)), *(self.peepholes or ()))

    def factors(
        self, gates: Array, earlier: Array, cells: Array, active: Array, out: Array, share: Array
    ) -> Array:
        """Write the factors of the gates' gradients [4, n, size], and that of the state's gradient in the
        cell's; gives that of the cell's gradient in the earlier one's.
        """
        call = _factor_calls(self.form())
        through: Array
        (through,) = call(self.xp, gates, cells, active, out, share, *self.known(earlier))
        return through

    def back(self, d: Array, carried: Maybe, factors: Array, share: Array, dgates: Array) -> None:
        """One step back: write the gates' gradients; `share` becomes the cells' gradient."""
        xp = self.xp
        xp.multiply(factors[3], d, out=dgates[3])
        xp.multiply(share, d, out=share)
        if carried is not None:
            first = share[: len(carried)]
            xp.add(first, carried, out=first)
        xp.multiply(factors[:3], share, out=dgates[:3])


@functools.cache
def forward_calls(form: CellForm) -> Callable[..., Any]:
    """The calls of a step."""
    reads = in_planes("gates", [f"x_{name}" for name in GATES])
    known = form.known
    reads |= {name: ArrayPart(name) for name in known}
    results = {name: ArrayPart(name) for name in ("cell", "shown", "hidden")}
    writes = {**in_planes("gates", GATES), **results}
    return cell_calls(form.forward, ("gates", *results, *known), reads, writes)


@functools.cache
def _factor_calls(form: CellForm) -> Callable[..., Any]:
    """The calls that compute what gradients are multiplied by: of the output gate the state's, of all else
    the cell's.
    """
    back = form.back(is_flat=True)
    hangs_on = dict.fromkeys(("x_candidate", "x_entry", "x_forget", "before"), "cell")
    values: dict[str, Operand] = {}
    for name, wanted in {**hangs_on, "x_output": "hidden", "cell": "hidden"}.items():
        source, values[gradient(name)] = back.only_factor(name)
        assert source == wanted
    known = form.known
    reads = in_planes("gates", GATES) | {name: ArrayPart(name) for name in ("cell", "shown", *known)}
    writes = in_planes("factors", [gradient(f"x_{name}") for name in GATES])
    writes[gradient("cell")] = ArrayPart("share")
    parameters = ("gates", "cell", "shown", "factors", "share", *known)
    return cell_calls(CellSteps(back.steps, values), parameters, reads, writes, (gradient("before"),))


class Projection(NamedTuple):
    """From the hidden state to the recurrent one: a product, an activation, a bound (0: none)."""

    weight: Array
    activation: Activation
    clip: float

    @property
    def form(self) -> CellForm:
        """The declared cell as it is here."""
        return PROJECTION.form(activation=self.activation.name, clip=self.clip)

    def run(self, xp: Any, hidden: Array, out: Array) -> None:
        """Write the projected state."""
        product(xp, hidden, self.weight, out)
        _projection_calls(self.form)(xp, out)

    def slopes(self, xp: Any, state: Array) -> Array:
        """Derivatives where the projected state is `state`."""
        found = xp.empty_like(state)
        _projection_slopes(self.form)(xp, state, found)
        return found


@functools.cache
def _projection_calls(form: CellForm) -> Callable[..., Any]:
    return cell_calls(form.forward, ("state",), {"x": ArrayPart("state")}, {"state": ArrayPart("state")})


@functools.cache
def _projection_slopes(form: CellForm) -> Callable[..., Any]:
    back = form.back(is_flat=True)
    _, factor = back.only_factor("x")
    steps = CellSteps(back.steps, {gradient("x"): factor})
    return cell_calls(
        steps, ("state", "out"), {"state": ArrayPart("state")}, {gradient("x"): ArrayPart("out")}
    )


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
    forward, first = (forward_calls(cell.form(has_before)) for has_before in (True, False))
    for step, entry, gates, before in gate_steps(steps, X, 4, made, state, layer.first_states):
        now = step.rows
        if before is None:
            xp.add(entry, offset, out=gates)
        else:
            gate_product(xp, before, layer.weight, gates)
            xp.add(gates, entry, out=gates)
            xp.add(gates, offset, out=gates)
        earlier = steps.one_before(step, cells, layer.first_cells)
        call = first if earlier is None else forward
        call(xp, gates, cells[now], active[now], hidden[now], *cell.known(earlier))
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
        factors, share, rows = chunk.factors, chunk.share, chunk.rows
        given = chunk.gates, chunk.earlier, tape.cells[rows], tape.active[rows]
        through = cell.factors(*given, factors, share)
        for step in chunk.steps:
            now, inner, width = step.rows, chunk.inner(step), step.width
            dstate = d[step.start : step.start + len(passed)]
            xp.add(dstate, passed, out=dstate)
            dhidden = d[now]
            if projection is not None and slopes is not None:
                xp.multiply(dhidden, slopes[now], out=dhidden)
                dhidden = product(xp, dhidden, projection.weight.T)
            if dcells is not None:
                carried = _joined(dcells[now], carried)
            cell.back(dhidden, carried, factors[:, inner], share[inner], planes(found[now], 4))
            carried = xp.multiply(share[inner], through[inner], out=next_cells[:width])
            passed = product(xp, found[now], weight.T, next_states[:width])
    return Gradients(found, d, carried if carried is not None else xp.zeros((0, size), d.dtype), passed)


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
    if layer.cell.peepholes is None:
        total: Array = dgates.sum(axis=0)
        return total
    return joined_bias_gradient(
        layer.cell, tape.cells, layer.steps.earlier(tape.cells, layer.first_cells), dgates
    )


def joined_bias_gradient(cell: LstmCell, cells: Array, earlier: Array, dgates: Array) -> Array:
    """That of the gates' biases and of the peephole weights, from the cells of all rows and those before."""
    parts = [dgates.sum(axis=0)]
    back = cell.form().back()
    values = {"before": earlier, "cell": cells}
    for name in _PEEPHOLES if cell.peepholes is not None else ():
        source, factor = back.only_factor(name)
        gate = GATES.index(source.removeprefix("x_"))
        product_of = values[str(factor)] * dgates[:, gate * cell.size : (gate + 1) * cell.size]
        parts.append(product_of.sum(axis=0))
    total: Array = cell.xp.concatenate(parts)
    return total
