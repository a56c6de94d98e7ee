"""ONNX for ops that make tensors, or put numbers around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.tensors.creation import exact
from fluidlite.saving.onnx.graph import OpView, exports

_LARGE = 1 << 20  # numbers from which a constant is made by a node, and not kept in the file


# ----------------------------------------------------------------------- sizes and constants
@exports("shape")
def _shape(op: OpView) -> None:
    shape = op.add("Shape", op.x("Input"))
    cast = op.cast(shape, np.int32)
    op.put(cast)


@exports("size")
def _size(op: OpView) -> None:
    size = op.add("Size", op.x("Input"))
    reshaped = op.add("Reshape", size, op.ints(1))
    op.put(reshaped)


def _filled(op: OpView, shape: str, value: Any, dtype: Any) -> str:
    filling = op.graph.helper.make_tensor("value", op.graph.dtype(dtype), [1], [value])
    made = op.add("ConstantOfShape", shape, value=filling)
    return str(made)


def _filler(op: OpView) -> tuple[Any, Any]:
    """The number that an op fills with, and its type."""
    dtype = np.dtype(to_numpy(VarType(op.attr("dtype"))))
    return exact(op.attr("str_value"), op.attr("value"), dtype), dtype


@exports("fill_constant")
def _fill(op: OpView) -> None:
    value, dtype = _filler(op)
    computed = op.has("ShapeTensor") or op.has("ShapeTensorList")
    shape = op.attr("shape")
    if op.has("ValueTensor"):
        reshape = op.add("Reshape", op.x("ValueTensor"), op.scalar_shape())
        number = op.cast(reshape, dtype)
        sizes = op.sizes("ShapeTensor", "ShapeTensorList", "shape")
        copies = op.add("Expand", number, sizes)
        op.put(copies)
    elif computed or int(np.prod(shape, dtype=np.int64)) > _LARGE:
        made = _filled(op, op.sizes("ShapeTensor", "ShapeTensorList", "shape"), value, dtype)
        op.put(made)
    else:
        found = op.graph.constant(np.full(shape, value, dtype))
        op.put(found)


@exports("assign_value")
def _assign_value(op: OpView) -> None:
    dtype = np.dtype(to_numpy(VarType(op.attr("dtype"))))
    lists = ("fp32_values", "int32_values", "int64_values", "bool_values", "fp64_values", "values")
    found = [values for name in lists if (values := op.attr(name))]
    values = found[0] if found else []
    reshaped = np.reshape(values, op.attr("shape"))
    made = op.graph.constant(reshaped, dtype)
    op.put(made)


@exports("fill")
def _fill_values(op: OpView) -> None:
    dtype = np.dtype(to_numpy(VarType(op.attr("dtype"))))
    reshaped = np.reshape(op.attr("value"), op.attr("shape"))
    made = op.graph.constant(reshaped, dtype)
    op.put(made)


@exports("fill_zeros_like", "fill_zeros_like2", "fill_any_like")
def _like(op: OpView) -> None:
    dtype = op.dtype("Out") if op.attr("dtype", -1) < 0 else to_numpy(VarType(op.attr("dtype")))
    value = np.dtype(dtype).type(op.attr("value", 0.0) or 0)
    shape = op.add("Shape", op.x())
    made = _filled(op, shape, value, dtype)
    op.put(made)


@exports("fill_constant_batch_size_like")
def _batch_like(op: OpView) -> None:
    if op.var("Input").lod_level and not op.attr("input_dim_idx"):
        raise op.error("the batch of Input is a number of sequences")
    source = int(op.attr("input_dim_idx"))
    target = int(op.attr("output_dim_idx"))
    rows = op.dims(op.x("Input"), source, source + 1)
    sizes = [int(size) for size in op.attr("shape")]
    parts = [op.ints(*sizes[:target]), rows, op.ints(*sizes[target + 1 :])]
    value, dtype = _filler(op)
    together = op.add("Concat", *parts, axis=0)
    made = _filled(op, together, value, dtype)
    op.put(made)


@exports("eye")
def _eye(op: OpView) -> None:
    rows = op.attr("num_rows")
    columns = op.attr("num_columns")
    made = np.eye(rows, rows if columns < 0 else columns, dtype=to_numpy(VarType(op.attr("dtype"))))
    found = op.graph.constant(made)
    op.put(found)


# ----------------------------------------------------------------------- rows of numbers
def _number(op: OpView, slot: str, dtype: Any) -> str:
    shape = op.scalar_shape()
    reshaped = op.add("Reshape", op.x(slot), shape)
    cast = op.cast(reshaped, dtype)
    return cast


@exports("range")
def _range(op: OpView) -> None:
    dtype = op.dtype("Start")
    start, end, step = (_number(op, slot, dtype) for slot in ("Start", "End", "Step"))
    if dtype.kind != "f":
        made = op.add("Range", start, end, step)
        op.put(made)
        return
    # as many as there are in the type of all three; Range itself counts in another one
    difference = op.add("Sub", end, start)
    quotient = op.add("Div", difference, step)
    ceil = op.add("Ceil", quotient)
    count = op.cast(ceil, np.int64)
    places = op.add("Range", op.whole(0), count, op.whole(1))
    product = op.add("Mul", step, op.cast(places, dtype))
    total = op.add("Add", start, product)
    op.put(total)


@exports("linspace")
def _linspace(op: OpView) -> None:
    dtype = op.dtype("Start") if op.attr("dtype") is None else to_numpy(VarType(op.attr("dtype")))
    start, stop = (_number(op, slot, np.float64) for slot in ("Start", "Stop"))
    count = _number(op, "Num", np.int64)
    counted_up = op.add("Range", op.whole(0), count, op.whole(1))
    places = op.cast(counted_up, np.float64)
    difference = op.add("Sub", count, op.whole(1))
    larger = op.add("Max", difference, op.whole(1))
    gaps = op.cast(larger, np.float64)
    sub = op.add("Sub", stop, start)
    step = op.add("Div", sub, gaps)
    product = op.add("Mul", places, step)
    add = op.add("Add", start, product)
    cast = op.cast(add, dtype)
    op.put(cast)


# ----------------------------------------------------------------------- padding
_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge"}


@exports("pad")
def _pad(op: OpView) -> None:
    pairs = op.attr("paddings")
    _padded(op, [*pairs[0::2], *pairs[1::2]], "constant", op.attr("pad_value"))


@exports("pad_constant_like")
def _pad_like(op: OpView) -> None:
    y = op.x("Y")
    shape = op.add("Shape", op.x())
    made = op.add("Shape", y)
    more = op.add("Sub", shape, made)
    pads = op.add("Concat", op.ints(*[0] * op.rank()), more, axis=0)
    padded = op.add("Pad", y, pads, op.number(op.attr("pad_value")))
    op.put(padded)


@exports("pad2d")
def _pad2d(op: OpView) -> None:
    if op.has("Paddings"):
        raise op.error("its paddings are a tensor")
    top, bottom, left, right = op.attr("paddings")
    _padded_image(op, [(top, bottom), (left, right)], op.attr("pad_value"))


@exports("pad3d")
def _pad3d(op: OpView) -> None:
    if op.has("Paddings"):
        raise op.error("its paddings are a tensor")
    left, right, top, bottom, front, back = op.attr("paddings")
    _padded_image(op, [(front, back), (top, bottom), (left, right)], op.attr("value"))


def _padded_image(op: OpView, pairs: Sequence[tuple[int, int]], value: float) -> None:
    if is_channels_last(op.attr("data_format")):
        whole = [(0, 0), *pairs, (0, 0)]
    else:
        whole = [(0, 0), (0, 0), *pairs]
    pads = [before for before, _ in whole] + [after for _, after in whole]
    mode = op.attr("mode")
    # a negative padding cuts off, and what is repeated is what there was before
    if mode != "constant" and min(pads) < 0:
        raise op.error(f"mode {mode!r} with a padding that is negative")
    _padded(op, pads, mode, value)


def _padded(op: OpView, pads: list[int], mode: str, value: float) -> None:
    if mode not in _PAD_MODES:
        raise op.error(f"mode {mode!r}: the rule knows {', '.join(_PAD_MODES)}")
    pad = op.add("Pad", op.x(), op.ints(*pads), op.number(value), mode=_PAD_MODES[mode])
    op.put(pad)
