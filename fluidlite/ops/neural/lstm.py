"""Long short-term memory over sequences, plain and with a projection; gates in the order candidate, input,
forget, output.

The forward pass stores everything step by step (see `recurrence.TimeSteps`), one matrix product a step.
The backward pass multiplies, before its loop, all that does not depend on the step after: a step is then one
product and a few element-wise calls, and the weights' gradients are one product each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.kernels.recurrence import Activation, TimeStep, TimeSteps, activation
from fluidlite.ops.kernels.sequence_rows import offsets_of_level
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_ATTRS = {
    "use_peepholes": True,
    "is_reverse": False,
    "gate_activation": "sigmoid",
    "cell_activation": "tanh",
    "candidate_activation": "tanh",
}


def _check(op: str, Input: Spec, Weight: Spec, Bias: Spec, use_peepholes: bool, size: int) -> None:
    columns, bias = 4 * size, (7 if use_peepholes else 4) * size
    if len(Input.shape) != 2 or Input.shape[1] not in (columns, -1):
        raise ShapeError(f"op {op!r}: Input has shape {list(Input.shape)}, wanted [rows, 4 x {size}]")
    if len(Weight.shape) != 2 or Weight.shape[1] not in (columns, -1):
        raise ShapeError(
            f"op {op!r}: Weight has shape {list(Weight.shape)}, wanted {columns} columns, as Input"
        )
    if tuple(Bias.shape) != (1, bias):
        raise ShapeError(
            f"op {op!r}: Bias has shape {list(Bias.shape)}, wanted [1, {bias}] "
            f"{'with' if use_peepholes else 'without'} peepholes"
        )


def _check_initial(op: str, H0: Spec | None, C0: Spec | None, projected: int, size: int) -> None:
    if H0 is not None and C0 is None:
        raise ShapeError(f"op {op!r}: H0 is given without C0")
    for slot, spec, columns in (("H0", H0, projected), ("C0", C0, size)):
        if spec is not None and (len(spec.shape) != 2 or spec.shape[1] not in (columns, -1)):
            raise ShapeError(f"op {op!r}: {slot} has shape {list(spec.shape)}, wanted {columns} columns")


# ---------------------------------------------------------------------- one cell
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

    def run(self, gates: Array, earlier: Maybe, cells: Array, active: Array) -> None:
        """Activate the gates [n, 4 size] in place; write the cells, and the cells activated."""
        xp, size = self.xp, self.size
        candidate, entry, forget, output = (gates[:, k * size : (k + 1) * size] for k in range(4))
        self.candidate.apply(xp, candidate)
        if self.peepholes is None:
            self.gate.apply(xp, gates[:, size:])
        else:
            if earlier is not None:
                entry += earlier * self.peepholes[0]
                forget += earlier * self.peepholes[1]
            self.gate.apply(xp, gates[:, size : 3 * size])
        xp.multiply(candidate, entry, out=cells)
        if earlier is not None:
            cells += forget * earlier
        if self.clip > 0:
            xp.clip(cells, -self.clip, self.clip, out=cells)
        if self.peepholes is not None:
            output += cells * self.peepholes[2]
            self.gate.apply(xp, output)
        active[...] = cells
        self.state.apply(xp, active)

    def inside(self, cells: Array) -> Maybe:
        """True for cells within the bound, where gradients pass; None without a bound."""
        return abs(cells) < self.clip if self.clip > 0 else None

    def factors(self, gates: Array, earlier: Array, active: Array) -> tuple[Array, Array]:
        """Factors of the gates' gradients, [n, 4, size] (the gradient of the cell, for the output gate that
        of the state), and the factor from the state's gradient to the cell's.
        """
        gates = gates.reshape(len(gates), 4, self.size)
        candidate, entry, forget, output = (gates[:, k] for k in range(4))
        out = self.xp.empty_like(gates)
        out[:, 0] = entry * self.candidate.slope(candidate)
        out[:, 1] = candidate * self.gate.slope(entry)
        out[:, 2] = earlier * self.gate.slope(forget)
        out[:, 3] = active * self.gate.slope(output)
        return out, output * self.state.slope(active)

    def back(
        self, d: Array, carried: Maybe, factors: Array, share: Array, forget: Array, inside: Maybe
    ) -> Array:
        """One step back: `factors` become the gates' gradients; gives what goes on to the earlier cells."""
        factors[:, 3] *= d
        share *= d
        if carried is not None:
            share[: len(carried)] += carried
        if self.peepholes is not None:
            share += factors[:, 3] * self.peepholes[2]
        if inside is not None:
            share *= inside
        factors[:, :3] *= share[:, None]
        earlier = share * forget
        if self.peepholes is not None:
            earlier += factors[:, 1] * self.peepholes[0]
            earlier += factors[:, 2] * self.peepholes[1]
        return earlier


