"""The steps of a long short-term memory, as `fluidlite.ops.kernels.lstm_steps` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.routine import CodeLoop, Integer, Scalar
from fluidlite.executor.fast.loops.steps import StepCode, following_rows
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["LstmForm", "LstmSteps", "ProjectedForm", "ProjectedSteps"]


@dataclass(frozen=True)
class LstmForm(UnitForm):
    """Activations by name, and what there is."""

    gate: str
    state: str
    candidate: str
    has_peepholes: bool
    has_dcells: bool = False
    clip: float = 0.0
    saves: bool = True
    """Gates and activated cells are written, for the gradient."""


@dataclass(frozen=True)
class ProjectedForm(LstmForm):
    """The same with a projection: its activation and bound, and whether its units fill whole registers."""

    projection: str = "identity"
    projection_clip: float = 0.0
    is_state_masked: bool = False


class _SavedRow(NamedTuple):
    """The values of the forward pass at a row: its gates, its cell with the activation, the cell before, and
    the cell.
    """

    candidate: Vector
    entry: Vector
    forget: Vector
    output: Vector
    shown: Vector
    earlier: Vector
    cell: Vector


class _RowGradients(NamedTuple):
    """The gradients of a row's gates, in their order, and of its cell; the weights of the peepholes."""

    gates: tuple[Vector, Vector, Vector, Vector]
    cell: Vector
    peepholes: Sequence[Vector]

    def of_earlier_cell(self, saved: _SavedRow) -> Vector:
        """The gradient of the cell before."""
        total = self.cell * saved.forget
        if self.peepholes:
            _, dentry, dforget, _ = self.gates
            total = total + dentry * self.peepholes[0]
            total = total + dforget * self.peepholes[1]
        return total

    def of_peepholes(self, saved: _SavedRow) -> tuple[Vector, ...]:
        """The gradients of the peepholes' weights, where there are some."""
        if not self.peepholes:
            return ()
        _, dentry, dforget, doutput = self.gates
        return dentry * saved.earlier, dforget * saved.earlier, doutput * saved.cell


