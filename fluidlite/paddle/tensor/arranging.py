"""Elements taken, put, repeated and turned, and differences of neighbours, as 2.x added them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from string import ascii_lowercase
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.open_sizes import fits, opened
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle import defaults
from fluidlite.paddle.build import append, check_axis, dimension, need_dims, need_float, need_variable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.contraction import einsum
from fluidlite.paddle.tensor.creation import arange, assign, full_like, to_tensor
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.logic import logical_not
from fluidlite.paddle.tensor.manipulation import (
    broadcast_to,
    concat,
    flatten,
    flip,
    gather,
    reshape,
    slice,
    split,
    transpose,
    unsqueeze,
)
from fluidlite.paddle.tensor.math import cast, clip, cumsum, subtract
from fluidlite.paddle.tensor.reduction import numel, sum
from fluidlite.paddle.tensor.search import index_select, where
from fluidlite.paddle.tensor.shapes import as_list, constant, shape_of, size_of

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shape",
    "cdist",
    "clone",
    "cumulative_trapezoid",
    "diagflat",
    "diagonal",
    "diff",
    "index_add",
    "index_fill",
    "index_put",
    "inner",
    "is_complex",
    "is_floating_point",
    "is_integer",
    "masked_fill",
    "moveaxis",
    "outer",
    "put_along_axis",
    "renorm",
    "repeat_interleave",
    "reverse",
    "rot90",
    "take",
    "take_along_axis",
    "tensordot",
    "trapezoid",
    "tril_indices",
    "triu_indices",
    "unflatten",
    "vsplit",
]


# ---------------------------------------------------------------------- taken and put
def masked_fill(x: Variable, mask: Variable, value: Any, name: str | None = None) -> Variable:
    """x with `value`, a number or a Variable of one element, where the mask holds."""
    if isinstance(value, Real):
        value = constant([], x.dtype, value)
    return where(logical_not(mask), x, value)


def _spread_shape(indices: Variable, x: Variable, axis: int) -> list[Any]:
    """The shape of x, with that of the indices along `axis`; -1 keeps a size that is not known. Nothing where
    the indices have a larger size than x, also along `axis`: 2.6.2 leaves them as they are then.
    """
    if len(indices.shape) != len(x.shape):
        raise ValueError(
            f"`indices` and `arr` must have the same number of dimensions, but they have "
            f"{len(indices.shape)} and {len(x.shape)}"
        )
    if any(0 <= a < b for a, b in zip(x.shape, indices.shape, strict=True)):
        return []
    pairs = zip(x.shape, indices.shape, strict=True)
    shape: list[Any] = [b if a == 1 or (a == -1 and b > 1) else a for a, b in pairs]
    shape[axis] = indices.shape[axis]
    # one line of indices is for all lines of x, however many these are
    for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if a == -1 and b in (1, -1) and i != axis % len(shape):
            shape[i] = size_of(x, i)
    return shape


def take_along_axis(arr: Variable, indices: Variable, axis: int, broadcast: bool = True) -> Variable:
    """From each line along `axis` the elements that `indices` names; `broadcast` fits both to each other."""
    wanted = _spread_shape(indices, arr, axis) if broadcast else []
    if wanted:
        indices = broadcast_to(indices, wanted)
        whole = list(wanted)
        whole[axis] = arr.shape[axis]
        arr = broadcast_to(arr, whole)
    inputs = {"Input": [arr], "Index": [indices]}
    return append("take_along_axis", inputs, {"Axis": axis}, dtype=arr.dtype, slot="Result")


def _first_ones(values: Variable, indices: Variable) -> Variable:
    """The first elements of `values` in each dimension, as many as there are indices."""
    pairs = enumerate(zip(values.shape, indices.shape, strict=True))
    larger = {dim: count for dim, (size, count) in pairs if size > count >= 0}
    if not larger:
        return values
    starts = [0] * len(larger)
    return slice(values, list(larger), starts, list(larger.values()))


def put_along_axis(
    arr: Variable,
    indices: Variable,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Variable:
    """`arr` with `values` in the places that `indices` names along `axis`: the last one of a place, or with
    `reduce` their sum, product, mean, largest or smallest, in which `include_self` counts the old one.
    """
    if broadcast:
        need_variable(values, "values", "put_along_axis")
    elif not isinstance(values, Variable):
        values = full_like(indices, values, arr.dtype)
    wanted = _spread_shape(indices, arr, axis) if broadcast else []
    if wanted:
        indices = broadcast_to(indices, wanted)
        values = broadcast_to(values, wanted)
    else:
        values = _first_ones(values, indices)
    inputs = {"Input": [arr], "Index": [indices], "Value": [values]}
    attrs = {"Axis": axis, "Reduce": reduce, "Include_self": include_self}
    return append("put_along_axis", inputs, attrs, dtype=arr.dtype, slot="Result")


def index_add(x: Variable, index: Variable, axis: int, value: Variable, name: str | None = None) -> Variable:
    """x plus the slices of `value` at the places along `axis` that `index` names."""
    check_axis("index_add", axis, x)
    inputs = {"X": [x], "Index": [index], "AddValue": [value]}
    return append("index_add", inputs, {"axis": axis}, dtype=x.dtype, name=name)


def index_put(
    x: Variable,
    indices: Sequence[Variable],
    value: Variable,
    accumulate: bool = False,
    name: str | None = None,
) -> Variable:
    """x with `value` at the places that `indices` name, one of them a dimension, or where a mask holds."""
    inputs = {"x": [x], "indices": list(indices), "value": [value]}
    attrs = {"accumulate": accumulate}
    return append("index_put", inputs, attrs, dtype=x.dtype, name=name, slot="out")


def index_fill(x: Variable, index: Variable, axis: int, value: Any, name: str | None = None) -> Variable:
    """x with `value` in the slices along `axis` that `index` names."""
    need_dims(value, "value", "index_fill", 0)
    if not isinstance(value, Variable):
        value = assign(np.array(value, "float32" if isinstance(value, float) else "int64"))
    if value.dtype != x.dtype:
        value = cast(value, x.dtype)
    order = list(range(len(x.shape)))
    order[0], order[axis] = order[axis], order[0]
    return transpose(index_put(transpose(x, order), [index], value), order)


def take(x: Variable, index: Variable, mode: str = "raise", name: str | None = None) -> Variable:
    """The elements that `index` names in the row of all; "wrap" and "clip" allow places beyond its ends."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"'mode' in 'take' should be 'raise', 'wrap', 'clip', but received {mode}.")
    size = numel(x) if -1 in x.shape else math.prod(x.shape)
    row, places = flatten(x), flatten(index)
    if mode == "raise":
        places = where(places < 0, places + size, places)
    elif mode == "wrap":
        places = where(places < 0, places % size, places)
        places = where(places >= size, places % size, places)
    else:
        places = clip(places, 0, size - 1)
    return reshape(index_select(row, places), list(index.shape))


