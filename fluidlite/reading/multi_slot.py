"""Lines of text with several fields, `2 17 4 1 0.5`: each field is the number of its values, then the
values.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FormatError

__all__ = ["Samples", "read_file"]

_PIPE_CLOSED = 141  # what a shell says of a part that SIGPIPE ended

_EXACT = float(1 << 53)  # whole numbers below are floats without loss
_MASK = (1 << 64) - 1
_BEYOND = float(1 << 64)
_ZERO = 1e-6  # what 1.8.5 takes for zero in a field of floats


class Field(NamedTuple):
    """The values of one field in all samples: those of sample i are `values[offsets[i]:offsets[i + 1]]`."""

    values: Array
    offsets: Array

    def take(self, order: Array) -> Field:
        """The field in the samples of these numbers, in this order."""
        lengths = np.diff(self.offsets)[order]
        return Field(self.values[_ranges(self.offsets[:-1][order], lengths)], _offsets(lengths))

    def without_zeros(self) -> Field:
        """The field without zeros, of which one stays where a sample has nothing else."""
        keep = np.abs(self.values) >= _ZERO if self.values.dtype.kind == "f" else self.values != 0
        if keep.all() or not len(keep):
            return self
        # reduceat needs samples of at least one value, which the format promises
        first = self.offsets[:-1]
        # where all values of a sample are zeros, its first one stays
        keep[first[np.add.reduceat(keep, first, dtype=np.int64) == 0]] = True
        return Field(self.values[keep], _offsets(np.add.reduceat(keep, first, dtype=np.int64)))


class Samples:
    """Samples, field by field."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = list(fields)

    def __len__(self) -> int:
        return len(self.fields[0].offsets) - 1 if self.fields else 0

    def part(self, start: int, stop: int) -> Samples:
        """The samples from `start` to before `stop`."""
        return Samples(
            [
                Field(values[offsets[start] : offsets[stop]], offsets[start : stop + 1] - offsets[start])
                for values, offsets in self.fields
            ]
        )

    def take(self, order: Array) -> Samples:
        """The samples of these numbers, in this order."""
        return Samples([field.take(order) for field in self.fields])

    @staticmethod
    def joined(parts: Sequence[Samples]) -> Samples:
        """All samples of several."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.fields for part in parts), strict=True)
        return Samples(
            [
                Field(
                    np.concatenate([field.values for field in column]),
                    _offsets(np.concatenate([np.diff(field.offsets) for field in column])),
                )
                for column in columns
            ]
        )


def _offsets(lengths: Array) -> Array:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _ranges(starts: Array, lengths: Array) -> Array:
    """starts[0], starts[0] + 1, ..., then starts[1], ..."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def read_file(path: str, command: str, kinds: Sequence[str], texts: int = 0) -> Samples:
    """The samples of a file, once it has gone through a shell's `command`.

    kinds: "uint64" or "float" for each field of a line, after `texts` fields `1 text` that are passed by.

    FormatError names the line that is not as it should be, RuntimeError the command that failed.
    """
    import shutil  # start-up time
    import subprocess

    bash = shutil.which("bash")
    # without pipefail, of `a | b` only the end of b is heard of
    words: str | list[str] = command if bash is None else [bash, "-o", "pipefail", "-c", command]
    with open(path, "rb") as source:
        done = subprocess.run(words, shell=bash is None, stdin=source, stdout=subprocess.PIPE, check=False)
    # a part whose reader wants no more, as in `cat | head`, ends by SIGPIPE, which is no failure
    if done.returncode not in (0, _PIPE_CLOSED):
        raise RuntimeError(f"the pipe command {command!r} ended with {done.returncode} for {path}")
    return parse(without_texts(done.stdout, texts) if texts else done.stdout, kinds, path)


def without_texts(text: bytes, count: int) -> bytes:
    """The lines of a text without the `count` fields `1 text` that each begins with."""
    parts = (line.split(None, 2 * count) for line in text.splitlines())
    return b"".join((part[2 * count] if len(part) > 2 * count else b"") + b"\n" for part in parts)


def parse(text: bytes, kinds: Sequence[str], path: str = "text") -> Samples:
    """The samples of a text."""
    words = _Words(text)
    lines = _lines(words)
    numbers = _numbers(text, lines, path)
    first = lines.first
    ends = lines.ends
    fields = []
    place = first
    for kind in kinds:
        _check(place < ends, lines, path, f"it has fewer than {len(kinds)} fields")
        wanted = numbers[place]
        # compared as they are: as integers, counts near 2 ** 63 and NaN would be others
        _check(
            (wanted >= 1) & (wanted == np.floor(wanted)) & (wanted < ends - place),
            lines,
            path,
            "a field has to begin with the number of its values, at least 1",
        )
        counts = wanted.astype(np.int64)
        chosen = _ranges(place + 1, counts)
        is_id = _are_ids(words, numbers, chosen) if kind != "float" else np.ones(0, bool)
        if not is_id.all():
            wrong = int(chosen[int(np.argmin(is_id))])
            raise FormatError(
                f"{path}, line {lines.of(wrong)}: {words.token(wrong)!r} is not an id: an id is an "
                "integer from -2**63 to 2**64 - 1"
            )
        fields.append(Field(_values(words, numbers, chosen, kind), _offsets(counts)))
        place = place + counts + 1
    _check(place == ends, lines, path, f"it has more than {len(kinds)} fields")
    return Samples(fields)


