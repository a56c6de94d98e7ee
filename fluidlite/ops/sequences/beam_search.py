"""Beam search: choosing the best continuations of each source sentence's prefixes, and reading the sentences
off at the end.

Rows are prefixes. Level 0 of a level of detail says which rows belong to a source sentence; level 1, of what
a step selected, how many continuations each prefix has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import AttrType, KernelContext, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import lengths_lod, lengths_of, owners, pairs, spans
from fluidlite.values.tensor import LoDTensorArray, host

beam_search = Op(
    "beam_search",
    "pre_ids pre_scores ids? scores -> selected_ids selected_scores parent_idx?",
    lod=None,
    dynamic=True,
    attrs={
        "level": required(AttrType.INT),
        "beam_size": required(AttrType.INT),
        "end_id": required(AttrType.INT),
        "is_accumulated": True,
    },
    makes_lod=True,
)


@beam_search.shape
def _(pre_ids: Spec, pre_scores: Spec, scores: Spec) -> tuple[Spec, Spec, Spec]:
    return Spec((-1, 1), VarType.INT64), Spec((-1, 1), scores.dtype), Spec((-1,), VarType.INT32)


class _Continuation(NamedTuple):
    """A continuation; of two with the same score that of the later prefix ranks higher."""

    score: float
    row: int
    id: int

    @property
    def rank(self) -> tuple[float, int]:
        """Sort key of a continuation."""
        return self.score, self.row


def _best(items: Iterable[_Continuation], beam_size: int) -> list[_Continuation]:
    """The best `beam_size`, best first; of equal ones at the end of a full beam the last stays, as in
    PaddlePaddle.
    """
    beam: list[_Continuation] = []
    for item in items:
        if len(beam) == beam_size:
            if item.rank < beam[-1].rank:
                continue
            beam.pop()
        place = len(beam)
        while place and beam[place - 1].rank < item.rank:
            place -= 1
        beam.insert(place, item)
    return beam


def _promising(scores: Array, rows: Array, ids: Array, beam_size: int) -> list[_Continuation]:
    """Of all continuations, in order, those that are no worse than the `beam_size`-th score; of a nan
    among them nothing can be said.
    """
    if scores.size > beam_size and not np.isnan(scores).any():
        kept = np.flatnonzero(
            scores >= np.partition(scores, scores.size - beam_size)[scores.size - beam_size]
        )
        scores = scores[kept]
        rows = rows[kept]
        ids = ids[kept]
    return [
        _Continuation(*triple) for triple in zip(scores.tolist(), rows.tolist(), ids.tolist(), strict=True)
    ]


def _source_rows(lod: Lod, level: int, rows: int) -> Array:
    """Offsets of the source sentences in rows."""
    if not 0 <= level < len(lod):
        raise ShapeError(
            f"op 'beam_search': scores has {len(lod)} levels of detail, but level {level} is asked for"
        )
    offsets = np.asarray(lod[level], np.int64)
    for finer in lod[level + 1 :]:
        offsets = np.asarray(finer, np.int64)[offsets]
    if offsets[-1] != rows:
        raise ShapeError(
            f"op 'beam_search': the level of detail of scores covers {offsets[-1]} rows, but scores has "
            f"{rows}"
        )
    return offsets


_Best: TypeAlias = "tuple[Array, Array, Array, Array]"


class _Candidates:
    """All continuations of all prefixes: of a finished prefix only its end, with the score that it has.

    The best of them are rows, ids and scores, in order of rows, and before each row how many there are.
    """

    def __init__(
        self,
        pre_ids: Array,
        pre_scores: Array,
        ids: Array | None,
        scores: Array,
        end_id: int,
        is_accumulated: bool,
    ) -> None:
        self.words = pre_ids.reshape(-1)
        self.before = pre_scores.reshape(-1)
        self.end_id = end_id
        self.reached = scores.reshape(len(scores), math.prod(scores.shape[1:]))
        if not is_accumulated:
            with np.errstate(divide="ignore"):
                self.reached = self.before[:, None] + np.log(self.reached)
        self.width = self.reached.shape[1]
        self.given = None if ids is None else ids.reshape(self.reached.shape)

    @cached_property
    def finished(self) -> Array:
        """Which prefixes have ended."""
        return self.words == self.end_id

    @cached_property
    def totals(self) -> Array:
        """Scores [rows, width]."""
        return np.where(self.finished[:, None], self.before[:, None], self.reached)

    @cached_property
    def ids(self) -> Array:
        """Words [rows, width]."""
        given = np.arange(self.width) if self.given is None else self.given
        return np.where(self.finished[:, None], self.end_id, given)

    @cached_property
    def offered(self) -> Array:
        """Which of all [rows, width] there are."""
        return ~self.finished[:, None] | (np.arange(self.width) == 0)

    def compiled_best(self, ctx: KernelContext, offsets: Array, beam_size: int) -> _Best | None:
        """The best of all sources by compiled code, where there is some."""
        if ctx.searches is None:
            return None
        found: _Best | None = ctx.searches.best_continuations(
            offsets, self.words, self.before, self.given, self.reached, beam_size, self.end_id
        )
        return found

    def best(self, first: int, end: int, beam_size: int) -> list[_Continuation]:
        """The best of rows [first, end)."""
        offered = self.offered[first:end]
        rows = np.broadcast_to(np.arange(first, end)[:, None], offered.shape)
        return _best(
            _promising(
                self.totals[first:end][offered], rows[offered], self.ids[first:end][offered], beam_size
            ),
            beam_size,
        )

    def best_of_all(self, offsets: Array, beam_size: int) -> _Best | None:
        """The best of all sources, found for all at once.

        None where the order of equal continuations of one prefix matters, or scores are not finite.
        """
        # one source after the other takes as long for some thirty continuations
        if self.reached.size < 32 or not np.isfinite(self.totals).all():
            return None
        sources = len(offsets) - 1
        sizes = np.diff(offsets)
        rows = int(sizes.max(initial=0))
        width = self.width
        # a later prefix ranks higher, and the first of equal numbers is found first: the last row comes first
        ranks = np.full((sources, rows, width), -np.inf, self.totals.dtype)
        source = np.repeat(np.arange(sources), sizes)
        back = offsets[1:][source] - 1 - np.arange(len(source))
        ranks[source, back] = np.where(self.offered, self.totals, -np.inf)
        flat = ranks.reshape(sources, -1)
        each = np.arange(sources)
        places = np.empty((sources, min(beam_size, flat.shape[1])), np.int64)
        best = np.empty(places.shape, flat.dtype)
        for number in range(places.shape[1]):
            place = places[:, number] = flat.argmax(axis=1)
            best[:, number] = flat[each, place]
            flat[each, place] = -np.inf
        found = best > -np.inf
        left = ranks[each, places[:, -1] // width] == best[:, -1:]
        if (left & found[:, -1:]).any():
            return None
        row = offsets[1:, None] - 1 - places // width
        row[~found] = 0
        ids = self.ids[row, places % width]
        found &= ~((ids == self.end_id) & self.finished[row] | ~found).all(axis=1)[:, None]
        row = row[found]
        ids = ids[found]
        best = best[found]
        order = np.argsort(row, kind="stable")
        return self._counted(row[order], ids[order], best[order])

    def best_of_each(self, offsets: Array, beam_size: int) -> _Best:
        """As `best_of_all`, source by source and continuation by continuation, in Paddle's order."""
        selected: list[_Continuation] = []
        for first, end in pairs(offsets):
            items = self.best(first, end, beam_size)
            if not self.over(items):
                selected += sorted(items, key=lambda item: item.row)
        rows = np.array([item.row for item in selected], np.int64)
        ids = np.array([item.id for item in selected], np.int64)
        return self._counted(rows, ids, np.array([item.score for item in selected], self.totals.dtype))

    def _counted(self, rows: Array, ids: Array, scores: Array) -> _Best:
        return rows, ids, scores, np.searchsorted(rows, np.arange(len(self.words) + 1))

    def over(self, items: list[_Continuation]) -> bool:
        """True if all that was selected had ended before: the sentence is then dropped."""
        return all(item.id == self.end_id and self.finished[item.row] for item in items)


