"""Values of scopes and batches: shares of trainers, copies, and how far two values are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import TranspilerError
from fluidlite.base.place import CPUPlace
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["Values", "get", "max_relative_difference", "put", "share"]

Values = dict[str, Any]


def share(feed: Mapping[str, Any], index: int, count: int) -> Values:
    """The samples of a batch that trainer `index` of `count` gets: rows, or sequences where there is a level
    of detail.

    TranspilerError where the trainers cannot share them evenly.
    """
    mine: Values = {}
    for name, value in feed.items():
        if isinstance(value, LoDTensor) and value.lod():
            mine[name] = _share_sequences(name, value, index, count)
        else:
            mine[name] = _share_rows(name, np.asarray(value), index, count)
    return mine


def _share_rows(name: str, value: Any, index: int, count: int) -> Any:
    if not value.ndim:
        return value
    rows = len(value)
    _check_even(name, rows, count, "rows")
    return value[index * rows // count : (index + 1) * rows // count]


def _share_sequences(name: str, value: LoDTensor, index: int, count: int) -> LoDTensor:
    lengths = value.recursive_sequence_lengths()
    _check_even(name, len(lengths[0]), count, "sequences")
    first = index * len(lengths[0]) // count
    last = (index + 1) * len(lengths[0]) // count
    mine: list[list[int]] = []
    for level in lengths:
        mine.append(list(level[first:last]))
        # the level below has as many entries as this one's lengths add up to
        first = sum(level[:first])
        last = sum(level[:last])
    part = LoDTensor(np.array(value)[first:last])
    part.set_recursive_sequence_lengths(mine)
    return part


def _check_even(name: str, found: int, count: int, what: str) -> None:
    if found % count:
        raise TranspilerError(
            f"the {found} {what} of {name!r} cannot be divided evenly among {count} trainers: the "
            "mean of their gradients would not be that of the whole batch"
        )


def get(scope: Scope, name: str) -> Any:
    """A copy of a variable's array; None where it has none."""
    held = scope.find_var(name)
    if held is None or not isinstance(held.value, LoDTensor) or held.value.array is None:
        return None
    return np.array(held.value)


def put(scope: Scope, values: Mapping[str, Any]) -> None:
    """Write values to the variables that the scope has."""
    for name, value in values.items():
        held = scope.find_var(name)
        if held is not None and value is not None:
            held.get_tensor().set(value, CPUPlace())


def max_relative_difference(found: Any, wanted: Any) -> float:
    """The largest difference over the largest value; of a parameter of zeros, the largest difference. Not
    a number is infinitely far.
    """
    if found is None or found.shape != wanted.shape:
        return float("inf")
    with np.errstate(all="ignore"):  # a job that diverges is told by the answer, not by NumPy's warnings
        largest = float(np.abs(wanted).max(initial=0.0))
        value = float(np.abs(found - wanted).max(initial=0.0)) / (largest or 1.0)
    return value if np.isfinite(value) else float("inf")
