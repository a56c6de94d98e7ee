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
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import INTS, AttrType, KernelContext, Lod, Op, Spec, required
from fluidlite.ops.kernels.numbers import check_classes, check_lengths
from fluidlite.ops.kernels.padding import Batch, check_level
from fluidlite.ops.kernels.sequence_rows import level_of, owners, sum_runs, take_rows
from fluidlite.values.tensor import host


def _check_transition(type: str, Emission: Spec, Transition: Spec, Length: Spec | None) -> None:
    if len(Emission.shape) == 3 and Length is None:
        raise ShapeError(
            f"op {type!r}: Emission{list(Emission.shape)} is padded, [sequences, steps, tags], but "
            "Length is missing: give the lengths of the sequences"
        )
    if len(Emission.shape) != 3 and Length is not None:
        raise ShapeError(
            f"op {type!r}: Emission{list(Emission.shape)} with Length must be [sequences, steps, tags]"
        )
    tags = Emission.shape[-1]
    if (
        len(Transition.shape) != 2
        or not fits(Transition.shape[0], Transition.shape[1] + 2)
        or not fits(tags, Transition.shape[1], Transition.shape[0] - 2)
    ):
        raise ShapeError(
            f"op {type!r}: Transition has the shape {list(Transition.shape)}, wanted {[tags + 2, tags]} "
            f"for Emission{list(Emission.shape)}"
        )


linear_chain_crf = Op(
    "linear_chain_crf",
    "Emission. Transition. Label Length? -> Alpha EmissionExps TransitionExps LogLikelihood",
    lod=None,
    below={"Label": ("Emission", -1)},
    alike=("Emission", "Transition"),
)


@linear_chain_crf.shape
def _(Emission: Spec, Transition: Spec, Length: Spec | None) -> tuple[Spec, Spec, Spec, Spec]:
    _check_transition("linear_chain_crf", Emission, Transition, Length)
    rows = Emission.shape[0] if Length is not None else -1
    like = Emission.with_shape(Emission.shape)
    return like, like, Transition.with_shape(Transition.shape), Emission.with_shape((rows, 1))