def _cell(op: str, xp: Any, size: int, Bias: Array, attrs: Mapping[str, Any]) -> LstmCell:
    """The cell of an op, from its attributes and from what its bias holds beyond the gates'."""
    tail = Bias.reshape(-1)[4 * size :]
    with_peepholes = attrs["use_peepholes"]
    peepholes = (tail[:size], tail[size : 2 * size], tail[2 * size :]) if with_peepholes else None
    kinds = (attrs[f"{part}_activation"] for part in ("gate", "cell", "candidate"))
    gate, state, candidate = (activation(op, kind) for kind in kinds)
    return LstmCell(xp, size, gate, state, candidate, peepholes, attrs.get("cell_clip", 0.0))


class _Projection(NamedTuple):
    """From the hidden state to the recurrent one: a product, an activation, a bound (0: none)."""

    weight: Array
    activation: Activation
    clip: float

    def run(self, xp: Any, hidden: Array) -> Array:
        """The projected state."""
        out = hidden @ self.weight
        self.activation.apply(xp, out)
        return xp.clip(out, -self.clip, self.clip) if self.clip > 0 else out

    def slopes(self, state: Array) -> Array:
        """Derivatives where the projected state is `state`."""
        found = state * 0 + self.activation.slope(state)
        return found * (abs(state) < self.clip) if self.clip > 0 else found


# ---------------------------------------------------------------------- all steps
class Tape(NamedTuple):
    """Values of a run saved for the backward pass, stored step by step; `state` is what the recurrence reads:
    `hidden`, or its projection.
    """

    gates: Array
    cells: Array
    active: Array
    hidden: Array
    state: Array


def _earlier(step: TimeStep, X: Array, initial: Maybe) -> Maybe:
    """The rows of X one step before; at the first step the initial ones."""
    if step.before is None:
        return None if initial is None else initial[: step.width]
    return X[step.before : step.before + step.width]


def run(
    cell: LstmCell,
    steps: TimeSteps,
    gates: Array,
    Weight: Array,
    H0: Maybe,
    C0: Maybe,
    projection: _Projection | None = None,
) -> Tape:
    """All steps; `gates` [rows, 4 size] hold the inputs with their bias and are overwritten. H0 and C0:
    longest first.
    """
    xp = cell.xp
    cells, active, hidden = (xp.empty((len(gates), cell.size), gates.dtype) for _ in range(3))
    state = hidden if projection is None else xp.empty((len(gates), len(Weight)), gates.dtype)
    for step in steps:
        earlier, now = _earlier(step, state, H0), step.rows
        if earlier is not None:
            gates[now] += earlier @ Weight
        cell.run(gates[now], _earlier(step, cells, C0), cells[now], active[now])
        xp.multiply(gates[now, 3 * cell.size :], active[now], out=hidden[now])
        if projection is not None:
            state[now] = projection.run(xp, hidden[now])
    return Tape(gates, cells, active, hidden, state)


class Gradients(NamedTuple):
    """Gradients stored step by step: of the gates before activation, of the projection before its, of the
    first cells and states.
    """

    gates: Array
    projected: Array
    first_cells: Array
    first_states: Array


def run_back(
    cell: LstmCell,
    steps: TimeSteps,
    tape: Tape,
    C0: Maybe,
    Weight: Array,
    d: Array,
    projection: _Projection | None = None,
    last_cells: Maybe = None,
    dcells: Maybe = None,
) -> Gradients:
    """All steps back from `d`, the gradient of the states step by step, which is overwritten; `last_cells`
    and `dcells`, those of the last cells and of all cells, come on top of it.
    """
    xp, size = cell.xp, cell.size
    factors, shares = cell.factors(tape.gates, steps.earlier(tape.cells, C0), tape.active)
    forget, inside = tape.gates[:, 2 * size : 3 * size], cell.inside(tape.cells)
    slopes = None if projection is None else projection.slopes(tape.state)
    flat = as_matrix(factors)
    carried, passed = last_cells, xp.zeros((0, len(Weight)), d.dtype)
    for step in reversed(list(steps)):
        now = step.rows
        d[step.start : step.start + len(passed)] += passed
        dhidden = d[now]
        if projection is not None and slopes is not None:
            dhidden *= slopes[now]
            dhidden = dhidden @ projection.weight.T
        if dcells is not None:
            carried = _joined(dcells[now], carried)
        carried = cell.back(
            dhidden, carried, factors[now], shares[now], forget[now], None if inside is None else inside[now]
        )
        passed = flat[now] @ Weight.T
    return Gradients(flat, d, carried if carried is not None else xp.zeros((0, size), d.dtype), passed)


