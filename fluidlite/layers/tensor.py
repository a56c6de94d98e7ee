"""Making tensors: constants, parameters, copies, ranges."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.shaping import as_attr, as_tensors, has_tensor

__all__ = ["argmax", "argmin", "argsort", "assign", "cast", "concat", "create_global_var", "create_parameter", "create_tensor", "diag",
           "eye", "fill_constant", "fill_constant_batch_size_like", "has_inf", "has_nan", "isfinite", "linspace", "ones", "ones_like",
           "range", "reverse", "sums", "zeros", "zeros_like"]


def create_tensor(dtype: DTypeLike, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable that some later op will fill."""
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int32", "int64"], "create_tensor")
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(shape: Sequence[int], dtype: DTypeLike, name: str | None = None, attr: Any = None, is_bias: bool = False,
                     default_initializer: Any = None) -> Any:
    """A parameter of its own, initialised in the startup program."""
    from fluidlite.param_attr import ParamAttr
    check_type(shape, "shape", (list, tuple, np.ndarray), "create_parameter")
    for item in shape:
        check_type(item, "item of shape", (int, np.integer), "create_parameter")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"], "create_parameter")
    check_type(attr, "attr", (type(None), ParamAttr), "create_parameter")
    helper = LayerHelper("create_parameter", name=name)
    attr = ParamAttr(name=name) if attr is None else attr
    return helper.create_parameter(attr, list(shape), to_vartype(dtype), is_bias, default_initializer)


def create_global_var(shape: Sequence[int], value: float, dtype: DTypeLike, persistable: bool = False, force_cpu: bool = False,
                      name: str | None = None) -> Variable:
    """A variable of the global block that the startup program fills with `value`."""
    from fluidlite.initializer import Constant
    check_type(shape, "shape", (list, tuple, np.ndarray), "create_global_var")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"], "create_global_var")
    helper = LayerHelper("global_var", name=name)
    var = helper.create_global_variable(dtype=dtype, shape=list(shape), persistable=persistable, name=name or helper.name, stop_gradient=True)
    helper.set_variable_initializer(var, initializer=Constant(value=float(value), force_cpu=force_cpu))
    return var


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """x in another dtype."""
    check_variable_and_dtype(x, "x", ["bool", "float16", "float32", "float64", "int32", "int64", "uint8"], "cast")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8"], "cast")
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype=dtype, stop_gradient=x.stop_gradient)
    helper.append_op(type="cast", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"in_dtype": x.dtype, "out_dtype": out.dtype})
    return out


def concat(input: Any, axis: Any = 0, name: str | None = None) -> Variable:
    """Tensors one after the other along `axis` (which may be a Variable); a LoDTensorArray is joined too."""
    check_type(input, "input", (list, tuple, Variable), "concat")
    items = list(input) if isinstance(input, (list, tuple)) else [input]
    for index, item in enumerate(items):
        check_variable_and_dtype(item, f"input[{index}]", ["bool", "float16", "float32", "float64", "int32", "int64"], "concat")
    check_type(axis, "axis", (int, Variable), "concat")
    if len(items) == 1 and items[0].type == VarType.LOD_TENSOR_ARRAY:
        return one_op("tensor_array_to_tensor", {"X": items[0]}, {"axis": axis, "use_stack": False}, dtype=items[0].dtype, name=name,
                      layer="concat", extra={"OutIndex": "int32"})
    inputs: dict[str, Any] = {"X": items}
    attrs: dict[str, Any] = {}
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        inputs["AxisTensor"] = axis
    else:
        attrs["axis"] = axis
    return one_op("concat", inputs, attrs, dtype=items[0].dtype, name=name)


def sums(input: Any, out: Variable | None = None) -> Variable:
    """The sum of a list of tensors of one shape."""
    check_type(input, "input", (Variable, tuple, list), "sums")
    items = list(input) if isinstance(input, (list, tuple)) else [input]
    for item in items:
        check_variable_and_dtype(item, "input", ["float32", "float64", "int32", "int64"], "sums")
    helper = LayerHelper("sum")
    result = helper.create_variable_for_type_inference(dtype=items[0].dtype) if out is None else out
    helper.append_op(type="sum", inputs={"X": items}, outputs={"Out": result}, attrs={"use_mkldnn": False})
    return result


