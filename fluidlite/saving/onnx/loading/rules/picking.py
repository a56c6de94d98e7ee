"""ONNX ops that join, cut, pick and place elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.rules.elementwise import expanded_alike
from fluidlite.saving.onnx.loading.rules.shapes import row_of

_LAST = 2**31 - 1


# ----------------------------------------------------------------------- parts put together
@reads("Concat")
def _concat(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    inputs = op.all()
    joined = op.emit("concat", {"X": inputs}, {"axis": axis})
    op.put(joined)


@reads("Split")
def _split(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    count = len(op.node.output)
    size = op.shape()[axis]
    op.idle("num_outputs")
    if op.has(1):
        sections = op.ints(1)
    elif size >= 0:
        # the last one is smaller where they are not alike
        each = -(-size // count)
        sections = [min(each, size - each * at) for at in range(count)]
    else:
        sections = []
    if sections and (min(sections) < 0 or len(sections) != count):
        raise op.malformed(f"its parts are {sections}, and it has {count} outputs")
    attrs = {"axis": axis, "sections": sections, "num": 0 if sections else count}
    made = op.emit_all("split", {"X": op.x()}, attrs, {"Out": count})
    op.put_all(made)


# ----------------------------------------------------------------------- parts
@reads("Slice")
def _slice(op: NodeView) -> None:
    x = op.x()
    count = op.shape(1)[0]
    axes = [op.axis(axis) for axis in op.ints(3)] if op.has(3) else list(range(count))
    if len(axes) != count or any(op.has(place) and op.shape(place) != (count,) for place in (2, 4)):
        raise op.malformed(f"it has {count} starts for axes {axes}, and others of ends or steps")
    inputs: dict[str, Any] = {"Input": x}
    attrs: dict[str, Any] = {"axes": axes, "infer_flags": [1] * count}
    for place, name in ((1, "starts"), (2, "ends"), *([(4, "strides")] if op.has(4) else [])):
        known = op.value(place).array
        if known is not None:
            attrs[name] = [max(min(int(each), _LAST), -_LAST) for each in known.reshape(-1)]
            continue
        attrs[name] = [-1] * count
        attrs["infer_flags"] = [-1] * count
        slot = f"{name.capitalize()}TensorList"
        cast = op.cast(op.x(place), np.int64)
        inputs[slot] = row_of(op, cast, count)
    if "StridesTensorList" in inputs or any(step != 1 for step in attrs.get("strides", ())):
        made = op.emit("strided_slice", inputs, attrs)
        op.put(made)
    else:
        attrs.pop("strides", None)
        part = op.emit("slice", inputs, attrs)
        op.put(part)


@reads("Pad")
def _pad(op: NodeView) -> None:
    axes = [op.axis(axis) for axis in op.ints(3)] if op.has(3) else list(range(op.rank()))
    if op.value(1).array is None:
        _computed_pads(op, axes)
        return
    given = op.ints(1)
    pairs = [(0, 0)] * op.rank()
    for at, axis in enumerate(axes):
        pairs[axis] = (given[at], given[at + len(axes)])
    x = op.x()
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            x = op.part(x, axis, max(-before, 0), after if after < 0 else _LAST)
    pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    mode = op.attr("mode")
    # the value, which counts only where something is put in
    op.has(2)
    if mode == "constant":
        op.put(_filled(op, x, pairs) if any(map(any, pairs)) else x)
        return
    if mode not in _PADDINGS or op.rank() > 5 or sum(map(any, pairs)) > 3:
        raise op.error(f"it pads {pairs} by mode {mode!r}, and the rule knows three dimensions of five alone")
    made = _repeating(op, x, pairs, _PADDINGS[mode])
    op.put(made)


_PADDINGS = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _repeating(op: NodeView, x: Variable, pairs: Sequence[tuple[int, int]], mode: str) -> Variable:
    """As a volume, whose last dimensions are padded."""
    order = sorted(range(op.rank()), key=lambda axis: any(pairs[axis]))
    new = list(range(5 - op.rank()))
    turned = op.transposed(x, order)
    wide = op.unsqueezed(turned, new)
    flat = [side for axis in reversed(order[-3:]) for side in pairs[axis]]
    flat += [0] * (6 - len(flat))
    result = op.one("pad3d", wide, paddings=flat, mode=mode)
    made = op.squeezed(result, new)
    ordered = sorted(range(len(order)), key=order.__getitem__)
    return op.transposed(made, ordered)


def _computed_pads(op: NodeView, axes: Sequence[int]) -> None:
    """As a volume, of which an op takes the padding from a variable: the last dimension first."""
    rank = op.rank()
    if rank > 3 or list(axes) != list(range(rank)) or op.attr("mode") != "constant":
        raise op.error(f"its input 'pads' is computed, for the axes {list(axes)} of {rank}")
    row = [*row_of(op, op.cast(op.x(1), np.int32), 2 * rank)]
    none = op.fixed([0], np.int32)
    flat = [row[at] for axis in reversed(range(rank)) for at in (axis, rank + axis)] + [none] * 2 * (3 - rank)
    pads = op.emit("concat", {"X": flat}, {"axis": 0})
    new = list(range(5 - rank))
    x = op.x()
    wide = op.unsqueezed(x, new)
    inputs = {"X": wide, "Paddings": pads}
    result = _number(op)
    made = op.emit("pad3d", inputs, {"mode": "constant", "value": result})
    narrow = op.squeezed(made, new)
    op.put(narrow)


def _number(op: NodeView) -> float:
    """The number that is put in, as an attribute has it: a float32."""
    value = op.array(2).reshape(-1)[0] if op.has(2) else 0
    number = float(value)
    if float(np.float32(number)) != number or number != value:
        raise op.error(f"it pads with {value}, and the rule knows numbers of float32 alone")
    return number


def _filled(op: NodeView, x: Variable, pairs: Sequence[tuple[int, int]]) -> Variable:
    flat = [side for pair in pairs for side in pair]
    made = _number(op)
    return op.one("pad", x, paddings=flat, pad_value=made)


# ----------------------------------------------------------------------- picking
def _from_front(op: NodeView, index: int, axis: int) -> Variable:
    """The indices of an input, negative ones counted from the front."""
    known = op.value(index).array
    size = op.shape()[axis]
    if known is not None and (size >= 0 or (known >= 0).all()):
        if known.size and size >= 0 and not (-size <= known.min() and known.max() < size):
            raise op.malformed(f"its indices reach from {known.min()} to {known.max()}, in a size of {size}")
        chosen = np.where(known < 0, known + max(size, 0), known)
        return op.fixed(chosen, known.dtype)
    ids = op.cast(op.x(index), np.int64)
    if size >= 0:
        whole = op.fixed(size, np.int64)
    else:
        x = op.x()
        sizes = op.sizes(x)
        whole = op.part(sizes, 0, axis, axis + 1)
        whole = whole if ids.shape else op.reshaped(whole, [])
    constant = op.fixed(0, np.int64)
    is_less = op.two("less_than", ids, constant)
    negative = op.cast(is_less, np.int64)
    product = op.two("elementwise_mul", negative, whole)
    return op.two("elementwise_add", ids, product)


@reads("Gather")
def _gather(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    result = _from_front(op, 1, axis)
    x = op.x()
    ids = result
    shape = tuple(ids.shape)
    if len(shape) < 2:
        scalar = not shape and len(x.shape) == 1
        taken = op.emit("gather", {"X": x, "Index": ids}, {"axis": axis}, scalar=scalar)
        op.put(taken)
        return
    reshaped = op.reshaped(ids, [-1])
    made = op.emit("gather", {"X": x, "Index": reshaped}, {"axis": axis})
    found = _split_axis(op, made, axis, ids)
    op.put(found)


def _split_axis(op: NodeView, made: Variable, axis: int, ids: Variable) -> Variable:
    """A result whose dimension `axis` gets the shape of the indices."""
    before = list(made.shape[:axis])
    between = list(ids.shape)
    behind = list(made.shape[axis + 1 :])
    target = [0] * len(before) + between + behind
    if target.count(-1) <= 1:
        return op.reshaped(made, target)
    sizes = op.sizes(made)
    rows = [op.part(sizes, 0, 0, axis)] if axis else []
    rows.append(op.sizes(ids))
    rows += [op.part(sizes, 0, axis + 1, len(made.shape))] if behind else []
    whole = op.emit("concat", {"X": rows}, {"axis": 0})
    declared = before + between + behind
    count = len(declared)
    result = row_of(op, whole, count)
    return op.emit("reshape2", {"X": made, "ShapeTensor": result}, {"shape": declared})


@reads("GatherElements")
def _gather_elements(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    made = _from_front(op, 1, axis)
    x = op.x()
    ids = made
    others = [at for at in range(op.rank()) if at != axis]
    if any(x.shape[at] != ids.shape[at] or x.shape[at] < 0 for at in others):
        # of the other dimensions it takes as many as there are indices
        x = _cut(op, x, ids, others)
    result = op.emit("take_along_axis", {"Input": x, "Index": ids}, {"Axis": axis}, slot="Result")
    op.put(result)


def _cut(op: NodeView, x: Variable, ids: Variable, axes: Sequence[int]) -> Variable:
    """The front of x, as large as the indices in some dimensions."""
    if min(ids.shape, default=0) >= 0:
        ends = [ids.shape[at] for at in axes]
        listed = list(axes)
        return op.emit("slice", {"Input": x}, {"axes": listed, "starts": [0] * len(ends), "ends": ends})
    sizes = op.sizes(ids)
    row = row_of(op, sizes, len(ids.shape))
    count = len(axes)
    attrs = {"axes": list(axes), "starts": [0] * count, "ends": [-1] * count, "infer_flags": [-1] * count}
    return op.emit("slice", {"Input": x, "EndsTensorList": [row[at] for at in axes]}, attrs)


@reads("GatherND")
def _gather_nd(op: NodeView) -> None:
    batch_dims = op.attr("batch_dims")
    made = _places(op, 1, batch_dims)
    x = op.x()
    ids = made
    result = op.emit("gather_nd", {"X": x, "Index": ids})
    op.put(result)


def _places(op: NodeView, index: int, batch: int = 0) -> Variable:
    """Rows of places, counted from the front; of batches, with the number of the batch in front."""
    depth = op.shape(index)[-1]
    if depth < 0 or batch > 1:
        raise op.error(f"places of {depth} dimensions in batches of {batch}")
    ids = op.cast(op.x(index), np.int64)
    known = op.value(index).array
    if known is None or (known < 0).any():
        sizes = op.shape()[batch : batch + depth]
        if min(sizes, default=0) >= 0:
            whole = op.fixed(sizes, np.int64)
        else:
            whole = op.part(op.sizes(op.x()), 0, batch, batch + depth)
        constant = op.fixed(0, np.int64)
        is_less = op.two("less_than", ids, constant)
        negative = op.cast(is_less, np.int64)
        product = op.two("elementwise_mul", negative, whole)
        ids = op.two("elementwise_add", ids, product)
    if not batch:
        return ids
    part = op.part(ids, len(ids.shape) - 1, 0, 1)
    ones = op.one("fill_any_like", part, value=1.0)
    rows = op.one("cumsum", ones, axis=0, exclusive=True)
    return op.emit("concat", {"X": [rows, ids]}, {"axis": len(ids.shape) - 1})


@reads("Compress")
def _compress(op: NodeView) -> None:
    axis = op.attr("axis")
    x = op.reshaped(op.x(), [-1]) if axis is None else op.x()
    axis = 0 if axis is None else op.axis(axis)
    second = op.x(1)
    places = op.emit("where_index", {"Condition": second})
    ids = op.reshaped(places, [-1])
    taken = op.emit("gather", {"X": x, "Index": ids}, {"axis": axis})
    op.put(taken)


@reads("NonZero")
def _non_zero(op: NodeView) -> None:
    x = op.x()
    places = op.emit("where_index", {"Condition": x})
    turned = op.transposed(places, [1, 0])
    op.put(turned)


@reads("OneHot")
def _one_hot(op: NodeView) -> None:
    depth = int(op.array(1).reshape(-1)[0])
    rank = op.rank()
    axis = op.axis(op.attr("axis"), rank + 1)
    x = op.x()
    cast = op.cast(x, np.int64)
    ids = op.unsqueezed(cast, [axis])
    shape = [depth if at == axis else 1 for at in range(rank + 1)]
    constant = op.fixed(0, np.int64)
    is_less = op.two("less_than", ids, constant)
    negative = op.cast(is_less, np.int64)
    number = float(depth)
    scaled = op.one("scale", negative, scale=number)
    ids = op.two("elementwise_add", ids, scaled)
    reshaped = np.arange(depth).reshape(shape)
    fixed = op.fixed(reshaped, np.int64)
    is_here = op.two("equal", ids, fixed)
    off, on = (op.fixed(each, op.dtype(2)) for each in op.array(2))
    condition, yes, no = expanded_alike(op, is_here, on, off)
    chosen = op.emit("where", {"Condition": condition, "X": yes, "Y": no})
    op.put(chosen)


@reads("Trilu")
def _trilu(op: NodeView) -> None:
    diagonal = int(op.array(1).reshape(-1)[0]) if op.has(1) else 0
    x = op.x()
    made = op.one("tril_triu", x, diagonal=diagonal, lower=not op.attr("upper"))
    op.put(made)


# ----------------------------------------------------------------------- placing
@reads("ScatterND")
def _scatter_nd(op: NodeView) -> None:
    reduction = op.attr("reduction")
    third = op.x(2)
    x = op.x()
    updates = third
    depth = op.shape(1)[-1]
    if reduction == "add":
        found = _places(op, 1)
        result = op.emit("scatter_nd_add", {"X": x, "Index": found, "Updates": updates})
        op.put(result)
        return
    if reduction not in (None, "none"):
        raise op.error(
            f"its attribute 'reduction' is {reduction!r}, and the rule knows 'none' and 'add' alone"
        )
    ids = _places(op, 1)
    sizes = list(x.shape)
    if min(sizes[1:depth], default=0) < 0 or min(sizes[depth:], default=0) < 0:
        raise op.error(f"it writes into {sizes}, whose inner sizes are not known")
    # rows of a table: their numbers are the places in row-major order
    steps = [int(np.prod(sizes[at + 1 : depth])) for at in range(depth)]
    constant = op.fixed(steps, np.int64)
    product = op.two("elementwise_mul", ids, constant)
    flat = op.emit("reduce_sum", {"X": product}, {"dim": [-1]})
    table = op.reshaped(x, [-1, *sizes[depth:]]) if depth != 1 else x
    rows = op.reshaped(updates, [-1, *sizes[depth:]])
    reshaped = op.reshaped(flat, [-1])
    made = op.emit("scatter", {"X": table, "Ids": reshaped, "Updates": rows}, {"overwrite": True})
    op.put(op.reshaped(made, [-1, *sizes[1:]]) if depth != 1 else made)


_REDUCTIONS = {None: "assign", "none": "assign", "add": "add", "mul": "multiply"}


@reads("ScatterElements")
def _scatter_elements(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    reduction = op.attr("reduction")
    if reduction not in _REDUCTIONS:
        raise op.error(
            f"its attribute 'reduction' is {reduction!r}, and the rule knows {list(_REDUCTIONS)[1:]}"
        )
    made = _from_front(op, 1, axis)
    third = op.x(2)
    x = op.x()
    ids = made
    updates = third
    others = [at for at in range(op.rank()) if at != axis]
    if any(x.shape[at] != ids.shape[at] for at in others):
        raise op.error(f"its indices{list(ids.shape)} do not name all of the rows of {list(x.shape)}")
    inputs = {"Input": x, "Index": ids, "Value": updates}
    attrs = {"Axis": axis, "Reduce": _REDUCTIONS[reduction]}
    result = op.emit("put_along_axis", inputs, attrs, slot="Result")
    op.put(result)
