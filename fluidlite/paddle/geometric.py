"""`paddle.geometric`: reductions of segments, and messages between the nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several, need_summable
from fluidlite.paddle.tensor.manipulation import concat

__all__ = [
    "reindex_graph",
    "reindex_heter_graph",
    "sample_neighbors",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "send_u_recv",
    "send_ue_recv",
    "send_uv",
    "weighted_sample_neighbors",
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


# ---------------------------------------------------------------------- neighbours
def sample_neighbors(
    row: Variable,
    colptr: Variable,
    input_nodes: Variable,
    sample_size: int = -1,
    eids: Variable | None = None,
    return_eids: bool = False,
    perm_buffer: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, ...]:
    """At most `sample_size` neighbours of each node, drawn at random, none twice (-1: all), and how many each
    node has.

    row: the sources of all edges, in the order of their targets.
    colptr: of each node the place of its first edge, and behind them the number of edges.
    eids, return_eids: with what `eids` calls the edges, the drawn ones come as a third result.
    perm_buffer: room that GPUs of 2.6.2 ask for.
    """
    return sampled("sample_neighbors", row, colptr, input_nodes, sample_size, eids, return_eids, perm_buffer)


def sampled(
    layer: str,
    row: Variable,
    colptr: Variable,
    nodes: Variable,
    size: int,
    eids: Variable | None,
    return_eids: bool,
    buffer: Variable | None,
) -> tuple[Variable, ...]:
    """The op of `sample_neighbors`, in temporaries of `layer`."""
    _check_numbers("graph_sample_neighbors", Row=row, Col_Ptr=colptr, X=nodes)
    _check_eids("eids", eids, return_eids)
    inputs = {"Row": [row], "Col_Ptr": [colptr], "X": [nodes], **given("Eids", eids)}
    inputs |= given("Perm_Buffer", buffer)
    attrs = {"sample_size": size, "return_eids": return_eids, "flag_perm_buffer": buffer is not None}
    kinds = {"Out": row.dtype, "Out_Count": VarType.INT32, "Out_Eids": row.dtype}
    found = append_several("graph_sample_neighbors", inputs, attrs, kinds, layer)
    return without_gradient(found if return_eids else found[:2])


def weighted_sample_neighbors(
    row: Variable,
    colptr: Variable,
    edge_weight: Variable,
    input_nodes: Variable,
    sample_size: int = -1,
    eids: Variable | None = None,
    return_eids: bool = False,
    name: str | None = None,
) -> tuple[Variable, ...]:
    """As `sample_neighbors`; an edge is drawn the likelier the larger its weight is (Efraimidis and Spirakis,
    2006).
    """
    function = "weighted_sample_neighbors"
    _check_numbers(function, row=row, colptr=colptr, input_nodes=input_nodes)
    _check_eids("eids", eids, return_eids)
    inputs = {
        "row": [row],
        "colptr": [colptr],
        "edge_weight": [edge_weight],
        "input_nodes": [input_nodes],
        **given("eids", eids),
    }
    attrs = {"sample_size": sample_size, "return_eids": return_eids}
    kinds = {"out_neighbors": row.dtype, "out_count": VarType.INT32, "out_eids": row.dtype}
    found = append_several(function, inputs, attrs, kinds)
    return without_gradient(found if return_eids else found[:2])


def khop_sampled(
    row: Variable,
    colptr: Variable,
    nodes: Variable,
    sizes: Sequence[int],
    eids: Variable | None,
    return_eids: bool,
) -> tuple[Variable, ...]:
    """The op of `paddle.incubate.graph_khop_sampler`."""
    _check_numbers("graph_khop_sampler", Row=row, Col_Ptr=colptr, X=nodes)
    _check_eids("sorted_eids", eids, return_eids)
    inputs = {"Row": [row], "Col_Ptr": [colptr], "X": [nodes], **given("Eids", eids)}
    attrs = {"sample_sizes": list(sizes), "return_eids": return_eids}
    slots = ("Out_Src", "Out_Dst", "Sample_Index", "Reindex_X", "Out_Eids")
    found = append_several("graph_khop_sampler", inputs, attrs, dict.fromkeys(slots, row.dtype))
    return without_gradient(found if return_eids else found[:4])


def given(slot: str, var: Variable | None) -> dict[str, list[Variable]]:
    """The input of a slot that may be empty."""
    return {} if var is None else {slot: [var]}


def without_gradient(found: Sequence[Variable]) -> tuple[Variable, ...]:
    """Numbers of nodes and edges, through which no gradient goes."""
    for var in found:
        var.stop_gradient = True
    return tuple(found)


def _check_numbers(function: str, **vars: Variable) -> None:
    for what, var in vars.items():
        check_variable_and_dtype(var, what, ("int32", "int64"), function)


def _check_eids(what: str, eids: Variable | None, wanted: bool) -> None:
    if wanted and eids is None:
        raise ValueError(f"`{what}` should not be None if `return_eids` is True.")


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
