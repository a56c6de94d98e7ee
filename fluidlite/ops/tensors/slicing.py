"""Parts of tensors by range: slice and strided_slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, OF_2X_ATTR, AttrType, Lod, Op, Spec, WithLod, get, later, required
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.numbers import given_ints
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import LoDTensor, LoDTensorArray

_RANGE = {
    "axes": required(AttrType.INTS),
    "starts": INTS(),
    "ends": INTS(),
    "infer_flags": INTS(),
    "decrease_axis": INTS(),
}


def bound(size: int, start: int, end: int, step: int = 1, of_2x: bool = False) -> slice:
    """The range of a dimension with fluid's limits: negative ones count from the end, those outside are cut.

    Backwards an end of -1 is the place before the first. 1.8.5 counts backward steps from that end: of four
    rows, -1 to -1 by -2 are rows 2 and 0, where 2.x, as NumPy, counts from the start and has 3 and 1.
    """
    if step > 0:
        start, end = (
            (max(start + size, 0) if start < 0 else min(start, size)),
            (max(end + size, 0) if end < 0 else min(end, size)),
        )
        return slice(start, max(end, start), step)
    start = max(start + size, -1) if start < 0 else min(start, size - 1)
    end = max(end + size, -1) if end < -1 else min(end, size - 1)
    if start <= end:
        return slice(0, 0)
    skipped = 0 if of_2x else (start - end - 1) % -step
    return slice(start - skipped, None if end < 0 else end, step)


def ranges(
    shape: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] = (),
    of_2x: bool = False,
) -> tuple[slice, ...]:
    """A slice for each dimension."""
    found = [slice(None)] * len(shape)
    for i, axis in enumerate(axes):
        found[axis] = bound(shape[axis], starts[i], ends[i], steps[i] if steps else 1, of_2x)
    return tuple(found)


def sliced_shape(
    spec: Spec,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    decrease: Sequence[int],
    flags: Sequence[int],
) -> tuple[int, ...]:
    """The shape of a slice; a dimension is -1 where it or its limits are not known."""
    dims = list(spec.shape)
    for name, given in (("starts", starts), ("ends", ends), ("strides", steps)):
        # tensors stand in for an attribute that is empty
        if len(given) not in (0, len(axes)):
            raise ShapeError(
                f"op 'slice': {name} {list(given)} must have as many entries as axes {list(axes)}"
            )
    if 0 in steps:
        raise ShapeError(f"op 'slice': strides {list(steps)} must not be 0")
    for i, axis in enumerate(axes):
        if axis >= len(dims):
            raise ShapeError(f"op 'slice': axis {axis} is outside Input{list(spec.shape)}")
        unknown = (
            dims[axis] < 0
            or i >= len(starts)
            or i >= len(ends)
            or i >= len(steps)
            or (flags and i < len(flags) and flags[i] < 0)
        )
        dims[axis] = -1 if unknown else _length(bound(dims[axis], starts[i], ends[i], steps[i]), dims[axis])
    kept = [dim for axis, dim in enumerate(dims) if axis not in decrease]
    return tuple(kept) if kept or not decrease else (1,)


def _length(part: slice, size: int) -> int:
    """The number of rows in a range of a dimension, whose size may stay open where the range has no gaps."""
    if part.step == 1:
        return part.stop - part.start
    return len(range(*part.indices(size)))


def _limits(
    starts: tuple[Any, list[Any], list[int]],
    ends: tuple[Any, list[Any], list[int]],
    axes: Sequence[int],
    decrease: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Starts and ends, from a tensor, a list of tensors, or the attribute.

    Where one number was taken by a tensor that holds -1, what lies from -1 to 0 is the last.
    """
    first, last = given_ints(*starts), given_ints(*ends)
    return first, [
        2**31 - 1 if axis in decrease and (start, end) == (-1, 0) else end
        for axis, start, end in zip(axes, first, last, strict=True)
    ]


slice_op = Op(
    "slice",
    "Input StartsTensor? EndsTensor? StartsTensorList*? EndsTensorList*? -> Out",
    attrs=_RANGE,
    lod=None,
    makes_lod=True,
    moves=True,
    amp="gray",
)


@slice_op.shape
def _(
    Input: Spec,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
    infer_flags: list[int],
) -> Spec:
    if Input.kind == VarType.LOD_TENSOR_ARRAY:
        return Input if not decrease_axis else Spec(Input.shape, Input.dtype)
    shape = sliced_shape(Input, axes, starts, ends, [1] * len(axes), decrease_axis, infer_flags)
    # rows that go take their sequences with them
    return Spec(shape, Input.dtype, Input.lod_level if axes[0] != 0 else 0)


@slice_op.refuses
def _(
    Input: Spec,
    StartsTensor: Any,
    EndsTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
) -> str:
    if StartsTensor or EndsTensor or StartsTensorList or EndsTensorList or Input.kind != VarType.LOD_TENSOR:
        return ""
    for axis, start, end in zip(axes, starts, ends, strict=False):
        size = Input.shape[axis]
        first = max(start + size if start < 0 else start, 0)
        last = min(max(end + size if end < 0 else end, 0), size)
        if size > 0 and first >= last:
            return f"the slice {start}:{end} of dimension {axis} of Input{list(Input.shape)} is empty"
    return ""


