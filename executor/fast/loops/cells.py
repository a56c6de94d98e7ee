"""The steps of the units of `fluidlite.ops.kernels.rnn_steps`, which read all of a state in one product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.routine import Address, CodeLoop, Integer, Scalar
from fluidlite.executor.fast.loops.steps import StepCode, following_rows
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.cells import incoming
from fluidlite.ops.kernels.rnn_steps import ResetAfterUnit

__all__ = ["ResetAfterSteps", "SimpleSteps"]


class ResetAfterSteps(GatedSteps[UnitForm]):
    """Planes in the order candidate, reset, update of the input, reset, update, candidate of the product."""

    products = 1
    forward_names: ClassVar[tuple[str, ...]] = ()
    back_names: ClassVar[tuple[str, ...]] = ()

    def forward(self, step: StepCode) -> None:
        """Write the planes that are kept of each row, and its state."""
        with self.rows(step) as row:
            self._forward_row(step, row)

    def _forward_row(self, step: StepCode, row: Scalar) -> None:
        a = self.a
        sums = self.sums(row)
        place = step.row(row)
        x = a.at("%X", place * step.three)
        gates = a.at("%Gates", step.stored(row) * step.four)
        before = step.earlier(row, "%Hidden", "%First")
        hidden = a.at("%Hidden", place * step.size)
        with a.units(step.size, self.form.is_masked) as unit:
            here = [gate + unit.index for gate in step.gates]
            given = self._raw(sums, x, here)
            given["before"] = a.load(before, unit.index)
            *planes, state = self.forward_values(step, given, [*ResetAfterUnit.saved, "hidden"])
            for value, at in zip(planes, here, strict=True):
                a.store(value, gates, at)
            a.store(state, hidden, unit.index)

    def _raw(self, sums: Address, x: Address, here: Sequence[Integer]) -> dict[str, Vector]:
        """The planes of some units before their activations; the product lacks the candidate's input."""
        a = self.a
        return {
            "x_candidate": a.load(x, here[0]) + a.load("%Bias", here[0]),
            "x_reset": self._gate(sums, here[0], x, here[1]),
            "x_update": self._gate(sums, here[1], x, here[2]),
            "x_inner": a.load(sums, here[2]) + a.load("%Bias", here[3]),
        }

    def _gate(self, sums: Address, at: Integer, x: Address, own: Integer) -> Vector:
        a = self.a
        return a.load(sums, at) + a.load(x, own) + a.load("%Bias", own)

    def back(self, step: StepCode) -> None:
        """Write the gradients of each row, after the product of those of the step behind it."""
        a = self.a
        following = following_rows(a, step, a.at("%DX", step.size), step.four)
        self.product(0, following, step.three)
        with a.units(step.size, self.form.is_masked) as unit:
            with a.loop(0, step.count, carried=[a.zero()] * 4) as row:
                self._back_row(step, row, unit.index, following)
            for gate, total in zip(step.gates, row.values, strict=True):
                place = gate + unit.index
                a.store(a.load("%DBias", place) + total, "%DBias", place)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: Scalar, following: Scalar) -> None:
        a = self.a
        row = loop.index
        place = step.row(row)
        own = place * step.size + unit
        gates = a.at("%Gates", step.stored(row) * step.four)
        here = [gate + unit for gate in step.gates]
        given = {name: a.load(gates, at) for name, at in zip(ResetAfterUnit.saved, here, strict=True)}
        given["before"] = a.load(step.earlier(row, "%Hidden", "%First"), unit)
        carry = row * step.size + unit
        goes_on = row.compare("slt", following)
        passed = a.chosen(goes_on, a.load(self.sums(row), unit))
        given[incoming("hidden")] = a.load("%D", own) + a.load("%Carry", carry) + passed
        back = self.form.cell.back(("hidden",), (*ResetAfterUnit.planes, "before")).whole()
        straight, *found = self.gradients(back, given, ["before", *ResetAfterUnit.planes])
        dx = a.at("%DX", place * step.four)
        for value, at in zip(found, here, strict=True):
            a.store(value, dx, at)
        a.store(straight, "%Carry", carry)
        a.store(given["before"], "%Earlier", own)
        loop.next = _added(loop, found)


class SimpleSteps(GatedSteps[UnitForm]):
    """A product and an activation; nothing is kept beyond the states."""

    products = 1
    forward_names: ClassVar[tuple[str, ...]] = ()
    back_names: ClassVar[tuple[str, ...]] = ()

    def forward(self, step: StepCode) -> None:
        """Write the state of each row."""
        a = self.a
        with self.rows(step) as row:
            sums = self.sums(row)
            own = step.row(row) * step.size
            x = a.at("%X", own)
            hidden = a.at("%Hidden", own)
            with a.units(step.size, self.form.is_masked) as unit:
                at = unit.index
                (state,) = self.forward_values(step, {"x": self.raw(sums, x, at)}, ["hidden"])
                a.store(state, hidden, at)

    def back(self, step: StepCode) -> None:
        """Write the gradients of each row, after the product of those of the step behind it."""
        a = self.a
        following = following_rows(a, step, "%DX", step.size)
        self.product(0, following, step.size)
        with a.units(step.size, self.form.is_masked) as unit:
            with a.loop(0, step.count, carried=[a.zero()]) as row:
                self._back_row(step, row, unit.index, following)
            total = a.load("%DBias", unit.index) + row.values[0]
            a.store(total, "%DBias", unit.index)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: Scalar, following: Scalar) -> None:
        a = self.a
        row = loop.index
        own = step.row(row) * step.size + unit
        goes_on = row.compare("slt", following)
        passed = a.chosen(goes_on, a.load(self.sums(row), unit))
        given = {"hidden": a.load("%Hidden", own), incoming("hidden"): a.load("%D", own) + passed}
        found = self.gradients(self.form.cell.back(("hidden",), ("x",)).whole(), given, ["x"])
        a.store(found[0], "%DX", own)

        earlier = step.earlier(row, "%Hidden", "%First")
        a.store(a.load(earlier, unit), "%Earlier", own)
        loop.next = _added(loop, found)


def _added(loop: CodeLoop, found: Sequence[Vector]) -> list[Vector]:
    """The sums over the rows so far."""
    return [total + value for total, value in zip(loop.values, found, strict=True)]
