"""Values at run time: LoDTensor, SelectedRows, LoDTensorArray, under Paddle's interface."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.dtypes import Array, VarType, to_vartype
from fluidlite.errors import EnforceNotMet
from fluidlite.registry import Lod

__all__ = ["LoDTensor", "LoDTensorArray", "SelectedRows", "as_lod", "host", "lengths_of", "offsets_of", "on", "rebinds"]


class _Counter:
    """Counts how often a tensor was given another array: plans that hold the array look here."""

    def __init__(self) -> None:
        self.count = 0


rebinds = _Counter()


def host(array: Any) -> Array:
    """A NumPy view of (or, from a device, a NumPy copy of) an array."""
    return array.get() if hasattr(array, "get") and not isinstance(array, np.ndarray) else np.asarray(array)


def on(xp: Any, value: Any) -> Any:
    """An array where the array module `xp` works: itself, or a copy from the host or from the device."""
    if xp is np:
        return host(value) if hasattr(value, "__cuda_array_interface__") else value
    return xp.asarray(value) if isinstance(value, np.ndarray) else value


def as_lod(levels: Iterable[Iterable[int]]) -> Lod:
    """Offsets in hashable form."""
    return tuple(tuple(int(offset) for offset in level) for level in levels)


def offsets_of(lengths: Iterable[Iterable[int]]) -> Lod:
    """Offsets [0, 2, 5] from lengths [2, 3], level by level."""
    levels = []
    for level in lengths:
        offsets = [0]
        for length in level:
            offsets.append(offsets[-1] + int(length))
        levels.append(tuple(offsets))
    return tuple(levels)


def lengths_of(lod: Lod) -> list[list[int]]:
    """Lengths [2, 3] from offsets [0, 2, 5], level by level."""
    return [[stop - start for start, stop in zip(level, level[1:], strict=False)] for level in lod]


class LoDTensor:
    """An array with its level of detail: how its rows fall into sequences (offsets, outermost level first)."""

    def __init__(self, array: Any = None, lod: Lod = ()) -> None:
        self._array = array
        self._lod: Lod = lod

    @property
    def array(self) -> Any:
        """The NumPy or CuPy array itself; None before anything was set."""
        return self._array

    @array.setter
    def array(self, value: Any) -> None:
        if value is not self._array:
            rebinds.count += 1
        self._array = value

    def set(self, array: Any, place: Any = None) -> None:
        """Copy `array` in. An array of the same shape and dtype keeps its storage, so plans bound to it stay valid."""
        value = np.asarray(array)
        old = self._array
        if isinstance(old, np.ndarray) and old.shape == value.shape and old.dtype == value.dtype and old.flags.writeable:
            old[...] = value
        elif old is not None and not isinstance(old, np.ndarray) and old.shape == value.shape and old.dtype == value.dtype:
            old.set(value)
        else:
            self.array = np.array(value, order="C")

    def lod(self) -> list[list[int]]:
        """Offsets, level by level."""
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Iterable[Iterable[int]]) -> None:
        """Set the offsets; ValueError where they do not cover the rows."""
        new = as_lod(lod)
        _check_lod(new, None if self._array is None else self._array.shape)
        self._lod = new

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Sequence lengths, level by level."""
        return lengths_of(self._lod)

    def set_recursive_sequence_lengths(self, lengths: Iterable[Iterable[int]]) -> None:
        """Set the level of detail from sequence lengths; ValueError where they do not add up to the rows."""
        self.set_lod(offsets_of(lengths))

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the level of detail fits the array."""
        try:
            _check_lod(self._lod, None if self._array is None else self._array.shape)
        except ValueError:
            return False
        return True

    def shape(self) -> list[int]:
        """The dimensions."""
        return [] if self._array is None else list(self._array.shape)

    _get_dims = shape

    def _dtype(self) -> VarType:
        return VarType.FP32 if self._array is None else to_vartype(self._array.dtype)

    def _is_initialized(self) -> bool:
        return self._array is not None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._array is None:
            raise ValueError("this LoDTensor holds no data yet")
        array = host(self._array)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy is not False else array

    def __getitem__(self, index: Any) -> Any:
        return self.__array__(copy=False)[index]

    def __len__(self) -> int:
        return self.shape()[0]

    def __repr__(self) -> str:
        lod = f"  - lod: {self.lod()}\n" if self._lod else ""
        return f"{lod}  - shape: {self.shape()}\n  - dtype: {self._dtype()}\n  - data: {None if self._array is None else host(self._array)}"


class LodError(EnforceNotMet, ValueError):
    """A level of detail does not fit the rows."""


def _check_lod(lod: Lod, shape: Sequence[int] | None) -> None:
    rows: int | None = None
    for level in lod:
        if len(level) < 2 or level[0] != 0 or any(b < a for a, b in zip(level, level[1:], strict=False)):
            raise LodError(f"the provided lod info is invalid: {list(level)} is no list of growing offsets from 0")
        if rows is not None and len(level) - 1 != rows:
            raise LodError(f"the provided lod info is invalid: the outer level ends at {rows}, the next has {len(level) - 1} sequences")
        rows = level[-1]
    if rows is not None and shape is not None and shape and shape[0] != rows:
        raise LodError(f"the provided lod info is invalid: it covers {rows} rows, the tensor has {shape[0]}")


class SelectedRows:
    """Some rows of a tall matrix of `height` rows: row `rows[i]` is `value[i]`; a row may occur more than once."""

    def __init__(self, rows: Any = (), height: int = 0, value: Any = None) -> None:
        self._rows = np.asarray(rows, dtype=np.int64) if not hasattr(rows, "dtype") else rows
        self._height = int(height)
        self._value = LoDTensor(value)

    @property
    def ids(self) -> Any:
        """The row numbers, an int64 array."""
        return self._rows

    @property
    def array(self) -> Any:
        """The values, one row for each of `ids`."""
        return self._value.array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense matrix that this stands for."""
        return (self._height, *self._value.array.shape[1:])

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the values."""
        return self._value.array.dtype

    def rows(self) -> list[int]:
        """The row numbers as a list."""
        return [int(row) for row in host(self._rows)]

    def set_rows(self, rows: Any) -> None:
        """Replace the row numbers."""
        self._rows = np.asarray(rows, dtype=np.int64)

    def height(self) -> int:
        """The number of rows of the dense matrix."""
        return self._height

    def set_height(self, height: int) -> None:
        """Set the number of rows of the dense matrix."""
        self._height = int(height)

    def get_tensor(self) -> LoDTensor:
        """The values."""
        return self._value

    def sync_index(self) -> None:
        """Paddle keeps an index beside the rows; here the rows are the index."""
        rebinds.count += 1

    def dense(self, xp: Any) -> Any:
        """The dense matrix: rows that occur more than once are summed, the others are zero."""
        out = xp.zeros(self.shape, self._value.array.dtype)
        ids, rows = merge_rows(xp, self._rows, self._value.array)
        out[ids] = rows
        return out


def merge_rows(xp: Any, ids: Any, values: Any) -> tuple[Any, Any]:
    """Distinct ids in ascending order, and for each the sum of its rows."""
    if len(ids) == 0:
        return ids, values
    ordered, order = _sorted(ids) if xp is np else (ids[xp.argsort(ids)], xp.argsort(ids))
    first = xp.concatenate((xp.ones(1, dtype=bool), ordered[1:] != ordered[:-1]))
    starts = xp.flatnonzero(first)
    if xp is np:
        return ordered[starts], np.add.reduceat(values[order], starts, axis=0)
    group = xp.cumsum(first) - 1
    out = xp.zeros((len(starts), *values.shape[1:]), values.dtype)
    xp.add.at(out, group, values[order])
    return ordered[starts], out


def _sorted(ids: Array) -> tuple[Array, Array]:
    """Ids in ascending order with their positions: sorting both in one number is several times faster than argsort."""
    count = len(ids)
    if ids.dtype != np.int64 or count >= 1 << 20 or int(ids.min()) < 0 or int(ids.max()) >= 1 << 42:
        order = np.argsort(ids, kind="stable")
        return ids[order], order
    keys = ids << 20
    keys |= np.arange(count)
    keys.sort()
    return keys >> 20, keys & 0xFFFFF


class LoDTensorArray(list[Any]):
    """A list of LoDTensors."""