def _joined(d: Array, carried: Maybe) -> Array:
    """The gradient of a step's cells: their own, and what comes back from the sequences that go on."""
    total = d.copy()
    if carried is not None:
        total[: len(carried)] += carried
    return total


def _bias_gradient(cell: LstmCell, steps: TimeSteps, tape: Tape, C0: Maybe, dgates: Array) -> Array:
    """[1, 4 size], or [1, 7 size] with the peephole weights'."""
    parts = [dgates.sum(axis=0)]
    if cell.peepholes is not None:
        earlier, size = steps.earlier(tape.cells, C0), cell.size
        for values, k in ((earlier, 1), (earlier, 2), (tape.cells, 3)):
            parts.append((values * dgates[:, k * size : (k + 1) * size]).sum(axis=0))
    return cell.xp.concatenate(parts).reshape(1, -1)


# ---------------------------------------------------------------------- lstm
lstm = Op(
    "lstm", "Input H0? C0? Weight Bias -> Hidden Cell BatchGate? BatchCellPreAct?", attrs=_ATTRS, dynamic=True
)


@lstm.shape
def _(
    Input: Spec, H0: Spec | None, C0: Spec | None, Weight: Spec, Bias: Spec, use_peepholes: bool
) -> tuple[Spec, Spec, Spec, Spec]:
    _check("lstm", Input, Weight, Bias, use_peepholes, Weight.shape[0])
    _check_initial("lstm", H0, C0, Weight.shape[0], Weight.shape[0])
    hidden = Spec((Input.shape[0], Weight.shape[0]), Input.dtype, Input.lod_level)
    return hidden, hidden, Spec(Input.shape, Input.dtype), Spec(hidden.shape, Input.dtype)


@lstm.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    Bias: Array,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    offsets = offsets_of_level("lstm", "Input", Input_lod, 0, len(Input))
    steps = TimeSteps(xp, offsets, attrs["is_reverse"])
    cell = _cell("lstm", xp, len(Weight), Bias, attrs)
    gates = steps.by_step(Input)
    gates += Bias.reshape(-1)[: 4 * len(Weight)]
    tape = run(cell, steps, gates, Weight, steps.initial(H0), steps.initial(C0))
    return (
        WithLod(steps.by_sequence(tape.hidden), Input_lod),
        WithLod(steps.by_sequence(tape.cells), Input_lod),
        WithLod(tape.gates, ()),
        WithLod(tape.active, ()),
    )


# 1.8.5 drops what comes in for Cell
@lstm.grad("Input H0 C0 Weight Bias", beyond=("Cell@GRAD",))
@with_attrs(_ATTRS)
def _(
    xp: Any,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    Bias: Array,
    Hidden: Array,
    Cell: Array,
    BatchGate: Array,
    BatchCellPreAct: Array,
    dHidden: Maybe,
    dCell: Maybe,
    wants: frozenset[str],
    attrs: dict[str, Any],
) -> tuple[Maybe, ...]:
    offsets = offsets_of_level("lstm_grad", "Input", Input_lod, 0, len(Input))
    steps = TimeSteps(xp, offsets, attrs["is_reverse"])
    cell = _cell("lstm_grad", xp, len(Weight), Bias, attrs)
    hidden, h0, c0 = steps.by_step(Hidden), steps.initial(H0), steps.initial(C0)
    tape = Tape(BatchGate, steps.by_step(Cell), BatchCellPreAct, hidden, hidden)
    d = xp.zeros_like(hidden) if dHidden is None else steps.by_step(dHidden)
    dcells = None if dCell is None else steps.by_step(dCell)
    found = run_back(cell, steps, tape, c0, Weight, d, dcells=dcells)
    return (
        steps.by_sequence(found.gates) if "Input@GRAD" in wants else None,
        None if H0 is None else steps.initial_gradient(found.first_states, H0),
        None if C0 is None else steps.initial_gradient(found.first_cells, C0),
        steps.earlier(hidden, h0).T @ found.gates if "Weight@GRAD" in wants else None,
        _bias_gradient(cell, steps, tape, c0, found.gates) if "Bias@GRAD" in wants else None,
    )


