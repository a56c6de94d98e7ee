"""`paddle.tensor.creation`: tensors from numbers, shapes and other tensors."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, is_integer, to_numpy, to_vartype
from fluidlite.base.place import Place
from fluidlite.data_feeder import convert_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.constants import has_variable
from fluidlite.paddle.build import append
from fluidlite.paddle.defaults import dtype_or_default
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.logic import equal
from fluidlite.paddle.tensor.manipulation import unsqueeze
from fluidlite.paddle.tensor.math import cast
from fluidlite.paddle.tensor.shapes import as_list, constant, shape_arguments, shape_of, text_of

__all__ = [
    "arange",
    "assign",
    "diag",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "rank",
    "shape",
    "to_tensor",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


# ---------------------------------------------------------------------- of one number
def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A tensor of `shape` with every element `fill_value`: a number, or a Variable of one element."""
    kind = dtype_or_default(dtype)
    begin()
    unique_name.generate("fill_constant")  # 2.6.2 counts each of these twice
    helper = LayerHelper("fill_constant", name=name)
    inputs, attrs = shape_arguments(shape)
    attrs.update(dtype=kind, force_cpu=False, place_type=-1)
    if isinstance(fill_value, Variable):
        inputs["ValueTensor"] = [fill_value]
    else:
        attrs.update(value=float(fill_value), str_value=text_of(fill_value, kind))
    out = helper.create_variable_for_type_inference(kind)
    helper.append_op(type="fill_constant", inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    out.stop_gradient = True
    return out


def ones(shape: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Ones."""
    return full(shape, 1, dtype, name)


def zeros(shape: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Zeros."""
    return full(shape, 0, dtype, name)


def full_like(
    x: Variable, fill_value: Any, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """A tensor of the shape of x (and its dtype, unless one is given) with every element `fill_value`."""
    kind = x.dtype if dtype is None else to_vartype(dtype)
    attrs = {"value": float(fill_value), "dtype": int(kind)}
    return append(
        "fill_any_like", {"X": [x]}, attrs, dtype=kind, layer="full_like", name=name, stop_gradient=True
    )


def ones_like(x: Variable, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Ones in the shape of x."""
    return full_like(x, 1, dtype, name)


def zeros_like(x: Variable, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype, name)


def empty(shape: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A tensor of `shape` with uninitialised elements."""
    kind = dtype_or_default(dtype)
    inputs, attrs = shape_arguments(shape)
    return append("empty", inputs, {**attrs, "dtype": kind}, dtype=kind, name=name, stop_gradient=True)


def empty_like(x: Variable, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A tensor of the shape of x with uninitialised elements."""
    kind = x.dtype if dtype is None else to_vartype(dtype)
    inputs = {"ShapeTensor": [shape_of(x)]}
    return append(
        "empty", inputs, {"dtype": kind}, dtype=kind, layer="empty_like", name=name, stop_gradient=True
    )


# ---------------------------------------------------------------------- of given numbers
_VALUES = {
    VarType.BOOL: "bool_values",
    VarType.FP32: "fp32_values",
    VarType.FP64: "fp64_values",
    VarType.INT32: "int32_values",
    VarType.INT64: "int64_values",
}


def _assigned(array: np.ndarray[Any, Any], output: Variable | None) -> Variable:
    """A tensor of given numbers."""
    kind = to_vartype(array.dtype)
    if kind not in _VALUES:
        raise TypeError(
            "When the type of 'input' in assign is numpy.ndarray, the data type of 'input' must be bool, "
            f"float32, float64, int32 or int64, but received {array.dtype}"
        )
    if array.size > 1024 * 1024:
        raise ValueError(
            f"The size of input is too big. Please consider saving it to file and 'load_op' to load it: "
            f"{array.size} elements"
        )
    flat = [int(item) for item in array.ravel()] if array.dtype.kind == "b" else array.ravel().tolist()
    values = {field: flat if field == _VALUES[kind] else [] for field in _VALUES.values()}
    attrs = {"shape": list(array.shape), "dtype": int(kind), **values}
    return append("assign_value", {}, attrs, dtype=kind, layer="assign", out=output)


def assign(x: Any, output: Variable | None = None) -> Variable:
    """A copy of a Variable, or a tensor of given numbers; written to `output` where one is given."""
    if isinstance(x, Variable):
        return append("assign", {"X": [x]}, dtype=x.dtype, out=output)
    if isinstance(x, (list, tuple)) and has_variable(x):
        unique_name.generate("assign")  # as 2.6.2 counts them
        rows = [item if isinstance(item, Variable) else assign(item) for item in x]
        wrong = [item.name for item in rows if tuple(item.shape) not in ((), (1,))]
        if wrong:
            raise TypeError(f"assign: variables in a list must be single numbers, but {wrong} are not")
        column = _stacked(rows)
        attrs = {"axes": [-1]}
        extra = {"XShape": column.dtype}
        return append(
            "squeeze2", {"X": [column]}, attrs, dtype=column.dtype, layer="squeeze", extra=extra, out=output
        )
    array = np.array([x] if isinstance(x, (bool, int, float)) else x)
    if array.dtype == np.float64:
        array = array.astype(to_numpy(dtype_or_default(None)))
    return _assigned(array, output)


def _stacked(rows: list[Variable]) -> Variable:
    """Tensors of one shape along a new first dimension."""
    return append("stack", {"X": rows}, {"axis": 0}, dtype=rows[0].dtype, slot="Y")


def _as_tensor(item: Any, dtype: DTypeLike | None) -> Variable:
    """A number, an array or a Variable in `dtype`, by default its own."""
    var = item if isinstance(item, Variable) else to_tensor(item)
    return var if dtype is None or var.dtype == to_vartype(dtype) else cast(var, dtype)


def to_tensor(
    data: Any, dtype: DTypeLike | None = None, place: Place | None = None, stop_gradient: bool = True
) -> Variable:
    """A tensor of given numbers, in `dtype`; a single number has the shape []."""
    if isinstance(data, Variable):
        out = data if dtype is None else cast(data, dtype)
        out.stop_gradient = stop_gradient  # of the variable itself, as in 2.6.2
        return out
    if isinstance(data, (list, tuple)) and has_variable(data):
        rows = [_as_tensor(item, dtype) for item in data]
        out = assign(_stacked(rows))
        out.stop_gradient = stop_gradient
        return out
    array = np.asarray(data)
    if array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype(to_numpy(dtype_or_default(None)))
    out = _assigned(array, None)
    if dtype is not None and to_vartype(dtype) != out.dtype:
        out = cast(out, dtype)
    out.stop_gradient = stop_gradient
    return out


# ---------------------------------------------------------------------- ranges and matrices
def _number(value: Any, kind: VarType) -> Variable:
    """A number as a tensor of one element."""
    if not isinstance(value, Variable):
        return constant([1], kind, value, force_cpu=True)
    return value if value.dtype == kind else cast(value, kind)


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """`start`, `start + step`, ... up to but without `end`, each a number or a Variable of one element."""
    if end is None:
        start, end = 0, start
    if dtype is None:
        whole = all(_is_whole(one) for one in (start, end, step))
        kind = VarType.INT64 if whole else dtype_or_default(None)
    else:
        kind = to_vartype(dtype)
    count = _count(start, end, step)
    inputs = {
        slot: [_number(value, kind)] for slot, value in (("Start", start), ("End", end), ("Step", step))
    }
    out = append("range", inputs, dtype=kind, name=name, stop_gradient=True)
    if count is not None:
        out._shape = (count,)
    return out


def _is_whole(value: Any) -> bool:
    """True for an integer, or a Variable of integers."""
    return is_integer(value.dtype) if isinstance(value, Variable) else isinstance(value, Integral)


def _count(start: Any, end: Any, step: Any) -> int | None:
    """The number of elements; None where a Variable decides."""
    if any(isinstance(one, Variable) for one in (start, end, step)):
        return None
    return max(math.ceil((end - start) / step), 0)


def linspace(
    start: Any, stop: Any, num: Any, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """`num` numbers at equal distances from `start` to `stop`."""
    kind = dtype_or_default(dtype)
    _check_ends(start, stop, kind)
    first, last, count = _number(start, kind), _number(stop, kind), _number(num, VarType.INT32)
    inputs = {"Start": [first], "Stop": [last], "Num": [count]}
    out = append("linspace", inputs, {"dtype": int(kind)}, dtype=kind, name=name, stop_gradient=True)
    if isinstance(num, Integral):
        out._shape = (int(num),)
    return out


_NARROW = {VarType.FP64: (VarType.FP32, VarType.INT32), VarType.INT64: (VarType.INT32,)}


def _check_ends(start: Any, stop: Any, kind: VarType) -> None:
    """ValueError for ends that the dtype of what lies between them cannot hold."""
    for what, value in (("start", start), ("stop", stop)):
        if isinstance(value, Variable) and kind in _NARROW.get(value.dtype, ()):
            raise ValueError(
                f"'{what}' in linspace has the data type {convert_dtype(value.dtype)}, which "
                f"{convert_dtype(kind)} does not hold: say dtype={convert_dtype(value.dtype)!r}"
            )


def logspace(
    start: Any, stop: Any, num: Any, base: Any = 10.0, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """The powers of `base` at equal distances of the exponent from `start` to `stop`, `num` of them."""
    kind = dtype_or_default(dtype)
    numbers = [_given(start, kind), _given(stop, kind), _given(num, VarType.INT32), _given(base, kind)]
    slots = ("Start", "Stop", "Num", "Base")
    inputs = {slot: [var] for slot, var in zip(slots, numbers, strict=True)}
    out = append("logspace", inputs, {"dtype": int(kind)}, dtype=kind, name=name, stop_gradient=True)
    if isinstance(num, Integral):
        out._shape = (int(num),)
    return out


def _given(value: Any, kind: VarType) -> Variable:
    """A number as a tensor of one element, a Variable as it is."""
    return value if isinstance(value, Variable) else constant([1], kind, value)


def eye(
    num_rows: int, num_columns: int | None = None, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """Ones on the diagonal, zeros elsewhere; the numbers of rows and columns may be Variables."""
    kind = dtype_or_default(dtype)
    columns = num_rows if num_columns is None else num_columns
    if isinstance(num_rows, Variable) or isinstance(columns, Variable):
        places = unsqueeze(arange(0, num_rows, dtype="int64"), 1)
        return cast(equal(places, arange(0, columns, dtype="int64")), kind)
    attrs = {"num_rows": num_rows, "num_columns": columns, "dtype": int(kind)}
    return append("eye", {}, attrs, dtype=kind, name=name, stop_gradient=True)


def diag(x: Variable, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Variable:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix."""
    attrs = {"offset": offset, "padding_value": float(padding_value)}
    out = append("diag_v2", {"X": [x]}, attrs, dtype=x.dtype, name=name)
    out.stop_gradient = True  # as in 2.6.2
    return out


def _triangle(layer: str, x: Variable, diagonal: int, lower: bool, name: str | None) -> Variable:
    begin()
    helper = LayerHelper(layer, name=name)
    out = helper.create_variable(name=helper.name, dtype=x.dtype)
    attrs = {"diagonal": diagonal, "lower": lower}
    helper.append_op(type="tril_triu", inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    return out


def tril(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The lower triangles of matrices, zeros above."""
    return _triangle("tril", x, diagonal, True, name)


def triu(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The upper triangles of matrices, zeros below."""
    return _triangle("triu", x, diagonal, False, name)


def meshgrid(*args: Any, **kwargs: Any) -> list[Variable]:
    """For each vector its elements along a dimension of their own, repeated along the others."""
    tensors = as_list(args[0]) if len(args) == 1 else list(args)
    begin()
    helper = LayerHelper("meshgrid", name=kwargs.get("name"))
    outs = [helper.create_variable_for_type_inference(var.dtype) for var in tensors]
    helper.append_op(type="meshgrid", inputs={"X": tensors}, outputs={"Out": outs})
    return outs


# ---------------------------------------------------------------------- facts of a tensor
def shape(input: Variable) -> Variable:
    """The shape when the program runs, as int32."""
    return shape_of(input)


def rank(input: Variable) -> Variable:
    """The number of dimensions, as an int32 of the shape []."""
    return assign(np.array(len(input.shape), np.int32))
