"""Values from attributes and copies: fill, assign, cast, scale, sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import (
    FLOATS,
    INTS,
    LONG,
    LONGS,
    AttrType,
    GradContext,
    KernelContext,
    Op,
    Spec,
    later,
    required,
    same_as,
)
from fluidlite.ops.kernels.numbers import check_from_zero, given_ints, unknown_sizes
from fluidlite.ops.signatures import with_attrs
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, merge_rows

fill_constant = Op(
    "fill_constant",
    "ValueTensor? ShapeTensor? ShapeTensorList*? -> Out",
    lod=None,
    attrs={
        "dtype": int(VarType.FP32),
        "shape": LONGS(),
        "value": 0.0,
        "str_value": "",
        "force_cpu": False,
        "place_type": later(-1),
    },
    booleans=True,
    cuttable=True,
    version=2,
    amp="gray",
)


@fill_constant.shape
def _(ShapeTensor: Spec | None, ShapeTensorList: list[Spec], shape: list[int], dtype: int) -> Spec:
    dims: list[int] = shape
    if not shape and ShapeTensor is not None:
        dims = list(unknown_sizes(ShapeTensor.shape))
    elif not shape:
        dims = [-1] * len(ShapeTensorList)
    if any(dim < 0 for dim in shape) and ShapeTensor is None and not ShapeTensorList:
        raise ShapeError(
            f"op 'fill_constant': shape {list(shape)} has negative sizes, and no tensor gives others"
        )
    return Spec(tuple(dims), VarType(dtype))


@fill_constant.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    ValueTensor: Array | None,
    ShapeTensor: Array | None,
    ShapeTensorList: list[Array],
    shape: list[int],
    dtype: int,
    value: float,
    str_value: str,
) -> Array | SelectedRows:
    kind = to_numpy(VarType(dtype))
    filler = exact(str_value, value, kind) if ValueTensor is None else ValueTensor.reshape(-1)[0]
    out = xp.empty(given_ints(ShapeTensor, ShapeTensorList, shape), kind)
    out.fill(filler)  # a third of the time of `full`
    return as_declared(ctx, out)


def as_declared(ctx: KernelContext, array: Array) -> Array | SelectedRows:
    """`array`, or where Out is declared SELECTED_ROWS, rows that have no numbers yet: a table that a server
    is about to fill.
    """
    var = ctx.op.block._find_var_recursive(ctx.op.outputs["Out"][0])
    if var is None or var.type != VarType.SELECTED_ROWS:
        return array
    return SelectedRows((), array.shape[0], array)


def exact(text: str, value: float, kind: Any) -> Any:
    """The number that `text` spells, else `value`, in dtype `kind`; an attribute holds only 24 bits of a
    large integer.
    """
    if kind.kind in "iu" and text.lstrip("-").isdigit():
        return kind.type(int(text))
    return kind.type(float(text) if text else value)


zeros_like = Op("fill_zeros_like", "X -> Out", booleans=True, moves=True)
zeros_like.shape(same_as("X"))


@zeros_like.kernel
def _(xp: Any, X: Any) -> Any:
    if isinstance(X, LoDTensorArray):
        return LoDTensorArray(LoDTensor(xp.zeros_like(item.array), item._lod) for item in X)
    if isinstance(X, SelectedRows):
        return SelectedRows(X.ids.copy(), X.height(), xp.zeros_like(X.array))
    return xp.zeros_like(X)


zeros_like_typed = Op("fill_zeros_like2", "X -> Out", attrs={"dtype": int(VarType.FP32)}, booleans=True)


@zeros_like_typed.shape
def _(X: Spec, dtype: int) -> Spec:
    return Spec(X.shape, VarType(dtype))


@zeros_like_typed.kernel
def _(xp: Any, X: Array, dtype: int) -> Array:
    return xp.zeros(X.shape, to_numpy(VarType(dtype)))


assign = Op("assign", "X? -> Out", booleans=True, moves=True)


@assign.shape
def _(X: Spec) -> Spec:
    return X._replace(lod_level=None)  # an array stays an array, and rows stay rows


@assign.kernel
def _(X: Any) -> Any:
    if isinstance(X, SelectedRows):
        return SelectedRows(X.ids.copy(), X.height(), X.array.copy())
    return LoDTensorArray(X) if isinstance(X, LoDTensorArray) else X.copy()


@assign.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("assign", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


memcpy = Op("memcpy", "X -> Out", attrs={"dst_place_type": required(AttrType.INT)})
"""A copy to another place; values stay where the executor runs."""


@memcpy.shape
def _(X: Spec) -> Spec:
    return X


@memcpy.kernel
def _(X: Array) -> Array:
    return X.copy()


cast = Op(
    "cast",
    "X -> Out",
    attrs={"in_dtype": required(AttrType.INT), "out_dtype": required(AttrType.INT)},
    booleans=True,
    captured=True,
    amp="gray",
)


@cast.shape
def _(X: Spec, out_dtype: int) -> Spec:
    return Spec(X.shape, VarType(out_dtype))


@cast.kernel
def _(X: Array, out_dtype: int) -> Array:
    kind = to_numpy(VarType(out_dtype))
    # of complex numbers their real parts
    return (X.real if X.dtype.kind == "c" and kind.kind not in "cb" else X).astype(kind)


@cast.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "cast",
        {"X": context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {"in_dtype": context.op.attr("out_dtype"), "out_dtype": context.op.attr("in_dtype")},
    )


scale = Op(
    "scale",
    "X ScaleTensor? -> Out",
    attrs={"scale": 1.0, "bias": 0.0, "bias_after_scale": True},
    captured=True,
    amp="gray",
    follows=True,
)


@scale.shape
def _(X: Spec) -> Spec:
    return X._replace(lod_level=None)


@scale.kernel
def _(X: Any, ScaleTensor: Array | None, scale: float, bias: float, bias_after_scale: bool) -> Any:
    if isinstance(X, SelectedRows):
        return SelectedRows(X.ids, X.height(), _scaled(X.array, ScaleTensor, scale, bias, bias_after_scale))
    return _scaled(X, ScaleTensor, scale, bias, bias_after_scale)


def _scaled(x: Array, factor: Array | None, scale: float, bias: float, after: bool) -> Array:
    by = _number(scale, x.dtype) if factor is None else factor.reshape(-1)[0].astype(x.dtype)
    if bias == 0:
        # the gradient of a sum is a copy for each operand; -0 + 0 is 0
        if factor is None and scale == 1:
            return x + x.dtype.type(bias) if x.dtype.kind == "f" else x.copy()
        return x * by
    add = _number(bias, x.dtype)
    return x * by + add if after else (x + add) * by


def _number(value: float, dtype: Any) -> Any:
    """A number in a dtype as C casts it: cut off, and counted round where a type has no such number."""
    return np.asarray(int(value) if dtype.kind in "iu" else value).astype(dtype)[()]


@scale.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "scale",
        {"X": context.out_grad("Out"), "ScaleTensor": context.input("ScaleTensor")},
        {"Out": context.in_grad("X")},
        {"scale": context.op.attr("scale"), "bias": 0.0, "bias_after_scale": True},
    )


total = Op(
    "sum",
    "X*? -> Out",
    attrs={"use_mkldnn": False},
    alike=("X",),
    adds="X",
    captured=True,
    amp="black",
    amp_fp16="",
)


@total.shape
def _(X: list[Spec]) -> Spec:
    dense = [spec for spec in X if spec.kind != VarType.SELECTED_ROWS] or X
    _check_alike(dense)
    known = max(dense, key=lambda spec: sum(dim >= 0 for dim in spec.shape))
    if known.kind == VarType.SELECTED_ROWS:
        return Spec(known.shape, known.dtype, kind=VarType.SELECTED_ROWS)
    # what one leaves open another may know; a 1 may be that of a single number, which goes with any shape
    alike = [spec.shape for spec in dense if len(spec.shape) == len(known.shape)]
    shape = tuple(
        dim if dim >= 0 else next((size for size in sizes if size > 1), dim)
        for dim, sizes in zip(known.shape, zip(*alike, strict=True), strict=True)
    )
    # the level of detail is the first operand's, whose shape may be less known
    return known._replace(shape=shape, lod_level=dense[0].lod_level)


def _check_alike(specs: list[Spec]) -> None:
    """Every operand has the same shape, as far as shapes are known; one number goes with any."""
    static = [spec for spec in specs if spec.static and math.prod(spec.shape) > 1]
    other = next((spec for spec in static if spec.shape != static[0].shape), None)
    if other is not None:
        raise ShapeError(f"op 'sum': X has operands of shape {list(static[0].shape)} and {list(other.shape)}")


@total.kernel
def _(xp: Any, X: list[Any]) -> Any:
    X = [item for item in X if item is not None]
    if isinstance(X[0], LoDTensorArray):
        return _sum_arrays(xp, X)
    if all(isinstance(item, SelectedRows) for item in X):
        # each row once, as Paddle adds them up
        ids, rows = merge_rows(
            xp, xp.concatenate([item.ids for item in X]), xp.concatenate([item.array for item in X])
        )
        return SelectedRows(ids, X[0].height(), rows)
    dense = [item.dense(xp) if isinstance(item, SelectedRows) else item for item in X]
    dense = [item for item in dense if item.size] or dense  # Paddle passes over tensors without elements
    if len(dense) > 1 and dense[0].shape == dense[1].shape and dense[0].dtype == dense[1].dtype:
        out, rest = dense[0] + dense[1], dense[2:]
    else:
        out, rest = dense[0].copy(), dense[1:]
    for item in rest:
        out += item
    return out


def _sum_arrays(xp: Any, arrays: list[Any]) -> LoDTensorArray:
    """Item by item; an array may be shorter or have gaps, which count as zero."""
    result = LoDTensorArray()
    for index in range(max(map(len, arrays))):
        items = [array[index] for array in arrays if index < len(array) and array[index].array is not None]
        values = [item.array for item in items]
        result.append(
            LoDTensor(sum(values[1:], values[0].copy()) if values else None, items[0]._lod if items else ())
        )
    return result


@total.grad_rule("X")
def _(context: GradContext) -> None:
    for name in context.in_grad("X"):
        if name != "@EMPTY@":
            context.emit("scale", {"X": context.out_grad("Out")}, {"Out": [name]}, {"scale": 1.0})


_LISTS = {
    VarType.FP32: "fp32_values",
    VarType.INT32: "int32_values",
    VarType.INT64: "int64_values",
    VarType.BOOL: "bool_values",
    VarType.FP64: "fp64_values",
}
assign_value = Op(
    "assign_value",
    "-> Out",
    lod=None,
    attrs={
        "shape": required(AttrType.INTS),
        "dtype": limited(required(AttrType.INT), one_of(0, 2, 3, 5)),
        "fp32_values": FLOATS(),
        "int32_values": INTS(),
        "int64_values": LONGS(),
        "bool_values": INTS(),
        "fp64_values": later(FLOATS()),
    },
    booleans=True,
    cuttable=True,
    version=1,
)


@assign_value.shape
def _(shape: list[int], dtype: int) -> Spec:
    return Spec(tuple(shape), VarType(dtype))


@assign_value.kernel
@with_attrs(assign_value.attr_defs)
def _(xp: Any, attrs: dict[str, Any]) -> Array:
    return xp.asarray(assigned(attrs))


def assigned(attrs: Mapping[str, Any]) -> Array:
    """The array that the attributes of `assign_value` describe: its data type says which list counts."""
    return _filled("assign_value", attrs[_LISTS[VarType(attrs["dtype"])]], attrs["shape"], attrs["dtype"])


def _filled(op: str, values: Sequence[float], shape: Sequence[int], dtype: int) -> Array:
    """The first of `values` in a shape; ShapeError where they are too few, behind which 1.8.5 reads on."""
    size = math.prod(shape)
    if len(values) < size:
        raise ShapeError(f"op {op!r}: {len(values)} values are given, but shape {list(shape)} holds {size}")
    return np.array(values[:size], to_numpy(VarType(dtype))).reshape(shape)


empty = Op(
    "empty",
    "ShapeTensor? ShapeTensorList*? -> Out",
    lod=None,
    attrs={"dtype": int(VarType.FP32), "shape": LONGS()},
)


@empty.shape
def _(ShapeTensor: Spec | None, ShapeTensorList: list[Spec], shape: list[int], dtype: int) -> Spec:
    if ShapeTensor is not None:
        return Spec(unknown_sizes(ShapeTensor.shape), VarType(dtype))
    return Spec((-1,) * len(ShapeTensorList) if ShapeTensorList else tuple(shape), VarType(dtype))


@empty.kernel
def _(
    xp: Any, ShapeTensor: Array | None, ShapeTensorList: list[Array], shape: list[int], dtype: int
) -> Array:
    # zeros: what lies in memory would differ from run to run
    return xp.zeros(given_ints(ShapeTensor, ShapeTensorList, shape), to_numpy(VarType(dtype)))


share_data = Op("share_data", "X -> Out", lod=None)
share_data.shape(same_as("X"))


@share_data.kernel
def _(X: Array) -> Array:
    return X


fill = Op(
    "fill",
    "-> Out",
    lod=None,
    attrs={
        "value": required(AttrType.FLOATS),
        "shape": required(AttrType.INTS),
        "dtype": int(VarType.FP32),
        "force_cpu": False,
    },
)


@fill.shape
def _(shape: list[int], dtype: int) -> Spec:
    return Spec(tuple(shape), VarType(dtype))


@fill.kernel
def _(xp: Any, value: list[float], shape: list[int], dtype: int) -> Array:
    return xp.asarray(_filled("fill", value, shape, dtype))


shape_op = Op("shape", "Input -> Out", lod=None, booleans=True)


@shape_op.shape
def _(Input: Spec) -> Spec:
    return Spec((len(Input.shape),), VarType.INT32)


@shape_op.kernel
def _(xp: Any, Input: Any) -> Array:
    return xp.asarray(np.array(Input.shape, np.int32))


fill_constant_batch_size_like = Op(
    "fill_constant_batch_size_like",
    "Input -> Out",
    lod=None,
    attrs={
        "shape": required(AttrType.INTS),
        "input_dim_idx": 0,
        "output_dim_idx": 0,
        "dtype": int(VarType.FP32),
        "value": 0.0,
        "str_value": "",
        "force_cpu": False,
    },
    booleans=True,
    only_shape=("Input",),
)


@fill_constant_batch_size_like.shape
def _(Input: Spec, shape: list[int], input_dim_idx: int, output_dim_idx: int, dtype: int) -> Spec:
    check_from_zero(input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx)
    dims = list(shape)
    dims[output_dim_idx] = Input.shape[input_dim_idx]
    return Spec(tuple(dims), VarType(dtype))


@fill_constant_batch_size_like.kernel
def _(
    xp: Any,
    Input: Array,
    Input_lod: Any,
    shape: list[int],
    input_dim_idx: int,
    output_dim_idx: int,
    dtype: int,
    value: float,
    str_value: str,
) -> Array:
    dims, kind = list(shape), to_numpy(VarType(dtype))
    # the batch of a value with sequences is the number of its sequences
    dims[output_dim_idx] = (
        len(Input_lod[-1]) - 1 if Input_lod and input_dim_idx == 0 else Input.shape[input_dim_idx]
    )
    return xp.full(dims, exact(str_value, value, kind), kind)


fill_any_like = Op("fill_any_like", "X -> Out", attrs={"value": 0.0, "dtype": -1}, booleans=True)


@fill_any_like.shape
def _(X: Spec, dtype: int) -> Spec:
    return Spec(X.shape, X.dtype if dtype < 0 else VarType(dtype))


@fill_any_like.kernel
def _(xp: Any, X: Array, value: float, dtype: int) -> Array:
    kind = X.dtype if dtype < 0 else to_numpy(VarType(dtype))
    limits: Any = {"f": np.finfo, "i": np.iinfo, "u": np.iinfo}.get(kind.kind)
    if (
        limits is not None
        and not (kind.kind == "f" and math.isinf(value))
        and not limits(kind).min <= value <= limits(kind).max
    ):
        raise EnforceNotMet(
            f"op 'fill_any_like': {value} is outside of {kind}, which ends at {limits(kind).max}"
        )
    return xp.full(X.shape, value, kind)


def _check_numbers(type: str, **given: Spec) -> None:
    """ShapeError unless each slot has one number, in one dimension or, as 2.x has it, in none."""
    for slot, spec in given.items():
        if len(spec.shape) > 1 or not fits(spec.shape, (1,) * len(spec.shape)):
            raise ShapeError(f"op {type!r}: {slot} must be one number, but has the shape {list(spec.shape)}")


range_op = Op("range", "Start End Step -> Out", lod=None)


@range_op.shape
def _(Start: Spec, End: Spec, Step: Spec) -> Spec:
    _check_numbers("range", Start=Start, End=End, Step=Step)
    return Spec((-1,), Start.dtype)


@range_op.kernel
def _(xp: Any, Start: Array, End: Array, Step: Array) -> Array:
    start, end, step = (part.reshape(-1)[0] for part in (Start, End, Step))
    if Start.dtype.kind != "f":
        return xp.arange(start.item(), end.item(), step.item(), dtype=Start.dtype)
    # as many as there are in the dtype of all three: (2.22 - 0.22) / 2 is 1 there, and more in float64
    steps = (end - start) / step
    count = max(math.ceil(steps.item()), 0)
    numbers = xp.arange(count, dtype=Start.dtype)
    found = start + step * numbers
    return found.astype(Start.dtype)


linspace = Op("linspace", "Start Stop Num -> Out", attrs={"dtype": later(AttrType.INT)}, lod=None, version=1)


@linspace.shape
def _(Start: Spec, Stop: Spec, Num: Spec, dtype: int | None) -> Spec:
    _check_numbers("linspace", Start=Start, Stop=Stop, Num=Num)
    return Spec((-1,), Start.dtype if dtype is None else VarType(dtype))


@linspace.kernel
def _(xp: Any, Start: Array, Stop: Array, Num: Array, dtype: int | None) -> Array:
    return xp.linspace(
        Start.reshape(-1)[0].item(), Stop.reshape(-1)[0].item(), int(Num.reshape(-1)[0])
    ).astype(Start.dtype if dtype is None else to_numpy(VarType(dtype)))


logspace = Op("logspace", "Start Stop Num Base -> Out", attrs={"dtype": int(VarType.FP32)}, lod=None)


@logspace.shape
def _(Start: Spec, Stop: Spec, Num: Spec, Base: Spec, dtype: int) -> Spec:
    _check_numbers("logspace", Start=Start, Stop=Stop, Num=Num, Base=Base)
    return Spec((-1,), VarType(dtype))


@logspace.kernel
def _(xp: Any, Start: Array, Stop: Array, Num: Array, Base: Array, dtype: int) -> Array:
    kind = to_numpy(VarType(dtype))
    # whole powers are those of a whole base to whole exponents
    first, last, base = (one.reshape(-1)[0].astype(kind).item() for one in (Start, Stop, Base))
    exponents = xp.linspace(first, last, int(Num.reshape(-1)[0]))
    return xp.asarray(base**exponents).astype(kind)


eye = Op(
    "eye",
    "-> Out",
    lod=None,
    attrs={"num_rows": required(AttrType.LONG), "num_columns": LONG(-1), "dtype": int(VarType.FP32)},
)


@eye.shape
def _(num_rows: int, num_columns: int, dtype: int) -> Spec:
    return Spec((num_rows, num_rows if num_columns < 0 else num_columns), VarType(dtype))


@eye.kernel
def _(xp: Any, num_rows: int, num_columns: int, dtype: int) -> Array:
    return xp.eye(num_rows, num_rows if num_columns < 0 else num_columns, dtype=to_numpy(VarType(dtype)))


size = Op("size", "Input -> Out", lod=None, booleans=True)


@size.shape
def _(Input: Spec) -> Spec:
    return Spec((1,), VarType.INT64)


@size.kernel
def _(xp: Any, Input: Array) -> Array:
    return xp.asarray(np.array([Input.size], np.int64))
