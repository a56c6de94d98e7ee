"""ONNX for ops that reshape, join, cut and reorder tensors."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

_LAST = 2**31 - 1  # an end beyond all


@exports("cast")
def _cast(op: OpView) -> None:
    op.idle("in_dtype")
    cast = op.cast(op.x(), to_numpy(VarType(op.attr("out_dtype"))))
    op.put(cast)


# what is handed on as it is
@exports("assign", "share_data", "memcpy")
def _same(op: OpView) -> None:
    op.idle("dst_place_type")
    made = op.x()
    op.put(made)


# ----------------------------------------------------------------------- shapes
@exports("reshape", "reshape2")
def _reshape(op: OpView) -> None:
    sizes = op.sizes("Shape", "ShapeTensor", "shape")
    reshaped = op.add("Reshape", op.x(), sizes)
    op.put(reshaped)


@exports("transpose", "transpose2")
def _transpose(op: OpView) -> None:
    order = op.axes(op.attr("axis"))
    op.put(op.add("Transpose", op.x(), perm=order) if order else op.x())


@exports("squeeze", "squeeze2")
def _squeeze(op: OpView) -> None:
    axes = sorted(set(op.axes(op.attr("axes"))))
    stays = op.attr("of_2x", False)
    if not axes:
        # all that are 1 as it runs
        made = op.add("Squeeze", op.x())
        op.put(made)
        return
    if stays:
        axes = [axis for axis in axes if op.shape()[axis] in (1, -1)]
    op.put(op.add("Squeeze", op.x(), op.ints(*axes)) if axes else op.x())


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
    made = op.add("Flatten", op.x(), axis=int(op.attr("axis")))
    op.put(made)


@exports("flatten_contiguous_range")
def _flatten_range(op: OpView) -> None:
    x = op.x()
    rank = op.rank()
    if not rank:
        op.idle("start_axis", "stop_axis")
        made = op.add("Reshape", x, op.ints(1))
        op.put(made)
        return
    first, last = op.axes([op.attr("start_axis"), op.attr("stop_axis")])
    behind = [op.dims(x, last + 1, rank)] if last + 1 < rank else []
    shape = op.add("Concat", op.ints(*[0] * first, -1), *behind, axis=0)
    reshaped = op.add("Reshape", x, shape)
    op.put(reshaped)


# ----------------------------------------------------------------------- parts put together
@exports("concat")
def _concat(op: OpView) -> None:
    axis = int(op.parameter("AxisTensor").reshape(-1)[0]) if op.has("AxisTensor") else op.attr("axis")
    op.idle("axis")
    together = op.add("Concat", *op.all(), axis=int(axis))
    op.put(together)


@exports("stack")
def _stack(op: OpView) -> None:
    axis = op.axes(int(op.attr("axis")), more=1)[0]
    parts = [op.add("Unsqueeze", value, op.ints(axis)) for value in op.all()]
    concat = op.add("Concat", *parts, axis=axis)
    op.put(concat, "Y")


@exports("multiplex")
def _multiplex(op: OpView) -> None:
    """Row r of the result is row r of the operand that Ids[r] names."""
    parts = [op.add("Unsqueeze", value, op.ints(0)) for value in op.all()]
    together = op.add("Concat", *parts, axis=0)
    whole = op.add("Transpose", together, perm=[1, 0, *range(2, op.rank() + 1)])
    reshaped = op.add("Reshape", op.x("Ids"), op.ints(-1, 1))
    ids = op.cast(reshaped, np.int64)
    made = op.add("GatherND", whole, ids, batch_dims=1)
    op.put(made)


@exports("expand", "tile")
def _tile(op: OpView) -> None:
    names = ("ExpandTimes", "expand_times_tensor", "expand_times")
    if op.type == "tile":
        names = ("RepeatTimes", "repeat_times_tensor", "repeat_times")
    computed = op.has(names[0]) or op.has(names[1])
    times = op.sizes(*names)
    if op.type == "tile" and computed:
        raise op.error("its repeat times are tensors, so the rank of the result is unknown")
    given = [1] if computed else op.attr(names[2])
    rank = op.rank()
    more = len(given) - rank
    x = op.x()
    if more < 0 and not computed:
        times = op.ints(*[1] * -more, *given)
    elif more > 0 and not computed:
        x = op.add("Unsqueeze", x, op.ints(*range(more)))
    made = op.add("Tile", x, times)
    op.put(made)


@exports("expand_as")
def _expand_as(op: OpView) -> None:
    x = op.x()
    wanted = op.add("Shape", op.x("target_tensor"))
    shape = op.add("Shape", x)
    quotient = op.add("Div", wanted, shape)
    made = op.add("Tile", x, quotient)
    op.put(made)


@exports("expand_v2")
def _expand(op: OpView) -> None:
    shape = op.sizes("Shape", "expand_shapes_tensor", "shape")
    # -1 keeps a dimension, which for ONNX's Expand is a 1
    larger = op.add("Max", shape, op.ints(1))
    copies = op.add("Expand", op.x(), larger)
    op.put(copies)


@exports("expand_as_v2")
def _expand_as_v2(op: OpView) -> None:
    if op.has("Y"):
        op.idle("target_shape")
        shape = op.add("Shape", op.x("Y"))
    else:
        shape = op.add("Max", op.ints(*op.attr("target_shape")), op.ints(1))
    made = op.add("Expand", op.x(), shape)
    op.put(made)


# ----------------------------------------------------------------------- parts
@exports("split")
def _split(op: OpView) -> None:
    axis = op.attr("axis")
    if op.has("AxisTensor"):
        axis = int(op.parameter("AxisTensor").reshape(-1)[0])
    axis = op.axes(int(axis))[0]
    names = op.op.outputs["Out"]
    x = op.x()
    made = op.add("Split", x, _parts(op, x, axis, len(names)), outputs=len(names), axis=axis)
    op.put_all(made)


def _parts(op: OpView, x: str, axis: int, count: int) -> str:
    """The sizes of the parts along an axis."""
    sections = op.attr("sections")
    number = op.attr("num")
    if op.has("SectionsTensorList"):
        sizes = op.sizes("", "SectionsTensorList", "sections")
        return sizes
    size = op.dims(x, axis, axis + 1)
    if number > 0:
        # a rest makes Split fail, as it does here
        each = op.add("Div", size, op.ints(count))
        together = op.add("Concat", *[each] * count, axis=0)
        return str(together)
    if -1 not in sections:
        return op.ints(*sections)
    known = op.ints(sum(part for part in sections if part >= 0))
    rest = op.add("Sub", size, known)
    parts = [rest if part < 0 else op.ints(part) for part in sections]
    concat = op.add("Concat", *parts, axis=0)
    return str(concat)


@exports("unstack", "unbind")
def _unstack(op: OpView) -> None:
    op.idle("num")
    axis = op.axes(int(op.attr("axis")))[0]
    slot = "Y" if op.type == "unstack" else "Out"
    for place in range(len(op.op.outputs[slot])):
        taken = op.add("Gather", op.x(), op.graph.constant(place, np.int64), axis=axis)
        op.put(taken, slot, place)


@exports("slice", "strided_slice")
def _slice(op: OpView) -> None:
    if op.var("Input").type == VarType.LOD_TENSOR_ARRAY:
        raise op.error("it takes a part of an array")
    op.idle("infer_flags")
    axes = op.axes(op.attr("axes"), "Input")
    gone = op.attr("decrease_axis")
    starts = op.sizes("StartsTensor", "StartsTensorList", "starts")
    ends = op.sizes("EndsTensor", "EndsTensorList", "ends")
    if any(axis in gone for axis in axes):
        ends = _last_one_too(op, starts, ends, [axis in gone for axis in axes])
    bounds = [starts, ends, op.ints(*axes)]
    if op.type == "strided_slice":
        bounds.append(_steps(op))
    made = op.add("Slice", op.x("Input"), *bounds)
    if gone:
        made = op.add("Squeeze", made, op.ints(*op.axes(gone, "Input")))
        if len(set(gone)) == op.rank("Input"):
            made = op.add("Reshape", made, op.ints(1))
    op.put(made)


def _steps(op: OpView) -> str:
    computed = op.has("StridesTensor") or op.has("StridesTensorList")
    backward = computed or any(step < -1 for step in op.attr("strides"))
    is_of_2x = op.attr("of_2x")
    if backward and not is_of_2x:
        raise op.error("fluid counts backward steps from the end of the part, and ONNX from its start")
    return op.sizes("StridesTensor", "StridesTensorList", "strides")


def _last_one_too(op: OpView, starts: str, ends: str, taken: list[bool]) -> str:
    """The ends, where one place is taken: what lies from -1 to 0 is the last."""
    is_equal = op.add("Equal", starts, op.ints(-1))
    equal = op.add("Equal", ends, op.ints(0))
    is_last = op.add("And", is_equal, equal)
    is_last = op.add("And", is_last, op.graph.constant(taken, np.bool_))
    chosen = op.add("Where", is_last, op.ints(_LAST), ends)
    return str(chosen)


@exports("crop", "crop_tensor")
def _crop(op: OpView) -> None:
    x = op.x()
    rank = op.rank()
    lists = ("OffsetsTensor", "ShapeTensor") if op.type == "crop_tensor" else ("", "")
    starts = op.sizes("Offsets", lists[0], "offsets")
    if not op.has("Offsets") and not op.attr("offsets") and not (lists[0] and op.has(lists[0])):
        starts = op.ints(*[0] * rank)
    given = len(op.op.inputs.get(lists[0], ())) if lists[0] else 0
    if 0 < given < rank:
        # tensors for the first dimensions alone: the others start at 0
        starts = op.add("Concat", starts, op.ints(*[0] * (rank - given)), axis=0)
    if op.type == "crop" and op.has("Y"):
        op.idle("shape")
        size = op.add("Shape", op.x("Y"))
    else:
        wanted = op.sizes("Shape" if op.type == "crop_tensor" else "", lists[1], "shape")
        whole = op.add("Shape", x)
        left = whole if op.type == "crop" else op.add("Sub", whole, starts)
        is_less = op.add("Less", wanted, op.ints(0))
        size = op.add("Where", is_less, left, wanted)
    ends = op.add("Add", starts, size)
    part = op.add("Slice", x, starts, ends, op.ints(*range(rank)))
    op.put(part)


# ----------------------------------------------------------------------- picking
@exports("gather", "index_select")
def _gather(op: OpView) -> None:
    op.idle("overwrite")
    index = op.x("Index")
    axis = 0
    if op.type == "index_select":
        axis = op.attr("dim")
    elif op.has("Axis"):
        axis = int(op.parameter("Axis").reshape(-1)[0])
    else:
        axis = op.attr("axis") or 0
    if op.rank("Index") != 1 and not (op.rank("Index") == 0 and op.op.attrs.get("axis") is not None):
        index = op.add("Reshape", index, op.ints(-1))
    made = op.add("Gather", op.x(), index, axis=int(axis))
    op.put(made)


@exports("gather_nd")
def _gather_nd(op: OpView) -> None:
    op.idle("of_2x")
    cast = op.cast(op.x("Index"), np.int64)
    made = op.add("GatherND", op.x(), cast)
    op.put(made)


@exports("index_sample")
def _index_sample(op: OpView) -> None:
    made = op.add("GatherElements", op.x(), op.x("Index"), axis=1)
    op.put(made)


@exports("take_along_axis")
def _take_along_axis(op: OpView) -> None:
    if op.shape("Input") != op.shape("Index"):
        axis = op.axes(int(op.attr("Axis")), "Input")[0]
        shape = op.shape("Input")
        pairs = enumerate(zip(shape, op.shape("Index"), strict=True))
        if any(have != want and at != axis for at, (have, want) in pairs):
            raise op.error("Index has another size than Input in a dimension that is not its axis")
    made = op.add("GatherElements", op.x("Input"), op.x("Index"), axis=int(op.attr("Axis")))
    op.put(made, "Result")


@exports("scatter")
def _scatter(op: OpView) -> None:
    if op.rank("Ids") != 1:
        raise op.error(f"Ids has {op.rank('Ids')} dimensions, and the rule knows one alone")
    x = op.x()
    column = op.add("Unsqueeze", op.x("Ids"), op.ints(1))
    rows = op.cast(column, np.int64)
    if op.attr("overwrite"):
        scattered = op.add("ScatterND", x, rows, op.x("Updates"))
        op.put(scattered)
        return
    op.needs_opset(16)
    zeros = op.add("Sub", op.x("Updates"), op.x("Updates"))
    cleared = op.add("ScatterND", x, rows, zeros)
    made = op.add("ScatterND", cleared, rows, op.x("Updates"), reduction="add")
    op.put(made)


@exports("scatter_nd_add")
def _scatter_nd_add(op: OpView) -> None:
    op.needs_opset(16)
    index = op.cast(op.x("Index"), np.int64)
    scattered = op.add("ScatterND", op.x(), index, op.x("Updates"), reduction="add")
    op.put(scattered)


@exports("where_index")
def _where_index(op: OpView) -> None:
    places = op.add("NonZero", op.x("Condition"))
    turned = op.add("Transpose", places, perm=[1, 0])
    op.put(turned)


@exports("masked_select")
def _masked_select(op: OpView) -> None:
    flat = [op.add("Reshape", op.x(slot), op.ints(-1)) for slot in ("X", "Mask")]
    if op.shape("X") != op.shape("Mask"):
        raise op.error(f"X{list(op.shape())} and Mask{list(op.shape('Mask'))} are not alike")
    made = op.add("Compress", *flat, axis=0)
    op.put(made, "Y")


@exports("one_hot", "one_hot_v2")
def _one_hot(op: OpView) -> None:
    op.idle("allow_out_of_range")
    ids = op.x() if op.type == "one_hot" else op.add("Unsqueeze", op.x(), op.ints(-1))
    dtype = to_numpy(VarType(op.attr("dtype")))
    ids = op.cast(ids, np.int64)
    if op.has("depth_tensor"):
        op.idle("depth")
        shape = op.scalar_shape()
        reshaped = op.add("Reshape", op.x("depth_tensor"), shape)
        depth = op.cast(reshaped, np.int64)
        classes = op.add("Range", op.whole(0), depth, op.whole(1))
    else:
        classes = op.graph.constant(np.arange(op.attr("depth")), np.int64, hint="classes")
    is_equal = op.add("Equal", ids, classes)
    cast = op.cast(is_equal, dtype)
    op.put(cast)


@exports("reverse", "flip")
def _reverse(op: OpView) -> None:
    axes = op.axes(op.attr("axis") if op.type == "reverse" else op.attr("dims") or op.attr("axis"))
    bounds = [[-1] * len(axes), [-_LAST] * len(axes), axes, [-1] * len(axes)]
    part = op.add("Slice", op.x(), *[op.ints(*values) for values in bounds])
    op.put(part)
