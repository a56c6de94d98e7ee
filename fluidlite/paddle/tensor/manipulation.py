"""`paddle.tensor.manipulation`: the same elements in another shape or order, joined, cut and repeated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensor import tensor_array_to_tensor as joined
from fluidlite.layers.tensors.constants import has_variable, static_dims
from fluidlite.layers.tensors.indexing import crop_tensor
from fluidlite.paddle.build import append, check_axis, dimension, need_count, need_dims, need_numbers
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.shapes import as_list, constant, number_tensors

__all__ = [
    "broadcast_tensors",
    "broadcast_to",
    "chunk",
    "concat",
    "crop",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "gather",
    "gather_nd",
    "reshape",
    "reshape_",
    "roll",
    "scatter",
    "scatter_",
    "scatter_nd",
    "scatter_nd_add",
    "shard_index",
    "slice",
    "split",
    "squeeze",
    "squeeze_",
    "stack",
    "strided_slice",
    "tensor_array_to_tensor",
    "tile",
    "transpose",
    "unbind",
    "unique",
    "unsqueeze",
    "unsqueeze_",
    "unstack",
]

Dims = Any
"""Whole numbers and Variables of one element, in a list; or a Variable of one dimension."""


# ---------------------------------------------------------------------- shape
def reshape(x: Variable, shape: Dims, name: str | None = None) -> Variable:
    """The elements in another shape; -1 stands for the size that is left, 0 for that of x."""
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        inputs["Shape"] = [shape]
    else:
        attrs["shape"] = static_dims(shape)
        if has_variable(shape):
            inputs["ShapeTensor"] = number_tensors(shape)
    return append("reshape2", inputs, attrs, dtype=x.dtype, name=name, extra={"XShape": x.dtype})


def flatten(x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Variable:
    """Dimensions from `start_axis` to `stop_axis` as one."""
    start, stop = (dimension("flatten", axis, x) if x.shape else axis for axis in (start_axis, stop_axis))
    attrs = {"start_axis": start, "stop_axis": stop}
    return append(
        "flatten_contiguous_range",
        {"X": [x]},
        attrs,
        dtype=x.dtype,
        layer="flatten",
        name=name,
        extra={"XShape": x.dtype},
    )


def _axes_of(axis: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs and the attributes that name dimensions: numbers and Variables of one element, or one
    Variable.
    """
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        return {"AxesTensor": [axis]}, {}
    axes = [] if axis is None else as_list(axis)
    return ({"AxesTensorList": number_tensors(axes)}, {}) if has_variable(axes) else ({}, {"axes": axes})


def _leaves_a_number(x: Variable, given: Mapping[str, list[Variable]], axes: Sequence[int] | None) -> bool:
    """True if no dimension of x is left behind a squeeze of all (`axes` empty), of some, or of as many as
    Variables are given for.
    """
    rank = len(x.shape)
    if not rank or any(size != 1 for size in x.shape):
        return False
    if "AxesTensor" in given:
        return math.prod(given["AxesTensor"][0].shape) == rank
    if given:
        return len(given["AxesTensorList"]) == rank
    return not axes or {axis % rank for axis in axes} == set(range(rank))


