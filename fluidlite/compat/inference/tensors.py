"""The tensors that go into a predictor and come out of it: values by themselves, and handles of what a
predictor holds.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FeedError, UninitializedError
from fluidlite.values.tensor import LoDTensor, as_lod

__all__ = [
    "TensorHandle",
    "PaddleBuf",
    "PaddleDType",
    "PaddlePlace",
    "PaddleTensor",
    "ZeroCopyTensor",
    "dtype_of",
    "paddle_dtype_size",
]


class PaddleDType(enum.IntEnum):
    """Element types of a predictor's tensors."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2

    __str__ = enum.Enum.__str__


class PaddlePlace(enum.IntEnum):
    """Kinds of devices."""

    UNK = -1
    CPU = 0
    GPU = 1

    __str__ = enum.Enum.__str__


def paddle_dtype_size(dtype: PaddleDType) -> int:
    """Bytes of an element."""
    return 8 if dtype == PaddleDType.INT64 else 4


def dtype_of(array: Array) -> PaddleDType:
    """The element type of an array; FeedError for one that predictors do not take."""
    name = array.dtype.name.upper()
    if name not in PaddleDType.__members__:
        raise FeedError(f"a predictor's tensors are of float32, int64 or int32, not of {array.dtype}")
    return PaddleDType[name]


def _numbers(data: Any) -> Array:
    array = np.asarray(data)
    # a list of Python floats stands for float32, the only floating type that a predictor takes
    return array.astype(np.float32) if isinstance(data, list) and array.dtype.kind == "f" else array


class PaddleBuf:
    """The values of a tensor: an array, a list of numbers, or room for a number of bytes."""

    def __init__(self, data: Any) -> None:
        self.array: Array = np.zeros(data, np.uint8) if isinstance(data, int) else _numbers(data)

    def reset(self, data: Any) -> None:
        """Hold other values."""
        self.array = _numbers(data)

    def resize(self, size: int) -> None:
        """Hold room for `size` bytes."""
        self.array = np.zeros(size, np.uint8)

    def empty(self) -> bool:
        """True if nothing is held."""
        return self.length() == 0

    def length(self) -> int:
        """Bytes held."""
        return int(self.array.nbytes)

    def tolist(self, dtype: str) -> list[Any]:
        """The values, read as `dtype`."""
        found: list[Any] = np.ascontiguousarray(self.array).reshape(-1).view(dtype).tolist()
        return found

    def float_data(self) -> list[float]:
        """The values, read as float32."""
        return self.tolist("float32")

    def int64_data(self) -> list[int]:
        """The values, read as int64."""
        return self.tolist("int64")

    def int32_data(self) -> list[int]:
        """The values, read as int32."""
        return self.tolist("int32")


class PaddleTensor:
    """A named array that goes into a predictor or comes out of it."""

    def __init__(self, data: Any = None, name: str = "", lod: Sequence[Sequence[int]] = ()) -> None:
        self.name = name
        self._array: Array = np.zeros(0, np.float32) if data is None else np.asarray(data)
        self.lod: list[list[int]] = [list(level) for level in lod]

    @property
    def data(self) -> PaddleBuf:
        """The values."""
        return PaddleBuf(self._array)

    @data.setter
    def data(self, value: Any) -> None:
        self._array = value.array if isinstance(value, PaddleBuf) else np.asarray(value)

    @property
    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._array.shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._array = self._array.reshape(shape)

    @property
    def dtype(self) -> PaddleDType:
        """The element type."""
        return dtype_of(self._array)

    @dtype.setter
    def dtype(self, dtype: PaddleDType) -> None:
        # Paddle's buffer is bytes, which only the dtype gives a meaning: the shape need not fit them any more
        wanted = np.dtype(PaddleDType(dtype).name.lower())
        same_size = wanted.itemsize == self._array.itemsize
        self._array = self._array.view(wanted) if same_size else self._array.astype(wanted)

    def as_ndarray(self) -> Array:
        """The array."""
        return self._array


class TensorHandle:
    """An input or output of a predictor that keeps its place between runs."""

    def __init__(self, tensor: LoDTensor, name: str, is_input: bool) -> None:
        self._tensor = tensor
        self._name = name
        self._is_input = is_input

    def copy_from_cpu(self, array: Array) -> None:
        """Set an input; FeedError of an output."""
        self._need_input("copy_from_cpu")
        self._tensor.set(array)

    def copy_to_cpu(self) -> Array:
        """A copy of the value; UninitializedError before there is one."""
        self._form()
        return np.array(self._tensor)

    def reshape(self, shape: Sequence[int]) -> None:
        """Set the shape of an input that is filled afterwards; `copy_from_cpu` brings its own in any case."""
        self._need_input("reshape")
        self._tensor._set_dims(shape)

    def shape(self) -> list[int]:
        """The dimensions; [0] before there are any."""
        return self._tensor.shape()

    def lod(self) -> list[list[int]]:
        """The level of detail as offsets."""
        return self._tensor.lod()

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set the level of detail as offsets; the run checks that they cover the rows, which may come
        later.
        """
        self._need_input("set_lod")
        self._tensor._lod = as_lod(lod)

    def _form(self) -> Any:
        """The array, or one of its shape and dtype."""
        form = self._tensor.form
        if form is None:
            what = "is set by copy_from_cpu(array)" if self._is_input else "has a value after a run"
            raise UninitializedError(f"{self._name!r} holds no value yet: it {what}")
        return form

    def _need_input(self, method: str) -> None:
        if not self._is_input:
            raise FeedError(f"{self._name!r} is an output of the model, and {method} is for inputs")


class ZeroCopyTensor(TensorHandle):
    """1.8.5's handle."""

    def type(self) -> PaddleDType:
        """The element type."""
        return dtype_of(self._form())
