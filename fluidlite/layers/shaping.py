"""The same elements in another shape, and several tensors in one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op

__all__ = ["expand", "expand_as", "flatten", "rank", "reshape", "shape", "size", "split", "squeeze", "stack", "transpose", "unbind",
           "unsqueeze", "unstack"]


def has_tensor(values: Any) -> bool:
    """Whether a list of numbers holds Variables too."""
    return isinstance(values, (list, tuple)) and any(isinstance(value, Variable) for value in values)


def as_tensors(values: Sequence[Any], dtype: str = "int32") -> list[Variable]:
    """Each number as a tensor of one element."""
    from fluidlite.layers.tensor import fill_constant
    tensors = []
    for value in values:
        if isinstance(value, Variable):
            value.stop_gradient = True
            tensors.append(value)
        else:
            helper = LayerHelper("shape_tensor")
            out = helper.create_variable_for_type_inference(dtype)
            fill_constant([1], dtype, value, force_cpu=True, out=out)
            tensors.append(out)
    return tensors


def as_attr(values: Sequence[Any], unknown: int = -1) -> list[int]:
    """The numbers of a mixed list, with `unknown` for its Variables."""
    return [unknown if isinstance(value, Variable) else int(value) for value in values]


def reshape(x: Variable, shape: Any, actual_shape: Variable | None = None, act: str | None = None, inplace: bool = False,
            name: str | None = None) -> Variable:
    """x in another shape: 0 keeps a dimension, one -1 stands for what is left; `shape` may be (or hold) Variables."""
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int32", "int64", "bool"], "reshape")
    check_type(shape, "shape", (list, tuple, Variable), "reshape")
    check_type(actual_shape, "actual_shape", (Variable, type(None)), "reshape")
    helper = LayerHelper("reshape2", act=act, name=name)
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        inputs["Shape"] = shape
    else:
        if not shape:
            raise ValueError("The size of 'shape' in reshape can't be zero, but received 0.")
        attrs["shape"] = _checked_shape(x, shape)
        if has_tensor(shape):
            inputs["ShapeTensor"] = as_tensors(shape)
        elif isinstance(actual_shape, Variable):
            actual_shape.stop_gradient = True
            inputs["Shape"] = actual_shape
    out = x if inplace and act is not None else helper.create_variable_for_type_inference(dtype=x.dtype)
    memory = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="reshape2", inputs=inputs, outputs={"Out": out, "XShape": memory}, attrs=attrs)
    return helper.append_activation(out)


def _checked_shape(x: Variable, shape: Sequence[Any]) -> list[int]:
    dims = as_attr(shape)
    given = [dim for dim, value in zip(dims, shape, strict=True) if not isinstance(value, Variable)]
    if given.count(-1) > 1:
        raise AssertionError(f"Only one dimension value of 'shape' in reshape can be -1. But received shape {dims}.")
    for index, dim in enumerate(given):
        if dim == 0 and index >= len(x.shape):
            raise AssertionError(f"The index of 0 in `shape` must be less than the input tensor X's dimensions, but shape[{index}] = 0 "
                                 f"and X has {len(x.shape)} dimensions.")
        if dim < -1:
            raise AssertionError(f"Each dimension value of 'shape' in reshape must not be negative except one unknown dimension, but "
                                 f"received shape[{index}] = {dim}.")
    return dims


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without the dimensions `axes`, which must be of size one (an empty list: without all such)."""
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64", "bool", "int8", "int32", "int64"], "squeeze")
    check_type(axes, "axes", (list, tuple), "squeeze")
    return one_op("squeeze2", {"X": input}, {"axes": list(axes)}, dtype=input.dtype, name=name, layer="squeeze", extra={"XShape": input.dtype})


def unsqueeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """With dimensions of size one put in at `axes`, one after the other."""
    check_type(axes, "axis/axes", (int, list, tuple, Variable), "unsqueeze")
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64", "bool", "int8", "int32", "int64"], "unsqueeze")
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {}
    if isinstance(axes, Variable):
        axes.stop_gradient = True
        inputs["AxesTensor"] = axes
    elif has_tensor(axes):
        inputs["AxesTensorList"] = as_tensors(axes)
    else:
        attrs["axes"] = [axes] if isinstance(axes, int) else list(axes)
    return one_op("unsqueeze2", inputs, attrs, dtype=input.dtype, name=name, extra={"XShape": input.dtype})


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the dimensions before `axis` are its rows, the others its columns."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64"], "flatten")
    if not isinstance(axis, int) or axis > len(x.shape) or axis < 0:
        raise ValueError("The axis should be a int, and in range [0, rank(x)]")
    return one_op("flatten2", {"X": x}, {"axis": axis}, dtype=x.dtype, name=name, layer="flatten", extra={"XShape": x.dtype})


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """x with its dimensions in the order `perm`."""
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int32", "int64"], "transpose")
    check_type(perm, "perm", (list, tuple), "transpose")
    if len(perm) != len(x.shape):
        raise ValueError(f"Input(perm) is the permutation of dimensions of Input(x), its length should be equal to dimensions of Input(x), "
                         f"but received dimension of Input(x) is {len(x.shape)}, the length of Input(perm) is {len(perm)}.")
    for dim in perm:
        if dim >= len(x.shape):
            raise ValueError(f"Each element in Input(perm) should be less than Input(x)'s dimension, but received {list(perm)} for "
                             f"{len(x.shape)} dimensions.")
    return one_op("transpose2", {"X": [x]}, {"axis": list(perm)}, dtype=x.dtype, name=name, layer="transpose", extra={"XShape": x.dtype})


