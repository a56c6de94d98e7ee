"""Losses over very many classes that look at a few of them: a tree of classes, and sampled negatives.

With a seed, samples are those of PaddlePaddle 1.8.5: draws of C++'s Mersenne twisters through libstdc++'s
distributions.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, LONGS, STRINGS, AttrType, KernelContext, Op, Spec, required
from fluidlite.ops.kernels.numbers import check_classes, check_rows
from fluidlite.ops.losses.loss import sigmoid, softplus
from fluidlite.ops.neural.embedding import NO_PADDING, table_gradient
from fluidlite.values.sparse_products import add_by_columns
from fluidlite.values.tensor import SelectedRows, host, merge_rows

_TABLE_ATTRS: dict[str, Any] = {
    "is_sparse": False,
    "remote_prefetch": False,
    "trainer_id": 0,
    "height_sections": LONGS(),
    "epmap": STRINGS(),
    "table_names": STRINGS(),
}
_SIZE, _MIDDLE = 312, 156


# ---------------------------------------------------------------------- samplers
@functools.lru_cache(maxsize=16)
def mersenne_twister(seed: int, n: int) -> Array:
    """The first `n` numbers of `std::mt19937_64` as uint64 (Nishimura and Matsumoto 2004)."""
    state = [seed & (1 << 64) - 1]
    for i in range(1, _SIZE):
        state.append(6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i & (1 << 64) - 1)
    block = np.array(state, np.uint64)
    blocks = []
    for _ in range(-(-n // _SIZE)):
        block = _next_block(block)
        blocks.append(_tempered(block))
    if blocks:
        return np.concatenate(blocks)[:n]
    return np.empty(0, np.uint64)


def _next_block(old: Array) -> Array:
    u64 = np.uint64

    def twisted(high: Array, low: Array) -> Any:
        word = high & u64(0xFFFFFFFF80000000) | low & u64(0x7FFFFFFF)
        return word >> u64(1) ^ (low & u64(1)) * u64(0xB5026F5AA96619E9)

    new = np.empty_like(old)
    new[:_MIDDLE] = old[_MIDDLE:] ^ twisted(old[:_MIDDLE], old[1 : _MIDDLE + 1])
    new[_MIDDLE:-1] = new[: _MIDDLE - 1] ^ twisted(old[_MIDDLE:-1], old[_MIDDLE + 1 :])
    new[-1:] = new[_MIDDLE - 1 : _MIDDLE] ^ twisted(old[-1:], new[:1])
    return new


def _tempered(words: Array) -> Any:
    words = words ^ words >> np.uint64(29) & np.uint64(0x5555555555555555)
    words = words ^ words << np.uint64(17) & np.uint64(0x71D67FFFEDA60000)
    words = words ^ words << np.uint64(37) & np.uint64(0xFFF7EEE000000000)
    return words ^ words >> np.uint64(43)


def _draws(ctx: KernelContext, seed: int, n: int) -> Any:
    """`n` random 64-bit words."""
    if seed:
        return mersenne_twister(seed, n)
    return ctx.rng(0).integers(0, 1 << 64, n, dtype=np.uint64)


def _uniform(words: Array, classes: int) -> Any:
    """Classes drawn uniformly from 64-bit words."""
    return np.minimum(words // np.uint64(((1 << 64) - 1) // classes), np.uint64(classes - 1)).astype(np.int64)


def _log_uniform(words: Array, span: int) -> Any:
    """Numbers below `span` with probability log(1 + 1 / (k + 1)) / log(span + 1)."""
    unit = words.astype(np.float64) / 2.0**64
    return (np.exp(unit * float(np.float32(math.log(span + 1)))).astype(np.int64) - 1) % span


def _log_uniform_probability(xp: Any, classes: Array, span: int, dtype: Any) -> Any:
    return (xp.log((classes + 2) / (classes + 1)) / math.log(span + 1)).astype(dtype)


# ---------------------------------------------------------------------- a tree of classes
hierarchical_sigmoid = Op(
    "hierarchical_sigmoid",
    "X. W. Label PathTable? PathCode? Bias.? -> Out PreOut W_Out?",
    untouched=("W_Out",),
    attrs={"num_classes": 2, **_TABLE_ATTRS},
    below={"Label": "num_classes"},
    alike=("X", "W", "Bias"),
)


@hierarchical_sigmoid.shape
def _(X: Spec, W: Spec, Label: Spec, PathTable: Spec | None, PathCode: Spec | None) -> dict[str, Spec]:
    paths = {"PathTable": PathTable or X, "PathCode": PathCode or X}
    check_rows("hierarchical_sigmoid", X=X, Label=Label, **paths)
    if X.shape[1] != W.shape[1] and X.shape[1] >= 0:
        raise ShapeError(f"op 'hierarchical_sigmoid': X has {X.shape[1]} columns but W has {W.shape[1]}")
    return {"Out": X.with_shape((X.shape[0], 1)), "W_Out": W}


def _path(
    xp: Any, Label: Array, PathTable: Array | None, PathCode: Array | None, num_classes: int
) -> tuple[Any, Any, Any]:
    """(inner nodes on the way to each label [N, depth], turns taken there, which entries are on the way at
    all).
    """
    if PathTable is not None and PathCode is not None:
        nodes, turns = PathTable, PathCode
        known = xp.cumsum(nodes < 0, axis=1) == 0
    else:
        # a complete binary tree whose leaves are num_classes .. 2 num_classes - 1; the root is 1, node i is
        # row i - 1
        code = Label.reshape(-1, 1) + num_classes
        depth = xp.arange((num_classes - 1).bit_length())
        nodes = (code >> (depth + 1)) - 1
        turns = code >> depth & 1
        known = nodes >= 0
    return xp.where(known, nodes, 0), (turns != 0) & known, known


@hierarchical_sigmoid.kernel
def _(
    xp: Any,
    X: Array,
    W: Array,
    Label: Array,
    PathTable: Array | None,
    PathCode: Array | None,
    Bias: Array | None,
    num_classes: int,
) -> tuple[Any, Any, Any]:
    if PathTable is None or PathCode is None:
        check_classes(xp, "hierarchical_sigmoid", "Label", Label, num_classes)
    nodes, turns, known = _path(xp, Label, PathTable, PathCode, num_classes)
    score = xp.matmul(W[nodes], X[:, :, None])[:, :, 0]
    if Bias is not None:
        score = score + Bias.reshape(-1)[nodes]
    score = xp.clip(xp.where(known, score, X.dtype.type(0)), -40, 40)
    # entries beyond the end of a way cost log 2 each, as in Paddle
    cost = softplus(xp, score)
    # W_Out is W under its own name
    return cost.sum(axis=1, keepdims=True) - (score * turns).sum(axis=1, keepdims=True), cost, W


@hierarchical_sigmoid.grad("X W Bias", sparse="W@GRAD")
def _(
    xp: Any,
    X: Array,
    W: Array,
    Label: Array,
    PathTable: Array | None,
    PathCode: Array | None,
    Bias: Array | None,
    PreOut: Array,
    dOut: Array,
    num_classes: int,
    is_sparse: bool,
    wants: frozenset[str],
) -> tuple[Any, Any, Any]:
    nodes, turns, known = _path(xp, Label, PathTable, PathCode, num_classes)
    d = dOut * (1 - xp.exp(-PreOut) - turns) * known
    if "X@GRAD" in wants:
        dx = xp.matmul(d[:, None, :], W[nodes])[:, 0]
    else:
        dx = None
    dw: Any = None
    db: Any = None
    if "W@GRAD" in wants and xp is np and not is_sparse and X.dtype == W.dtype == d.dtype:
        dw = np.zeros(W.shape, W.dtype)
        starts = np.append(0, np.cumsum(known.sum(axis=1)))
        add_by_columns(dw, starts, nodes[known].astype(np.int64), d[known], np.ascontiguousarray(X))
    elif "W@GRAD" in wants:
        dw = table_gradient(
            xp, W, nodes[known], (d[:, :, None] * X[:, None, :])[known], NO_PADDING, is_sparse
        )
    if Bias is not None and "Bias@GRAD" in wants:
        db = table_gradient(xp, Bias, nodes[known], d[known], NO_PADDING, False)
    return dx, dw, db


# ---------------------------------------------------------------------- noise-contrastive estimation
nce = Op(
    "nce",
    "Input. Label Weight. Bias.? SampleWeight.? CustomDistProbs? CustomDistAlias? CustomDistAliasProbs? "
    "-> Cost SampleLogits SampleLabels",
    attrs={
        "num_total_classes": required(AttrType.INT),
        "num_neg_samples": 10,
        "seed": 0,
        "sampler": 0,
        "custom_neg_classes": INTS(),
        **_TABLE_ATTRS,
    },
    random=True,
    lod=None,
    idle=("is_test",),
    below={"Label": "num_total_classes"},
    alike=("Input", "Weight", "Bias"),
)


@nce.shape
def _(Input: Spec, Label: Spec, Weight: Spec, num_neg_samples: int) -> tuple[Spec, Spec, Spec]:
    check_rows("nce", Input=Input, Label=Label)
    if Input.shape[1] != Weight.shape[1] and Input.shape[1] >= 0:
        raise ShapeError(f"op 'nce': Input has {Input.shape[1]} columns but Weight has {Weight.shape[1]}")
    count = num_neg_samples + (Label.shape[1] if len(Label.shape) == 2 else 1)
    return (
        Input.with_shape((Input.shape[0], 1)),
        Input.with_shape((Input.shape[0], count)),
        Spec((Input.shape[0], count), VarType.INT64),
    )


@functools.lru_cache(maxsize=16)
def _seeded_bytes(seed: int, count: int) -> bytes:
    """The first bytes of `std::mt19937`: the engine alone takes 60 us to make."""
    return np.random.RandomState(seed).bytes(count)


def _negatives(
    ctx: KernelContext, count: int, classes: int, sampler: int, seed: int, alias: Any, keep: Any
) -> Any:
    """`count` classes drawn by the sampler: 0 uniform, 1 log-uniform, 2 by alias tables."""
    if sampler != 2:
        words = _draws(ctx, seed, count)
        if sampler == 0:
            return _uniform(words, classes)
        return _log_uniform(words, classes - 1)
    # this sampler alone uses the 32-bit engine: one word for the class, two for a double
    if seed:
        source = _seeded_bytes(seed, 12 * count)
    else:
        source = ctx.rng(0).bytes(12 * count)
    words = np.frombuffer(source, "<u4").reshape(count, 3)
    picked = np.minimum(words[:, 0] // (((1 << 32) - 1) // classes), classes - 1)
    other = host(alias)
    unit = (words[:, 1] + words[:, 2] * 2.0**32) / 2.0**64
    moved = (unit > host(keep)[picked]) & (other[picked] >= 0)
    return np.where(moved, other[picked], picked).astype(np.int64)


def _noise(
    xp: Any, labels: Array, CustomDistProbs: Array | None, classes: int, count: int, sampler: int, dtype: Any
) -> Any:
    """Expected number of times that each of `labels` is among `count` samples."""
    if sampler == 0:
        return xp.full(labels.shape, count / classes, dtype)
    if sampler == 1:
        return count * _log_uniform_probability(xp, labels, classes - 1, dtype)
    assert CustomDistProbs is not None
    return count * CustomDistProbs.reshape(-1)[labels].astype(dtype)


def _weights(weights: Array, rows: int) -> Array:
    """One weight a row; what is given beyond the rows is not read, as in 1.8.5."""
    found = weights.reshape(-1, 1)[:rows]
    if len(found) < rows:
        raise ShapeError(f"op 'nce': SampleWeight{list(weights.shape)} has fewer than {rows} weights")
    return found


def _true_classes(xp: Any, Label: Array, rows: int, classes: int) -> Array:
    """The classes of each row, checked."""
    check_classes(xp, "nce", "Label", Label, classes)
    return Label.reshape(rows, -1)


@nce.kernel
def _(
    xp: Any,
    Input: Array,
    Label: Array,
    Weight: Array,
    Bias: Array | None,
    SampleWeight: Array | None,
    CustomDistProbs: Array | None,
    CustomDistAlias: Array | None,
    CustomDistAliasProbs: Array | None,
    num_total_classes: int,
    num_neg_samples: int,
    seed: int,
    sampler: int,
    custom_neg_classes: list[int],
    ctx: KernelContext,
) -> tuple[Any, Any, Any]:
    true = _true_classes(xp, Label, len(Input), num_total_classes)
    if custom_neg_classes:
        drawn = np.tile(np.array(custom_neg_classes, np.int64), (len(Input), 1))
    else:
        count = len(Input) * num_neg_samples
        alias = (CustomDistAlias, CustomDistAliasProbs)
        drawn = _negatives(ctx, count, num_total_classes, sampler, seed, *alias)
        drawn = drawn.reshape(len(Input), -1)
    labels = xp.concatenate((true, xp.asarray(drawn)), axis=1)
    score = (Weight[labels] * Input[:, None, :]).sum(axis=2) + (
        0 if Bias is None else Bias.reshape(-1)[labels]
    )
    chance = sigmoid(xp, score)
    noise = _noise(xp, labels, CustomDistProbs, num_total_classes, num_neg_samples, sampler, Input.dtype)
    is_true = xp.arange(labels.shape[1]) < true.shape[1]
    cost = -xp.log(xp.where(is_true, chance, noise) / (chance + noise))
    if SampleWeight is not None:
        cost = cost * _weights(SampleWeight, len(cost))
    return cost.sum(axis=1, keepdims=True), chance, labels


def _of_classes(xp: Any, Weight: Array, classes: Array, d: Array, is_sparse: bool) -> Any:
    """The gradient of the classes' weights; as selected rows it has each class once, as in Paddle."""
    dw = table_gradient(xp, Weight, classes, d, NO_PADDING, is_sparse)
    if not isinstance(dw, SelectedRows):
        return dw
    ids, rows = merge_rows(xp, dw.ids, dw.array)
    return SelectedRows(ids, len(Weight), rows)


