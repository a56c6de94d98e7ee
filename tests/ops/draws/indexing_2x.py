"""Functions of the 2.x door that pick elements by index, and indexing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from beside.draw import Draw, Value, draws
from ops.draws.common_2x import ARITHMETIC, FLOATS, INTS, MOVED, REAL, functions, indices, kinds, scalar, word

GATHERED = kinds("uint8 int32 int64 float32 float64")
FILLED = kinds("bool int32 int64 float16 float32 float64")


@draws(*functions("gather index_select"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=GATHERED if word(name) == "gather" else ARITHMETIC, rank=(1, 4), known=draw.flag())
    axis = draw.axis(x, negative=word(name) == "index_select")
    assert x.shape is not None
    shape = draw.choice((draw.size(),), ()) if word(name) == "gather" else (draw.size(),)
    index = indices(draw, shape, max(x.shape[axis], 1))
    if word(name) == "gather" and draw.flag(0.2):
        axis = scalar(draw, axis, draw.choice(*INTS), 1)
    elif axis == 0:
        axis = draw.maybe(axis)
    return draw.call(name, x, index, axis=axis)


@draws(*functions("gather_nd"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 4), low=1), kinds("bool int16 int32 int64 float32 float64"))
    assert x.shape is not None
    depth = draw.int(1, x.rank)
    index = indices(draw, (*draw.shape((0, 2)), depth), max(min(x.shape[:depth]), 1))
    return draw.call(name, x, index)


@draws(*functions("index_sample"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=ARITHMETIC, rank=2)
    assert x.shape is not None
    return draw.call(name, x, indices(draw, (x.shape[0], draw.size()), max(x.shape[1], 1)))


@draws(*functions("take"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((0, 3), low=1), REAL)
    count = int(np.prod(x.shape, dtype=int))
    mode = draw.choice("raise", "wrap", "clip")
    reach = count if mode == "raise" else 2 * count
    index = indices(draw, draw.shape((0, 3)), max(reach, 1), negative=True)
    return draw.call(name, x, index, mode=mode)


def _beside(draw: Draw, shape: Sequence[int], axis: int) -> list[int]:
    """A shape of indices along an axis: as large as x elsewhere, or one."""
    found = [1 if draw.flag(0.2) else size for size in shape]
    found[axis] = draw.size(low=1, high=4)
    return found


@draws(*functions("take_along_axis put_along_axis"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 3), low=1), REAL)
    axis = draw.axis(x)
    assert x.shape is not None
    index = draw.tensor(_beside(draw, x.shape, axis), INTS, 0, max(x.shape[axis] - 1, 0), fixed=draw.flag())
    wide = draw.maybe(True, 0.2) if not name.endswith("_") else draw.maybe(True, 0)
    if word(name) == "take_along_axis":
        return draw.call(name, x, index, axis, broadcast=wide)
    kind = x.dtype or ""
    value = draw.tensor(index.shape, kind)
    how = draw.choice("assign", "add", "mul", "multiply", "mean", "amin", "amax")
    if how == "assign":
        index = _distinct(draw, list(index.shape or ()), axis, x.shape[axis])
        value = draw.tensor(index.shape, kind)
    return draw.call(
        name, x, index, value, axis, reduce=how, include_self=draw.maybe(draw.flag(), 0.4), broadcast=wide
    )


def _distinct(draw: Draw, shape: list[int], axis: int, count: int) -> Value:
    """Indices of which none occurs twice along the axis: the order of writing then says nothing."""
    shape[axis] = min(shape[axis], max(count, 1))
    lines = [
        draw.rng.sample(range(max(count, 1)), shape[axis]) for _ in range(int(np.prod(shape)) // shape[axis])
    ]
    rest = [size for at, size in enumerate(shape) if at != axis % len(shape)]
    array = np.array(lines, draw.choice(*INTS)).reshape([*rest, shape[axis]])
    return draw.feed(np.moveaxis(array, -1, axis), fixed=True)


@draws(*functions("scatter scatter_nd_add"), "paddle.scatter_nd")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*(REAL if word(name) == "scatter" else GATHERED))
    shape = draw.shape((1, 3), low=1)
    if word(name) == "scatter":
        x, over = draw.tensor(shape, kind), draw.flag()
        count = draw.size(high=max(shape[0], 1)) if over else draw.size()
        rows = max(shape[0], 1)
        index = draw.tensor((count,), INTS, 0, rows - 1)
        if over:
            index = draw.feed(np.array(draw.rng.sample(range(rows), min(count, rows)), "int64"), fixed=True)
        assert index.shape is not None
        return draw.call(name, x, index, draw.tensor((*index.shape, *shape[1:]), kind), overwrite=over)
    depth, count = draw.int(1, len(shape)), draw.shape((0, 2))
    index = indices(draw, (*count, depth), max(min(shape[:depth]), 1))
    updates = draw.tensor((*count, *shape[depth:]), kind)
    if word(name) == "scatter_nd":
        return draw.call(name, index, updates, list(shape))
    return draw.call(name, draw.tensor(shape, kind), index, updates)


@draws(*functions("index_add index_fill"))
def _(draw: Draw, name: str) -> Any:
    dtypes = FILLED if word(name) == "index_fill" else kinds("int32 int64 float16 float32 float64")
    x = draw.tensor(draw.shape((1, 4), low=1), dtypes)
    axis = draw.axis(x)
    assert x.shape is not None
    index = indices(draw, (draw.int(1, 3),), max(x.shape[axis], 1))
    if word(name) == "index_fill":
        value: Any = draw.int(-3, 3)
        if draw.flag(0.3):
            value = draw.feed(np.array(value, x.dtype), fixed=True)
        return draw.call(name, x, index, axis, value)
    shape = list(x.shape)
    shape[axis] = (index.shape or (1,))[0]
    return draw.call(name, x, index, axis, draw.tensor(shape, x.dtype or ""))


@draws(*functions("index_put"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 3), low=1), FILLED)
    assert x.shape is not None
    kind = x.dtype or ""
    if draw.flag(0.25):
        mask = draw.tensor(x.shape, "bool", fixed=True)
        return draw.call(name, x, (mask,), draw.tensor((1,), kind))
    add, depth = draw.flag(), draw.int(1, x.rank)
    count = draw.int(1, 3)
    given = [draw.tensor((count,), "int64", 0, max(size - 1, 0)) for size in x.shape[:depth]]
    value = draw.tensor(draw.choice((count, *x.shape[depth:]), (1,)), kind)
    if not add:
        value = draw.tensor((1,), kind)
    return draw.call(name, x, tuple(given), value, accumulate=add)


@draws(*functions("masked_select masked_fill"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0 if "fill" in name else 1, 4))
    assert x.shape is not None
    if word(name) == "masked_select":
        return draw.call(name, x, draw.tensor(x.shape, "bool"))
    shape = [1 if draw.flag(0.2) else size for size in x.shape]
    value = scalar(draw, draw.choice(draw.int(-3, 3), draw.real()), x.dtype or "", 0.3)
    return draw.call(name, x, draw.tensor(shape, "bool"), value)


@draws("paddle.where", "paddle.where_", "paddle.Tensor.where")
def _(draw: Draw, name: str) -> Any:
    full = draw.shape((0, 4))
    condition = draw.tensor(full, "bool")
    if draw.flag(0.12) and not name.endswith("_"):
        return draw.call("paddle.where", condition)
    kind = draw.choice(*REAL)
    shapes = [[1 if draw.flag(0.15) else size for size in full] for _ in range(2)]
    if name.endswith("_"):
        shapes = [list(full), list(full)]
    items: list[Any] = [draw.tensor(shape, kind) for shape in shapes]
    if draw.flag(0.05) and not name.endswith("_"):
        items[draw.int(0, 1)] = draw.choice(1.0, draw.real(), 2)
    return draw.call(name, condition, *items)


@draws(*functions("select_scatter diagonal_scatter"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((2, 4), low=1), MOVED)
    assert x.shape is not None
    if word(name) == "diagonal_scatter":
        first, second = draw.rng.sample(range(x.rank), 2)
        rest = [size for at, size in enumerate(x.shape) if at not in (first, second)]
        value = draw.tensor((*rest, min(x.shape[first], x.shape[second])), x.dtype or "")
        return draw.call(name, x, value, offset=0, axis1=first, axis2=second)
    axis = draw.axis(x)
    shape = [size for at, size in enumerate(x.shape) if at != axis % x.rank]
    at = draw.int(0, max(x.shape[axis] - 1, 0))
    return draw.call(name, x, draw.tensor(shape, x.dtype or ""), axis, at)


# ---------------------------------------------------------------------- in brackets
def _slice(draw: Draw, size: int) -> slice:
    """A slice of an axis, of any step and over its ends at times."""
    step = draw.choice(None, 1, 2, -1, -2)
    edges = [draw.choice(None, draw.int(-size - 1, size + 1)) for _ in range(2)]
    if draw.flag(0.8):
        low, high = sorted([draw.int(0, max(size - 1, 0)), draw.int(0, size)])
        edges = [low, max(high, low + 1)]
        if step is not None and step < 0:
            edges = [max(high, low + 1) - 1, draw.choice(None, low - 1 if low else None)]
    edges = [scalar(draw, one, "int64", 0.05) if isinstance(one, int) else one for one in edges]
    return slice(edges[0], edges[1], step)


def _advanced(draw: Draw, size: int, count: int) -> Any:
    """A list of indices, or a Variable of them."""
    found = [draw.int(-size, size - 1) if draw.flag(0.05) else draw.int(0, size - 1) for _ in range(count)]
    if draw.flag():
        return found
    return draw.feed(np.array(found, "int64"), fixed=True, known=True)


def _index(draw: Draw, shape: Sequence[int], *, plain: bool = False) -> Any:
    """An index for the brackets behind a tensor of this shape."""
    found: list[Any] = []
    count, lists = draw.int(1, 3), 0
    for size in shape[: draw.int(1, len(shape))] if shape else ():
        forms = ["int", "slice", "slice", "slice"]
        if not plain and lists < 2:
            forms.append("list")
        form = draw.choice(*forms) if size else "slice"
        if form == "list":
            found.append(_advanced(draw, size, count))
            lists += 1
        else:
            number = scalar(draw, draw.int(-size, max(size - 1, 0)), "int64", 0.1)
            found.append(number if form == "int" else _slice(draw, size))
    if draw.flag(0.2):
        found.insert(draw.int(0, len(found)), None)
    if draw.flag(0.2) and len([one for one in found if one is not None]) <= len(shape):
        found.append(Ellipsis)
    if len(found) == 1 and draw.flag():
        return found[0]
    return tuple(found) if found else Ellipsis


@draws("paddle.Tensor.__getitem__")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((0, 4), low=1), draw.choice(MOVED, FILLED, FLOATS), known=draw.flag(0.7))
    assert x.shape is not None
    if x.rank and draw.flag(0.12):
        mask = draw.tensor(x.shape[: draw.int(1, x.rank)], "bool", fixed=True, known=True)
        return draw.call("op.getitem", x, mask)
    return draw.call("op.getitem", x, _index(draw, x.shape))


@draws("paddle.Tensor.__setitem__")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 4), low=1), FILLED, known=draw.flag(0.7))
    assert x.shape is not None
    index = _index(draw, x.shape, plain=draw.flag(0.7))
    if draw.flag(0.12):
        index = draw.tensor(x.shape, "bool", fixed=True, known=True)
    value = draw.choice(draw.int(-3, 3), draw.real(), draw.tensor(draw.choice((), (1,)), x.dtype or ""))
    return draw.call("paddle.static.setitem", x, index, value)


@draws("paddle.nn.functional.embedding", "paddle.nn.Embedding")
def _(draw: Draw, name: str) -> Any:
    rows, width = draw.int(2, 5), draw.size()
    ids = indices(draw, draw.shape((0, 3)), rows)
    padding = draw.maybe(draw.int(-rows, rows - 1), 0.4)
    sparse = draw.maybe(draw.flag(), 0.3)
    if name.endswith("Embedding"):
        layer = draw.call(name, rows, width, padding_idx=padding, sparse=sparse, weight_attr=draw.attr())
        return draw.call(layer.name, ids)
    weight = draw.tensor((rows, width), FLOATS, known=True)
    return draw.call(name, ids, weight, padding_idx=padding, sparse=sparse)
