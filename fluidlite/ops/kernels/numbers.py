"""Numbers that an op takes from tensors instead of an attribute: shapes, axes, limits, repetitions; tensors
as matrices, and elements of their rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import Spec
from fluidlite.values.tensor import host

__all__ = [
    "as_matrix",
    "at_last",
    "check_axes",
    "check_classes",
    "check_from_zero",
    "check_rows",
    "first_ints",
    "first_wrong",
    "given_ints",
    "ints",
    "named_dims",
    "rows_and_columns",
    "rows_before",
    "summed_to",
    "unknown_sizes",
]


def rows_before(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """The sizes of a matrix whose rows go over the dimensions before `axis`."""
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def as_matrix(array: Array, axis: int = 1) -> Array:
    """`array` as a matrix whose rows go over the dimensions before `axis`; -1 could not say how long rows
    are where there are none.
    """
    return array.reshape(rows_before(array.shape, axis))


def contiguous(xp: Any, array: Array) -> Array:
    """`array` in C order, and in its shape: `ascontiguousarray` makes a single number an array of one."""
    ordered: Array = xp.ascontiguousarray(array).reshape(array.shape)
    return ordered


def at_last(xp: Any, array: Array, places: Array) -> Array:
    """Elements of the last dimension by their places in it: `take_along_axis`, which makes an index of every
    dimension where a row's number and a place do (4 of 11 us for a few numbers).
    """
    found: Array
    if xp is np and array.ndim == places.ndim == 2 and len(array) == len(places):
        found = array[np.arange(len(array))[:, None], places]
    else:
        found = xp.take_along_axis(array, places, axis=-1)
    return found


def rows_and_columns(flat: Array, width: int) -> tuple[Array, Array]:
    """Row and column of places in a matrix: `flatnonzero` and this take a third of `nonzero`'s time."""
    rows = flat // width
    return rows, flat - rows * width


def check_axes(type: str, shape: Sequence[int], axes: Sequence[int], rank: int | None = None) -> None:
    """ShapeError where one of `axes` is no dimension of X, or two are the same; `rank` if it is not X's."""
    rank = len(shape) if rank is None else rank
    outside = [axis for axis in axes if not -rank <= axis < rank]
    if outside:
        raise ShapeError(f"op {type!r}: axis {outside[0]} is outside of {rank} dimensions (X{list(shape)})")
    if len({axis % rank for axis in axes}) < len(axes):
        raise ShapeError(f"op {type!r}: {list(axes)} contains a dimension twice (X{list(shape)})")


def named_dims(shape: Sequence[int]) -> int:
    """The number of dimensions that an axis may name: 1 for a single number, whose axes are 0 and -1."""
    return max(len(shape), 1)


def check_alike(type: str, **specs: Spec) -> None:
    """ShapeError unless all slots given have the same shape as the first, as far as sizes are known."""
    (first, wanted), *others = specs.items()
    for slot, spec in others:
        if not fits(spec.shape, wanted.shape):
            raise ShapeError(
                f"op {type!r}: {slot} has the shape {list(spec.shape)}, but {first} has {list(wanted.shape)}"
            )


def check_rows(type: str, **specs: Spec | Array) -> None:
    """ShapeError unless all slots have as many rows as the first, for NumPy would repeat a single one."""
    (first, wanted), *others = specs.items()
    for slot, spec in others:
        if not fits(spec.shape[0], wanted.shape[0]):
            raise ShapeError(
                f"op {type!r}: {slot}{list(spec.shape)} must have as many rows as {first}{list(wanted.shape)}"
            )


def check_classes(xp: Any, op: str, slot: str, labels: Array, count: int) -> None:
    """KernelError where a label is none of the classes from 0 to `count` - 1.

    Labels on a device are not looked at, which would stall the queue.
    """
    if xp is not np or not labels.size or (int(labels.min()) >= 0 and int(labels.max()) < count):
        return
    value, where = first_wrong(labels, (labels < 0) | (labels >= count))
    raise KernelError(f"op {op!r}: {slot} holds {value} ({where}), which is not one of the {count} classes")


def first_wrong(values: Array, wrong: Array) -> tuple[int, str]:
    """The first value that is wrong, and its position as a reader counts it: "row 3", or "index [3, 0]"."""
    index = [int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape)]
    in_row = not any(size > 1 for size in wrong.shape[1:])
    return int(values[tuple(index)]), f"row {index[0]}" if index and in_row else f"index {index}"


def check_lengths(xp: Any, op: str, slot: str, lengths: Array, rows: int, limit: int, least: int = 0) -> None:
    """ShapeError where there are not as many lengths as `rows`, or one is not from `least` to `limit`, the
    number of steps. Those on a device are not looked at, as with classes.
    """
    if lengths.size != rows:
        raise ShapeError(f"op {op!r}: {slot} has {lengths.size} lengths, wanted one for each of {rows} rows")
    if xp is not np or not rows or (int(lengths.min()) >= least and int(lengths.max()) <= limit):
        return
    flat = lengths.reshape(-1)
    row = int(np.flatnonzero((flat < least) | (flat > limit))[0])
    raise ShapeError(
        f"op {op!r}: {slot} of row {row} is {int(flat[row])}, wanted {least} to {limit}, the number of steps"
    )


def ints(value: Any) -> list[int]:
    """The numbers in an integer tensor; ShapeError for one of fractions."""
    found = host(value)
    if found.dtype.kind == "f":
        raise ShapeError(
            f"a tensor of sizes, indices or counts has the dtype {found.dtype}, but must hold integers"
        )
    return [int(item) for item in found.reshape(-1)]


def check_from_zero(**numbers: int) -> None:
    """ShapeError where an attribute, such as a dimension that is not counted from the end, is below 0."""
    for name, number in numbers.items():
        if number < 0:
            raise ShapeError(f"{name} is {number}, wanted 0 or more")


def first_ints(values: Sequence[Any]) -> list[int]:
    """The numbers in a list of one-element tensors; ShapeError where one has more elements, or fractions."""
    for at, value in enumerate(values):
        if math.prod(value.shape) != 1:
            raise ShapeError(
                f"tensor {at} of a list of numbers has the shape {list(value.shape)}, wanted [1]"
            )
    return [number for value in values for number in ints(value)]


def given_ints(tensor: Any, tensors: Sequence[Any], attribute: Sequence[int]) -> list[int]:
    """The numbers in one tensor, else those in a list of one-element tensors, else those of the attribute."""
    if tensor is not None:
        return ints(tensor)
    return first_ints(tensors) or list(attribute)


def unknown_sizes(declared: Sequence[int]) -> tuple[int, ...]:
    """The shape that a tensor of sizes gives, as far as it is known: -1 for each of its elements, of which a
    tensor of the shape `declared` has one at least.
    """
    return (-1,) * max(math.prod(declared), 1)


def summed_to(d: Array, shape: tuple[int, ...]) -> Array:
    """`d` added up over the dimensions along which `shape` was broadcast."""
    lead = d.ndim - len(shape)
    axes = (*range(lead), *(lead + i for i, dim in enumerate(shape) if dim == 1 and d.shape[lead + i] != 1))
    return d.sum(axis=axes, keepdims=True).reshape(shape) if axes else d
