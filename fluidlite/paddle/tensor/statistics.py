"""Order and statistics that 2.x added: extremes, medians, quantiles, counts, running values."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.build import append, check_axis, need_float, need_numbers, need_summable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.arranging import moveaxis, take_along_axis
from fluidlite.paddle.tensor.creation import full_like
from fluidlite.paddle.tensor.logic import isnan, logical_not
from fluidlite.paddle.tensor.manipulation import flatten, reshape, squeeze, stack
from fluidlite.paddle.tensor.math import cast, ceil, divide, floor, running_sum
from fluidlite.paddle.tensor.reduction import Axis, any, reduced, sum
from fluidlite.paddle.tensor.search import sort, where
from fluidlite.paddle.tensor.shapes import as_list, size_of
from fluidlite.paddle.tensor.special import bitwise_not, lerp

__all__ = [
    "amax",
    "amin",
    "bincount",
    "bucketize",
    "count_nonzero",
    "cummax",
    "cummin",
    "cumprod",
    "kthvalue",
    "logcumsumexp",
    "mode",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "quantile",
    "searchsorted",
    "unique_consecutive",
]


# ---------------------------------------------------------------------- reductions
def amax(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The largest elements over `axis`; equal ones share the gradient."""
    return reduced("reduce_amax", x, axis, keepdim, layer="amax", dtype=x.dtype, name=name)


