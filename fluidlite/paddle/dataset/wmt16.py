"""`paddle.dataset.wmt16`: English and German descriptions of images, as numbers of words."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fluidlite.paddle.dataset import common
from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import open_member
from fluidlite.values.serialize import replace_file

__all__ = ["fetch", "get_dict", "test", "train", "validation"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"


def _archive() -> str:
    return download(DATA_URL, "wmt16", DATA_MD5, "wmt16.tar.gz")


def _limited(size: int, lang: str) -> int:
    return min(size, TOTAL_EN_WORDS if lang == "en" else TOTAL_DE_WORDS)


def _words(archive: str, size: int, lang: str) -> list[str]:
    """The words of a dictionary by their numbers; its file is made where it is not there."""
    path = os.path.join(common.DATA_HOME, f"wmt16/{lang}_{size}.dict")
    if os.path.exists(path):
        with open(path, encoding="utf8") as source:
            found = [line.strip() for line in source]
        if len(found) == size:
            return found
    found = _most_frequent(archive, size, lang)
    replace_file(path, [f"{word}\n".encode() for word in found])
    return found


def _most_frequent(path: str, size: int, lang: str) -> list[str]:
    counts: Counter[str] = Counter()
    with tarfile.open(path) as archive:
        for line in open_member(archive, "wmt16/train"):
            parts = line.decode().strip().split("\t")
            if len(parts) == 2:
                counts.update(parts[0 if lang == "en" else 1].split())
    # `most_common` keeps the order of equally frequent words
    often = [word for word, _ in counts.most_common()]
    # 1.8.5 stops when it has exactly `size`, so that with less than three it never does
    return [START_MARK, END_MARK, UNK_MARK, *(often[: size - 3] if size >= 3 else often)]


def reader_creator(file_name: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Reader:
    """A reader of one file of the archive."""
    if src_lang not in ("en", "de"):
        raise ValueError("An error language type.  Only support: en (for English); de(for Germany).")
    return lambda: sentences(_archive(), file_name, src_dict_size, trg_dict_size, src_lang)


def sentences(path: str, file_name: str, src_size: int, trg_size: int, src_lang: str) -> Iterator[Any]:
    """The sentences of one file of an archive."""
    other = "de" if src_lang == "en" else "en"
    column = 0 if src_lang == "en" else 1
    source, target = numbers_of(path, src_size, src_lang), numbers_of(path, trg_size, other)
    start, end, unknown = (source[mark] for mark in (START_MARK, END_MARK, UNK_MARK))
    with tarfile.open(path) as archive:
        for line in open_member(archive, file_name):
            parts = line.decode().strip().split("\t")
            if len(parts) == 2:
                words = [source.get(word, unknown) for word in parts[column].split()]
                meant = [target.get(word, unknown) for word in parts[1 - column].split()]
                yield [start, *words, end], [start, *meant], [*meant, end]


def numbers_of(path: str, size: int, lang: str) -> dict[str, int]:
    """Word -> number, of the most frequent words of a language in an archive."""
    return {word: number for number, word in enumerate(_words(path, _limited(size, lang), lang))}


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the sentences to learn from: source, translation, and the translation one word ahead."""
    return reader_creator("wmt16/train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the sentences to test with."""
    return reader_creator("wmt16/test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the sentences to choose settings with."""
    return reader_creator("wmt16/val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict[Any, Any]:
    """Word -> number, or number -> word with `reverse`."""
    numbers = numbers_of(_archive(), dict_size, lang)
    return {number: word for word, number in numbers.items()} if reverse else numbers


def fetch() -> None:
    """See that the file is there."""
    _archive()