class LstmSteps(GatedSteps[LstmForm]):
    """Gates in the order candidate, input, forget, output."""

    products = 1
    forward_names: ClassVar[tuple[str, ...]] = ("Peepholes", "FirstCells", "Cells", "Active")
    back_names: ClassVar[tuple[str, ...]] = ("Peepholes", "FirstCells", "Cells", "Active", "DCells")

    # ------------------------------------------------------------------ forward
    def forward(self, step: StepCode) -> None:
        """Activate the gates of each row; write its cells and state."""
        with self.rows(step) as row:
            own = step.row(row) * step.size
            hidden = self.a.at("%Hidden", own)
            self._forward_row(step, row, hidden)

    def _forward_row(self, step: StepCode, row: Scalar, hidden: Scalar) -> None:
        a = self.a
        form = self.form
        sums = self.sums(row)
        place = step.row(row)
        stored = step.stored(row)
        x = a.at("%X", place * step.four)
        gates = a.at("%Gates", stored * step.four)
        active = a.at("%Active", stored * step.size)
        cells = a.at("%Cells", place * step.size)
        before = step.earlier(row, "%Cells", "%FirstCells")
        with a.units(step.size, form.is_masked) as unit:
            here = [gate + unit.index for gate in step.gates]
            raw = [self.raw(sums, x, at) for at in here]
            earlier = a.load(before, unit.index)
            candidate, entry, forget, output = self._gates(raw, earlier, here)
            new = candidate * entry
            kept = step.if_known(forget * earlier)
            cell = _clipped(new + kept, form.clip)
            if form.has_peepholes:
                seen = cell * a.load("%Peepholes", here[2])
                output = activated(form.gate, output + seen)
            shown = activated(form.state, cell)
            if form.saves:
                opened = (candidate, entry, forget, output)
                for value, at in zip(opened, here, strict=True):
                    a.store(value, gates, at)
                a.store(shown, active, unit.index)
            a.store(cell, cells, unit.index)
            a.store(output * shown, hidden, unit.index)

    def _gates(self, raw: Sequence[Vector], earlier: Vector, here: Sequence[Integer]) -> tuple[Vector, ...]:
        """The activated gates; with peepholes the last one waits for the cell."""
        a = self.a
        gate = self.form.gate
        candidate, entry, forget, output = raw
        candidate = activated(self.form.candidate, candidate)
        if not self.form.has_peepholes:
            others = [activated(gate, each) for each in (entry, forget, output)]
            return candidate, *others
        seen = earlier * a.load("%Peepholes", here[0])
        entry = activated(gate, entry + seen)
        seen = earlier * a.load("%Peepholes", here[1])
        forget = activated(gate, forget + seen)
        return candidate, entry, forget, output

    # ------------------------------------------------------------------ back
    def _state_gradient(self, row: Scalar, unit: Scalar, own: Scalar, following: Scalar) -> Vector:
        """The gradient of a row's state, with what comes from the step behind it."""
        a = self.a
        passed = a.load(self.sums(row), unit)
        d = a.load("%D", own + unit)
        goes_on = row.compare("slt", following)
        return d + a.chosen(goes_on, passed)

    def _note_earlier(self, step: StepCode, row: Scalar, unit: Scalar, own: Scalar) -> None:
        """Write the state before, of which the weight's gradient is a product."""
        a = self.a
        before = step.earlier(row, "%Hidden", "%First")
        state = a.load(before, unit)
        a.store(state, "%Earlier", own + unit)

    def back(self, step: StepCode) -> None:
        """Write the gates' gradients of each row, after the product of those of the step behind it."""
        a = self.a
        following = following_rows(a, step, "%DX", step.four)
        self.product(0, following, step.four)
        self._back_rows(step, following)

    def _back_rows(self, step: StepCode, following: Scalar) -> None:
        a = self.a
        sums = [a.zero()] * (7 if self.form.has_peepholes else 4)
        with a.units(step.size, self.form.is_masked) as unit:
            with a.loop(0, step.count, carried=sums) as row:
                self._back_row(step, row, unit.index, following)
            for k, total in enumerate(row.values):
                at = step.size * k + unit.index
                before = a.load("%DBias", at)
                a.store(before + total, "%DBias", at)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: Scalar, following: Scalar) -> None:
        a = self.a
        row = loop.index
        place = step.row(row)
        stored = step.stored(row)
        own = place * step.size
        gates = a.at("%Gates", stored * step.four)
        here = [gate + unit for gate in step.gates]
        candidate, entry, forget, output = (a.load(gates, at) for at in here)
        shown = a.load("%Active", stored * step.size + unit)
        before = step.earlier(row, "%Cells", "%FirstCells")
        earlier = a.load(before, unit)
        cell = a.load("%Cells", own + unit)
        saved = _SavedRow(candidate, entry, forget, output, shown, earlier, cell)
        d = self._state_gradient(row, unit, own, following)
        carry = row * step.size + unit
        dcell = slope(self.form.state, shown) * output * d
        dcell = dcell + a.load("%Carry", carry)
        if self.form.has_dcells:
            dcell = dcell + a.load("%DCells", own + unit)
        found = self._gradients(saved, d, dcell, here)
        dx = a.at("%DX", place * step.four)
        for value, at in zip(found.gates, here, strict=True):
            a.store(value, dx, at)
        a.store(found.of_earlier_cell(saved), "%Carry", carry)
        self._note_earlier(step, row, unit, own)
        sums = (*found.gates, *found.of_peepholes(saved))
        loop.next = [total + value for total, value in zip(loop.values, sums, strict=True)]

    def _gradients(
        self, saved: _SavedRow, d: Vector, dcell: Vector, here: Sequence[Integer]
    ) -> _RowGradients:
        form = self.form
        doutput = slope(form.gate, saved.output) * saved.shown * d
        peepholes = [self.a.load("%Peepholes", at) for at in here[:3]] if form.has_peepholes else []
        if peepholes:
            dcell = dcell + doutput * peepholes[2]
        if form.clip > 0:
            dcell = _inside(dcell, saved.cell, form.clip)
        dcandidate = slope(form.candidate, saved.candidate) * saved.entry * dcell
        dentry = slope(form.gate, saved.entry) * saved.candidate * dcell
        dforget = slope(form.gate, saved.forget) * saved.earlier * dcell
        return _RowGradients((dcandidate, dentry, dforget, doutput), dcell, peepholes)


