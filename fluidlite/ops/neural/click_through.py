"""Ops of click-through models: shows and clicks, samples by tag, attention by rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONG, AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import lengths_lod, offsets_of_level, owners, spans, take_rows
from fluidlite.values.tensor import host

# ---------------------------------------------------------------------- shows and clicks
cvm = Op("cvm", "X. CVM -> Y", attrs={"use_cvm": True})


@cvm.shape
def _(X: Spec, use_cvm: bool) -> Spec:
    if len(X.shape) != 2 or 0 <= X.shape[1] <= 2:
        raise ShapeError(f"op 'cvm': X has shape {list(X.shape)}, wanted shows, clicks and more columns")
    if use_cvm:
        return X
    return X.with_shape((X.shape[0], X.shape[1] - 2))


@cvm.kernel
def _(xp: Any, X: Array, use_cvm: bool) -> Array:
    if not use_cvm:
        return X[:, 2:].copy()
    out = X.copy()
    out[:, 0] = xp.log(X[:, 0] + 1)
    out[:, 1] = xp.log(X[:, 1] + 1) - out[:, 0]
    return out


@cvm.grad("X", opaque="its gradient returns shows and clicks unchanged, which is not a derivative")
def _(xp: Any, X: Array, X_lod: Lod, CVM: Array, dY: Array, use_cvm: bool) -> Array:
    # PaddlePaddle's own rule: shows and clicks travel back as they are, for the table's statistics
    counts = CVM
    if X_lod:
        counts = take_rows(xp, CVM, owners(np.diff(offsets_of_level("cvm", "X", X_lod))))
    return xp.concatenate([counts, dY[:, 2:] if use_cvm else dY], axis=1)


# ---------------------------------------------------------------------- samples by tag
filter_by_instag = Op(
    "filter_by_instag",
    "Ins Ins_tag Filter_tag -> Out LossWeight IndexMap",
    attrs={"is_lod": required(AttrType.BOOLEAN), "out_val_if_empty": LONG(0)},
    lod=None,
    dynamic=True,
    constants=("LossWeight",),
    makes_lod=True,
)


@filter_by_instag.shape
def _(Ins: Spec) -> tuple[Spec, Spec, Spec]:
    return (
        Spec((-1, *Ins.shape[1:]), Ins.dtype, 0),
        Spec((-1, 1), VarType.FP32, 0),
        Spec((-1, 3), VarType.INT64, 0),
    )


@filter_by_instag.kernel
def _(
    xp: Any,
    Ins: Array,
    Ins_tag: Array,
    Filter_tag: Array,
    Ins_lod: Lod,
    Ins_tag_lod: Lod,
    is_lod: bool,
    out_val_if_empty: int,
) -> tuple[WithLod, WithLod, WithLod]:
    if is_lod:
        offsets = offsets_of_level("filter_by_instag", "Ins", Ins_lod)
    else:
        offsets = np.arange(len(Ins) + 1)
    tags = offsets_of_level("filter_by_instag", "Ins_tag", Ins_tag_lod)
    if len(tags) != len(offsets):
        raise ShapeError(
            f"op 'filter_by_instag': Ins has {len(offsets) - 1} samples, but Ins_tag has tags of "
            f"{len(tags) - 1}"
        )
    wanted = xp.isin(Ins_tag.ravel(), Filter_tag.ravel())
    hits = np.concatenate(([0], np.cumsum(host(wanted))))
    kept = np.flatnonzero(hits[tags[1:]] > hits[tags[:-1]])
    if not len(kept):
        empty = xp.full((1, *Ins.shape[1:]), out_val_if_empty, Ins.dtype)
        one: Lod = ((0, 1),)
        where = xp.asarray([[0, 1, 1]], "int64")
        return WithLod(empty, one), WithLod(xp.zeros((1, 1), "float32"), one), WithLod(where, one)
    lengths = np.diff(offsets)[kept]
    out = take_rows(xp, Ins, spans(offsets[kept], lengths))
    index = np.stack([np.cumsum(lengths) - lengths, offsets[kept], lengths], axis=1)
    each = lengths_lod(np.ones_like(kept))
    return (
        WithLod(out, lengths_lod(lengths)),
        WithLod(xp.ones((len(kept), 1), "float32"), each),
        WithLod(xp.asarray(index, "int64"), each),
    )


@filter_by_instag.grad("Ins", makes_lod=True)
def _(xp: Any, Ins: Array, Ins_lod: Lod, LossWeight: Array, IndexMap: Array, dOut: Array) -> WithLod:
    dIns = xp.zeros_like(Ins)
    if float(LossWeight[0, 0]) != 0:
        index = host(IndexMap)
        dIns[xp.asarray(spans(index[:, 1], index[:, 2]))] = dOut
    return WithLod(dIns, Ins_lod)


# ---------------------------------------------------------------------- attention by rank
rank_attention = Op(
    "rank_attention",
    "X RankOffset RankParam -> Out",
    attrs={"MaxRank": 3},
    idle=("MaxSize",),
    version=1,
    alike=("X", "RankParam"),
)


@rank_attention.shape
def _(X: Spec, RankOffset: Spec, RankParam: Spec, MaxRank: int) -> Spec:
    if len(X.shape) != 2 or len(RankOffset.shape) != 2 or RankOffset.shape[1] != 2 * MaxRank + 1:
        raise ShapeError(
            f"op 'rank_attention': X has shape {list(X.shape)} and RankOffset {list(RankOffset.shape)}, "
            f"wanted matrices, the latter of {2 * MaxRank + 1} columns"
        )
    if len(RankParam.shape) != 2 or RankParam.shape[0] != MaxRank * MaxRank * X.shape[1]:
        raise ShapeError(
            f"op 'rank_attention': RankParam has shape {list(RankParam.shape)}, wanted {MaxRank} x {MaxRank} "
            f"x {X.shape[1]} rows"
        )
    return X.with_shape((X.shape[0], RankParam.shape[1]))


def _ranked(xp: Any, X: Array, RankOffset: Array, MaxRank: int) -> tuple[Array, Array]:
    """For each sample and place of its page view: the matrix to use, and the input there, zeros where there
    is none; [batch, MaxRank] and [batch, MaxRank, width].
    """
    own = RankOffset[:, :1] - 1
    other = RankOffset[:, 1::2] - 1
    row = RankOffset[:, 2::2]
    there = (own >= 0) & (other >= 0)
    inputs = xp.where(there[:, :, None], X[xp.where(there, row, 0)], X.dtype.type(0))
    return xp.where(there, own * MaxRank + other, 0), inputs


@rank_attention.kernel
def _(xp: Any, X: Array, RankOffset: Array, RankParam: Array, MaxRank: int) -> Array:
    pairs, inputs = _ranked(xp, X, RankOffset, MaxRank)
    matrices = RankParam.reshape(MaxRank * MaxRank, X.shape[1], -1)
    out: Array = (inputs[:, :, None] @ matrices[pairs])[:, :, 0].sum(1)
    return out


@rank_attention.grad("RankParam")
def _(xp: Any, X: Array, RankOffset: Array, RankParam: Array, dOut: Array, MaxRank: int) -> Array:
    # X gets none, in PaddlePaddle as well: the inputs are looked up, not trained
    pairs, inputs = _ranked(xp, X, RankOffset, MaxRank)
    which = (pairs[:, :, None] == xp.arange(MaxRank * MaxRank)).astype(X.dtype)
    chosen = which[:, :, :, None] * inputs[:, :, None]
    sums = xp.tensordot(chosen, dOut, axes=((0,), (0,))).sum(0)
    return sums.reshape(RankParam.shape)
