"""`paddle.tensor.search`: order, extremes, and elements that are found by a condition or by number."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.build import append
from fluidlite.paddle.programs import begin
from fluidlite.paddle.promotion import beside_number, promoted
from fluidlite.paddle.tensor.chosen_axis import along
from fluidlite.paddle.tensor.creation import full_like
from fluidlite.paddle.tensor.manipulation import slice
from fluidlite.paddle.tensor.math import add, cast
from fluidlite.paddle.tensor.shapes import constant

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "index_sample",
    "index_select",
    "masked_select",
    "nonzero",
    "sort",
    "topk",
    "where",
]


def argmax(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Variable:
    """The place of the largest element along `axis`, or among all in one row."""
    return _argument("arg_max", "argmax", x, axis, keepdim, dtype, name)


def argmin(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Variable:
    """The place of the smallest element along `axis`, or among all in one row."""
    return _argument("arg_min", "argmin", x, axis, keepdim, dtype, name)


def _argument(
    op_type: str, layer: str, x: Variable, axis: int | None, keepdim: bool, dtype: DTypeLike, name: str | None
) -> Variable:
    if dtype is None:
        raise ValueError(f"the value of 'dtype' in {layer} could not be None, but received {dtype}")
    kind = to_vartype(dtype)
    if kind not in (VarType.INT32, VarType.INT64):
        raise TypeError(
            f"The data type of 'dtype' in {layer} must be ['int32', 'int64'], but received {dtype}"
        )
    if isinstance(axis, Variable):
        found = along(layer, x, axis, lambda at: _argument(op_type, layer, x, at[0], keepdim, dtype, name))
        found.stop_gradient = True
        return found
    flat = axis is None
    attrs = {"axis": axis or 0, "keepdims": keepdim, "flatten": flat, "dtype": int(kind)}
    scalar = flat and not keepdim
    return append(
        op_type, {"X": [x]}, attrs, dtype=kind, layer=layer, name=name, scalar=scalar, stop_gradient=True
    )


def _sorted(layer: str, x: Variable, axis: int, descending: bool) -> tuple[Variable, Variable]:
    begin()
    helper = LayerHelper(layer)
    out = helper.create_variable_for_type_inference(x.dtype)
    places = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    attrs = {"axis": axis, "descending": descending}
    outputs = {"Out": [out], "Indices": [places]}
    helper.append_op(type="argsort", inputs={"X": [x]}, outputs=outputs, attrs=attrs)
    return out, places


def argsort(x: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> Variable:
    """The places of the elements in sorted order."""
    return _sorted("argsort", x, axis, descending)[1]


def sort(x: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> Variable:
    """The elements in sorted order."""
    return _sorted("sort", x, axis, descending)[0]


def topk(
    x: Variable,
    k: Any,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The k largest (or smallest) elements along `axis`, the last one by default, and where they stand."""
    begin()
    helper = LayerHelper("top_k_v2", name=name)
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"largest": largest, "sorted": sorted}
    if isinstance(k, Variable):
        inputs["K"] = [k]
    else:
        attrs["k"] = k
    if axis is not None:
        attrs["axis"] = axis
    values = helper.create_variable_for_type_inference(x.dtype)
    places = helper.create_variable_for_type_inference(VarType.INT64)
    helper.append_op(
        type="top_k_v2", inputs=inputs, outputs={"Out": [values], "Indices": [places]}, attrs=attrs
    )
    places.stop_gradient = True
    return values, places


def nonzero(x: Variable, as_tuple: bool = False) -> Any:
    """The places of elements that are not 0, a row each; `as_tuple`: a column for each dimension."""
    out = append("where_index", {"Condition": [x]}, dtype=VarType.INT64)
    if not as_tuple:
        return out
    rank = len(x.shape)
    if rank <= 1:
        return (out,)
    return tuple(slice(out, [1], [i], [i + 1]) for i in range(rank))


def where(condition: Variable, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements of x where the condition holds, else of y; without both `nonzero(condition, True)`."""
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    check_variable_and_dtype(condition, "condition", ["bool"], "where")
    x, y = _beside_numbers(x, y)
    # before they are laid over each other, which takes them in one dtype
    x, y = (found[0] for found in promoted("where", {"X": [x], "Y": [y]}, cast).values())
    if not condition.shape == x.shape == y.shape:
        condition, x, y = _laid_over(condition, x, y)
    inputs = {"Condition": [condition], "X": [x], "Y": [y]}
    return append("where", inputs, dtype=x.dtype, name=name)


def _beside_numbers(x: Any, y: Any) -> tuple[Variable, Variable]:
    """Both as Variables: a number as a tensor of the shape [1], in a dtype that the other one is cast to."""
    like = x if isinstance(x, Variable) else y
    if not isinstance(like, Variable):
        return _number(x), _number(y)
    number = y if like is x else x
    if isinstance(number, Variable):
        return x, y
    dtype = beside_number(like.dtype, number)
    var = like if like.dtype == dtype else cast(like, dtype)
    other = constant([1], dtype, number)
    return (var, other) if like is x else (other, var)


def _number(value: Any) -> Variable:
    return constant([1], VarType.INT64 if isinstance(value, Integral) else VarType.FP64, value)


def _laid_over(condition: Variable, x: Variable, y: Variable) -> tuple[Variable, Variable, Variable]:
    """The three in the shape that they have in common: zeros of it are added, as 2.6.2 does."""
    like_x, like_y, like_condition = full_like(x, 0.0), full_like(y, 0.0), full_like(condition, 0.0)
    zeros = cast(like_condition, x.dtype)
    chosen = cast(condition, x.dtype)
    common = add(add(like_x, like_y), zeros)
    x, y, chosen = add(x, common), add(y, common), add(chosen, common)
    return cast(chosen, VarType.BOOL), x, y


def masked_select(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """The elements of x where the mask holds, in one row."""
    inputs = {"X": [x], "Mask": [mask]}
    return append("masked_select", inputs, dtype=x.dtype, name=name, slot="Y")


def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """The slices of x along `axis` that `index` names."""
    inputs = {"X": [x], "Index": [index]}
    return append("index_select", inputs, {"dim": axis}, dtype=x.dtype, name=name)


def index_sample(x: Variable, index: Variable) -> Variable:
    """From each row of x the elements that the same row of `index` names."""
    return append("index_sample", {"X": [x], "Index": [index]}, dtype=x.dtype)
