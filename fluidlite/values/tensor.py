"""Values at run time: LoDTensor, SelectedRows, LoDTensorArray, under Paddle's interface."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from fluidlite.base.dtypes import Array, DTypeLike, VarType, to_numpy, to_vartype
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.forks import child_lock
from fluidlite.base.place import CPUPlace, CUDAPlace, Place, is_array, is_device_array
from fluidlite.base.registry import Lod
from fluidlite.values.sparse_products import add_by_rows

__all__ = [
    "LoDTensor",
    "LoDTensorArray",
    "PackedValues",
    "SelectedRows",
    "as_lod",
    "host",
    "lengths_of",
    "offsets_of",
    "on",
    "rebinds",
]


class _Counter:
    """Counts how often a tensor was given another array (plans that hold the array look here), had its array
    written by `set`, or may have had it written in place otherwise: by a run, by a thread in the background.
    """

    def __init__(self) -> None:
        self.count = 0
        self.sets = 0
        self.writes = 0

    def state(self) -> tuple[int, int, int]:
        """A value that stays the same as long as no persistable variable has changed."""
        return self.count, self.sets, self.writes


rebinds = _Counter()


def host(array: Any) -> Array:
    """A NumPy view of (or, from a device, a NumPy copy of) an array."""
    return array.get() if is_device_array(array) else np.asarray(array)


def on(xp: Any, value: Any) -> Any:
    """An array where the array module `xp` works: itself, or a copy from the host or from the device."""
    if xp is np:
        return host(value) if is_device_array(value) else value
    # CuPy would keep the order of columns, and a kernel takes rows
    return xp.asarray(value, order="C") if isinstance(value, np.ndarray) else value


def as_lod(levels: Iterable[Iterable[int]]) -> Lod:
    """Offsets in hashable form; TypeError where they are not integers."""
    return tuple(tuple(map(operator.index, level)) for level in levels)


def offsets_of(lengths: Iterable[Iterable[int]]) -> Lod:
    """Offsets [0, 2, 5] from lengths [2, 3], level by level."""
    levels = []
    for level in lengths:
        offsets = [0]
        for length in level:
            offsets.append(offsets[-1] + operator.index(length))
        levels.append(tuple(offsets))
    return tuple(levels)


def lengths_of(lod: Lod) -> list[list[int]]:
    """Lengths [2, 3] from offsets [0, 2, 5], level by level."""
    return [[stop - start for start, stop in zip(level, level[1:], strict=False)] for level in lod]


# how a tensor's text calls its element type
_CPP_NAMES = {"float32": "float", "float64": "double", "int32": "int", "bool": "bool"}


class PackedValues(Protocol):
    """The values of an array in a layout that a kernel has chosen."""

    shape: tuple[int, ...]
    dtype: Any

    def unpacked(self) -> Array:
        """The array, made anew."""


_packing = child_lock()  # held while a tensor changes between an array and packed values


class LoDTensor:
    """An array with its level of detail: how its rows fall into sequences (offsets, outermost level first).

    `LoDTensor(lengths)` is how fluid programs call it: an empty tensor with a level of detail from sequence
    lengths.
    """

    _dims: tuple[int, ...] = (0,)  # the shape while there is no array
    _sets = 0  # how often `set` wrote to the array that was there
    _is_held = False
    _is_frozen = False
    _packed: PackedValues | None = None  # in place of the array

    def __init__(self, array: Any = None, lod: Lod = ()) -> None:
        if isinstance(array, (list, tuple)):
            array, lod = None, offsets_of(array)
        self._array = array
        self._lod: Lod = lod

    @property
    def array(self) -> Any:
        """The NumPy or CuPy array itself; None before anything was set."""
        found = self._array
        return self._unpacked() if found is None else found

    @array.setter
    def array(self, value: Any) -> None:
        # plans hold the array itself: the counter tells them to look again
        if self._is_held and (value is not self._array or self._packed is not None):
            rebinds.count += 1
        self._array = value
        self._packed = None

    @property
    def form(self) -> Any:
        """The array, or where its values are packed one without memory, for its shape and dtype."""
        found = self._array
        if found is not None:
            return found
        with _packing:
            packed = self._packed
            return self._array if packed is None else np.broadcast_to(packed.dtype.type(), packed.shape)

    @property
    def packed(self) -> PackedValues | None:
        """The values that are held in place of an array."""
        return self._packed

    def freeze(self) -> None:
        """Promise that its array is written by `set` alone: a kernel that works on the values in a layout of
        its own may `pack` them, so that they are not in memory twice.
        """
        self._is_frozen = True

    def pack(self, values: PackedValues) -> None:
        """Hold values in place of the array, if it is frozen; `array` makes one when somebody asks for it."""
        with _packing:
            if self._is_frozen and self._array is not None:
                self._packed = values
                self._array = None

    def _unpacked(self) -> Any:
        with _packing:
            if self._packed is not None:
                self._array = self._packed.unpacked()
                self._packed = None
                # from now on there are two readers: to pack it again would save nothing
                self._is_frozen = False
                rebinds.count += self._is_held
            return self._array

    def hold(self) -> None:
        """Count its changes from now on: a scope holds it, so that plans may. What is only fed is nobody's
        reason to look at the parameters again.
        """
        self._is_held = True

    def set(self, array: Any, place: Place | None = None, zero_copy: bool = False) -> None:
        """Copy `array` in. An array of the same shape and dtype keeps its storage, so plans bound to it
        stay valid.
        """
        if place is not None and not isinstance(place, Place):
            raise TypeError(f"a tensor is set on a place such as CPUPlace(), not on {place!r}")
        value = _settable(np.asarray(array))
        old = self._array
        fits = old is not None and old.shape == value.shape and old.dtype == value.dtype
        if fits and not isinstance(old, np.ndarray):
            # an array of a device has a `set` that copies from the host
            old.set(value)
        elif fits and old.flags.writeable:
            old[...] = value
        else:
            # a copy in C order: plans reshape it, and the caller may go on writing to the original
            self.array = np.array(value, order="C")
        self._sets += 1
        rebinds.sets += self._is_held

    # ------------------------------------------------------------------ sequences
    def lod(self) -> list[list[int]]:
        """Offsets, level by level."""
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Iterable[Iterable[int]]) -> None:
        """Set the offsets; ValueError where they do not cover the rows."""
        new = as_lod(lod)
        _check_lod(new, None if self.form is None else self.form.shape)
        self._lod = new

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Sequence lengths, level by level."""
        return lengths_of(self._lod)

    def set_recursive_sequence_lengths(self, lengths: Iterable[Iterable[int]]) -> None:
        """Set the level of detail from sequence lengths; ValueError where they do not add up to the rows."""
        self.set_lod(offsets_of(lengths))

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """True if the level of detail fits the array."""
        try:
            _check_lod(self._lod, None if self.form is None else self.form.shape)
        except ValueError:
            return False
        return True

    # ------------------------------------------------------------------ dimensions and storage
    def shape(self) -> list[int]:
        """The dimensions; [0] before any were set."""
        form = self.form
        return list(self._dims if form is None else form.shape)

    _get_dims = shape

    def _set_dims(self, dims: Iterable[int]) -> None:
        self._dims = tuple(int(dim) for dim in dims)
        array = self.array
        fits = array is not None and array.size == math.prod(self._dims)
        self.array = array.reshape(self._dims) if fits else None

    def _mutable_data(self, place: Place, dtype: DTypeLike) -> int:
        """Make an array of the dimensions that were set, unless there is one; the address of its first
        element.
        """
        wanted = to_numpy(dtype)
        if self.array is None or self.array.dtype != wanted:
            self.array = np.zeros(self.shape(), wanted)
        return int(host(self.array).ctypes.data)

    def _alloc_float(self, place: Place) -> None:
        self._mutable_data(place, "float32")

    def _alloc_double(self, place: Place) -> None:
        self._mutable_data(place, "float64")

    def _alloc_int(self, place: Place) -> None:
        self._mutable_data(place, "int32")

    def _clear(self) -> None:
        self._dims = tuple(self.shape())
        self.array = None

    def _share_data_with(self, other: LoDTensor) -> LoDTensor:
        """Hold the same array as `other`, with this tensor's own level of detail."""
        self.array = other._held("place()")
        return self

    def _copy(self, place: Place) -> LoDTensor:
        return LoDTensor(self._held("place()").copy(), self._lod)

    def _held(self, method: str) -> Any:
        array = self.array
        if array is None:
            raise EnforceNotMet(f"Tensor not initialized yet when Tensor::{method} is called.")
        return array

    def _dtype(self) -> VarType:
        return to_vartype(self._held("type()").dtype)

    def _to_dlpack(self) -> Any:
        """The array as a capsule of DLPack, for other libraries; it shows the same memory."""
        array = self.array
        if array is None:
            raise EnforceNotMet("Tensor not initialized yet: there is nothing to show to another library")
        return array.__dlpack__()

    def _place(self) -> Place:
        array = self._held("place()")
        return CPUPlace() if isinstance(array, np.ndarray) else CUDAPlace(int(array.device.id))

    def _is_initialized(self) -> bool:
        return self.form is not None

    def _set_layout(self, layout: str) -> None:
        """Do nothing: arrays here are always in the order of their dimensions."""

    # ------------------------------------------------------------------ elements
    def _get_float_element(self, index: int) -> float:
        return float(self._held("type()").reshape(-1)[index])

    def _set_float_element(self, index: int, value: float) -> None:
        self._held("type()").reshape(-1)[index] = value

    _get_double_element, _set_double_element = _get_float_element, _set_float_element

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        packed = self._packed
        # a copy is asked for, in most cases: the tensor's own array need not be made for it
        if packed is not None and copy is not False:
            return packed.unpacked().astype(packed.dtype if dtype is None else dtype, copy=False)
        array = self.array
        if array is None:
            return np.empty(0, dtype)
        array = host(array)
        # `astype` copies already
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy is not False else array

    def __getitem__(self, index: Any) -> LoDTensor:
        """A copy of a part, without a level of detail; a number keeps its dimension: `t[1]` is `t[1:2]`."""
        array = self._held("place()")
        items = index if isinstance(index, tuple) else (index,)
        return LoDTensor(
            array[tuple(_as_slice(item, array.shape[axis]) for axis, item in enumerate(items))].copy()
        )

    def __len__(self) -> int:
        return self.shape()[0]

    def __str__(self) -> str:
        array = host(self._held("place()"))
        name = _CPP_NAMES.get(array.dtype.name, f"{array.dtype.name}_t")
        lod = "".join("{" + ", ".join(map(str, level)) + "}" for level in self._lod)
        data = " ".join(
            f"{value:g}" if array.dtype.kind == "f" else str(int(value)) for value in array.reshape(-1)
        )
        dims = ", ".join(map(str, array.shape))
        return f"\tlod: {{{lod}}}\n\tdim: {dims}\n\tlayout: NCHW\n\tdtype: {name}\n\tdata: [{data}]\n"

    def __repr__(self) -> str:
        kind = "nothing" if self.form is None else self.form.dtype
        return f"<LoDTensor of {kind}, shape {self.shape()}{f', lod {self.lod()}' if self._lod else ''}>"