@beam_search.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    pre_ids: Array,
    pre_scores: Array,
    ids: Array | None,
    scores: Array,
    scores_lod: Lod,
    level: int,
    beam_size: int,
    end_id: int,
    is_accumulated: bool,
) -> tuple[WithLod, WithLod, Any]:
    offsets = _source_rows(scores_lod, level, len(scores))
    given = None if ids is None else host(ids)
    candidates = _Candidates(host(pre_ids), host(pre_scores), given, host(scores), end_id, is_accumulated)
    rows, chosen, totals, counts = (
        candidates.compiled_best(ctx, offsets, beam_size)
        or candidates.best_of_all(offsets, beam_size)
        or candidates.best_of_each(offsets, beam_size)
    )
    lod = tuple(offsets.tolist()), tuple(counts.tolist())
    return (
        WithLod(xp.asarray(chosen.astype(np.int64, copy=False).reshape(-1, 1)), lod),
        WithLod(xp.asarray(totals.astype(scores.dtype, copy=False).reshape(-1, 1)), lod),
        xp.asarray(rows.astype(np.int32)),
    )


# ---------------------------------------------------------------------- the sentences
decode = Op(
    "beam_search_decode",
    "Ids Scores -> SentenceIds SentenceScores",
    lod=None,
    dynamic=True,
    attrs={"beam_size": required(AttrType.INT), "end_id": required(AttrType.INT)},
    makes_lod=True,
)


