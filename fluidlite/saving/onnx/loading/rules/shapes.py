"""ONNX ops on shapes and of values that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.values import OnnxValue, RunSize

__all__ = ["row_of"]


@reads("Constant")
def _constant(op: NodeView) -> None:
    given = [each.name for each in op.node.attribute]
    if len(given) != 1 or given[0] not in _CONSTANTS:
        raise op.error(f"it has the attributes {given}, and the rule knows one of {sorted(_CONSTANTS)}")
    value = op.attr(given[0])
    dtype = _CONSTANTS[given[0]]
    array = op.graph.file.array(value) if dtype is None else np.asarray(value, dtype)
    made = OnnxValue.constant(array)
    op.put(made)


_CONSTANTS: dict[str, Any] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@reads("Shape")
def _shape(op: NodeView) -> None:
    start = op.attr("start")
    end = op.attr("end")
    first = start
    last = end
    x = op.x()
    whole = op.sizes(x)
    if first or last is not None:
        last = 2**31 - 1 if last is None else last
        whole = op.part(whole, 0, first, last)
    op.put(whole)


@reads("Size")
def _size(op: NodeView) -> None:
    x = op.x()
    made = op.emit("size", {"Input": x}, scalar=True)
    op.put(made)


# ----------------------------------------------------------------------- reshapes
def _parts(op: NodeView, place: int) -> list[Any]:
    """The numbers of an input that says a shape, None where they are not known."""
    value = op.value(place)
    if value.parts is not None:
        reshaped = value.parts.reshape(-1)
        return list(reshaped)
    if len(value.shape) != 1 or value.shape[0] < 0:
        raise op.error(f"the shape in its input {place} has an unknown number of dimensions")
    return [None] * value.shape[0]


@reads("Reshape")
def _reshape(op: NodeView) -> None:
    x = op.x()
    given = _parts(op, 1)
    if op.attr("allowzero") and any(part in (0, None) for part in given):
        raise op.error(f"its attribute 'allowzero' is 1, and some of its sizes {given} may be 0")
    sizes = [_kept(x, at, part) for at, part in enumerate(given)]
    unknown = [at for at, size in enumerate(sizes) if size is None]
    if (
        len(unknown) == 1
        and -1 not in sizes
        and all(sizes[at] or at < len(x.shape) for at in range(len(sizes)))
    ):
        # what is left: there is no other number that fits
        sizes[unknown.pop()] = -1
    if not unknown:
        reshaped = op.reshaped(x, sizes)
        op.put(reshaped)
        return
    second = op.x(1)
    count = len(sizes)
    row = row_of(op, second, count)
    declared = [-1 if size is None else size for size in sizes]
    made = op.emit("reshape2", {"X": x, "ShapeTensor": row}, {"shape": declared})
    op.put(made)


def _kept(x: Variable, at: int, part: Any) -> Any:
    """A size as an attribute has it: 0 for the size that x has there."""
    if isinstance(part, RunSize):
        return 0 if part == RunSize(x.name, at) else None
    return part


def row_of(op: NodeView, sizes: Variable, count: int) -> list[Variable]:
    """A variable of [1] for each number in a row."""
    if count == 1:
        return [sizes]
    return op.emit_all("split", {"X": sizes}, {"axis": 0, "num": count}, {"Out": count})


@reads("Flatten")
def _flatten(op: NodeView) -> None:
    axis = op.attr("axis")
    axis = axis + op.rank() if axis < 0 else axis
    x = op.x()
    flat = op.emit("flatten2", {"X": x}, {"axis": axis})
    op.put(flat)


@reads("Transpose")
def _transpose(op: NodeView) -> None:
    order = op.attr("perm")
    order = list(range(op.rank()))[::-1] if order is None else order
    op.put(op.transposed(op.x(), order) if op.rank() else op.x())


def _axes(op: NodeView, place: int, rank: int) -> list[int]:
    return [op.axis(axis, rank) for axis in op.ints(place)]


@reads("Squeeze")
def _squeeze(op: NodeView) -> None:
    x = op.x()
    if op.has(1):
        rank = op.rank()
        axes = _axes(op, 1, rank)
    else:
        axes = [axis for axis, size in enumerate(op.shape()) if size == 1]
        if min(op.shape(), default=0) < 0:
            raise op.error("it takes all dimensions of 1 away, and some sizes are not known")
    if any(x.shape[axis] not in (1, -1) for axis in axes):
        raise op.malformed(f"it takes the dimensions {axes} of {list(x.shape)} away, which are not 1")
    narrow = op.squeezed(x, axes)
    op.put(narrow)


@reads("Unsqueeze")
def _unsqueeze(op: NodeView) -> None:
    axes = _axes(op, 1, op.rank() + len(op.ints(1)))
    x = op.x()
    wide = op.unsqueezed(x, axes)
    op.put(wide)


# ----------------------------------------------------------------------- copies
@reads("Expand")
def _expand(op: NodeView) -> None:
    """Both shapes count: a size of 1 in the one takes that of the other."""
    x = op.x()
    given = _parts(op, 1)
    more = len(given) - len(x.shape)
    if more < 0:
        given = [1] * -more + given
        more = 0
    have = [1] * more + list(x.shape)
    wanted = [
        _expanded(x, at - more, size, part) for at, (size, part) in enumerate(zip(have, given, strict=True))
    ]
    if all(part is not None for part in wanted):
        op.put(op.emit("expand_v2", {"X": x}, {"shape": wanted}) if wanted else x)
        return
    asked = op.x(1)
    if asked.shape[0] < len(have):
        constant = op.fixed([1] * (len(have) - asked.shape[0]), np.int64)
        asked = op.emit("concat", {"X": [constant, asked]})
    sizes = op.sizes(x)
    if more:
        fixed = op.fixed([1] * more, np.int64)
        sizes = op.emit("concat", {"X": [fixed, sizes]}, {"axis": 0})
    whole = op.two("elementwise_max", asked, sizes)
    declared = [-1 if part is None else part for part in wanted]
    copies = op.emit("expand_v2", {"X": x, "Shape": whole}, {"shape": declared})
    op.put(copies)


def _expanded(x: Variable, at: int, size: int, part: Any) -> int | None:
    """A size of the result, -1 for that of x; None where the run alone knows it."""
    if size > 1 or part == RunSize(x.name, at):
        # the other one is the same, or 1; where it is neither, the op says so
        return part if isinstance(part, int) and part != 1 else -1
    if part == 1:
        return -1 if at >= 0 else 1
    return part if isinstance(part, int) else None


@reads("Tile")
def _tile(op: NodeView) -> None:
    times = op.value(1).array
    if times is not None:
        x = op.x()
        copies = op.one("tile", x, repeat_times=[int(each) for each in times.reshape(-1)])
        op.put(copies)
        return
    second = op.x(1)
    rank = op.rank()
    row = row_of(op, second, rank)
    attrs = {"repeat_times": [-1] * op.rank()}
    made = op.emit("tile", {"X": op.x(), "repeat_times_tensor": row}, attrs)
    op.put(made)


# ----------------------------------------------------------------------- new values
@reads("ConstantOfShape")
def _constant_of_shape(op: NodeView) -> None:
    value = op.attr("value")
    filler = op.graph.file.array(value) if value is not None else np.zeros(1, np.float32)
    if filler.size != 1:
        raise op.malformed(f"its value has {filler.size} elements")
    sizes = [part if isinstance(part, int) else None for part in _parts(op, 0)]
    made = _number(filler)
    attrs = {"dtype": to_vartype(filler.dtype), **made}
    if all(size is not None for size in sizes):
        filled = op.emit("fill_constant", {}, {**attrs, "shape": sizes})
        op.put(filled)
        return
    declared = [-1 if size is None else size for size in sizes]
    x = op.x()
    result = op.emit("fill_constant", {"ShapeTensor": x}, {**attrs, "shape": declared})
    op.put(result)


def _number(filler: Array) -> dict[str, Any]:
    number = filler.reshape(-1)[0]
    # the attribute of numbers is a float32
    text = {"str_value": str(number.item())} if filler.dtype.kind in "iu" or filler.itemsize > 4 else {}
    return {"value": float(number), **text}


@reads("Range")
def _range(op: NodeView) -> None:
    start, end, step = op.all()
    row = op.emit("range", {"Start": start, "End": end, "Step": step})
    op.put(row)


@reads("EyeLike")
def _eye_like(op: NodeView) -> None:
    rows, columns = op.shape()
    if rows < 0 or columns < 0 or op.attr("k"):
        raise op.error(f"a diagonal of {list(op.shape())} from {op.attr('k')}")
    number = op.attr("dtype")
    dtype = op.dtype() if number is None else op.graph.file.dtype(number, "its result")
    attrs = {"num_rows": rows, "num_columns": columns, "dtype": to_vartype(dtype)}
    diagonal = op.emit("eye", {}, attrs)
    op.put(diagonal)
