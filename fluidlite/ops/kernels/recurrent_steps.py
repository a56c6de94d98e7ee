"""All steps of recurrences, forward and back, for any cell of `gated_cells`.

Between the ops everything is stored step by step, a row for each sequence that still runs (see
`recurrence.TimeSteps`). Inside a step the gates lie in planes [gates, n, size], so that element-wise calls go
over contiguous memory: of 32 rows of 128 they take half as long. The backward pass computes, for some steps
at a time, all that does not depend on the step after: a step is then products and a few element-wise calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.cell_calls import ArrayPart, cell_calls, in_planes
from fluidlite.ops.kernels.cells import CellForm, CellSteps, gradient
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import Chunk, TimeStep, TimeSteps, chunks, planes

__all__ = [
    "RecurrentBack",
    "RecurrentGradients",
    "RecurrentLayer",
    "RecurrentRun",
    "cell_back",
    "factor_calls",
    "forward_calls",
    "run_rows",
    "run_rows_back",
    "weight_sums",
]

Maybe: TypeAlias = "Array | None"


class RecurrentLayer(NamedTuple):
    """Values that a run and its way back have in common.

    `weights` are those of the cell's products [size, planes x size], and of a projection; `peepholes` what
    the cell reads in all rows [n x size]. First values are those of the longest sequence first.
    """

    xp: Any
    form: CellForm
    size: int
    weights: tuple[Array, ...]
    steps: TimeSteps
    first_states: Maybe = None
    first_cells: Maybe = None
    peepholes: Maybe = None
    projection: CellForm | None = None

    @property
    def width(self) -> int:
        """Units of the states that the recurrence reads."""
        return len(self.weights[0])

    @property
    def carries_cells(self) -> bool:
        """True if the cell's own value goes to the next step, not the state."""
        return self.form.cell.layout.carries_cells

    @property
    def first_before(self) -> Maybe:
        """The value before the first step."""
        return self.first_cells if self.carries_cells else self.first_states

    def known(self, before: Maybe) -> list[Array]:
        """The values that the cell reads beside its sums."""
        found = [] if before is None or not self.form.known else [before]
        return found if self.peepholes is None else [*found, *self.peepholes.reshape(-1, self.size)]

    def columns(self, planes: tuple[int, int]) -> slice:
        """The columns of a range of planes."""
        return slice(planes[0] * self.size, planes[1] * self.size)


class RecurrentRun(NamedTuple):
    """Values of a run: states (with a projection, what it makes of them) and cells in the order of the rows
    that were given; all others step by step. Those that the cell has not are None.
    """

    hidden: Array
    gates: Array
    cells: Maybe = None
    active: Maybe = None
    reset: Maybe = None
    inner: Maybe = None
    """The states before the projection."""


class RecurrentBack(NamedTuple):
    """Gradients that compiled code gives: of the sums, of the bias with the peephole weights, and of those
    first values that no product of them gives.

    For the gradients of weights, what the first product has read at each row, and what is missing for that
    of the second one: what it has read, or of a projection its gradient, step by step.
    """

    sums: Array
    bias: Array
    earlier: Array
    first_states: Maybe = None
    first_cells: Maybe = None
    second: Maybe = None


class RecurrentGradients(NamedTuple):
    """Gradients of the sums, in the order of the rows that were given; of the bias, with the peephole
    weights'; of the first values, longest sequence first; and of the weights, where they are wanted.
    """

    sums: Array
    bias: Array
    first_states: Maybe
    first_cells: Maybe
    weights: list[Maybe]


# ---------------------------------------------------------------------- calls of a cell
@functools.cache
def forward_calls(form: CellForm, number: int = 0) -> Callable[..., Any]:
    """The calls of a stage: a function of the input, the sums, which it overwrites by what a gradient reads,
    arrays for the other outputs, and what the cell reads beside.
    """
    layout, stage = form.cell.layout, form.stages[number]
    sums = in_planes("sums", form.cell.once)
    saved = in_planes("sums", layout.saved)
    reads = {name: sums[name] for name in stage.sums}
    # values to which nothing is added are read from the input
    reads |= in_planes("entry", form.cell.once[: layout.state[0]])
    for earlier in form.stages[:number]:
        reads |= {name: saved[name] for name in earlier.outputs if name in saved}
    alone = [name for name in _others(form) if name in stage.outputs]
    reads |= {name: ArrayPart(name) for name in form.known}
    writes = {name: saved.get(name, ArrayPart(name)) for name in stage.outputs}
    return cell_calls(form.forward, ("entry", "sums", *alone, *form.known), reads, writes)


