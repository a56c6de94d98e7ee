"""Layers that give the same elements another shape: reshape, squeeze, transpose, split, stack, expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import temporaries
from fluidlite.layers.tensors.constants import has_variable, shape_tensors, static_dims

__all__ = [
    "expand",
    "expand_as",
    "flatten",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "t",
    "transpose",
    "unsqueeze",
    "unbind",
    "unstack",
]

_NUMBERS = ["float32", "float64", "int32", "int64"]
_INTS = ["int32", "int64"]


def _temporaries(helper: LayerHelper) -> Any:
    """Makes the int32 variables that hold the numbers of a mixed list."""
    return lambda: helper.create_variable_for_type_inference("int32")


# ---------------------------------------------------------------------- one tensor, another shape
def _checked_shape(x: Variable, shape: Sequence[Any]) -> list[int]:
    """The attribute `shape` of a reshape to a list; AssertionError where it cannot be meant."""
    unknown = -1
    found = static_dims(shape)
    for index, (dim, item) in enumerate(zip(found, shape, strict=True)):
        if isinstance(item, Variable):
            continue
        if dim == -1:
            assert unknown == -1, (
                f"Only one dimension value of 'shape' in reshape can be -1. But received shape[{index}] is "
                f"also -1."
            )
            unknown = index
        elif dim == 0:
            assert index < len(x.shape), (
                "The index of 0 in `shape` must be less than the input tensor X's dimensions. But received "
                f"shape[{index}] = 0, X's dimensions = {len(x.shape)}."
            )
        else:
            assert dim > 0, (
                "Each dimension value of 'shape' in reshape must not be negative except one unknown "
                f"dimension. But received shape[{index}] = {dim}."
            )
    return found


def reshape(
    x: Variable,
    shape: Any,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """`x` in another shape; the order of the elements stays.

    Parameters
    ----------
    x: a Variable.
    shape: the new sizes. 0 takes the size of that dimension from `x`, and one -1 takes what is left. A list
        may hold Variables of one element; a one-dimensional int32 Variable is a shape as well.
    actual_shape: an older way to give a shape that only the run knows, a one-dimensional int32 Variable; it
        goes before `shape`.
    act: the name of an activation of the result.
    inplace: the result shares the memory of `x`.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of as many elements.

    >>> x = fluid.data("x", [None, 4, 6])
    >>> fluid.layers.reshape(x, [0, 24]).shape
    (-1, 24)
    >>> fluid.layers.reshape(x, [-1, 3]).shape
    (-1, 3)
    """
    check_variable_and_dtype(x, "x", ["float16", *_NUMBERS], "reshape")
    check_type(shape, "shape", (list, tuple, Variable), "reshape")
    check_type(actual_shape, "actual_shape", (Variable, type(None)), "reshape")
    helper = LayerHelper(
        "reshape2", x=x, shape=shape, actual_shape=actual_shape, act=act, inplace=inplace, name=name
    )
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        inputs["Shape"] = shape
    else:
        assert len(shape) > 0, f"The size of 'shape' in reshape can't be zero, but received {len(shape)}."
        attrs["shape"] = _checked_shape(x, shape)
        if has_variable(shape):
            inputs["ShapeTensor"] = shape_tensors(shape, _temporaries(helper))
        elif actual_shape is not None:
            actual_shape.stop_gradient = True
            inputs["Shape"] = actual_shape
    out = x if inplace else helper.create_variable_for_type_inference(dtype=x.dtype)
    x_shape = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="reshape2", inputs=inputs, attrs=attrs, outputs={"Out": out, "XShape": x_shape})
    return helper.append_activation(out)


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """`x` without dimensions of size 1.

    Parameters
    ----------
    input: a Variable.
    axes: the dimensions to remove, negative ones counted from the end; all of size 1 where the list is empty.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of as many elements.

    >>> x = fluid.data("x", [None, 1, 5, 1])
    >>> fluid.layers.squeeze(x, axes=[1, 3]).shape
    (-1, 5)
    """
    helper = LayerHelper("squeeze", name=name)
    check_variable_and_dtype(
        input, "input", ["float16", "float32", "float64", "int8", "int32", "int64"], "squeeze"
    )
    check_type(axes, "axes", list, "squeeze")
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    x_shape = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="squeeze2", inputs={"X": input}, attrs={"axes": axes}, outputs={"Out": out, "XShape": x_shape}
    )
    return out


def unsqueeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """`x` with new dimensions of size 1.

    Parameters
    ----------
    input: a Variable.
    axes: the positions that the new dimensions have in the result: a number, a list, or an int32 Variable.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of as many elements.

    >>> x = fluid.data("x", [None, 5])
    >>> fluid.layers.unsqueeze(x, axes=[1, 3]).shape
    (-1, 1, 5, 1)
    """
    check_type(axes, "axis/axes", (int, list, tuple, Variable), "unsqueeze")
    check_variable_and_dtype(
        input, "input", ["float16", "float32", "float64", "bool", "int8", "int32", "int64"], "unsqueeze"
    )
    helper = LayerHelper("unsqueeze2", name=name)
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {}
    if isinstance(axes, int):
        axes = [axes]
    if isinstance(axes, Variable):
        axes.stop_gradient = True
        inputs["AxesTensor"] = axes
    elif has_variable(axes):
        inputs["AxesTensorList"] = shape_tensors(axes, _temporaries(helper))
    else:
        attrs["axes"] = axes
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    x_shape = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="unsqueeze2", inputs=inputs, attrs=attrs, outputs={"Out": out, "XShape": x_shape})
    return out


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """`x` as a matrix.

    Parameters
    ----------
    x: a Variable.
    axis: dimensions before this one are rows, the others are columns.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of two dimensions.

    >>> x = fluid.data("x", [None, 3, 8, 8])
    >>> fluid.layers.flatten(x, axis=1).shape
    (-1, 192)
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64"], "flatten")
    helper = LayerHelper("flatten", name=name)
    if not isinstance(axis, int) or axis > len(x.shape) or axis < 0:
        raise ValueError("The axis should be a int, and in range [0, rank(x)]")
    out = helper.create_variable_for_type_inference(x.dtype)
    x_shape = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(
        type="flatten2", inputs={"X": x}, outputs={"Out": out, "XShape": x_shape}, attrs={"axis": axis}
    )
    return out