class ProjectedSteps(LstmSteps):
    """The same where the recurrence reads a projection of the states: a product more in each step.

    `Inner` are the states before, and `DInner` the gradients of the projection's product, step by step.
    """

    form: ProjectedForm
    products = 2
    forward_names = (*LstmSteps.forward_names, "state", "Inner")
    back_names = (*LstmSteps.back_names, "state", "DInner")
    width = "state"

    def forward(self, step: StepCode) -> None:
        """Activate the gates of each row; then project all states."""
        a = self.a
        form = self.form
        width = a.integer("state")
        with self.rows(step) as row:
            inner = a.at("%Inner", step.stored(row) * step.size)
            self._forward_row(step, row, inner)
            self.note(row, inner)
        self.product(1, step.count, step.size)
        with self.rows(step) as row:
            sums = self.sums(row, 1)
            out = a.at("%Hidden", step.row(row) * width)
            with a.units(width, form.is_state_masked) as unit:
                raw = a.load(sums, unit.index)
                state = activated(form.projection, raw)
                state = _clipped(state, form.projection_clip)
                a.store(state, out, unit.index)

    def _back_rows(self, step: StepCode, following: Scalar) -> None:
        """Go back through the projection first."""
        with self.rows(step) as row:
            self._back_projection(step, row, following)
        self.product(1, step.count, self.a.integer("state"))
        super()._back_rows(step, following)

    def _back_projection(self, step: StepCode, row: Scalar, following: Scalar) -> None:
        a = self.a
        form = self.form
        sums = self.sums(row)
        width = a.integer("state")
        own = step.row(row) * width
        inner = a.at("%DInner", step.stored(row) * width)
        before = step.earlier(row, "%Hidden", "%First", width)
        goes_on = row.compare("slt", following)
        with a.units(width, form.is_state_masked) as unit:
            at = own + unit.index
            state = a.load("%Hidden", at)
            d = a.load("%D", at)
            passed = a.load(sums, unit.index)
            d = d + a.chosen(goes_on, passed)
            d = slope(form.projection, state) * d
            if form.projection_clip > 0:
                d = _inside(d, state, form.projection_clip)
            a.store(d, inner, unit.index)
            earlier = a.load(before, unit.index)
            a.store(earlier, "%Earlier", at)
        self.note(row, inner)

    def _state_gradient(self, row: Scalar, unit: Scalar, own: Scalar, following: Scalar) -> Vector:
        return self.a.load(self.sums(row, 1), unit)

    def _note_earlier(self, step: StepCode, row: Scalar, unit: Scalar, own: Scalar) -> None:
        """It is noted on the way through the projection."""


def _clipped(cell: Vector, bound: float) -> Vector:
    if bound <= 0:
        return cell
    select = cell.code.select
    is_above = cell.compare("ogt", bound)
    cell = select(is_above, cell.like(bound), cell)
    is_below = cell.compare("olt", -bound)
    return select(is_below, cell.like(-bound), cell)


def _inside(share: Vector, cell: Vector, bound: float) -> Vector:
    """The gradient of a cell that is not at its bound."""
    code = cell.code
    is_inside = code.call("fabs", cell).compare("olt", bound)
    return share * code.select(is_inside, cell.like(1.0), cell.like(0.0))