@nce.grad("Input Weight Bias", sparse="Weight@GRAD")
def _(
    xp: Any,
    Input: Array,
    Label: Array,
    Weight: Array,
    Bias: Array | None,
    SampleWeight: Array | None,
    CustomDistProbs: Array | None,
    CustomDistAlias: Array | None,
    CustomDistAliasProbs: Array | None,
    SampleLogits: Array,
    SampleLabels: Array,
    dCost: Array,
    num_total_classes: int,
    num_neg_samples: int,
    sampler: int,
    is_sparse: bool,
    wants: frozenset[str],
) -> tuple[Any, Any, Any]:
    noise = _noise(
        xp, SampleLabels, CustomDistProbs, num_total_classes, num_neg_samples, sampler, Input.dtype
    )
    is_true = xp.arange(SampleLabels.shape[1]) < Label.size // len(Input)
    d = (
        xp.where(is_true, -noise, SampleLogits)
        * (1 - SampleLogits)
        / (SampleLogits + noise)
        * dCost.reshape(-1, 1)
    )
    if SampleWeight is not None:
        d = d * _weights(SampleWeight, len(d))
    dx = dw = db = None
    if "Input@GRAD" in wants:
        dx = (Weight[SampleLabels] * d[:, :, None]).sum(axis=1)
    if "Weight@GRAD" in wants:
        dw = _of_classes(xp, Weight, SampleLabels, d[:, :, None] * Input[:, None, :], is_sparse)
    if Bias is not None and "Bias@GRAD" in wants:
        db = xp.bincount(SampleLabels.reshape(-1), d.reshape(-1), Bias.size).astype(Bias.dtype)
        db = db.reshape(Bias.shape)
    return dx, dw, db


