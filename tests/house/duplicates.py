"""Places of the house that say the same: runs of thirty names in the same order, about six lines.

Names and keywords alone are compared: what a formatter puts on one line or on ten is the same here, and
lists of literals are no copies of each other. An implementation of our own, of forty lines: the usual tools
compare text, or are programs of another language that would have to be installed first.
"""

from __future__ import annotations

import collections
import itertools
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

SHORTEST = 30  # names

Tokens = Sequence[tokenize.TokenInfo]
Place = tuple[str, int]  # a file, and the index of a name in it
Pair = tuple[Place, Place]


class Name(NamedTuple):
    """A name or keyword, and the line that it stands on."""

    text: str
    line: int


def duplicates(files: Mapping[str, tuple[Tokens, set[int]]]) -> list[str]:
    """`first:line second:line names` of every pair of places that share thirty names or more.

    files: path -> (tokens of code, numbers of lines that do not count).
    """
    names = {
        file: [Name(each.string, each.start[0]) for each in tokens if _counts(each, left_out)]
        for file, (tokens, left_out) in files.items()
    }
    pairs = {
        (first, second)
        for places in _windows(names)
        for first, second in itertools.combinations(places, 2)
        if first[0] != second[0] or second[1] - first[1] >= SHORTEST  # rows of one table are no copies
    }
    return [_shown(names, *pair, pairs) for pair in sorted(pairs) if _moved(pair, -1) not in pairs]


def _windows(names: Mapping[str, list[Name]]) -> Iterator[list[Place]]:
    """The places of each run of thirty names that stands more than once.

    Runs are told apart by a hash of 64 bits: of half a million, two unlike ones meet once in a hundred
    million times.
    """
    number: dict[str, int] = collections.defaultdict(itertools.count().__next__)
    weights = np.random.RandomState(0).randint(1, 2**62, (2, 1 << 17), np.uint64)
    found: dict[int, list[Place]] = collections.defaultdict(list)
    for file, each in names.items():
        if len(each) < SHORTEST:
            continue
        values = weights[0][[number[name.text] for name in each]]
        runs = np.lib.stride_tricks.sliding_window_view(values, SHORTEST)
        for start, key in enumerate((runs * weights[1, :SHORTEST]).sum(axis=1).tolist()):
            found[key].append((file, start))
    return (places for places in found.values() if len(places) > 1)


def _counts(token: tokenize.TokenInfo, left_out: set[int]) -> bool:
    return token.type == tokenize.NAME and token.start[0] not in left_out


def _moved(pair: Pair, by: int) -> Pair:
    """The pair of places so many names later: a pair that begins with another one only goes on with it."""
    (first, start), (second, other) = pair
    return (first, start + by), (second, other + by)


def _shown(names: Mapping[str, list[Name]], first: Place, second: Place, pairs: set[Pair]) -> str:
    longer = itertools.takewhile(lambda by: _moved((first, second), by) in pairs, itertools.count(1))
    at = [f"{file}:{names[file][start].line}" for file, start in (first, second)]
    return f"{at[0]} {at[1]} {SHORTEST + len(list(longer))}"
