"""`paddle.dataset.imikolov`: newspaper text (Penn Treebank), as groups of words that follow each other."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import numbered, open_member

__all__ = ["DataType", "build_dict", "fetch", "test", "train", "word_count"]

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"
_TRAIN = "./simple-examples/data/ptb.train.txt"
_TEST = "./simple-examples/data/ptb.valid.txt"


class DataType:
    """Kinds of samples: so many words in a row, or whole sentences."""

    NGRAM = 1
    SEQ = 2


def word_count(f: Iterable[Any], word_freq: Any = None) -> Any:
    """How often words occur, and the marks at both ends of lines."""
    counts = Counter() if word_freq is None else word_freq
    for line in f:
        for word in [*line.strip().split(), "<s>", "<e>"]:
            counts[word] += 1
    return counts


def build_dict(min_word_freq: int = 50) -> dict[Any, int]:
    """Word -> number, of the words that occur more than `min_word_freq` times."""
    return frequent_words(download(URL, "imikolov", MD5), min_word_freq)


def frequent_words(path: str, min_word_freq: int) -> dict[Any, int]:
    """Word -> number, of the words that occur more than `min_word_freq` times in an archive."""
    with tarfile.open(path) as archive:
        counts = word_count(open_member(archive, _TRAIN))
        counts = word_count(open_member(archive, _TEST), counts)
    counts.pop("<unk>", None)
    return numbered(counts, min_word_freq)


def reader_creator(filename: str, word_idx: Mapping[Any, int], n: int, data_type: int) -> Reader:
    """A reader of one file of the archive."""
    return lambda: samples(download(URL, "imikolov", MD5), filename, word_idx, n, data_type)


def samples(path: str, filename: str, word_idx: Mapping[Any, int], n: int, data_type: int) -> Iterator[Any]:
    """The samples of one file of an archive."""
    unknown = word_idx["<unk>"]
    with tarfile.open(path) as archive:
        for line in open_member(archive, filename):
            words = line.strip().split()
            if data_type == DataType.NGRAM:
                assert n > -1, "Invalid gram length"
                marked = [word_idx.get(word, unknown) for word in ("<s>", *words, "<e>")]
                yield from (tuple(marked[end - n : end]) for end in range(n, len(marked) + 1))
            elif data_type == DataType.SEQ:
                inside = [word_idx.get(word, unknown) for word in words]
                if n <= 0 or len(inside) < n:
                    yield [word_idx["<s>"], *inside], [*inside, word_idx["<e>"]]
            else:
                raise AssertionError("Unknow data type")


def train(word_idx: Mapping[Any, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the text to learn from: groups of `n` words, or pairs of sentences of at most `n` words,
    the second one word ahead.
    """
    return reader_creator(_TRAIN, word_idx, n, data_type)


def test(word_idx: Mapping[Any, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the text to test with."""
    return reader_creator(_TEST, word_idx, n, data_type)


def fetch() -> None:
    """See that the file is there."""
    download(URL, "imikolov", MD5)
