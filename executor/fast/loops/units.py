"""The units whose steps are compiled: those of `lstm_steps`, `gru_steps` and `rnn_steps` in
`fluidlite.ops.kernels`.
"""

from __future__ import annotations

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.cell_lanes import cell_lanes
from fluidlite.executor.fast.loops.gated import BY_STEP, EARLIER, CellArray, GatedSteps, RowCode, UnitForm
from fluidlite.executor.fast.loops.routine import Scalar
from fluidlite.executor.fast.loops.steps import StepCode
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels import gru_steps, lstm_steps, rnn_steps
from fluidlite.ops.kernels.cells import CellForm, gradient, incoming

__all__ = ["GruSteps", "LstmSteps", "ProjectedForm", "ProjectedSteps", "ResetAfterSteps", "SimpleSteps"]

_HIDDEN = CellArray("Hidden", ("hidden",))


class SimpleSteps(GatedSteps[UnitForm]):
    """A product and an activation; nothing is kept beyond the states."""

    arrays = (_HIDDEN,)


class ResetAfterSteps(GatedSteps[UnitForm]):
    """A gated recurrent unit whose reset gate comes after the product."""

    arrays = (CellArray("Gates", rnn_steps.RESET_AFTER.layout.saved, BY_STEP), _HIDDEN)


class LstmSteps(GatedSteps[UnitForm]):
    """A long short-term memory."""

    arrays = (
        CellArray("Gates", lstm_steps.GATES, BY_STEP),
        CellArray("Active", ("shown",), BY_STEP),
        CellArray("Cells", ("cell",)),
        _HIDDEN,
    )
    forward_names = ("Peepholes", "FirstCells", "Cells", "Active")
    back_names = (*forward_names, "DCells")
    before = ("%Cells", "%FirstCells")


# ---------------------------------------------------------------------- with a projection
@dataclass(frozen=True)
class ProjectedForm(UnitForm):
    """The same with a projection, and whether its units fill whole registers."""

    projection: CellForm | None = None
    is_state_masked: bool = False


class ProjectedSteps(GatedSteps[ProjectedForm]):
    """The same where the recurrence reads a projection of the states: a product more in each step.

    `Inner` are the states before, and `DInner` the gradients of the projection's product, step by step.
    """

    products = 2
    arrays = (*LstmSteps.arrays[:3], CellArray("Inner", ("hidden",), BY_STEP))
    forward_names = (*LstmSteps.forward_names, "state", "Inner")
    back_names = (*LstmSteps.back_names, "state", "Inner", "DInner")
    before = LstmSteps.before
    width = "state"

    def forward(self, step: StepCode) -> None:
        """Activate the gates of each row; then project all states."""
        a = self.a
        assert self.form.projection is not None
        with self.rows(step) as row:
            values = self.forward_row(step, row, 0, self.cell.outputs)
            self.note(row, values.starts["hidden"])
        self.product(1, step.count, step.size)
        width = a.integer("state")
        with self.rows(step) as row:
            sums = self.sums(row, 1)
            out = a.at("%Hidden", step.row(row) * width)
            with a.units(width, self.form.is_state_masked) as unit:
                given = {"x": a.load(sums, unit.index)}
                (state,) = cell_lanes(a.code, self.form.projection.forward, given, ["state"])
                a.store(state, out, unit.index)

    def back_rows(self, step: StepCode, following: Scalar) -> None:
        """Go back through the projection first."""
        with self.rows(step) as row:
            self._back_projection(step, row, following)
        self.product(1, step.count, self.a.integer("state"))
        super().back_rows(step, following)

    def _back_projection(self, step: StepCode, row: Scalar, following: Scalar) -> None:
        a = self.a
        assert self.form.projection is not None
        width = a.integer("state")
        own = step.row(row) * width
        inner = a.at("%DInner", step.stored(row) * width)
        before = step.earlier(row, "%Hidden", "%First", width)
        back = self.form.projection.back().whole()
        with a.units(width, self.form.is_state_masked) as unit:
            at = own + unit.index
            d = a.load("%D", at) + self.passed(row, unit.index, following)
            given = {"state": a.load("%Hidden", at), incoming("state"): d}
            (found,) = cell_lanes(a.code, back, given, [gradient("x")])
            a.store(found, inner, unit.index)
            a.store(a.load(before, unit.index), "%Earlier", at)
        self.note(row, inner)

    def state_gradient(self, values: RowCode, row: Scalar, unit: Scalar, following: Scalar) -> Vector:
        """The gradient of a row's state before its projection."""
        return self.a.load(self.sums(row, 1), unit)

    def note_earlier(self, step: StepCode, row: Scalar, values: RowCode, unit: Scalar) -> None:
        """It is noted on the way through the projection."""


