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
        return self.form.cell.layout.before == "cell"

    @property
    def first_before(self) -> Maybe:
        """The value before the first step."""
        return self.first_cells if self.carries_cells else self.first_states

    def known(self, before: Maybe) -> list[Array]:
        """The values that the cell reads beside its sums."""
        found = [before] if before is not None and "before" in self.form.known else []
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


@functools.cache
def _projection_calls(form: CellForm) -> Callable[..., Any]:
    state = ArrayPart("state")
    return cell_calls(form.forward, ("state",), {"x": state}, {"state": state})


@functools.cache
def _projection_slopes(form: CellForm) -> Callable[..., Any]:
    back = form.back(is_flat=True)
    steps = CellSteps(back.steps, {gradient("x"): back.only_factor("x")[1]})
    return cell_calls(
        steps, ("state", "out"), {"state": ArrayPart("state")}, {gradient("x"): ArrayPart("out")}
    )


# ---------------------------------------------------------------------- step by step, forward
class _Forward:
    """A run step by step: its arrays, and the places of one step in them."""

    def __init__(self, layer: RecurrentLayer, X: Array, bias: Maybe) -> None:
        self.layer, self.layout = layer, layer.form.cell.layout
        xp, size, form = layer.xp, layer.size, layer.form
        self.planes = len(form.cell.once)
        self.entries = X if bias is None else X + bias[: X.shape[1]]
        self.rest = None
        """The bias of what has no input."""
        if bias is not None and len(bias) > X.shape[1]:
            self.rest = bias[X.shape[1] :].reshape(-1, 1, size)
        rows = len(X)
        self.taken = xp.empty_like(self.entries[: layer.steps.running])
        self.scratch = xp.empty(layer.steps.running * self.planes * size, X.dtype)
        self.gates = xp.empty((rows, len(self.layout.saved) * size), X.dtype)
        self.gate_planes = planes(self.gates, len(self.layout.saved)) if self.layout.saved else None
        self.made = {name: xp.empty((rows, size), X.dtype) for name in _others(form)}
        self.states = self.made["hidden"]
        if layer.projection is not None:
            self.states = xp.empty((rows, layer.width), X.dtype)
        self.befores = self.made[self.layout.before]
        self.calls = {each: self._calls(each) for each in (form, form.first)}

    def _calls(self, form: CellForm) -> list[Any]:
        """The calls of each stage, with the arrays that they write."""
        stages = [[self.made[name] for name in _others(form) if name in one.outputs] for one in form.stages]
        return [(forward_calls(form, number), arrays) for number, arrays in enumerate(stages)]

    def add_products(self, step: TimeStep, sums: Array, entry: Array) -> None:
        """Write the sums of a step, but for what its second product adds."""
        xp, steps = self.layer.xp, self.layer.steps
        first, last = self.layout.state
        state = steps.one_before(step, self.states, self.layer.first_states)
        if state is None:
            sums[...] = entry
            return
        reached = min(last, len(entry))
        gate_product(xp, state, self.layer.weights[0], sums[first:last])
        both = sums[first:reached]
        xp.add(both, entry[first:reached], out=both)
        if len(entry) > last:
            sums[last:] = entry[last:]
        if self.rest is not None:
            xp.add(sums[len(entry) :], self.rest, out=sums[len(entry) :])

    def add_second(self, now: slice, source: str, sums: Array) -> None:
        """Add the second product to its sums, by way of the states' place."""
        xp, into = self.layer.xp, self.made["hidden"][now]
        product(xp, self.made[source][now], self.layer.weights[1], into)
        xp.add(sums, into, out=sums)

    def project(self, now: slice) -> None:
        """Write the projected states."""
        xp, layer = self.layer.xp, self.layer
        if layer.projection is not None:
            product(xp, self.made["hidden"][now], layer.weights[1], self.states[now])
            _projection_calls(layer.projection)(xp, self.states[now])


def _run(layer: RecurrentLayer, X: Array, bias: Maybe) -> _Forward:
    """All steps over the inputs of the sums, X [rows, entries x size]."""
    made = _Forward(layer, X, bias)
    steps, size, form, layout = layer.steps, layer.size, layer.form, made.layout
    for step in steps:
        now = step.rows
        sums = made.scratch[: made.planes * step.width * size].reshape(made.planes, step.width, size)
        entry = planes(steps.taken(made.entries, step, made.taken), layout.entries)
        made.add_products(step, sums, entry)
        before = steps.one_before(step, made.befores, layer.first_before)
        known = layer.known(before)
        for number, (calls, arrays) in enumerate(made.calls[form if before is not None else form.first]):
            if number and layout.second is not None and before is not None:
                source, (first, last) = layout.second
                made.add_second(now, source, sums[first:last])
            calls(layer.xp, entry, sums, *(array[now] for array in arrays), *known)
        made.project(now)
        if made.gate_planes is not None:
            made.gate_planes[:, now] = sums
    return made


