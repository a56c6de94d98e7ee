"""Parameters of distributions as Variables, the shapes of samples, and the arithmetic that they share."""

from __future__ import annotations

import functools
from numbers import Real
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.promotion import common_dtype
from fluidlite.paddle.tensor.creation import full, full_like, to_tensor
from fluidlite.paddle.tensor.logic import equal, logical_and
from fluidlite.paddle.tensor.manipulation import broadcast_tensors
from fluidlite.paddle.tensor.math import cast, log
from fluidlite.paddle.tensor.reduction import sum as total
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import size_of

__all__ = [
    "as_variables",
    "check_shape",
    "drawn_shape",
    "in_dtype_of",
    "laid_over",
    "number",
    "real_parameters",
    "sum_rightmost",
    "times_log",
    "value_beside",
]

_FLOATS = (np.float32, np.float64)


# ---------------------------------------------------------------------- parameters
def as_variables(owner: str, **values: Any) -> list[Variable]:
    """Parameters that are all Variables, or all numbers, lists and arrays, in their common shape; ValueError
    for both kinds together.

    The dtype is that of the first array of floats, float32 without one.
    """
    kinds = (int, float, np.ndarray, Variable, list, tuple)
    for name, value in values.items():
        check_type(value, name, kinds, owner)
    variables = [isinstance(value, Variable) for value in values.values()]
    if all(variables):
        return laid_over(*values.values())
    if any(variables):
        found = ", ".join(f"{name} is a {type(value).__name__}" for name, value in values.items())
        raise ValueError(f"{owner}: if one parameter is a Variable, all of them must be, but {found}")
    arrays = [_array(float(value) if isinstance(value, int) else value) for value in values.values()]
    typed = [value.dtype for value in values.values() if isinstance(value, np.ndarray)]
    dtype = next((found for found in typed if found in _FLOATS), np.dtype(np.float32))
    return [to_tensor(array) for array in np.broadcast_arrays(*(array.astype(dtype) for array in arrays))]


def _array(value: Any) -> np.ndarray[Any, Any]:
    array = np.array(value)
    if array.dtype not in _FLOATS:
        warn_user(
            f"parameters of distributions are float32 or float64: {array.dtype} becomes float32",
            category=UserWarning,
        )
    return array


def real_parameters(owner: str, **values: Any) -> list[Variable]:
    """Parameters that are numbers, in the default dtype, or Variables, in their common shape; TypeError for
    anything else.
    """
    found = []
    for name, value in values.items():
        if not isinstance(value, (Real, Variable)):
            raise TypeError(f"{owner}: {name} must be a number or a Variable, but received {type(value)}")
        found.append(value if isinstance(value, Variable) else full([], value))
    return laid_over(*found)


def laid_over(*tensors: Variable) -> list[Variable]:
    """Tensors in the dtype and the shape that they have in common."""
    kind = functools.reduce(common_dtype, (var.dtype for var in tensors))
    alike = [in_dtype_of(var, kind) for var in tensors]
    shape = tuple(alike[0].shape)
    # two sizes that only a run knows need not be the same
    if -1 not in shape and all(tuple(var.shape) == shape for var in alike):
        return alike
    return broadcast_tensors(alike)


def in_dtype_of(var: Variable, kind: VarType) -> Variable:
    """The variable in a dtype."""
    return var if var.dtype == kind else cast(var, kind)


def value_beside(owner: str, value: Any, parameter: Variable) -> Variable:
    """The value that a density is taken of, in the dtype of a parameter; TypeError unless it is a Variable of
    floats.
    """
    check_variable_and_dtype(value, "value", ["float32", "float64"], owner)
    if value.dtype != parameter.dtype:
        warn_user(
            f"{owner}: the value {value.name!r} is {to_numpy(value.dtype)}, and becomes "
            f"{to_numpy(parameter.dtype)}, as the parameters are",
            category=UserWarning,
        )
    return in_dtype_of(value, parameter.dtype)


# ---------------------------------------------------------------------- shapes of samples
def check_shape(owner: str, shape: Any) -> None:
    """TypeError unless `shape` can be the shape of a sample."""
    check_type(shape, "shape", (np.ndarray, Variable, list, tuple), owner)


def drawn_shape(shape: Any, parameter: Variable) -> list[Any]:
    """The shape of a sample: `shape`, then that of a parameter; Variables stand for sizes that only a run
    knows.
    """
    front = [dim if isinstance(dim, Variable) else int(dim) for dim in shape]
    return front + [size_of(parameter, axis) for axis in range(len(parameter.shape))]


# ---------------------------------------------------------------------- arithmetic
def number(value: float, like: Variable) -> Variable:
    """A number in the dtype of a tensor: operators of a tensor and a number round it to float32, as the
    attribute of the op `scale` that they append.
    """
    return full([], value, like.dtype)


def sum_rightmost(value: Variable, count: int) -> Variable:
    """The sum over so many of the last dimensions."""
    return total(value, list(range(-count, 0))) if count > 0 else value


def times_log(factor: Variable, x: Variable) -> Variable:
    """factor * log(x), which is 0 where both are 0: the limit that entropies and densities take."""
    factor, x = laid_over(factor, x)
    nothing = logical_and(equal(factor, full_like(factor, 0.0)), equal(x, full_like(x, 0.0)))
    return factor * log(where(nothing, full_like(x, 1.0), x))
