"""ONNX for ops that make, reshape, index and reorder tensors."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

_LAST = 2**31 - 1  # an end beyond all


@exports("cast")
def _cast(op: OpView) -> None:
    op.put(op.add("Cast", op.x(), to=op.graph.dtype(to_numpy(VarType(op.attr("out_dtype"))))))


@exports("reshape", "reshape2")
def _reshape(op: OpView) -> None:
    if op.has("ShapeTensor"):
        raise op.error("its shape is a list of tensors")
    if op.has("Shape"):
        shape = op.add("Cast", op.x("Shape"), to=op.graph.dtype(np.int64))
    else:
        shape = op.ints(*op.attr("shape"))
    op.put(op.add("Reshape", op.x(), shape))


@exports("transpose", "transpose2")
def _transpose(op: OpView) -> None:
    op.put(op.add("Transpose", op.x(), perm=[int(axis) for axis in op.attr("axis")]))


@exports("squeeze", "squeeze2")
def _squeeze(op: OpView) -> None:
    axes = [axis for axis in op.axes(op.attr("axes", [])) if op.shape()[axis] == 1]
    if not op.attr("axes"):
        axes = [axis for axis, size in enumerate(op.shape()) if size == 1]
    op.put(op.add("Squeeze", op.x(), op.ints(*axes)) if axes else op.add("Identity", op.x()))


@exports("unsqueeze", "unsqueeze2")
def _unsqueeze(op: OpView) -> None:
    made = op.x()
    # one after the other, each counted in what the ones before have made
    for done, axis in enumerate(op.attr("axes")):
        rank = op.rank() + done + 1
        made = op.add("Unsqueeze", made, op.ints(axis + rank if axis < 0 else axis))
    op.put(made)


@exports("flatten", "flatten2")
def _flatten(op: OpView) -> None:
    op.put(op.add("Flatten", op.x(), axis=int(op.attr("axis", 1))))


@exports("flatten_contiguous_range")
def _flatten_range(op: OpView) -> None:
    first, last = op.axes([op.attr("start_axis", 1), op.attr("stop_axis", -1)])
    behind = op.shape()[last + 1 :]
    if -1 in behind:
        raise op.error(f"the shape {list(op.shape())} is unknown after axis {last}")
    op.put(op.add("Reshape", op.x(), op.ints(*[0] * first, -1, *behind)))


@exports("concat")
def _concat(op: OpView) -> None:
    op.put(op.add("Concat", *op.all(), axis=int(op.attr("axis", 0))))


@exports("split")
def _split(op: OpView) -> None:
    axis = op.axes(int(op.attr("axis", 0)))[0]
    names = op.op.outputs["Out"]
    sizes = [op.shape("Out", place)[axis] for place in range(len(names))]
    if -1 in sizes:
        raise op.error(f"the sizes {sizes} along axis {axis} are not known")
    made = op.add("Split", op.x(), op.ints(*sizes), outputs=len(names), axis=axis)
    for place, value in enumerate([made] if len(names) == 1 else made):
        op.put(value, "Out", place)


@exports("stack")
def _stack(op: OpView) -> None:
    axis = op.axes(int(op.attr("axis", 0)), more=1)[0]
    parts = [op.add("Unsqueeze", value, op.ints(axis)) for value in op.all()]
    op.put(op.add("Concat", *parts, axis=axis), "Y")


@exports("unstack")
def _unstack(op: OpView) -> None:
    axis = op.axes(int(op.attr("axis", 0)))[0]
    for place in range(len(op.op.outputs["Y"])):
        op.put(op.add("Gather", op.x(), op.graph.constant(place, np.int64), axis=axis), "Y", place)


@exports("slice", "strided_slice")
def _slice(op: OpView) -> None:
    slot = "Input"
    if any(op.has(name) for name in ("StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList")):
        raise op.error("its bounds are tensors")
    axes = op.attr("axes")
    bounds = [op.ints(*op.attr("starts")), op.ints(*op.attr("ends")), op.ints(*axes)]
    if op.type == "strided_slice":
        bounds.append(op.ints(*op.attr("strides")))
    made = op.add("Slice", op.x(slot), *bounds)
    gone = list(op.attr("decrease_axis", []))
    if gone and len(gone) < op.rank(slot):
        made = op.add("Squeeze", made, op.ints(*gone))
    elif gone:
        made = op.add("Reshape", made, op.ints(*op.shape("Out")))
    op.put(made)


@exports("gather", "index_select")
def _gather(op: OpView) -> None:
    index = op.x("Index")
    if op.rank("Index") == 2:
        index = op.add("Squeeze", index, op.ints(1))
    axis = op.attr("dim", 0) if op.type == "index_select" else op.attr("axis", 0)
    op.put(op.add("Gather", op.x(), index, axis=int(axis)))


@exports("gather_nd")
def _gather_nd(op: OpView) -> None:
    index = op.add("Cast", op.x("Index"), to=op.graph.dtype(np.int64))
    op.put(op.add("GatherND", op.x(), index))


@exports("expand", "tile")
def _tile(op: OpView) -> None:
    times = op.attr("expand_times") if op.type == "expand" else op.attr("repeat_times")
    if not times:
        raise op.error("its repeat counts are tensors")
    op.put(op.add("Tile", op.x(), op.ints(*[1] * (op.rank() - len(times)), *times)))


@exports("expand_v2")
def _expand(op: OpView) -> None:
    # -1 keeps a dimension, which for ONNX's Expand is a 1
    op.put(op.add("Expand", op.x(), op.ints(*[max(size, 1) for size in op.attr("shape")])))


@exports("pad")
def _pad(op: OpView) -> None:
    pairs = op.attr("paddings")
    _padded(op, [*pairs[0::2], *pairs[1::2]], "constant", op.attr("pad_value", 0.0))


@exports("pad2d")
def _pad2d(op: OpView) -> None:
    top, bottom, left, right = op.attr("paddings")
    _padded(
        op, [0, 0, top, left, 0, 0, bottom, right], op.attr("mode", "constant"), op.attr("pad_value", 0.0)
    )


@exports("pad3d")
def _pad3d(op: OpView) -> None:
    left, right, top, bottom, front, back = op.attr("paddings")
    pads = [0, 0, front, top, left, 0, 0, back, bottom, right]
    _padded(op, pads, op.attr("mode", "constant"), op.attr("value", 0.0))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge"}


def _padded(op: OpView, pads: list[int], mode: str, value: float) -> None:
    if mode not in _PAD_MODES or op.attr("data_format", "NC").startswith("NH"):
        raise op.error(f"mode {mode}, layout {op.attr('data_format', 'NCHW')}")
    op.put(op.add("Pad", op.x(), op.ints(*pads), op.number(value), mode=_PAD_MODES[mode]))


@exports("shape")
def _shape(op: OpView) -> None:
    op.put(op.add("Cast", op.add("Shape", op.x("Input")), to=op.graph.dtype(np.int32)))


@exports("fill_constant")
def _fill(op: OpView) -> None:
    if op.has("ShapeTensor") or op.has("ShapeTensorList") or op.has("ValueTensor"):
        raise op.error("its shape or its value is a tensor")
    value = float(op.attr("str_value") or op.attr("value", 0.0))
    dtype = to_numpy(VarType(op.attr("dtype")))
    op.put(op.graph.constant(np.full(op.attr("shape"), value), dtype))


@exports("assign_value")
def _assign_value(op: OpView) -> None:
    dtype = np.dtype(to_numpy(VarType(op.attr("dtype"))))
    lists = ("fp32_values", "int32_values", "int64_values", "bool_values", "values")
    values = next(found for name in lists if (found := op.attr(name)))
    op.put(op.graph.constant(np.reshape(values, op.attr("shape")), dtype))


@exports("fill_zeros_like", "fill_any_like")
def _like(op: OpView) -> None:
    value = op.attr("value", 0.0)
    filling = op.graph.helper.make_tensor("value", op.graph.dtype(op.dtype("Out")), [1], [value])
    op.put(op.add("ConstantOfShape", op.add("Shape", op.x()), value=filling))


@exports("fill_constant_batch_size_like")
def _batch_like(op: OpView) -> None:
    source, target = int(op.attr("input_dim_idx", 0)), int(op.attr("output_dim_idx", 0))
    whole = op.add("Shape", op.x("Input"))
    rows = op.add("Slice", whole, op.ints(source), op.ints(source + 1))
    sizes = [int(size) for size in op.attr("shape")]
    parts = [op.ints(*sizes[:target]), rows, op.ints(*sizes[target + 1 :])]
    shape = op.add("Concat", *parts, axis=0)
    value = float(op.attr("str_value") or op.attr("value", 0.0))
    filling = op.graph.helper.make_tensor("value", op.graph.dtype(op.dtype("Out")), [1], [value])
    op.put(op.add("ConstantOfShape", shape, value=filling))


@exports("one_hot", "one_hot_v2")
def _one_hot(op: OpView) -> None:
    ids = op.x()
    if op.type == "one_hot":
        ids = op.add("Squeeze", ids, op.ints(op.rank() - 1))
    ids = op.add("Cast", ids, to=op.graph.dtype(np.int64))
    values = op.graph.constant([0, 1], op.dtype("Out"))
    op.put(op.add("OneHot", ids, op.graph.constant(int(op.attr("depth")), np.int64), values, axis=-1))


@exports("reverse")
def _reverse(op: OpView) -> None:
    axes = op.axes(op.attr("axis"))
    bounds = [[-1] * len(axes), [-_LAST] * len(axes), axes, [-1] * len(axes)]
    op.put(op.add("Slice", op.x(), *[op.ints(*values) for values in bounds]))