def _others(form: CellForm) -> list[str]:
    """The outputs that have arrays of their own."""
    return [*form.cell.layout.alone.values(), "hidden"]


@functools.cache
def factor_calls(form: CellForm) -> Callable[..., Any]:
    """The calls that compute what gradients are multiplied by; each sum's has one source.

    With the state before carried, `share` is what goes straight to it; with the cell, the factor of the
    state's gradient in the cell's, and what the cell before has of it is returned.
    """
    layout = form.cell.layout
    back = form.back(is_flat=True)
    values = {gradient(name): back.only_factor(name)[1] for name in form.cell.once}
    reads = in_planes("gates", layout.saved or ("hidden",))
    writes = in_planes("factors", list(map(gradient, form.cell.once)))
    returned: list[str] = []
    if "before" in form.known:
        values[gradient("before")] = back.factors_of("before")[layout.before]
        shared = gradient("before")
        if layout.before == "cell":
            shared = gradient("cell")
            values[shared] = back.only_factor("cell")[1]
            returned = [gradient("before")]
        writes[shared] = ArrayPart("share")
    reads |= {name: ArrayPart(name) for name in (*layout.alone.values(), *form.known)}
    parameters = ("gates", "factors", "share", *layout.alone.values(), *form.known)
    return cell_calls(CellSteps(back.steps, values), parameters, reads, writes, returned)


# ---------------------------------------------------------------------- step by step, forward
class _StepSums(NamedTuple):
    """The sums of one step [planes, n, size], and those of them to which the first product adds, to which
    it and the input do, the input alone, the bias alone, and the second product.
    """

    all: Array
    product: Array
    both: Array
    given: Array
    rest: Array
    second: Array


class _Tape(NamedTuple):
    """The arrays of a run, step by step: what the recurrence reads, the gates, and other outputs by name."""

    states: Array
    gates: Array
    others: dict[str, Array]

    @classmethod
    def empty(cls, layer: RecurrentLayer, rows: int, dtype: Any) -> _Tape:
        """Arrays for so many rows."""
        xp, size = layer.xp, layer.size
        gates = xp.empty((rows, len(layer.form.cell.layout.saved) * size), dtype)
        others = {name: xp.empty((rows, size), dtype) for name in _others(layer.form)}
        states = others["hidden"]
        if layer.projection is not None:
            states = xp.empty((rows, layer.width), dtype)
        return cls(states, gates, others)

    def calls(self, form: CellForm) -> list[tuple[Callable[..., Any], list[Array]]]:
        """The calls of each stage, with the arrays that they write."""
        return [(calls, [self.others[name] for name in names]) for calls, names in _stage_calls(form)]


@functools.cache
def _stage_calls(form: CellForm) -> list[tuple[Callable[..., Any], list[str]]]:
    names = [[name for name in _others(form) if name in stage.outputs] for stage in form.stages]
    return [(forward_calls(form, number), own) for number, own in enumerate(names)]


class _SumsOfSteps:
    """Writes the sums of each step, in scratch that all steps have in common."""

    def __init__(self, layer: RecurrentLayer, X: Array, bias: Maybe) -> None:
        xp, size, running = layer.xp, layer.size, layer.steps.running
        self.xp, self.steps, self.size = xp, layer.steps, size
        self.layout, self.planes = layer.form.cell.layout, len(layer.form.cell.once)
        self.weight = layer.weights[0]
        self.X = X if bias is None else X + bias[: X.shape[1]]
        self.bias: Maybe = None
        """That of what has no input."""
        if bias is not None and len(bias) > X.shape[1]:
            self.bias = bias[X.shape[1] :].reshape(-1, 1, size)
        self.taken = xp.empty((running, X.shape[1]), X.dtype)
        self.scratch = xp.empty(running * self.planes * size, X.dtype)
        self.known: dict[int, _StepSums] = {}
        """By number of rows."""

    def of_width(self, width: int) -> _StepSums:
        """The sums of a step of so many rows."""
        found = self.known.get(width)
        if found is None:
            planes, entries = self.planes, self.layout.entries
            sums = self.scratch[: planes * width * self.size].reshape(planes, width, self.size)
            first, last = self.layout.state
            both = sums[first : min(last, entries)]
            second = slice(*self.layout.second) if self.layout.second is not None else slice(0)
            parts = sums[first:last], both, sums[last:entries], sums[entries:], sums[second]
            found = self.known[width] = _StepSums(sums, *parts)
        return found

    def write(self, step: TimeStep, state: Maybe) -> tuple[Array, _StepSums]:
        """The input of a step in planes, and its sums but for what the second product adds."""
        xp, sums = self.xp, self.of_width(step.width)
        entry = planes(self.steps.taken(self.X, step, self.taken), self.layout.entries)
        if state is None:
            sums.all[...] = entry
            return entry, sums
        gate_product(xp, state, self.weight, sums.product)
        own = entry if len(sums.both) == len(entry) else entry[self.layout.state[0] :]
        if len(sums.given):
            own = own[: len(sums.both)]
            sums.given[...] = entry[len(sums.both) :]
        xp.add(sums.both, own, out=sums.both)
        if self.bias is not None:
            xp.add(sums.rest, self.bias, out=sums.rest)
        return entry, sums


