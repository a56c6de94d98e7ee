"""Tensor arrays, and the rank tables that sort sequences by length so that a loop can run over their
steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import EMPTY_VAR, GradContext, Lod, Op, Spec, WithLod, get, grad_name
from fluidlite.ir.attributes import OpRole
from fluidlite.ops.gradients import emits_once_more
from fluidlite.values.rank_table import RankTable
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, host, lengths_of, offsets_of

ARRAY = VarType.LOD_TENSOR_ARRAY


def entry(array: LoDTensorArray, index: int) -> Any:
    """The value at `index`, or None where nothing was written."""
    held = array[index] if 0 <= index < len(array) else None
    return None if held is None else held.array


def with_entry(array: LoDTensorArray | None, index: int, value: Any, lod: Lod) -> LoDTensorArray:
    """A copy of the list with another value at `index`; it grows as needed."""
    new = LoDTensorArray(array or ())
    new.extend(LoDTensor() for _ in range(len(new), index + 1))
    new[index] = LoDTensor(value, lod)
    return new


def number(value: Any) -> int:
    """The only element of an integer tensor."""
    found = host(value).reshape(-1)
    if found.size != 1:
        raise ShapeError(f"an index must have one element, but it has shape {list(host(value).shape)}")
    return int(found[0])


# ---------------------------------------------------------------------- reading and writing
write_to_array = Op("write_to_array", "X I -> Out", lod=None, updates=("Out",), booleans=True)


@write_to_array.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype, X.lod_level, ARRAY)


@write_to_array.kernel
def _(ctx: Any, X: Array, X_lod: Lod, I: Array, Out: LoDTensorArray | None) -> LoDTensorArray:  # noqa: E741
    index = number(I)
    old = entry(Out or LoDTensorArray(), index)
    # a gradient adds to what came in for the entry: another op may have read it, too
    if old is not None and ctx.op.role & OpRole.Backward:
        return with_entry(Out, index, old + X, X_lod)
    return with_entry(Out, index, X.copy(), X_lod)


@write_to_array.grad_rule("X")
def _(context: GradContext) -> None:
    gradients = context.in_grad("X")
    # the entry's gradient ends here, even if nobody needs that of what was written
    if gradients == [EMPTY_VAR] and context.older.issuperset(context.output("Out")):
        gradients = [grad_name(name) + "@TAKEN" for name in context.input("X")]
    context.emit(
        "read_from_array",
        {"X": context.out_grad("Out"), "I": context.input("I"), "X_W": context.input("X")},
        {"Out": gradients},
    )


read_from_array = Op(
    "read_from_array",
    "X I X_W? -> Out",
    lod=None,
    dynamic=True,
    takes={"X": "X_W"},
    makes_lod=True,
    booleans=True,
)


@read_from_array.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype, X.lod_level)


@read_from_array.kernel
def _(xp: Any, X: LoDTensorArray, I: Array, X_W: Array | None, X_W_lod: Lod) -> WithLod:  # noqa: E741
    index = number(I)
    value = entry(X, index)
    if value is not None:
        lod = X[index]._lod
        if X_W is not None:
            # the gradient of what was written is no part of that of what it was written over
            X[index] = LoDTensor()
        return WithLod(value.copy(), lod)
    if X_W is None:
        raise EnforceNotMet(
            f"op 'read_from_array': entry {index} of an array of length {len(X)} was never written"
        )
    return WithLod(xp.zeros_like(X_W), X_W_lod)  # nobody read what was written: its gradient is zero


@read_from_array.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "write_to_array",
        {"X": context.out_grad("Out"), "I": context.input("I")},
        {"Out": context.in_grad("X")},
    )


lod_array_length = Op("lod_array_length", "X -> Out", lod=None, absent=("X",))


@lod_array_length.shape
def _(X: Spec) -> Spec:
    return Spec((1,), VarType.INT64)


@lod_array_length.kernel
def _(xp: Any, X: LoDTensorArray | None) -> Array:
    """An array that nothing has been written to has no entries."""
    count: Array = xp.array([0 if X is None else len(X)], dtype="int64")
    return count


tensor_array_to_tensor = Op(
    "tensor_array_to_tensor", "X -> Out OutIndex", attrs={"axis": 0, "use_stack": False}, lod=None
)


@tensor_array_to_tensor.shape
def _(X: Spec, axis: int, use_stack: bool) -> tuple[Spec, Spec]:
    shape = [dim if position != axis else -1 for position, dim in enumerate(X.shape)]
    if use_stack:
        shape = list(X.shape)
        shape.insert(axis, -1)
    return Spec(tuple(shape), X.dtype), Spec((-1,), VarType.INT32)


@tensor_array_to_tensor.kernel
def _(xp: Any, X: LoDTensorArray, axis: int, use_stack: bool) -> tuple[Array, Array]:
    values = [item.array for item in X]
    # with use_stack too: the length of the dimension that was `axis` before, 0 where there was none
    index = xp.array([(*value.shape, 0)[axis if axis >= 0 else axis - 1] for value in values], dtype="int32")
    return (xp.stack if use_stack else xp.concatenate)(values, axis), index


@tensor_array_to_tensor.grad("X")
def _(xp: Any, X: LoDTensorArray, dOut: Array, axis: int, use_stack: bool) -> LoDTensorArray:
    if use_stack:
        parts = [xp.take(dOut, position, axis) for position in range(len(X))]
    else:
        parts = xp.split(dOut, np.cumsum([item.array.shape[axis] for item in X])[:-1].tolist(), axis)
    return LoDTensorArray(LoDTensor(part.copy(), item._lod) for part, item in zip(parts, X, strict=True))


emits_once_more(
    get("tensor_array_to_tensor_grad"),
    incoming={"X": "X@GRAD"},
    writes={"Out": "Out@GRAD"},
    type="tensor_array_to_tensor",
)


# ---------------------------------------------------------------------- rank tables
def row_ranges(lod: Lod, level: int, parts: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], Lod]:
    """The rows under entries [first, stop) of `level` for each of `parts`, and the level of detail below
    of all together.
    """
    rows, lengths = [], [list[int]() for _ in lod[level:]]
    for first, stop in parts:
        for depth, offsets in enumerate(lod[level:]):
            lengths[depth] += [
                b - a for a, b in zip(offsets[first:stop], offsets[first + 1 : stop + 1], strict=True)
            ]
            first, stop = offsets[first], offsets[stop]
        rows.append((first, stop))
    return rows, offsets_of(lengths)


def rows_in(xp: Any, X: Array, ranges: Sequence[tuple[int, int]]) -> Array:
    """The rows of X in the ranges, range after range."""
    bounds = np.asarray(ranges, np.int64).reshape(-1, 2)
    counts = bounds[:, 1] - bounds[:, 0]
    # from the number of a row in the result to that in X
    apart = bounds[:, 0] - (np.cumsum(counts) - counts)
    return _take(xp, X, np.arange(counts.sum()) + np.repeat(apart, counts))


def _take(xp: Any, X: Array, rows: Array) -> Array:
    found: Array = xp.take(X, xp.asarray(rows), axis=0)
    return found


def gathered(
    xp: Any, parts: Sequence[LoDTensor], sources: Sequence[int] | Array, positions: Sequence[int] | Array
) -> tuple[Array, Lod]:
    """Entry `positions[i]` of tensor `parts[sources[i]]` for each i, with the level of detail below of all
    together.
    """
    starts = np.cumsum([0] + [len(part.array) for part in parts])
    values = xp.concatenate([part.array for part in parts])
    depth = max((len(part._lod) for part in parts), default=0)
    if depth == 0:
        return _take(
            xp, values, starts[np.asarray(sources, dtype=int)] + np.asarray(positions, dtype=int)
        ), ()
    ranges = []
    lengths = [list[int]() for _ in range(depth)]
    for source, position in zip(map(int, sources), map(int, positions), strict=True):
        ((first, stop),), lod = row_ranges(parts[source]._lod, 0, [(position, position + 1)])
        ranges.append((int(starts[source]) + first, int(starts[source]) + stop))
        for level, found in zip(lengths, lengths_of(lod), strict=False):
            level += found
    return rows_in(xp, values, ranges), offsets_of(lengths)


lod_rank_table = Op("lod_rank_table", "X -> Out", attrs={"level": limited(0, least(0))}, lod=None)


@lod_rank_table.shape
def _(X: Spec) -> Spec:
    return Spec((), VarType.FP32, 0, VarType.LOD_RANK_TABLE)


@lod_rank_table.kernel
def _(X_lod: Lod, level: int) -> RankTable:
    if level >= len(X_lod):
        raise ShapeError(
            f"op 'lod_rank_table': X has {len(X_lod)} levels of detail, but level {level} is requested"
        )
    lengths = lengths_of(X_lod)[level]
    order = sorted(range(len(lengths)), key=lambda sequence: -lengths[sequence])
    return RankTable(tuple(order), tuple(lengths[sequence] for sequence in order), level, X_lod[:level])


max_sequence_len = Op("max_sequence_len", "RankTable -> Out", lod=None)


@max_sequence_len.shape
def _(RankTable: Spec) -> Spec:
    return Spec((1,), VarType.INT64)


@max_sequence_len.kernel
def _(xp: Any, RankTable: RankTable) -> Array:
    longest: Array = xp.array([max(RankTable.lengths, default=0)], dtype="int64")
    return longest


# ---------------------------------------------------------------------- sequences to arrays and back
lod_tensor_to_array = Op("lod_tensor_to_array", "X RankTable -> Out", lod=None)


@lod_tensor_to_array.shape
def _(X: Spec) -> Spec:
    # a step of paragraphs is a sentence, which falls into sequences too
    return Spec((-1, *X.shape[1:]), X.dtype, max((X.lod_level or 0) - 1, 0), ARRAY)


@lod_tensor_to_array.kernel
def _(xp: Any, X: Array, X_lod: Lod, RankTable: RankTable) -> LoDTensorArray:
    out = LoDTensorArray()
    full = X_lod if len(X_lod) > RankTable.level else RankTable.lod
    if len(full) == RankTable.level + 1:
        # entries are rows
        first = np.asarray(full[-1], np.int64)[list(RankTable.order)]
        steps = range(max(RankTable.lengths, default=0))
        return LoDTensorArray(
            LoDTensor(_take(xp, X, first[: RankTable.active(step)] + step)) for step in steps
        )
    for step in range(max(RankTable.lengths, default=0)):
        starts = [
            full[RankTable.level][sequence] + step for sequence in RankTable.order[: RankTable.active(step)]
        ]
        ranges, lod = row_ranges(full, RankTable.level + 1, [(start, start + 1) for start in starts])
        out.append(LoDTensor(rows_in(xp, X, ranges), lod))
    return out


@lod_tensor_to_array.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "array_to_lod_tensor",
        {"X": context.out_grad("Out"), "RankTable": context.input("RankTable")},
        {"Out": context.in_grad("X")},
    )


array_to_lod_tensor = Op("array_to_lod_tensor", "X RankTable -> Out", lod=None, makes_lod=True)


@array_to_lod_tensor.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype, (X.lod_level or 0) + 1)


@array_to_lod_tensor.kernel
def _(xp: Any, X: LoDTensorArray, RankTable: RankTable) -> WithLod:
    ranks = np.asarray(RankTable.ranks, np.int64)
    lengths = np.asarray(RankTable.lengths, np.int64)[ranks]
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values, lod = gathered(xp, _complete(xp, X, RankTable), step, np.repeat(ranks, lengths))
    return WithLod(values, RankTable.lod + lod)


def _complete(xp: Any, array: LoDTensorArray, table: RankTable) -> list[LoDTensor]:
    """The first steps of `array`, with zeros where a gradient was never written."""
    known = next((item.array for item in array if item.array is not None), None)
    if known is None:
        raise EnforceNotMet("op 'array_to_lod_tensor': nothing was written to the array X")
    steps = max(table.lengths, default=0)
    held = [array[step] if step < len(array) else LoDTensor() for step in range(steps)]
    return [
        item
        if item.array is not None
        else LoDTensor(xp.zeros((table.active(step), *known.shape[1:]), known.dtype))
        for step, item in enumerate(held)
    ]


@array_to_lod_tensor.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "lod_tensor_to_array",
        {"X": context.out_grad("Out"), "RankTable": context.input("RankTable")},
        {"Out": context.in_grad("X")},
    )


# ---------- memories of a loop over ranked sequences
shrink_rnn_memory = Op("shrink_rnn_memory", "X RankTable I -> Out", lod=None, makes_lod=True)


@shrink_rnn_memory.shape
def _(X: Spec) -> Spec:
    return Spec((-1, *X.shape[1:]), X.dtype, X.lod_level)


@shrink_rnn_memory.kernel
def _(X: Array, X_lod: Lod, RankTable: RankTable, I: Array) -> WithLod:  # noqa: E741
    ((_, rows),), lod = row_ranges(X_lod, 0, [(0, RankTable.active(number(I)))])
    return WithLod(X[:rows], lod)


@shrink_rnn_memory.grad("X", makes_lod=True)
def _(xp: Any, X: Array, X_lod: Lod, dOut: Array | None) -> WithLod:
    gradient = xp.zeros_like(X)
    if dOut is not None:
        gradient[: len(dOut)] = dOut
    return WithLod(gradient, X_lod)


def picked(xp: Any, X: Array, lod: Lod, level: int, entries: Iterable[int]) -> tuple[Array, Lod]:
    """Entries of X (rows, or sequences at `level`) in the order given, with the level of detail below
    them.
    """
    ranges, new = row_ranges(lod, level, [(int(index), int(index) + 1) for index in entries])
    return rows_in(xp, X, ranges), new


reorder_lod_tensor_by_rank = Op("reorder_lod_tensor_by_rank", "X RankTable -> Out", lod=None, makes_lod=True)
reorder_lod_tensor_by_rank_grad = Op(
    "reorder_lod_tensor_by_rank_grad", "X RankTable -> Out", lod=None, makes_lod=True
)


@reorder_lod_tensor_by_rank.shape
@reorder_lod_tensor_by_rank_grad.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype, X.lod_level)


@reorder_lod_tensor_by_rank.kernel
def _(xp: Any, X: Array, X_lod: Lod, RankTable: RankTable) -> WithLod:
    return WithLod(*picked(xp, X, X_lod, 0, RankTable.order))


@reorder_lod_tensor_by_rank_grad.kernel
def _(xp: Any, X: Array, X_lod: Lod, RankTable: RankTable) -> WithLod:
    if not X_lod and len(X) != len(RankTable.order) and len(X) == sum(RankTable.lengths):
        # a branch hands its result on without the level of detail, which the gradient lacks, too
        X_lod = ((0, *itertools.accumulate(RankTable.lengths)),)
        return WithLod(picked(xp, X, X_lod, 0, RankTable.ranks)[0], ())
    return WithLod(*picked(xp, X, X_lod, 0, RankTable.ranks))


def _reorders(op: Op, back: str) -> None:
    """Let the gradient of one order be the order of `back`."""

    @op.grad_rule("X")
    def _(context: GradContext) -> None:
        inputs = {"X": context.out_grad("Out"), "RankTable": context.input("RankTable")}
        context.emit(back, inputs, {"Out": context.in_grad("X")})


_reorders(reorder_lod_tensor_by_rank, "reorder_lod_tensor_by_rank_grad")
_reorders(reorder_lod_tensor_by_rank_grad, "reorder_lod_tensor_by_rank")


# ---------------------------------------------------------------------- splitting and merging by a mask
split_lod_tensor = Op(
    "split_lod_tensor",
    "X Mask -> OutTrue OutFalse",
    attrs={"level": limited(0, least(0))},
    lod=None,
    makes_lod=True,
    booleans=True,
)


@split_lod_tensor.shape
def _(X: Spec) -> tuple[Spec, Spec]:
    part = Spec((-1, *X.shape[1:]), X.dtype, X.lod_level)
    return part, part


@split_lod_tensor.kernel
def _(xp: Any, X: Array, X_lod: Lod, Mask: Array, level: int) -> tuple[WithLod, WithLod]:
    mask = host(Mask).reshape(-1).astype(bool)
    return (
        WithLod(*picked(xp, X, X_lod, level, np.flatnonzero(mask))),
        WithLod(*picked(xp, X, X_lod, level, np.flatnonzero(~mask))),
    )


@split_lod_tensor.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "merge_lod_tensor",
        {
            "X": context.input("X"),
            "Mask": context.input("Mask"),
            "InTrue": context.out_grad("OutTrue"),
            "InFalse": context.out_grad("OutFalse"),
        },
        {"Out": context.in_grad("X")},
    )


def _unused(xp: Any, X: Array, Mask: Array, given: Array, side: bool, rows: int) -> Any:
    """The part of a merge that nobody computed: no rows, or the gradient of rows of X that nobody used."""
    if rows and X is Mask:  # values, and not gradients of what was split: IfElse merges by the mask alone
        name = "InTrue" if side else "InFalse"
        raise EnforceNotMet(
            f"op 'merge_lod_tensor': {name} was not computed, but Mask takes {rows} of its rows"
        )
    return xp.zeros((rows, *given.shape[1:]), given.dtype)


def _merge(
    xp: Any,
    X: Array,
    X_lod: Lod,
    Mask: Array,
    Mask_lod: Lod,
    InTrue: Array | None,
    InTrue_lod: Lod,
    InFalse: Array | None,
    InFalse_lod: Lod,
    level: int,
) -> WithLod:
    given = InTrue if InTrue is not None else InFalse
    if given is None:
        raise EnforceNotMet("op 'merge_lod_tensor': neither InTrue nor InFalse was computed")
    mask = host(Mask).reshape(-1).astype(bool)
    # the mask is for rows, where it is X itself, or not as long as there are sequences
    are_sequences = len(X_lod) > level and len(X_lod[level]) == len(mask) + 1 and Mask_lod != X_lod
    parts = []
    for side, array, lod in ((False, InFalse, InFalse_lod), (True, InTrue, InTrue_lod)):
        if not lod and are_sequences:  # gradients of the parts of X fall into sequences as those do
            lod = row_ranges(X_lod, level, [(int(i), int(i) + 1) for i in np.flatnonzero(mask == side)])[1]
        if array is None:
            rows = lod[-1][-1] if lod else int((mask == side).sum())
            array = _unused(xp, X, Mask, given, side, rows)
        parts.append(LoDTensor(array, lod))
    values, lod = gathered(
        xp, parts, mask.astype(int).tolist(), (np.where(mask, np.cumsum(mask), np.cumsum(~mask)) - 1).tolist()
    )
    # parts without levels stand one behind another, however the mask that is X may be cut
    return WithLod(values, X_lod[:level] + lod if InTrue_lod or InFalse_lod else ())


def _declare_merge(type: str, **facts: Any) -> Op:
    op = Op(
        type,
        "X Mask InTrue? InFalse? -> Out",
        attrs={"level": limited(0, least(0))},
        lod=None,
        makes_lod=True,
        alike=("InTrue", "InFalse"),
        **facts,
    )

    @op.shape
    def _(InTrue: Spec | None, InFalse: Spec | None) -> Spec:
        source = InTrue or InFalse
        assert source is not None
        return Spec((-1, *source.shape[1:]), source.dtype, source.lod_level)

    op.kernel(_merge)
    return op


merge_lod_tensor = _declare_merge("merge_lod_tensor", booleans=True)
merge_lod_tensor_infer = _declare_merge("merge_lod_tensor_infer")


@merge_lod_tensor.grad_rule("InTrue InFalse")
def _(context: GradContext) -> None:
    context.emit(
        "split_lod_tensor",
        {"X": context.out_grad("Out"), "Mask": context.input("Mask")},
        {"OutTrue": context.in_grad("InTrue"), "OutFalse": context.in_grad("InFalse")},
    )
