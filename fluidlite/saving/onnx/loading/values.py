"""Values of an ONNX graph, as far as they are known before the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.records import dataclass
from fluidlite.ir.variable import Variable

__all__ = ["MOST_PARTS", "RunSize", "OnnxValue", "constant_of"]

MOST_PARTS = 1024
"""The most elements that are looked at one by one: shapes, axes and what they are made from."""


@dataclass(frozen=True)
class RunSize:
    """An element that is a size of a variable, which the run alone knows."""

    variable: str
    axis: int


@dataclass(eq=False)
class OnnxValue:
    """A variable of the program, or an array that becomes one when an op reads it.

    `parts` is an array of objects, the elements one by one: numbers, a `RunSize`, or None where nothing is
    known; absent for values that are large or nothing but computed. `replaced` is the index of an entry that
    an array of tensors is about to get anew.
    """

    variable: Variable | None = None
    array: Array | None = None
    parts: Array | None = None
    replaced: OnnxValue | None = None

    @classmethod
    def constant(cls, array: Array) -> OnnxValue:
        """A value that is known."""
        parts = np.asarray(array).astype(object) if array.size <= MOST_PARTS else None
        return cls(array=array, parts=parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, -1 for those that are not known."""
        if self.array is not None:
            return self.array.shape
        assert self.variable is not None
        return tuple(self.variable.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type."""
        if self.array is not None:
            return self.array.dtype
        assert self.variable is not None
        made = to_numpy(self.variable.dtype)
        return np.dtype(made)


def constant_of(parts: Array, dtype: Any) -> Array | None:
    """The array of parts that are all known, None where one is not, or is beyond the data type."""
    if any(part is None or isinstance(part, RunSize) for part in parts.reshape(-1)):
        return None
    try:
        return parts.astype(dtype)
    except OverflowError:
        return None
