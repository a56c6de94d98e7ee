"""Types of layers that are made from a table: they tell editors and type checkers what such a layer takes."""

from __future__ import annotations

from typing import Any, Protocol

from fluidlite.ir.variable import Variable

__all__ = ["Binary", "Logic", "Reduction", "Unary"]


class Unary(Protocol):
    """A layer of one variable."""

    __name__: str
    __qualname__: str

    def __call__(self, x: Variable, name: str | None = None) -> Variable:
        """The output, with the shape of `x`."""


class Binary(Protocol):
    """A layer of two variables."""

    __name__: str
    __qualname__: str

    def __call__(self, x: Variable, y: Variable, name: str | None = None) -> Variable:
        """The output, with the shape that the two have together."""


class Logic(Protocol):
    """A layer of two variables of booleans."""

    __name__: str
    __qualname__: str

    def __call__(
        self, x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
    ) -> Variable:
        """The output, `out` where it is given."""


class Reduction(Protocol):
    """A layer over some dimensions."""

    __name__: str
    __qualname__: str

    def __call__(
        self, x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None
    ) -> Variable:
        """The output: one element for all those that were reduced to it."""
