"""`x[...]` of 2.x's Variables: slices, strides, new dimensions, and tensors of places or truth values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensors.constants import has_variable, static_dims
from fluidlite.paddle.build import append
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.manipulation import broadcast_tensors, gather_nd, stack, transpose, unsqueeze
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
    cut = _read(var, _without_ellipsis(var, item if isinstance(item, tuple) else (item,)))
    out = _sliced(var, cut) if cut.axes else var
    if cut.new:
        out = unsqueeze(out, cut.new)
    return _picked(out, cut.places) if cut.places else out


def setitem(x: Variable, index: Any, value: Any) -> Variable:
    """A copy of `x` in which x[index] is `value`: a number, an array or a Variable that broadcasts to there.

    index: numbers, slices, `...` and None; ValueError for tensors of places or truth values.
    """
    cut = _read(x, _without_ellipsis(x, index if isinstance(index, tuple) else (index,)))
    if cut.places:
        raise ValueError(
            f"setitem() of variable {x.name!r} takes numbers and slices; elements that a tensor names are "
            "replaced by paddle.where or paddle.scatter_nd_add"
        )
    inputs: dict[str, Any] = {"Input": [x]}
    attrs: dict[str, Any] = {"axes": cut.axes, "decrease_axes": cut.gone, "none_axes": cut.new}
    for slot, key, limits in (
        ("StartsTensorList", "starts", cut.starts),
        ("EndsTensorList", "ends", cut.ends),
        ("StepsTensorList", "steps", cut.steps),
    ):
        attrs[key] = static_dims(limits)
        if has_variable(limits):
            inputs[slot] = number_tensors(limits, dtype="int64")
    _add_value(x, value, inputs, attrs)
    return append("set_value", inputs, attrs, dtype=x.dtype)


def _add_value(x: Variable, value: Any, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Give `value` to an op set_value, as attributes or as a tensor."""
    attrs |= {"dtype": int(x.dtype), "shape": [], "values": []}
    if isinstance(value, Variable):
        inputs["ValueTensor"] = [value if value.dtype == x.dtype else cast(value, x.dtype)]
        return
    if not isinstance(value, (bool, int, float, np.ndarray)):
        raise TypeError(
            "Only support to assign an integer, float, numpy.ndarray or paddle.Tensor to a paddle.Tensor, "
            f"but received {type(value)}"
        )
    array = np.asarray(value)
    attrs["shape"] = list(array.shape) or [1]
    attrs["values"] = [float(item) for item in array.reshape(-1)]
    if array.dtype.kind in "iu" and np.abs(array).max(initial=0) > EXACT:
        inputs["ValueTensor"] = [assign(array.astype(to_numpy(x.dtype)))]
        attrs |= {"shape": [], "values": []}


# ---------------------------------------------------------------------- reading the index
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
    if isinstance(item, (list, np.ndarray)) and np.asarray(_plain(item)).dtype == bool:
        return np.asarray(item).ndim
    return 1


def _plain(item: Any) -> Any:
    return [] if has_variable(item) else item


def _without_ellipsis(var: Variable, items: tuple[Any, ...]) -> list[Any]:
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
            cut.places[left] = _tensor(item)
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


def _tensor(item: Any) -> Variable:
    """Places or truth values as a Variable."""
    if isinstance(item, Variable):
        return item
    return assign(np.atleast_1d(np.asarray(item)))


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


def _picked(var: Variable, places: dict[int, Variable]) -> Variable:
    """The elements at given places; dimensions with places come first while they are picked."""
    axes = sorted(places)
    spread: list[int] = []
    for axis in axes:
        mask = places[axis].dtype == VarType.BOOL
        spread += range(axis, axis + len(places[axis].shape)) if mask else [axis]
    order = [*spread, *(axis for axis in range(len(var.shape)) if axis not in spread)]
    moved = order != sorted(order)
    if moved:
        var = transpose(var, order)
    out = gather_nd(var, _index([places[axis] for axis in axes]))
    if not moved:
        return out
    # one run of neighbouring dimensions goes back to its place, as in NumPy
    if spread != list(range(spread[0], spread[0] + len(spread))):
        return out
    count = len(out.shape) - (len(order) - len(spread))
    lead = list(range(count))
    rest = list(range(count, len(out.shape)))
    return transpose(out, rest[: spread[0]] + lead + rest[spread[0] :])


def _index(tensors: list[Variable]) -> Variable:
    """The rows of places that `gather_nd` reads."""
    if len(tensors) == 1:
        only = tensors[0]
        return nonzero(only) if only.dtype == VarType.BOOL else unsqueeze(only, -1)
    numbers = [nonzero(one)[:, 0] if one.dtype == VarType.BOOL else one for one in tensors]
    return stack(broadcast_tensors(numbers), axis=-1)
