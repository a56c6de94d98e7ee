"""A tensor with a part of it replaced: set_value, which 2.x's `paddle.static.setitem` is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import FLOATS, LONGS, Op, Spec
from fluidlite.ops.kernels.numbers import first_ints

__all__ = ["set_value"]

set_value = Op(
    "set_value",
    "Input ValueTensor? StartsTensorList*? EndsTensorList*? StepsTensorList*? -> Out",
    attrs={
        "axes": LONGS(),
        "starts": LONGS(),
        "ends": LONGS(),
        "steps": LONGS(),
        "decrease_axes": LONGS(),
        "none_axes": LONGS(),
        "dtype": int(VarType.FP32),
        "shape": LONGS(),
        "values": FLOATS(),
    },
    lod=None,
    idle=("dtype",),
    version=4,
    scalars="values",
)


@set_value.shape
def _(Input: Spec, axes: list[int]) -> Spec:
    outside = [axis for axis in axes if not 0 <= axis < len(Input.shape)]
    if outside:
        raise ShapeError(f"op 'set_value': axis {outside[0]} is outside Input{list(Input.shape)}")
    return Input.with_shape(Input.shape)


def _where(
    rank: int, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> tuple[slice, ...]:
    """A slice for each dimension. Backwards an end of -1 is the place before the first."""
    found = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        last = None if step < 0 and end == -1 else end
        # the place behind the last one, where a number of -1 was taken by a tensor
        found[axis] = slice(start, None if (start, end, step) == (-1, 0, 1) else last, step)
    return tuple(found)


def _limits(
    Input: Array, axes: Sequence[int], given: Sequence[tuple[Sequence[Any], Sequence[int]]]
) -> tuple[slice, ...]:
    """The replaced part of Input; each limit from tensors, else from its attribute."""
    starts, ends, steps = (first_ints(tensors) or list(attribute) for tensors, attribute in given)
    return _where(Input.ndim, axes, starts, ends, steps or [1] * len(axes))


def _seen(dims: Sequence[int], decrease: Sequence[int], new: Sequence[int]) -> list[int]:
    """The dimensions of the part as its index names them: some gone, some of size 1 put in."""
    kept = [dim for axis, dim in enumerate(dims) if axis not in decrease]
    for axis in new:
        kept.insert(axis, 1)
    return kept


@set_value.kernel
def _(
    xp: Any,
    Input: Array,
    ValueTensor: Array | None,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StepsTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
    steps: list[int],
    decrease_axes: list[int],
    none_axes: list[int],
    shape: list[int],
    values: list[float],
) -> Array:
    given = (StartsTensorList, starts), (EndsTensorList, ends), (StepsTensorList, steps)
    where = _limits(Input, axes, given)
    out = Input.copy()
    if ValueTensor is None:
        ValueTensor = xp.asarray(np.array(values, Input.dtype).reshape(shape))
    seen = _seen(out[where].shape, decrease_axes, none_axes)
    # more dimensions than the part has are allowed while they are 1
    extra = max(ValueTensor.ndim - len(seen), 0)
    if ValueTensor.shape[:extra] != (1,) * extra:
        raise ShapeError(f"op 'set_value': ValueTensor{list(ValueTensor.shape)} does not fit into {seen}")
    spread = xp.broadcast_to(ValueTensor.reshape(ValueTensor.shape[extra:]), seen)
    out[where] = spread.reshape(out[where].shape)
    return out


@set_value.grad("Input ValueTensor")
def _(
    xp: Any,
    ValueTensor: Array | None,
    dOut: Array,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StepsTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
    steps: list[int],
    decrease_axes: list[int],
    none_axes: list[int],
) -> Any:
    """Zeros where values were replaced; the new ones get the sums over where they were repeated."""
    given = (StartsTensorList, starts), (EndsTensorList, ends), (StepsTensorList, steps)
    where = _limits(dOut, axes, given)
    dInput = dOut.copy()
    dInput[where] = 0
    if ValueTensor is None:
        return dInput, None
    part = dOut[where]
    seen = _seen(part.shape, decrease_axes, none_axes)
    wide = [1] * (len(seen) - ValueTensor.ndim) + list(ValueTensor.shape)
    wide = wide[len(wide) - len(seen) :]
    repeated = tuple(axis for axis, dim in enumerate(wide) if dim == 1 and seen[axis] != 1)
    summed = part.reshape(seen).sum(axis=repeated, keepdims=True) if repeated else part
    return dInput, summed.reshape(ValueTensor.shape).astype(ValueTensor.dtype, copy=False)