def repeat_interleave(
    x: Variable, repeats: Any, axis: int | None = None, name: str | None = None
) -> Variable:
    """Each slice along `axis` (each element) as often as `repeats` says: a number, or a Variable with one for
    each.
    """
    if axis is None:
        x, axis = flatten(x), 0
    inputs = {"X": [x]}
    need_dims(repeats, "repeats", "repeat_interleave", 1)
    if isinstance(repeats, Variable):
        inputs["RepeatsTensor"] = [repeats]
    attrs = {"dim": axis, "Repeats": repeats if isinstance(repeats, Integral) else 0}
    return append("repeat_interleave", inputs, attrs, dtype=x.dtype, name=name)


# ---------------------------------------------------------------------- turned and shaped
def moveaxis(x: Variable, source: Any, destination: Any, name: str | None = None) -> Variable:
    """The dimensions `source` at the places `destination`, the others in their order."""
    rank = len(x.shape)
    froms, tos = as_list(source), as_list(destination)
    if len(froms) != len(tos) or len(set(froms)) < len(froms) or len(set(tos)) < len(tos):
        raise AssertionError(
            f"'source' {source} and 'destination' {destination} must name the same number of "
            "dimensions, each once"
        )
    for axis in (*froms, *tos):
        check_axis("moveaxis", axis, x)
    froms, tos = [axis % rank for axis in froms], [axis % rank for axis in tos]
    rest = iter([axis for axis in range(rank) if axis not in froms])
    placed = dict(zip(tos, froms, strict=True))
    order = [placed[place] if place in placed else next(rest) for place in range(rank)]
    extra = {"XShape": x.dtype}
    return append(
        "transpose2", {"X": [x]}, {"axis": order}, dtype=x.dtype, layer="moveaxis", name=name, extra=extra
    )


def rot90(x: Variable, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None) -> Variable:
    """x rotated by k times 90 degrees, from the first of two dimensions towards the second."""
    if isinstance(k, Variable):
        # 2.6.2 does not turn x at all
        raise TypeError("rot90: k must be a number, not a Variable: the shape of the result follows from it")
    rank = len(x.shape)
    if len(axes) != 2 or rank < 2:
        raise ValueError(f"expected two rotation axes and dimensions >= 2, but got {list(axes)} and {rank}")
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == rank:
        raise ValueError(f"expected rotation axes to be different, but got {list(axes)}")
    for axis in axes:
        check_axis("rot90", axis, x)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(flip(x, axes[0]), axes[1])
    order = list(range(rank))
    order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
    if turns == 1:
        return transpose(flip(x, axes[1]), order)
    return flip(transpose(x, order), axes[1])


