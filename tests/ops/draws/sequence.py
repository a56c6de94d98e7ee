"""Sequences of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
KINDS = (*FLOATS, *FLOATS, "int32", "int64")


def counted(draw: Draw, count: int, low: int = 0, high: int = 4) -> list[int]:
    """So many lengths, not all of them 0."""
    found = [draw.int(low, high) for _ in range(count)]
    if not sum(found):
        found[0] = 2
    return found


def two_levels(draw: Draw, width: tuple[int, ...], dtype: Any = "float32") -> Value:
    """Sequences of sequences."""
    outer = counted(draw, draw.int(1, 3), 1, 3)
    inner = counted(draw, sum(outer), 1, 3)
    return draw.tensor((sum(inner), *width), dtype, lengths=[outer, inner])


def first_lengths(draw: Draw, x: Value) -> list[int]:
    """The lengths of the last level."""
    found: list[int] = draw.feeds[x.name]["lengths"][-1]
    return found


@draws("fluid.layers.sequence_pool")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice("sum", "average", "sqrt", "max", "last", "first", "SUM", "MAX")
    width = draw.shape((1, 2), low=2)
    single = draw.flag(0.75)
    x = draw.sequences(width, "float32", distinct=True) if single else two_levels(draw, width)
    return draw.call(
        name, x, kind, is_test=draw.maybe(draw.flag(), 0.2), pad_value=draw.choice(OMIT, 0.0, 1.5)
    )


@draws("fluid.layers.sequence_first_step", "fluid.layers.sequence_last_step")
def _(draw: Draw, name: str) -> Any:
    width = draw.shape((1, 2), low=2)
    return draw.call(name, draw.sequences(width, "float32") if draw.flag(0.75) else two_levels(draw, width))


@draws("fluid.layers.sequence_softmax")
def _(draw: Draw, name: str) -> Any:
    cudnn = draw.maybe(draw.flag(), 0.2)
    return draw.call(name, draw.sequences((1,), FLOATS, empty=False), use_cudnn=cudnn)


@draws("fluid.layers.sequence_reverse")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.sequences(draw.shape((1, 2)), (*KINDS, "uint8")))


@draws("fluid.layers.sequence_concat")
def _(draw: Draw, name: str) -> Any:
    count, width, dtype = draw.int(1, 3), draw.shape((1, 2)), draw.choice(*FLOATS, "int64")
    given = []
    for _ in range(draw.int(2, 3)):
        lengths = counted(draw, count, 0 if draw.flag(0.3) else 1)
        given.append(draw.tensor((sum(lengths), *width), dtype, lengths=[lengths]))
    return draw.call(name, given)


@draws("fluid.layers.sequence_expand")
def _(draw: Draw, name: str) -> Any:
    outer = counted(draw, draw.int(1, 3), 1, 3)
    width, dtype = draw.shape((1, 2)), draw.choice(*KINDS)
    levels = [outer, counted(draw, sum(outer), 1, 3)] if draw.flag(0.4) else [outer]
    y = draw.tensor((sum(levels[-1]), draw.int(1, 2)), dtype, lengths=levels)
    level = draw.int(0, len(levels) - 1)
    count = len(levels[level])
    ref: Any = draw.choice(OMIT, -1) if level == len(levels) - 1 and draw.flag() else level
    if draw.flag():
        return draw.call(name, draw.tensor((count, *width), dtype), y, ref_level=ref)
    lengths = counted(draw, count, 1, 3)
    return draw.call(name, draw.tensor((sum(lengths), *width), dtype, lengths=[lengths]), y, ref_level=ref)


@draws("fluid.layers.sequence_expand_as")
def _(draw: Draw, name: str) -> Any:
    lengths, width = counted(draw, draw.int(1, 3)), draw.shape((1, 2))
    dtype = draw.choice(*KINDS)
    y = draw.tensor((sum(lengths), 1), dtype, lengths=[lengths])
    return draw.call(name, draw.tensor((len(lengths), *width), dtype), y)


@draws("fluid.layers.sequence_conv")
def _(draw: Draw, name: str) -> Any:
    x = draw.sequences((draw.int(1, 4),), "float32")
    size = draw.int(1, 4)
    return draw.call(
        name,
        x,
        draw.int(1, 4),
        filter_size=size,
        padding=draw.maybe(True, 0.3),
        padding_start=draw.choice(OMIT, OMIT, -1, 0, -2),
        bias_attr=draw.choice(OMIT, False),
        param_attr=draw.attr(0.15),
        act=draw.act(),
    )


@draws("fluid.layers.sequence_reshape")
def _(draw: Draw, name: str) -> Any:
    width = draw.choice(2, 4, 6)
    lengths = [2 * draw.int(1, 3) for _ in range(draw.int(1, 3))]
    x = draw.tensor((sum(lengths), width), KINDS, lengths=[lengths])
    return draw.call(name, x, draw.choice(1, width // 2, width, 2 * width))


@draws("fluid.layers.sequence_enumerate")
def _(draw: Draw, name: str) -> Any:
    x = draw.sequences((1,), ("int32", "int64"), low=0, high=9)
    return draw.call(name, x, draw.int(1, 4), pad_value=draw.choice(OMIT, 0, 7))


@draws("fluid.layers.sequence_mask")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 3), dtype=("int32", "int64"), low=0, high=5)
    longest: Any = draw.maybe(draw.int(5, 7))
    if longest is not OMIT and draw.flag(0.3):
        longest = draw.variable(longest, "int32")
    return draw.call(
        name, x, maxlen=longest, dtype=draw.choice(OMIT, "int32", "int64", "float32", "float64", "bool")
    )


@draws("fluid.layers.sequence_pad")
def _(draw: Draw, name: str) -> Any:
    width = draw.shape((1, 2))
    x = draw.sequences(width, KINDS)
    value = draw.feed(draw.numbers((1,) if draw.flag(0.7) else width, x.dtype or ""), fixed=True, known=True)
    draw.feeds[value.name]["stop"] = True
    longest = max(first_lengths(draw, x)) + draw.int(0, 2)
    return draw.call(name, x, value, maxlen=draw.maybe(longest))


@draws("fluid.layers.sequence_unpad")
def _(draw: Draw, name: str) -> Any:
    lengths = counted(draw, draw.int(1, 4), 1)
    x = draw.tensor((len(lengths), max(lengths) + draw.int(0, 1), *draw.shape((1, 2))), KINDS)
    return draw.call(name, x, draw.feed(np.array(lengths, "int64"), fixed=True))


@draws("fluid.layers.sequence_slice")
def _(draw: Draw, name: str) -> Any:
    x = draw.sequences(draw.shape((1, 2)), KINDS, empty=False)
    lengths = first_lengths(draw, x)
    offsets = [draw.int(0, one - 1) for one in lengths]
    sizes = [draw.int(1, one - at) for one, at in zip(lengths, offsets, strict=True)]
    given = [draw.feed(np.array(one, "int64").reshape(-1, 1), fixed=True) for one in (offsets, sizes)]
    return draw.call(name, x, *given)


@draws("fluid.layers.sequence_scatter")
def _(draw: Draw, name: str) -> Any:
    count, width = draw.int(1, 3), draw.int(2, 5)
    dtype = draw.choice(*FLOATS, "int32", "int64")
    lengths = counted(draw, count, 1, 4)
    index = draw.tensor((sum(lengths), 1), "int64", 0, width - 1, lengths=[lengths])
    updates = draw.tensor((sum(lengths), 1), dtype, lengths=[lengths])
    return draw.call(name, draw.tensor((count, width), dtype), index, updates)


@draws("fluid.layers.lod_reset")
def _(draw: Draw, name: str) -> Any:
    rows, width = draw.int(2, 6), draw.shape((1, 2))
    cut = draw.int(1, rows - 1)
    x = draw.tensor((rows, *width), KINDS, lengths=[[rows]] if draw.flag() else None)
    kind = draw.rng.random()
    if kind < 0.4:
        return draw.call(name, x, target_lod=[0, cut, rows])
    if kind < 0.7:
        y = draw.tensor((rows, 1), "float32", lengths=[[cut, rows - cut]])
        return draw.call(name, x, y)
    return draw.call(name, x, draw.feed(np.array([0, cut, rows], "int32"), fixed=True, known=True))


@draws("fluid.layers.lod_append")
def _(draw: Draw, name: str) -> Any:
    lengths = counted(draw, draw.int(2, 4), 1, 3)
    x = draw.tensor((sum(lengths), *draw.shape((1, 2))), KINDS, lengths=[lengths])
    if draw.flag():
        return draw.call(name, x, list(range(sum(lengths) + 1)))
    y = draw.tensor((sum(lengths), 1), "float32", lengths=[[1] * sum(lengths)])
    return draw.call(name, x, y)


@draws("fluid.layers.filter_by_instag")
def _(draw: Draw, name: str) -> Any:
    rows = draw.int(1, 4)
    ins = draw.tensor((rows, draw.int(1, 3)), FLOATS, lengths=[[1] * rows])
    sizes = counted(draw, rows, 1, 2)
    tags = draw.tensor((sum(sizes), 1), "int64", 0, 3, lengths=[sizes])
    wanted = draw.tensor((draw.int(1, 2),), "int64", 0, 3, known=True)
    return draw.call(name, ins, tags, wanted, True, out_val_if_empty=draw.choice(OMIT, 7))


# ---------------------------------------------------------------------- tables of ranks
CONTROL = "fluid.layers.control_flow."


def ranked(draw: Draw) -> tuple[Value, Value]:
    """Sequences and the table that sorts them by length."""
    lengths = counted(draw, draw.int(1, 4), 1)
    x = draw.tensor((sum(lengths), *draw.shape((1, 2))), FLOATS, lengths=[lengths])
    return x, draw.call(CONTROL + "lod_rank_table", x)


@draws("fluid.layers.max_sequence_len", "fluid.layers.lod_rank_table")
def _(draw: Draw, name: str) -> Any:
    return draw.call(CONTROL + "max_sequence_len", ranked(draw)[1])


@draws("fluid.layers.reorder_lod_tensor_by_rank")
def _(draw: Draw, name: str) -> Any:
    x, table = ranked(draw)
    count = len(first_lengths(draw, x))
    other = draw.tensor((count, draw.int(1, 3)), FLOATS) if draw.flag() else x
    return draw.call(name, other, table)


@draws("fluid.layers.lod_tensor_to_array", "fluid.layers.array_to_lod_tensor", "fluid.layers.shrink_memory")
def _(draw: Draw, name: str) -> Any:
    x, table = ranked(draw)
    array = draw.call(CONTROL + "lod_tensor_to_array", x, table)
    if name.endswith("to_lod_tensor"):
        return draw.call(CONTROL + "array_to_lod_tensor", array, table)
    at = draw.call("fluid.layers.fill_constant", [1], "int64", 0)
    first = draw.call("fluid.layers.array_read", array, at)
    if name.endswith("to_array"):
        return [first, draw.call("fluid.layers.array_length", array)]
    one = draw.call("fluid.layers.fill_constant", [1], "int64", min(1, max(first_lengths(draw, x)) - 1))
    return draw.call(CONTROL + "shrink_memory", first, one, table)


@draws("fluid.layers.split_lod_tensor", "fluid.layers.merge_lod_tensor")
def _(draw: Draw, name: str) -> Any:
    rows = draw.int(2, 5)
    lengths = counted(draw, rows, 1, 3) if draw.flag(0.3) else None
    x = draw.tensor((sum(lengths or [rows]), draw.int(1, 3)), FLOATS, lengths=[lengths] if lengths else None)
    mask = draw.feed(np.arange(rows).reshape(rows, 1) % 2 == draw.int(0, 1), fixed=True)
    halves = draw.call(CONTROL + "split_lod_tensor", x, mask)
    if name.endswith("split_lod_tensor"):
        return [draw.call("fluid.layers.scale", halves[at], scale=2.0) for at in (0, 1)]
    parts = [draw.call("fluid.layers.scale", halves[at], scale=2.0 + at) for at in (0, 1)]
    return draw.call(CONTROL + "merge_lod_tensor", parts[0], parts[1], x, mask)


@draws("fluid.layers.select_input", "fluid.layers.select_output")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 3)), draw.choice(*FLOATS)
    mask = draw.variable(draw.int(0, 1), "int32")
    if name.endswith("input"):
        given = [draw.tensor(shape, dtype) for _ in range(2)]
        return draw.call(CONTROL + "select_input", given, mask)
    outs = [draw.call("fluid.layers.fill_constant", list(shape), dtype, float(at)) for at in (4, 5)]
    draw.call(CONTROL + "select_output", draw.tensor(shape, dtype), outs, mask)
    return outs
