"""`paddle.distribution.constraint`: which values a variable of a distribution may have."""

from __future__ import annotations

from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.ir.variable import Variable
from fluidlite.paddle.tensor.logic import logical_and
from fluidlite.paddle.tensor.math import abs
from fluidlite.paddle.tensor.reduction import all
from fluidlite.paddle.tensor.reduction import sum as total

__all__ = ["Constraint", "Positive", "Range", "Real", "Simplex", "positive", "real", "simplex"]


class Constraint:
    """Base of the constraints: called with a tensor, it says of each value if it holds."""

    def __call__(self, value: Variable) -> Variable:
        abstract(f"{type(self).__name__} cannot be called")


class Real(Constraint):
    """Any number, so not NaN."""

    def __call__(self, value: Variable) -> Variable:
        found: Any = value == value
        return _truth(found)


class Range(Constraint):
    """Numbers from a lower to an upper limit."""

    def __init__(self, lower: Any, upper: Any) -> None:
        self._lower, self._upper = lower, upper

    def __call__(self, value: Variable) -> Variable:
        return logical_and(value >= self._lower, value <= self._upper)


class Positive(Constraint):
    """Numbers that are not negative."""

    def __call__(self, value: Variable) -> Variable:
        return value >= 0.0


class Simplex(Constraint):
    """Shares that add up to 1 along the last dimension."""

    def __call__(self, value: Variable) -> Variable:
        return logical_and(all(value >= 0.0, -1), abs(total(value, -1) - 1.0) < 1e-6)


def _truth(value: Any) -> Variable:
    found: Variable = value  # `==` is typed as Python's
    return found


real, positive, simplex = Real(), Positive(), Simplex()