# ---------------------------------------------------------------------- lstmp
_LSTMP_ATTRS = {**_ATTRS, "cell_clip": 0.0, "proj_clip": 0.0, "proj_activation": "tanh"}
lstmp = Op(
    "lstmp",
    "Input H0? C0? Weight ProjWeight Bias -> Projection Cell BatchGate? BatchCellPreAct? BatchHidden?",
    attrs=_LSTMP_ATTRS,
    dynamic=True,
)


@lstmp.shape
def _(
    Input: Spec,
    H0: Spec | None,
    C0: Spec | None,
    Weight: Spec,
    ProjWeight: Spec,
    Bias: Spec,
    use_peepholes: bool,
) -> tuple[Spec, ...]:
    size, projected = ProjWeight.shape
    _check("lstmp", Input, Weight, Bias, use_peepholes, size)
    if Weight.shape[0] != projected:
        raise ShapeError(f"op 'lstmp': Weight has {Weight.shape[0]} rows but ProjWeight {projected} columns")
    _check_initial("lstmp", H0, C0, projected, size)
    cells = Spec((Input.shape[0], size), Input.dtype, Input.lod_level)
    inner = Spec(cells.shape, Input.dtype)
    return (
        cells._replace(shape=(Input.shape[0], projected)),
        cells,
        Spec(Input.shape, Input.dtype),
        inner,
        inner,
    )


def _projection(op: str, ProjWeight: Array, attrs: Mapping[str, Any]) -> _Projection:
    # a slip of 1.8.5 that its trained models depend on: the projection takes the cell's activation, and
    # proj_activation only says whether there is one
    linear = attrs["proj_activation"] == "identity"
    name = "identity" if linear else attrs["cell_activation"]
    return _Projection(ProjWeight, activation(op, name), attrs["proj_clip"])


@lstmp.kernel
@with_attrs(_LSTMP_ATTRS)
def _(
    xp: Any,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    ProjWeight: Array,
    Bias: Array,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    size = len(ProjWeight)
    offsets = offsets_of_level("lstmp", "Input", Input_lod, 0, len(Input))
    steps = TimeSteps(xp, offsets, attrs["is_reverse"])
    cell, projection = _cell("lstmp", xp, size, Bias, attrs), _projection("lstmp", ProjWeight, attrs)
    gates = steps.by_step(Input)
    gates += Bias.reshape(-1)[: 4 * size]
    tape = run(cell, steps, gates, Weight, steps.initial(H0), steps.initial(C0), projection)
    return (
        WithLod(steps.by_sequence(tape.state), Input_lod),
        WithLod(steps.by_sequence(tape.cells), Input_lod),
        WithLod(tape.gates, ()),
        WithLod(tape.active, ()),
        WithLod(tape.hidden, ()),
    )


@lstmp.grad(
    "Input H0 C0 Weight ProjWeight Bias",
    shape=lambda BatchGate, H0, C0, Weight, ProjWeight, Bias: (BatchGate, H0, C0, Weight, ProjWeight, Bias),
    beyond=("Cell@GRAD",),
)
@with_attrs(_LSTMP_ATTRS)
def _(
    xp: Any,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    ProjWeight: Array,
    Bias: Array,
    Projection: Array,
    Projection_lod: Lod,
    Cell: Array,
    BatchGate: Array,
    BatchCellPreAct: Array,
    BatchHidden: Array,
    dProjection: Maybe,
    dCell: Maybe,
    wants: frozenset[str],
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    offsets = offsets_of_level("lstmp_grad", "Projection", Projection_lod, 0, len(Projection))
    steps = TimeSteps(xp, offsets, attrs["is_reverse"])
    cell = _cell("lstmp_grad", xp, len(ProjWeight), Bias, attrs)
    projection = _projection("lstmp_grad", ProjWeight, attrs)
    state, c0 = steps.by_step(Projection), steps.initial(C0)
    tape = Tape(BatchGate, steps.by_step(Cell), BatchCellPreAct, BatchHidden, state)
    d = xp.zeros_like(state) if dProjection is None else steps.by_step(dProjection)
    dcells = None if dCell is None else steps.by_step(dCell)
    found = run_back(cell, steps, tape, c0, Weight, d, projection, dcells=dcells)
    return (
        WithLod(steps.by_sequence(found.gates), Projection_lod),
        None if H0 is None else steps.initial_gradient(found.first_states, H0),
        None if C0 is None else steps.initial_gradient(found.first_cells, C0),
        steps.earlier(state, steps.initial(H0)).T @ found.gates if "Weight@GRAD" in wants else None,
        BatchHidden.T @ found.projected if "ProjWeight@GRAD" in wants else None,
        _bias_gradient(cell, steps, tape, c0, found.gates) if "Bias@GRAD" in wants else None,
    )