def amin(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The smallest elements over `axis`; equal ones share the gradient."""
    return reduced("reduce_amin", x, axis, keepdim, layer="amin", dtype=x.dtype, name=name)


def nansum(
    x: Variable,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The sum without NaN."""
    zeros = full_like(x, 0)
    return sum(where(isnan(x), zeros, x), axis, dtype, keepdim, name)


def nanmean(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The mean of the elements that are not NaN."""
    for dim in [] if axis is None else as_list(axis):
        check_axis("nanmean", dim, x)
    count = sum(bitwise_not(isnan(x)), axis=axis, keepdim=keepdim, name=name)
    total = nansum(x, axis=axis, keepdim=keepdim, name=name)
    return divide(total, cast_as(count, x))


def cast_as(x: Variable, like: Variable) -> Variable:
    """x in the dtype of `like`, by the method that Variables have."""
    found: Variable = x.astype(like.dtype)
    return found


def count_nonzero(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The number of elements that are not 0."""
    return sum(cast(cast(x, "bool"), "int64"), axis=axis, keepdim=keepdim, name=name)


# ---------------------------------------------------------------------- places in an order
def _with_places(
    op_type: str, x: Variable, attrs: dict[str, Any], name: str | None, slots: str = "Out Indices"
) -> tuple[Variable, Variable]:
    begin()
    helper = LayerHelper(op_type, name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    places = helper.create_variable_for_type_inference(VarType.INT64)
    first, second = slots.split()
    inputs = {"X": [x]} if first == "Out" else {"x": [x]}
    outputs = {first: [out], second: [places]}
    helper.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)
    places.stop_gradient = True
    return out, places


def kthvalue(
    x: Variable, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The k-th smallest element along `axis`, the last one by default, and its place."""
    attrs = {"k": k, "axis": -1 if axis is None else axis, "keepdim": keepdim}
    return _with_places("kthvalue", x, attrs, name)


def mode(
    x: Variable, axis: int = -1, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The most frequent element along `axis`, and the last place that has it."""
    return _with_places("mode", x, {"axis": axis, "keepdim": keepdim}, name)


def _running(
    op_type: str, x: Variable, axis: int | None, dtype: DTypeLike, name: str | None
) -> tuple[Variable, Variable]:
    kind = to_vartype(dtype)
    if kind not in (VarType.INT32, VarType.INT64):
        raise TypeError(
            f"The data type of 'dtype' in {op_type} must be ['int32', 'int64'], but received {dtype}"
        )
    need_numbers(x, op_type)
    if axis is None:
        axis, x = -1, flatten(x)
    attrs = {"axis": axis, "dtype": int(kind)}
    return _with_places(op_type, x, attrs, name, "out indices")


def cummax(
    x: Variable, axis: int | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> tuple[Variable, Variable]:
    """The largest of the elements up to each one along `axis`, or in one row, and its last place."""
    return _running("cummax", x, axis, dtype, name)


def cummin(
    x: Variable, axis: int | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> tuple[Variable, Variable]:
    """The smallest of the elements up to each one along `axis`, or in one row, and its last place."""
    return _running("cummin", x, axis, dtype, name)


def cumprod(
    x: Variable, dim: int | None = None, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """Running products along `dim`."""
    if dtype is not None and to_vartype(dtype) != x.dtype:
        x = cast(x, dtype)
    need_summable(x, "cumprod")
    if not isinstance(dim, int):
        raise TypeError(f"The type of 'dim' in cumprod must be <class 'int'>, but received {type(dim)}.")
    return append("cumprod", {"X": [x]}, {"dim": dim}, dtype=x.dtype, name=name)


def logcumsumexp(
    x: Variable, axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """log of the running sums of exp along `axis`, or in one row."""
    x = x if dtype is None else cast(x, dtype)
    need_float(x, "logcumsumexp")
    return running_sum("logcumsumexp", x, axis, name)


def searchsorted(
    sorted_sequence: Variable,
    values: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Variable:
    """The places of `values` in a sorted sequence, or in that of their row; `right`: behind equal ones."""
    inputs = {"SortedSequence": [sorted_sequence], "Values": [values]}
    kind = VarType.INT32 if out_int32 else VarType.INT64
    attrs = {"out_int32": out_int32, "right": right}
    return append("searchsorted", inputs, attrs, dtype=kind, name=name, stop_gradient=True)


def bucketize(
    x: Variable,
    sorted_sequence: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Variable:
    """The numbers of the buckets between the limits of a sorted sequence."""
    if len(sorted_sequence.shape) != 1:
        raise ValueError(
            f"sorted_sequence tensor must be 1 dimension, but got dim {len(sorted_sequence.shape)}"
        )
    return searchsorted(sorted_sequence, x, out_int32, right, name)


def bincount(
    x: Variable, weights: Variable | None = None, minlength: int = 0, name: str | None = None
) -> Variable:
    """How often each of 0, 1, ... occurs, or the sums of their weights."""
    if x.dtype not in (VarType.INT32, VarType.INT64):
        raise TypeError(f"Elements in Input(x) should all be integers, but x is {x.dtype.name}")
    inputs = {"X": [x], **({} if weights is None else {"Weights": [weights]})}
    kind = VarType.INT64 if weights is None else weights.dtype
    attrs = {"minlength": minlength}
    return append("bincount", inputs, attrs, dtype=kind, name=name, stop_gradient=True)


def unique_consecutive(
    x: Variable,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Any:
    """The elements (or slices along `axis`) without those that equal the one before; where asked for, which
    one each element is, and how often each occurs.
    """
    begin()
    helper = LayerHelper("unique_consecutive", name=name)
    kind = to_vartype(dtype)
    attrs = {
        "dtype": int(kind),
        "return_inverse": return_inverse,
        "return_counts": return_counts,
        "axis": [] if axis is None else [axis],
    }
    kinds = (x.dtype, kind, kind)
    outs = [helper.create_variable_for_type_inference(one, stop_gradient=True) for one in kinds]
    slots = {slot: [var] for slot, var in zip(("Out", "Index", "Counts"), outs, strict=True)}
    helper.append_op(type="unique_consecutive", inputs={"X": [x]}, outputs=slots, attrs=attrs)
    found = [outs[0], *outs[1:2] * return_inverse, *outs[2:] * return_counts]
    return found[0] if len(found) == 1 else tuple(found)


# ---------------------------------------------------------------------- medians and quantiles
def nanmedian(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The median of the elements that are not NaN."""
    if isinstance(axis, (list, tuple)) and not axis:
        raise ValueError("Axis list should not be empty.")
    dims = [] if axis is None else as_list(axis)
    for dim in dims:
        check_axis("nanmedian", dim, x)
    if len({dim % max(len(x.shape), 1) for dim in dims}) < len(dims):
        raise ValueError("Axis has duplicated elements.")
    attrs = {"axis": dims, "keepdim": keepdim}
    extra = {"MedianIndex": VarType.INT64}
    return append("nanmedian", {"X": [x]}, attrs, dtype=x.dtype, name=name, extra=extra)


def quantile(x: Variable, q: Any, axis: Any = None, keepdim: bool = False) -> Variable:
    """The quantiles q, between 0 and 1, along `axis`, in double precision; NaN where there is one. Several of
    them, more than one, lie along a new first dimension.
    """
    return _quantiles(x, q, axis, keepdim, ignores_nan=False)


def nanquantile(x: Variable, q: Any, axis: Any = None, keepdim: bool = False) -> Variable:
    """`quantile` of the elements that are not NaN."""
    return _quantiles(x, q, axis, keepdim, ignores_nan=True)


def _shares(q: Any) -> list[float]:
    shares = as_list(q)
    if not shares or not all(isinstance(one, (int, float)) for one in shares):
        raise TypeError(f"q should be a number or a list of numbers, but received {q!r}")
    if not all(0 <= one <= 1 for one in shares):
        raise ValueError(f"q should be in range [0, 1], but received {q!r}")
    return shares


def _lined_up(x: Variable, axis: Any) -> tuple[Variable, int, list[int]]:
    """x with the dimensions `axis` as one, its number, and the shape of a result that keeps them as ones."""
    rank = len(x.shape)
    if axis is None or axis in ([], ()):
        return flatten(x), 0, [1] * rank
    if not isinstance(axis, (int, list, tuple)):
        raise ValueError(f"axis should be None, int, or a list of int, but received {axis!r}")
    for one in as_list(axis):
        check_axis("quantile", one, x)
    dims = sorted(one % rank for one in as_list(axis))
    kept = [1 if i in dims else dim for i, dim in enumerate(x.shape)]
    if isinstance(axis, Integral):
        return x, dims[0], kept
    target = list(range(dims[0], dims[0] + len(dims)))
    return flatten(moveaxis(x, dims, target), target[0], target[-1]), dims[0], kept


def _quantiles(x: Variable, q: Any, axis: Any, keepdim: bool, ignores_nan: bool) -> Variable:
    shares = _shares(q)
    x, at, kept = _lined_up(x, axis)
    nans = isnan(x)
    count = sum(logical_not(nans), axis=at, dtype="float64", keepdim=True)
    places = []
    for share in shares:
        place = (count - 1) * share
        if not ignores_nan:  # NaN come last in the order
            end = size_of(x, at) - 1
            last = full_like(place, 0) + end if isinstance(end, Variable) else full_like(place, end)
            place = where(any(nans, axis=at, keepdim=True), last, place)
        places.append(place)
    ordered = sort(x, at)
    found = []
    for place in places:
        low = cast_to_int32(floor(place))
        high = cast_to_int32(ceil(place))
        upper = take_along_axis(ordered, high, at)
        lower = take_along_axis(ordered, low, at)
        weight = place - low.astype("float64")
        out = lerp(lower.astype("float64"), upper.astype("float64"), weight)
        found.append(reshape(out, kept) if keepdim else squeeze(out, at))
    return stack(found, 0) if len(found) > 1 else found[0]


def cast_to_int32(x: Variable) -> Variable:
    """x as places."""
    found: Variable = x.astype("int32")
    return found