def _run(layer: RecurrentLayer, X: Array, bias: Maybe) -> _Tape:
    """All steps over the inputs of the sums, X [rows, entries x size]."""
    xp, steps, form = layer.xp, layer.steps, layer.form
    tape, sums_of_steps = _Tape.empty(layer, len(X), X.dtype), _SumsOfSteps(layer, X, bias)
    layout = form.cell.layout
    later = tape.calls(form)
    first = later if layer.first_before is not None else tape.calls(form.first)
    gate_planes = planes(tape.gates, len(layout.saved)) if layout.saved else None
    hidden = tape.others["hidden"]
    cells = tape.others["cell"] if layer.carries_cells else None
    second = None if layout.between is None else tape.others[layout.between]
    of_all_rows = layer.known(None)
    for step in steps:
        now = step.rows
        before = state = steps.one_before(step, tape.states, layer.first_states)
        entry, sums = sums_of_steps.write(step, state)
        if cells is not None:
            before = steps.one_before(step, cells, layer.first_cells)
        known = of_all_rows if before is None or not form.known else [before, *of_all_rows]
        for number, (calls, arrays) in enumerate(first if before is None else later):
            if number and second is not None and before is not None:
                # by way of the states' place, which is free until the end
                product(xp, second[now], layer.weights[1], hidden[now])
                xp.add(sums.second, hidden[now], out=sums.second)
            calls(xp, entry, sums.all, *[array[now] for array in arrays], *known)
        if layer.projection is not None:
            state = product(xp, hidden[now], layer.weights[1], tape.states[now])
            project = forward_calls(layer.projection)
            project(xp, None, state[None], state)
        if gate_planes is not None:
            gate_planes[:, now] = sums.all
    return tape


# ---------------------------------------------------------------------- step by step, back
class _Back:
    """A way back step by step: the gradients so far."""

    def __init__(self, layer: RecurrentLayer, count: int, dtype: Any) -> None:
        xp, running = layer.xp, layer.steps.running
        self.xp, self.layer = xp, layer
        layout = layer.form.cell.layout
        self.has_second = layout.second is not None
        self.goes_straight = "before" in layer.form.known
        self.weight = layer.weights[0].T
        columns = len(layer.form.cell.once) * layer.size
        self.sums = xp.empty((count, columns), dtype)
        self.planes = planes(self.sums, len(layer.form.cell.once))
        self.behind = self.sums[:, layer.columns(layout.state)]
        """Those of the first product."""
        self.states = xp.empty((running, layer.width), dtype)
        self.cells = xp.empty((2, running, layer.size), dtype)
        self.passed = self.states[:0]
        """The gradient of the states before, and of the cells, in the last step."""
        self.carried: Maybe = None

    def pass_on(self, now: slice) -> Array:
        """Write what the states before have from the product with them."""
        behind = self.behind[now]
        self.passed = product(self.xp, behind, self.weight, self.states[: len(behind)])
        return self.passed

    def cell_step(self, chunk: Chunk, step: TimeStep, d: Array, dcells: Maybe, through: Array) -> None:
        """Write the gradients of one step, from that of its states, where cells go to the next one."""
        now, inner = step.rows, chunk.inner(step)
        share = chunk.share[inner]
        if dcells is not None:
            self.carried = _joined(dcells[now], self.carried)
        cell_back(self.xp, d, self.carried, chunk.factors[:, inner], share, self.planes[:, now])
        self.carried = self.xp.multiply(share, through[inner], out=self.cells[0, : step.width])
        self.pass_on(now)

    def step(self, chunk: Chunk, step: TimeStep, d: Array) -> None:
        """Write the gradients of one step, from that of its states."""
        now, inner = step.rows, chunk.inner(step)
        factors, dsums = chunk.factors[:, inner], self.planes[:, now]
        if self.has_second:
            self._kept_step(now, d, chunk.gates[1, inner], factors, chunk.share[inner], dsums)
            return
        self.xp.multiply(factors, d, out=dsums)
        passed = self.pass_on(now)
        if self.goes_straight:
            self.xp.add(passed, chunk.share[inner] * d, out=passed)

    def _kept_step(
        self, now: slice, d: Array, reset: Array, factors: Array, straight: Array, dsums: Array
    ) -> None:
        """One step back through two products: what the reset gate lets through has a gradient of its own."""
        xp = self.xp
        dkept, direct = self.cells[:, : len(d)]
        xp.multiply(factors[::2], d, out=dsums[::2])
        product(xp, dsums[2], self.layer.weights[1].T, dkept)
        xp.multiply(factors[1], dkept, out=dsums[1])
        passed = self.pass_on(now)
        xp.multiply(dkept, reset, out=dkept)
        xp.multiply(d, straight, out=direct)
        xp.add(dkept, direct, out=dkept)
        xp.add(passed, dkept, out=passed)


