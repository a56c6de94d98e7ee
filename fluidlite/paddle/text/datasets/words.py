"""Texts whose samples are arrays of numbers of words: `paddle.text.Imdb`, `Imikolov` and `Conll05st`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fluidlite.paddle.dataset import conll05, imdb, imikolov
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.vision.datasets.pictures import file_or_download

__all__ = ["Conll05st", "Imdb", "Imikolov"]


class Imdb(Dataset):
    """25,000 reviews of films to learn from ("train") or to test with ("test"): words that occur more than
    `cutoff` times as numbers, and 0 for a good one, 1 for a bad one.
    """

    def __init__(
        self, data_file: str | None = None, mode: str = "train", cutoff: int = 150, download: bool = True
    ) -> None:
        assert mode.lower() in ("train", "test"), f"mode should be 'train', 'test', but got {mode}"
        self.mode = mode.lower()
        file = ("imdb", imdb.URL, imdb.MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        every = re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$")
        self.word_idx = imdb.frequent_words(self.data_file, every, cutoff)
        samples = list(imdb.labelled(self.data_file, self.mode, self.word_idx))
        self.docs = [words for words, _ in samples]
        self.labels = [label for _, label in samples]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return np.array(self.docs[idx]), np.array([self.labels[idx]])

    def __len__(self) -> int:
        return len(self.docs)


class Imikolov(Dataset):
    """Newspaper text (Penn Treebank) as groups of `window_size` words ("NGRAM"), or as pairs of sentences,
    the second one word ahead ("SEQ").
    """

    def __init__(
        self,
        data_file: str | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,
    ) -> None:
        kind = data_type.upper()
        assert kind in ("NGRAM", "SEQ"), f"data type should be 'NGRAM', 'SEQ', but got {data_type}"
        assert mode.lower() in ("train", "test"), f"mode should be 'train', 'test', but got {mode}"
        self.data_type, self.window_size, self.mode = kind, window_size, mode.lower()
        self.min_word_freq = min_word_freq
        file = ("imikolov", imikolov.URL, imikolov.MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        self.word_idx = imikolov.frequent_words(self.data_file, min_word_freq)
        part = f"./simple-examples/data/ptb.{self.mode}.txt"
        number = getattr(imikolov.DataType, kind)
        self.data = list(imikolov.samples(self.data_file, part, self.word_idx, window_size, number))

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(np.array(part) for part in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)


class Conll05st(Dataset):
    """Sentences with the roles of their words: nine arrays for a verb, see `paddle.dataset.conll05`."""

    def __init__(
        self,
        data_file: str | None = None,
        word_dict_file: str | None = None,
        verb_dict_file: str | None = None,
        target_dict_file: str | None = None,
        emb_file: str | None = None,
        download: bool = True,
    ) -> None:
        def file(given: str | None, name: str, url: str, md5: str) -> str:
            return file_or_download(given, name, download, "conll05st", url, md5)

        self.data_file = file(data_file, "data_file", conll05.DATA_URL, conll05.DATA_MD5)
        words = file(word_dict_file, "word_dict_file", conll05.WORDDICT_URL, conll05.WORDDICT_MD5)
        verbs = file(verb_dict_file, "verb_dict_file", conll05.VERBDICT_URL, conll05.VERBDICT_MD5)
        tags = file(target_dict_file, "target_dict_file", conll05.TRGDICT_URL, conll05.TRGDICT_MD5)
        self.emb_file = file(emb_file, "emb_file", conll05.EMB_URL, conll05.EMB_MD5)
        self.word_dict, self.predicate_dict = conll05.load_dict(words), conll05.load_dict(verbs)
        self.label_dict = conll05.load_label_dict(tags)
        names = [f"conll05st-release/test.wsj/{kind}/test.wsj.{kind}.gz" for kind in ("words", "props")]
        corpus = conll05.corpus_reader(self.data_file, *names)
        dictionaries = (self.word_dict, self.predicate_dict, self.label_dict)
        self._samples = list(conll05.reader_creator(corpus, *dictionaries)())

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(np.array(part) for part in self._samples[idx])

    def __len__(self) -> int:
        return len(self._samples)

    def get_dict(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The dictionaries of words, verbs and labels."""
        return self.word_dict, self.predicate_dict, self.label_dict

    def get_embedding(self) -> str:
        """The path of a file with trained vectors of words."""
        return self.emb_file