def _append_transpose(helper: LayerHelper, x: Variable, perm: Sequence[int]) -> Variable:
    out = helper.create_variable_for_type_inference(x.dtype)
    x_shape = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(
        type="transpose2",
        inputs={"X": [x]},
        outputs={"Out": [out], "XShape": [x_shape]},
        attrs={"axis": perm},
    )
    return out


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """`x` with its dimensions in another order.

    Parameters
    ----------
    x: a Variable.
    perm: for each dimension of the result, the one of `x` that it is.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable with these dimensions.

    >>> x = fluid.data("x", [None, 3, 8, 8])
    >>> fluid.layers.transpose(x, [0, 2, 3, 1]).shape
    (-1, 8, 8, 3)
    """
    check_variable_and_dtype(x, "x", ["float16", *_NUMBERS], "transpose")
    check_type(perm, "perm", list, "transpose")
    rank = len(x.shape)
    if len(perm) != rank:
        raise ValueError(
            "Input(perm) is the permutation of dimensions of Input(x), its length should be equal to "
            f"dimensions of Input(x), but received dimension of Input(x) is {rank}, the length of "
            f"Input(perm) is {len(perm)}."
        )
    for index, dim in enumerate(perm):
        if dim >= rank:
            raise ValueError(
                f"Each element in Input(perm) should be less than Input(x)'s dimension, but {index}-th "
                f"element in Input(perm) is {dim} which exceeds Input(x)'s dimension {rank}."
            )
    return _append_transpose(LayerHelper("transpose", name=name), x, perm)


