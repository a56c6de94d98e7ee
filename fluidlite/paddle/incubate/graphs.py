"""Functions of graphs under the names that they had before `paddle.geometric`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.geometric import khop_sampled, received, reindexed, sampled

__all__ = ["graph_khop_sampler", "graph_reindex", "graph_sample_neighbors", "graph_send_recv"]


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


def graph_sample_neighbors(
    row: Variable,
    colptr: Variable,
    input_nodes: Variable,
    eids: Variable | None = None,
    perm_buffer: Variable | None = None,
    sample_size: int = -1,
    return_eids: bool = False,
    flag_perm_buffer: bool = False,
    name: str | None = None,
) -> tuple[Variable, ...]:
    """Neighbours of nodes, drawn at random; see `paddle.geometric.sample_neighbors`."""
    if flag_perm_buffer and perm_buffer is None:
        raise ValueError("`perm_buffer` should not be None if `flag_perm_buffer` is True.")
    buffer = perm_buffer if flag_perm_buffer else None
    layer = "graph_sample_neighbors"
    return sampled(layer, row, colptr, input_nodes, sample_size, eids, return_eids, buffer)


def graph_khop_sampler(
    row: Variable,
    colptr: Variable,
    input_nodes: Variable,
    sample_sizes: Sequence[int],
    sorted_eids: Variable | None = None,
    return_eids: bool = False,
    name: str | None = None,
) -> tuple[Variable, ...]:
    """Neighbours of nodes, those of these neighbours, and so on, at most as many of each as `sample_sizes`
    says for the step; see `paddle.geometric.sample_neighbors`.

    Returns the sources and the targets of the edges, [edges, 1], with nodes numbered as they come; which node
    each number is; the numbers of `input_nodes`; and with `return_eids` what `sorted_eids` calls the edges.
    """
    return khop_sampled(row, colptr, input_nodes, sample_sizes, sorted_eids, return_eids)
