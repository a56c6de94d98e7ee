"""Linear-chain conditional random fields, and the chunks that their tags stand for.

The transition matrix has a row of scores to start with each tag, one to end with it, and one for each tag to
come from.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, AttrType, KernelContext, Lod, Op, Spec, required
from fluidlite.ops.kernels.numbers import check_classes
from fluidlite.ops.kernels.padding import Batch
from fluidlite.ops.kernels.sequence_rows import level_of, owners
from fluidlite.values.tensor import host


def _check_transition(type: str, Emission: Spec, Transition: Spec) -> None:
    tags = Emission.shape[-1]
    if (
        len(Transition.shape) != 2
        or Transition.shape[0] != Transition.shape[1] + 2
        or tags not in (-1, Transition.shape[1])
    ):
        raise ShapeError(
            f"op {type!r}: Transition has the shape {list(Transition.shape)}, wanted {[tags + 2, tags]} "
            f"for Emission{list(Emission.shape)}"
        )


linear_chain_crf = Op(
    "linear_chain_crf",
    "Emission. Transition. Label Length? -> Alpha EmissionExps TransitionExps LogLikelihood",
    lod=None,
)


@linear_chain_crf.shape
def _(Emission: Spec, Transition: Spec, Length: Spec | None) -> tuple[Spec, Spec, Spec, Spec]:
    _check_transition("linear_chain_crf", Emission, Transition)
    rows = Emission.shape[0] if Length is not None else -1
    like = Emission.with_shape(Emission.shape)
    return like, like, Transition.with_shape(Transition.shape), Emission.with_shape((rows, 1))


def _path_score(xp: Any, batch: Batch, emission: Array, labels: Array, Transition: Array) -> Any:
    """The score of each sequence's own tags."""
    count, steps, tags = emission.shape
    if not steps:
        return xp.zeros(count, emission.dtype)
    at_labels = emission.reshape(-1).take(xp.arange(0, emission.size, tags).reshape(count, steps) + labels)
    moves = Transition[2:][labels[:, :-1], labels[:, 1:]]
    last = labels[xp.arange(count), xp.maximum(batch.lengths - 1, 0)]
    own = (at_labels * batch.mask).sum(axis=1) + (moves * batch.mask[:, 1:]).sum(axis=1)
    return own + Transition[0][labels[:, 0]] + Transition[1][last]


@linear_chain_crf.kernel
def _(
    xp: Any, Emission: Array, Emission_lod: Lod, Transition: Array, Label: Array, Length: Array | None
) -> tuple[Any, ...]:
    batch = Batch(xp, Emission, Emission_lod, Length)
    emission = batch.pad(Emission)
    labels = xp.where(batch.mask, batch.pad(Label.reshape(Emission.shape[:-1])), 0)
    check_classes(xp, "linear_chain_crf", "Label", labels, Emission.shape[-1])
    top, moves = emission.max(axis=2, keepdims=True), xp.exp(Transition)
    alpha, sizes = _forward_messages(xp, xp.exp(emission - top), moves)
    last = alpha[xp.arange(len(alpha)), xp.maximum(batch.lengths - 1, 0)]
    total = xp.where(batch.mask, xp.log(sizes) + top[:, :, 0], Emission.dtype.type(0)).sum(axis=1)
    total = total + xp.log(last @ moves[1])
    # an empty sequence costs nothing
    cost = xp.where(
        batch.lengths > 0,
        total - _path_score(xp, batch, emission, labels, Transition),
        Emission.dtype.type(0),
    )
    stored = xp.exp(Emission - Emission.max(axis=-1, keepdims=True))
    alpha = xp.where(batch.mask[:, :, None], alpha, Emission.dtype.type(0))
    return batch.unpad(alpha), stored, moves, cost[:, None].astype(Emission.dtype)


