"""Matrix products of a plan, cut into parts that a team shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.team import on_team, pieces
from fluidlite.ops.kernels.gemm import adder

__all__ = [
    "DESCENT",
    "ProductCut",
    "DescendingProduct",
    "ProductForm",
    "PartialProduct",
    "PlainProduct",
    "SharedProducts",
    "stack_axis",
]


class ProductCut(Enum):
    """The dimension of the result that a product is cut along."""

    NONE = "none"
    ROWS = "rows"
    """Rows of the left operand, or its matrices where it is a stack of them by one matrix."""
    STACK = "stack"
    """Matrices of both operands."""
    COLUMNS = "columns"

    def of(self, arrays: Sequence[Array], part: int, parts: int) -> Sequence[Array]:
        """A part of (left, right, out)."""
        if self is ProductCut.NONE:
            return arrays
        left, right, out = arrays
        if self is ProductCut.COLUMNS:
            columns = pieces(out.shape[1], parts)[part]
            return left, right[:, columns], out[:, columns]
        if self is ProductCut.ROWS:
            rows = pieces(len(out), parts)[part]
            return left[rows], right, out[rows]
        axis = stack_axis(out.shape, parts) or 0
        own = (slice(None),) * axis + (pieces(out.shape[axis], parts)[part],)
        return left[own], right[own], out[own]


def stack_axis(shape: Sequence[int], parts: int) -> int | None:
    """The dimension of a stack of matrices that is cut in parts of two matrices or more: that of samples, or
    of the heads of a single one; None where there is none.
    """
    extents = enumerate(shape[:-2])
    return next((axis for axis, extent in extents if extent >= 2 * parts), None)


class PartialProduct(Protocol):
    """A part of a product: `place` gives it arrays, and each `run` computes with these."""

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on: left, right and out, and a number in an array where there is one."""

    def run(self) -> None:
        """out = left @ right, or what else this computes."""


class PlainProduct:
    """A product by NumPy.

    Of some rows of a transposed matrix `dot` makes a copy, and `matmul` has BLAS read them where they are:
    512 of 1024 rows by 1024 x 256 take 5.1 ms and 2.8.
    """

    shown = "NumPy"

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        self.arrays = arrays

    def run(self) -> None:
        """out = left @ right"""
        np.matmul(*self.arrays)


class DescendingProduct:
    """out -= rate * left @ right"""

    shown = "BLAS, into the weight"

    def place(self, *arrays: Array) -> None:
        """Take these arrays from now on."""
        left, right, out, self.rate = arrays
        self.held = left, right, out
        self.add = adder(left, right, out)

    def run(self) -> None:
        """Move out."""
        self.add(-self.rate.item())


@dataclass(frozen=True)
class ProductForm:
    """How one of some products is computed, from how many arrays, and how it is cut."""

    make: Callable[[], PartialProduct] = PlainProduct
    operands: int = 3
    cut: ProductCut = ProductCut.NONE


DESCENT = ProductForm(DescendingProduct, 4)


class SharedProducts(OwnObject):
    """products(left, right, out, left, right, out, ...) computes products that do not need each other.

    A team is woken once for all of them, and each member does its part of each. The parts are cut once for
    arrays that are the same from run to run.
    """

    def __init__(self, xp: Any, forms: Sequence[ProductForm], members: int) -> None:
        self.members = members
        self.forms: list[tuple[ProductForm, int, int]] = []
        """Each form with the first and the last place of its arrays among the arguments."""
        last = 0
        for form in forms:
            self.forms.append((form, last, last + form.operands))
            last += form.operands
        self.held: list[Any] = [None] * last
        self.parts = [[form.make() for form in forms] for _ in range(members)]

    @staticmethod
    def explained(forms: Sequence[ProductForm], members: int) -> str:
        """The way to compute each of them."""
        return "; ".join(_ways(forms, members))

    @classmethod
    def kernel_of(cls, method: str, forms: Sequence[ProductForm], members: int) -> str:
        """The way to compute the first of them."""
        return _ways(forms, members)[0]

    def __call__(self, *arrays: Array) -> None:
        held = self.held
        for number, (_, first, last) in enumerate(self.forms):
            for place in range(first, last):
                if arrays[place] is not held[place]:
                    self._place(number, arrays)
                    break
        self._compute()

    def _compute(self) -> None:
        on_team(self.members, self._run)

    def _place(self, number: int, arrays: Sequence[Array]) -> None:
        form, first, last = self.forms[number]
        self.held[first:last] = mine = arrays[first:last]
        for part, products in enumerate(self.parts):
            products[number].place(*form.cut.of(mine[:3], part, self.members), *mine[3:])

    def _run(self, part: int) -> None:
        for product in self.parts[part]:
            product.run()


def _ways(forms: Sequence[ProductForm], members: int) -> list[str]:
    ways = [getattr(form.make, "shown", _BY_SHAPES[form.operands]) for form in forms]
    if members > 1:
        ways = [f"{way}, cut by {form.cut.value}" for way, form in zip(ways, forms, strict=True)]
        ways[-1] += f" ({members} threads)"
    return ways


_BY_SHAPES = {3: "oneDNN or NumPy, by their shapes", 4: "oneDNN or BLAS, by their shapes, into the weight"}
