"""`paddle.dataset.imdb`: reviews of films as numbers of words, and 0 for a good one, 1 for a bad one."""

from __future__ import annotations

import re
import string
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import numbered, open_member

__all__ = ["build_dict", "fetch", "test", "tokenize", "train", "word_dict"]

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"


def tokenize(pattern: re.Pattern[str]) -> Iterator[list[bytes]]:
    """The words of each review whose name in the archive fits: small letters, no punctuation."""
    return reviews(download(URL, "imdb", MD5), pattern)


def reviews(path: str, pattern: re.Pattern[str]) -> Iterator[list[bytes]]:
    """The words of each review of an archive whose name fits."""
    with tarfile.open(path) as archive:
        for member in archive:
            if pattern.match(member.name):
                text = open_member(archive, member).read().rstrip(b"\n\r")
                yield text.translate(None, string.punctuation.encode()).lower().split()


def build_dict(pattern: re.Pattern[str], cutoff: int) -> dict[Any, int]:
    """Word -> number, of the words that occur more than `cutoff` times."""
    return frequent_words(download(URL, "imdb", MD5), pattern, cutoff)


def frequent_words(path: str, pattern: re.Pattern[str], cutoff: int) -> dict[Any, int]:
    """Word -> number, of the words that occur more than `cutoff` times in reviews of an archive."""
    counts: Counter[bytes] = Counter()
    for words in reviews(path, pattern):
        counts.update(words)
    return numbered(counts, cutoff)


def _reader(part: str, word_idx: Mapping[Any, int]) -> Reader:
    return lambda: labelled(download(URL, "imdb", MD5), part, word_idx)


def labelled(path: str, part: str, word_idx: Mapping[Any, int]) -> Iterator[Any]:
    """The numbers of the words of reviews of an archive, each with its label."""
    unknown = word_idx["<unk>"]
    for label, kind in enumerate(("pos", "neg")):
        for words in reviews(path, re.compile(rf"aclImdb/{part}/{kind}/.*\.txt$")):
            yield [word_idx.get(word, unknown) for word in words], label


def train(word_idx: Mapping[Any, int]) -> Reader:
    """A reader of the 25,000 reviews to learn from, by a dictionary such as `word_dict()`."""
    return _reader("train", word_idx)


def test(word_idx: Mapping[Any, int]) -> Reader:
    """A reader of the 25,000 reviews to test with."""
    return _reader("test", word_idx)


def word_dict() -> dict[Any, int]:
    """Word -> number, of the words that occur more than 150 times."""
    return build_dict(re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), 150)


def fetch() -> None:
    """See that the file is there."""
    download(URL, "imdb", MD5)
