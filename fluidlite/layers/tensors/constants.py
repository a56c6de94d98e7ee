"""Layers that make tensors out of numbers: constants, ranges, diagonal matrices; and shapes given as
Variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, DTypeLike, to_vartype
from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors.variables import assign, cast

__all__ = [
    "diag",
    "fill_constant",
    "fill_constant_batch_size_like",
    "linspace",
    "ones",
    "ones_like",
    "range",
    "zeros",
    "zeros_like",
]

Dims = Sequence["int | Variable"]

_INTS = ["int32", "int64"]
_NUMBERS = ["float32", "float64", "int32", "int64"]
_FILLS = ["bool", "float16", "float32", "float64", "int32", "int64"]


def has_variable(items: Any) -> bool:
    """True if a list or tuple holds a Variable."""
    return any(isinstance(item, Variable) for item in items)


def shape_tensors(dims: Dims, temporary: Callable[[], Variable | None] = lambda: None) -> list[Variable]:
    """One int32 tensor for each of `dims`, numbers and Variables mixed; `temporary` makes the tensors for
    numbers.
    """
    found = []
    for dim in dims:
        var = (
            dim
            if isinstance(dim, Variable)
            else fill_constant([1], "int32", whole(dim), force_cpu=True, out=temporary())
        )
        var.stop_gradient = True
        found.append(var)
    return found


def static_dims(dims: Dims) -> list[int]:
    """The numbers among `dims`, -1 for each Variable."""
    return [-1 if isinstance(dim, Variable) else whole(dim) for dim in dims]


def whole(number: Any) -> int:
    """An integer, be it written as 2.0; ArgumentError for fractions, text and anything else."""
    try:
        if int(number) == number:
            return int(number)
    except (TypeError, ValueError):
        pass
    raise ArgumentError(f"a size, index or count must be an integer, but is {number!r}")


def _shape_arguments(shape: Any, op_type: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and attributes that say the shape of what an op makes."""
    if isinstance(shape, Variable):
        check_variable_and_dtype(shape, "shape", _INTS, op_type)
        shape.stop_gradient = True
        return {"ShapeTensor": _as_int32(shape)}, {}
    if len(shape) == 0:
        raise AssertionError(f"The size of 'shape' in {op_type} can't be zero, but received {len(shape)}.")
    for dim in shape:
        if isinstance(dim, Variable):
            check_dtype(dim.dtype, "shape", _INTS, op_type)
    attrs = {"shape": static_dims(shape)}
    if not has_variable(shape):
        return {}, attrs
    dims = [_as_int32(dim) if isinstance(dim, Variable) else dim for dim in shape]
    return {"ShapeTensorList": shape_tensors(dims)}, attrs


def _as_int32(shape: Variable) -> Variable:
    """The same in int32, which is what the op's kernels read in Paddle."""
    return cast(shape, "int32") if convert_dtype(shape.dtype) == "int64" else shape


def _as_text(value: Any, dtype: DTypeLike) -> str:
    """The number as an op keeps it beside its float32 attribute, so that large integers and doubles stay
    exact.
    """
    return str(int(value)) if convert_dtype(dtype) in ("int64", "int32") else str(float(value))


def single(value: Any) -> Any:
    """An array of one element as a number, which NumPy no longer makes of it; anything else as it is."""
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