@decode.shape
def _(Ids: Spec, Scores: Spec) -> tuple[Spec, Spec]:
    return Spec((-1,), VarType.INT64), Spec((-1,), Scores.dtype)


class _Sentences:
    """The sentences of all sources, walked back from their last words; later words come first.

    A sentence begins with the last step that has prefixes of its source: those of sources that were through
    earlier come later.
    """

    def __init__(self, end_id: int, sources: int) -> None:
        self.end_id = end_id
        self.has_sentences = np.zeros(sources, bool)
        self.source = self.rows = np.zeros(0, np.int64)
        """For each sentence its source, and the row of its word in the step that comes next."""
        self.started = np.zeros(0, bool)
        self.words: list[tuple[Array, Array, Array]] = []

    def walk(self, ids: Array, scores: Array, prefixes: Array, continuations: Array) -> None:
        """Take the words of one step, whose prefixes [prefixes[i], prefixes[i + 1]) belong to source i."""
        if not self.has_sentences.all():
            self._begin(continuations[prefixes])
        words = ids[self.rows]
        kept = (words != self.end_id) | ~self.started  # of several ends only the first
        self.words.append((words, scores[self.rows], kept))
        self.started = self.started | kept
        self.rows = continuations.searchsorted(self.rows, side="right") - 1

    def _begin(self, bounds: Array) -> None:
        """Begin the sentences of sources that have none yet, with the words that they have here."""
        lengths = lengths_of(bounds)
        lengths[self.has_sentences] = 0
        self.has_sentences = self.has_sentences | (lengths > 0)
        self.source = np.concatenate((self.source, owners(lengths)))
        self.rows = np.concatenate((self.rows, spans(bounds[:-1], lengths)))
        self.started = np.concatenate((self.started, np.zeros(len(self.rows) - len(self.started), bool)))

    def read(self, beam_size: int, dtype: Any) -> tuple[Array, Array, Lod]:
        """Words and scores of all sentences, the best of each source first, and their level of detail; a
        source has `beam_size` of them, some maybe empty.
        """
        shape = len(self.words), len(self.rows)
        words = np.zeros(shape, np.int64)
        scores = np.zeros(shape, dtype)
        kept = np.zeros(shape, bool)
        final = np.zeros(shape[1], dtype)
        for step, (word, score, is_kept) in enumerate(reversed(self.words)):
            count = len(word)
            words[step, :count], scores[step, :count], kept[step, :count] = word, score, is_kept
            # that of the word which was taken first is written last
            final[:count] = score
        order = np.lexsort((-final, self.source))
        words, scores, kept = (each.T[order] for each in (words, scores, kept))
        counts = np.bincount(self.source, minlength=len(self.has_sentences))
        sizes = np.maximum(counts, beam_size)
        lengths = np.zeros(sizes.sum(), np.int64)
        lengths[spans(np.cumsum(sizes) - sizes, counts)] = np.count_nonzero(kept, axis=1)
        return words[kept], scores[kept], lengths_lod(sizes) + lengths_lod(lengths)


@decode.kernel
def _(
    xp: Any, Ids: LoDTensorArray, Scores: LoDTensorArray, beam_size: int, end_id: int
) -> tuple[WithLod, WithLod]:
    if not Ids or len(Ids) != len(Scores):
        raise EnforceNotMet(
            f"op 'beam_search_decode': Ids has {len(Ids)} steps and Scores {len(Scores)}, wanted the same "
            f"number, at least 1"
        )
    sentences = _Sentences(end_id, len(Ids[0]._lod[0]) - 1)
    for step, (tensor, total) in enumerate(zip(reversed(Ids), reversed(Scores), strict=True)):
        if len(tensor._lod) != 2:
            raise ShapeError(
                f"op 'beam_search_decode': entry {len(Ids) - 1 - step} of Ids has {len(tensor._lod)} levels "
                f"of detail, wanted 2"
            )
        ids, scores = (host(item.array).reshape(-1) for item in (tensor, total))
        sentences.walk(ids, scores, *map(np.asarray, tensor._lod))
    words, totals, lod = sentences.read(beam_size, scores.dtype)
    return WithLod(xp.asarray(words), lod), WithLod(xp.asarray(totals), lod)