@slice_op.kernel
def _(
    xp: Any,
    Input: Any,
    Input_lod: Lod,
    StartsTensor: Any,
    EndsTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
) -> Any:
    given = (StartsTensor, StartsTensorList, starts), (EndsTensor, EndsTensorList, ends)
    starts, ends = _limits(*given, axes, decrease_axis)
    if isinstance(Input, LoDTensorArray):
        part = Input[bound(len(Input), starts[0], ends[0])]
        return WithLod(part[0].array, part[0]._lod) if decrease_axis else LoDTensorArray(part)
    out = _squeezed(xp, Input[ranges(Input.shape, axes, starts, ends)], decrease_axis)
    return WithLod(out, Input_lod) if Input_lod and axes[0] != 0 else out


def _squeezed(xp: Any, part: Array, decrease: Sequence[int]) -> Array:
    if decrease:
        part = part.reshape([dim for axis, dim in enumerate(part.shape) if axis not in decrease] or [1])
    return xp.ascontiguousarray(part)


def _spread(xp: Any, whole: Array, where: tuple[slice, ...], d: Array) -> Array:
    """Zeros like `whole`, with `d` where the slice was."""
    out = xp.zeros(whole.shape, d.dtype)
    out[where] = d.reshape(out[where].shape)
    return out


@slice_op.grad("Input")
def _(
    xp: Any,
    Input: Any,
    StartsTensor: Any,
    EndsTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    dOut: Any,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    decrease_axis: list[int],
) -> Any:
    given = (StartsTensor, StartsTensorList, starts), (EndsTensor, EndsTensorList, ends)
    starts, ends = _limits(*given, axes, decrease_axis)
    if isinstance(Input, LoDTensorArray):
        return _array_gradient(xp, Input, bound(len(Input), starts[0], ends[0]), dOut)
    return _spread(xp, Input, ranges(Input.shape, axes, starts, ends), dOut)


emits_once_more(
    get("slice_grad"),
    reads={
        "StartsTensor": "StartsTensor",
        "EndsTensor": "EndsTensor",
        "StartsTensorList": "StartsTensorList",
        "EndsTensorList": "EndsTensorList",
    },
    incoming={"Input": "Input@GRAD"},
    writes={"Out": "Out@GRAD"},
    type="slice",
)


def _array_gradient(xp: Any, whole: LoDTensorArray, where: slice, d: Any) -> LoDTensorArray:
    """Zeros like the tensors of an array, and the gradients of those that the slice took."""
    out = LoDTensorArray(LoDTensor(xp.zeros_like(item.array), item._lod) for item in whole)
    out[where] = d if isinstance(d, LoDTensorArray) else [LoDTensor(d, whole[where.start]._lod)]
    return out


strided = Op(
    "strided_slice",
    "Input StartsTensor? EndsTensor? StridesTensor? StartsTensorList*? EndsTensorList*? "
    "StridesTensorList*? -> Out",
    attrs={**_RANGE, "strides": INTS(), OF_2X_ATTR: later(False)},
)


@strided.shape
def _(
    Input: Spec,
    axes: list[int],
    starts: list[int],
    ends: list[int],
    strides: list[int],
    decrease_axis: list[int],
    infer_flags: list[int],
) -> Spec:
    return Input.with_shape(sliced_shape(Input, axes, starts, ends, strides, decrease_axis, infer_flags))


_CUT = ("axes", "starts", "ends", "strides", "decrease_axis", "of_2x")


def _cut(shape: Sequence[int], given: Sequence[tuple[Any, list[Any]]], attrs: dict[str, Any]) -> Any:
    """The part of an input; starts, ends and strides come from a tensor, a list of them, or the attribute."""
    names = ("starts", "ends", "strides")
    limits = [(*tensors, attrs[name]) for tensors, name in zip(given, names, strict=True)]
    starts, ends = _limits(limits[0], limits[1], attrs["axes"], attrs["decrease_axis"])
    strides = given_ints(*limits[2])
    if 0 in strides:
        raise ShapeError(f"op 'strided_slice': strides {strides} must not be 0")
    return ranges(shape, attrs["axes"], starts, ends, strides, attrs["of_2x"])


@strided.kernel
@with_attrs(_CUT)
def _(
    xp: Any,
    Input: Array,
    StartsTensor: Any,
    EndsTensor: Any,
    StridesTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StridesTensorList: list[Any],
    attrs: dict[str, Any],
) -> Array:
    first = (StartsTensor, StartsTensorList)
    last = (EndsTensor, EndsTensorList)
    where = _cut(Input.shape, (first, last, (StridesTensor, StridesTensorList)), attrs)
    return _squeezed(xp, Input[where], attrs["decrease_axis"])


@strided.grad("Input")
@with_attrs(_CUT)
def _(
    xp: Any,
    Input: Array,
    StartsTensor: Any,
    EndsTensor: Any,
    StridesTensor: Any,
    StartsTensorList: list[Any],
    EndsTensorList: list[Any],
    StridesTensorList: list[Any],
    dOut: Array,
    attrs: dict[str, Any],
) -> Array:
    given = (
        (StartsTensor, StartsTensorList),
        (EndsTensor, EndsTensorList),
        (StridesTensor, StridesTensorList),
    )
    return _spread(xp, Input, _cut(Input.shape, given, attrs), dOut)