# ---------------------------------------------------------------------- step by step, back
class _Back:
    """A way back step by step: the gradients so far."""

    def __init__(self, layer: RecurrentLayer, count: int, d: Array) -> None:
        self.layer, self.layout, self.d = layer, layer.form.cell.layout, d
        xp, running = layer.xp, layer.steps.running
        self.planes = len(layer.form.cell.once)
        self.sums = xp.empty((count, self.planes * layer.size), d.dtype)
        self.states = xp.empty((running, layer.width), d.dtype)
        self.cells = xp.empty((2, running, layer.size), d.dtype)
        self.passed = self.states[:0]
        self.carried: Maybe = None

    def pass_on(self, step: TimeStep) -> Array:
        """Write what the states before have from the product with them."""
        xp, layer = self.layer.xp, self.layer
        behind = self.sums[step.rows, layer.columns(self.layout.state)]
        self.passed = product(xp, behind, layer.weights[0].T, self.states[: step.width])
        return self.passed

    def step(self, chunk: Chunk, step: TimeStep, d: Array, dcells: Maybe, through: Maybe) -> None:
        """Write the gradients of one step, from that of its states."""
        xp, inner = self.layer.xp, chunk.inner(step)
        factors, share = chunk.factors[:, inner], chunk.share[inner]
        dsums = planes(self.sums[step.rows], self.planes)
        if through is not None:
            if dcells is not None:
                self.carried = _joined(dcells[step.rows], self.carried)
            cell_back(xp, d, self.carried, factors, share, dsums)
            self.carried = xp.multiply(share, through[inner], out=self.cells[0, : step.width])
            self.pass_on(step)
        elif self.layout.second is not None:
            self._kept_back(step, d, chunk.gates[1, inner], factors, share, dsums)
        else:
            xp.multiply(factors, d, out=dsums)
            passed = self.pass_on(step)
            if "before" in self.layer.form.known:
                xp.add(passed, share * d, out=passed)

    def _kept_back(
        self, step: TimeStep, d: Array, reset: Array, factors: Array, straight: Array, dsums: Array
    ) -> None:
        """One step back through two products: what the reset gate lets through has a gradient of its own."""
        xp = self.layer.xp
        dkept, direct = self.cells[:, : step.width]
        xp.multiply(factors[::2], d, out=dsums[::2])
        product(xp, dsums[2], self.layer.weights[1].T, dkept)
        xp.multiply(factors[1], dkept, out=dsums[1])
        passed = self.pass_on(step)
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
    xp, form = layer.xp, layer.form
    layout = form.cell.layout
    slopes = None
    if layer.projection is not None:
        slopes = xp.empty_like(made.hidden)
        _projection_slopes(layer.projection)(xp, made.hidden, slopes)
    back = _Back(layer, len(d), d)
    back.carried = last_cells
    gates = made.gates if layout.saved else made.hidden
    befores = made.cells if layer.carries_cells else made.hidden
    alone = [getattr(made, name) for name in layout.alone]
    calls = factor_calls(form)
    for chunk in chunks(layer.steps, gates, max(len(layout.saved), 1), befores, layer.first_before):
        inputs = [array[chunk.rows] for array in alone]
        known = layer.known(chunk.earlier)
        returned = calls(xp, chunk.gates, chunk.factors, chunk.share, *inputs, *known)
        through = returned[0] if returned else None
        for step in chunk.steps:
            first = d[step.start : step.start + len(back.passed)]
            xp.add(first, back.passed, out=first)
            dstate = d[step.rows]
            if slopes is not None:
                xp.multiply(dstate, slopes[step.rows], out=dstate)
                dstate = product(xp, dstate, layer.weights[1].T)
            back.step(chunk, step, dstate, dcells, through)
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
    made = {name: found.made[value] for name, value in layer.form.cell.layout.alone.items()}
    if layer.projection is not None:
        made["inner"] = found.made["hidden"]
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
        behind = back.sums[:, layer.columns(back.layout.state)]
        weights[0] = steps.weight_gradient(ctx, hidden, layer.first_states, behind)
    if len(weights) > 1 and wants[1]:
        weights[1] = _second_weight(ctx, layer, made, made.reset, given, back.sums)
    bias = back.sums.sum(axis=0)
    if layer.peepholes is not None:
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
        return shared_product(ctx, layer.xp, kept.T, sums[:, layer.columns(second[1])])
    assert made.inner is not None
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
            parts.append((values[str(factor)] * sums[:, layer.columns((plane, plane + 1))]).sum(axis=0))
    total: Array = layer.xp.concatenate(parts)
    return total