def split(input: Variable, num_or_sections: Any, dim: Any = -1, name: str | None = None) -> list[Variable]:
    """Parts along `dim`: that many equal ones, or parts of the given sizes (one may be -1)."""
    check_variable_and_dtype(input, "input", ["bool", "float16", "float32", "float64", "int32", "int64"], "split")
    check_type(num_or_sections, "num_or_sections", (list, int, tuple), "split")
    check_type(dim, "dim", (int, Variable), "split")
    helper = LayerHelper("split", name=name)
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"num": num_or_sections if isinstance(num_or_sections, int) else 0}
    if isinstance(dim, Variable):
        dim.stop_gradient = True
        inputs["AxisTensor"] = dim
    else:
        dim = dim + len(input.shape) if dim < 0 else dim
        attrs["axis"] = dim
    count = _split_attrs(input, num_or_sections, dim, inputs, attrs)
    outs = [helper.create_variable_for_type_inference(dtype=input.dtype) for _ in range(count)]
    helper.append_op(type="split", inputs=inputs, outputs={"Out": outs}, attrs=attrs)
    return outs


def _split_attrs(input: Variable, parts: Any, dim: Any, inputs: dict[str, Any], attrs: dict[str, Any]) -> int:
    known = isinstance(dim, int) and input.shape[dim] > 0
    if isinstance(parts, int):
        if parts <= 1:
            raise AssertionError("num_or_sections must be more than 1.")
        if known and input.shape[dim] % parts:
            raise AssertionError(f"The input's size along the split dimension must be evenly divisible by Attr(num_or_sections). But "
                                 f"{parts} is not evenly divisible by {input.shape[dim]}.")
        return parts
    if known and len(parts) > input.shape[dim]:
        raise AssertionError("len(num_or_sections) must not be more than input.shape[dim].")
    attrs["sections"] = as_attr(parts)
    if has_tensor(parts):
        inputs["SectionsTensorList"] = as_tensors(parts)
    return len(parts)


def stack(x: Any, axis: int = 0) -> Variable:
    """Tensors of one shape along a new dimension `axis`."""
    axis = 0 if axis is None else axis
    check_type(x, "x", (Variable, list, tuple), "stack")
    items = list(x) if isinstance(x, (list, tuple)) else [x]
    for item in items:
        check_variable_and_dtype(item, "x", ["float32", "float64", "int32", "int64"], "stack")
    return one_op("stack", {"X": items}, {"axis": axis}, dtype=items[0].dtype, slot="Y")


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along `axis`, without that dimension; `num` where its size is not known."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "unstack")
    helper = LayerHelper("unstack")
    count = x.shape[axis] if num is None else num
    if count <= 0:
        raise ValueError("unknown unstack number")
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(count)]
    helper.append_op(type="unstack", inputs={"X": [x]}, outputs={"Y": outs}, attrs={"axis": axis, "num": count})
    return outs


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The slices along `axis`, without that dimension."""
    return unstack(input, axis)


def expand(x: Variable, expand_times: Any, name: str | None = None) -> Variable:
    """x repeated `expand_times[i]` times along dimension i; the counts may be (or hold) Variables."""
    check_variable_and_dtype(x, "x", ["bool", "float32", "float64", "int32", "int64"], "expand")
    check_type(expand_times, "expand_times", (list, tuple, Variable), "expand")
    if x.dtype == VarType.BOOL and not x.stop_gradient:
        raise ValueError("expand op bool date type must set the stop_gradient to be True")
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if isinstance(expand_times, Variable):
        expand_times.stop_gradient = True
        inputs["ExpandTimes"] = expand_times
    else:
        attrs["expand_times"] = as_attr(expand_times)
        for value in attrs["expand_times"]:
            if value <= 0 and not has_tensor(expand_times):
                raise AssertionError("Each element given in expand_times must not be negative.")
        if has_tensor(expand_times):
            inputs["expand_times_tensor"] = as_tensors(expand_times)
    return one_op("expand", inputs, attrs, dtype=x.dtype, name=name)


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """x repeated until it has the shape of `target_tensor`."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64", "bool"], "expand_as")
    return one_op("expand_as", {"X": x, "target_tensor": target_tensor}, dtype=x.dtype, name=name)


def shape(input: Variable) -> Variable:
    """The dimensions of `input` as an int32 tensor."""
    check_type(input, "input", Variable, "shape")
    return one_op("shape", {"Input": input}, dtype="int32", stop_gradient=False)


def size(input: Variable) -> Variable:
    """The number of elements of `input` as an int64 tensor of one element."""
    check_type(input, "input", Variable, "size")
    return one_op("size", {"Input": input}, dtype="int64")


def rank(input: Variable) -> Variable:
    """The number of dimensions of `input` as an int32 tensor of one element."""
    import numpy as np

    from fluidlite.layers.tensor import assign
    check_type(input, "input", Variable, "rank")
    return assign(np.array(len(input.shape), "int32"))