def fill_constant(
    shape: Variable | Dims, dtype: DTypeLike, value: Any, force_cpu: bool = False, out: Variable | None = None
) -> Variable:
    """A Variable with the same number in every element.

    Parameters
    ----------
    shape: the sizes: a list, which may hold Variables of one element, or a one-dimensional int32 Variable.
    dtype: the data type, such as "float32" or "int64".
    value: the number, or a Variable of one element.
    force_cpu: keep the result on the host in programs for a device.
    out: the Variable to write to; None makes a new one.

    Returns
    -------
    A Variable of this shape.

    >>> exe.run(fetch_list=[fluid.layers.fill_constant([2, 2], "float32", 0.5)])[0]
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    inputs: dict[str, Any] = {}
    attrs: dict[str, Any] = {"force_cpu": force_cpu}
    if isinstance(value, Variable):
        inputs["ValueTensor"] = value
    else:
        value = single(value)
        attrs["value"], attrs["str_value"] = float(value), _as_text(value, dtype)
    check_dtype(dtype, "dtype", _FILLS, "fill_constant")
    check_type(shape, "shape", (Variable, list, tuple), "fill_constant")
    if out is not None:
        check_variable_and_dtype(out, "out", [convert_dtype(dtype)], "fill_constant")
    helper = LayerHelper("fill_constant")
    shape_inputs, shape_attrs = _shape_arguments(shape, "fill_constant")
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype)
    helper.append_op(
        type="fill_constant",
        inputs={**inputs, **shape_inputs},
        outputs={"Out": [out]},
        attrs={**attrs, **shape_attrs, "dtype": int(out.dtype)},
    )
    out.stop_gradient = True
    return out


def fill_constant_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: DTypeLike,
    value: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """A Variable with the same number in every element, and with one size taken from another Variable.

    Parameters
    ----------
    input: the Variable whose size is taken.
    shape: the sizes; the one at `output_dim_idx` is replaced.
    dtype: the data type.
    value: the number.
    input_dim_idx: the dimension of `input` whose size is taken.
    output_dim_idx: the dimension of the result that gets it.
    force_cpu: keep the result on the host in programs for a device.

    Returns
    -------
    A Variable of this shape.

    >>> x = fluid.data("x", [None, 3])
    >>> zeros = fluid.layers.fill_constant_batch_size_like(x, [1, 4], "float32", 0.0)
    >>> exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[zeros])[0].shape
    (2, 4)
    """
    value = single(value)
    attrs = {
        "shape": shape,
        "dtype": int(to_vartype(dtype)),
        "value": float(value),
        "str_value": _as_text(value, dtype),
        "input_dim_idx": input_dim_idx,
        "output_dim_idx": output_dim_idx,
        "force_cpu": force_cpu,
    }
    return one_op("fill_constant_batch_size_like", {"Input": input}, attrs, dtype=dtype, stop_gradient=True)


def ones(shape: Dims, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor of ones."""
    check_type(shape, "shape", (list, tuple), "ones")
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape: Dims, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A Variable of zeros.

    Parameters
    ----------
    shape: the sizes: a list or a one-dimensional int32 Variable.
    dtype: the data type, such as "float32" or "int64".
    force_cpu: keep the result on the host in programs for a device.

    Returns
    -------
    A Variable of this shape, without gradient.

    >>> exe.run(fetch_list=[fluid.layers.zeros([3], "int64")])[0]
    array([0, 0, 0])
    """
    check_type(shape, "shape", (list, tuple), "zeros")
    check_dtype(dtype, "create data type", _FILLS, "zeros")
    return fill_constant(shape, dtype, 0.0, force_cpu)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros of the shape and dtype of `x`."""
    for key, var in (("x", x), ("out", out)) if out is not None else (("x", x),):
        check_variable_and_dtype(var, key, ["bool", *_NUMBERS], "ones_like")
    return one_op(
        "fill_zeros_like", {"X": [x]}, dtype=x.dtype, layer="zeros_like", out=out, stop_gradient=True
    )


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones of the shape and dtype of `x`."""
    check_variable_and_dtype(x, "x", ["bool", *_NUMBERS], "ones_like")
    if out is not None:
        check_variable_and_dtype(out, "out", ["bool", *_NUMBERS], "ones_like")
    return one_op("fill_any_like", {"X": [x]}, {"value": 1.0}, dtype=x.dtype, layer="ones_like", out=out)


def _number(value: Any, dtype: DTypeLike) -> Variable:
    return value if isinstance(value, Variable) else fill_constant([1], dtype, value)


def range(start: Any, end: Any, step: Any, dtype: DTypeLike) -> Variable:
    """`start`, `start + step`, ... up to but without `end`, each a number or a one-element Variable."""
    return numbers_between(start, end, step, dtype, None)


def numbers_between(start: Any, end: Any, step: Any, dtype: DTypeLike, name: str | None) -> Variable:
    """`range` under a name."""
    check_type(start, "start", (float, int, Variable), "range")
    check_type(end, "end", (float, int, Variable), "range")
    check_type(step, "step", (float, int, Variable), "range")
    found = {}
    for slot, value in (("Start", start), ("End", end), ("Step", step)):
        var = _number(value, dtype)
        found[slot] = var if var.dtype == to_vartype(dtype) else cast(var, dtype)
    return one_op("range", found, dtype=dtype, name=name, stop_gradient=True)


def linspace(start: Any, stop: Any, num: Any, dtype: DTypeLike) -> Variable:
    """`num` numbers at equal distances from `start` to `stop`; float32 or float64."""
    check_dtype(dtype, "dtype", ["float32", "float64"], "linspace")
    for name, given, kinds in (
        ("start", start, ["float32", "float64"]),
        ("stop", stop, ["float32", "float64"]),
        ("num", num, ["int32"]),
    ):
        if isinstance(given, Variable):
            check_dtype(given.dtype, name, kinds, "linspace")
    first, last, count = _number(start, dtype), _number(stop, dtype), _number(num, "int32")
    return one_op("linspace", {"Start": first, "Stop": last, "Num": count}, dtype=first.dtype)


def diag(diagonal: Variable | Array) -> Variable:
    """The square matrix with `diagonal` on its diagonal and zeros elsewhere."""
    if not isinstance(diagonal, Variable):
        diagonal = assign(diagonal)
    check_dtype(diagonal.dtype, "diagonal", ["float32", "float64", "int32", "int64"], "diag")
    return one_op("diag", {"Diagonal": [diagonal]}, dtype=diagonal.dtype, stop_gradient=True)
