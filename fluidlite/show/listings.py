"""Listings of the files whose lines made a program's ops, bounded in size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fluidlite.ir.where import source_lines

__all__ = ["Listing", "listings"]

# (number of the first line, lines) of each piece of a file
Listing = list[tuple[int, list[str]]]
_MOST = 300_000  # characters of all files: a page of ResNet-50 has 1.3 MB without them
_WIDEST = 400  # columns of a line
_AROUND = (None, 40, 8)  # lines kept around those that made ops: all of the file, where that fits


def listings(lines: Mapping[str, Iterable[int]]) -> dict[str, Listing]:
    """The text of each file, or what stands around the given lines of it; files that cannot be read, or whose
    lines do not reach so far, are left out.
    """
    found: dict[str, Listing] = {}
    left = _MOST
    for file, wanted in lines.items():
        text = _text(file)
        numbers = sorted(set(wanted))
        if not text or not numbers or numbers[-1] > len(text):
            continue
        for around in _AROUND:
            listing = _pieces(text, numbers, around)
            size = sum(len(line) + 1 for _, piece in listing for line in piece)
            if size <= left:
                found[file] = listing
                left -= size
                break
    return found


def _text(file: str) -> list[str]:
    """The lines of a script."""
    return [line.rstrip()[:_WIDEST] for line in source_lines(file)]


def _pieces(text: Sequence[str], numbers: Sequence[int], around: int | None) -> Listing:
    """The text, or the pieces of it that lie `around` lines or less from one of the numbers."""
    if around is None:
        return [(1, list(text))]
    return [(first, list(text[first - 1 : last])) for first, last in _ranges(numbers, around, len(text))]


def _ranges(numbers: Iterable[int], around: int, end: int) -> Iterator[tuple[int, int]]:
    """First and last lines of pieces that neither touch nor overlap."""
    first, last = 0, 0
    for number in numbers:
        if last and number - around > last + 1:
            yield first, last
            first = 0
        first = first or max(1, number - around)
        last = min(end, number + around)
    if last:
        yield first, last