@linear_chain_crf.grad("Emission Transition")
def _(
    xp: Any,
    Emission: Array,
    Emission_lod: Lod,
    Transition: Array,
    Label: Array,
    Length: Array | None,
    Alpha: Array,
    EmissionExps: Array,
    TransitionExps: Array,
    dLogLikelihood: Array,
) -> tuple[Any, Any]:
    batch = Batch(xp, Emission, Emission_lod, Length)
    alpha, exps = batch.pad(Alpha), batch.pad(EmissionExps)
    labels = xp.where(batch.mask, batch.pad(Label.reshape(Emission.shape[:-1])), 0)
    beta = _backward_messages(xp, batch, exps, TransitionExps)
    d = dLogLikelihood.reshape(-1, 1, 1) * (batch.lengths > 0)[:, None, None]
    tags = xp.arange(Emission.shape[-1])
    is_label = labels[:, :, None] == tags
    marginal = alpha * beta
    wrong = (marginal / marginal.sum(axis=2, keepdims=True) - is_label) * d
    wrong = xp.where(batch.mask[:, :, None], wrong, Emission.dtype.type(0))
    is_last = xp.arange(labels.shape[1]) == batch.lengths[:, None] - 1
    ends = xp.stack((wrong[:, 0].sum(axis=0), (wrong * is_last[:, :, None]).sum(axis=(0, 1))))
    pairs = _pairs(batch, xp, alpha, exps * beta, is_label, TransitionExps[2:], d[..., 0])
    return batch.unpad(wrong).reshape(Emission.shape), xp.concatenate((ends, pairs)).astype(Transition.dtype)


def _pairs(
    batch: Batch, xp: Any, alpha: Array, follow: Array, is_label: Array, moves: Array, d: Array
) -> Any:
    """Expected number of transitions from tag to tag less that of the labels, weighted by d."""
    count = alpha.shape[2]
    before, after = alpha[:, :-1], follow[:, 1:]
    size = ((before @ moves) * after).sum(axis=2)
    weight = xp.where(batch.mask[:, 1:], d / size, alpha.dtype.type(0))[:, :, None]
    expected = moves * ((before * weight).reshape(-1, count).T @ after.reshape(-1, count))
    labelled = is_label[:, :-1] * (d * batch.mask[:, 1:])[:, :, None]
    return expected - labelled.reshape(-1, count).T @ is_label[:, 1:].reshape(-1, count).astype(alpha.dtype)


def _forward_messages(xp: Any, exps: Array, moves: Array) -> tuple[Any, Any]:
    """Forward variables of the forward-backward algorithm [sequences, time, tags]: the weight of all that
    leads to each tag, scaled to sum 1, and the sums before that. Beyond a sequence's end they mean nothing.
    """
    follow = xp.ascontiguousarray(exps.swapaxes(0, 1))
    alpha, sizes, ones = xp.empty_like(follow), xp.empty(follow.shape[:2], exps.dtype), xp.ones_like(moves[0])
    for step, message in enumerate(alpha):
        if step:
            xp.matmul(alpha[step - 1], moves[2:], out=message)
            message *= follow[step]
        else:
            xp.multiply(follow[0], moves[0], out=message)
        xp.matmul(message, ones, out=sizes[step])
        message /= sizes[step][:, None]
    return alpha.swapaxes(0, 1), sizes.T


def _backward_messages(xp: Any, batch: Batch, exps: Array, moves: Array) -> Any:
    """Backward variables of the same: the weight of all that follows each step, for each of its tags, scaled
    to sum 1.
    """
    follow, goes_on = xp.ascontiguousarray(exps.swapaxes(0, 1)), batch.mask.T[:, :, None]
    beta, ones = xp.empty_like(follow), xp.ones_like(moves[0])
    beta[:] = moves[1]
    for step in reversed(range(len(beta) - 1)):
        reached = (beta[step + 1] * follow[step + 1]) @ moves[2:].T
        reached /= (reached @ ones)[:, None]
        xp.copyto(beta[step], reached, where=goes_on[step + 1])
    return beta.swapaxes(0, 1)


crf_decoding = Op("crf_decoding", "Emission. Transition. Label? Length? -> ViterbiPath")


@crf_decoding.shape
def _(Emission: Spec, Transition: Spec, Length: Spec | None) -> Spec:
    _check_transition("crf_decoding", Emission, Transition)
    return Spec((Emission.shape[0], 1) if Length is None else Emission.shape[:2], VarType.INT64)


@crf_decoding.kernel
def _(
    xp: Any,
    Emission: Array,
    Emission_lod: Lod,
    Transition: Array,
    Label: Array | None,
    Length: Array | None,
    ctx: KernelContext,
) -> Any:
    path = _compiled_path(Emission, Emission_lod, Transition, Length, ctx) if xp is np else None
    if path is None:
        batch = Batch(xp, Emission, Emission_lod, Length)
        path = batch.unpad(_best_path(xp, batch, batch.pad(Emission), Transition))
    path = path.reshape(Emission.shape[:-1] if Length is not None else (-1, 1))
    if Label is None:
        return path
    found = (path == Label.reshape(path.shape)).astype("int64")
    return found if Length is None else Batch(xp, Emission, (), Length).unpad(found).reshape(path.shape)


