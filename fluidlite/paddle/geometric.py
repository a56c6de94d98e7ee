"""`paddle.geometric`: reductions of segments, and messages between the nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several, need_summable
from fluidlite.paddle.tensor.manipulation import concat

__all__ = [
    "reindex_graph",
    "reindex_heter_graph",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "send_u_recv",
    "send_ue_recv",
    "send_uv",
]


# ---------------------------------------------------------------------- segments
def segment_sum(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The sums of the rows of each segment; `segment_ids` has the segment of each row, and does not fall."""
    return _pooled("segment_sum", data, segment_ids, "SUM")


def segment_mean(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The means of the rows of each segment; see `segment_sum`."""
    return _pooled("segment_mean", data, segment_ids, "MEAN")


def segment_min(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The smallest elements of the rows of each segment; see `segment_sum`."""
    return _pooled("segment_min", data, segment_ids, "MIN")


def segment_max(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The largest elements of the rows of each segment; see `segment_sum`."""
    return _pooled("segment_max", data, segment_ids, "MAX")


def _pooled(layer: str, data: Variable, segment_ids: Variable, how: str) -> Variable:
    inputs = {"X": [data], "SegmentIds": [segment_ids]}
    kinds = {"Out": data.dtype, "SummedIds": data.dtype}
    return append_several("segment_pool", inputs, {"pooltype": how}, kinds, layer)[0]


# ---------------------------------------------------------------------- messages along edges
def send_u_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """The rows [out_size, ...] of nodes when each edge sends them the row of its source: the sum, mean, max
    or min. Nodes that receive nothing have zeros; `out_size` is the number of nodes unless given.
    """
    return received("send_u_recv", x, src_index, dst_index, reduce_op, out_size)


def received(
    layer: str,
    x: Variable,
    source: Variable,
    target: Variable,
    how: str,
    out_size: Any,
    y: Variable | None = None,
    message: str = "",
) -> Variable:
    """The op of `send_u_recv`, in temporaries of `layer`."""
    if how not in ("sum", "mean", "max", "min"):
        raise ValueError(f"reduce_op should be `sum`, `mean`, `max` or `min`, but received {how}")
    inputs = {"X": [x], "Src_index": [source], "Dst_index": [target]}
    attrs: dict[str, Any] = {"reduce_op": how.upper(), "out_size": [0]}
    if isinstance(out_size, Variable):
        inputs["Out_size"] = [out_size]
    elif out_size is not None:
        attrs["out_size"] = [int(out_size)]
    kinds = {"Out": x.dtype, "Dst_count": VarType.INT32}
    if y is None:
        return append_several("graph_send_recv", inputs, attrs, kinds, layer)[0]
    inputs["Y"], attrs["message_op"] = [y], message
    return append_several("graph_send_ue_recv", inputs, attrs, kinds, layer)[0]


def send_ue_recv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """The rows of nodes when each edge sends them the row of its source with its own row of y added, taken
    off, multiplied, or divided by; see `send_u_recv`.
    """
    need_summable(x, "send_ue_recv")
    how, y = _message(x, y, message_op)
    return received("send_ue_recv", x, src_index, dst_index, reduce_op, out_size, y, how)


def send_uv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    name: str | None = None,
) -> Variable:
    """For each edge the row of x of its source with the row of y of its target added, taken off, multiplied,
    or divided by.
    """
    need_summable(x, "send_uv")
    how, y = _message(x, y, message_op)
    inputs = {"x": [x], "y": [y], "src_index": [src_index], "dst_index": [dst_index]}
    return append("graph_send_uv", inputs, {"message_op": how}, dtype=x.dtype, slot="out")


def _message(x: Variable, y: Variable, how: str) -> tuple[str, Variable]:
    """The op of messages, and y as it takes it: there are sums and products alone."""
    if how not in ("add", "sub", "mul", "div"):
        raise ValueError(f"message_op should be `add`, `sub`, `mul` or `div`, but received {how}")
    if how == "sub":
        y = -y
    elif how == "div":
        y = 1.0 / (y + 1e-12)
    return ("ADD" if how in ("add", "sub") else "MUL"), y


# ---------------------------------------------------------------------- numbers of nodes
def reindex_graph(
    x: Variable,
    neighbors: Variable,
    count: Variable,
    value_buffer: Variable | None = None,
    index_buffer: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """The edges from `neighbors` to the nodes `x`, `count` to each, with nodes numbered as they come: their
    sources, their targets, and which node each number is.
    """
    return reindexed("reindex_graph", x, neighbors, count)


def reindex_heter_graph(
    x: Variable,
    neighbors: Sequence[Variable],
    count: Sequence[Variable],
    value_buffer: Variable | None = None,
    index_buffer: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """As `reindex_graph`, for several kinds of edges."""
    joined = [concat(list(parts), axis=0) for parts in (neighbors, count)]
    return reindexed("reindex_heter_graph", x, *(concat([part], axis=0) for part in joined))


def reindexed(
    layer: str, x: Variable, neighbors: Variable, count: Variable
) -> tuple[Variable, Variable, Variable]:
    """The op of `reindex_graph`, in temporaries of `layer`."""
    inputs = {"X": [x], "Neighbors": [neighbors], "Count": [count]}
    kinds = dict.fromkeys(("Reindex_Src", "Reindex_Dst", "Out_Nodes"), x.dtype)
    source, target, nodes = append_several("graph_reindex", inputs, {}, kinds, layer)
    return source, target, nodes


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
