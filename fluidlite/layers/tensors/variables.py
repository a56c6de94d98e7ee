"""Layers that declare variables, copy them, convert them, and put several together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.param_attr import ParamAttr

__all__ = ["assign", "cast", "concat", "create_global_var", "create_parameter", "create_tensor", "sums"]

_CASTS = ["bool", "float16", "float32", "float64", "int32", "int64", "uint8"]
_CONCATS = ["float16", "float32", "float64", "int32", "int64"]
_NUMBERS = ["float32", "float64", "int32", "int64"]
_SHAPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8"]
MOST_ELEMENTS = 1024 * 1024  # of an array that becomes an attribute


def create_tensor(dtype: DTypeLike, name: str | None = None, persistable: bool = False) -> Variable:
    """An empty variable that ops can write to.

    Parameters
    ----------
    dtype: the data type, such as "float32".
    name: the name; generated where it is None.
    persistable: it keeps its value between runs.

    Returns
    -------
    A Variable whose shape its first writer decides.

    >>> out = fluid.layers.create_tensor("float32")
    >>> _ = fluid.layers.assign(np.array([1], "float32"), out)
    >>> exe.run(fetch_list=[out])[0]
    array([1.], dtype=float32)
    """
    check_dtype(
        dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int32", "int64"], "create_tensor"
    )
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: DTypeLike,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A parameter of the program, which training updates.

    Parameters
    ----------
    shape: the sizes; all must be known.
    dtype: the data type, such as "float32".
    name: the name; generated where it is None.
    attr: a `ParamAttr` with name, initializer, learning rate, regularizer, and whether it is trained.
    is_bias: the default initializer is zero instead of Xavier's.
    default_initializer: the initializer where `attr` has none.

    Returns
    -------
    A Parameter.

    >>> w = fluid.layers.create_parameter([2, 3], "float32", name="w")
    >>> w.name, w.shape, w.trainable
    ('w', (2, 3), True)
    """
    check_type(shape, "shape", (list, tuple, np.ndarray), "create_parameter")
    for item in shape:
        check_type(item, "item of shape", (int, np.integer), "create_parameter")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", *_SHAPES[2:]], "create_parameter")
    check_type(attr, "attr", (type(None), ParamAttr), "create_parameter")
    check_type(default_initializer, "default_initializer", (type(None), object), "create_parameter")
    helper = LayerHelper("create_parameter", name=name, shape=shape, dtype=dtype, attr=attr)
    param: Parameter = helper.create_parameter(
        ParamAttr(name=name) if attr is None else attr,
        shape,
        to_vartype(dtype),
        bool(is_bias),
        default_initializer,
    )
    return param


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: DTypeLike,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the program that keeps its value between runs, such as a counter.

    Parameters
    ----------
    shape: the sizes.
    value: the first value of all elements, which the startup program sets.
    dtype: the data type.
    persistable: save it with the model.
    force_cpu: keep it on the host in programs for a device.
    name: the name; generated where it is None.

    Returns
    -------
    A Variable.

    >>> count = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    >>> _ = fluid.layers.increment(count)
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [float(exe.run(fetch_list=[count])[0]) for _ in range(3)]
    [1.0, 2.0, 3.0]
    """
    check_type(shape, "shape", (list, tuple, np.ndarray), "create_global_var")
    for item in shape:
        check_type(item, "item of shape", (int, np.integer), "create_global_var")
    check_dtype(dtype, "dtype", ["bool", "float16", *_SHAPES], "create_global_var")
    helper = LayerHelper(
        "global_var", name=name, shape=shape, dtype=dtype, value=value, persistable=persistable
    )
    var = helper.create_global_variable(
        name=name, shape=shape, dtype=dtype, persistable=persistable, stop_gradient=True
    )
    helper.set_variable_initializer(var, initializer=Constant(value=_number(value), force_cpu=force_cpu))
    return var


def _number(value: Any) -> float:
    """The number itself, or the only element of an array."""
    return float(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """`x` with another data type.

    Parameters
    ----------
    x: a Variable of any shape and data type.
    dtype: the new data type, such as "float32", "int64" or "bool".

    Returns
    -------
    A Variable of the same shape. Fractions are cut off where it holds integers; all but 0 is True as "bool".

    >>> x = fluid.layers.assign(np.array([0.0, 1.7], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.cast(x, "int64"), fluid.layers.cast(x, "bool")])
    [array([0, 1]), array([False,  True])]
    """
    check_variable_and_dtype(x, "x", _CASTS, "cast")
    check_dtype(
        dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8"], "cast"
    )
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype=dtype)
    helper.append_op(
        type="cast",
        inputs={"X": [x]},
        outputs={"Out": [out]},
        attrs={"in_dtype": int(x.dtype), "out_dtype": int(out.dtype)},
    )
    return out


def concat(input: Any, axis: Any = 0, name: str | None = None) -> Variable:
    """Variables joined along one dimension.

    Parameters
    ----------
    input: a list of Variables that differ in dimension `axis` only, or a tensor array.
    axis: the dimension, a number or an int32 Variable of one element; negative numbers count from the end.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable whose dimension `axis` is the sum of theirs.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.concat([x, x], axis=1)])[0]
    array([[1., 2., 1., 2.],
           [3., 4., 3., 4.]], dtype=float32)
    """
    if not isinstance(input, list):
        input = [input]
    for index, var in enumerate(input):
        check_variable_and_dtype(var, f"input[{index}]", _CONCATS, "concat")
    check_type(axis, "axis", (int, Variable), "concat")
    helper = LayerHelper("concat", input=input, axis=axis, name=name)
    out = helper.create_variable_for_type_inference(dtype=helper.input_dtype())
    if input[0].type == VarType.LOD_TENSOR_ARRAY:
        if len(input) != 1:
            raise ValueError(f"concat of a tensor array takes that one array, not {len(input)} inputs")
        sizes = helper.create_variable_for_type_inference(dtype="int32")
        helper.append_op(
            type="tensor_array_to_tensor",
            inputs={"X": input[0]},
            outputs={"Out": [out], "OutIndex": [sizes]},
            attrs={"axis": axis, "use_stack": False},
        )
        return out
    inputs, attrs = {"X": input}, {}
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        inputs["AxisTensor"] = axis
    else:
        attrs["axis"] = axis
    helper.append_op(type="concat", inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def sums(input: Variable | Sequence[Variable], out: Variable | None = None) -> Variable:
    """The sum of several Variables, element by element.

    Parameters
    ----------
    input: a list of Variables of one shape and data type.
    out: the Variable to write to; None makes a new one.

    Returns
    -------
    The Variable that was written.

    >>> x = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.sums([x, x, x])])[0]
    array([3., 6.], dtype=float32)
    """
    check_type(input, "input", (Variable, tuple, list), "sums")
    for var in input if isinstance(input, (list, tuple)) else [input]:
        check_variable_and_dtype(var, "input", _NUMBERS, "sums")
    helper = LayerHelper("sum", input=input)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=helper.input_dtype())
    else:
        check_variable_and_dtype(out, "out", _NUMBERS, "sums")
    helper.append_op(type="sum", inputs={"X": input}, outputs={"Out": out}, attrs={"use_mkldnn": False})
    return out


_VALUES = {
    VarType.BOOL: ("bool_values", int),
    VarType.FP32: ("fp32_values", float),
    VarType.INT32: ("int32_values", int),
    VarType.INT64: ("int64_values", int),
}


def copied(input: Variable, output: Variable | None = None) -> Variable:
    """A copy of a Variable of any dtype: `assign` asks for those that 1.8.5's function takes, which says
    nothing about the values of branches and loops.
    """
    helper = LayerHelper("assign", input=input)
    if output is None:
        output = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="assign", inputs={"X": [input]}, outputs={"Out": [output]})
    return output


def assign(input: Variable | Array, output: Variable | None = None) -> Variable:
    """A copy of a Variable, or of an array as a constant of the program.

    Parameters
    ----------
    input: a Variable, or a NumPy array of float32, int32, int64 or bool with at most 1,048,576 elements.
    output: the Variable to write to; None makes a new one.

    Returns
    -------
    The Variable that was written.

    >>> x = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.assign(x)])[0]
    array([1., 2.], dtype=float32)
    """
    check_type(input, "input", (Variable, np.ndarray), "assign")
    if isinstance(input, Variable):
        check_dtype(
            input.dtype, "input", ["bool", "float16", "float32", "float64", "int32", "int64"], "assign"
        )
        return copied(input, output)
    helper = LayerHelper("assign", input=input)
    dtype = to_vartype(input.dtype)
    if dtype not in _VALUES:
        raise TypeError(
            "When the type of 'input' in assign is numpy.ndarray, the data type of 'input' must be bool, "
            f"float32, int32 or int64, but received {input.dtype}."
        )
    if input.size > MOST_ELEMENTS:
        raise ValueError(
            f"The size of input is too big: {input.size} elements, and {MOST_ELEMENTS} at most go into a "
            "program. Please consider saving it to file and 'load_op' to load it"
        )
    attr, kind = _VALUES[dtype]
    if output is None:
        output = helper.create_variable_for_type_inference(dtype=dtype)
    helper.append_op(
        type="assign_value",
        outputs={"Out": [output]},
        attrs={
            "dtype": int(dtype),
            "shape": list(input.shape),
            attr: [kind(item) for item in input.reshape(-1)],
        },
    )
    return output