def _compiled_path(
    emission: Array, lod: Lod, transition: Array, lengths: Array | None, ctx: KernelContext
) -> Array | None:
    """Viterbi's path for each row of all sequences by compiled code; None without it."""
    if ctx.searches is None:
        return None
    if lengths is None:
        offsets = level_of("crf_decoding", "Emission", lod, rows=len(emission)).offsets
        starts, ends = offsets[:-1], offsets[1:]
    else:
        starts = np.arange(len(emission)) * emission.shape[1]
        ends = starts + np.minimum(lengths.reshape(-1), emission.shape[1])
    rows = emission.reshape(-1, emission.shape[-1])
    path: Array | None = ctx.searches.best_paths(rows, starts, ends, transition)
    return path


def _best_path(xp: Any, batch: Batch, emission: Array, Transition: Array) -> Any:
    """Viterbi's path for each sequence [sequences, time]."""
    count, steps, tags = emission.shape
    ends = xp.zeros((count, steps), "int64")
    # [from, sequence, to]: the largest sum over the first dimension is one of long rows, five times as fast
    moves = xp.empty((tags, count, tags), emission.dtype)
    # the longest first: in each step those that go on are the first ones
    longest = xp.argsort(-batch.lengths)
    batch, emission = batch.take(longest), emission[longest]
    going = (-batch.lengths).searchsorted(-xp.arange(steps)).tolist()
    scores = [emission[:, 0] + Transition[0]]
    for step in range(1, steps):
        on = going[step]
        xp.add(scores[-1][:on].T[:, :, None], Transition[2:, None, :], out=moves[:, :on])
        scores.append(scores[-1].copy())
        xp.add(moves[:, :on].max(axis=0), emission[:on, step], out=scores[-1][:on])
    tag = (scores[-1] + Transition[1]).argmax(axis=1)
    # where the best path comes from is looked for along that path alone: a search for each tag would take
    # ten times as long as the largest sums do
    arriving = xp.ascontiguousarray(Transition[2:].T)
    for step in reversed(range(steps)):
        if step + 1 < steps:
            previous = (scores[step] + arriving[tag]).argmax(axis=1)
            tag = xp.where(batch.mask[:, step + 1], previous, tag)
        ends[longest, step] = tag
    return ends


# ---------------------------------------------------------------------- chunks
# scheme -> numbers of the tags that begin a chunk, are inside it, end it, and are a whole chunk; -1 for a tag
# it does not have
_SCHEMES = {"plain": (-1, -1, -1, -1), "IOB": (0, 1, -1, -1), "IOE": (-1, 0, 1, -1), "IOBES": (0, 1, 2, 3)}
_TAGS = {"plain": 1, "IOB": 2, "IOE": 2, "IOBES": 4}

chunk_eval = Op(
    "chunk_eval",
    "Inference Label SeqLength? -> Precision Recall F1-Score NumInferChunks NumLabelChunks NumCorrectChunks",
    attrs={"num_chunk_types": required(AttrType.INT), "chunk_scheme": "IOB", "excluded_chunk_types": INTS()},
    lod=None,
)


@chunk_eval.shape
def _(Inference: Spec, Label: Spec, chunk_scheme: str) -> tuple[Spec, ...]:
    if chunk_scheme not in _SCHEMES:
        raise ShapeError(
            f"op 'chunk_eval': chunk_scheme is {chunk_scheme!r}, wanted one of {', '.join(_SCHEMES)}"
        )
    known = -1 not in Inference.shape + Label.shape
    if len(Inference.shape) != len(Label.shape) or (known and Inference.shape != Label.shape):
        raise ShapeError(
            f"op 'chunk_eval': Inference{list(Inference.shape)} and Label{list(Label.shape)} must have the "
            f"same shape"
        )
    return (Spec((1,), VarType.FP32),) * 3 + (Spec((1,), VarType.INT64),) * 3


_OUTSIDE = 4  # the role of a tag of no chunk; those of others are their numbers in the scheme
_BEGINS, _ENDS = 1, 2


