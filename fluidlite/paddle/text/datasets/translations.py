"""Sentences and their translations: `paddle.text.WMT14` and `WMT16`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.paddle.dataset import wmt14, wmt16
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.vision.datasets.pictures import file_or_download

__all__ = ["WMT14", "WMT16"]


class _Sentences(Dataset):
    """A sentence, its translation, and the translation one word ahead."""

    _samples: list[Any]

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        source, target, ahead = self._samples[idx]
        return np.array(source), np.array(target), np.array(ahead)

    def __len__(self) -> int:
        return len(self._samples)


class WMT14(_Sentences):
    """French and English: sentences to learn from ("train"), test with ("test") or translate ("gen")."""

    def __init__(
        self, data_file: str | None = None, mode: str = "train", dict_size: int = -1, download: bool = True
    ) -> None:
        assert mode.lower() in ("train", "test", "gen"), (
            f"mode should be 'train', 'test' or 'gen', but got {mode}"
        )
        self.mode = mode.lower()
        file = ("wmt14", wmt14.URL_TRAIN, wmt14.MD5_TRAIN)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        assert dict_size > 0, "dict_size should be set as positive number"
        self.dict_size = dict_size
        name = f"{self.mode}/{self.mode}"
        self._samples = list(wmt14.sentences(self.data_file, name, dict_size))

    def get_dict(self, reverse: bool = False) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """The dictionaries of both languages: word -> number, or number -> word with `reverse`."""
        return wmt14.dictionaries(self.data_file, self.dict_size, reverse)


class WMT16(_Sentences):
    """English and German, from `lang` on: sentences to learn from ("train"), to test with ("test") or to
    choose settings with ("val").
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,
    ) -> None:
        assert mode.lower() in ("train", "test", "val"), (
            f"mode should be 'train', 'test' or 'val', but got {mode}"
        )
        self.mode, self.lang = mode.lower(), lang
        file = ("wmt16", wmt16.DATA_URL, wmt16.DATA_MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        assert src_dict_size > 0 and trg_dict_size > 0, "dict_size should be set as positive number"
        self._sizes = (src_dict_size, trg_dict_size)
        self._samples = list(
            wmt16.sentences(self.data_file, f"wmt16/{self.mode}", src_dict_size, trg_dict_size, lang)
        )

    def get_dict(self, lang: str, reverse: bool = False) -> dict[Any, Any]:
        """Word -> number of one of the languages, or number -> word with `reverse`."""
        size = self._sizes[lang != self.lang]
        numbers = wmt16.numbers_of(self.data_file, size, lang)
        return {number: word for word, number in numbers.items()} if reverse else numbers