def assign(input: Any, output: Variable | None = None) -> Variable:
    """A copy of a Variable or of a NumPy array (of at most 1 MB), into `output` where it is given."""
    check_type(input, "input", (Variable, np.ndarray), "assign")
    helper = LayerHelper("assign")
    if isinstance(input, Variable):
        check_dtype(input.dtype, "input", ["float32", "float64", "int32", "int64", "bool"], "assign")
        out = helper.create_variable_for_type_inference(dtype=input.dtype) if output is None else output
        helper.append_op(type="assign", inputs={"X": [input]}, outputs={"Out": [out]})
        return out
    dtype = to_vartype(input.dtype)
    names = {VarType.BOOL: "bool_values", VarType.FP32: "fp32_values", VarType.INT32: "int32_values", VarType.INT64: "int64_values"}
    if dtype == VarType.FP64:
        dtype, input = VarType.FP32, input.astype("float32")
    if dtype not in names:
        raise TypeError("When the type of 'input' in assign is numpy.ndarray, the data type of 'input' must be bool, float32, int32 or "
                        f"int64, but received {dtype}.")
    if input.size > 1024 * 1024:
        raise ValueError("The size of input is too big. Please consider saving it to file and 'load_op' to load it")
    values = [int(value) for value in input.flat] if dtype != VarType.FP32 else [float(value) for value in input.flat]
    out = helper.create_variable_for_type_inference(dtype=dtype) if output is None else output
    helper.append_op(type="assign_value", outputs={"Out": [out]}, attrs={"dtype": dtype, "shape": list(input.shape), names[dtype]: values})
    return out


def fill_constant(shape: Any, dtype: DTypeLike, value: Any, force_cpu: bool = False, out: Variable | None = None) -> Variable:
    """A tensor full of `value`; `shape` may be (or hold) Variables, `value` may be one."""
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int32", "int64"], "fill_constant")
    check_type(shape, "shape", (Variable, list, tuple), "fill_constant")
    kind = to_vartype(dtype)
    inputs: dict[str, Any] = {}
    attrs: dict[str, Any] = {"value": 0.0, "force_cpu": force_cpu, "dtype": kind}
    if isinstance(value, Variable):
        inputs["ValueTensor"] = value
    else:
        attrs["value"] = float(value)
        attrs["str_value"] = str(int(value)) if kind in (VarType.INT32, VarType.INT64) else str(float(value))
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        inputs["ShapeTensor"] = shape
    else:
        attrs["shape"] = as_attr(shape)
        if has_tensor(shape):
            inputs["ShapeTensorList"] = as_tensors(shape)
    helper = LayerHelper("fill_constant")
    if out is not None:
        check_variable_and_dtype(out, "out", [str(np.dtype("bool" if kind == VarType.BOOL else _name(kind)))], "fill_constant")
    result = helper.create_variable_for_type_inference(dtype=kind) if out is None else out
    helper.append_op(type="fill_constant", inputs=inputs, outputs={"Out": [result]}, attrs=attrs)
    result.stop_gradient = True
    return result


def _name(kind: VarType) -> str:
    from fluidlite.dtypes import to_numpy
    return str(to_numpy(kind))


def fill_constant_batch_size_like(input: Variable, shape: Sequence[int], dtype: DTypeLike, value: float, input_dim_idx: int = 0,
                                  output_dim_idx: int = 0, force_cpu: bool = False) -> Variable:
    """A tensor full of `value` whose dimension `output_dim_idx` is dimension `input_dim_idx` of `input`."""
    kind = to_vartype(dtype)
    attrs = {"shape": list(shape), "dtype": kind, "value": float(value), "input_dim_idx": input_dim_idx, "output_dim_idx": output_dim_idx,
             "force_cpu": force_cpu, "str_value": str(int(value)) if kind in (VarType.INT32, VarType.INT64) else str(float(value))}
    return one_op("fill_constant_batch_size_like", {"Input": input}, attrs, dtype=kind, stop_gradient=True)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The position of the largest element along `axis`, int64."""
    return _extreme("arg_max", x, axis)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The position of the smallest element along `axis`, int64."""
    return _extreme("arg_min", x, axis)


def _extreme(op_type: str, x: Variable, axis: int) -> Variable:
    check_variable_and_dtype(x, "x", ["float32", "float64", "uint8", "int16", "int32", "int64"], op_type.replace("_", ""))
    return one_op(op_type, {"X": x}, {"axis": axis}, dtype="int64", stop_gradient=True)


