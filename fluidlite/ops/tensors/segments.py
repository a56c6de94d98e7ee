"""Sums, means and extremes of the rows of segments, and of messages between the nodes of graphs.

Rows with a number each are reduced to one row a number; numbers without rows give zeros, of extremes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import LONGS, Op, Spec
from fluidlite.values.tensor import host

Maybe: TypeAlias = "Array | None"
_REDUCTIONS = ("SUM", "MEAN", "MAX", "MIN")


# ---------------------------------------------------------------------- reductions by number
def _check_reduction(op: str, how: str) -> None:
    if how not in _REDUCTIONS:
        raise ShapeError(f"op {op!r}: the reduction is {how!r}, wanted one of {', '.join(_REDUCTIONS)}")


def _check_numbers(op: str, slot: str, numbers: Array, count: int) -> None:
    """Raises KernelError for a number that is not a row of `count`."""
    if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise KernelError(
            f"op {op!r}: {slot} has numbers from {int(numbers.min())} to {int(numbers.max())}, which must be "
            f"from 0 to {count - 1}"
        )


def _beside(values: Array, like: Array) -> Array:
    """One number a row, laid over rows like those of `like`."""
    return values.reshape(-1, *(1,) * (like.ndim - 1)).astype(like.dtype)


def _reduced(xp: Any, rows: Array, numbers: Array, count: int, how: str) -> tuple[Array, Array]:
    """The reductions [count, ...] of the rows of each number, and how many rows there are of each."""
    counts = xp.bincount(numbers, minlength=count)
    out = xp.zeros((count, *rows.shape[1:]), rows.dtype)
    if how in ("MAX", "MIN"):
        # any row of the number is a start: there is no least value of all dtypes
        out[numbers] = rows
        (xp.maximum if how == "MAX" else xp.minimum).at(out, numbers, rows)
        return out, counts
    xp.add.at(out, numbers, rows)
    if how == "MEAN":
        out = (out / _beside(xp.maximum(counts, 1), out)).astype(out.dtype)
    return out, counts


def _reduced_back(
    xp: Any, rows: Array, numbers: Array, out: Array, dout: Array, counts: Array, how: str
) -> Array:
    """The gradient by the rows: of equal extremes each has all of it."""
    if how == "MEAN":
        dout = dout / _beside(xp.maximum(counts, 1), dout)
    spread = dout[numbers]
    return spread * (rows == out[numbers]) if how in ("MAX", "MIN") else spread


def _once(xp: Any, source: Array, target: Array, back: Array) -> Array:
    """The gradients of messages, of which those between the same two nodes share one: they are one element,
    not equal ones.
    """
    pairs = xp.stack([source, target])
    _, number, count = xp.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    times = count[number.reshape(-1)]
    shares = _beside(1 / times, back)
    return back * shares.astype(back.dtype)


# ---------------------------------------------------------------------- segments
segment_pool = Op(
    "segment_pool", "X SegmentIds -> Out SummedIds?", attrs={"pooltype": "SUM"}, lod=None, dynamic=True
)


@segment_pool.shape
def _(X: Spec, SegmentIds: Spec, pooltype: str) -> tuple[Spec, Spec]:
    _check_reduction("segment_pool", pooltype)
    if not X.shape or len(SegmentIds.shape) != 1 or -1 != X.shape[0] != SegmentIds.shape[0] != -1:
        raise ShapeError(
            f"op 'segment_pool': SegmentIds{list(SegmentIds.shape)} needs one number per row of "
            f"X{list(X.shape)}"
        )
    return X.with_shape((-1, *X.shape[1:])), X.with_shape((-1, 1))


@segment_pool.kernel
def _(xp: Any, X: Array, SegmentIds: Array, pooltype: str) -> tuple[Array, Array]:
    numbers = host(SegmentIds)
    if (numbers[1:] < numbers[:-1]).any() or (numbers[:1] < 0).any():
        raise KernelError(
            "op 'segment_pool': SegmentIds must not decrease and must begin at 0 or above, but is "
            f"{numbers.tolist()}"
        )
    out, counts = _reduced(xp, X, SegmentIds, int(numbers.max(initial=-1)) + 1, pooltype)
    return out, counts[:, None].astype(X.dtype)


@segment_pool.grad("X")
def _(xp: Any, X: Array, SegmentIds: Array, Out: Array, dOut: Array, pooltype: str) -> Array:
    counts = xp.bincount(SegmentIds, minlength=len(Out))
    return _reduced_back(xp, X, SegmentIds, Out, dOut, counts, pooltype)


# ---------------------------------------------------------------------- messages along edges
_SENT = {"reduce_op": "SUM", "out_size": LONGS([0])}
graph_send_recv = Op(
    "graph_send_recv",
    "X Src_index Dst_index Out_size? -> Out Dst_count?",
    attrs=_SENT,
    lod=None,
    dynamic=True,
)


def _check_edges(op: str, source: Spec, target: Spec) -> None:
    one, other = source.shape, target.shape
    if len(one) != 1 or len(other) != 1 or -1 != one[0] != other[0] != -1:
        raise ShapeError(f"op {op!r}: edges need two lists of one length, not {list(one)} and {list(other)}")


def _nodes(X: Array, out_size: Sequence[int], given: Maybe) -> int:
    """How many nodes receive: as many as there are, unless a positive number says so."""
    sizes = out_size if given is None else host(given).reshape(-1)
    size = int(sizes[0]) if len(sizes) else 0
    return size if size > 0 else len(X)


@graph_send_recv.shape
def _(X: Spec, Src_index: Spec, Dst_index: Spec, reduce_op: str) -> tuple[Spec, Spec]:
    _check_reduction("graph_send_recv", reduce_op)
    _check_edges("graph_send_recv", Src_index, Dst_index)
    if not X.shape:
        raise ShapeError("op 'graph_send_recv': X needs one row per node, but is a single number")
    return X.with_shape((-1, *X.shape[1:])), Spec((-1,), VarType.INT32)


@graph_send_recv.kernel
def _(
    xp: Any,
    X: Array,
    Src_index: Array,
    Dst_index: Array,
    Out_size: Maybe,
    reduce_op: str,
    out_size: Sequence[int],
) -> tuple[Array, Array]:
    count = _nodes(X, out_size, Out_size)
    _check_numbers("graph_send_recv", "Src_index", Src_index, len(X))
    _check_numbers("graph_send_recv", "Dst_index", Dst_index, count)
    out, counts = _reduced(xp, X[Src_index], Dst_index, count, reduce_op)
    return out, counts.astype("int32")


@graph_send_recv.grad("X")
def _(
    xp: Any, X: Array, Src_index: Array, Dst_index: Array, Out: Array, dOut: Array, reduce_op: str
) -> Array:
    counts = xp.bincount(Dst_index, minlength=len(Out))
    sent = _reduced_back(xp, X[Src_index], Dst_index, Out, dOut, counts, reduce_op)
    if reduce_op in ("MAX", "MIN"):
        sent = _once(xp, Src_index, Dst_index, sent)
    dx = xp.zeros_like(X)
    xp.add.at(dx, Src_index, sent)
    return dx


# ---------------------------------------------------------------------- edges with values of their own
_MESSAGES = ("ADD", "MUL")
graph_send_ue_recv = Op(
    "graph_send_ue_recv",
    "X Y Src_index Dst_index Out_size? -> Out Dst_count?",
    attrs={"message_op": "ADD", **_SENT},
    lod=None,
    dynamic=True,
    alike=("X", "Y"),
)


def _message_dims(op: str, X: Spec, Y: Spec, how: str) -> tuple[int, ...]:
    """The shape of a message: those of a row of X and of Y laid over each other."""
    if how not in _MESSAGES:
        raise ShapeError(f"op {op!r}: message_op is {how!r}, wanted ADD or MUL")
    one, other = X.shape[1:], Y.shape[1:]
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    dims = []
    for left, right in pairs:
        if left != right and 1 not in (left, right) and -1 not in (left, right):
            raise ShapeError(
                f"op {op!r}: rows of X{list(X.shape)} and Y{list(Y.shape)} cannot be broadcast together"
            )
        # a size above 1 is that of both, whatever an unknown one turns out to be
        dims.append(right if left == 1 or right > 1 else left)
    return tuple(dims)


def _aligned(x: Array, y: Array) -> tuple[Array, Array]:
    """The rows of both with as many dimensions."""
    rank = max(x.ndim, y.ndim)
    one, other = (a.reshape(a.shape[0], *(1,) * (rank - a.ndim), *a.shape[1:]) for a in (x, y))
    return one, other


def _message(x: Array, y: Array, how: str) -> Array:
    one, other = _aligned(x, y)
    return one + other if how == "ADD" else one * other


def _message_back(x: Array, y: Array, dout: Array, how: str) -> tuple[Array, Array]:
    """The gradients of a message by its two operands, each of its operand's shape."""
    one, other = _aligned(x, y)
    pair = (dout, dout) if how == "ADD" else (dout * other, dout * one)
    folded = []
    for part, like, source in zip(pair, (one, other), (x, y), strict=True):
        axes = tuple(i for i in range(1, like.ndim) if like.shape[i] == 1 != part.shape[i])
        folded.append(part.sum(axis=axes, keepdims=True).reshape(source.shape))
    return folded[0], folded[1]


