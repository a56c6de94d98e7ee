"""`paddle.dataset.sentiment`: reviews of films (NLTK's movie_reviews), 0 for a bad one, 1 for a good one."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fluidlite.paddle.dataset.common import download
from fluidlite.paddle.dataset.texts import open_packed

__all__ = ["fetch", "get_word_dict", "test", "train"]

URL = "https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"
NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000
_WORD = re.compile(r"\w+|[^\w\s]+")


def _reviews() -> dict[str, list[str]]:
    """Name -> the words of a review, in the order of names."""
    with zipfile.ZipFile(download(URL, "corpora", MD5, "movie_reviews.zip")) as archive:
        names = sorted(name for name in archive.namelist() if re.search(r"/(neg|pos)/[^/.].*\.txt$", name))
        return {name: _WORD.findall(open_packed(archive, name).read().decode("ascii")) for name in names}


def _numbered(reviews: dict[str, list[str]]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for words in reviews.values():
        counts.update(words)
    return [(word, number) for number, (word, _) in enumerate(counts.most_common())]


def get_word_dict() -> list[tuple[str, int]]:
    """Pairs of a word and its number, the most frequent first."""
    return _numbered(_reviews())


def load_sentiment_data() -> list[tuple[list[int], int]]:
    """All reviews as numbers of words with their labels, a bad one and a good one in turn."""
    reviews = _reviews()
    numbers = dict(_numbered(reviews))
    kinds = [[name for name in reviews if f"/{kind}/" in name] for kind in ("neg", "pos")]
    return [
        ([numbers[word.lower()] for word in reviews[name]], label)
        for pair in zip(*kinds, strict=False)
        for label, name in enumerate(pair)
    ]


def train() -> Iterator[Any]:
    """The first 1,600 reviews: samples themselves, not a reader of them, as in 1.8.5."""
    return iter(load_sentiment_data()[:NUM_TRAINING_INSTANCES])


def test() -> Iterator[Any]:
    """The reviews after the first 1,600."""
    return iter(load_sentiment_data()[NUM_TRAINING_INSTANCES:])


def fetch() -> None:
    """See that the file is there."""
    download(URL, "corpora", MD5, "movie_reviews.zip")