def argsort(input: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> tuple[Variable, Variable]:
    """The sorted elements along `axis`, and the positions that they had."""
    check_variable_and_dtype(input, "input", ["float32", "float64", "int16", "int32", "int64", "uint8"], "argsort")
    helper = LayerHelper("argsort", name=name)
    out = helper.create_variable_for_type_inference(dtype=input.dtype, stop_gradient=True)
    ids = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    helper.append_op(type="argsort", inputs={"X": input}, outputs={"Out": out, "Indices": ids}, attrs={"axis": axis, "descending": descending})
    return out, ids


def ones(shape: Any, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor full of ones."""
    check_type(shape, "shape", (list, tuple), "ones")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int32", "int64"], "ones")
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape: Any, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor full of zeros."""
    check_type(shape, "shape", (list, tuple), "zeros")
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int32", "int64"], "zeros")
    return fill_constant(shape, dtype, 0.0, force_cpu)


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones in the shape and dtype of x."""
    check_variable_and_dtype(x, "x", ["bool", "float32", "float64", "int32", "int64"], "ones_like")
    return one_op("fill_any_like", {"X": [x]}, {"value": 1.0}, dtype=x.dtype, layer="ones_like", out=out)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros in the shape and dtype of x."""
    check_variable_and_dtype(x, "x", ["bool", "float32", "float64", "int32", "int64"], "ones_like")
    return one_op("fill_zeros_like", {"X": [x]}, dtype=x.dtype, layer="zeros_like", out=out, stop_gradient=True)


def reverse(x: Variable, axis: Any) -> Variable:
    """x with the order of its elements turned around along `axis` (or several)."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64", "uint8"], "reverse")
    check_type(axis, "axis", (int, tuple, list), "reverse")
    return one_op("reverse", {"X": x}, {"axis": [axis] if isinstance(axis, int) else list(axis)}, dtype=x.dtype)


def has_inf(x: Variable) -> Variable:
    """Whether any element is infinite, a bool tensor of one element."""
    return one_op("isinf", {"X": x}, dtype="bool")


def has_nan(x: Variable) -> Variable:
    """Whether any element is NaN, a bool tensor of one element."""
    return one_op("isnan", {"X": x}, dtype="bool")


def isfinite(x: Variable) -> Variable:
    """Whether all elements are finite, a bool tensor of one element."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "isfinite")
    return one_op("isfinite", {"X": x}, dtype="bool")


def _as_variable(value: Any, dtype: VarType) -> Variable:
    if isinstance(value, Variable):
        return value if value.dtype == dtype else cast(value, dtype)
    return fill_constant([1], dtype, value)


def range(start: Any, end: Any, step: Any, dtype: DTypeLike) -> Variable:
    """start, start + step, ... below end."""
    kind = to_vartype(dtype)
    values = [_as_variable(value, kind) for value in (start, end, step)]
    return one_op("range", {"Start": values[0], "End": values[1], "Step": values[2]}, dtype=kind, stop_gradient=True)


def linspace(start: Any, stop: Any, num: Any, dtype: DTypeLike) -> Variable:
    """`num` numbers at equal distances from `start` to `stop`, both included."""
    kind = to_vartype(dtype)
    first, last = _as_variable(start, kind), _as_variable(stop, kind)
    count = num if isinstance(num, Variable) else fill_constant([1], "int32", num)
    return one_op("linspace", {"Start": first, "Stop": last, "Num": count}, dtype=kind)


def diag(diagonal: Any) -> Variable:
    """A square matrix with `diagonal` (a Variable or NumPy array of one dimension) and zeros elsewhere."""
    check_type(diagonal, "diagonal", (Variable, np.ndarray), "diag")
    source = assign(diagonal) if isinstance(diagonal, np.ndarray) else diagonal
    return one_op("diag", {"Diagonal": [source]}, dtype=source.dtype, stop_gradient=True)


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Sequence[int] | None = None, dtype: DTypeLike = "float32") -> Variable:
    """Ones on the diagonal of a matrix, repeated over `batch_shape`."""
    from fluidlite.layers.shaping import expand, unsqueeze
    if not isinstance(num_rows, int) or num_rows < 0:
        raise TypeError("num_rows should be a non-negative int")
    if num_columns is not None and (not isinstance(num_columns, int) or num_columns < 0):
        raise TypeError("num_columns should be a non-negative int")
    columns = num_rows if num_columns is None else num_columns
    out = one_op("eye", {}, {"num_rows": num_rows, "num_columns": columns, "dtype": to_vartype(dtype)}, dtype=dtype, stop_gradient=True)
    if batch_shape is not None:
        if not isinstance(batch_shape, list):
            raise TypeError("batch_shape should be a list")
        out = expand(unsqueeze(out, list(np.arange(len(batch_shape)).tolist())), [*batch_shape, 1, 1])
    return out
