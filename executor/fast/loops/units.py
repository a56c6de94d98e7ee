"""The units with a second product in each step: of what a reset gate lets through, or a projection."""

from __future__ import annotations

from fluidlite.executor.fast.loops.cell_lanes import cell_lanes
from fluidlite.executor.fast.loops.gated import BY_STEP, EARLIER, CellArray, GatedSteps, RowCode, UnitForm
from fluidlite.executor.fast.loops.routine import Scalar
from fluidlite.executor.fast.loops.steps import StepCode
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.cells import gradient, incoming

__all__ = ["unit_of"]


# ---------------------------------------------------------------------- with a projection
class _ProjectedSteps(GatedSteps):
    """A long short-term memory whose recurrence reads a projection of its states.

    `Inner` are the states before, and `DInner` the gradients of the projection's product, step by step.
    """

    width = "state"

    def made_arrays(self) -> list[CellArray]:
        """See `GatedSteps`."""
        return [*super().made_arrays()[:-1], CellArray("Inner", ("hidden",), BY_STEP)]

    def arguments(self, is_back: bool) -> tuple[str, ...]:
        """See `GatedSteps`."""
        return (*super().arguments(is_back), "state", *(["DInner"] if is_back else []))

    def forward(self, step: StepCode) -> None:
        """Activate the gates of each row; then project all states."""
        a = self.a
        assert self.form.projection is not None
        with self.rows(step) as row:
            values = self.forward_row(step, row, 0)
            self.note(row, values.starts["hidden"])
        self.product(1, step.count, step.size)
        width = a.integer("state")
        with self.rows(step) as row:
            sums = self.sums(row, 1)
            out = a.at("%Hidden", step.row(row) * width)
            with a.units(width, self.form.is_state_masked) as unit:
                given = {"x": a.load(sums, unit.index)}
                (state,) = cell_lanes(a.code, self.form.projection.forward, given, ["hidden"])
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
            d = a.load("%D", at)
            d = d + self.passed(row, unit.index, following)
            state = a.load("%Hidden", at)
            given = {"hidden": state, incoming("hidden"): d}
            (found,) = cell_lanes(a.code, back, given, [gradient("x")])
            a.store(found, inner, unit.index)
            earlier = a.load(before, unit.index)
            a.store(earlier, "%Earlier", at)
        self.note(row, inner)

    def state_gradient(self, values: RowCode, row: Scalar, unit: Scalar, following: Scalar) -> Vector:
        """The gradient of a row's state before its projection."""
        return self.a.load(self.sums(row, 1), unit)

    def note_earlier(self, step: StepCode, row: Scalar, values: RowCode, unit: Scalar) -> None:
        """It is noted on the way through the projection."""


# ---------------------------------------------------------------------- with two products
class _KeptSteps(GatedSteps):
    """A gated recurrent unit, whose candidate waits for the states that the reset gate lets through."""

    def arguments(self, is_back: bool) -> tuple[str, ...]:
        """See `GatedSteps`."""
        return (*super().arguments(is_back), *(["Passed"] if is_back else []))

    def forward(self, step: StepCode) -> None:
        """Open the gates of all rows; then write their candidates and states."""
        with self.rows(step) as row:
            values = self.forward_row(step, row, 0)
            self.note(row, values.starts["kept"])
        depth = self.a.integer("depth")
        depth = self.a.pick(step.is_first, depth, step.size)
        self.product(1, step.count, depth)
        with self.rows(step) as row:
            self.forward_row(step, row, 1, ["update"])

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
            d = values.load(incoming("hidden"), at)
            given[incoming("hidden")] = d + carried
            found = self.gradients(given, wanted, ["hidden"])
            values.store(found, at)
            values.store({EARLIER: given["before"]}, at)
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
            given = {"reset": values.load("reset", at)}
            given["before"] = a.load(before, at)
            given[incoming("kept")] = a.load(sums, at)
            found = self.gradients(given, wanted, ["kept"])
            straight = values.load(gradient("before"), at)
            found[gradient("before")] = straight + found[gradient("before")]
            (kept,) = cell_lanes(a.code, self.form.cell.forward, given, ["kept"], step.if_known)
            values.store(found, at)
            values.store({"kept": kept}, at)
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
                sums = self.sums(row.index)
                passed = a.load(sums, at)
                values.store({gradient("before"): straight + passed}, at)
                row.next = [
                    total + values.load(name, at) for total, name in zip(row.values, gates, strict=True)
                ]
            self.add_to_bias(step, row.values, at)


def unit_of(form: UnitForm) -> GatedSteps:
    """The unit that writes the functions of a form."""
    if form.projection is not None:
        return _ProjectedSteps(form)
    return _KeptSteps(form) if form.cell.cell.layout.second is not None else GatedSteps(form)
