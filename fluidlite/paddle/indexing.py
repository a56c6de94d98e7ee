"""`x[...]` of 2.x's Variables: slices, strides, new dimensions, and tensors of places or booleans."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.records import dataclass
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensors.constants import has_variable, static_dims
from fluidlite.paddle.build import append
from fluidlite.paddle.tensor.arranging import index_put
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.manipulation import (
    broadcast_tensors,
    gather_nd,
    reshape,
    stack,
    transpose,
    unbind,
    unsqueeze,
)
from fluidlite.paddle.tensor.math import cast
from fluidlite.paddle.tensor.search import nonzero
from fluidlite.paddle.tensor.shapes import number_tensors

__all__ = ["item_of", "setitem"]

END = 2**31 - 1  # 2.6.2's "to the end" of a slice
EXACT = 2**24  # the integers up to here are numbers of float32, as attributes are in files


@dataclass
class _Cut:
    """The basic part of an index: slices by dimension, dimensions that go away, and those that come in."""

    axes: list[int] = field(default_factory=list)
    starts: list[Any] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    places: dict[int, Any] = field(default_factory=dict)
    """Dimension of what the slices leave -> tensor of places or truth values."""

    def add(self, axis: int, start: Any, end: Any, step: Any = 1) -> None:
        """Take [start, end) of a dimension."""
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)


def item_of(var: Variable, item: Any) -> Variable:
    """var[item]."""
    cut = _read(var, _without_ellipsis(var, _parts(item)))
    out = _region(var, cut)
    return _picked(out, cut.places) if cut.places else out


def setitem(x: Variable, index: Any, value: Any) -> Variable:
    """A copy of `x` in which x[index] is `value`: a number, an array or a Variable that broadcasts to there.

    index: numbers, slices, `...`, None, and lists, arrays or Variables of places or of booleans.
    """
    cut = _read(x, _without_ellipsis(x, _parts(index)))
    if cut.places:
        given = _as_value(x, value)
        value = _with_places(_region(x, cut), cut.places, given)
    inputs: dict[str, Any] = {"Input": [x]}
    attrs: dict[str, Any] = {"axes": cut.axes, "decrease_axes": cut.gone, "none_axes": cut.new}
    for slot, key, limits in (
        ("StartsTensorList", "starts", cut.starts),
        ("EndsTensorList", "ends", cut.ends),
        ("StepsTensorList", "steps", cut.steps),
    ):
        attrs[key] = [] if has_variable(limits) else static_dims(limits)
        if has_variable(limits):
            inputs[slot] = number_tensors(limits, dtype="int64")
    _add_value(x, value, inputs, attrs)
    return append("set_value", inputs, attrs, dtype=x.dtype)


def _as_value(x: Variable, value: Any) -> Variable:
    """The new elements as a Variable of x's dtype."""
    if not isinstance(value, Variable):
        given = _array_of(value)
        return assign(value if given.ndim == 0 else given).astype(x.dtype)
    return value if value.dtype == x.dtype else value.astype(x.dtype)


def _array_of(value: Any) -> Any:
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        raise TypeError(
            "Only support to assign an integer, float, numpy.ndarray or paddle.Tensor to a paddle.Tensor, "
            f"but received {type(value)}"
        )
    return np.asarray(value)


