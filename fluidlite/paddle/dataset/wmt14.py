"""`paddle.dataset.wmt14`: French sentences and their English translations, as numbers of words."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator
from typing import Any

from fluidlite.base.errors import FormatError
from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import lines_of, open_member

__all__ = ["fetch", "gen", "get_dict", "test", "train"]

URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlemodels.bj.bcebos.com/wmt%2Fwmt14.tgz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"
START = "<s>"
END = "<e>"
UNK = "<unk>"
UNK_IDX = 2
_LONGEST = 80  # words of a sentence


def _dictionary(archive: tarfile.TarFile, end: str, size: int) -> dict[str, int]:
    names = [name for name in archive.getnames() if name.endswith(end)]
    if len(names) != 1:
        raise FormatError(f"{archive.name!s} has {len(names)} files {end}, not one")
    lines = itertools.islice(open_member(archive, names[0]), size)
    return {line.decode().strip(): number for number, line in enumerate(lines)}


def reader_creator(file_name: str, dict_size: int) -> Reader:
    """A reader of the archive's files whose names end with `file_name`."""
    return lambda: sentences(download(URL_TRAIN, "wmt14", MD5_TRAIN), file_name, dict_size)


def sentences(path: str, file_name: str, dict_size: int) -> Iterator[Any]:
    """The sentences in those of an archive's files whose names end with `file_name`."""
    with tarfile.open(path) as archive:
        source = _dictionary(archive, "src.dict", dict_size)
        target = _dictionary(archive, "trg.dict", dict_size)
        names = [name for name in archive.getnames() if name.endswith(file_name)]
        for line in lines_of(archive, names):
            parts = line.decode().strip().split("\t")
            if len(parts) != 2:
                continue
            words = [source.get(word, UNK_IDX) for word in (START, *parts[0].split(), END)]
            meant = [target.get(word, UNK_IDX) for word in parts[1].split()]
            if len(words) <= _LONGEST and len(meant) <= _LONGEST:
                yield words, [target[START], *meant], [*meant, target[END]]


def train(dict_size: int) -> Reader:
    """A reader of the sentences to learn from: source, translation, and the translation one word ahead."""
    return reader_creator("train/train", dict_size)


def test(dict_size: int) -> Reader:
    """A reader of the sentences to test with."""
    return reader_creator("test/test", dict_size)


def gen(dict_size: int) -> Reader:
    """A reader of the sentences to translate."""
    return reader_creator("gen/gen", dict_size)


def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The dictionaries of both languages: number -> word, or word -> number without `reverse`."""
    return dictionaries(download(URL_TRAIN, "wmt14", MD5_TRAIN), dict_size, reverse)


def dictionaries(path: str, dict_size: int, reverse: bool) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The dictionaries of an archive."""
    with tarfile.open(path) as archive:
        found = [_dictionary(archive, end, dict_size) for end in ("src.dict", "trg.dict")]
    if not reverse:
        return found[0], found[1]
    source, target = ({number: word for word, number in one.items()} for one in found)
    return source, target


def fetch() -> None:
    """See that the files are there."""
    download(URL_TRAIN, "wmt14", MD5_TRAIN)
    download(URL_MODEL, "wmt14", MD5_MODEL)