def t(input: Variable, name: str | None = None) -> Variable:
    """The transposed matrix; what has fewer than two dimensions stays as it is."""
    check_variable_and_dtype(input, "input", ["float16", *_NUMBERS], "transpose")
    rank = len(input.shape)
    if rank > 2:
        raise ValueError(
            f"Input(input) only support N-D (N<=2) tensor, but received length of Input(input) is {rank}. "
            "Perhaps you can use paddle.tensor.transpose() instead."
        )
    helper = LayerHelper("t", name=name)
    if rank == 2:
        return _append_transpose(helper, input, [1, 0])
    # names that 1.8.5 gives away before it looks at the rank
    temporaries(helper, 2, input.dtype)
    return input


# ---------------------------------------------------------------------- one tensor, several tensors
def split(input: Variable, num_or_sections: Any, dim: Any = -1, name: str | None = None) -> list[Variable]:
    """`input` cut into parts along one dimension.

    Parameters
    ----------
    input: a Variable.
    num_or_sections: the number of equal parts, or a list of their sizes, in which one may be -1: what is
        left. Sizes may be Variables of one element.
    dim: the dimension, a number or an int32 Variable of one element; negative numbers count from the end.
    name: the prefix of the results' names.

    Returns
    -------
    A list of Variables.

    >>> x = fluid.data("x", [None, 6])
    >>> [part.shape for part in fluid.layers.split(x, 2, dim=1)]
    [(-1, 3), (-1, 3)]
    >>> [part.shape for part in fluid.layers.split(x, [1, -1], dim=1)]
    [(-1, 1), (-1, 5)]
    """
    check_variable_and_dtype(input, "input", ["bool", "float16", *_NUMBERS], "split")
    check_type(num_or_sections, "num_or_sections", (list, int, tuple), "split")
    check_type(dim, "dim", (int, Variable), "split")
    if isinstance(dim, Variable):
        check_dtype(dim.dtype, "dim", _INTS, "split")
    helper = LayerHelper("split", input=input, num_or_sections=num_or_sections, dim=dim, name=name)
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"num": num_or_sections if isinstance(num_or_sections, int) else 0}
    size = -1
    if isinstance(dim, Variable):
        dim.stop_gradient = True
        inputs["AxisTensor"] = dim
    else:
        attrs["axis"] = dim if dim >= 0 else dim + len(input.shape)
        size = input.shape[attrs["axis"]]
    _check_parts(num_or_sections, size)
    if isinstance(num_or_sections, int):
        count = num_or_sections
    else:
        count = len(num_or_sections)
        attrs["sections"] = static_dims(num_or_sections)
        if has_variable(num_or_sections):
            inputs["SectionsTensorList"] = shape_tensors(num_or_sections, _temporaries(helper))
    outs = [helper.create_variable_for_type_inference(dtype=input.dtype) for _ in range(count)]
    helper.append_op(type="split", inputs=inputs, outputs={"Out": outs}, attrs=attrs)
    return outs


def _check_parts(parts: Any, size: int) -> None:
    """AssertionError where a dimension of `size` cannot be cut into `parts`."""
    if not isinstance(parts, int):
        if size > 0:
            assert len(parts) <= size, "len(num_or_sections) must not be more than input.shape[dim]."
        return
    assert parts > 1, "num_or_sections must be more than 1."
    if size > 0:
        assert size % parts == 0, (
            "The input's size along the split dimension must be evenly divisible by Attr(num_or_sections). "
            f"But {parts} is not evenly divisible by {size}. "
        )


