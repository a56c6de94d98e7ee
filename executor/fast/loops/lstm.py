"""The steps of a long short-term memory, as `fluidlite.ops.kernels.lstm_steps` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.cell_lanes import cell_lanes
from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.routine import CodeLoop, Integer, Scalar
from fluidlite.executor.fast.loops.steps import StepCode, following_rows
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.cells import CellForm, incoming
from fluidlite.ops.kernels.lstm_steps import GATES, back_form

__all__ = ["LstmForm", "LstmSteps", "ProjectedForm", "ProjectedSteps"]


@dataclass(frozen=True)
class LstmForm(UnitForm):
    """Gradients of all cells are there or not; gates and activated cells are written, for the gradient, or
    not.
    """

    has_dcells: bool = False
    saves: bool = True


@dataclass(frozen=True)
class ProjectedForm(LstmForm):
    """The same with a projection, and whether its units fill whole registers."""

    projection: CellForm | None = None
    is_state_masked: bool = False


_RAW = [f"x_{name}" for name in GATES]
_PEEPHOLES = ("of_entry", "of_forget", "of_output")


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
            given = {name: self.raw(sums, x, at) for name, at in zip(_RAW, here, strict=True)}
            given["before"] = a.load(before, unit.index)
            given |= self._peepholes(here)
            made = self.forward_values(step, given, [*GATES, "shown", "cell", "hidden"])
            if form.saves:
                for value, at in zip(made[:4], here, strict=True):
                    a.store(value, gates, at)
                a.store(made[4], active, unit.index)
            a.store(made[5], cells, unit.index)
            a.store(made[6], hidden, unit.index)

    def _peepholes(self, here: Sequence[Integer]) -> dict[str, Vector]:
        """The weights of the peepholes, by name; those of a gate lie where its place is among three."""
        present = [name for name in _PEEPHOLES if name in self.form.cell.known]
        return {name: self.a.load("%Peepholes", at) for name, at in zip(present, here, strict=False)}

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
        sums = [a.zero()] * (7 if _PEEPHOLES[0] in self.form.cell.known else 4)
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
        given = {name: a.load(gates, at) for name, at in zip(GATES, here, strict=True)}
        given["shown"] = a.load("%Active", stored * step.size + unit)
        given["before"] = a.load(step.earlier(row, "%Cells", "%FirstCells"), unit)
        given["cell"] = a.load("%Cells", own + unit)
        given |= self._peepholes(here)
        given[incoming("hidden")] = self._state_gradient(row, unit, own, following)
        carry = row * step.size + unit
        dcell = a.load("%Carry", carry)
        if self.form.has_dcells:
            dcell = dcell + a.load("%DCells", own + unit)
        given[incoming("cell")] = dcell
        weights = [name for name in _PEEPHOLES if name in given]
        back = back_form(self.form.cell).whole()
        before, *found = self.gradients(back, given, ["before", *_RAW, *weights])
        dx = a.at("%DX", place * step.four)
        for value, at in zip(found[:4], here, strict=True):
            a.store(value, dx, at)
        a.store(before, "%Carry", carry)
        self._note_earlier(step, row, unit, own)
        loop.next = [total + value for total, value in zip(loop.values, found, strict=True)]


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
        assert form.projection is not None
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
                (state,) = cell_lanes(a.code, form.projection.forward, {"x": raw}, ["state"])
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
        assert form.projection is not None
        back = form.projection.back(("state",), ("x",)).whole()
        with a.units(width, form.is_state_masked) as unit:
            at = own + unit.index
            state = a.load("%Hidden", at)
            d = a.load("%D", at)
            passed = a.load(sums, unit.index)
            d = d + a.chosen(goes_on, passed)
            (d,) = self.gradients(back, {"state": state, incoming("state"): d}, ["x"])
            a.store(d, inner, unit.index)
            earlier = a.load(before, unit.index)
            a.store(earlier, "%Earlier", at)
        self.note(row, inner)

    def _state_gradient(self, row: Scalar, unit: Scalar, own: Scalar, following: Scalar) -> Vector:
        return self.a.load(self.sums(row, 1), unit)

    def _note_earlier(self, step: StepCode, row: Scalar, unit: Scalar, own: Scalar) -> None:
        """It is noted on the way through the projection."""
