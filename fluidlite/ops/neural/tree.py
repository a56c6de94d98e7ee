"""Ops on trees: convolution over nodes and what lies below them, children, samples of layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import above, limited
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import INTS, AttrType, Lod, Op, Spec, handed_on, required
from fluidlite.values.tensor import host

# ---------------------------------------------------------------------- convolution
tree_conv = Op(
    "tree_conv",
    "NodesVector. EdgeSet Filter. -> Out",
    attrs={"max_depth": limited(2, above(1))},
    lod=None,
    blas_threads=True,
    alike=("NodesVector", "Filter"),
)


@tree_conv.shape
def _(NodesVector: Spec, EdgeSet: Spec, Filter: Spec) -> Spec:
    nodes = NodesVector.shape
    edges = EdgeSet.shape
    weights = Filter.shape
    if len(nodes) != 3 or len(edges) != 3 or edges[2] != 2:
        raise ShapeError(
            f"op 'tree_conv': NodesVector has shape {list(nodes)} and EdgeSet {list(edges)}, wanted [batch, "
            "nodes, width] and [batch, edges, 2]"
        )
    if len(weights) != 4 or weights[1] != 3 or not fits(weights[0], nodes[2]):
        raise ShapeError(
            f"op 'tree_conv': Filter has shape {list(weights)}, wanted [{nodes[2]}, 3, outputs, filters]"
        )
    return NodesVector.with_shape((nodes[0], nodes[1], weights[2], weights[3]))


def _weights(xp: Any, EdgeSet: Array, nodes: int, max_depth: int) -> Array:
    """[batch, nodes, 3, nodes]: the part that the left, right and top weight of a node's window have in each
    node below it (Mou et al., 2016, section 4.2).

    A node at depth d of a window, number p of s siblings, has top (D - d) / D, left (1 - top)(p - 1)/(s - 1)
    (half of it without siblings) and right (1 - top)(1 - left), where the right one takes `left` whole: that
    is PaddlePaddle's, and differs from the paper's.
    """
    edges = host(EdgeSet).astype(np.int64)
    sizes = np.cumprod((edges > 0).all(2), axis=1).sum(1)  # the first edge with a zero ends the list
    which = np.arange(edges.shape[1]) < sizes[:, None]
    batch = np.nonzero(which)[0]
    parent, child = edges[which].T - 1
    family = batch * nodes + parent
    order = np.argsort(family, kind="stable")
    _, starts, counts = np.unique(family[order], return_index=True, return_counts=True)
    place = np.empty(len(family), np.int64)
    place[order] = np.arange(len(family)) - starts.repeat(counts)
    siblings = np.empty(len(family), np.int64)
    siblings[order] = counts.repeat(counts)
    above = np.full((len(edges), nodes), -1)
    above[batch, child] = parent
    ratio = np.zeros((len(edges), nodes))
    ratio[batch, child] = np.where(siblings == 1, 0.5, place / np.maximum(siblings - 1, 1))
    out = np.zeros((len(edges), nodes, 3, nodes))
    known = np.arange(nodes) <= sizes[:, None]  # as many nodes as edges, and the root
    tree, node = np.nonzero(known)
    root = node
    for depth in range(max_depth):
        top = (max_depth - depth) / max_depth
        left = (1 - top) * ratio[tree, node]
        out[tree, root, 0, node] = left
        out[tree, root, 1, node] = (1 - top) * (1 - left)
        out[tree, root, 2, node] = top
        higher = above[tree, root]
        tree = tree[higher >= 0]
        node = node[higher >= 0]
        root = higher[higher >= 0]
    return xp.asarray(out)


def _reach(weights: Array) -> Any:
    """[batch, nodes, 1, nodes, 1]: which nodes the window of a node has."""
    return weights.max(2)[:, :, None, :, None] > 0


def _windows(xp: Any, weights: Array, NodesVector: Array) -> Any:
    """[batch, nodes * 3, width]: the sums of windows; a node outside of them adds nothing, be it nan."""
    batch, nodes, width = NodesVector.shape
    if bool(xp.isfinite(NodesVector).all()):
        return weights.reshape(batch, nodes * 3, nodes) @ NodesVector
    terms = xp.where(_reach(weights), weights[..., None] * NodesVector[:, None, None], 0)
    return terms.sum(3).reshape(batch, nodes * 3, width)


@tree_conv.kernel
def _(xp: Any, NodesVector: Array, EdgeSet: Array, Filter: Array, max_depth: int) -> Array:
    batch, nodes, width = NodesVector.shape
    weights = _weights(xp, EdgeSet, nodes, max_depth).astype(NodesVector.dtype)
    windows = _windows(xp, weights, NodesVector)
    # the filter has the width first, then left, right and top
    matrix = Filter.transpose(1, 0, 2, 3).reshape(3 * width, math.prod(Filter.shape[2:]))
    out = windows.reshape(batch * nodes, 3 * width) @ matrix
    return out.reshape(batch, nodes, *Filter.shape[2:])


@tree_conv.grad("NodesVector Filter", blas_threads=True)
def _(
    xp: Any, NodesVector: Array, EdgeSet: Array, Filter: Array, dOut: Array, max_depth: int
) -> tuple[Array, Array]:
    batch, nodes, width = NodesVector.shape
    weights = _weights(xp, EdgeSet, nodes, max_depth).astype(NodesVector.dtype)
    windows = _windows(xp, weights, NodesVector).reshape(batch * nodes, 3 * width)
    d = dOut.reshape(batch * nodes, math.prod(dOut.shape[2:]))
    matrix = Filter.transpose(1, 0, 2, 3).reshape(3 * width, math.prod(Filter.shape[2:]))
    d_windows = (d @ matrix.T).reshape(batch, nodes * 3, width)
    d_filter = (windows.T @ d).reshape(3, width, *Filter.shape[2:]).transpose(1, 0, 2, 3)
    if bool(xp.isfinite(d_windows).all()):
        return weights.reshape(batch, nodes * 3, nodes).transpose(0, 2, 1) @ d_windows, d_filter
    terms = weights[..., None] * d_windows.reshape(batch, nodes, 3, 1, width)
    return xp.where(_reach(weights), terms, 0).sum((1, 2)), d_filter


# ---------------------------------------------------------------------- a tree as an index of items
tdm_child = Op(
    "tdm_child",
    "X TreeInfo -> Child LeafMask",
    attrs={"child_nums": required(AttrType.INT), "dtype": int(VarType.INT32)},
)


@tdm_child.shape
def _(X: Spec, TreeInfo: Spec, child_nums: int, dtype: int) -> tuple[Spec, Spec]:
    if len(TreeInfo.shape) != 2 or TreeInfo.shape[1] != 3 + child_nums:
        raise ShapeError(
            f"op 'tdm_child': TreeInfo has shape {list(TreeInfo.shape)}, wanted [nodes, {3 + child_nums}]: "
            "item, layer, parent, children"
        )
    spec = Spec((*X.shape, child_nums), VarType(dtype), X.lod_level)
    return spec, spec


@tdm_child.kernel
def _(xp: Any, X: Array, X_lod: Lod, TreeInfo: Array, child_nums: int, dtype: int) -> tuple[Any, Any]:
    if xp is np and X.size and not 0 <= int(X.min()) <= int(X.max()) < len(TreeInfo):
        wrong = X[(X < 0) | (X >= len(TreeInfo))]
        raise ValueError(f"node {wrong[0]} is outside the tree of {len(TreeInfo)} nodes")
    children = TreeInfo[X, 3 : 3 + child_nums]
    # node 0 stands for none
    children = xp.where((X != 0)[..., None] & (children[..., :1] != 0), children, 0)
    leaves = (children != 0) & (TreeInfo[children, 0] != 0)
    kind = to_numpy(VarType(dtype))
    return children.astype(kind), handed_on(leaves.astype(kind), X_lod)


tdm_sampler = Op(
    "tdm_sampler",
    "X Travel Layer -> Out Labels? Mask",
    attrs={
        "neg_samples_num_list": INTS(),
        "output_positive": True,
        "layer_offset_lod": INTS(),
        "seed": 0,
        "dtype": int(VarType.INT32),
    },
    random=True,
    lod=None,
)


@tdm_sampler.shape
def _(neg_samples_num_list: list[int], output_positive: bool, dtype: int) -> tuple[Spec, Spec, Spec]:
    width = sum(neg_samples_num_list) + len(neg_samples_num_list) * output_positive
    spec = Spec((-1, width), VarType(dtype))
    return spec, spec, spec


def _drawn_without(rng: Any, taken: Array, count: int, total: int) -> Array:
    """[rows, count] different numbers below `total`, none of them the row's `taken`.

    A number among those left is drawn, and moved up by as many taken ones as lie at or below it: exact, with
    `count` draws a row however many there are to choose from.
    """
    taken = taken[:, None]
    for _ in range(count):
        drawn = rng.integers(0, total - taken.shape[1], len(taken))
        ordered = np.sort(taken, axis=1)
        drawn += (ordered - np.arange(ordered.shape[1]) <= drawn[:, None]).sum(1)
        taken = np.concatenate([taken, drawn[:, None]], axis=1)
    return taken[:, 1:]


@tdm_sampler.kernel
def _(
    xp: Any,
    ctx: Any,
    X: Array,
    Travel: Array,
    Layer: Array,
    neg_samples_num_list: list[int],
    output_positive: bool,
    layer_offset_lod: list[int],
    seed: int,
    dtype: int,
) -> tuple[Array, Array, Array]:
    rng = ctx.rng(seed)
    items, travel, nodes = map(host, (X, Travel, Layer))
    paths = travel[items.ravel()]
    parts: list[tuple[Array, Array, Array]] = []
    for number, count in enumerate(neg_samples_num_list):
        layer = nodes.ravel()[layer_offset_lod[number] : layer_offset_lod[number + 1]]
        positive = paths[:, number]
        order = np.argsort(layer, kind="stable")
        place = order[np.searchsorted(layer, positive, sorter=order).clip(max=len(layer) - 1)]
        there = (positive != 0)[:, None]
        found = layer[_drawn_without(rng, place, count, len(layer))]
        labels = np.zeros_like(found)
        if output_positive:
            found = np.concatenate([positive[:, None], found], axis=1)
            labels = np.concatenate([np.ones_like(positive)[:, None], labels], axis=1)
        parts.append((found * there, labels * there, np.broadcast_to(there, found.shape)))
    kind = to_numpy(VarType(dtype))
    out, labels, mask = (np.concatenate(arrays, axis=1).astype(kind) for arrays in zip(*parts, strict=True))
    return xp.asarray(out), xp.asarray(labels), xp.asarray(mask)