# ---------------------------------------------------------------------- sampled softmax
sample_logits = Op(
    "sample_logits",
    "Logits. Labels CustomizedSamples? CustomizedProbabilities? "
    "-> Samples Probabilities LogitsDim LabelsDim SampledLogits SampledLabels",
    attrs={
        "use_customized_samples": False,
        "uniq": True,
        "remove_accidental_hits": True,
        "num_samples": required(AttrType.INT),
        "seed": 0,
    },
    random=True,
    lod=None,
    only={"uniq": True},
    below={"Labels": ("Logits", -1)},
)


@sample_logits.shape
def _(Logits: Spec, Labels: Spec, num_samples: int) -> dict[str, Spec]:
    rows, true = Logits.shape[0], Labels.shape[1]
    count = true + num_samples if true >= 0 else -1
    return {
        "Samples": Spec((rows, count), VarType.INT64),
        "Probabilities": Spec((rows, count), Logits.dtype),
        "LogitsDim": Spec((*Logits.shape, 0), Logits.dtype),
        "LabelsDim": Spec((*Labels.shape, 0), Labels.dtype),
        "SampledLogits": Spec((rows, count), Logits.dtype),
        "SampledLabels": Spec((rows, true), VarType.INT64),
    }


def _distinct(ctx: KernelContext, classes: int, count: int, seed: int) -> tuple[Any, int]:
    """(`count` distinct log-uniform samples in the order drawn, the number of draws it took)."""
    if count > classes:
        raise ValueError(f"num_samples is {count}, but there are {classes} classes")
    n = 4 * count + 16
    while True:
        drawn = _log_uniform(_draws(ctx, seed, n), classes)
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= count:
            return drawn[first[:count]], int(first[count - 1]) + 1 if count else 0
        n *= 2