@graph_send_ue_recv.shape
def _(
    X: Spec, Y: Spec, Src_index: Spec, Dst_index: Spec, message_op: str, reduce_op: str
) -> tuple[Spec, Spec]:
    _check_reduction("graph_send_ue_recv", reduce_op)
    _check_edges("graph_send_ue_recv", Src_index, Dst_index)
    dims = _message_dims("graph_send_ue_recv", X, Y, message_op)
    return X.with_shape((-1, *dims)), Spec((-1,), VarType.INT32)


@graph_send_ue_recv.kernel
def _(
    xp: Any,
    X: Array,
    Y: Array,
    Src_index: Array,
    Dst_index: Array,
    Out_size: Maybe,
    message_op: str,
    reduce_op: str,
    out_size: Sequence[int],
) -> tuple[Array, Array]:
    count = _nodes(X, out_size, Out_size)
    _check_numbers("graph_send_ue_recv", "Src_index", Src_index, len(X))
    _check_numbers("graph_send_ue_recv", "Dst_index", Dst_index, count)
    if len(Y) != len(Src_index):
        raise ShapeError(f"op 'graph_send_ue_recv': Y has {len(Y)} rows for {len(Src_index)} edges")
    out, counts = _reduced(xp, _message(X[Src_index], Y, message_op), Dst_index, count, reduce_op)
    return out, counts.astype("int32")


