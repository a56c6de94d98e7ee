"""The steps of a gated recurrent unit, as `fluidlite.ops.kernels.gru_steps` has them.

The candidate waits for the states that the reset gate lets through: a step is two products forward.
"""

from __future__ import annotations

from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.routine import Scalar
from fluidlite.executor.fast.loops.steps import StepCode
from fluidlite.ops.kernels.cells import incoming
from fluidlite.ops.kernels.gru_steps import back_form

__all__ = ["GruSteps"]


class GruSteps(GatedSteps[UnitForm]):
    """Gates in the order update, reset, candidate."""

    products = 2
    forward_names = ("Reset",)
    back_names = ("Passed",)

    # ------------------------------------------------------------------ forward
    def forward(self, step: StepCode) -> None:
        """Open the gates of all rows; then write their candidates and states."""
        with self.rows(step) as row:
            self._open_gates(step, row)
        depth = self.a.pick(step.is_first, self.a.integer("depth"), step.size)
        self.product(1, step.count, depth)
        with self.rows(step) as row:
            self._new_states(step, row)

    def _open_gates(self, step: StepCode, row: Scalar) -> None:
        a = self.a
        form = self.form
        sums = self.sums(row)
        x = a.at("%X", step.row(row) * step.three)
        stored = step.stored(row)
        gates = a.at("%Gates", stored * step.three)
        reset = a.at("%Reset", stored * step.size)
        before = step.earlier(row, "%Hidden", "%First")
        with a.units(step.size, form.is_masked) as unit:
            of_update = step.gates[0] + unit.index
            of_reset = step.gates[1] + unit.index
            given = {
                "x_update": self.raw(sums, x, of_update),
                "x_reset": self.raw(sums, x, of_reset),
                "before": a.load(before, unit.index),
            }
            update, let_through, kept = self.forward_values(step, given, ["update", "reset", "kept"])
            a.store(update, gates, of_update)
            a.store(let_through, gates, of_reset)
            a.store(kept, reset, unit.index)
        self.note(row, reset)

    def _new_states(self, step: StepCode, row: Scalar) -> None:
        a = self.a
        form = self.form
        sums = self.sums(row, 1)
        place = step.row(row)
        x = a.at("%X", place * step.three)
        gates = a.at("%Gates", step.stored(row) * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        hidden = a.at("%Hidden", place * step.size)
        with a.units(step.size, form.is_masked) as unit:
            of_candidate = step.gates[2] + unit.index
            raw = a.load(sums, unit.index)
            raw = raw + a.load(x, of_candidate)
            raw = raw + a.load("%Bias", of_candidate)
            given = {
                "x_candidate": raw,
                "update": a.load(gates, unit.index),
                "before": a.load(before, unit.index),
            }
            candidate, state = self.forward_values(step, given, ["candidate", "hidden"])
            a.store(candidate, gates, of_candidate)
            a.store(state, hidden, unit.index)

    # ------------------------------------------------------------------ back
    def back(self, step: StepCode) -> None:
        """Write the gates' gradients; `Carry` holds what goes on to the step before."""
        with self.rows(step) as row:
            self._back_candidate(step, row)
        self.product(1, step.count, step.size)
        with self.rows(step) as row:
            self._back_reset(step, row)
        self.product(0, step.count, step.size * 2)
        self._gather(step)

    def _back_candidate(self, step: StepCode, row: Scalar) -> None:
        """The gradients of update gate and candidate, and what goes straight on."""
        a = self.a
        form = self.form
        place = step.row(row)
        own = place * step.size
        gates = a.at("%Gates", step.stored(row) * step.three)
        dx = a.at("%DX", place * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        carry = a.at("%Carry", row * step.size)
        back = back_form(form.cell).whole("hidden")
        with a.units(step.size, form.is_masked) as unit:
            of_candidate = step.gates[2] + unit.index
            d = a.load("%D", own + unit.index)
            given = {
                "update": a.load(gates, unit.index),
                "candidate": a.load(gates, of_candidate),
                "before": a.load(before, unit.index),
                incoming("hidden"): d + a.load(carry, unit.index),
            }
            found = self.gradients(back, given, ["x_update", "x_candidate", "before"])
            a.store(found[0], dx, unit.index)
            a.store(found[1], dx, of_candidate)
            a.store(found[2], carry, unit.index)
            a.store(given["before"], "%Earlier", own + unit.index)
        self.note(row, a.at(dx, step.gates[2]))

    def _back_reset(self, step: StepCode, row: Scalar) -> None:
        """The gradient of the reset gate."""
        a = self.a
        form = self.form
        sums = self.sums(row, 1)
        place = step.row(row)
        gates = a.at("%Gates", step.stored(row) * step.three)
        dx = a.at("%DX", place * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        carry = a.at("%Carry", row * step.size)
        own = a.at("%Passed", place * step.size)
        back = back_form(form.cell).whole("kept")
        with a.units(step.size, form.is_masked) as unit:
            of_reset = step.gates[1] + unit.index
            given = {
                "reset": a.load(gates, of_reset),
                "before": a.load(before, unit.index),
                incoming("kept"): a.load(sums, unit.index),
            }
            dreset, passed = self.gradients(back, given, ["x_reset", "before"])
            a.store(dreset, dx, of_reset)
            (kept,) = self.forward_values(step, given, ["kept"])
            a.store(kept, own, unit.index)
            straight = a.load(carry, unit.index)
            a.store(straight + passed, carry, unit.index)
        self.note(row, dx)

    def _gather(self, step: StepCode) -> None:
        """Add what comes back from both gates to what goes on, and all gradients to the bias's."""
        a = self.a
        with a.units(step.size, self.form.is_masked) as unit:
            here = [gate + unit.index for gate in step.gates[:3]]
            with a.loop(0, step.count, carried=[a.zero()] * 3) as row:
                dx = a.at("%DX", step.row(row.index) * step.three)
                carry = row.index * step.size + unit.index
                sums = a.load(self.sums(row.index), unit.index)
                straight = a.load("%Carry", carry)
                a.store(straight + sums, "%Carry", carry)
                row.next = [total + a.load(dx, at) for total, at in zip(row.values, here, strict=True)]
            for total, at in zip(row.values, here, strict=True):
                before = a.load("%DBias", at)
                a.store(before + total, "%DBias", at)
