"""`paddle.distribution.uniform`: numbers between two limits."""

from __future__ import annotations

from typing import Any

from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution.distribution import Distribution
from fluidlite.paddle.distribution.parameters import as_variables, drawn_shape, value_beside
from fluidlite.paddle.tensor import random
from fluidlite.paddle.tensor.logic import less_than, logical_and
from fluidlite.paddle.tensor.math import cast, log

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Numbers between `low` and `high`: numbers, lists and arrays, or Variables."""

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self.name = name or "Uniform"
        self.low, self.high = as_variables("Uniform", low=low, high=high)
        self.dtype = self.low.dtype
        super().__init__(self.low.shape)

    def sample(self, shape: Any, seed: int = 0) -> Variable:  # type: ignore[override]  # as in 2.6.2
        """Draws of the shape `shape`, a list, then that of the parameters; by a seed the same in each run."""
        check_type(shape, "shape", list, "sample")
        check_type(seed, "seed", int, "sample")
        drawn = random.uniform(drawn_shape(shape, self.low), self.dtype, 0.0, 1.0, seed)
        return drawn * (self.high - self.low) + self.low

    def _inside(self, value: Variable) -> Variable:
        """Ones for values between the limits, zeros elsewhere."""
        between = logical_and(less_than(self.low, value), less_than(value, self.high))
        return cast(between, value.dtype)

    def log_prob(self, value: Variable) -> Variable:
        """-log(high - low) between the two, minus infinity elsewhere."""
        value = value_beside("Uniform.log_prob", value, self.low)
        return log(self._inside(value)) - log(self.high - self.low)

    def probs(self, value: Variable) -> Variable:
        """1 / (high - low) between the two, 0 elsewhere."""
        value = value_beside("Uniform.probs", value, self.low)
        return self._inside(value) / (self.high - self.low)

    def entropy(self) -> Variable:
        """log(high - low)."""
        return log(self.high - self.low)
