"""The steps of a gated recurrent unit, as `fluidlite.ops.kernels.gru_steps` has them.

The candidate waits for the states that the reset gate lets through: a step is two products forward.
"""

from __future__ import annotations

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.routine import Scalar
from fluidlite.executor.fast.loops.steps import StepCode
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["GruForm", "GruSteps"]


@dataclass(frozen=True)
class GruForm(UnitForm):
    """Activations by name, and what the update gate lets through."""

    gate: str
    candidate: str
    origin_mode: bool


class GruSteps(GatedSteps[GruForm]):
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
            update = activated(form.gate, self.raw(sums, x, of_update))
            let_through = activated(form.gate, self.raw(sums, x, of_reset))
            a.store(update, gates, of_update)
            a.store(let_through, gates, of_reset)
            earlier = a.load(before, unit.index)
            a.store(step.if_known(let_through * earlier), reset, unit.index)
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
            candidate = activated(form.candidate, raw)
            update = a.load(gates, unit.index)
            earlier = a.load(before, unit.index)
            opened, closed = self._ends(earlier, candidate)
            a.store(candidate, gates, of_candidate)
            a.store((opened - closed) * update + closed, hidden, unit.index)

    def _ends(self, earlier: Vector, candidate: Vector) -> tuple[Vector, Vector]:
        """The state where the update gate is open, and where it is closed."""
        if self.form.origin_mode:
            return earlier, candidate
        return candidate, earlier

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
        with a.units(step.size, form.is_masked) as unit:
            of_candidate = step.gates[2] + unit.index
            update = a.load(gates, unit.index)
            candidate = a.load(gates, of_candidate)
            earlier = a.load(before, unit.index)
            d = a.load("%D", own + unit.index)
            d = d + a.load(carry, unit.index)
            opened, closed = self._ends(earlier, candidate)
            shut = 1.0 - update
            # the parts of the state that are the candidate and the state before
            new, old = (shut, update) if form.origin_mode else (update, shut)
            dupdate = slope(form.gate, update) * (opened - closed) * d
            a.store(dupdate, dx, unit.index)
            dcandidate = slope(form.candidate, candidate) * new * d
            a.store(dcandidate, dx, of_candidate)
            a.store(d * old, carry, unit.index)
            a.store(earlier, "%Earlier", own + unit.index)
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
        with a.units(step.size, form.is_masked) as unit:
            of_reset = step.gates[1] + unit.index
            let_through = a.load(gates, of_reset)
            passed = a.load(sums, unit.index)
            earlier = a.load(before, unit.index)
            dreset = slope(form.gate, let_through) * earlier * passed
            a.store(dreset, dx, of_reset)
            a.store(step.if_known(let_through * earlier), own, unit.index)
            straight = a.load(carry, unit.index)
            a.store(straight + passed * let_through, carry, unit.index)
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