class _Words:
    """The tokens of a text: whatever is no larger than a space parts them."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.letters = np.frombuffer(text, np.uint8)
        # no loop over tokens in Python: files have millions
        self._is_letter = self.letters > 32
        starts = self._is_letter.copy()
        starts[1:] &= ~self._is_letter[:-1]
        self.starts = np.flatnonzero(starts)

    @functools.cached_property
    def ends(self) -> Array:
        """The place behind each token."""
        last = self._is_letter.copy()
        last[:-1] &= ~self._is_letter[1:]
        return np.flatnonzero(last) + 1

    def token(self, number: int) -> str:
        """A token as it stands in the text."""
        return self.text[self.starts[number] : self.ends[number]].decode("latin1")[:40]

    def whole_numbers(self, chosen: Array) -> Any:
        """The tokens of these numbers as integers modulo 2**64."""
        starts = self.starts[chosen]
        ends = self.ends[chosen]
        total = np.zeros(len(starts), np.uint64)
        # one digit of all numbers at a time: 20 times faster than Python's integers
        for column in range(int((ends - starts).max()), 0, -1):
            places = ends - column
            digits = self.letters[np.maximum(places, starts)] - np.uint8(48)
            if (digits > 9).any():  # a sign, or a number with an exponent
                return self._one_by_one(starts, ends)
            total = np.where(places >= starts, total * np.uint64(10) + digits, total)
        return total.view(np.int64)

    def _one_by_one(self, starts: Array, ends: Array) -> Any:
        pairs = zip(starts, ends, strict=True)
        words = [_whole(self.text[low:high].decode("latin1")) & _MASK for low, high in pairs]
        return np.array(words, np.uint64).view(np.int64)


def _whole(text: str) -> int:
    """An integer, which may have an exponent."""
    try:
        return int(text)
    except ValueError:
        return int(float(text))


class _Lines(NamedTuple):
    """The lines of a text that are not empty: their numbers from 1, their first tokens, and those after
    their last.
    """

    number: Array
    first: Array
    ends: Array

    def of(self, token: int) -> int:
        """The number of the line that a token stands in."""
        return int(self.number[np.searchsorted(self.ends, token, "right")])


def _lines(words: _Words) -> _Lines:
    ends = np.searchsorted(words.starts, np.flatnonzero(words.letters == 10))
    # the last line does not end in a line feed
    if len(words.starts) and (not len(ends) or ends[-1] < len(words.starts)):
        ends = np.append(ends, len(words.starts))
    first = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    full = np.flatnonzero(first < ends)
    return _Lines(full + 1, first[full], ends[full])


def _numbers(text: bytes, lines: _Lines, path: str) -> Array:
    """All tokens as numbers."""
    count = int(lines.ends[-1]) if len(lines.ends) else 0
    try:
        # one pass in C, which makes no object of each token
        found = np.fromstring(text.decode("latin1"), np.float64, sep=" ") if count else np.zeros(0)
        if len(found) == count:
            return found
    except ValueError:  # NumPy does not say where
        pass
    wrong = next((place for place, word in enumerate(text.split()) if not _is_number(word)), 0)
    raise FormatError(f"{path}, line {lines.of(wrong)}: a value is not a number")


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _check(good: Array, lines: _Lines, path: str, wanted: str) -> None:
    if not good.all():
        raise FormatError(f"{path}, line {lines.number[int(np.argmin(good))]}: {wanted}")


def _are_ids(words: _Words, numbers: Array, chosen: Array) -> Array:
    """True for each token that is an integer of 64 bits, with a sign or without."""
    found = numbers[chosen]
    good = (found == np.floor(found)) & (found >= -float(1 << 63)) & (found <= _BEYOND)
    # the largest ids and 2**64 are one float, the smallest and others below it: the digits tell them apart
    for place in np.flatnonzero((found == _BEYOND) | (found == -_BEYOND / 2)):
        good[place] = -(1 << 63) <= _whole(words.token(chosen[place])) <= _MASK
    return good


def _values(words: _Words, numbers: Array, chosen: Array, kind: str) -> Any:
    found = numbers[chosen]
    if kind == "float":
        return found.astype(np.float32)
    # hashed ids have 64 bits, of which a float keeps 53: those are read again as whole numbers
    is_large = np.abs(found) >= _EXACT
    if not is_large.any():
        return found.astype(np.int64)
    whole = np.where(is_large, 0, found).astype(np.int64)
    whole[is_large] = words.whole_numbers(chosen[is_large])
    return whole
