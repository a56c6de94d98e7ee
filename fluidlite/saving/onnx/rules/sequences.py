"""ONNX for ops on sequences: each is the rows of one sequence, as the whole model is of one."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

__all__ = ["check_single"]

_LAST = 2**31 - 1


def check_single(op: OpView, slot: str = "X") -> None:
    """UnsupportedError for sequences of sequences."""
    for name in op.op.inputs[slot]:
        level = op.op.block._var_recursive(name).lod_level or 0
        if level > 1:
            raise op.error(f"{name!r} has {level} levels of detail, and a file of ONNX is of one sequence")


def _rows(op: OpView, value: str) -> str:
    """The number of rows of a value."""
    sizes = op.dims(value, 0, 1)
    return sizes


@exports("lod_reset")
def _lod_reset(op: OpView) -> None:
    """The rows of one sequence, which stay one."""
    if op.has("Y"):
        check_single(op, "Y")
        if not op.var("Y").lod_level:
            raise op.error("Y holds the places where sequences begin")
        op.idle("target_lod")
    elif len(op.attr("target_lod")) > 2:
        raise op.error(f"target_lod is {op.attr('target_lod')}, and a file of ONNX is of one sequence")
    made = op.x()
    op.put(made)


_POOLS = {"MAX": "ReduceMax", "AVERAGE": "ReduceMean", "SUM": "ReduceSum"}


@exports("sequence_pool")
def _sequence_pool(op: OpView) -> None:
    check_single(op)
    # of sequences without rows
    op.idle("pad_value")
    kind = op.attr("pooltype").upper()
    if kind in _POOLS:
        reduced = op.graph.reduce(_POOLS[kind], op.x(), [0], keep=True)
        op.put(reduced)
    elif kind == "SQRT":
        rows = op.cast(_rows(op, op.x()), op.dtype())
        whole = op.graph.reduce("ReduceSum", op.x(), [0], keep=True)
        root = op.add("Sqrt", rows)
        quotient = op.add("Div", whole, root)
        op.put(quotient)
    else:
        start, end = (0, 1) if kind == "FIRST" else (-1, _LAST)
        part = op.add("Slice", op.x(), op.ints(start), op.ints(end), op.ints(0))
        op.put(part)


@exports("sequence_softmax")
def _sequence_softmax(op: OpView) -> None:
    check_single(op)
    made = op.add("Softmax", op.x(), axis=0)
    op.put(made)


@exports("sequence_reshape")
def _sequence_reshape(op: OpView) -> None:
    check_single(op)
    reshaped = op.add("Reshape", op.x(), op.ints(-1, int(op.attr("new_dim"))))
    op.put(reshaped)


@exports("sequence_reverse")
def _sequence_reverse(op: OpView) -> None:
    check_single(op)
    bounds = [op.ints(-1), op.ints(-_LAST), op.ints(0), op.ints(-1)]
    part = op.add("Slice", op.x(), *bounds)
    op.put(part, "Y")


@exports("sequence_concat")
def _sequence_concat(op: OpView) -> None:
    check_single(op)
    together = op.add("Concat", *op.all(), axis=0)
    op.put(together)


@exports("sequence_expand", "sequence_expand_as")
def _sequence_expand(op: OpView) -> None:
    """One row becomes as many as the other sequence has."""
    check_single(op, "Y")
    if op.type == "sequence_expand":
        if op.attr("ref_level") not in (-1, 0):
            raise op.error(f"its ref_level is {op.attr('ref_level')}")
        if op.var("X").lod_level:
            raise op.error("X is a sequence, which is repeated as a whole")
    # more rows than one fail as it runs
    rank = op.rank()
    sizes = op.dims(op.x(), 1, rank)
    concat = op.add("Concat", op.ints(1), sizes, axis=0)
    row = op.add("Reshape", op.x(), concat)
    others = op.ints(*[1] * (op.rank() - 1))
    shape = op.add("Concat", _rows(op, op.x("Y")), others, axis=0)
    copies = op.add("Expand", row, shape)
    op.put(copies)


@exports("sequence_conv")
def _sequence_conv(op: OpView) -> None:
    """Each row beside its neighbours, and one product; rows before the first and after the last are 0."""
    check_single(op)
    start = int(op.attr("contextStart"))
    length = int(op.attr("contextLength"))
    if int(op.attr("contextStride")) != 1 or op.attr("paddingTrainable"):
        raise op.error("a stride, or padding that is learned")
    op.idle("PaddingData")
    product = op.add("MatMul", _neighbours(op, op.x(), start, length), op.x("Filter"))
    op.put(product)


def _neighbours(op: OpView, x: str, start: int, length: int) -> str:
    """Rows [length x columns] with those from `start` on beside each."""
    before = max(-start, 0)
    after = max(start + length - 1, 0)
    padded = op.add("Pad", x, op.ints(before, 0, after, 0), op.number(0.0))
    columns = []
    for place in range(length):
        first = op.ints(start + place + before)
        last = op.add("Add", _rows(op, x), first)
        part = op.add("Slice", padded, first, last, op.ints(0))
        columns.append(part)
    together = op.add("Concat", *columns, axis=1)
    return str(together)


@exports("row_conv")
def _row_conv(op: OpView) -> None:
    """Each row and those that follow, weighted column by column."""
    if op.rank() != 2:
        raise op.error(f"X has {op.rank()} dimensions, and the rule knows sequences")
    check_single(op)
    reach, columns = op.shape("Filter")
    rows = op.add("Reshape", _neighbours(op, op.x(), 0, reach), op.ints(-1, reach, columns))
    mul = op.add("Mul", rows, op.x("Filter"))
    reduced = op.graph.reduce("ReduceSum", mul, [1])
    op.put(reduced)


@exports("sequence_pad")
def _sequence_pad(op: OpView) -> None:
    check_single(op)
    x = op.x()
    length = int(op.attr("padded_length"))
    rank = op.rank()
    rows = _rows(op, op.x())
    whole = op.add("Unsqueeze", x, op.ints(0))
    if length >= 0:
        if op.shape("PadValue") not in ((1,), ()):
            raise op.error("PadValue is a row")
        more = op.add("Sub", op.ints(length), rows)
        in_front = op.ints(*[0] * (rank + 2))
        pads = op.add("Concat", in_front, more, op.ints(*[0] * (rank - 1)), axis=0)
        shape = op.scalar_shape()
        reshape = op.add("Reshape", op.x("PadValue"), shape)
        whole = op.add("Pad", whole, pads, reshape)
    else:
        op.idle("PadValue")
    op.put(whole)
    op.put(rows, "Length")


@exports("sequence_unpad")
def _sequence_unpad(op: OpView) -> None:
    # more sequences than one fail as it runs
    x = op.x()
    rank = op.rank()
    shape = op.dims(x, 1, rank)
    rows = op.add("Reshape", x, op.add("Concat", shape, op.ints(1), axis=0) if rank == 2 else shape)
    reshape = op.add("Reshape", op.x("Length"), op.ints(1))
    length = op.cast(reshape, np.int64)
    part = op.add("Slice", rows, op.ints(0), length, op.ints(0))
    op.put(part)


@exports("sequence_mask")
def _sequence_mask(op: OpView) -> None:
    lengths = op.cast(op.x(), np.int64)
    if op.has("MaxLenTensor"):
        op.idle("maxlen")
        shape = op.scalar_shape()
        reshaped = op.add("Reshape", op.x("MaxLenTensor"), shape)
        most = op.cast(reshaped, np.int64)
    elif op.attr("maxlen") < 0:
        rank = op.rank()
        most = op.graph.reduce("ReduceMax", lengths, list(range(rank)))
    else:
        most = op.whole(int(op.attr("maxlen")))
    places = op.add("Range", op.whole(0), most, op.whole(1))
    column = op.add("Unsqueeze", lengths, op.ints(-1))
    found = op.add("Less", places, column)
    cast = op.cast(found, to_numpy(VarType(op.attr("out_dtype"))))
    op.put(cast, "Y")
