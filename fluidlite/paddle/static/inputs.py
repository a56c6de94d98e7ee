"""`paddle.static.data` and `InputSpec`: what a program is fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, to_vartype
from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensors.inputs import declare_data
from fluidlite.paddle.defaults import dtype_or_default
from fluidlite.paddle.programs import begin

__all__ = ["InputSpec", "data"]


def data(
    name: str, shape: Sequence[int | None], dtype: DTypeLike | None = None, lod_level: int = 0
) -> Variable:
    """A variable that is fed, of exactly this shape and dtype; None or -1 where any size may be fed."""
    check_type(name, "name", (bytes, str), "data")
    check_type(shape, "shape", (list, tuple), "data")
    begin()
    dims = [-1 if dim is None else int(dim) for dim in shape]
    return declare_data(name, dims, dtype_or_default(dtype), lod_level, need_check_feed=True)


class InputSpec:
    """The name, shape and dtype of something that is fed."""

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: DTypeLike = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        if not isinstance(shape, (list, tuple)):
            raise TypeError(
                f"Type of `shape` in InputSpec should be one of (tuple, list), but received {type(shape)}"
            )
        self.shape = tuple(-1 if dim is None else int(dim) for dim in shape)
        self.dtype = to_vartype(dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Variable, name: str | None = None) -> InputSpec:
        """The facts of a Variable."""
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray[Any, Any], name: str | None = None) -> InputSpec:
        """The facts of an array."""
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: int) -> InputSpec:
        """Put a dimension of `batch_size` in front."""
        self.shape = (int(batch_size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take the first dimension away; ValueError where there is none."""
        if not self.shape:
            raise ValueError("Not support to unbatch a InputSpec when len(shape) == 0.")
        self.shape = self.shape[1:]
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.name, self.stop_gradient

    def __repr__(self) -> str:
        return (
            f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name}, "
            f"stop_gradient={self.stop_gradient})"
        )
