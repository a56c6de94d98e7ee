"""Rows and elements by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
KINDS = (*FLOATS, *FLOATS, "int32", "int64")
WHOLE = ("int32", "int64")


def rows(draw: Draw, lowest: int = 1) -> tuple[int, ...]:
    """A shape with at least one row."""
    first, *rest = draw.shape((1, 4))
    return (max(first, lowest), *rest)


@draws("fluid.layers.gather")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rows(draw), KINDS, known=True)
    assert x.shape is not None
    count = draw.int(1, 5)
    shape = (count,) if draw.flag(0.7) else (count, 1)
    index = draw.tensor(shape, WHOLE, 0, x.shape[0] - 1)
    return draw.call(name, x, index, overwrite=draw.maybe(draw.flag(), 0.3))


@draws("fluid.layers.gather_nd")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor([max(size, 1) for size in draw.shape((1, 4))], KINDS, known=True)
    return draw.call(name, x, places(draw, x, draw.shape((0, 2), low=2)))


def places(draw: Draw, x: Value, front: tuple[int, ...]) -> Value:
    """Indices of elements or slices of x."""
    assert x.shape is not None
    depth = draw.int(1, x.rank)
    columns = [draw.numbers(front, "int64", 0, size - 1) for size in x.shape[:depth]]
    return draw.feed(np.stack(columns, -1).astype(draw.choice(*WHOLE)), fixed=True, known=True)


@draws("fluid.layers.scatter")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = rows(draw, 2), draw.choice(*FLOATS)
    x = draw.tensor(shape, dtype, known=True)
    overwrite = draw.choice(OMIT, True, False)
    count = draw.int(1, shape[0])
    found = draw.rng.sample(range(shape[0]), count)
    if overwrite is False:
        found = [draw.int(0, shape[0] - 1) for _ in found]
    index = draw.feed(np.array(found, draw.choice(*WHOLE)), fixed=True, known=True)
    return draw.call(name, x, index, draw.tensor((count, *shape[1:]), dtype, known=True), overwrite=overwrite)


@draws("fluid.layers.scatter_nd_add", "fluid.layers.scatter_nd")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = [max(size, 1) for size in draw.shape((1, 4))], draw.choice(*FLOATS)
    x = draw.tensor(shape, dtype, known=True)
    front = draw.shape((1, 2), low=2)
    index = places(draw, x, front)
    assert index.shape is not None
    updates = draw.tensor((*front, *shape[index.shape[-1] :]), dtype, known=True)
    if name.endswith("add"):
        return draw.call(name, x, index, updates)
    return draw.call(name, index, updates, shape)


@draws("fluid.layers.index_select")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor([max(size, 1) for size in draw.shape((1, 4))], KINDS, known=True)
    assert x.shape is not None
    dim = draw.axis(x)
    index = draw.tensor((draw.int(1, 5),), WHOLE, 0, x.shape[dim] - 1)
    return draw.call(name, x, index, dim=OMIT if dim == 0 and draw.flag() else dim)


@draws("fluid.layers.index_sample", "fluid.contrib.layers.index_sample")
def _(draw: Draw, name: str) -> Any:
    batch, width = draw.int(1, 4), draw.int(1, 5)
    x = draw.tensor((batch, width), KINDS)
    return draw.call(
        "fluid.layers.index_sample", x, draw.tensor((batch, draw.int(1, 4)), WHOLE, 0, width - 1)
    )


def some_true(draw: Draw) -> np.ndarray:
    """Truths of which one holds at least."""
    found = draw.numbers([max(size, 1) for size in draw.shape((1, 4))], "bool")
    found.reshape(-1)[draw.int(0, found.size - 1)] = True
    return found


@draws("fluid.layers.where")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.feed(some_true(draw)))


@draws("fluid.layers.nonzero")
def _(draw: Draw, name: str) -> Any:
    x = draw.feed(some_true(draw).astype(draw.choice(*KINDS, "bool")))
    return draw.call(name, x, as_tuple=draw.maybe(draw.flag(0.3), 0.4))


@draws("fluid.layers.one_hot", "fluid.input.one_hot", "fluid.one_hot")
def _(draw: Draw, name: str) -> Any:
    old = "layers" in name
    depth = draw.int(1, 6)
    shape = (*draw.shape((1, 3)), 1) if old else draw.shape((1, 3))
    loose = draw.maybe(draw.flag(), 0.4)
    ids = draw.tensor(shape, WHOLE, 0, depth if loose is True else depth - 1)
    given = draw.variable(depth, "int32") if draw.flag(0.15) else depth
    return draw.call(name, ids, given, allow_out_of_range=loose)


@draws("fluid.layers.shard_index")
def _(draw: Draw, name: str) -> Any:
    shards, count = draw.int(1, 3), draw.int(3, 9)
    ids = draw.tensor((*draw.shape((1, 2)), 1), "int64", 0, count - 1)
    return draw.call(
        name, ids, count, shards, draw.int(0, shards - 1), ignore_value=draw.choice(OMIT, -1, -7)
    )


@draws("fluid.layers.embedding", "fluid.input.embedding", "fluid.embedding")
def _(draw: Draw, name: str) -> Any:
    old = "layers" in name
    count, width = draw.int(2, 6), draw.int(1, 4)
    shape = (*draw.shape((1, 3)), 1) if old else draw.shape((1, 3))
    ids = draw.tensor(shape, "int64", 0, count - 1)
    return draw.call(
        name,
        ids,
        [count, width],
        is_sparse=draw.maybe(draw.flag()),
        padding_idx=draw.choice(OMIT, OMIT, None, 0, count - 1, -1),
        param_attr=draw.attr(),
        dtype=draw.choice(OMIT, *FLOATS),
    )


@draws("fluid.layers.mean_iou")
def _(draw: Draw, name: str) -> Any:
    shape, classes = draw.shape((1, 3)), draw.int(2, 4)
    tensors = [draw.tensor(shape, "int32", 0, classes - 1) for _ in range(2)]
    return draw.call(name, *tensors, classes)


def selected_rows(draw: Draw) -> Value:
    """The sparse gradient of a table, by whose rows a lookup was made."""
    count, width = draw.int(2, 6), draw.int(1, 4)
    ids = draw.tensor((draw.int(1, 5), 1), "int64", 0, count - 1)
    table = draw.made("fluid.ParamAttr", name="table")
    rows_ = draw.call("fluid.layers.embedding", ids, [count, width], is_sparse=True, param_attr=table)
    loss = draw.call("fluid.layers.reduce_sum", draw.call("fluid.layers.square", rows_))
    draw.gradients = False
    return draw.call("fluid.backward.append_backward", loss)[0][1]


@draws("fluid.layers.merge_selected_rows", "fluid.layers.get_tensor_from_selected_rows")
def _(draw: Draw, name: str) -> Any:
    found = selected_rows(draw)
    if name.endswith("merge_selected_rows") or draw.flag():
        found = draw.call("fluid.layers.merge_selected_rows", found)
    return draw.call("fluid.layers.get_tensor_from_selected_rows", found)