class _Chains:
    """The rows of all sequences, one behind the other. Of padded ones, rows beyond an end count for nothing.

    The arrays are on the host for a level of detail, and where the lengths are otherwise.
    """

    def __init__(self, xp: Any, Emission: Array, lod: Lod, Length: Array | None) -> None:
        self.xp, self.inside, self.level = xp, None, None
        if Length is None:
            check_level("linear_chain_crf", "Emission", lod, len(Emission), "Length")
            self.level = level_of("linear_chain_crf", "Emission", lod)
            self.lengths, self.starts = self.level.lengths, self.level.offsets[:-1]
            self.goes_on = xp.ones(len(Emission), bool)
            self.goes_on[xp.asarray(self.level.offsets[1:] - 1)] = False
        else:
            count, steps = Emission.shape[:2]
            check_lengths(xp, "linear_chain_crf", "Length", Length, count, steps)
            self.lengths, self.starts = Length.reshape(-1).clip(0, steps), xp.arange(count) * steps
            self.inside = (xp.arange(steps) < self.lengths[:, None]).reshape(-1)
            self.goes_on = (xp.arange(1, steps + 1) < self.lengths[:, None]).reshape(-1)
        # of an empty sequence any row will do
        most = max(len(self.goes_on) - 1, 0)
        self.firsts = xp.asarray(self.starts.clip(0, most))
        self.lasts = xp.asarray((self.starts + self.lengths - 1).clip(0, most))

    def sums(self, numbers: Array) -> Any:
        """The sum of each sequence's numbers."""
        if self.level is not None:
            return sum_runs(self.xp, numbers, self.level.offsets)
        kept = self.xp.where(self.inside, numbers, numbers.dtype.type(0))
        return kept.reshape(len(self.lengths), -1).sum(axis=1)

    def of_rows(self, numbers: Array) -> Any:
        """A sequence's number for each of its rows, 0 for those beyond its end."""
        if self.level is not None:
            return take_rows(self.xp, numbers, self.level.owners)
        return numbers.repeat(len(self.goes_on) // max(len(numbers), 1)) * self.inside

    def kept(self, rows: Array) -> Any:
        """Rows, with zeros beyond the ends."""
        return rows if self.inside is None else self.xp.where(self.inside[:, None], rows, rows.dtype.type(0))

    def messages(
        self, ctx: KernelContext, exps: Array, first: Array, moves: Array, is_back: bool = False
    ) -> tuple[Any, Any]:
        """Messages of the forward-backward algorithm for each row: `exps` times what `moves` make of the
        message of the row before, or of `first` at the beginning, scaled to sum 1; and the sums before that.
        Backwards they go from the ends to the first rows. Beyond a sequence's end they mean nothing.
        """
        found: tuple[Array, Array] | None = None
        if ctx.searches is not None and self.xp is np:
            starts = self.starts + self.lengths - 1 if is_back else self.starts
            found = ctx.searches.messages(exps, first, moves, starts, self.lengths, -1 if is_back else 1)
        return self._step_by_step(exps, first, moves, is_back) if found is None else found

    def _step_by_step(self, exps: Array, first: Array, moves: Array, is_back: bool) -> tuple[Any, Any]:
        xp, count = self.xp, len(self.lengths)
        steps = len(exps) // max(count, 1) if self.level is None else int(self.lengths.max(initial=0))
        turns = xp.arange(steps)[::-1, None] if is_back else xp.arange(steps)[:, None]
        rows = (xp.asarray(self.starts) + turns).clip(0, max(len(exps) - 1, 0))
        goes_on = self.goes_on[rows] if is_back else None
        follow, ones = exps[rows], xp.ones_like(first)
        message = first * follow
        sizes = xp.empty((steps, count), exps.dtype)
        for step in range(steps):
            if step:
                reached = message[step - 1] @ moves
                reached *= follow[step]
                xp.copyto(message[step], reached, where=True if goes_on is None else goes_on[step, :, None])
            xp.matmul(message[step], ones, out=sizes[step])
            message[step] /= sizes[step][:, None]
        places = (turns < xp.asarray(self.lengths)).nonzero()
        messages = xp.ones_like(exps)
        totals = xp.ones_like(exps[:, 0])
        messages[rows[places]], totals[rows[places]] = message[places], sizes[places]
        return messages, totals


def _checked_labels(xp: Any, chains: _Chains, Label: Array, lod: Lod, tags: int) -> Any:
    """The tag of each row, 0 beyond the ends."""
    labels = Label.reshape(-1)
    if len(labels) != len(chains.goes_on):
        raise ShapeError(
            f"op 'linear_chain_crf': Label has {len(labels)} tags, but Emission {len(chains.goes_on)} rows"
        )
    if chains.level is not None and lod and tuple(lod[-1]) != tuple(chains.level.offsets.tolist()):
        raise ShapeError(
            f"op 'linear_chain_crf': the level of detail of Label is {list(lod[-1])}, but that of Emission "
            f"{chains.level.offsets.tolist()}"
        )
    if chains.inside is not None:
        labels = xp.where(chains.inside, labels, 0)
    check_classes(xp, "linear_chain_crf", "Label", labels, tags)
    return labels


def _path_scores(xp: Any, chains: _Chains, emission: Array, labels: Array, Transition: Array) -> Any:
    """The terms of the rows in the score of their sequences' own tags."""
    tags = emission.shape[1]
    own = emission.reshape(-1).take(xp.arange(0, emission.size, tags) + labels)
    moves = Transition[2:].reshape(-1).take(labels[:-1] * tags + labels[1:])
    own[1:] += moves * chains.goes_on[:-1]
    return own


def _column_maxima(rows: Array) -> Any:
    """The largest element of each row, by columns where they are few: a third of the time for nine."""
    return rows.max(axis=1) if rows.shape[1] > _FEW_TAGS else rows.T.copy().max(axis=0)


_FEW_TAGS = 32


@linear_chain_crf.kernel
def _(
    xp: Any,
    Emission: Array,
    Emission_lod: Lod,
    Transition: Array,
    Label: Array,
    Label_lod: Lod,
    Length: Array | None,
    ctx: KernelContext,
) -> tuple[Any, ...]:
    chains = _Chains(xp, Emission, Emission_lod, Length)
    tags = Emission.shape[-1]
    emission = Emission.reshape(-1, tags)
    labels = _checked_labels(xp, chains, Label, Label_lod, tags)
    top = _column_maxima(emission)
    moves = xp.exp(Transition)
    exps = xp.exp(emission - top[:, None])
    alpha, sizes = chains.messages(ctx, exps, moves[0], moves[2:])
    cost = chains.sums(xp.log(sizes) + top - _path_scores(xp, chains, emission, labels, Transition))
    if len(alpha):
        ends = Transition[0][labels[chains.firsts]] + Transition[1][labels[chains.lasts]]
        cost = cost + xp.log(alpha[chains.lasts] @ moves[1]) - ends
    # an empty sequence costs nothing
    cost = xp.where(xp.asarray(chains.lengths) > 0, cost, Emission.dtype.type(0))
    alpha, exps = (found.reshape(Emission.shape) for found in (chains.kept(alpha), exps))
    return alpha, exps, moves, cost[:, None].astype(Emission.dtype)


@linear_chain_crf.grad("Emission Transition")
def _(
    xp: Any,
    Emission: Array,
    Emission_lod: Lod,
    Transition: Array,
    Label: Array,
    Label_lod: Lod,
    Length: Array | None,
    Alpha: Array,
    EmissionExps: Array,
    TransitionExps: Array,
    dLogLikelihood: Array,
    ctx: KernelContext,
) -> tuple[Any, Any]:
    chains, tags = _Chains(xp, Emission, Emission_lod, Length), Emission.shape[-1]
    alpha, exps = (array.reshape(-1, tags) for array in (Alpha, EmissionExps))
    if not len(alpha):
        return xp.zeros_like(Emission), xp.zeros_like(Transition)
    labels = _checked_labels(xp, chains, Label, Label_lod, tags)
    moves = TransitionExps[2:]
    # with the row's own weight, as the one before it wants what follows
    beta, _ = chains.messages(ctx, exps, TransitionExps[1], moves.T, is_back=True)
    # the weight of what follows each row, for each of its tags
    follow = xp.empty_like(alpha)
    xp.matmul(beta[1:], moves.T, out=follow[:-1])
    follow[chains.lasts] = TransitionExps[1]
    follow *= alpha
    size, d = follow @ xp.ones_like(moves[0]), chains.of_rows(dLogLikelihood.reshape(-1))
    if chains.inside is not None:
        size = xp.where(chains.inside, size, size.dtype.type(1))
    wrong = follow / size[:, None]
    wrong.reshape(-1)[xp.arange(0, wrong.size, tags) + labels] -= 1
    wrong *= d[:, None]
    wrong = chains.kept(wrong)
    filled = xp.asarray(chains.lengths > 0)[:, None]
    ends = [(wrong[places] * filled).sum(axis=0) for places in (chains.firsts, chains.lasts)]
    weight = xp.where(chains.goes_on[:-1], d[:-1] / size[:-1], alpha.dtype.type(0))
    pairs = moves * ((alpha[:-1] * weight[:, None]).T @ beta[1:])
    pairs -= _labelled_pairs(xp, chains, labels, d, tags)
    return wrong.reshape(Emission.shape), xp.concatenate((xp.stack(ends), pairs)).astype(Transition.dtype)


def _labelled_pairs(xp: Any, chains: _Chains, labels: Array, d: Array, tags: int) -> Any:
    """The numbers of moves from tag to tag in the labels, each counted with its sequence's weight."""
    moves = labels[:-1] * tags + labels[1:]
    weights = chains.goes_on[:-1] * d[:-1]
    counts = xp.bincount(moves, weights, tags * tags)
    return counts.reshape(tags, tags).astype(d.dtype)


def _are_labels(shape: tuple[int, ...], padded: bool) -> bool:
    """True for [rows] or [rows, 1], and for [sequences, steps] or [sequences, steps, 1] of padded ones."""
    rank = len(shape) - padded
    return rank == 1 or (rank == 2 and fits(shape[-1:], (1,)))


crf_decoding = Op("crf_decoding", "Emission. Transition. Label? Length? -> ViterbiPath")


@crf_decoding.shape
def _(Emission: Spec, Transition: Spec, Label: Spec | None, Length: Spec | None) -> Spec:
    _check_transition("crf_decoding", Emission, Transition, Length)
    if Label is not None and not _are_labels(Label.shape, padded=Length is not None):
        raise ShapeError(
            f"op 'crf_decoding': Label has the shape {list(Label.shape)}, wanted one number for each of "
            f"Emission{list(Emission.shape)}"
        )
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
        batch = Batch(xp, Emission, Emission_lod, Length, "crf_decoding", "Emission")
        path = batch.unpad(_best_path(xp, batch, batch.pad(Emission), Transition))
    path = path.reshape(Emission.shape[:-1] if Length is not None else (-1, 1))
    if Label is None:
        return path
    found = (path == Label.reshape(path.shape)).astype("int64")
    if Length is None:
        return found
    batch = Batch(xp, Emission, (), Length, "crf_decoding", "Emission")
    return batch.unpad(found).reshape(path.shape)


def _compiled_path(
    emission: Array, lod: Lod, transition: Array, lengths: Array | None, ctx: KernelContext
) -> Array | None:
    """Viterbi's path for each row of all sequences by compiled code; None without it."""
    if ctx.searches is None:
        return None
    if lengths is None:
        check_level("crf_decoding", "Emission", lod, len(emission), "Length")
        offsets = level_of("crf_decoding", "Emission", lod).offsets
        starts, ends = offsets[:-1], offsets[1:]
    else:
        check_lengths(np, "crf_decoding", "Length", lengths, *emission.shape[:2])
        starts = np.arange(len(emission)) * emission.shape[1]
        ends = starts + lengths.reshape(-1)
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
    stopped = (was == end) | (was == single)
    fresh = (now == begin) | (now == single)
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
    roles = role.take(flat, mode="clip")
    kinds = kind.take(flat, mode="clip")
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
        batch = Batch(np, tags[0], (), host(SeqLength), "chunk_eval", "Inference", "SeqLength")
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