@sample_logits.kernel
def _(
    xp: Any,
    Logits: Array,
    Labels: Array,
    CustomizedSamples: Array | None,
    CustomizedProbabilities: Array | None,
    use_customized_samples: bool,
    remove_accidental_hits: bool,
    num_samples: int,
    seed: int,
    ctx: KernelContext,
) -> dict[str, Any]:
    rows, true = Labels.shape
    if use_customized_samples:
        assert CustomizedSamples is not None and CustomizedProbabilities is not None
        samples, probability = CustomizedSamples, CustomizedProbabilities
    else:
        drawn, draws = _distinct(ctx, Logits.shape[1], num_samples, seed)
        samples = xp.concatenate((Labels, xp.broadcast_to(xp.asarray(drawn), (rows, num_samples))), axis=1)
        chance = _log_uniform_probability(xp, samples, Logits.shape[1], Logits.dtype)
        if draws == num_samples:
            probability = chance * num_samples
        else:
            probability = -xp.expm1(draws * xp.log1p(-chance))
    logits = xp.take_along_axis(Logits, samples, axis=1)
    if remove_accidental_hits:
        is_label = (samples[:, :, None] == Labels[:, None, :]).any(axis=2)
        is_drawn = xp.arange(samples.shape[1]) >= true
        hit = is_label & is_drawn
        logits = logits - hit * Logits.dtype.type(1e20)
    largest = Logits.dtype.type(1e20)
    return {
        "Samples": samples,
        "Probabilities": probability,
        # like an XShape: no numbers, only shapes for the gradient
        "LogitsDim": xp.empty((*Logits.shape, 0), Logits.dtype),
        "LabelsDim": xp.empty((*Labels.shape, 0), Labels.dtype),
        "SampledLogits": logits - xp.clip(xp.log(probability), -largest, largest),
        "SampledLabels": xp.broadcast_to(xp.arange(true, dtype="int64"), (rows, true)).copy(),
    }


@sample_logits.grad("Logits", shape=lambda LogitsDim: LogitsDim.with_shape(LogitsDim.shape[:-1]))
def _(xp: Any, Samples: Array, LogitsDim: Array, LabelsDim: Array, dSampledLogits: Array) -> Any:
    out = xp.zeros(LogitsDim.shape[:-1], dSampledLogits.dtype)
    xp.add.at(out, (xp.arange(len(Samples))[:, None], Samples), dSampledLogits)
    return out
