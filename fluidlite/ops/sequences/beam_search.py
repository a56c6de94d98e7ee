"""Beam search: choosing the best continuations of each source sentence's prefixes, and reading the sentences
off at the end.

Rows are prefixes. Level 0 of a level of detail says which rows belong to a source sentence; level 1, of what
a step selected, how many continuations each prefix has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import pairs
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
    """Of all continuations, in order, those that are no worse than the `beam_size`-th score."""
    if scores.size > beam_size:
        kept = np.flatnonzero(
            scores >= np.partition(scores, scores.size - beam_size)[scores.size - beam_size]
        )
        scores, rows, ids = scores[kept], rows[kept], ids[kept]
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


class _Candidates:
    """All continuations of all prefixes: of a finished prefix only its end, with the score that it has."""

    def __init__(
        self,
        pre_ids: Array,
        pre_scores: Array,
        ids: Array | None,
        scores: Array,
        end_id: int,
        is_accumulated: bool,
    ) -> None:
        self.finished, self.pre_scores = pre_ids.reshape(-1) == end_id, pre_scores.reshape(-1)
        totals = scores.reshape(len(scores), -1)
        self.width, self.end_id = totals.shape[1], end_id
        if not is_accumulated:
            with np.errstate(divide="ignore"):
                totals = self.pre_scores[:, None] + np.log(totals)
        self.totals = np.where(self.finished[:, None], self.pre_scores[:, None], totals)
        chosen = (
            np.broadcast_to(np.arange(self.width), totals.shape) if ids is None else ids.reshape(totals.shape)
        )
        self.ids = np.where(self.finished[:, None], end_id, chosen)
        self.offered = ~self.finished[:, None] | (np.arange(self.width) == 0)

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

    def best_of_all(self, offsets: Array, beam_size: int) -> tuple[Array, Array, Array] | None:
        """Rows, ids and scores of the best of all sources, in order of rows, found for all sources at once.

        None where the order of equal continuations of one prefix matters, or scores are not finite.
        """
        if not np.isfinite(self.totals).all():
            return None
        sources, sizes = len(offsets) - 1, np.diff(offsets)
        rows, width = int(sizes.max(initial=0)), self.width
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
        row, ids, best = row[found], ids[found], best[found]
        order = np.argsort(row, kind="stable")
        return row[order], ids[order], best[order]

    def best_of_each(self, offsets: Array, beam_size: int) -> tuple[Array, Array, Array]:
        """As `best_of_all`, source by source and continuation by continuation, in Paddle's order."""
        selected: list[_Continuation] = []
        for first, end in pairs(offsets):
            items = self.best(first, end, beam_size)
            if not self.over(items):
                selected += sorted(items, key=lambda item: item.row)
        rows = np.array([item.row for item in selected], np.int64)
        ids = np.array([item.id for item in selected], np.int64)
        return rows, ids, np.array([item.score for item in selected], self.totals.dtype)

    def over(self, items: list[_Continuation]) -> bool:
        """True if all that was selected had ended before: the sentence is then dropped."""
        return all(item.id == self.end_id and self.finished[item.row] for item in items)


@beam_search.kernel
def _(
    xp: Any,
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
    candidates = _Candidates(
        host(pre_ids),
        host(pre_scores),
        None if ids is None else host(ids),
        host(scores),
        end_id,
        is_accumulated,
    )
    selected = candidates.best_of_all(offsets, beam_size) or candidates.best_of_each(offsets, beam_size)
    rows = selected[0].astype(np.int32)
    lod = tuple(offsets.tolist()), tuple(np.searchsorted(rows, np.arange(len(scores) + 1)).tolist())
    chosen = xp.asarray(selected[1].astype(np.int64).reshape(-1, 1))
    totals = xp.asarray(selected[2].astype(scores.dtype).reshape(-1, 1))
    return WithLod(chosen, lod), WithLod(totals, lod), xp.asarray(rows)


# ---------------------------------------------------------------------- the sentences
decode = Op(
    "beam_search_decode",
    "Ids Scores -> SentenceIds SentenceScores",
    lod=None,
    dynamic=True,
    attrs={"beam_size": required(AttrType.INT), "end_id": required(AttrType.INT)},
)


@decode.shape
def _(Ids: Spec, Scores: Spec) -> tuple[Spec, Spec]:
    return Spec((-1,), VarType.INT64), Spec((-1,), Scores.dtype)


class _Sentences:
    """The sentences of one source, walked back from their last words; later words come first."""

    def __init__(self, end_id: int) -> None:
        self.end_id = end_id
        self.rows: Any = None  # the row of each sentence's word in the step that comes next
        self.started = np.zeros(0, bool)
        self.words: list[tuple[Array, Array, Array]] = []

    def walk(self, ids: Array, scores: Array, first: int, end: int, continuations: Array) -> None:
        """Take the words of one step, whose prefixes [first, end) belong to this source."""
        if self.rows is None or not len(self.rows):
            self.rows = np.arange(continuations[first], continuations[end])
            self.started = np.zeros(len(self.rows), bool)
            self.words = []
        words = ids[self.rows]
        kept = (words != self.end_id) | ~self.started  # of several ends only the first
        self.words.append((words, scores[self.rows], kept))
        self.started |= kept
        self.rows = np.searchsorted(continuations, self.rows, side="right") - 1

    def read(self, beam_size: int) -> tuple[Array, Array, list[int]]:
        """Words and scores of all sentences, the best first, and their lengths; there are `beam_size` of
        them, some maybe empty.
        """
        if not self.words:
            return np.zeros(0, np.int64), np.zeros(0, np.float32), [0] * beam_size
        words, scores, kept = (np.stack(part[::-1]).T for part in zip(*self.words, strict=True))
        order = np.argsort(-scores[:, -1], kind="stable")
        words, scores, kept = words[order], scores[order], kept[order]
        lengths = kept.sum(axis=1).tolist()
        return words[kept], scores[kept], lengths + [0] * (beam_size - len(lengths))


@decode.kernel
def _(
    xp: Any, Ids: LoDTensorArray, Scores: LoDTensorArray, beam_size: int, end_id: int
) -> tuple[WithLod, WithLod]:
    if not Ids or len(Ids) != len(Scores):
        raise EnforceNotMet(
            f"op 'beam_search_decode': Ids has {len(Ids)} steps and Scores {len(Scores)}, wanted the same "
            f"number, at least 1"
        )
    sources = [_Sentences(end_id) for _ in Ids[0]._lod[0][1:]]
    for step, (tensor, total) in enumerate(zip(reversed(Ids), reversed(Scores), strict=True)):
        if len(tensor._lod) != 2:
            raise ShapeError(
                f"op 'beam_search_decode': entry {len(Ids) - 1 - step} of Ids has {len(tensor._lod)} levels "
                f"of detail, wanted 2"
            )
        ids, scores, continuations = (
            host(tensor.array).reshape(-1),
            host(total.array).reshape(-1),
            np.asarray(tensor._lod[1]),
        )
        for sentences, (first, end) in zip(sources, pairs(np.asarray(tensor._lod[0])), strict=True):
            sentences.walk(ids, scores, first, end, continuations)
    found = [sentences.read(beam_size) for sentences in sources]
    lengths = [length for part in found for length in part[2]]
    sizes = [len(part[2]) for part in found]
    lod = tuple(np.cumsum([0, *sizes]).tolist()), tuple(np.cumsum([0, *lengths]).tolist())
    words = np.concatenate([part[0] for part in found])
    totals = np.concatenate([part[1] for part in found])
    return WithLod(xp.asarray(words), lod), WithLod(xp.asarray(totals), lod)
