"""`fluid.layers.tensor`: tensors made, copied, searched and examined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import device_guard
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors import constants, variables
from fluidlite.layers.tensors.constants import *  # noqa: F403
from fluidlite.layers.tensors.constants import fill_constant, numbers_between
from fluidlite.layers.tensors.shaping import stack
from fluidlite.layers.tensors.variables import *  # noqa: F403

__all__ = [
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "eye",
    "full",
    "full_like",
    "has_inf",
    "has_nan",
    "isfinite",
    "kron",
    "reverse",
    "tensor_array_to_tensor",
    "trace",
    "tril",
    "triu",
]
__all__ += constants.__all__
__all__ += variables.__all__

_NUMBERS = ["float32", "float64", "int32", "int64"]
_SMALL = ["float32", "float64", "uint8", "int16", "int32", "int64"]


def _extreme(type: str, x: Variable, axis: int) -> Variable:
    return one_op(type, {"X": x}, {"axis": axis}, dtype=VarType.INT64, stop_gradient=True)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The index (int64) of the smallest element along dimension `axis`, which goes away."""
    check_variable_and_dtype(x, "x", _SMALL, "argmin")
    return _extreme("arg_min", x, axis)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The positions of the largest elements along one dimension.

    Parameters
    ----------
    x: a Variable.
    axis: the dimension; negative numbers count from the end.

    Returns
    -------
    An int64 Variable without that dimension.

    >>> x = fluid.layers.assign(np.array([[1, 5, 3], [4, 2, 0]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.argmax(x, axis=1)])[0]
    array([1, 0])
    """
    check_variable_and_dtype(x, "x", _SMALL, "argmax")
    return _extreme("arg_max", x, axis)


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The elements sorted along dimension `axis`, and (int64) where each of them stood before."""
    check_variable_and_dtype(input, "input", _SMALL, "argsort")
    helper = LayerHelper("argsort", input=input, axis=axis, descending=descending, name=name)
    out = helper.create_variable_for_type_inference(dtype=input.dtype, stop_gradient=True)
    ids = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    helper.append_op(
        type="argsort",
        inputs={"X": input},
        outputs={"Out": out, "Indices": ids},
        attrs={"axis": axis, "descending": descending},
    )
    return out, ids


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """`x` in reverse order along one or several dimensions."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64", "uint8"], "reverse")
    check_type(axis, "axis", (int, tuple, list), "reverse")
    return one_op("reverse", {"X": x}, {"axis": [axis] if isinstance(axis, int) else axis}, dtype=x.dtype)


def has_inf(x: Variable) -> Variable:
    """True if any element is infinite; of shape [1]."""
    check_type(x, "x", Variable, "has_inf")
    return one_op("isinf", {"X": x}, dtype=x.dtype)


def has_nan(x: Variable) -> Variable:
    """True if any element is not a number; of shape [1]."""
    check_type(x, "x", Variable, "has_nan")
    return one_op("isnan", {"X": x}, dtype=x.dtype)


def isfinite(x: Variable) -> Variable:
    """True if all elements are finite numbers; of shape [1]."""
    check_variable_and_dtype(x, "x", _NUMBERS, "isfinite")
    return one_op("isfinite", {"X": x}, dtype="bool")


def _triangle(input: Variable, diagonal: int, name: str | None, lower: bool) -> Variable:
    op_type = "tril" if lower else "triu"
    check_variable_and_dtype(input, "x", _NUMBERS, op_type)
    if len(input.shape) < 2:
        raise ValueError(f"x shape in {op_type} must be at least 2-D")
    if not isinstance(diagonal, int):
        raise TypeError(f"diagonal in {op_type} must be a python Int")
    helper = LayerHelper(op_type, input=input, diagonal=diagonal, name=name)
    out = helper.create_variable(name=helper.name, dtype=input.dtype, persistable=False)
    helper.append_op(
        type="tril_triu",
        inputs={"X": input},
        outputs={"Out": out},
        attrs={"diagonal": diagonal, "lower": lower},
    )
    return out


def tril(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements on and below the diagonal `diagonal` (counted upwards) of each matrix, zeros elsewhere."""
    return _triangle(input, diagonal, name, lower=True)


def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements on and above the diagonal `diagonal` (counted upwards) of each matrix, zeros elsewhere."""
    return _triangle(input, diagonal, name, lower=False)


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Sequence[int] | None = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """The identity matrix, repeated over the dimensions of `batch_shape` where that is given."""
    for name, value in (
        ("num_rows", num_rows),
        ("num_columns", num_rows if num_columns is None else num_columns),
    ):
        if not isinstance(value, int) or value < 0:
            raise TypeError(f"{name} should be a non-negative int")
    attrs = {
        "num_rows": num_rows,
        "num_columns": num_rows if num_columns is None else num_columns,
        "dtype": int(to_vartype(dtype)),
    }
    out = one_op("eye", {}, attrs, dtype=dtype, stop_gradient=True)
    if batch_shape is None:
        return out
    if not isinstance(batch_shape, list):
        raise TypeError("batch_shape should be a list")
    for dim in reversed(batch_shape):
        if dim <= 0:
            raise TypeError("batch_shape should be a positive int list")
        out = stack([out] * dim, axis=0)
    return out


def kron(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The Kronecker product: every element of `x` times the whole of `y`."""
    check_variable_and_dtype(x, "x", ["float16", *_NUMBERS], "kron")
    check_variable_and_dtype(y, "y", ["float16", *_NUMBERS], "kron")
    if out is not None:
        check_variable_and_dtype(out, "out", ["float16", *_NUMBERS], "kron")
    return one_op("kron", {"X": x, "Y": y}, dtype=x.dtype, name=name, out=out)


def trace(
    input: Variable,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The sums of the diagonals `offset` (counted upwards) of the matrices in dimensions `dim1` and
    `dim2`.
    """
    check_variable_and_dtype(input, "Input", _NUMBERS, "trace")
    rank = len(input.shape)
    assert rank >= 2, f"The input must be at least 2-dimensional, But received Input's dimensional: {rank}."
    for dim_name, dim in (("dim1", dim1), ("dim2", dim2)):
        assert -rank <= dim < rank, (
            f"{dim_name} is out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})."
        )
    assert dim1 % rank != dim2 % rank, (
        f"dim1 and dim2 cannot be the same dimension. But received dim1 = {dim1}, dim2 = {dim2}"
    )
    if out is not None:
        check_variable_and_dtype(out, "out", _NUMBERS, "trace")
    return one_op(
        "trace",
        {"Input": [input]},
        {"offset": offset, "dim1": dim1, "dim2": dim2},
        dtype=input.dtype,
        name=name,
        out=out,
    )


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """The tensors of an array, concatenated (or stacked) along `axis`, and the size (int32) of each along
    it.
    """
    check_type(input, "input", (list, Variable), "tensor_array_to_tensor")
    helper = LayerHelper("tensor_array_to_tensor", input=input, axis=axis, name=name)
    out = helper.create_variable_for_type_inference(dtype=helper.input_dtype())
    sizes = helper.create_variable_for_type_inference(dtype="int32")
    helper.append_op(
        type="tensor_array_to_tensor",
        inputs={"X": input},
        outputs={"Out": [out], "OutIndex": [sizes]},
        attrs={"axis": axis, "use_stack": use_stack},
    )
    return out, sizes


def full(
    shape: Variable | Sequence[int],
    fill_value: float,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor of `shape`, float32 unless `dtype` says otherwise, with every element `fill_value`."""
    helper = LayerHelper("full", name=name)
    if dtype is None:
        dtype = "float32"
    check_dtype(dtype, "create data type", ["bool", "float16", *_NUMBERS], "full")
    check_type(shape, "shape", (Variable, list, tuple), "full")
    if device not in ("cpu", "gpu", None):
        raise ValueError(
            f"The value of 'device' in full operation must be cpu or gpu, but received {device}."
        )
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype)
    check_type(out, "out", Variable, "full")
    out.stop_gradient = stop_gradient
    with device_guard(device):
        out = fill_constant(shape=shape, dtype=dtype, value=fill_value, out=out)
    return out


def full_like(
    input: Variable,
    fill_value: float,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor of the shape of `input`, and of its dtype unless `dtype` is given, with every element
    `fill_value`.
    """
    dtype = input.dtype if dtype is None else dtype
    check_dtype(dtype, "dtype", ["bool", "float16", *_NUMBERS], "full_like")
    out = one_op(
        "fill_any_like",
        {"X": [input]},
        {"value": float(fill_value), "dtype": int(to_vartype(dtype))},
        dtype=dtype,
        layer="full_like",
        name=name,
        out=out,
    )
    out.stop_gradient = stop_gradient
    return out


def arange(
    start: Any, end: Any, step: Any = 1, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """`start`, `start + step`, ... up to but without `end`, float32 unless `dtype` says otherwise."""
    # `range` refuses NumPy's numbers, as in 1.8.5; this one takes them
    plain = [value.item() if isinstance(value, np.number) else value for value in (start, end, step)]
    return numbers_between(plain[0], plain[1], plain[2], "float32" if dtype is None else dtype, name)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
