"""Rows of docs/DIFFERENCES.md and docs/TRANSPILERS.md that say which random programs are to differ.

A row that the fuzzer may meet begins with a remark that pages do not show:

    | <!-- id: nan-in-pools; of: pool2d, pool3d; when: nan; in: value, gradient --> `pool2d` of a nan | ... |

`of` lists functions (their last names) or types of ops. `when` lists tags that a case must have, all of them;
slashes stand between alternatives. Tags are those of `variations.tags`, among them what calls are given by
name, such as `weight` and `keepdim=True`. `in` lists words of the aspects in which the case differs
(`compare.Difference.aspect`); "value", "test" and "state" are about numbers alone, not shapes or levels;
"value" is about the test program, too.
`theirs: nan` says that PaddlePaddle has nan or an infinity wherever numbers differ, `ours: nan` that we do,
`theirs: order` that it has the same numbers at other places, `theirs: zeros` that it has 0 there;
`door: 18` or `door: 26` limits a row to one. `ops` lists types of ops or other words, one of which the text
of a difference must have, such as a line in which two programs differ (`jobs.differences`); tags of jobs are
those of `job_tags`. A row that random programs do not meet has an id alone, and a program that shows it
(`beside.row_programs`); or, where that takes files or other processes, `test` with the name of a test.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from beside.compare import Difference, alike, near
from beside.language import Case
from beside.variations import tags

__all__ = ["Row", "excuse", "rows"]

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "DIFFERENCES.md", DOCS / "TRANSPILERS.md")
REMARK = re.compile(r"<!-- (id: .*?) -->")


@dataclass(frozen=True)
class Row:
    """One row: when a difference is meant to be there."""

    id: str
    of: frozenset[str]
    when: tuple[frozenset[str], ...]
    aspects: tuple[str, ...]
    door: str
    theirs: str
    ops: tuple[str, ...] = ()
    ours: str = ""
    test: str = ""

    def holds(self, case: Case, ops: Iterable[str], difference: Difference) -> bool:
        """True if the row says that this case differs so."""
        named = {case["function"].rpartition(".")[2], *ops}
        return (
            (not self.door or self.door == case["door"])
            and (not self.of or bool(named & self.of))
            and all(alternatives & tags(case) for alternatives in self.when)
            and any(_is_about(difference.aspect, aspect) for aspect in self.aspects)
            and (self.theirs != "nan" or _differs_by(difference, 1))
            and (self.theirs != "order" or _differs_in_order(difference))
            and (self.theirs != "zeros" or _differs_by_zeros(difference))
            and (not self.ours or _differs_by(difference, 0))
            and (not self.ops or any(word in difference.text for word in self.ops))
        )


def _is_about(found: str, aspect: str) -> bool:
    """True if an aspect is one that a row names: "value", "test" and "state" are about numbers alone. What
    holds for values holds for those of the test program.
    """
    if aspect.startswith("value") and found.startswith("test"):
        found = found.replace("test", "value", 1)
    return found.endswith(aspect) if aspect in ("value", "test", "state") else aspect in found


def _differs_by(difference: Difference, side: int) -> bool:
    """True if one side, ours (0) or theirs (1), has no number wherever numbers differ."""
    if difference.numbers is None:
        return False
    mine, other = difference.numbers
    there = np.isfinite(difference.numbers[side])
    return bool(not there.all() and near(mine[there], other[there]).all())


def _differs_in_order(difference: Difference) -> bool:
    """True if both sides have the same numbers, or none at all: levels and shapes have none."""
    if difference.numbers is None:
        return True
    mine, other = (np.sort(numbers, axis=None) for numbers in difference.numbers)
    return alike(mine, other)


def _differs_by_zeros(difference: Difference) -> bool:
    """True if PaddlePaddle has 0 wherever numbers differ."""
    if difference.numbers is None:
        return False
    mine, other = difference.numbers
    return alike(mine[other != 0], other[other != 0])


@functools.cache
def rows() -> tuple[Row, ...]:
    """All rows with a remark; ValueError for a remark that cannot be read or an id that occurs twice."""
    found = [_row(text, page.name) for page in PAGES for text in REMARK.findall(page.read_text())]
    ids = [row.id for row in found]
    if len(set(ids)) < len(ids):
        raise ValueError(f"rows share an id: {sorted({one for one in ids if ids.count(one) > 1})}")
    return tuple(found)


def _row(text: str, page: str) -> Row:
    parts = dict(part.strip().split(": ", 1) for part in text.split(";"))
    unknown = set(parts) - {"id", "of", "when", "in", "door", "theirs", "ours", "ops", "test"}
    if unknown or (len(parts) > 1 and not parts.keys() & {"in", "test"}):
        raise ValueError(
            f"the remark {text!r} of {page} needs id and in, and may have of, when, door, theirs, ours, ops"
        )
    return Row(
        parts["id"],
        frozenset(_words(parts.get("of", ""))),
        tuple(frozenset(word.strip() for word in item.split("/")) for item in _words(parts.get("when", ""))),
        tuple(_words(parts.get("in", ""))),
        parts.get("door", ""),
        parts.get("theirs", ""),
        tuple(_words(parts.get("ops", ""))),
        parts.get("ours", ""),
        parts.get("test", ""),
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def excuse(case: Case, ops: Iterable[str], difference: Difference) -> str:
    """The id of the row that says that a case differs so, or nothing."""
    types = list(ops)
    return next((row.id for row in rows() if row.holds(case, types, difference)), "")
