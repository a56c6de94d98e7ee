"""The steps of a long short-term memory, as `fluidlite.ops.kernels.lstm_steps` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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
            self._forward_row(step, row, self.a.at("%Hidden", own))

    def _forward_row(self, step: StepCode, row: Scalar, hidden: Scalar) -> None:
        a, form = self.a, self.form
        sums = self.sums(row)
        place, stored = step.row(row), step.stored(row)
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
            cell = _clipped(candidate * entry + step.if_known(forget * earlier), form.clip)
            if form.has_peepholes:
                output = activated(form.gate, output + cell * a.load("%Peepholes", here[2]))
            shown = activated(form.state, cell)
            if form.saves:
                for value, at in zip((candidate, entry, forget, output), here, strict=True):
                    a.store(value, gates, at)
                a.store(shown, active, unit.index)
            a.store(cell, cells, unit.index)
            a.store(output * shown, hidden, unit.index)

    def _gates(self, raw: Sequence[Vector], earlier: Vector, here: Sequence[Integer]) -> tuple[Vector, ...]:
        """The activated gates; with peepholes the last one waits for the cell."""
        a, form = self.a, self.form
        candidate, entry, forget, output = raw
        candidate = activated(form.candidate, candidate)
        if not form.has_peepholes:
            return candidate, *(activated(form.gate, each) for each in (entry, forget, output))
        entry = activated(form.gate, entry + earlier * a.load("%Peepholes", here[0]))
        forget = activated(form.gate, forget + earlier * a.load("%Peepholes", here[1]))
        return candidate, entry, forget, output

    # ------------------------------------------------------------------ back
    def _state_gradient(self, row: Scalar, unit: Scalar, own: Scalar, following: Scalar) -> Vector:
        """The gradient of a row's state, with what comes from the step behind it."""
        a = self.a
        passed = a.load(self.sums(row), unit)
        return a.load("%D", own + unit) + a.chosen(row.compare("slt", following), passed)

    def _note_earlier(self, step: StepCode, row: Scalar, unit: Scalar, own: Scalar) -> None:
        """Write the state before, of which the weight's gradient is a product."""
        a = self.a
        a.store(a.load(step.earlier(row, "%Hidden", "%First"), unit), "%Earlier", own + unit)

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
                a.store(a.load("%DBias", at) + total, "%DBias", at)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: Scalar, following: Scalar) -> None:
        a, form, row = self.a, self.form, loop.index
        place, stored = step.row(row), step.stored(row)
        own = place * step.size
        gates = a.at("%Gates", stored * step.four)
        here = [gate + unit for gate in step.gates]
        candidate, entry, forget, output = (a.load(gates, at) for at in here)
        shown = a.load("%Active", stored * step.size + unit)
        earlier = a.load(step.earlier(row, "%Cells", "%FirstCells"), unit)
        cell = a.load("%Cells", own + unit)
        d = self._state_gradient(row, unit, own, following)
        carry = row * step.size + unit
        share = slope(form.state, shown) * output * d + a.load("%Carry", carry)
        if form.has_dcells:
            share = share + a.load("%DCells", own + unit)
        doutput = slope(form.gate, output) * shown * d
        peepholes = [a.load("%Peepholes", at) for at in here[:3]] if form.has_peepholes else []
        if peepholes:
            share = share + doutput * peepholes[2]
        if form.clip > 0:
            share = _inside(share, cell, form.clip)
        dcandidate = slope(form.candidate, candidate) * entry * share
        dentry = slope(form.gate, entry) * candidate * share
        dforget = slope(form.gate, forget) * earlier * share
        found = (dcandidate, dentry, dforget, doutput)
        dx = a.at("%DX", place * step.four)
        for value, at in zip(found, here, strict=True):
            a.store(value, dx, at)
        out = share * forget
        if peepholes:
            out = out + dentry * peepholes[0] + dforget * peepholes[1]
        a.store(out, "%Carry", carry)
        self._note_earlier(step, row, unit, own)
        extra = (dentry * earlier, dforget * earlier, doutput * cell) if peepholes else ()
        loop.next = [total + value for total, value in zip(loop.values, (*found, *extra), strict=True)]


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
        a, form = self.a, self.form
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
                state = activated(form.projection, a.load(sums, unit.index))
                a.store(_clipped(state, form.projection_clip), out, unit.index)

    def _back_rows(self, step: StepCode, following: Scalar) -> None:
        """Go back through the projection first."""
        with self.rows(step) as row:
            self._back_projection(step, row, following)
        self.product(1, step.count, self.a.integer("state"))
        super()._back_rows(step, following)

    def _back_projection(self, step: StepCode, row: Scalar, following: Scalar) -> None:
        a, form, sums = self.a, self.form, self.sums(row)
        width = a.integer("state")
        own = step.row(row) * width
        inner = a.at("%DInner", step.stored(row) * width)
        before = step.earlier(row, "%Hidden", "%First", width)
        goes_on = row.compare("slt", following)
        with a.units(width, form.is_state_masked) as unit:
            at = own + unit.index
            state = a.load("%Hidden", at)
            d = a.load("%D", at) + a.chosen(goes_on, a.load(sums, unit.index))
            d = slope(form.projection, state) * d
            if form.projection_clip > 0:
                d = _inside(d, state, form.projection_clip)
            a.store(d, inner, unit.index)
            a.store(a.load(before, unit.index), "%Earlier", at)
        self.note(row, inner)

    def _state_gradient(self, row: Scalar, unit: Scalar, own: Scalar, following: Scalar) -> Vector:
        return self.a.load(self.sums(row, 1), unit)

    def _note_earlier(self, step: StepCode, row: Scalar, unit: Scalar, own: Scalar) -> None:
        """It is noted on the way through the projection."""


def _clipped(cell: Vector, bound: float) -> Vector:
    if bound <= 0:
        return cell
    select = cell.code.select
    cell = select(cell.compare("ogt", bound), cell.like(bound), cell)
    return select(cell.compare("olt", -bound), cell.like(-bound), cell)


def _inside(share: Vector, cell: Vector, bound: float) -> Vector:
    """The gradient of a cell that is not at its bound."""
    is_inside = cell.code.call("fabs", cell).compare("olt", bound)
    return share * cell.code.select(is_inside, cell.like(1.0), cell.like(0.0))