@cache
def _borders(scheme: str) -> Array:
    """Borders between two neighbours, by [same type, role of the first, role of the second]: where a chunk
    `_BEGINS`, or `_ENDS`, or both.
    """
    begin, inside, end, single = _SCHEMES[scheme]
    roles = np.arange(_OUTSIDE + 1)
    was, now = roles[:, None], roles
    same = np.array([False, True])[:, None, None] & (now != _OUTSIDE)
    stopped, fresh = (was == end) | (was == single), (now == begin) | (now == single)
    ends = (was != _OUTSIDE) & (~same | stopped | ((was == begin) | (was == inside)) & fresh)
    begins = (now != _OUTSIDE) & (~same | fresh | ((now == inside) | (now == end)) & stopped)
    return (_BEGINS * begins + _ENDS * ends).astype(np.int8).ravel()


@lru_cache(maxsize=16)
def _roles(scheme: str, num_chunk_types: int, count: int) -> tuple[Array, Array]:
    """The role and the type of each tag below `count`, behind those of no tag at all."""
    kind, role = np.divmod(np.arange(-1, count), _TAGS[scheme])
    kind[0] = num_chunk_types
    role[kind == num_chunk_types] = _OUTSIDE
    return role.astype(np.int8), kind


def _set_apart(lengths: Array, *tags: Array) -> Array:
    """Each array's sequences one behind the other, their tags + 1, with 0 before, between and behind them."""
    places = np.arange(1, len(tags[0]) + 1) + owners(lengths)
    apart = np.zeros((len(tags), len(tags[0]) + len(lengths) + 1), np.int64)
    for row, values in zip(apart, tags, strict=True):
        row[places] = values + 1
    return apart


def _chunk_counts(apart: Array, num_chunk_types: int, scheme: str, excluded: list[int]) -> list[int]:
    """Chunks of the first row, of the second, and those that both have."""
    role, kind = _roles(scheme, num_chunk_types, int(apart.max()))
    flat = apart.ravel()
    roles, kinds = role.take(flat, mode="clip"), kind.take(flat, mode="clip")
    code = (kinds[:-1] == kinds[1:]) * np.int8((_OUTSIDE + 1) ** 2)
    code += roles[:-1] * np.int8(_OUTSIDE + 1)
    code += roles[1:]
    found = _borders(scheme).take(code)
    begins = (found & _BEGINS) != 0
    if excluded:
        begins &= ~np.isin(kinds[1:], excluded)
    width = apart.shape[1]
    ours, theirs = begins[: width - 1], begins[width:]
    starts = np.flatnonzero(ours & theirs & (kinds[1:width] == kinds[width + 1 :]))
    stops = np.flatnonzero(found & _ENDS)
    until, wanted = (stops[stops.searchsorted(first, side="right")] for first in (starts, starts + width))
    return [int(np.count_nonzero(chunks)) for chunks in (ours, theirs, until + width == wanted)]


@chunk_eval.kernel
def _(
    xp: Any,
    Inference: Array,
    Inference_lod: Lod,
    Label: Array,
    SeqLength: Array | None,
    num_chunk_types: int,
    chunk_scheme: str,
    excluded_chunk_types: list[int],
) -> tuple[Any, ...]:
    # a metric, evaluated on the host
    tags = [host(Inference), host(Label)]
    if SeqLength is None:
        lengths = level_of("chunk_eval", "Inference", Inference_lod).lengths
    else:
        batch = Batch(np, tags[0], (), host(SeqLength))
        tags, lengths = [batch.unpadded(found) for found in tags], batch.lengths
    for slot, found in zip(("Inference", "Label"), tags, strict=True):
        # the number behind the tags of all types is that of what belongs to no chunk
        check_classes(np, "chunk_eval", slot, found, num_chunk_types * _TAGS[chunk_scheme] + 1)
    apart = _set_apart(lengths, *(found.reshape(-1) for found in tags))
    counts = _chunk_counts(apart, num_chunk_types, chunk_scheme, excluded_chunk_types)
    precision, recall = (counts[2] / max(number, 1) for number in counts[:2])
    f1 = 2 * precision * recall / (precision + recall) if counts[2] else 0.0
    return (
        *(xp.full(1, value, "float32") for value in (precision, recall, f1)),
        *(xp.full(1, count, "int64") for count in counts),
    )
