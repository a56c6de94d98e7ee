"""Sums, means, extremes, norms and spreads over dimensions: parts of `paddle.tensor.math` and `stat`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layers.math_op_patch import astype
from fluidlite.layers.signatures import Reduction
from fluidlite.paddle.build import append, check_axis, need_float
from fluidlite.paddle.tensor.chosen_axis import along, is_chosen
from fluidlite.paddle.tensor.manipulation import flatten, reshape, slice, squeeze
from fluidlite.paddle.tensor.math import cast, pow, sqrt
from fluidlite.paddle.tensor.search import topk, where
from fluidlite.paddle.tensor.shapes import constant

__all__ = ["all", "any", "logsumexp", "max", "mean", "median", "min", "numel", "prod", "std", "sum", "var"]

Axis = int | Sequence[int] | None


def axes_of(x: Variable, axis: Any) -> tuple[list[int], bool]:
    """The dimensions that `axis` names, as they were given, and True if these are all of x's."""
    dims: list[int] = []
    if is_chosen(axis):
        raise TypeError(f"the axis of a reduction must be known at building time, but is {axis}")
    if axis is not None:
        dims = list(axis) if isinstance(axis, (list, tuple, range)) else [int(axis)]
    for dim in dims:
        check_axis("a reduction", dim, x)
    named = {dim % len(x.shape) for dim in dims} if x.shape else set(dims)
    return dims, not dims or len(named) == len(x.shape)


def reduced(
    op_type: str,
    x: Variable,
    axis: Any,
    keepdim: bool,
    *,
    layer: str,
    dtype: VarType,
    name: str | None,
    attrs: dict[str, Any] | None = None,
    says_all: bool = True,
) -> Variable:
    """A reduction; `says_all` False leaves `reduce_all` unset, as 2.6.2's sum does."""
    if x.dtype in (VarType.COMPLEX64, VarType.COMPLEX128) and op_type != "reduce_sum":
        raise TypeError(
            f"The data type of 'x' in {op_type} must be of integers or fractions, but received {x.dtype.name}"
        )
    if is_chosen(axis):
        over = partial(reduced, layer=layer, dtype=dtype, name=name, attrs=attrs, says_all=says_all)
        return along(layer, x, axis, lambda dims: over(op_type, x, dims, keepdim))
    dims, whole = axes_of(x, axis)
    found = {"dim": dims, "keep_dim": keepdim, "reduce_all": whole and says_all, **(attrs or {})}
    scalar = not x.shape or (whole and not keepdim)
    return append(op_type, {"X": [x]}, found, dtype=dtype, layer=layer, name=name, scalar=scalar)


def _reduction(op_type: str, layer: str, dtype: VarType | None = None) -> Reduction:
    def function(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
        kind = x.dtype if dtype is None else dtype
        return reduced(op_type, x, axis, keepdim, layer=layer, dtype=kind, name=name)

    function.__name__ = function.__qualname__ = layer
    function.__doc__ = f"`{op_type}` over `axis`, or over all dimensions; the shape is [] then."
    return function


mean, max, min = (
    _reduction("reduce_mean", "mean"),
    _reduction("reduce_max", "max"),
    _reduction("reduce_min", "min"),
)
all, any = _reduction("reduce_all", "all", VarType.BOOL), _reduction("reduce_any", "any", VarType.BOOL)


def sum(
    x: Variable,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The sum over `axis`, or over all dimensions, in `dtype`; booleans and int32 add up to int64."""
    kind, attrs = x.dtype, {}
    if dtype is not None:
        kind = to_vartype(dtype)
        attrs = {"in_dtype": int(x.dtype), "out_dtype": int(kind)} if kind != x.dtype else {}
    elif x.dtype in (VarType.BOOL, VarType.INT32):
        kind = VarType.INT64
    return reduced(
        "reduce_sum", x, axis, keepdim, layer="sum", dtype=kind, name=name, attrs=attrs, says_all=False
    )


def prod(
    x: Variable,
    axis: Axis = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """The product over `axis`, or over all dimensions, in `dtype`."""
    if dtype is not None and to_vartype(dtype) != x.dtype:
        x = cast(x, dtype)
    return reduced("reduce_prod", x, axis, keepdim, layer="reduce_prod", dtype=x.dtype, name=name)


def logsumexp(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """log of the sum of exp over `axis`, or over all dimensions."""
    need_float(x, "logsumexp")
    dims, whole = axes_of(x, axis)
    attrs = {"axis": dims, "keepdim": keepdim, "reduce_all": whole}
    scalar = not x.shape or (whole and not keepdim)
    return append("logsumexp", {"X": [x]}, attrs, dtype=x.dtype, name=name, scalar=scalar)


def numel(x: Variable, name: str | None = None) -> Variable:
    """The number of elements, as an int64 of the shape []."""
    return append("size", {"Input": [x]}, dtype=VarType.INT64, layer="numel", name=name, scalar=True)


# ---------------------------------------------------------------------- spread
def var(
    x: Variable, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The mean square distance from the mean; `unbiased` divides by n - 1 instead of n."""
    centre = mean(x, axis, True, name)
    total = sum(pow(x - centre, 2.0, name=name), axis, keepdim=keepdim, name=name)
    count = cast(numel(x), "int64") / cast(numel(total), "int64")
    count = astype(count, x.dtype)
    if unbiased:
        one = constant([], x.dtype, 1)
        count = where(count > one, count - 1.0, one)
    count.stop_gradient = True
    return total / count


def std(
    x: Variable, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The square root of the variance."""
    return sqrt(var(x, axis, unbiased, keepdim, name))


def median(x: Variable, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The middle element along `axis`, or of all; the mean of the two middle ones of an even number."""
    is_flat = axis is None or not x.shape
    rank = len(x.shape)
    if axis is not None:
        check_axis("median", axis, x)
    if is_flat:
        x, axis = flatten(x), 0
    assert axis is not None
    axis = axis % len(x.shape) if x.shape else 0
    size = x.shape[axis]
    if size < 0:
        raise ValueError(f"median needs the size of dimension {axis} of {x.name!r}, but x is {list(x.shape)}")
    kth = size // 2
    ordered, _ = topk(x, kth + 1, axis=axis, largest=False)
    kind = x.dtype if x.dtype == VarType.FP64 else VarType.FP32
    if size % 2 == 0:
        low = slice(ordered, [axis], [kth - 1], [kth])
        out = cast(low + slice(ordered, [axis], [kth], [kth + 1]), kind) / 2
    else:
        out = cast(slice(ordered, [axis], [kth], [kth + 1]), kind)
    # a NaN anywhere along the axis makes the result one
    out = out + sum(_nans(x, kind), axis=axis, keepdim=True)
    if is_flat:
        return reshape(out, [1] * rank if keepdim else [])
    return out if keepdim else squeeze(out, axis)


def _nans(x: Variable, kind: VarType) -> Variable:
    """Zeros, and NaNs where x has some."""
    found = append("isnan_v2", {"X": [x]}, dtype=VarType.BOOL)
    product: Variable = cast(found, kind) * x
    return product