def cell_back(xp: Any, d: Array, carried: Maybe, factors: Array, share: Array, dsums: Array) -> None:
    """One step back of a long short-term memory; `share` becomes the cells' gradient."""
    xp.multiply(factors[3], d, out=dsums[3])
    xp.multiply(share, d, out=share)
    if carried is not None:
        first = share[: len(carried)]
        xp.add(first, carried, out=first)
    xp.multiply(factors[:3], share, out=dsums[:3])


def _run_back(layer: RecurrentLayer, made: RecurrentRun, d: Array, dcells: Maybe, last_cells: Maybe) -> _Back:
    """All steps back from `d`, the gradient of the states, which is overwritten; `dcells` and `last_cells`,
    those of all cells and of the last ones, come on top of it. All lies step by step.
    """
    xp, layout = layer.xp, layer.form.cell.layout
    slopes = None
    if layer.projection is not None:
        slopes = xp.empty_like(made.hidden)
        write_slopes = factor_calls(layer.projection)
        write_slopes(xp, made.hidden[None], slopes[None], None)
    back = _Back(layer, len(d), d.dtype)
    back.carried = last_cells
    gates = made.gates if layout.saved else made.hidden
    befores = made.hidden if made.cells is None else made.cells
    alone = [getattr(made, name) for name in layout.alone]
    calls = factor_calls(layer.form)
    carries_cells = layer.carries_cells
    for chunk in chunks(layer.steps, gates, max(len(layout.saved), 1), befores, layer.first_before):
        inputs = [array[chunk.rows] for array in alone]
        known = layer.known(chunk.earlier)
        returned = calls(xp, chunk.gates, chunk.factors, chunk.share, *inputs, *known)
        for step in chunk.steps:
            first = d[step.start : step.start + len(back.passed)]
            xp.add(first, back.passed, out=first)
            dstate = d[step.rows]
            if slopes is not None:
                xp.multiply(dstate, slopes[step.rows], out=dstate)
                dstate = product(xp, dstate, layer.weights[1].T)
            if carries_cells:
                back.cell_step(chunk, step, dstate, dcells, *returned)
            else:
                back.step(chunk, step, dstate)
    return back


def _joined(d: Array, carried: Maybe) -> Array:
    """The gradient of a step's cells: their own, and what comes back from the sequences that go on."""
    total = d.copy()
    if carried is not None:
        total[: len(carried)] += carried
    return total


# ---------------------------------------------------------------------- rows as they are given
def run_rows(
    ctx: KernelContext,
    layer: RecurrentLayer,
    X: Array,
    bias: Maybe,
    saves: bool = True,
    fixed: Hashable = None,
) -> RecurrentRun:
    """All steps over rows as they are given, by compiled code where the run has it.

    What is of use to a gradient only need not be there without `saves`. `fixed` stands for weights, among
    those of the op, that change only where persistable variables do.
    """
    if ctx.compiled is not None:
        done: RecurrentRun | None = ctx.compiled.recurrence(ctx, layer, X, bias, saves, fixed)
        if done is not None:
            return done
    found = _run(layer, X, bias)
    made = {name: found.others[value] for name, value in layer.form.cell.layout.alone.items()}
    if layer.projection is not None:
        made["inner"] = found.others["hidden"]
    if layer.carries_cells:
        made["cells"] = layer.steps.by_sequence(made["cells"])
    return RecurrentRun(layer.steps.by_sequence(found.states), found.gates, **made)


