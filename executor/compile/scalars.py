"""Element-wise steps ahead of time: shapes, types, and the numbers of those whose operands are numbers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.plan.sizes import Size, plain
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels import scalar

__all__ = ["broadcast", "number_of", "result_dtype"]


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    if all(shape is shapes[0] for shape in shapes) or len(set(shapes)) == 1:
        return tuple(shapes[0])
    result: list[int] = []
    for places in itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = [size for size in places if size != 1]
        if any(size != wide[0] for size in wide):
            raise ValueError(f"shapes {', '.join(map(str, map(plain, shapes)))} cannot be broadcast together")
        result.insert(0, wide[0] if wide else 1)
    return tuple(result)


def result_dtype(function: str, operands: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of an array function of values and numbers; numbers give way to arrays, as in NumPy."""
    if function in scalar.PREDICATES:
        return np.dtype(bool)
    if function == "where":
        # the condition chooses, and has no say in the dtype
        operands = operands[1:]
    arrays = [item.dtype for item in operands if isinstance(item, Value)]
    numbers = [plain(item) for item in operands if not isinstance(item, Value)]
    found = _common(*arrays, *numbers)
    if function in _FLOATING and found.kind in "iub":
        return np.dtype(np.float64)
    return found


# typed: 1 and 1.0 are equal. Asked of thousands of steps, and of few kinds
@functools.lru_cache(1024, typed=True)
def _common(*operands: Any) -> np.dtype[Any]:
    # Python numbers are weak in NumPy 2: 0.1 beside float32 stays float32
    return np.result_type(*operands)


def _computed(function: str, dtype: Any, *numbers: Any) -> Any:
    return number_of(function, numbers, dtype)


def number_of(function: str, numbers: Sequence[Any], dtype: Any = None) -> Any:
    """An array function of numbers alone, as a number (of `dtype`)."""
    sizes = next((item.sizes for item in numbers if isinstance(item, Size)), None)
    if sizes is not None:
        found = sizes.apply(functools.partial(_computed, function, dtype), *numbers)
        if found is not NotImplemented:
            return found
        numbers = [sizes.fix(item) if isinstance(item, Size) else item for item in numbers]
    signs = [math.copysign(1.0, item) for item in numbers]
    return _number_of(function, dtype, tuple(signs), *numbers)


# typed, and with signs: 1 and 1.0 are equal, and 0.0 and -0.0 are. The updates of all parameters compute the
# same few
@functools.lru_cache(1024, typed=True)
def _number_of(function: str, dtype: Any, signs: tuple[float, ...], *numbers: Any) -> Any:
    if function == "copy":
        # rounded as the array would have rounded it: 0.1 in float32 is another number than in float64
        return np.asarray(numbers[0], dtype).item()
    if function == "where":
        return numbers[1] if numbers[0] else numbers[2]
    if function == "erf":
        return math.erf(numbers[0])
    # 1 / 0 is an infinity in a program, as it is when arrays compute it
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, scalar.FUNCTIONS[function][0])(*numbers), dtype).item()


_FLOATING = frozenset(
    [
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "div",
        "erf",
    ]
)
