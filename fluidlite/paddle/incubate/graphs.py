"""Functions of graphs under the names that they had before `paddle.geometric`."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.geometric import received, reindexed

__all__ = ["graph_reindex", "graph_send_recv"]


def graph_send_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    pool_type: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Messages from the neighbours of nodes; see `paddle.geometric.send_u_recv`."""
    return received("graph_send_recv", x, src_index, dst_index, pool_type, out_size)


def graph_reindex(
    x: Variable,
    neighbors: Variable,
    count: Variable,
    value_buffer: Variable | None = None,
    index_buffer: Variable | None = None,
    flag_buffer_hashtable: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Edges between nodes that are numbered as they come; see `paddle.geometric.reindex_graph`."""
    return reindexed("graph_reindex", x, neighbors, count)
