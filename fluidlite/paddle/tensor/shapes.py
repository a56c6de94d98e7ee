"""Shapes, and numbers in general, that are given as a list with Variables in it, or as a Variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import check_dtype, check_type
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensors.constants import static_dims
from fluidlite.paddle.build import append

__all__ = [
    "as_list",
    "check_shape",
    "constant",
    "number_tensors",
    "shape_arguments",
    "shape_of",
    "size_of",
    "text_of",
]


def as_list(value: Any) -> list[Any]:
    """One thing, or several of them, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def text_of(value: Any, dtype: DTypeLike) -> str:
    """The number as an op keeps it beside its float32 attribute."""
    integer = to_vartype(dtype) in (VarType.INT16, VarType.INT32, VarType.INT64)
    return str(int(value)) if integer else str(float(value))


def constant(shape: Sequence[int], dtype: DTypeLike, value: Any, force_cpu: bool = False) -> Variable:
    """A tensor of `shape` with every element `value`."""
    unique_name.generate("fill_constant")  # 2.6.2 counts each of these twice
    return append(
        "fill_constant",
        {},
        {
            "shape": list(shape),
            "dtype": to_vartype(dtype),
            "value": float(value),
            "str_value": text_of(value, dtype),
            "force_cpu": force_cpu,
            "place_type": -1,
        },
        dtype=dtype,
        stop_gradient=True,
    )


def number_tensors(
    dims: Sequence[Any], shape: Sequence[int] = (1,), dtype: DTypeLike = "int32"
) -> list[Variable]:
    """A tensor of `shape` for each of `dims`, numbers and Variables mixed."""
    found = []
    for dim in dims:
        var = dim if isinstance(dim, Variable) else constant(shape, dtype, int(dim), force_cpu=True)
        var.stop_gradient = True
        found.append(var)
    return found


def _as_int32(var: Any) -> Any:
    if isinstance(var, Variable) and var.dtype != VarType.INT32:
        return append(
            "cast",
            {"X": [var]},
            {"in_dtype": var.dtype, "out_dtype": VarType.INT32},
            dtype=VarType.INT32,
            stop_gradient=True,
        )
    return var


def shape_arguments(shape: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and attributes that say the shape of what an op makes."""
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        return {"ShapeTensor": [shape]}, {}
    dims = list(shape)
    inputs: dict[str, Any] = {}
    if any(isinstance(dim, Variable) for dim in dims):
        tensors: list[Variable] = []
        for dim in dims:
            tensors += [_as_int32(dim)] if isinstance(dim, Variable) else number_tensors([dim], ())
        inputs["ShapeTensorList"] = tensors
    return inputs, {"shape": static_dims(dims)}


def check_shape(
    shape: Any,
    op_name: str,
    expected_shape_type: Any = (list, tuple, Variable),
    expected_element_type: Any = (int, Variable),
    expected_tensor_dtype: Any = ("int32", "int64"),
) -> None:
    """TypeError unless `shape` can be the shape of what the function `op_name` makes."""
    check_type(shape, "shape", expected_shape_type, op_name)
    if isinstance(shape, Variable):
        check_dtype(shape.dtype, "shape", expected_tensor_dtype, op_name)
        return
    for each in shape:
        check_type(each, "element of shape", expected_element_type, op_name)
        if isinstance(each, Variable):
            check_dtype(each.dtype, "element of shape", expected_tensor_dtype, op_name)


def size_of(x: Variable, axis: int) -> Any:
    """The size of a dimension of x: a number, or a Variable [] of int32 where that is not known."""
    return x.shape[axis] if x.shape[axis] >= 0 else shape_of(x)[axis]


def shape_of(x: Variable) -> Variable:
    """The shape of x when the program runs."""
    return append("shape", {"Input": [x]}, dtype=VarType.INT32, stop_gradient=True)
