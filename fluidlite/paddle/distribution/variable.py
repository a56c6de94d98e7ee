"""`paddle.distribution.variable`: the variables that a transform takes and gives, discrete or not, how many
dimensions an event of them has, and which values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite import ir
from fluidlite.paddle.distribution import constraint as constraints
from fluidlite.paddle.tensor.manipulation import stack, unstack
from fluidlite.paddle.tensor.reduction import all

__all__ = ["Independent", "Positive", "Real", "Stack", "Variable", "positive", "real"]

Tensor = ir.variable.Variable


class Variable:
    """A variable of `event_rank` dimensions, and the constraint on its values."""

    def __init__(
        self,
        is_discrete: bool = False,
        event_rank: int = 0,
        constraint: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._is_discrete, self._event_rank, self._constraint = is_discrete, event_rank, constraint

    @property
    def is_discrete(self) -> bool:
        """True for whole numbers, classes and their kin."""
        return self._is_discrete

    @property
    def event_rank(self) -> int:
        """The number of dimensions that one event has."""
        return self._event_rank

    def constraint(self, value: Any) -> Any:
        """True for values that the variable may have."""
        if self._constraint is None:
            raise TypeError(f"{type(self).__name__} has no constraint")
        return self._constraint(value)


class Real(Variable):
    """Any numbers."""

    def __init__(self, event_rank: int = 0) -> None:
        super().__init__(False, event_rank, constraints.real)


class Positive(Variable):
    """Numbers that are not negative."""

    def __init__(self, event_rank: int = 0) -> None:
        super().__init__(False, event_rank, constraints.positive)


class Independent(Variable):
    """A variable whose events are several of another one, in so many dimensions more."""

    def __init__(self, base: Variable, reinterpreted_batch_rank: int) -> None:
        self._base, self._rank = base, reinterpreted_batch_rank
        super().__init__(base.is_discrete, base.event_rank + reinterpreted_batch_rank)

    def constraint(self, value: Any) -> Any:
        """True for events of which each part is allowed."""
        found = self._base.constraint(value)
        if len(found.shape) < self._rank:
            raise ValueError(f"an event of {self._rank} dimensions cannot be {list(value.shape)}")
        return all(found, list(range(-self._rank, 0))) if self._rank else found


class Stack(Variable):
    """Several variables along an axis."""

    def __init__(self, vars: Sequence[Variable], axis: int = 0) -> None:
        self._vars, self._axis = vars, axis
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        """True if one of them is."""
        return any(var.is_discrete for var in self._vars)

    @property
    def event_rank(self) -> int:
        """The largest number of dimensions, with that of the stack where it is one of them."""
        rank = max(var.event_rank for var in self._vars)
        return rank + 1 if self._axis + rank < 0 else rank

    def constraint(self, value: Any) -> Any:
        """True for values that the variable at their place may have."""
        rank = len(value.shape)
        if not -rank <= self._axis < rank:
            raise ValueError(f"a stack along axis {self._axis} cannot be {list(value.shape)}")
        parts = zip(self._vars, unstack(value, self._axis), strict=True)
        return stack([var.constraint(part) for var, part in parts], self._axis)


real, positive = Real(), Positive()