def _settable(value: Array) -> Array:
    """`value` as an array that a tensor can hold: all but text, objects and wide unsigned numbers."""
    # in 1.8 a tensor of that type is one of float16
    if value.dtype == np.uint16:
        return value.astype(np.float16)
    try:
        to_vartype(value.dtype)
    except ValueError:
        raise EnforceNotMet(
            "Incompatible data or style type: tensor.set() supports bool, float16, float32, float64, int8, "
            "int16, "
            f"int32, int64 and uint8, uint16, but got {value.dtype}!"
        ) from None
    return value


def _as_slice(item: Any, size: int) -> slice:
    if isinstance(item, slice):
        return item
    try:
        start = operator.index(item)
    except TypeError:
        start = size  # no position at all
    if not -size <= start < size:
        raise IndexError(f"{item!r} is not an index or slice of a dimension of {size}") from None
    # % makes a position of a negative index
    return slice(start % size, start % size + 1)


class LodError(EnforceNotMet, ValueError):
    """A level of detail does not fit the rows."""


def _check_lod(lod: Lod, shape: Sequence[int] | None) -> None:
    rows: int | None = None
    for level in lod:
        falls = any(b < a for a, b in zip(level, level[1:], strict=False))
        if len(level) < 2 or level[0] != 0 or falls:
            raise LodError(
                f"the provided lod info is invalid: {list(level)} is not a list of ascending "
                "offsets that starts at 0"
            )
        if rows is not None and len(level) - 1 != rows:
            raise LodError(
                f"the provided lod info is invalid: the outer level ends at {rows}, the next has "
                f"{len(level) - 1} sequences"
            )
        rows = level[-1]
    if rows is not None and shape is not None and shape and shape[0] != rows:
        raise LodError(f"the provided lod info is invalid: it covers {rows} rows, the tensor has {shape[0]}")


