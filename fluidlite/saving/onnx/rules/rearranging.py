"""Rules of ops that came with 2.x: another order of elements, a common shape, a part that is replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.values import GraphValue, counted, joined, values_of

_FIRST, _LAST = -(2**31), 2**31 - 1


def _all(op: OpView) -> list[GraphValue]:
    return [GraphValue(op, name, op.dtype()) for name in op.all()]


# ----------------------------------------------------------------------- another order
@exports("roll")
def _roll(op: OpView) -> None:
    (x,) = values_of(op, "X")
    shifts, axes = op.attr("shifts"), op.axes(op.attr("dims") or op.attr("axis") or [])
    made = x if axes else x.reshape(-1)
    # one after the other: of an axis that is named twice both shifts count
    for shift, axis in zip(shifts, axes or [0], strict=True):
        size = made.dims(axis, axis + 1)
        # what is behind comes to the front; a shift may be longer than the axis
        front = (size - int(shift)).node("Mod", size)
        made = joined([_from(made, axis, front), made.part(axis, 0, front)], axis)
    op.put((made if axes else made.node("Reshape", x.shape())).name)


def _from(x: GraphValue, axis: int, start: GraphValue) -> GraphValue:
    op = x.op
    part = op.add("Slice", x.name, start.name, op.ints(_LAST), op.ints(axis))
    return GraphValue(op, part, x.dtype)


@exports("cumprod")
def _cumprod(op: OpView) -> None:
    """The sums of logarithms have no signs, so the products are those of a triangle of factors."""
    (x,) = values_of(op, "X")
    dim = int(op.attr("dim"))
    if not op.rank():
        made = x.node("Identity")
        op.put(made.name)
        return
    axis = op.axes(dim)[0]
    last = op.rank() - 1
    order = [other for other in range(op.rank()) if other != axis]
    rows = x.transpose(*order, axis).unsqueeze(last)
    place = counted(rows.dims(last + 1, last + 2))
    taken = place.unsqueeze(1).compare("GreaterOrEqual", place.unsqueeze(0))
    factors = taken.where(rows, 1.0 if x.dtype.kind == "f" else 1)
    products = factors.reduce("Prod", last + 1)
    op.put(products.transpose(*[[*order, axis].index(at) for at in range(op.rank())]).name)


# ----------------------------------------------------------------------- a common shape
@exports("broadcast_tensors")
def _broadcast_tensors(op: OpView) -> None:
    found = _all(op)
    # a sum of zeros has the common shape
    zeros = [GraphValue.constant(op, [0], np.int64).node("Expand", x.shape()) for x in found]
    shape = sum(zeros[1:], zeros[0]).shape()
    op.put_all([x.node("Expand", shape).name for x in found])


@exports("meshgrid")
def _meshgrid(op: OpView) -> None:
    rows = [x.reshape(-1) for x in _all(op)]
    shape = joined([row.shape() for row in rows], 0)
    shapes = [[-1 if at == axis else 1 for at in range(len(rows))] for axis in range(len(rows))]
    laid = [row.reshape(*sizes).node("Expand", shape) for row, sizes in zip(rows, shapes, strict=True)]
    op.put_all([each.name for each in laid])


# ----------------------------------------------------------------------- a part
@exports("set_value")
def _set_value(op: OpView) -> None:
    """The positions of the part, in the row of all elements, and the values for them."""
    (x,) = values_of(op, "Input")
    if op.attr("none_axes"):
        raise op.error("its index puts in dimensions of 1")
    if op.has("ValueTensor"):
        (value,) = values_of(op, "ValueTensor")
        op.idle("values", "shape")
    else:
        numbers = np.array(op.attr("values"), x.dtype).reshape(op.attr("shape"))
        value = GraphValue.constant(op, numbers, x.dtype)
    count = x.reshape(-1).shape()
    reshape = counted(count).node("Reshape", x.shape())
    part = _part(op, reshape)
    if op.attr("decrease_axes"):
        part = part.squeeze(*op.attr("decrease_axes"))
    spread = value.node("Expand", part.shape()).reshape(-1)
    made = x.reshape(-1).node("ScatterElements", part.reshape(-1), spread, axis=0)
    found = made.node("Reshape", x.shape())
    op.put(found.name)


def _part(op: OpView, positions: GraphValue) -> GraphValue:
    starts = op.sizes("", "StartsTensorList", "starts")
    if op.has("StepsTensorList") or op.has("EndsTensorList"):
        raise op.error("it takes its ends or its steps from tensors")
    steps = [int(step) for step in op.attr("steps") or [1] * len(op.attr("axes"))]
    ends = _ends(op, [int(end) for end in op.attr("ends")], steps)
    bounds = [starts, op.ints(*ends), op.ints(*op.attr("axes")), op.ints(*steps)]
    part = op.add("Slice", positions.name, *bounds)
    return GraphValue(op, part, np.int64)


def _ends(op: OpView, ends: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Backwards an end of -1 is the place before the first; of one place, -1 to 0 is the last."""
    starts = op.attr("starts") or [0] * len(ends)
    special = {(start, -1, step): _FIRST for start in starts for step in steps if step < 0}
    special[-1, 0, 1] = _LAST
    return [special.get(limits, limits[1]) for limits in zip(starts, ends, steps, strict=True)]


# ----------------------------------------------------------------------- element by element
@exports("lerp")
def _lerp(op: OpView) -> None:
    x, y, weight = values_of(op, "X", "Y", "Weight")
    made = x + weight * (y - x)
    op.put(made.name)


@exports("trunc")
def _trunc(op: OpView) -> None:
    (x,) = values_of(op, "X")
    if x.dtype.kind != "f":
        found = x.node("Identity")
        op.put(found.name)
        return
    floor = x.node("Floor")
    ceil = x.node("Ceil")
    made = x.compare("Less", 0.0).where(ceil, floor)
    op.put(made.name)


@exports("atanh")
def _atanh(op: OpView) -> None:
    (x,) = values_of(op, "X")
    made = x.node("Atanh")
    op.put(made.name)


@exports("elementwise_fmax", "elementwise_fmin")
def _of_numbers(op: OpView) -> None:
    """The larger or smaller one; beside a NaN the other one."""
    x, y = values_of(op, "X", "Y")
    op.idle("axis")
    chosen = x.node("Max" if op.type == "elementwise_fmax" else "Min", y)
    if x.dtype.kind == "f":
        no_x, no_y = (each.node("IsNaN", dtype=np.bool_) for each in (x, y))
        chosen = no_x.where(y, no_y.where(x, chosen))
    op.put(chosen.name)