def run_rows_back(
    ctx: KernelContext,
    layer: RecurrentLayer,
    made: RecurrentRun,
    d: Maybe,
    dcells: Maybe = None,
    last_cells: Maybe = None,
    wants: Sequence[bool] = (True, True),
) -> RecurrentGradients:
    """All steps back, from the gradients of states and cells, by compiled code where the run has it; `wants`
    says of which weights gradients are wanted.
    """
    if ctx.compiled is not None:
        done: RecurrentBack | None = ctx.compiled.recurrence_back(ctx, layer, made, d, dcells, last_cells)
        if done is not None:
            return _from_compiled(ctx, layer, made, done, wants)
    xp, steps = layer.xp, layer.steps
    hidden = steps.by_step(made.hidden)
    cells = None if made.cells is None else steps.by_step(made.cells)
    given = xp.zeros_like(hidden) if d is None else steps.by_step(d)
    own = None if dcells is None else steps.by_step(dcells)
    back = _run_back(layer, made._replace(hidden=hidden, cells=cells), given, own, last_cells)
    weights: list[Maybe] = [None] * len(layer.weights)
    if wants[0]:
        weights[0] = steps.weight_gradient(ctx, hidden, layer.first_states, back.behind)
    if len(weights) > 1 and wants[1]:
        weights[1] = _second_weight(ctx, layer, made, made.reset, given, back.sums)
    bias = back.sums.sum(axis=0)
    if layer.peepholes is not None:
        assert cells is not None
        befores = steps.earlier(cells, layer.first_cells)
        bias = weight_sums(layer, bias, back.sums, {"cell": cells, "before": befores})
    first_cells = back.carried
    if layer.carries_cells and first_cells is None:
        first_cells = xp.zeros((0, layer.size), given.dtype)
    return RecurrentGradients(steps.by_sequence(back.sums), bias, back.passed, first_cells, weights)


def _second_weight(
    ctx: KernelContext, layer: RecurrentLayer, made: RecurrentRun, kept: Maybe, projected: Maybe, sums: Array
) -> Array:
    """The gradient of the second weight: of what the reset gate has let through, or of a projection."""
    second = layer.form.cell.layout.second
    if second is not None:
        assert kept is not None
        return shared_product(ctx, layer.xp, kept.T, sums[:, layer.columns(second)])
    assert made.inner is not None and projected is not None
    return shared_product(ctx, layer.xp, made.inner.T, projected)


def _from_compiled(
    ctx: KernelContext, layer: RecurrentLayer, made: RecurrentRun, done: RecurrentBack, wants: Sequence[bool]
) -> RecurrentGradients:
    """The gradients, from those that compiled code gives."""
    xp, steps = layer.xp, layer.steps
    behind = done.sums[:, layer.columns(layer.form.cell.layout.state)]
    weights: list[Maybe] = [None] * len(layer.weights)
    if wants[0]:
        weights[0] = shared_product(ctx, xp, done.earlier.T, behind)
    if len(weights) > 1 and wants[1]:
        weights[1] = _second_weight(ctx, layer, made, done.second, done.second, done.sums)
    states = done.first_states
    if states is None and layer.first_states is not None:
        first_rows = behind[xp.asarray(steps.rows[: steps.running])]
        states = product(xp, first_rows, layer.weights[0].T)
    return RecurrentGradients(done.sums, done.bias, states, done.first_cells, weights)


def weight_sums(layer: RecurrentLayer, bias: Array, sums: Array, values: dict[str, Array]) -> Array:
    """The gradients of the bias and behind it of what the cell reads in all rows, from the gradients of the
    sums and the values that these were multiplied with.
    """
    back = layer.form.back()
    once = layer.form.cell.once
    parts = [bias]
    for name in layer.form.known:
        if name != "before":
            source, factor = back.only_factor(name)
            plane = once.index(source)
            own = sums[:, layer.columns((plane, plane + 1))]
            products = values[str(factor)] * own
            parts.append(products.sum(axis=0))
    total: Array = layer.xp.concatenate(parts)
    return total
