"""Functions along a dimension that a Variable names: one branch for each dimension that it could be.

2.6.2 gives such a Variable to the op as an attribute. Here the program chooses among ops whose attributes are
numbers, so that kernels, plans and gradients know of numbers alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.reduce import reduce_any
from fluidlite.layers.flow.conditional import switch_case
from fluidlite.layers.flow.debug import Assert
from fluidlite.layers.tensors.constants import has_variable
from fluidlite.layers.tensors.variables import assign
from fluidlite.paddle.build import cast
from fluidlite.paddle.tensor.logic import equal, greater_equal, less_than, logical_and
from fluidlite.paddle.tensor.manipulation import reshape, slice
from fluidlite.paddle.tensor.shapes import as_list, constant

__all__ = ["along", "is_chosen"]

LIMIT = 64
"""Most branches that a program gets for one function."""


def is_chosen(axis: Any) -> bool:
    """True if a Variable says a dimension."""
    return isinstance(axis, Variable) or (isinstance(axis, (list, tuple)) and has_variable(axis))


def along(layer: str, x: Variable, axis: Any, function: Callable[[list[int]], Variable]) -> Variable:
    """The result of `function` for the dimensions of x that `axis` names when the program runs: a Variable of
    integers, or a list of numbers and Variables of one element.

    A number that names no dimension, or a dimension that is named twice, ends the run. ValueError where there
    are more than `LIMIT` choices.
    """
    rank = max(len(x.shape), 1)
    numbers = _numbers(layer, axis)
    ranges = [range(rank) if isinstance(one, Variable) else [one] for one in numbers]
    choices = list(itertools.product(*ranges))
    if len(choices) > LIMIT:
        raise ValueError(
            f"{layer}: Variables select one of {len(choices)} lists of dimensions, but at most "
            f"{LIMIT} are supported"
        )
    place: Any = constant([1], "int64", 0)
    for one in numbers:
        if isinstance(one, Variable):
            place = place * rank + _counted(one, rank)
    distinct = [at for at, axes in enumerate(choices) if len({axis % rank for axis in axes}) == len(axes)]
    if len(distinct) < len(choices):
        Assert(_is_one_of(place, distinct), [place])
    branches = [(at, _branch(function, list(choices[at]))) for at in distinct]
    found: Variable = switch_case(cast(place, "int32"), branches)
    return found


def _is_one_of(number: Variable, known: Sequence[int]) -> Variable:
    return reduce_any(equal(number, assign(np.array(known, "int64"))))


def _branch(function: Callable[[list[int]], Variable], axes: list[int]) -> Callable[[], Variable]:
    return lambda: function(axes)


def _numbers(layer: str, axis: Any) -> Sequence[Any]:
    """The single numbers of `axis`, each a number or a Variable."""
    if not isinstance(axis, Variable):
        return as_list(axis)
    count = axis.shape[0] if axis.shape else 1
    if count < 0 or len(axis.shape) > 1:
        raise ValueError(f"{layer}: axis must have one dimension of a size that is declared, but is {axis}")
    return [slice(axis, [0], [at], [at + 1]) for at in range(count)] if axis.shape else [axis]


def _counted(axis: Variable, rank: int) -> Variable:
    """The number of a dimension, counted from the front."""
    number = reshape(cast(axis, "int64"), [1])
    low, high = (constant([1], "int64", limit) for limit in (-rank, rank))
    Assert(logical_and(greater_equal(number, low), less_than(number, high)), [number])
    return (number + rank) % rank