class SelectedRows:
    """Some rows of a tall matrix of `height` rows: row `rows[i]` is `value[i]`; a row may occur more than
    once.
    """

    def __init__(self, rows: Any = (), height: int = 0, value: Any = None) -> None:
        # arrays stay as they are: those of a device must not come to the host
        self._rows = rows if is_array(rows) else np.asarray(rows, dtype=np.int64)
        self._height = int(height)
        self._value = LoDTensor(value)
        self._value.hold()

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

    def take(self, other: SelectedRows) -> None:
        """Hold what `other` holds: the same arrays, not copies."""
        self._rows, self._height = other._rows, other._height
        self._value.array = other._value.array

    def numel(self) -> int:
        """The number of values held."""
        return math.prod(self._value.shape())

    def sync_index(self) -> None:
        """Paddle keeps an index beside the rows; here the rows are the index."""
        rebinds.count += 1

    def dense(self, xp: Any) -> Any:
        """The dense matrix: rows that occur more than once are summed, the others are zero."""
        out = xp.zeros(self.shape, self._value.array.dtype)
        ids, rows = merge_rows(xp, on(xp, self._rows), on(xp, self._value.array))
        out[ids] = rows
        return out


def merge_rows(xp: Any, ids: Any, values: Any) -> tuple[Any, Any]:
    """Distinct ids in ascending order, and for each the sum of its rows."""
    if len(ids) == 0:
        return ids, values
    if xp is np:
        ordered, order = _sorted(ids)
    else:
        order = xp.argsort(ids)
        ordered = ids[order]
    # the runs of equal ids: each begins where an id differs from the one before
    first = xp.concatenate((xp.ones(1, dtype=bool), ordered[1:] != ordered[:-1]))
    starts = xp.flatnonzero(first)
    if xp is np:
        return ordered[starts], _sums_of_runs(values, order, starts)
    # CuPy has no reduceat
    group = xp.cumsum(first) - 1
    out = xp.zeros((len(starts), *values.shape[1:]), values.dtype)
    xp.add.at(out, group, values[order])
    return ordered[starts], out