reverse = flip


def unflatten(x: Variable, axis: int, shape: Any, name: str | None = None) -> Variable:
    """The dimension `axis` as several."""
    if isinstance(axis, bool) or not isinstance(axis, Integral):
        raise TypeError(f"Invalid type: `axis` should be int, but received {type(axis)}.")
    check_axis("unflatten", axis, x)
    need_dims(shape, "shape", "unflatten", 1)
    rank = len(x.shape)
    axis %= rank
    if not isinstance(shape, Variable):
        return reshape(x, [*x.shape[:axis], *shape, *x.shape[axis + 1 :]])
    # sizes of the run: a -1 of the Variable is the only one
    sizes = shape_of(x)
    parts = [cast(shape, VarType.INT32)]
    if axis > 0:
        front = slice(sizes, [0], [0], [axis])
        parts.insert(0, front)
    if axis + 1 < rank:
        rest = slice(sizes, [0], [axis + 1], [rank])
        parts.append(rest)
    return reshape(x, concat(parts))


def _at_least(rank: int) -> Any:
    def one(x: Variable) -> Variable:
        dims = len(x.shape)
        if dims >= rank:
            return x
        if dims == 0:
            return reshape(x, [1] * rank)
        if rank == 3:
            return unsqueeze(x, [0, 2] if dims == 1 else 2)
        return unsqueeze(x, 0)

    def function(*inputs: Any, name: str | None = None) -> Any:
        found = [one(x if isinstance(x, Variable) else to_tensor(x)) for x in inputs]
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"Tensors, numbers or arrays with {rank} dimensions or more; several give a list."
    return function


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def vsplit(x: Variable, num_or_sections: Any, name: str | None = None) -> list[Variable]:
    """x cut along its first dimension."""
    if len(x.shape) < 2:
        raise ValueError(f"The input tensor's dimension must be greater than 1, but got {len(x.shape)}")
    return split(x, num_or_sections, axis=0, name=name)


def clone(x: Any, name: str | None = None) -> Variable:
    """A copy, through which gradients flow."""
    found: Variable = x.clone()
    return found