@graph_send_ue_recv.grad("X Y")
def _(
    xp: Any,
    X: Array,
    Y: Array,
    Src_index: Array,
    Dst_index: Array,
    Out: Array,
    dOut: Array,
    message_op: str,
    reduce_op: str,
) -> tuple[Array, Array]:
    sent = X[Src_index]
    counts = xp.bincount(Dst_index, minlength=len(Out))
    rows = _message(sent, Y, message_op)
    back = _reduced_back(xp, rows, Dst_index, Out, dOut, counts, reduce_op)
    dsent, dy = _message_back(sent, Y, back, message_op)
    dx = xp.zeros_like(X)
    xp.add.at(dx, Src_index, dsent)
    return dx, dy


graph_send_uv = Op(
    "graph_send_uv", "x y src_index dst_index -> out", attrs={"message_op": "ADD"}, lod=None, alike=("x", "y")
)


@graph_send_uv.shape
def _(x: Spec, y: Spec, src_index: Spec, dst_index: Spec, message_op: str) -> Spec:
    _check_edges("graph_send_uv", src_index, dst_index)
    return x.with_shape((src_index.shape[0], *_message_dims("graph_send_uv", x, y, message_op)))


@graph_send_uv.kernel
def _(x: Array, y: Array, src_index: Array, dst_index: Array, message_op: str) -> Array:
    _check_numbers("graph_send_uv", "src_index", src_index, len(x))
    _check_numbers("graph_send_uv", "dst_index", dst_index, len(y))
    return _message(x[src_index], y[dst_index], message_op)


@graph_send_uv.grad("x y")
def _(
    xp: Any, x: Array, y: Array, src_index: Array, dst_index: Array, dout: Array, message_op: str
) -> tuple[Array, Array]:
    parts = _message_back(x[src_index], y[dst_index], dout, message_op)
    dx, dy = xp.zeros_like(x), xp.zeros_like(y)
    xp.add.at(dx, src_index, parts[0])
    xp.add.at(dy, dst_index, parts[1])
    return dx, dy


# ---------------------------------------------------------------------- numbers of nodes in a part of a graph
graph_reindex = Op(
    "graph_reindex",
    "X Neighbors Count HashTable_Value? HashTable_Index? -> Reindex_Src Reindex_Dst Out_Nodes",
    lod=None,
    dynamic=True,
)


@graph_reindex.shape
def _(X: Spec, Neighbors: Spec, Count: Spec) -> tuple[Spec, Spec, Spec]:
    for slot, spec in (("X", X), ("Neighbors", Neighbors), ("Count", Count)):
        if len(spec.shape) != 1:
            raise ShapeError(f"op 'graph_reindex': {slot} must be a list, but is {list(spec.shape)}")
    flat = X.with_shape((-1,))
    return flat, flat, flat


@graph_reindex.kernel
def _(xp: Any, X: Array, Neighbors: Array, Count: Array) -> tuple[Array, Array, Array]:
    nodes, neighbors, counts = host(X), host(Neighbors), host(Count)
    # with several kinds of edges the nodes come again for each kind
    targets = np.tile(np.arange(len(nodes)), len(counts) // max(len(nodes), 1))
    if len(targets) != len(counts) or counts.sum() != len(neighbors):
        raise ShapeError(
            f"op 'graph_reindex': Count {counts.tolist()} needs one number per node of "
            f"{len(nodes)}, with the sum {len(neighbors)} of Neighbors"
        )
    numbers: dict[int, int] = {}
    for node in (*nodes.tolist(), *neighbors.tolist()):
        numbers.setdefault(node, len(numbers))
    sources = np.array([numbers[node] for node in neighbors.tolist()], X.dtype)
    found = np.array(list(numbers), X.dtype)
    return xp.asarray(sources), xp.asarray(targets.repeat(counts).astype(X.dtype)), xp.asarray(found)
