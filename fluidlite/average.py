"""A running weighted average of fetched values."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.imported_names import imported_names

__all__ = ["WeightedAverage"]


def is_number(value: Any) -> bool:
    """True if `value` is a Python or NumPy number, or an array of shape [1]."""
    return isinstance(value, (int, float, np.number)) or (
        isinstance(value, np.ndarray) and value.shape == (1,)
    )


def is_number_or_matrix(value: Any) -> bool:
    """True if `value` is a number or a NumPy array."""
    return is_number(value) or isinstance(value, np.ndarray)


class WeightedAverage:
    """The sum of value x weight over the sum of weights; values may be arrays."""

    def __init__(self) -> None:
        warnings.warn(
            "The WeightedAverage is deprecated, please use fluid.metrics.Accuracy instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Count `value` (a number or an array) with `weight`; ValueError for anything else."""
        if not is_number_or_matrix(value):
            raise ValueError(f"The 'value' must be a number(int, float) or a numpy ndarray, not {value!r}.")
        if not is_number(weight):
            raise ValueError(f"The 'weight' must be a number(int, float), not {weight!r}.")
        if self.numerator is None:
            self.numerator, self.denominator = value * weight, weight
        else:
            self.numerator, self.denominator = self.numerator + value * weight, self.denominator + weight

    def eval(self) -> Any:
        """The average; ValueError before anything was added."""
        if self.numerator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self.numerator / self.denominator


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