def squeeze(x: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """Without those of the dimensions `axis` (all, where it is None) that are 1; numbers and Variables of
    one element.
    """
    need_dims(axis, "axis", "squeeze", 1)
    inputs, attrs = _axes_of(axis)
    return append(
        "squeeze2",
        {"X": [x], **inputs},
        attrs,
        dtype=x.dtype,
        layer="squeeze",
        name=name,
        scalar=_leaves_a_number(x, inputs, attrs.get("axes")),
        extra={"XShape": x.dtype},
    )


def unsqueeze(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """With dimensions of 1 put in at the places `axis`, numbers and Variables of one element."""
    inputs, attrs = _axes_of(axis)
    return append(
        "unsqueeze2", {"X": [x], **inputs}, attrs, dtype=x.dtype, name=name, extra={"XShape": x.dtype}
    )


reshape_, squeeze_, unsqueeze_ = reshape, squeeze, unsqueeze  # programs have no other way


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """The dimensions in the order `perm`."""
    if len(perm) != len(x.shape):
        raise ValueError(
            f"Input(perm) is the permutation of dimensions of Input(x): its length should be equal to "
            f"{len(x.shape)}, but received {list(perm)}"
        )
    attrs = {"axis": list(perm)}
    return append(
        "transpose2",
        {"X": [x]},
        attrs,
        dtype=x.dtype,
        layer="transpose",
        name=name,
        extra={"XShape": x.dtype},
    )


def flip(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """The elements in reverse order along the dimensions `axis`."""
    return append("flip", {"X": [x]}, {"axis": as_list(axis)}, dtype=x.dtype, name=name)


def roll(x: Variable, shifts: Any, axis: Any = None, name: str | None = None) -> Variable:
    """The elements moved on along the dimensions `axis`, or in one row; those that leave come in again."""
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"axis": [] if axis is None else as_list(axis)}
    for one in attrs["axis"]:
        check_axis("roll", one, x)
    if isinstance(shifts, Variable):
        need_count(shifts, "shifts", "roll", max(len(attrs["axis"]), 1))
        inputs["ShiftsTensor"] = [shifts]
        attrs["shifts"] = []
    else:
        attrs["shifts"] = as_list(shifts)
    return append("roll", inputs, attrs, dtype=x.dtype, name=name)


# ---------------------------------------------------------------------- together and apart
def concat(x: Sequence[Variable], axis: Any = 0, name: str | None = None) -> Variable:
    """Tensors joined along `axis`, a number or a Variable."""
    tensors = as_list(x)
    inputs: dict[str, Any] = {"X": tensors}
    attrs: dict[str, Any] = {}
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        inputs["AxisTensor"], attrs["axis"] = [axis], 0
    else:
        attrs["axis"] = axis
    return append("concat", inputs, attrs, dtype=tensors[0].dtype, name=name)


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors of one shape side by side in a new dimension."""
    tensors = as_list(x)
    return append("stack", {"X": tensors}, {"axis": axis}, dtype=tensors[0].dtype, name=name, slot="Y")


def _parts(op_type: str, inputs: dict[str, Any], attrs: dict[str, Any], x: Variable, count: int) -> Any:
    """An op with `count` outputs in the slot Out."""
    begin()
    helper = LayerHelper(op_type)
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(count)]
    helper.append_op(type=op_type, inputs=inputs, outputs={"Out": outs}, attrs=attrs)
    return outs


def split(x: Variable, num_or_sections: Any, axis: Any = 0, name: str | None = None) -> list[Variable]:
    """x cut along `axis` into as many equal parts, or into parts of these sizes, of which one may be -1."""
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"num": 0, "sections": []}
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        inputs["AxisTensor"] = [axis]
    else:
        attrs["axis"] = dimension("split", axis, x)
    if isinstance(num_or_sections, Integral):
        count = attrs["num"] = int(num_or_sections)
    else:
        count = len(num_or_sections)
        attrs["sections"] = static_dims(num_or_sections)
        if has_variable(num_or_sections):
            inputs["SectionsTensorList"] = number_tensors(num_or_sections)
    return _parts("split", inputs, attrs, x, count)


def chunk(x: Variable, chunks: int, axis: Any = 0, name: str | None = None) -> list[Variable]:
    """x cut along `axis` into `chunks` equal parts."""
    return split(x, chunks, axis, name)


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The slices of a tensor along `axis`, without that dimension."""
    count = input.shape[axis]
    if count == 0:
        return []
    return _parts("unbind", {"X": [input]}, {"axis": axis}, input, count)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices of a tensor along `axis`, of which there are `num`, without that dimension."""
    begin()
    count = x.shape[axis] if num is None else num
    if count == 0 == x.shape[axis]:
        return []
    helper = LayerHelper("unstack")
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(count)]
    attrs = {"axis": axis, "num": count}
    helper.append_op(type="unstack", inputs={"X": [x]}, outputs={"Y": outs}, attrs=attrs)
    return outs


def broadcast_tensors(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """Tensors repeated to the shape that they have in common."""
    tensors = list(input)
    return _parts("broadcast_tensors", {"X": tensors}, {}, tensors[0], len(tensors))


# ---------------------------------------------------------------------- repetition
def _repeated(dims: Any, unknown: int) -> tuple[list[int], list[Variable]]:
    """The numbers of a shape, `unknown` for Variables, and tensors where there are such."""
    numbers = [unknown if isinstance(dim, Variable) else int(dim) for dim in dims]
    return numbers, number_tensors(dims) if has_variable(dims) else []


def tile(x: Variable, repeat_times: Dims, name: str | None = None) -> Variable:
    """x repeated as often along each dimension."""
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if isinstance(repeat_times, Variable):
        need_dims(repeat_times, "repeat_times", "tile", 1)
        inputs["RepeatTimes"], attrs["repeat_times"] = [repeat_times], [-1]
    else:
        attrs["repeat_times"], tensors = _repeated(repeat_times, -1)
        inputs.update({"repeat_times_tensor": tensors} if tensors else {})
    return append("tile", inputs, attrs, dtype=x.dtype, name=name)


def expand(x: Variable, shape: Dims, name: str | None = None) -> Variable:
    """x repeated to `shape`, in which -1 keeps a dimension."""
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        inputs["Shape"] = [shape]
    else:
        attrs["shape"], tensors = _repeated(shape, -2)
        inputs.update({"expand_shapes_tensor": tensors} if tensors else {})
    return append("expand_v2", inputs, attrs, dtype=x.dtype, layer="expand", name=name)


def broadcast_to(x: Variable, shape: Dims, name: str | None = None) -> Variable:
    """As `expand`."""
    need_dims(shape, "shape", "broadcast_to", 1)
    return expand(x, shape, name)


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """The part of `x` of `shape`, by default all of it, from `offsets` (zeros) on."""
    need_count(offsets, "offsets", "crop", len(x.shape))
    found: Variable = crop_tensor(x, list(x.shape) if shape is None else shape, offsets, name)
    return found


def expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """x repeated to the shape of y."""
    inputs = {"X": [x], "Y": [y]}
    attrs = {"target_shape": list(y.shape)}
    return append("expand_as_v2", inputs, attrs, dtype=x.dtype, layer="expand_as", name=name)


# ---------------------------------------------------------------------- slices
def _limits(
    inputs: dict[str, Any], attrs: dict[str, Any], flags: list[int], slot: str, key: str, values: Any
) -> None:
    """Starts, ends or strides, as attributes and as inputs."""
    if isinstance(values, Variable):
        values.stop_gradient = True
        inputs[slot + "Tensor"], attrs[key] = [values], []
        flags[:] = [-1] * len(flags)
        return
    attrs[key] = static_dims(values)
    if has_variable(values):
        inputs[slot + "TensorList"] = number_tensors(values)
        for index, value in enumerate(values):
            flags[index] = -1 if isinstance(value, Variable) else flags[index]


def slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any) -> Variable:
    """[start, end) along each of the dimensions `axes`; negative numbers count from the end."""
    flags = [1] * len(axes)
    inputs: dict[str, Any] = {"Input": [input]}
    attrs: dict[str, Any] = {"axes": list(axes), "infer_flags": flags}
    _limits(inputs, attrs, flags, "Starts", "starts", starts)
    _limits(inputs, attrs, flags, "Ends", "ends", ends)
    return append("slice", inputs, attrs, dtype=input.dtype)


def strided_slice(
    x: Variable, axes: Sequence[int], starts: Any, ends: Any, strides: Any, name: str | None = None
) -> Variable:
    """Every stride-th element of [start, end) along each of the dimensions `axes`."""
    flags = [1] * len(axes)
    inputs: dict[str, Any] = {"Input": [x]}
    attrs: dict[str, Any] = {"axes": list(axes), "infer_flags": flags}
    _limits(inputs, attrs, flags, "Starts", "starts", starts)
    _limits(inputs, attrs, flags, "Ends", "ends", ends)
    _limits(inputs, attrs, flags, "Strides", "strides", strides)
    return append("strided_slice", inputs, attrs, dtype=x.dtype, name=name)


# ---------------------------------------------------------------------- rows by their numbers
def gather(x: Variable, index: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """The slices along `axis` (the first dimension) that `index` names; a number alone takes one slice."""
    inputs: dict[str, Any] = {"X": [x], "Index": [index]}
    attrs: dict[str, Any] = {}
    if isinstance(axis, Variable):
        inputs["Axis"] = [axis]
    else:
        attrs["axis"] = axis or 0
        check_axis("gather", attrs["axis"], x)
    return append("gather", inputs, attrs, dtype=x.dtype, name=name)


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """The slices of x at the places that the rows of `index` say."""
    need_numbers(index, "gather_nd")
    return append("gather_nd", {"X": [x], "Index": [index]}, dtype=x.dtype, name=name)


def scatter(
    x: Variable, index: Variable, updates: Variable, overwrite: bool = True, name: str | None = None
) -> Variable:
    """x with `updates` in the rows that `index` names; not `overwrite`: with the sum of those of a row."""
    inputs = {"X": [x], "Ids": [index], "Updates": [updates]}
    return append("scatter", inputs, {"overwrite": overwrite}, dtype=x.dtype, name=name)


scatter_ = scatter


def scatter_nd_add(x: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """x plus `updates` at the places that the rows of `index` say."""
    inputs = {"X": [x], "Index": [index], "Updates": [updates]}
    return append("scatter_nd_add", inputs, dtype=x.dtype, name=name)


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros of `shape` plus `updates` at the places that the rows of `index` say."""
    return scatter_nd_add(constant(shape, updates.dtype, 0.0), index, updates, name)


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """The ids of one of `nshards` equal ranges of `index_num` ids, from 0; `ignore_value` for others."""
    if not 0 <= shard_id < nshards:
        raise ValueError(f"'shard_id' in shard_index must be between 0 and {nshards - 1}, but is {shard_id}")
    attrs = {"index_num": index_num, "nshards": nshards, "shard_id": shard_id, "ignore_value": ignore_value}
    return append("shard_index", {"X": [input]}, attrs, dtype=input.dtype, stop_gradient=True)


def unique(
    x: Variable,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The distinct elements (or slices along `axis`) in order; and, where it is asked for, where each first
    occurs, which one each element is, and how often each occurs.
    """
    begin()
    if axis is not None:
        check_axis("unique", axis, x)
    helper = LayerHelper("unique", name=name)
    kind = VarType.INT32 if dtype in ("int32", VarType.INT32) else VarType.INT64
    attrs = {
        "dtype": kind,
        "return_index": return_index,
        "return_inverse": return_inverse,
        "return_counts": return_counts,
        "axis": [] if axis is None else [axis],
        "is_sorted": True,
    }
    out = helper.create_variable_for_type_inference(x.dtype, stop_gradient=True)
    slots = ("Indices", "Index", "Counts")
    others = {slot: helper.create_variable_for_type_inference(kind, stop_gradient=True) for slot in slots}
    helper.append_op(type="unique", inputs={"X": [x]}, outputs={"Out": [out], **others}, attrs=attrs)
    wanted = (return_index, return_inverse, return_counts)
    found = [out, *(others[slot] for slot, want in zip(slots, wanted, strict=True) if want)]
    return found[0] if len(found) == 1 else tuple(found)


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, use_stack: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The tensors of an array, concatenated (or stacked) along `axis`; and the size of each, int32."""
    return joined(input, axis, name, use_stack)
