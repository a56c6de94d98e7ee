"""`paddle.dataset.conll05`: sentences of which each verb's arguments are marked."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import gunzip, open_member

__all__ = ["fetch", "get_dict", "get_embedding", "load_dict", "load_label_dict", "test"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"
UNK_IDX = 0


def load_label_dict(filename: str) -> dict[str, int]:
    """Label -> number: two for each tag of the file, and one for "O"."""
    with open(filename, encoding="utf8") as source:
        tags = {line.strip()[2:] for line in source if line.startswith(("B-", "I-"))}
    # sorted, so that every process has the same numbers; in 1.8.5 they change from run to run
    labels = [f"{side}-{tag}" for tag in sorted(tags) for side in "BI"]
    return {label: number for number, label in enumerate([*labels, "O"])}


def load_dict(filename: str) -> dict[str, int]:
    """Line -> its number."""
    with open(filename, encoding="utf8") as source:
        return {line.strip(): number for number, line in enumerate(source)}


def corpus_reader(data_path: str, words_name: str, props_name: str) -> Reader:
    """A reader of (words, verb, labels): one for each verb of each sentence."""

    def reader() -> Iterator[Any]:
        with tarfile.open(data_path) as archive:
            words, marks = (
                gunzip(open_member(archive, name).read(), name).decode().splitlines()
                for name in (words_name, props_name)
            )
            sentence: list[str] = []
            rows: list[list[str]] = []
            for word, mark in zip(words, marks, strict=False):
                row = mark.split()
                if row:
                    sentence.append(word.strip())
                    rows.append(row)
                    continue
                verbs, *arguments = zip(*rows, strict=True)
                named = [verb for verb in verbs if verb != "-"]
                for verb, column in zip(named, arguments, strict=False):
                    yield sentence, verb, _labels(column)
                sentence, rows = [], []

    return reader


def _labels(column: Sequence[str]) -> list[str]:
    """Labels of a column in brackets: "(A0*", "*", "*)" is "B-A0", "I-A0", "I-A0"."""
    labels = []
    tag, inside = "O", False
    for mark in column:
        if "(" in mark:
            tag = mark[1 : mark.find("*")]
            labels.append(f"B-{tag}")
            inside = ")" not in mark
        elif mark == "*":
            labels.append(f"I-{tag}" if inside else "O")
        elif mark == "*)":
            labels.append(f"I-{tag}")
            inside = False
        else:
            raise RuntimeError(f"Unexpected label: {mark}")
    return labels


def reader_creator(
    corpus_reader: Callable[[], Iterator[Any]],
    word_dict: Mapping[str, int],
    predicate_dict: Mapping[str, int],
    label_dict: Mapping[str, int],
) -> Reader:
    """A reader of nine lists: words, the five words around the verb, the verb, marks of these, labels."""

    def reader() -> Iterator[Any]:
        for sentence, predicate, labels in corpus_reader():
            verb = labels.index("B-V")
            count = len(sentence)
            marks = [0] * len(labels)
            around = []
            for place in range(verb - 2, verb + 3):
                if 0 <= place < len(labels):
                    marks[place] = 1
                    word = sentence[place]
                else:
                    word = "bos" if place < 0 else "eos"
                around.append([word_dict.get(word, UNK_IDX)] * count)
            yield (
                [word_dict.get(word, UNK_IDX) for word in sentence],
                *around,
                [predicate_dict.get(predicate)] * count,
                marks,
                [label_dict.get(label) for label in labels],
            )

    return reader


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The dictionaries of words, verbs and labels."""
    return (
        load_dict(download(WORDDICT_URL, "conll05st", WORDDICT_MD5)),
        load_dict(download(VERBDICT_URL, "conll05st", VERBDICT_MD5)),
        load_label_dict(download(TRGDICT_URL, "conll05st", TRGDICT_MD5)),
    )


def get_embedding() -> str:
    """The path of a file with trained vectors of words."""
    return download(EMB_URL, "conll05st", EMB_MD5)


def test() -> Reader:
    """A reader of the test set, which is the part that is public: scripts learn from it as well."""

    def reader() -> Iterator[Any]:
        folder = "conll05st-release/test.wsj"
        corpus = corpus_reader(
            download(DATA_URL, "conll05st", DATA_MD5),
            f"{folder}/words/test.wsj.words.gz",
            f"{folder}/props/test.wsj.props.gz",
        )
        return reader_creator(corpus, *get_dict())()

    return reader


def fetch() -> None:
    """See that the files are there."""
    get_dict()
    get_embedding()
    download(DATA_URL, "conll05st", DATA_MD5)