def broadcast_shape(x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """The shape that tensors of these shapes have in common; -1 is a size that only a run knows."""
    shapes = [[int(dim) for dim in shape] for shape in (x_shape, y_shape)]
    found = list(np.broadcast_shapes(*(tuple(1 if dim < 0 else dim for dim in shape) for shape in shapes)))
    for at in range(-len(found), 0):
        if found[at] == 1 and any(len(shape) >= -at and shape[at] < 0 for shape in shapes):
            found[at] = -1
    return found


# ---------------------------------------------------------------------- diagonals
def diagonal(
    x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """The diagonal of each matrix in the dimensions `axis1` and `axis2`, as the last dimension."""
    attrs = {"offset": offset, "axis1": axis1, "axis2": axis2}
    return append("diagonal", {"Input": [x]}, attrs, dtype=x.dtype, name=name)


def diagflat(x: Variable, offset: int = 0, name: str | None = None) -> Variable:
    """A matrix with all elements on a diagonal."""
    begin()
    helper = LayerHelper("diagflat", name=name)
    flat, shape, out = (helper.create_variable_for_type_inference(x.dtype) for _ in range(3))
    if len(x.shape) > 1:
        whole = {"start_axis": 0, "stop_axis": -1}
        outputs = {"Out": [flat], "XShape": [shape]}
        helper.append_op(type="flatten_contiguous_range", inputs={"X": [x]}, outputs=outputs, attrs=whole)
        x = flat
    attrs: dict[str, Any] = {"offset": offset, "padding_value": 0.0}
    helper.append_op(type="diag_v2", inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    out.stop_gradient = True
    return out


def tril_indices(row: int, col: int, offset: int = 0, dtype: DTypeLike = "int64") -> Variable:
    """The places [2, N] of the elements on and below a diagonal of a matrix."""
    kind = to_vartype(dtype)
    attrs = {"rows": row, "cols": col, "offset": offset, "dtype": int(kind)}
    return append("tril_indices", {}, attrs, dtype=kind, slot="out")


def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: DTypeLike = "int64") -> Variable:
    """The places [2, N] of the elements on and above a diagonal of a matrix."""
    kind = to_vartype(dtype)
    attrs = {"row": row, "col": row if col is None else col, "offset": offset, "dtype": int(kind)}
    return append("triu_indices", {}, attrs, dtype=kind, slot="out")


# ---------------------------------------------------------------------- products
def outer(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Each element of x times each of y, [size of x, size of y]."""
    inputs = {"X": [reshape(x, [-1, 1])], "Y": [reshape(y, [1, -1])]}
    return append("matmul_v2", inputs, dtype=x.dtype, layer="outer", name=name)


def inner(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The sums over the last dimension of the products of each row of x with each of y."""
    shape = [*x.shape[:-1], *y.shape[:-1]]
    left: Any = reshape(x, [-1, x.shape[-1]])
    right: Any = reshape(y, [-1, y.shape[-1]])
    inputs = {"X": [left], "Y": [right.T]}
    return reshape(append("matmul_v2", inputs, dtype=x.dtype, layer="inner", name=name), shape)


def _product(sizes: Iterable[int]) -> int:
    """The product of sizes; -1 where one is not known, and none is 0."""
    return math.prod(opened(tuple(sizes)))


def tensordot(x: Variable, y: Variable, axes: Any = 2, name: str | None = None) -> Variable:
    """The sums over dimensions of products: over the last of x and first of y, `axes` of them, or over those
    that `axes` names, of each.
    """
    if isinstance(axes, Integral):
        count = int(axes)
        left, right = list(range(len(x.shape) - count, len(x.shape))), list(range(count))
    else:
        given = list(axes)
        pair = given if given and isinstance(given[0], (list, tuple)) else [given, given]
        left, right = list(pair[0]), list(pair[-1])
    left = [dimension("tensordot", one, x) for one in left]
    right = [dimension("tensordot", one, y) for one in right]
    x, y = _of_equal_sizes(x, y, left, right)
    free = [one for one in range(len(x.shape)) if one not in left]
    others = [one for one in range(len(y.shape)) if one not in right]
    shape = [*(x.shape[i] for i in free), *(y.shape[i] for i in others)]
    size = _product(x.shape[one] for one in left)
    rows = _product(x.shape[one] for one in free)
    columns = _product(y.shape[one] for one in others)
    if shape.count(-1) > 1 or (size < 0 and (rows < 0 or columns < 0)):
        # a reshape has one open size
        return einsum(_equation(len(x.shape), len(y.shape), left, right), x, y)
    one = reshape(transpose(x, free + left), [rows, size])
    other = reshape(transpose(y, right + others), [size, columns])
    return reshape(matmul(one, other), shape)


def _equation(rank: int, other: int, left: Sequence[int], right: Sequence[int]) -> str:
    """The equation of `einsum` for products that are summed over pairs of dimensions."""
    first = ascii_lowercase[:rank]
    second = list(ascii_lowercase[rank : rank + other])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    summed = {first[i] for i in left}
    kept = [label for label in [*first, *second] if label not in summed]
    return f"{first},{''.join(second)}->{''.join(kept)}"


def _of_equal_sizes(
    x: Variable, y: Variable, left: Sequence[int], right: Sequence[int]
) -> tuple[Variable, Variable]:
    """x and y, one of which is added up along a dimension where the other one is declared to have size 1."""
    for i, j in zip(left, right, strict=True):
        mine = x.shape[i]
        other = y.shape[j]
        if 1 not in (mine, other) and not fits(mine, other):
            raise AssertionError(
                f"tensordot needs dimensions of one size, but dimension {i} of x{list(x.shape)} has {mine}, "
                f"and dimension {j} of y{list(y.shape)} has {other}"
            )
        if mine == 1 != other:
            y = sum(y, j, keepdim=True)
        elif other == 1 != mine:
            x = sum(x, i, keepdim=True)
    return x, y


_DISTANCES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def cdist(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Variable:
    """The p-norms of the differences of each row of x and each of y."""
    need_float(x, "cdist")
    if compute_mode not in _DISTANCES:
        raise ValueError(f"'compute_mode' in cdist must be one of {_DISTANCES}, but is {compute_mode!r}")
    ranks = len(x.shape), len(y.shape)
    if p < 0 or min(ranks) < 2 or x.shape[-1] != y.shape[-1]:
        raise AssertionError(
            f"cdist needs rows of one length and p >= 0, but x is {list(x.shape)}, y {list(y.shape)}, p {p}"
        )
    apart = unsqueeze(x, len(x.shape) - 1) - unsqueeze(y, len(y.shape) - 2)
    attrs = {"axis": -1, "porder": float(p), "keepdim": False, "epsilon": 1e-12, "asvector": False}
    return append("p_norm", {"X": [apart]}, attrs, dtype=x.dtype)


def renorm(x: Variable, p: float, axis: int, max_norm: float) -> Variable:
    """x with those slices along `axis` made smaller whose p-norm is above `max_norm`."""
    check_axis("renorm", axis, x)
    attrs = {"p": p, "axis": axis % len(x.shape), "max_norm": max_norm}
    return append("renorm", {"X": [x]}, attrs, dtype=x.dtype)


# ---------------------------------------------------------------------- neighbours
def diff(
    x: Variable,
    n: int = 1,
    axis: int = -1,
    prepend: Variable | None = None,
    append: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The differences of neighbours along `axis`; of booleans, whether they differ."""
    if n < 1:
        raise ValueError(f"Diff expects input to be at least one-dimensional and n >= 1, but n is {n}")
    begin()
    axis = dimension("diff", axis, x)
    helper = LayerHelper("diff", name=name)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        joined = helper.create_variable_for_type_inference(x.dtype)
        helper.append_op(type="concat", inputs={"X": parts}, outputs={"Out": [joined]}, attrs={"axis": axis})
        x = joined
    for _ in range(n):
        x = _neighbours(helper, x, axis)
    return x


def _neighbours(helper: LayerHelper, x: Variable, axis: int) -> Variable:
    size = x.shape[axis]
    sides = []
    for start, end in ((0, size - 1), (1, size)) if size >= 0 else ((0, -1), (1, 2**31 - 1)):
        side = helper.create_variable_for_type_inference(x.dtype)
        attrs = {"axes": [axis], "starts": [start], "ends": [end], "infer_flags": []}
        helper.append_op(type="slice", inputs={"Input": [x]}, outputs={"Out": [side]}, attrs=attrs)
        sides.append(side)
    if x.dtype != VarType.BOOL:
        return subtract(sides[1], sides[0])
    out = helper.create_variable_for_type_inference(x.dtype)
    inputs = {"X": [sides[1]], "Y": [sides[0]]}
    helper.append_op(type="logical_xor", inputs=inputs, outputs={"Out": [out]})
    return out


def _areas(y: Variable, x: Variable | None, dx: Any, axis: int) -> Variable:
    """Twice the areas of trapezoids between neighbours along `axis`."""
    if x is not None and dx is not None:
        raise ValueError("Not permitted to specify both x and dx input args.")
    axis = dimension("trapezoid", axis, y)
    if x is None:
        step = 1.0 if dx is None else dx
        kind = VarType.FP32 if isinstance(step, Integral) else defaults.dtype()
        # a number becomes float32 as it is assigned
        width: Any = assign(np.array(step, "float64"))
        width = width if kind == width.dtype else cast(width, kind)
    elif len(x.shape) == 1:
        shape = [1] * len(y.shape)
        shape[axis] = max(x.shape[0] - 1, -1)
        width = reshape(diff(x), shape)
    else:
        width = diff(x, axis=axis)
    size = y.shape[axis]
    if size < 0:
        right = slice(y, [axis], [1], [2**31 - 1])
        left = slice(y, [axis], [0], [-1])
    else:
        right = gather(y, arange(1, size), axis=axis)
        left = gather(y, arange(0, size - 1), axis=axis)
    found: Variable = (right + left) * width
    return found


def trapezoid(
    y: Variable, x: Variable | None = None, dx: Any = None, axis: int = -1, name: str | None = None
) -> Variable:
    """The integral of y along `axis` by the trapezoidal rule, over x, or in steps of dx, 1 by default."""
    found: Variable = sum(_areas(y, x, dx, axis), axis=axis % len(y.shape)) * 0.5
    return found


def cumulative_trapezoid(
    y: Variable, x: Variable | None = None, dx: Any = None, axis: int = -1, name: str | None = None
) -> Variable:
    """The integral of y up to each point along `axis` by the trapezoidal rule."""
    found: Variable = cumsum(_areas(y, x, dx, axis), axis=axis % len(y.shape)) * 0.5
    return found


# ---------------------------------------------------------------------- questions about dtypes
def is_complex(x: Variable) -> bool:
    """True for complex numbers."""
    need_variable(x, "x", "is_complex")
    return x.dtype in (VarType.COMPLEX64, VarType.COMPLEX128)


def is_floating_point(x: Variable) -> bool:
    """True for real numbers."""
    need_variable(x, "x", "is_floating_point")
    return x.dtype in (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64)


def is_integer(x: Variable) -> bool:
    """True for integers."""
    need_variable(x, "x", "is_integer")
    return x.dtype in (VarType.UINT8, VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64)