def _add_value(x: Variable, value: Any, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Give `value` to an op set_value, as attributes or as a tensor."""
    attrs |= {"dtype": int(x.dtype), "shape": [], "values": []}
    if isinstance(value, Variable):
        inputs["ValueTensor"] = [value if value.dtype == x.dtype else cast(value, x.dtype)]
        return
    array = _array_of(value)
    attrs["shape"] = list(array.shape) or [1]
    attrs["values"] = [float(item) for item in array.reshape(-1)]
    if array.dtype.kind in "iu" and np.abs(array).max(initial=0) > EXACT:
        inputs["ValueTensor"] = [assign(array.astype(to_numpy(x.dtype)))]
        attrs |= {"shape": [], "values": []}


# ---------------------------------------------------------------------- reading the index
def _parts(item: Any) -> list[Any]:
    """The parts of an index, in which places are a list, an array or a Variable."""
    parts = item if isinstance(item, tuple) else (item,)
    return [_part(part) for part in parts]


def _part(item: Any) -> Any:
    if isinstance(item, (tuple, range)):
        return list(item)
    if isinstance(item, np.ndarray) and item.ndim == 0:
        return item.item()
    return item


def _is_places(item: Any) -> bool:
    """True for what names elements one by one: a list, an array, or a Variable of some dimensions."""
    if isinstance(item, Variable):
        return item.dtype == VarType.BOOL or len(item.shape) > 0
    return isinstance(item, (list, np.ndarray, bool, np.bool_))


def _dims_taken(item: Any) -> int:
    """The number of dimensions that one part of an index speaks of."""
    if item is None or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Variable) and item.dtype == VarType.BOOL:
        return len(item.shape)
    if isinstance(item, (list, np.ndarray)) and not has_variable(item):
        array = np.asarray(item)
        return array.ndim if array.dtype == bool else 1
    return 1


def _without_ellipsis(var: Variable, items: list[Any]) -> list[Any]:
    """The index with whole dimensions in the place of `...`."""
    at = [index for index, item in enumerate(items) if item is Ellipsis]
    if len(at) > 1:
        raise IndexError("An index can only have a single ellipsis ('...')")
    rest = len(var.shape) - sum(_dims_taken(item) for item in items if item is not Ellipsis)
    if rest < 0:
        raise IndexError(
            f"Too many indices ({len(items)}) for variable {var.name!r} of {len(var.shape)} dimensions"
        )
    if not at:
        return list(items)
    return [*items[: at[0]], *[slice(None)] * rest, *items[at[0] + 1 :]]


def _read(var: Variable, items: list[Any]) -> _Cut:
    cut = _Cut()
    axis = left = 0  # dimensions of var that are read, and of what is left of it
    for item in items:
        if item is None:
            cut.new.append(left)
            left += 1
        elif _is_places(item):
            if isinstance(item, (bool, np.bool_)):
                cut.new.append(left)
            cut.places[left] = _tensor(var, axis, item)
            taken = 1 if isinstance(item, (bool, np.bool_)) else _dims_taken(item)
            axis += _dims_taken(item)
            left += taken
        elif isinstance(item, slice):
            _read_slice(cut, axis, item)
            axis, left = axis + 1, left + 1
        else:
            _read_number(var, cut, axis, item)
            axis += 1
    return cut


def _tensor(var: Variable, axis: int, item: Any) -> Variable:
    """Places along a dimension of `var`, or booleans, as a Variable."""
    if isinstance(item, Variable):
        return item
    if isinstance(item, list) and has_variable(item):
        return stack([reshape(one, []) for one in number_tensors(item, dtype="int64")])
    array = np.atleast_1d(np.asarray(item))
    if array.size == 0:
        array = array.astype("int64")
    if array.dtype.kind == "i" and var.shape[axis] >= 0:
        _check_places(var, axis, array)
        array = array % max(var.shape[axis], 1)
    return assign(array)


def _check_places(var: Variable, axis: int, places: np.ndarray[Any, Any]) -> None:
    """IndexError for a place that a dimension of known size does not have."""
    size = var.shape[axis]
    wrong = places[(places < -size) | (places >= size)]
    if wrong.size:
        raise IndexError(
            f"index {wrong.flat[0]} of dimension {axis} is out of range for variable {var.name!r} with shape "
            f"{list(var.shape)}"
        )


def _read_slice(cut: _Cut, axis: int, item: slice) -> None:
    step = 1 if item.step is None else item.step
    if item.start is None and item.stop is None and not isinstance(step, Variable) and step == 1:
        return
    backwards = not isinstance(step, Variable) and step < 0
    first, last = (END, -1) if backwards else (0, END)
    start = first if item.start is None else item.start
    stop = last if item.stop is None else item.stop
    if backwards and item.stop is not None and not isinstance(stop, Variable) and stop == -1:
        stop = END  # the last place, from which nothing lies behind; -1 is the place before the first
    cut.add(axis, start, stop, step)


def _read_number(var: Variable, cut: _Cut, axis: int, item: Any) -> None:
    """One place of a dimension, which goes away."""
    cut.gone.append(axis)
    if not isinstance(item, Variable):
        number = int(item)
        if var.shape[axis] >= 0 and not -var.shape[axis] <= number < var.shape[axis]:
            raise IndexError(
                f"index {number} of dimension {axis} is out of range for variable {var.name!r} with shape "
                f"{list(var.shape)}"
            )
        cut.add(axis, number, number + 1 if number != -1 else END)
        return
    cut.add(axis, item, item + 1)


# ---------------------------------------------------------------------- carrying it out
def _region(var: Variable, cut: _Cut) -> Variable:
    """The part of `var` that slices and numbers of an index leave, with new dimensions."""
    out = _sliced(var, cut) if cut.axes else var
    return unsqueeze(out, cut.new) if cut.new else out


def _sliced(var: Variable, cut: _Cut) -> Variable:
    block = var.block.program.current_block()
    strided = any(isinstance(step, Variable) or step != 1 for step in cut.steps)
    kind = "strided_slice" if strided else "slice"
    inputs: dict[str, Any] = {"Input": [var]}
    attrs: dict[str, Any] = {"axes": cut.axes, "decrease_axis": cut.gone}
    limits = [("Starts", "starts", cut.starts), ("Ends", "ends", cut.ends)]
    limits += [("Strides", "strides", cut.steps)] if strided else []
    flags = [1] * len(cut.axes)
    for slot, key, values in limits:
        attrs[key] = static_dims(values)
        if has_variable(values):
            inputs[slot + "TensorList"] = number_tensors(values, dtype="int64")
            flags = [-1 if isinstance(v, Variable) else flag for v, flag in zip(values, flags, strict=True)]
    attrs["infer_flags"] = flags
    if len(cut.gone) == len(var.shape):
        attrs[ZERO_DIM_ATTR] = ["Out"]
    out: Variable = block.create_var(name=unique_name.generate(f"{var.name}_{kind}"), dtype=var.dtype)
    block.append_op(type=kind, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def _spread(places: dict[int, Variable]) -> list[int]:
    """The dimensions that tensors of places speak of; a mask speaks of one for each of its own."""
    found: list[int] = []
    for axis in sorted(places):
        mask = places[axis].dtype == VarType.BOOL
        found += range(axis, axis + len(places[axis].shape)) if mask else [axis]
    return found


def _places_first(rank: int, places: dict[int, Variable]) -> list[int]:
    """The order of dimensions in which those with places come first."""
    spread = _spread(places)
    return [*spread, *(axis for axis in range(rank) if axis not in spread)]


def _picked(var: Variable, places: dict[int, Variable]) -> Variable:
    """The elements at given places; dimensions with places come first while they are picked."""
    order = _places_first(len(var.shape), places)
    moved = order != sorted(order)
    if moved:
        var = transpose(var, order)
    out = gather_nd(var, _index([places[axis] for axis in sorted(places)]))
    back = _way_back(len(out.shape), len(order), _spread(places))
    return transpose(out, back) if moved and back != sorted(back) else out


def _way_back(rank: int, before: int, spread: list[int]) -> list[int]:
    """The order of dimensions of what was picked: one run of neighbouring dimensions goes back to its place,
    as in NumPy.

    rank: of what was picked; before: of what it was picked from.
    """
    if spread != list(range(spread[0], spread[0] + len(spread))):
        return list(range(rank))
    count = rank - (before - len(spread))
    rest = list(range(count, rank))
    return [*rest[: spread[0]], *range(count), *rest[spread[0] :]]


def _with_places(var: Variable, places: dict[int, Variable], value: Variable) -> Variable:
    """`var` with `value` at given places."""
    order = _places_first(len(var.shape), places)
    spread = _spread(places)
    indices = [places[axis] for axis in sorted(places)]
    # masks give one dimension, and so do places, which broadcast against each other
    count = max(1 if one.dtype == VarType.BOOL else len(one.shape) for one in indices)
    back = _way_back(len(order) - len(spread) + count, len(order), spread)
    if tuple(value.shape) not in ((), (1,)) and back != sorted(back):
        lead = len(back) - len(value.shape)
        wide = unsqueeze(value, list(range(lead))) if lead > 0 else value
        value = transpose(wide, [back.index(axis) for axis in range(len(back))])
    moved = var if order == sorted(order) else transpose(var, order)
    put = index_put(moved, indices, value)
    return transpose(put, [order.index(axis) for axis in range(len(order))])


def _index(tensors: list[Variable]) -> Variable:
    """The rows of places that `gather_nd` reads."""
    if len(tensors) == 1:
        only = tensors[0]
        return nonzero(only) if only.dtype == VarType.BOOL else unsqueeze(only, -1)
    numbers: list[Variable] = []
    for one in tensors:
        mask = one.dtype == VarType.BOOL
        numbers += unbind(nonzero(one), 1) if mask else [one]
    kinds = {one.dtype for one in numbers}
    if len(kinds) > 1:
        numbers = [cast(one, VarType.INT64) for one in numbers]
    return stack(broadcast_tensors(numbers), axis=-1)
