"""The frame of all gated units' functions: every step of a layer in one call, forward or back.

A step is products by panels with the state before, and between them what `fluidlite.ops.kernels` does with
the gates of one row after the other, here in registers. A thread computes some of the sequences from the
first step to the last, so that threads meet only at the end. What the layer reads and writes lies as it is
given; gates and what else only the gradient reads lie step by step.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.cell_lanes import cell_lanes
from fluidlite.executor.fast.loops.panels import product_call, product_text
from fluidlite.executor.fast.loops.routine import Address, Integer, Routine, Scalar
from fluidlite.executor.fast.loops.steps import StepCode, steps_back, whole_text
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.cells import CellForm, CellSteps, gradient

__all__ = ["PRODUCT", "GatedSteps", "UnitForm"]

_STEPS = ("Rows", "Starts", "steps", "size", "Scratch", "Table", "First", "Hidden", "Gates")
PRODUCT = ("stride", "panels", "Weight", "whole")
"""The arguments that each product has, with its number behind."""


@dataclass(frozen=True)
class UnitForm:
    """The differences between the functions of one unit; `vectors` are those of each product's panels."""

    lanes: int
    vectors: tuple[int, ...]
    is_masked: bool
    cell: CellForm
    has_first: bool


Form = TypeVar("Form", bound=UnitForm)


class GatedSteps(abc.ABC, Generic[Form]):
    """Writes the two functions of a unit: subclasses say what a step does with its gates."""

    products: ClassVar[int]
    """Products of a step."""
    forward_names: ClassVar[tuple[str, ...]]
    """Arguments beyond those of all units, in order; capitals for arrays."""
    back_names: ClassVar[tuple[str, ...]]
    width: ClassVar[str] = "size"
    """Units of the states that the recurrence reads."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.intrinsics: dict[str, str] = {}
        self.a = Routine(form.lanes, self.intrinsics)

    @classmethod
    def arguments(cls, is_back: bool) -> tuple[str, ...]:
        """The names of the function's arguments, in order."""
        products = [f"{name}{number}" for number in range(cls.products) for name in PRODUCT]
        own = (*cls.back_names, "D", "DX", "Carry", "Earlier", "DBias") if is_back else cls.forward_names
        return (*_STEPS, *products, *own) if is_back else (*_STEPS, *products, "X", "Bias", "depth", *own)

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
                    self.note(row, step.earlier(row, "%Hidden", "%First", width))
                self.product(0, step.count, a.pick(step.is_first, a.integer("depth"), width))
                self.forward(step)
        lanes, kinds = self.form.lanes, sorted(set(self.form.vectors))
        products = [product_text(lanes, vectors, self.intrinsics) for vectors in kinds]
        return whole_text(a, products, self.intrinsics)

    @abc.abstractmethod
    def forward(self, step: StepCode) -> None:
        """Write a step: `Scratch` holds the first product, of the state before."""

    @abc.abstractmethod
    def back(self, step: StepCode) -> None:
        """Write a step back."""

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

    def forward_values(
        self, step: StepCode, given: Mapping[str, Vector], wanted: Sequence[str]
    ) -> list[Vector]:
        """Values of the cell, from others."""
        return cell_lanes(self.a.code, self.form.cell.forward, given, wanted, step.if_known)

    def gradients(self, back: CellSteps, given: Mapping[str, Vector], wanted: Sequence[str]) -> list[Vector]:
        """The gradients of values of the cell."""
        return cell_lanes(self.a.code, back, given, list(map(gradient, wanted)))

    def raw(self, sums: Address, x: Address, at: Integer) -> Vector:
        """A gate before its activation: a product, the input and the bias."""
        a = self.a
        return a.load(sums, at) + a.load(x, at) + a.load("%Bias", at)

    def sums(self, row: Scalar, number: int = 0) -> Scalar:
        """The address of a row of a product's result."""
        return self.a.at("%Scratch", row * self.a.integer(f"stride{number}"))
