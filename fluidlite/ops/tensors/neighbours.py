"""Neighbours of nodes, drawn from a graph whose edges lie in the order of their targets.

`Row` has the source of each edge, and the edges to node i are those from `Col_Ptr[i]` up to `Col_Ptr[i + 1]`.
Of each node at most so many edges are drawn, none twice; all of them where there are not more, or -1 is said.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import KernelError
from fluidlite.base.registry import INTS, Op, Spec
from fluidlite.values.tensor import host

Maybe: TypeAlias = "Array | None"


def _drawn(rng: Any, edges: Array, nodes: Array, size: int, weights: Maybe = None) -> tuple[Array, Array]:
    """The numbers of the drawn edges, those to one node together and in order, and how many each node has.

    A race in each node: exponential times, the smallest ones win. A weight is a rate.
    """
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < len(edges) - 1:
        raise KernelError(
            f"nodes from {nodes.min()} to {nodes.max()} of a graph of {len(edges) - 1} nodes (Col_Ptr)"
        )
    counts = edges[nodes + 1] - edges[nodes]
    firsts = np.cumsum(counts) - counts
    places = np.repeat(edges[nodes] - firsts, counts) + np.arange(counts.sum())
    if size < 0 or not (counts > size).any():
        return places, counts
    times = rng.standard_exponential(len(places))
    if weights is not None:
        with np.errstate(divide="ignore"):
            times = times / weights[places]
    owners = np.repeat(np.arange(len(nodes)), counts)
    order = np.lexsort((times, owners))
    ranks = np.arange(len(places)) - np.repeat(firsts, counts)
    kept = np.zeros(len(places), bool)
    kept[order[ranks < size]] = True
    return places[kept], np.minimum(counts, size)


def _flat(value: Array) -> Array:
    return host(value).reshape(-1)


def _numbers_of(places: Array, eids: Maybe, wanted: bool, like: Array) -> Array:
    """Names of edges, in the dtype of nodes; none unless they are wanted."""
    if not wanted or eids is None:
        return np.zeros(0, like.dtype)
    return _flat(eids)[places].astype(like.dtype)


# ---------------------------------------------------------------------- one step
sample_neighbors = Op(
    "graph_sample_neighbors",
    "Row Col_Ptr X Eids? Perm_Buffer? -> Out Out_Count Out_Eids?",
    attrs={"sample_size": -1, "return_eids": False, "flag_perm_buffer": False},
    lod=None,
    random=True,
    dynamic=True,
    idle=("flag_perm_buffer",),
)


@sample_neighbors.shape
def _(Row: Spec) -> tuple[Spec, Spec, Spec]:
    return Spec((-1,), Row.dtype), Spec((-1,), VarType.INT32), Spec((-1,), Row.dtype)


@sample_neighbors.kernel
def _(
    xp: Any, Row: Array, Col_Ptr: Array, X: Array, Eids: Maybe, sample_size: int, return_eids: bool, ctx: Any
) -> tuple[Array, Array, Array]:
    places, counts = _drawn(ctx.rng(0), _flat(Col_Ptr), _flat(X), sample_size)
    neighbours = _flat(Row)[places]
    called = _numbers_of(places, Eids, return_eids, Row)
    return xp.asarray(neighbours), xp.asarray(counts.astype("int32")), xp.asarray(called)


weighted_sample_neighbors = Op(
    "weighted_sample_neighbors",
    "row colptr edge_weight input_nodes eids? -> out_neighbors out_count out_eids?",
    attrs={"sample_size": -1, "return_eids": False},
    lod=None,
    random=True,
    dynamic=True,
)


@weighted_sample_neighbors.shape
def _(row: Spec) -> tuple[Spec, Spec, Spec]:
    return Spec((-1,), row.dtype), Spec((-1,), VarType.INT32), Spec((-1,), row.dtype)


@weighted_sample_neighbors.kernel
def _(
    xp: Any,
    row: Array,
    colptr: Array,
    edge_weight: Array,
    input_nodes: Array,
    eids: Maybe,
    sample_size: int,
    return_eids: bool,
    ctx: Any,
) -> tuple[Array, Array, Array]:
    weights = _flat(edge_weight)
    places, counts = _drawn(ctx.rng(0), _flat(colptr), _flat(input_nodes), sample_size, weights)
    neighbours = _flat(row)[places]
    called = _numbers_of(places, eids, return_eids, row)
    return xp.asarray(neighbours), xp.asarray(counts.astype("int32")), xp.asarray(called)


# ---------------------------------------------------------------------- several steps
khop_sampler = Op(
    "graph_khop_sampler",
    "Row Col_Ptr X Eids? -> Out_Src Out_Dst Sample_Index Reindex_X Out_Eids?",
    attrs={"sample_sizes": INTS(), "return_eids": False},
    lod=None,
    random=True,
    dynamic=True,
)


@khop_sampler.shape
def _(Row: Spec, X: Spec) -> tuple[Spec, Spec, Spec, Spec, Spec]:
    edges = Spec((-1, 1), Row.dtype)
    numbers = Spec((-1,), Row.dtype)
    asked = Spec(X.shape, Row.dtype)
    return edges, edges, numbers, asked, numbers


@khop_sampler.kernel
def _(
    xp: Any,
    Row: Array,
    Col_Ptr: Array,
    X: Array,
    Eids: Maybe,
    sample_sizes: list[int],
    return_eids: bool,
    ctx: Any,
) -> tuple[Array, Array, Array, Array, Array]:
    """Nodes that are met for the first time in one step draw their own neighbours in the next one; they are
    numbered as they are met.
    """
    row = _flat(Row)
    edges = _flat(Col_Ptr)
    rng = ctx.rng(0)
    numbers: dict[int, int] = {}
    for node in _flat(X).tolist():
        numbers.setdefault(node, len(numbers))
    asked = np.array(list(numbers), row.dtype)
    drawn = []
    sources = []
    targets = []
    for size in sample_sizes:
        places, counts = _drawn(rng, edges, asked, size)
        known = len(numbers)
        sources += [numbers.setdefault(node, len(numbers)) for node in row[places].tolist()]
        targets.append(np.repeat([numbers[node] for node in asked.tolist()], counts))
        drawn.append(places)
        asked = np.array(list(numbers)[known:], row.dtype)
    called = _numbers_of(np.concatenate(drawn), Eids, return_eids, Row)
    parts = (
        np.array(sources, row.dtype).reshape(-1, 1),
        np.concatenate(targets).astype(row.dtype).reshape(-1, 1),
        np.array(list(numbers), row.dtype),
        np.array([numbers[node] for node in _flat(X).tolist()], row.dtype).reshape(X.shape),
    )
    return tuple(xp.asarray(part) for part in (*parts, called))