# ---------------------------------------------------------------------- with two products
class GruSteps(GatedSteps[UnitForm]):
    """A gated recurrent unit, whose candidate waits for the states that the reset gate lets through."""

    products = 2
    arrays = (CellArray("Gates", gru_steps.GATES, BY_STEP), CellArray("Reset", ("kept",), BY_STEP), _HIDDEN)
    forward_names = ("Reset",)
    back_names = ("Passed",)

    def forward(self, step: StepCode) -> None:
        """Open the gates of all rows; then write their candidates and states."""
        with self.rows(step) as row:
            values = self.forward_row(step, row, 0, ["update", "reset", "kept"])
            self.note(row, values.starts["kept"])
        self.product(1, step.count, self.a.pick(step.is_first, self.a.integer("depth"), step.size))
        with self.rows(step) as row:
            self.forward_row(step, row, 1, ["candidate", "hidden"], ["update"])

    def back_arrays(self) -> list[CellArray]:
        """See `GatedSteps`; what the reset gate let through is written again, as rows are given."""
        others = [array for array in super().back_arrays() if array.name != "Reset"]
        return [*others, CellArray("Passed", ("kept",))]

    def back(self, step: StepCode) -> None:
        """Write the gates' gradients; `Carry` holds what goes on to the step before."""
        with self.rows(step) as row:
            values = self._back_candidate(step, row)
            self.note(row, values.starts[gradient("x_candidate")])
        self.product(1, step.count, step.size)
        with self.rows(step) as row:
            values = self._back_reset(step, row)
            self.note(row, values.starts[gradient("x_update")])
        self.product(0, step.count, step.size * 2)
        self._gather(step)

    def _back_candidate(self, step: StepCode, row: Scalar) -> RowCode:
        """The gradients of update gate and candidate, and what goes straight on."""
        a = self.a
        values = RowCode(step, row, self.back_arrays())
        before = step.earlier(row, *self.before)
        wanted = list(map(gradient, ("x_update", "x_candidate", "before")))
        with a.units(step.size, self.form.is_masked) as unit:
            at = unit.index
            given = {name: values.load(name, at) for name in ("update", "candidate")}
            given["before"] = a.load(before, at)
            carried = values.load(gradient("before"), at)
            given[incoming("hidden")] = values.load(incoming("hidden"), at) + carried
            found = self.gradients(given, wanted, ["hidden"])
            values.store({**found, EARLIER: given["before"]}, at)
        return values

    def _back_reset(self, step: StepCode, row: Scalar) -> RowCode:
        """The gradient of the reset gate."""
        a = self.a
        values = RowCode(step, row, self.back_arrays())
        before = step.earlier(row, *self.before)
        sums = self.sums(row, 1)
        wanted = list(map(gradient, ("x_reset", "before")))
        with a.units(step.size, self.form.is_masked) as unit:
            at = unit.index
            given = {"reset": values.load("reset", at), "before": a.load(before, at)}
            given[incoming("kept")] = a.load(sums, at)
            found = self.gradients(given, wanted, ["kept"])
            straight = values.load(gradient("before"), at)
            found[gradient("before")] = straight + found[gradient("before")]
            (kept,) = cell_lanes(a.code, self.form.cell.forward, given, ["kept"], step.if_known)
            values.store({**found, "kept": kept}, at)
        return values

    def _gather(self, step: StepCode) -> None:
        """Add what comes back from both gates to what goes on, and all gradients to the bias's."""
        a = self.a
        gates = list(map(gradient, self.cell.once))
        with a.units(step.size, self.form.is_masked) as unit:
            at = unit.index
            with a.loop(0, step.count, carried=[a.zero()] * len(gates)) as row:
                values = RowCode(step, row.index, self.back_arrays())
                straight = values.load(gradient("before"), at)
                sums = a.load(self.sums(row.index), at)
                values.store({gradient("before"): straight + sums}, at)
                row.next = [
                    total + values.load(name, at) for total, name in zip(row.values, gates, strict=True)
                ]
            self.add_to_bias(step, row.values, at)
