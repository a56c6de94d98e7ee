"""Values of weights in a few numbers, which a page has room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["value_facts"]

_BINS = 24


def value_facts(values: Array) -> dict[str, Any]:
    """The range, mean and spread of an array, how many of its numbers are 0 or not finite, and how many lie
    in each of equal parts of the range.
    """
    numbers = np.ravel(values)
    if not np.iscomplexobj(numbers):
        numbers = numbers.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    facts: dict[str, Any] = {
        "count": int(numbers.size),
        "zeros": int(np.count_nonzero(numbers == 0)),
        "bad": int(numbers.size - finite.size),
    }
    # complex numbers have no order
    if not finite.size or np.iscomplexobj(finite):
        return facts
    # a range of numbers near the largest ones is no number
    with np.errstate(over="ignore"):
        spread = float(finite.std())
    low, high = float(finite.min()), float(finite.max())
    facts.update(low=low, high=high, mean=float(finite.mean()), std=spread if np.isfinite(spread) else None)
    if np.isfinite(high - low):
        facts["bins"] = np.histogram(finite, _BINS, (low, high))[0].tolist()
    return facts
