"""The steps of the units of `fluidlite.ops.kernels.rnn_steps`, which read all of a state in one product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fluidlite.executor.fast.loops.gated import GatedSteps, UnitForm
from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.routine import CodeLoop
from fluidlite.executor.fast.loops.steps import StepCode, following_rows
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["ResetAfterSteps", "SimpleForm", "SimpleSteps"]


@dataclass(frozen=True)
class SimpleForm(UnitForm):
    """The activation by name."""

    activation: str


class ResetAfterSteps(GatedSteps[UnitForm]):
    """Planes in the order candidate, reset, update of the input, reset, update, candidate of the product."""

    products = 1
    forward_names: ClassVar[tuple[str, ...]] = ()
    back_names: ClassVar[tuple[str, ...]] = ()

    def forward(self, step: StepCode) -> None:
        """Write the planes that are kept of each row, and its state."""
        with self.rows(step) as row:
            self._forward_row(step, row)

    def _forward_row(self, step: StepCode, row: str) -> None:
        a, sums = self.a, self.sums(row)
        place = step.row(row)
        x, gates = (
            a.at("%X", a.times(place, step.three)),
            a.at("%Gates", a.times(step.stored(row), step.four)),
        )
        before = step.earlier(row, "%Hidden", "%First")
        hidden = a.at("%Hidden", a.times(place, "%size"))
        with a.units("%size", self.form.is_masked) as unit:
            here = [a.sum(gate, unit.index) for gate in step.gates]
            reset, update = (
                activated("sigmoid", a.load(sums, at) + a.load(x, own) + a.load("%Bias", own))
                for at, own in zip(here[:2], here[1:3], strict=True)
            )
            inner = a.load(sums, here[2]) + a.load("%Bias", here[3])
            candidate = activated("tanh", a.load(x, here[0]) + a.load("%Bias", here[0]) + reset * inner)
            for value, at in zip((candidate, reset, update, inner), here, strict=True):
                a.store(value, gates, at)
            state = (a.load(before, unit.index) - candidate) * update + candidate
            a.store(state, hidden, unit.index)

    def back(self, step: StepCode) -> None:
        """Write the gradients of each row, after the product of those of the step behind it."""
        a = self.a
        following = following_rows(a, step, a.at("%DX", "%size"), step.four)
        self.product(0, following, step.three)
        with a.units("%size", self.form.is_masked) as unit:
            with a.loop("0", step.count, carried=[a.zero()] * 4) as row:
                self._back_row(step, row, unit.index, following)
            for at, total in zip(step.gates, row.values, strict=True):
                place = a.sum(at, unit.index)
                a.store(a.load("%DBias", place) + total, "%DBias", place)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: str, following: str) -> None:
        a, row = self.a, loop.index
        place = step.row(row)
        own = a.sum(a.times(place, "%size"), unit)
        gates = a.at("%Gates", a.times(step.stored(row), step.four))
        here = [a.sum(gate, unit) for gate in step.gates]
        candidate, reset, update, inner = (a.load(gates, at) for at in here)
        earlier = a.load(step.earlier(row, "%Hidden", "%First"), unit)
        carry = a.sum(a.times(row, "%size"), unit)
        passed = a.chosen(a.is_less(row, following), a.load(self.sums(row), unit))
        d = a.load("%D", own) + a.load("%Carry", carry) + passed
        dcandidate = slope("tanh", candidate) * (1.0 - update) * d
        dreset = slope("sigmoid", reset) * inner * dcandidate
        dupdate = slope("sigmoid", update) * (earlier - candidate) * d
        found = (dcandidate, dreset, dupdate, dcandidate * reset)
        dx = a.at("%DX", a.times(place, step.four))
        for value, at in zip(found, here, strict=True):
            a.store(value, dx, at)
        a.store(d * update, "%Carry", carry)
        a.store(earlier, "%Earlier", own)
        loop.next = _added(loop, found)


class SimpleSteps(GatedSteps[SimpleForm]):
    """A product and an activation; nothing is kept beyond the states."""

    products = 1
    forward_names: ClassVar[tuple[str, ...]] = ()
    back_names: ClassVar[tuple[str, ...]] = ()

    def forward(self, step: StepCode) -> None:
        """Write the state of each row."""
        a = self.a
        with self.rows(step) as row:
            sums, own = self.sums(row), a.times(step.row(row), "%size")
            x, hidden = a.at("%X", own), a.at("%Hidden", own)
            with a.units("%size", self.form.is_masked) as unit:
                at = unit.index
                total = a.load(sums, at) + a.load(x, at) + a.load("%Bias", at)
                a.store(activated(self.form.activation, total), hidden, at)

    def back(self, step: StepCode) -> None:
        """Write the gradients of each row, after the product of those of the step behind it."""
        a = self.a
        following = following_rows(a, step, "%DX", "%size")
        self.product(0, following, "%size")
        with a.units("%size", self.form.is_masked) as unit:
            with a.loop("0", step.count, carried=[a.zero()]) as row:
                self._back_row(step, row, unit.index, following)
            a.store(a.load("%DBias", unit.index) + row.values[0], "%DBias", unit.index)

    def _back_row(self, step: StepCode, loop: CodeLoop, unit: str, following: str) -> None:
        a, row = self.a, loop.index
        own = a.sum(a.times(step.row(row), "%size"), unit)
        passed = a.chosen(a.is_less(row, following), a.load(self.sums(row), unit))
        found = slope(self.form.activation, a.load("%Hidden", own)) * (a.load("%D", own) + passed)
        a.store(found, "%DX", own)
        a.store(a.load(step.earlier(row, "%Hidden", "%First"), unit), "%Earlier", own)
        loop.next = _added(loop, (found,))


def _added(loop: CodeLoop, found: tuple[Vector, ...]) -> list[Vector]:
    """The sums over the rows so far."""
    return [total + value for total, value in zip(loop.values, found, strict=True)]