def stack(x: Any, axis: int = 0) -> Variable:
    """Variables of one shape, joined along a new dimension.

    Parameters
    ----------
    x: a list of Variables, or a tensor array.
    axis: the position of the new dimension in the result; negative numbers count from the end.

    Returns
    -------
    A Variable whose dimension `axis` is their number.

    >>> x = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.stack([x, x * 10.0], axis=1)])[0]
    array([[ 1., 10.],
           [ 2., 20.]], dtype=float32)
    """
    tensors = x if isinstance(x, list) else [x]
    helper = LayerHelper("stack")
    out = helper.create_variable_for_type_inference(tensors[0].dtype)
    if tensors[0].type == VarType.LOD_TENSOR_ARRAY:
        sizes = helper.create_variable_for_type_inference(dtype="int32")
        helper.append_op(
            type="tensor_array_to_tensor",
            inputs={"X": tensors[0]},
            outputs={"Out": [out], "OutIndex": [sizes]},
            attrs={"axis": axis, "use_stack": True},
        )
    else:
        helper.append_op(type="stack", inputs={"X": tensors}, outputs={"Y": out}, attrs={"axis": axis})
    return out


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices of `x` along dimension `axis`, which goes away; `num` is their number where the shape does
    not tell it.
    """
    helper = LayerHelper("unstack")
    if num is None:
        num = 0 if axis is None or x.shape[axis] <= 0 else x.shape[axis]
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(num)]
    helper.append_op(type="unstack", inputs={"X": [x]}, outputs={"Y": outs}, attrs={"axis": axis, "num": num})
    return outs


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The slices of `input` along dimension `axis`, which goes away: a name that fluid got after 1.8."""
    check_variable_and_dtype(input, "input", _NUMBERS, "unbind")
    if not isinstance(axis, int):
        raise TypeError(f"The type of 'axis' must be int, but received {type(axis)}.")
    count = input.shape[axis]
    if count < 0:
        raise ValueError(
            f"unbind: dimension {axis} of {list(input.shape)} is unknown, but it determines the "
            "number of outputs"
        )
    helper = LayerHelper("unbind")
    outs = [helper.create_variable_for_type_inference(input.dtype) for _ in range(count)]
    helper.append_op(type="unbind", inputs={"X": [input]}, outputs={"Out": outs}, attrs={"axis": axis})
    return outs


# ---------------------------------------------------------------------- repetition
def expand(x: Variable, expand_times: Any, name: str | None = None) -> Variable:
    """`x` repeated along its dimensions.

    Parameters
    ----------
    x: a Variable of one to six dimensions.
    expand_times: how often each dimension is repeated: a list, which may hold Variables of one element, or a
        one-dimensional int32 Variable.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable whose sizes are those of `x` times `expand_times`.

    >>> x = fluid.layers.assign(np.array([[1, 2]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.expand(x, [2, 2])])[0]
    array([[1., 2., 1., 2.],
           [1., 2., 1., 2.]], dtype=float32)
    """
    check_variable_and_dtype(x, "x", ["bool", *_NUMBERS], "expand")
    check_type(expand_times, "expand_times", (list, tuple, Variable), "expand")
    if x.dtype == VarType.BOOL and x.stop_gradient:
        raise ValueError("expand op bool date type must set the stop_gradient to be False")
    helper = LayerHelper("expand", input=x, name=name)
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if isinstance(expand_times, Variable):
        expand_times.stop_gradient = True
        inputs["ExpandTimes"] = expand_times
    else:
        attrs["expand_times"] = static_dims(expand_times)
        for index, times in enumerate(expand_times):
            assert isinstance(times, Variable) or times > 0, (
                "Each element given in expand_times must not be negative. But received "
                f"expand_times[{index}] = {times}."
            )
        if has_variable(expand_times):
            inputs["expand_times_tensor"] = shape_tensors(expand_times, _temporaries(helper))
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="expand", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """`x` repeated until it has the shape of `target_tensor`."""
    for key, var in (("x", x), ("target_tensor", target_tensor)):
        check_variable_and_dtype(var, key, ["float32", "float64", "int32", "int64", "bool"], "expand_as")
    helper = LayerHelper("expand_as", input=x, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="expand_as", inputs={"X": x, "target_tensor": target_tensor}, outputs={"Out": out})
    return out
