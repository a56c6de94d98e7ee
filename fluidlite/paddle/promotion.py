"""The data type in which operands of several types meet: two tensors, or a tensor and a number of Python.

PaddlePaddle 2.6.2 promotes floats in `+ - *`, and integers beside numbers with fractions; elsewhere its
operators take the left side's type, which cuts fractions off, and its functions fail. Here no type decides by
its place: floats go before integers, integers before booleans, and of one kind the wider one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType, is_float, is_integer, to_numpy, to_vartype
from fluidlite.ir.variable import Variable

__all__ = ["beside_number", "common_dtype", "divisible", "promoted"]

_COMPLEX = (VarType.COMPLEX64, VarType.COMPLEX128)
_DOUBLE = (VarType.FP64, VarType.COMPLEX128)
_FLOATS = (VarType.FP16, VarType.FP32, VarType.FP64)


def common_dtype(x: VarType, y: VarType) -> VarType:
    """The type that holds what x and y hold: x itself where that is not a question of numbers."""
    if x == y:
        return x
    if x in _COMPLEX or y in _COMPLEX:
        return VarType.COMPLEX128 if x in _DOUBLE or y in _DOUBLE else VarType.COMPLEX64
    if is_float(x) and is_float(y):
        if {x, y} == {VarType.FP16, VarType.BF16}:  # neither holds the other
            return VarType.FP32
        return max(x, y, key=lambda dtype: to_numpy(dtype).itemsize if dtype in _FLOATS else 2)
    for decides in (is_float, is_integer):
        if decides(x) != decides(y):
            return x if decides(x) else y
    if is_integer(x) and is_integer(y):
        both = np.promote_types(to_numpy(x), to_numpy(y))
        return to_vartype(both)
    return x


def divisible(dtype: VarType) -> VarType:
    """The type in which values of `dtype` are divided with fractions: float32 for integers."""
    return VarType.FP32 if is_integer(dtype) or dtype == VarType.BOOL else dtype


def beside_number(dtype: VarType, number: Any) -> VarType:
    """The type in which values of `dtype` meet a number of Python: float32 where it has a fraction and they
    are whole, int64 where they are smaller integers, or booleans, than it is.
    """
    if isinstance(number, bool) or not (is_integer(dtype) or dtype == VarType.BOOL):
        return dtype
    if isinstance(number, float):
        return VarType.FP32
    if dtype == VarType.BOOL:
        return VarType.INT64
    limits = np.iinfo(to_numpy(dtype))
    return dtype if limits.min <= number <= limits.max else VarType.INT64


def promoted(
    op_type: str, inputs: Mapping[str, Any], cast: Callable[[Variable, VarType], Variable]
) -> dict[str, Any]:
    """The inputs of an op; those that it takes in one type (`Op.alike`) are cast to the one in common."""
    slots = [slot for slot in registry.get(op_type).alike if inputs.get(slot) is not None]
    listed = {slot: _listed(inputs[slot]) for slot in slots}
    found = [var.dtype for values in listed.values() for var in values if isinstance(var, Variable)]
    if len(set(found)) < 2:
        return dict(inputs)
    common = found[0]
    for dtype in found[1:]:
        common = common_dtype(common, dtype)
    alike = {
        slot: [var if var.dtype == common else cast(var, common) for var in values]
        for slot, values in listed.items()
    }
    return {**inputs, **alike}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
