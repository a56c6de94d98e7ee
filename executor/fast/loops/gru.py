"""The steps of a gated recurrent unit, as `fluidlite.ops.kernels.gru_steps` has them.

The candidate waits for the states that the reset gate lets through: a step is two products forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.routine import Scalar
from fluidlite.executor.fast.loops.steps import StepCode

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
        self.product(1, step.count, self.a.pick(step.is_first, self.a.integer("depth"), step.size))
        with self.rows(step) as row:
            self._new_states(step, row)

    def _open_gates(self, step: StepCode, row: Scalar) -> None:
        a, form, sums = self.a, self.form, self.sums(row)
        x = a.at("%X", step.row(row) * step.three)
        stored = step.stored(row)
        gates = a.at("%Gates", stored * step.three)
        reset = a.at("%Reset", stored * step.size)
        before = step.earlier(row, "%Hidden", "%First")
        with a.units(step.size, form.is_masked) as unit:
            here = [gate + unit.index for gate in step.gates[:2]]
            update, let_through = (activated(form.gate, self.raw(sums, x, at)) for at in here)
            a.store(update, gates, here[0])
            a.store(let_through, gates, here[1])
            a.store(step.if_known(let_through * a.load(before, unit.index)), reset, unit.index)
        self.note(row, reset)

    def _new_states(self, step: StepCode, row: Scalar) -> None:
        a, form, sums = self.a, self.form, self.sums(row, 1)
        place = step.row(row)
        x = a.at("%X", place * step.three)
        gates = a.at("%Gates", step.stored(row) * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        hidden = a.at("%Hidden", place * step.size)
        with a.units(step.size, form.is_masked) as unit:
            at = step.gates[2] + unit.index
            raw = a.load(sums, unit.index) + a.load(x, at) + a.load("%Bias", at)
            candidate = activated(form.candidate, raw)
            update, earlier = a.load(gates, unit.index), a.load(before, unit.index)
            opened, closed = (earlier, candidate) if form.origin_mode else (candidate, earlier)
            a.store(candidate, gates, at)
            a.store((opened - closed) * update + closed, hidden, unit.index)

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
        a, form = self.a, self.form
        place = step.row(row)
        own = place * step.size
        gates = a.at("%Gates", step.stored(row) * step.three)
        dx = a.at("%DX", place * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        carry = a.at("%Carry", row * step.size)
        with a.units(step.size, form.is_masked) as unit:
            at = step.gates[2] + unit.index
            update, candidate = a.load(gates, unit.index), a.load(gates, at)
            earlier = a.load(before, unit.index)
            d = a.load("%D", own + unit.index) + a.load(carry, unit.index)
            opened, closed = (earlier, candidate) if form.origin_mode else (candidate, earlier)
            shut = 1.0 - update
            own_share, straight = (shut, update) if form.origin_mode else (update, shut)
            a.store(slope(form.gate, update) * (opened - closed) * d, dx, unit.index)
            a.store(slope(form.candidate, candidate) * own_share * d, dx, at)
            a.store(d * straight, carry, unit.index)
            a.store(earlier, "%Earlier", own + unit.index)
        self.note(row, a.at(dx, step.gates[2]))

    def _back_reset(self, step: StepCode, row: Scalar) -> None:
        """The gradient of the reset gate."""
        a, form, sums = self.a, self.form, self.sums(row, 1)
        place = step.row(row)
        gates = a.at("%Gates", step.stored(row) * step.three)
        dx = a.at("%DX", place * step.three)
        before = step.earlier(row, "%Hidden", "%First")
        carry = a.at("%Carry", row * step.size)
        own = a.at("%Passed", place * step.size)
        with a.units(step.size, form.is_masked) as unit:
            at = step.gates[1] + unit.index
            let_through, passed = a.load(gates, at), a.load(sums, unit.index)
            earlier = a.load(before, unit.index)
            a.store(slope(form.gate, let_through) * earlier * passed, dx, at)
            a.store(step.if_known(let_through * earlier), own, unit.index)
            a.store(a.load(carry, unit.index) + passed * let_through, carry, unit.index)
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
                a.store(a.load("%Carry", carry) + sums, "%Carry", carry)
                row.next = [total + a.load(dx, at) for total, at in zip(row.values, here, strict=True)]
            for total, at in zip(row.values, here, strict=True):
                a.store(a.load("%DBias", at) + total, "%DBias", at)
