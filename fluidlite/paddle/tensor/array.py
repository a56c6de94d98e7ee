"""`paddle.tensor.array`: arrays of tensors, which loops write and read entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.layers.flow import array as arrays
from fluidlite.layers.flow.array import array_length, array_read
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.shapes import constant

__all__ = ["array_length", "array_read", "array_write", "create_array"]


def create_array(dtype: Any, initialized_list: Sequence[Variable] | None = None) -> Variable:
    """An array of tensors of `dtype`: empty, or with the tensors of `initialized_list`."""
    begin()
    given = list(initialized_list or ())
    if not all(isinstance(one, Variable) for one in given):
        raise TypeError("All values in `initialized_list` should be Variables")
    array = arrays.create_array(dtype)
    for place, one in enumerate(given):
        arrays.array_write(one, constant([1], "int64", place), array)
    return array


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Write x to position i (int64, one element) of `array`, or of a new array; gives the array."""
    begin()
    return arrays.array_write(x, i, array)
