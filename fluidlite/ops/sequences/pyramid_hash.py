"""Embeddings of windows of words whose rows are found by hashing the window."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import GradContext, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.hashing import in_bloom_filter, xxh32
from fluidlite.ops.kernels.sequence_rows import lengths_lod, offsets_of_level, owners, spans
from fluidlite.values.tensor import host

_ATTRS = {
    "num_emb": limited(0, least(0)),
    "space_len": limited(0, least(0)),
    "pyramid_layer": limited(2, least(2)),
    "rand_len": limited(0, least(0)),
    "drop_out_percent": limited(0.0, least(0.0)),
    "is_training": limited(0, least(0)),
    "use_filter": True,
    "white_list_len": limited(0, least(0)),
    "black_list_len": limited(0, least(0)),
    "seed": limited(0, least(0)),
    "lr": limited(0.0, least(0.0)),
    "distribute_update_vars": "",
}
pyramid_hash = Op(
    "pyramid_hash",
    "X W WhiteList BlackList -> Out DropPos X_Temp_Out",
    attrs=_ATTRS,
    random=True,
    idle=("distribute_update_vars",),
    makes_lod=True,
)
pyramid_hash_grad = Op(
    "pyramid_hash_grad",
    "X W DropPos X_Temp_Out Out@GRAD -> X@GRAD?",
    attrs=_ATTRS,
    lod=None,
    opaque="it trains the table itself",
    effect=True,  # the op trains the table by itself
)


@pyramid_hash.shape
def _(X: Spec, W: Spec, num_emb: int, space_len: int, rand_len: int) -> dict[str, Spec]:
    if len(X.shape) != 2 or W.shape != (space_len + rand_len, 1):
        raise ShapeError(
            f"op 'pyramid_hash': X has shape {list(X.shape)}, wanted a column of ids; W has {list(W.shape)}, "
            f"wanted [{space_len + rand_len}, 1]"
        )
    if rand_len <= 0 or num_emb % rand_len:
        raise ShapeError(
            f"op 'pyramid_hash': an embedding of {num_emb} values cannot be divided into chunks of {rand_len}"
        )
    out = Spec((-1, num_emb), VarType.FP32)
    return {"Out": out, "X_Temp_Out": Spec((-1, 1), VarType.FP32, 0)}


class _IdWindows:
    """All windows of 2 to `longest` words: sequence by sequence, the short ones first, from left to right."""

    def __init__(self, lod: Lod, longest: int) -> None:
        offsets = offsets_of_level("pyramid_hash", "X", lod)
        lengths = np.diff(offsets)
        sizes = np.arange(2, longest + 1)
        counts = np.maximum(lengths[:, None] - sizes + 1, 0)  # [sequences, sizes]
        self.sequence = owners(counts.sum(1))
        self.sequences = len(lengths)
        self.size = np.tile(sizes, len(lengths)).repeat(counts.ravel())
        self.start = spans(np.repeat(offsets[:-1], len(sizes)), counts.ravel())

    def words(self, ids: Array, which: Array) -> Array:
        """[windows, size] words, as the bits of float32, of the windows `which`, which are of one size."""
        rows = self.start[which][:, None] + np.arange(self.size[which[0]])
        return ids.astype(np.float32).view(np.uint32)[rows]

    def by_size(self, chosen: Array) -> list[Array]:
        """The windows of `chosen`, those of each size together."""
        return [
            found for size in np.unique(self.size[chosen]) if len(found := chosen[self.size[chosen] == size])
        ]


def _pieces(
    windows: _IdWindows, ids: Array, kept: Array, num_emb: int, rand_len: int, space_len: int
) -> Array:
    """[kept windows, num_emb] positions in the table: piece k begins at a hash with k * rand_len as seed."""
    out = np.empty((len(windows.size), num_emb), np.int64)
    for which in windows.by_size(kept):
        words = windows.words(ids, which)
        starts = [xxh32(words, seed) % np.uint32(space_len) for seed in range(0, num_emb, rand_len)]
        places = np.stack(starts, axis=1).astype(np.int64)[:, :, None] + np.arange(rand_len)
        out[which] = places.reshape(len(which), num_emb)
    return out[kept]


def _allowed(windows: _IdWindows, ids: Array, white: Array, black: Array) -> Array:
    """True for the windows that the white list knows and the black one does not; an empty list is none."""
    allowed = np.ones(len(windows.size), bool)
    for which in windows.by_size(np.arange(len(windows.size))):
        words = windows.words(ids, which)
        if white.size:
            allowed[which] &= in_bloom_filter(white, words)
        if black.size:
            allowed[which] &= ~in_bloom_filter(black, words)
    return allowed


@pyramid_hash.kernel
def _(
    xp: Any,
    ctx: Any,
    X: Array,
    X_lod: Lod,
    W: Array,
    WhiteList: Array,
    BlackList: Array,
    num_emb: int,
    space_len: int,
    pyramid_layer: int,
    rand_len: int,
    drop_out_percent: float,
    is_training: int,
    use_filter: bool,
    white_list_len: int,
    black_list_len: int,
    seed: int,
) -> tuple[WithLod, WithLod, Array]:
    windows = _IdWindows(X_lod, pyramid_layer)
    ids = host(X).ravel()
    chosen = np.ones(len(windows.size), bool)
    if use_filter:
        chosen = _allowed(windows, ids, host(WhiteList)[:white_list_len], host(BlackList)[:black_list_len])
    if is_training:
        chosen &= ctx.rng(seed).random(len(chosen)) >= drop_out_percent
    kept = np.flatnonzero(chosen)
    counts = np.bincount(windows.sequence[kept], minlength=windows.sequences)
    out = xp.zeros((int(np.maximum(counts, 1).sum()), num_emb), W.dtype)
    # a sequence without windows has a row of zeros
    rows = np.arange(len(kept)) + np.cumsum(counts == 0)[windows.sequence[kept]]
    places = _pieces(windows, ids, kept, num_emb, rand_len, space_len)
    out[xp.asarray(rows)] = W.ravel()[xp.asarray(places)]
    if not is_training:
        out *= W.dtype.type(drop_out_percent)  # as PaddlePaddle does, although what is kept is 1 - it
    return (
        WithLod(out, lengths_lod(np.maximum(counts, 1))),
        WithLod(xp.asarray(chosen.astype(np.int32)[:, None]), lengths_lod(counts)),
        X.astype(W.dtype),
    )


@pyramid_hash.grad_rule("X")
def _(context: GradContext) -> None:
    inputs = {slot: context.input(slot) for slot in ("X", "W")}
    inputs.update({slot: context.output(slot) for slot in ("DropPos", "X_Temp_Out")})
    inputs["Out@GRAD"] = context.out_grad("Out")
    context.emit("pyramid_hash_grad", inputs, {"X@GRAD": context.in_grad("X")})


@pyramid_hash_grad.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    W: Array,
    DropPos: Array,
    dOut: Array,
    num_emb: int,
    space_len: int,
    pyramid_layer: int,
    rand_len: int,
    lr: float,
) -> Array:
    windows = _IdWindows(X_lod, pyramid_layer)
    ids = host(X).ravel()
    kept = np.flatnonzero(host(DropPos).ravel()[: len(windows.size)])
    counts = np.bincount(windows.sequence[kept], minlength=windows.sequences)
    rows = np.arange(len(kept)) + np.cumsum(counts == 0)[windows.sequence[kept]]
    places = xp.asarray(_pieces(windows, ids, kept, num_emb, rand_len, space_len).ravel())
    sums = xp.bincount(places, dOut[xp.asarray(rows)].ravel(), len(W))
    W -= (lr * sums).astype(W.dtype).reshape(W.shape)  # in place: the table is updated here, by no optimizer
    return xp.zeros(X.shape, W.dtype)
