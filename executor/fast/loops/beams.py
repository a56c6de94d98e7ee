"""The best continuations of the prefixes of each source, as `beam_search` chooses them: text for LLVM.

A continuation is offered to the beam of its source, in which the best come first, and goes up past those that
are worse; of two with one score that of the later prefix is better.
"""

from __future__ import annotations

from fluidlite.executor.fast.loops.routine import Routine, Scalar

__all__ = ["write_best_continuations"]

_KEPT, _CHOSEN, _GOES_ON, _IS_ODD = range(4)  # places in `State`
_BEAM = (("%Scores", "float"), ("%Rows", "i64"), ("%Words", "i64"))  # what is known of a continuation


def write_best_continuations(a: Routine) -> None:
    """The function over sources; `State` has room for the numbers of continuations in the beam and of those
    that were chosen so far, and for two signs: that a source goes on, that a score is no number.
    """
    given = ["Offsets", "Before", "Reached", "Ids", "Totals", "has_ids", "width", "most", "end_id"]
    a.arguments([*given, "State", "Scores", "Rows", "Words", "OutRows", "OutIds", "OutScores", "Counts"])
    width = a.integer("width")
    end_id = a.integer("end_id")
    has_ids = a.integer("has_ids")
    with a.loop(a.integer("first"), a.integer("last")) as source:
        start, end = (a.entry("%Offsets", source.index + side) for side in (0, 1))
        a.put(0, "%State", _KEPT)
        with a.loop(start, end) as row:
            is_over = a.entry("%Before", row.index).compare("eq", end_id)
            reached = a.entry("%Reached", row.index, "float")
            with a.loop(0, a.pick(is_over, 1, width)) as number:
                place = row.index * width + number.index
                total = a.entry("%Totals", place, "float")
                score = a.pick(is_over, reached, total)
                is_given = has_ids.compare("ne", 0)
                given_id = a.entry("%Ids", place * has_ids)
                word = a.pick(is_given, given_id, number.index)
                word = a.pick(is_over, end_id, word)
                _write_offer(a, [score, row.index, word])
        _write_choice(a, start, end)


def _entries(a: Routine, place: Scalar) -> list[Scalar]:
    """The score, the row and the word at a place of the beam."""
    return [a.entry(base, place, kind) for base, kind in _BEAM]


def _put(a: Routine, item: list[Scalar], place: Scalar) -> None:
    for (base, _), value in zip(_BEAM, item, strict=True):
        a.put(value, base, place)


def _is_worse(a: Routine, one: list[Scalar], other: list[Scalar]) -> Scalar:
    """True if a continuation ranks below another."""
    score, row, _ = one
    other_score, other_row, _ = other
    is_equal = score.compare("oeq", other_score)
    is_above = row.compare("slt", other_row)
    is_before = a.let(f"and i1 {is_equal}, {is_above}", "i1")
    is_less = score.compare("olt", other_score)
    return a.let(f"or i1 {is_less}, {is_before}", "i1")


def _write_offer(a: Routine, item: list[Scalar]) -> None:
    """Put a continuation where it belongs; of a full beam the last one leaves.

    The beam begins at entry 1. One that is worse than all of a full beam goes behind its end.
    """
    score = item[0]
    is_number = score.compare("ord", score)
    is_odd = a.entry("%State", _IS_ODD)
    a.put(a.pick(is_number, is_odd, 1), "%State", _IS_ODD)
    kept = a.entry("%State", _KEPT)
    is_full = kept.compare("eq", a.integer("most"))
    is_last = _is_worse(a, item, _entries(a, kept))
    is_out = a.let(f"and i1 {is_full}, {is_last}", "i1")
    count = a.pick(is_full, kept, kept + 1)
    _put(a, item, count + is_out.counted())
    with a.loop(0, a.pick(is_out, 0, count - 1)) as step:
        here = count - step.index
        upper = _entries(a, here - 1)
        lower = _entries(a, here)
        is_better = _is_worse(a, upper, item)
        above = here - 1
        _put(a, _picked(a, is_better, item, upper), above)
        _put(a, _picked(a, is_better, upper, lower), here)
    a.put(count, "%State", _KEPT)


def _picked(a: Routine, condition: Scalar, yes: list[Scalar], no: list[Scalar]) -> list[Scalar]:
    """One of two continuations."""
    return [a.pick(condition, *pair) for pair in zip(yes, no, strict=True)]


def _write_choice(a: Routine, start: Scalar, end: Scalar) -> None:
    """Write the beam of a source in the order of its rows, unless all of it had ended before."""
    kept = a.entry("%State", _KEPT)
    end_id = a.integer("end_id")
    a.put(0, "%State", _GOES_ON)
    with a.loop(1, kept + 1) as item:
        _, row, word = _entries(a, item.index)
        is_open = word.compare("ne", end_id)
        goes_on = a.pick(is_open, 1, a.entry("%State", _GOES_ON))
        was_not_over = a.entry("%Before", row).compare("ne", end_id)
        a.put(a.pick(was_not_over, 1, goes_on), "%State", _GOES_ON)
    stop = kept * a.entry("%State", _GOES_ON) + 1
    with a.loop(start, end) as prefix:
        with a.loop(1, stop) as item:
            count = a.entry("%State", _CHOSEN)
            score, row, word = _entries(a, item.index)
            a.put(row, "%OutRows", count)
            a.put(word, "%OutIds", count)
            a.put(score, "%OutScores", count)
            # the next one is written over what is not of this prefix
            is_own = row.compare("eq", prefix.index)
            a.put(count + is_own.counted(), "%State", _CHOSEN)
        chosen = a.entry("%State", _CHOSEN)
        a.put(chosen, "%Counts", prefix.index + 1)