def sorted_runs(ids: Array) -> tuple[Array, Array, Array]:
    """Distinct ids on the host in ascending order, where the run of each begins and the last one ends, and
    the positions of the ids in the order of the runs.
    """
    ordered, order = _sorted(ids)
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), ordered[1:] != ordered[:-1])))
    return ordered[starts], np.append(starts, len(order)), order


def _sums_of_runs(values: Array, order: Array, starts: Array) -> Array:
    """The sums of the rows values[order] from each of `starts` to the next."""
    if values.dtype.char not in "fd":
        return np.add.reduceat(values[order], starts, axis=0, dtype=values.dtype)
    # 2,048 rows of 128 numbers: 0.2 ms, and by reduceat of a copy in that order 1.9
    out = np.zeros((len(starts), *values.shape[1:]), values.dtype)
    ends = np.append(starts, len(order))
    ones = np.ones(len(order), values.dtype)
    add_by_rows(out, ends, order.astype(np.int64, copy=False), ones, np.ascontiguousarray(values))
    return out


def positions(xp: Any, rows: Any, ids: Any) -> tuple[Any, Any]:
    """The place of each of `ids` among the row numbers `rows`, and True for those that are there at all."""
    if len(rows) == 0:
        return xp.zeros(ids.shape, "int64"), xp.zeros(ids.shape, bool)
    order = xp.argsort(rows)
    at = order[xp.searchsorted(rows[order], ids).clip(0, len(rows) - 1)]
    return at, rows[at] == ids


def _sorted(ids: Array) -> tuple[Array, Array]:
    """Ids in ascending order with their positions: sorting both in one number is several times faster than
    argsort.
    """
    count = len(ids)
    if ids.dtype != np.int64 or count >= 1 << 20 or int(ids.min()) < 0 or int(ids.max()) >= 1 << 42:
        order = np.argsort(ids, kind="stable")
        return ids[order], order
    # the position in the low 20 bits, the id above it: what the limits above leave room for in 63 bits
    keys = ids << 20
    keys |= np.arange(count)
    keys.sort()
    return keys >> 20, keys & 0xFFFFF


class LoDTensorArray(list[Any]):
    """A list of LoDTensors."""

    def append(self, tensor: LoDTensor) -> None:
        """Add a tensor that shares its array with the one given, but has a level of detail of its own."""
        if not isinstance(tensor, LoDTensor):
            raise TypeError(f"a LoDTensorArray can only hold LoDTensors, not {type(tensor).__name__}")
        # a later change of the tensor's level of detail does not reach the entry
        super().append(LoDTensor(tensor.array, tensor._lod))

    def _move_to_list(self) -> list[Any]:
        """The tensors in a list; the array is empty afterwards."""
        found = list(self)
        self.clear()
        return found
