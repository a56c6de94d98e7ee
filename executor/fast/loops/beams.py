"""The best continuations of the prefixes of each source, as `beam_search` chooses them: text for LLVM.

A continuation is offered to the beam of its source, in which the best come first, and goes up past those that
are worse; of two with one score that of the later prefix is better.
"""

from __future__ import annotations

from fluidlite.executor.fast.loops.routine import Routine

__all__ = ["write_best_continuations"]


def write_best_continuations(a: Routine) -> None:
    """The function over sources; `State` has room for the numbers of continuations in the beam and of those
    that were chosen so far, and for two signs: that a source goes on, that a score is no number.
    """
    given = ["Offsets", "Words", "Before", "Ids", "Totals", "has_ids", "width", "most", "end_id"]
    a.arguments([*given, "State", "Scores", "Rows", "Chosen", "OutRows", "OutIds", "OutScores", "Counts"])
    with a.loop("%first", "%last") as source:
        start, end = a.entry("%Offsets", source.index), a.entry("%Offsets", a.sum(source.index, "1"))
        _put(a, "0", "%State", "0")
        with a.loop(start, end) as row:
            is_over = a.let(f"icmp eq i64 {a.entry('%Words', row.index)}, %end_id")
            with a.loop("0", a.pick(is_over, "1", "%width")) as number:
                place = a.sum(a.times(row.index, "%width"), number.index)
                score = a.pick(
                    is_over,
                    a.entry("%Before", row.index, "float"),
                    a.entry("%Totals", place, "float"),
                    "float",
                )
                given_id = a.entry("%Ids", a.times(place, "%has_ids"))
                has_ids = a.let("icmp ne i64 %has_ids, 0")
                word = a.pick(is_over, "%end_id", a.pick(has_ids, given_id, number.index))
                _write_offer(a, row.index, score, word)
        _write_choice(a, start, end)


def _put(a: Routine, value: str, base: str, place: str, kind: str = "i64") -> None:
    a.do(f"store {kind} {value}, ptr {a.at(base, place, kind)}")


def _is_worse(a: Routine, one: tuple[str, str], other: tuple[str, str]) -> str:
    """True if a continuation of a score and a row ranks below another."""
    is_less = a.let(f"fcmp olt float {one[0]}, {other[0]}")
    is_equal = a.let(f"fcmp oeq float {one[0]}, {other[0]}")
    return a.let(f"or i1 {is_less}, {a.let(f'and i1 {is_equal}, {a.is_less(one[1], other[1])}')}")


def _write_offer(a: Routine, row: str, score: str, word: str) -> None:
    """Put a continuation where it belongs; of a full beam the last one leaves.

    The beam begins at entry 1. One that is worse than all of a full beam goes behind its end.
    """
    is_number = a.let(f"fcmp ord float {score}, {score}")
    _put(a, a.pick(is_number, a.entry("%State", "3"), "1"), "%State", "3")
    kept = a.entry("%State", "0")
    is_full = a.let(f"icmp eq i64 {kept}, %most")
    last = a.entry("%Scores", kept, "float"), a.entry("%Rows", kept)
    is_out = a.let(f"and i1 {is_full}, {_is_worse(a, (score, row), last)}")
    count = a.pick(is_full, kept, a.sum(kept, "1"))
    place = a.pick(is_out, a.sum(count, "1"), count)
    arrays = (("%Scores", score, "float"), ("%Rows", row, "i64"), ("%Chosen", word, "i64"))
    for base, value, kind in arrays:
        _put(a, value, base, place, kind)
    with a.loop("0", a.pick(is_out, "0", a.minus(count, "1"))) as step:
        here = a.minus(count, step.index)
        above = a.minus(here, "1")
        other = a.entry("%Scores", above, "float"), a.entry("%Rows", above)
        is_better = _is_worse(a, other, (score, row))
        for base, value, kind in arrays:
            upper, lower = a.entry(base, above, kind), a.entry(base, here, kind)
            _put(a, a.pick(is_better, value, upper, kind), base, above, kind)
            _put(a, a.pick(is_better, upper, lower, kind), base, here, kind)
    _put(a, count, "%State", "0")


def _write_choice(a: Routine, start: str, end: str) -> None:
    """Write the beam of a source in the order of its rows, unless all of it had ended before."""
    kept = a.entry("%State", "0")
    _put(a, "0", "%State", "2")
    with a.loop("1", a.sum(kept, "1")) as item:
        is_end = a.let(f"icmp eq i64 {a.entry('%Chosen', item.index)}, %end_id")
        before = a.entry("%Words", a.entry("%Rows", item.index))
        was_over = a.let(f"icmp eq i64 {before}, %end_id")
        goes_on = a.let(f"xor i1 {a.let(f'and i1 {is_end}, {was_over}')}, true")
        _put(a, a.pick(goes_on, "1", a.entry("%State", "2")), "%State", "2")
    stop = a.sum(a.times(kept, a.entry("%State", "2")), "1")
    with a.loop(start, end) as row:
        with a.loop("1", stop) as item:
            count = a.entry("%State", "1")
            _put(a, row.index, "%OutRows", count)
            _put(a, a.entry("%Chosen", item.index), "%OutIds", count)
            _put(a, a.entry("%Scores", item.index, "float"), "%OutScores", count, "float")
            is_own = a.let(f"icmp eq i64 {a.entry('%Rows', item.index)}, {row.index}")
            # the next one is written over what is not of this row
            _put(a, a.sum(count, a.let(f"zext i1 {is_own} to i64")), "%State", "1")
        _put(a, a.entry("%State", "1"), "%Counts", a.sum(row.index, "1"))
