"""The frame of all gated units' functions: every step of a layer in one call, forward or back.

A step is products by panels with the state before, and between them what `fluidlite.ops.kernels` does with
the gates of one row after the other, here in registers. A thread computes some of the sequences from the
first step to the last, so that threads meet only at the end. What the layer reads and writes lies as it is
given; gates and what else only the gradient reads lie step by step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.cell_lanes import cell_lanes
from fluidlite.executor.fast.loops.panels import product_call, product_text
from fluidlite.executor.fast.loops.routine import Integer, Routine, Scalar
from fluidlite.executor.fast.loops.steps import StepCode, following_rows, steps_back, whole_text
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.cells import CellForm, gradient, incoming

__all__ = ["BY_STEP", "EARLIER", "PRODUCT", "CellArray", "GatedSteps", "RowCode", "UnitForm"]

_STEPS = (
    *("Rows", "Starts", "steps", "size", "Scratch", "Table"),
    *("First", "FirstCells", "Peepholes", "Hidden", "Gates"),
)
PRODUCT = ("stride", "panels", "Weight", "whole")
"""The arguments that each product has, with its number behind."""


@dataclass(frozen=True)
class UnitForm:
    """The differences between the functions of one unit; `vectors` are those of each product's panels.

    Units, or those of the states that the recurrence reads, fill whole registers or are masked. Gradients of
    all cells are there or not; what only a gradient reads is written or not.
    """

    lanes: int
    vectors: tuple[int, ...]
    is_masked: bool
    is_state_masked: bool
    cell: CellForm
    projection: CellForm | None
    has_first: bool
    has_dcells: bool = False
    saves: bool = True


GIVEN, BY_STEP, BY_SEQUENCE = range(3)


class CellArray(NamedTuple):
    """An argument that has values of a cell, plane behind plane; rows lie as they are given, step by step, or
    one for each sequence of a call.
    """

    name: str
    values: Sequence[str]
    rows: int = GIVEN


EARLIER = "hidden before"
"""The value in `Earlier`."""


class RowCode:
    """The values of one sequence in one step, each in its array."""

    def __init__(self, step: StepCode, row: Scalar, arrays: Sequence[CellArray]) -> None:
        self.a = step.a
        numbers = step.row(row), step.stored(row), row
        self.starts: dict[str, Scalar] = {}
        """The address of the first unit of each value."""
        for array in arrays:
            first = numbers[array.rows] * (step.size * len(array.values))
            for plane, name in enumerate(array.values):
                place = first + step.size * plane
                self.starts[name] = self.a.at(f"%{array.name}", place)

    def load(self, name: str, unit: Integer) -> Vector:
        """A value of some units."""
        return self.a.load(self.starts[name], unit)

    def store(self, values: Mapping[str, Vector], unit: Integer) -> None:
        """Write values of some units; those that have no array are dropped."""
        for name, value in values.items():
            if name in self.starts:
                self.a.store(value, self.starts[name], unit)


class GatedSteps:
    """Writes the two functions of a unit: subclasses say where its values are.

    Those of units with one product are complete here.
    """

    width: ClassVar[str] = "size"
    """Units of the states that the recurrence reads."""

    def __init__(self, form: UnitForm) -> None:
        self.form = form
        self.cell = form.cell.cell
        self.layout = self.cell.layout
        self.back_steps = form.cell.back()
        self.weights = [name for name in form.cell.known if name != "before"]
        """Values that the cell reads beside its sums, the same for all rows."""
        self.before = ("%Cells", "%FirstCells") if self.layout.before == "cell" else ("%Hidden", "%First")
        """The array of the value that is `before` one step later, and what it is at the first step."""
        self.arrays = self.made_arrays()
        self.intrinsics: dict[str, str] = {}
        self.a = Routine(form.lanes, self.intrinsics)

    def made_arrays(self) -> list[CellArray]:
        """Arrays that a run forward writes."""
        found = [CellArray("Gates", self.layout.saved, BY_STEP)] if self.layout.saved else []
        for name, value in self.layout.alone.items():
            found.append(CellArray(name.capitalize(), (value,), GIVEN if name == "cells" else BY_STEP))
        return [*found, CellArray("Hidden", ("hidden",))]

    def arguments(self, is_back: bool) -> tuple[str, ...]:
        """The names of the function's arguments, in order; capitals for arrays."""
        products = [f"{name}{number}" for number in range(len(self.form.vectors)) for name in PRODUCT]
        others = [array.name for array in self.arrays if array.name not in _STEPS]
        own = ("D", "DX", "DCells", "Carry", "Earlier", "DBias") if is_back else ("X", "Bias", "depth")
        return (*_STEPS, *products, *others, *own)

    def text(self, is_back: bool) -> str:
        """The text of all steps in one direction."""
        a = self.a
        a.arguments(self.arguments(is_back))
        if is_back:
            with steps_back(a, self.form.has_first) as step:
                self.back(step)
        else:
            width = a.integer(self.width)
            with a.loop(0, a.integer("steps")) as steps:
                step = StepCode(a, steps.index, self.form.has_first)
                with self.rows(step) as row:
                    before = step.earlier(row, "%Hidden", "%First", width)
                    self.note(row, before)
                depth = a.pick(step.is_first, a.integer("depth"), width)
                self.product(0, step.count, depth)
                self.forward(step)
        lanes, kinds = self.form.lanes, sorted(set(self.form.vectors))
        products = [product_text(lanes, vectors, self.intrinsics) for vectors in kinds]
        return whole_text(a, products, self.intrinsics)

    # ------------------------------------------------------------------ rows and products
    @contextlib.contextmanager
    def rows(self, step: StepCode) -> Iterator[Scalar]:
        """A loop over this call's sequences that have the step."""
        with self.a.loop(0, step.count) as row:
            yield row.index

    def note(self, row: Scalar, address: Scalar) -> None:
        """Make an address an operand of the next product."""
        self.a.put(address, "%Table", row)

    def product(self, number: int, count: Scalar, depth: Scalar) -> None:
        """Call a product of the rows that were noted; its result is in `Scratch`."""
        operands = {name.lower(): f"%{name}{number}" for name in PRODUCT}
        vectors = self.form.vectors[number]
        product_call(self.a, vectors, rows="%Table", count=count, depth=depth, out="%Scratch", **operands)

    def sums(self, row: Scalar, number: int = 0) -> Scalar:
        """The address of a row of a product's result."""
        return self.a.at("%Scratch", row * self.a.integer(f"stride{number}"))

    def known(self, step: StepCode, before: Scalar, unit: Scalar) -> dict[str, Vector]:
        """The values that both directions read beside what a run forward writes."""
        found = {"before": self.a.load(before, unit)}
        for plane, name in enumerate(self.weights):
            place = step.size * plane + unit
            found[name] = self.a.load("%Peepholes", place)
        return found

    # ------------------------------------------------------------------ forward
    def forward(self, step: StepCode) -> None:
        """Write a step: `Scratch` holds the first product, of the state before."""
        with self.rows(step) as row:
            self.forward_row(step, row, 0)

    def forward_row(self, step: StepCode, row: Scalar, number: int, known: Sequence[str] = ()) -> RowCode:
        """Write the values of a row that a product leads to; some are known before."""
        a = self.a
        wanted = self.form.cell.stages[number].outputs
        arrays = [one for one in self.arrays if self.form.saves or one.rows != BY_STEP]
        values = RowCode(step, row, [CellArray("X", self.cell.once[: self.layout.entries]), *arrays])
        sums = self.sums(row, number)
        before = step.earlier(row, *self.before)
        with a.units(step.size, self.form.is_masked) as unit:
            given = self._raw(step, values, sums, number, unit.index)
            given |= self.known(step, before, unit.index)
            given |= {name: values.load(name, unit.index) for name in known}
            found = cell_lanes(a.code, self.form.cell.forward, given, wanted, step.if_known)
            named = dict(zip(wanted, found, strict=True))
            values.store(named, unit.index)
        return values

    def _raw(
        self, step: StepCode, values: RowCode, sums: Scalar, number: int, unit: Scalar
    ) -> dict[str, Vector]:
        """The sums that a product leads to, of which each has an input, a bias, or both."""
        a = self.a
        first, last = self.layout.ranges[number]
        found = {}
        for name in self.form.cell.stages[number].sums:
            plane = self.cell.once.index(name)
            parts = [values.load(name, unit)] if name in values.starts else []
            if first <= plane < last:
                own = step.size * (plane - first) + unit
                parts.insert(0, a.load(sums, own))
            own = step.size * plane + unit
            parts.append(a.load("%Bias", own))
            found[name] = parts[0]
            for part in parts[1:]:
                found[name] = found[name] + part
        return found

    # ------------------------------------------------------------------ back
    def back_arrays(self) -> list[CellArray]:
        """Arrays that a run back reads or writes for each row."""
        dcells = [CellArray("DCells", (incoming("cell"),))] if self.form.has_dcells else []
        return [
            *self.arrays,
            *dcells,
            CellArray("D", (incoming("hidden"),)),
            CellArray("DX", list(map(gradient, self.cell.once))),
            CellArray("Earlier", (EARLIER,)),
            CellArray("Carry", (gradient("before"),), BY_SEQUENCE),
        ]

    def back(self, step: StepCode) -> None:
        """Write the gradients of each row, after the product of those of the step behind it."""
        a = self.a
        first, last = self.layout.state
        width = step.size * len(self.cell.once)
        behind = a.at("%DX", step.size * first)
        following = following_rows(a, step, behind, width)
        depth = step.size * (last - first)
        self.product(0, following, depth)
        self.back_rows(step, following)

    def back_rows(self, step: StepCode, following: Scalar) -> None:
        """Write the gradients of each row; `Scratch` holds what comes back to those that are `following`."""
        a = self.a
        summed = [*self.cell.once, *self.weights]
        with a.units(step.size, self.form.is_masked) as unit:
            with a.loop(0, step.count, carried=[a.zero()] * len(summed)) as row:
                found = self._back_row(step, row.index, unit.index, following)
                row.next = [
                    total + found[gradient(name)] for total, name in zip(row.values, summed, strict=True)
                ]
            self.add_to_bias(step, row.values, unit.index)

    def add_to_bias(self, step: StepCode, sums: Sequence[Vector], unit: Scalar) -> None:
        """Add sums over rows to the gradients of what is the same for all of them."""
        for plane, total in enumerate(sums):
            at = step.size * plane + unit
            before = self.a.load("%DBias", at)
            self.a.store(before + total, "%DBias", at)

    def _back_row(self, step: StepCode, row: Scalar, unit: Scalar, following: Scalar) -> dict[str, Vector]:
        values = RowCode(step, row, self.back_arrays())
        given = {name: values.load(name, unit) for array in self.arrays for name in array.values}
        before = step.earlier(row, *self.before)
        given |= self.known(step, before, unit)
        given[incoming("hidden")] = self.state_gradient(values, row, unit, following)
        wanted = list(map(gradient, self.back_steps.wanted))
        if gradient("before") in wanted:
            self._add_carried(given, values, unit)
        found = self.gradients(given, wanted, self.layout.sources)
        self.note_earlier(step, row, values, unit)
        values.store(found, unit)
        return found

    def _add_carried(self, given: dict[str, Vector], values: RowCode, unit: Scalar) -> None:
        """Add what comes back without a product to the gradient of what is `before` one step later."""
        name = incoming(self.layout.before)
        carried = values.load(gradient("before"), unit)
        if name in given:
            carried = carried + given[name]
        if self.form.has_dcells:
            carried = carried + values.load(name, unit)
        given[name] = carried

    def gradients(
        self, given: Mapping[str, Vector], wanted: Sequence[str], sources: Sequence[str]
    ) -> dict[str, Vector]:
        """Gradients of values of the cell, from those of some sources."""
        found = cell_lanes(self.a.code, self.back_steps.whole(*sources), given, wanted)
        return dict(zip(wanted, found, strict=True))

    def state_gradient(self, values: RowCode, row: Scalar, unit: Scalar, following: Scalar) -> Vector:
        """The gradient of a row's state, with what comes from the step behind it."""
        return values.load(incoming("hidden"), unit) + self.passed(row, unit, following)

    def passed(self, row: Scalar, unit: Scalar, following: Scalar) -> Vector:
        """The gradient that comes back from the step behind: zeros for a sequence that has none."""
        goes_on = row.compare("slt", following)
        sums = self.sums(row)
        passed = self.a.load(sums, unit)
        return self.a.chosen(goes_on, passed)

    def note_earlier(self, step: StepCode, row: Scalar, values: RowCode, unit: Scalar) -> None:
        """Write the state before, of which the weight's gradient is a product."""
        before = step.earlier(row, "%Hidden", "%First")
        state = self.a.load(before, unit)
        values.store({EARLIER: state}, unit)
