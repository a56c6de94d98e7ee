"""Which prior answers for which object: matching, targets of the matched, and the hardest of the others.

The values that decide are read on the host.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.numbers import rows_and_columns
from fluidlite.values.tensor import host

# ---------------------------------------------------------------------- matches
bipartite_match = Op(
    "bipartite_match",
    "DistMat. -> ColToRowMatchIndices ColToRowMatchDist",
    attrs={"match_type": limited("bipartite", one_of("bipartite", "per_prediction")), "dist_threshold": 0.5},
    lod=None,
)
_LEAST = np.float32(1e-6)  # what is no nearer than this matches nothing


@bipartite_match.shape
def _(DistMat: Spec, match_type: str) -> tuple[Spec, Spec]:
    if len(DistMat.shape) != 2:
        raise ShapeError(
            f"op 'bipartite_match': DistMat has the shape {list(DistMat.shape)}, wanted [rows, columns]"
        )
    if match_type not in ("bipartite", "per_prediction"):
        raise ShapeError(
            f"op 'bipartite_match': match_type is {match_type!r}, wanted 'bipartite' or 'per_prediction'"
        )
    # there is a row a sequence; while their number is open, 1.8.5 says what DistMat says
    return Spec(DistMat.shape, VarType.INT32), DistMat.with_shape(DistMat.shape)


def _match_pairs(near: Array, rows: Array, values: Array, best: list[int], found: list[float]) -> None:
    """The nearest pair of a free row and a free column, then the next, until none is near.

    `rows` (-1 where free) and `values` are set by column; `best` and `found` are the best column of each row
    and its value. A row whose column was taken looks for another one when its turn comes: the matrix itself
    is hardly read.
    """
    least = float(_LEAST)
    taken: list[int] = []
    turns = [(-value, row) for row, value in enumerate(found)]
    heapq.heapify(turns)
    while turns and -turns[0][0] > least and len(taken) < near.shape[1]:
        value, row = turns[0]
        column = best[row]
        if rows[column] < 0:
            rows[column], values[column] = row, -value
            taken.append(column)
            heapq.heappop(turns)
        else:
            free = near[row].copy()
            free[taken] = -np.inf
            best[row] = column = int(free.argmax())
            heapq.heapreplace(turns, (-float(free[column]), row))


def _match_columns(near: Array, rows: Array, values: Array, threshold: float) -> None:
    """Each free column gets its nearest row, if that is at least as near as `threshold`."""
    found = near.max(axis=0)
    # few are: their row alone is looked for
    chosen = np.flatnonzero((rows < 0) & (found >= near.dtype.type(threshold)) & (found > _LEAST))
    rows[chosen] = near.take(chosen, axis=1).argmax(axis=0)
    values[chosen] = found[chosen]


@bipartite_match.kernel
def _(
    xp: Any, DistMat: Array, DistMat_lod: Lod, match_type: str, dist_threshold: float
) -> tuple[Array, Array]:
    near = host(DistMat)
    if DistMat_lod:
        offsets = DistMat_lod[-1]
    else:
        offsets = (0, len(near))
    rows = np.full((len(offsets) - 1, near.shape[1]), -1, np.int32)
    values = np.zeros(rows.shape, near.dtype)
    if not near.size:
        return xp.asarray(rows), xp.asarray(values)
    near = np.where(np.isnan(near), near.dtype.type(-np.inf), near)  # what is nan is near to nothing
    places = near.argmax(axis=1)
    best = places.tolist()
    found = near[np.arange(len(near)), places].tolist()
    for index, (start, end) in enumerate(itertools.pairwise(offsets)):
        if end > start:
            own = slice(start, end)
            _match_pairs(near[own], rows[index], values[index], best[own], found[own])
            if match_type == "per_prediction":
                _match_columns(near[own], rows[index], values[index], dist_threshold)
    return xp.asarray(rows), xp.asarray(values)


# ---------------------------------------------------------------------- targets
target_assign = Op(
    "target_assign", "X MatchIndices NegIndices? -> Out OutWeight", attrs={"mismatch_value": 0}, lod=None
)


@target_assign.shape
def _(X: Spec, MatchIndices: Spec, NegIndices: Spec | None) -> tuple[Spec, Spec]:
    if len(X.shape) != 3 or len(MatchIndices.shape) != 2:
        raise ShapeError(
            f"op 'target_assign': X has the shape {list(X.shape)} and MatchIndices "
            f"{list(MatchIndices.shape)}, wanted [objects, P, K] and [N, priors]"
        )
    if NegIndices is not None and (len(NegIndices.shape) != 2 or NegIndices.shape[1] not in (1, -1)):
        raise ShapeError(
            f"op 'target_assign': NegIndices has the shape {list(NegIndices.shape)}, wanted [count, 1]"
        )
    return (X.with_shape((*MatchIndices.shape, X.shape[2])), Spec((*MatchIndices.shape, 1), VarType.FP32))


@target_assign.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    MatchIndices: Array,
    NegIndices: Array | None,
    NegIndices_lod: Lod,
    mismatch_value: int,
) -> tuple[Array, Array]:
    count, priors = MatchIndices.shape
    if not X_lod or len(X_lod[-1]) != count + 1:
        raise ShapeError(
            f"op 'target_assign': MatchIndices has {count} rows, but X {len(X_lod[-1]) - 1 if X_lod else 0} "
            f"sequences"
        )
    matched = MatchIndices >= 0
    out = xp.full((count, priors, X.shape[2]), mismatch_value, X.dtype)
    if len(X):
        # the object that a prior answers for, among those of its image; most priors answer for none
        flat = xp.flatnonzero(matched)
        images, places = rows_and_columns(flat, priors)
        rows = xp.asarray(np.array(X_lod[-1][:-1], np.int64))[images] + MatchIndices.reshape(-1)[flat]
        found = rows * X.shape[1] + places % X.shape[1]
        out.reshape(-1, X.shape[2])[flat] = X.reshape(-1, X.shape[2]).take(found, axis=0)
    weights = matched.astype(np.float32)
    if NegIndices is not None and len(NegIndices):
        images = np.repeat(np.arange(count), np.diff(NegIndices_lod[-1]))
        where = (xp.asarray(images), NegIndices.reshape(-1))
        out[where], weights[where] = mismatch_value, 1
    return out, weights[..., None]


# ---------------------------------------------------------------------- the hardest of the others
mine_hard_examples = Op(
    "mine_hard_examples",
    "ClsLoss. LocLoss.? MatchIndices MatchDist. -> NegIndices UpdatedMatchIndices",
    attrs={
        "neg_pos_ratio": 1.0,
        "neg_dist_threshold": 0.5,
        "sample_size": 0,
        "mining_type": limited("max_negative", one_of("hard_example", "max_negative")),
    },
    lod=None,
    makes_lod=True,
)


@mine_hard_examples.shape
def _(
    ClsLoss: Spec,
    MatchIndices: Spec,
    MatchDist: Spec,
    neg_pos_ratio: float,
    neg_dist_threshold: float,
    sample_size: int,
    mining_type: str,
) -> tuple[Spec, Spec]:
    op = "mine_hard_examples"
    for slot, spec in (("ClsLoss", ClsLoss), ("MatchIndices", MatchIndices), ("MatchDist", MatchDist)):
        if len(spec.shape) != 2:
            raise ShapeError(f"op {op!r}: {slot} has the shape {list(spec.shape)}, wanted [N, priors]")
    if mining_type == "max_negative":
        if neg_pos_ratio <= 0:
            raise ShapeError(f"op {op!r}: neg_pos_ratio is {neg_pos_ratio}, wanted a number above 0")
        if not 0 < neg_dist_threshold < 1:
            raise ShapeError(
                f"op {op!r}: neg_dist_threshold is {neg_dist_threshold}, wanted a number between 0 and 1"
            )
    elif mining_type == "hard_example":
        if sample_size <= 0:
            raise ShapeError(f"op {op!r}: sample_size is {sample_size}, wanted a number above 0")
    else:
        raise ShapeError(
            f"op {op!r}: mining_type is {mining_type!r}, wanted 'max_negative' or 'hard_example'"
        )
    return Spec((-1, 1), VarType.INT32), Spec(MatchIndices.shape, VarType.INT32)


def _largest(loss: Array, eligible: Array, counts: Array) -> Array:
    """The places of the `counts` largest losses in each row, of those that are eligible."""
    order = np.argsort(np.where(eligible, -loss, np.inf), axis=1, kind="stable")
    chosen = np.zeros(loss.shape, bool)
    np.put_along_axis(chosen, order, np.arange(loss.shape[1]) < counts[:, None], axis=1)
    return chosen & eligible


@mine_hard_examples.kernel
def _(
    xp: Any,
    ClsLoss: Array,
    LocLoss: Array | None,
    MatchIndices: Array,
    MatchDist: Array,
    neg_pos_ratio: float,
    neg_dist_threshold: float,
    sample_size: int,
    mining_type: str,
) -> tuple[WithLod, Array]:
    loss = host(ClsLoss)
    matches = host(MatchIndices)
    matched = matches != -1
    if mining_type == "max_negative":
        eligible = ~matched & (host(MatchDist) < np.float32(neg_dist_threshold))
        counts = (matched.sum(axis=1) * np.float32(neg_pos_ratio)).astype(int)
        chosen = _largest(loss, eligible, counts)
    else:
        if LocLoss is not None:
            loss = loss + host(LocLoss)
        chosen = _largest(loss, np.ones(loss.shape, bool), np.full(len(loss), sample_size))
        # objects whose priors are easy count no longer, except as no negatives either
        matches = np.where(chosen, matches, -1)
    images, negatives = np.nonzero(chosen & ~matched)
    lod = ((0, *np.cumsum(np.bincount(images, minlength=len(loss))).tolist()),)
    return WithLod(xp.asarray(negatives.astype(np.int32)[:, None]), lod), xp.asarray(matches)
