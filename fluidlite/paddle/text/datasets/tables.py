"""Tables: `paddle.text.UCIHousing` and `Movielens`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.paddle.dataset import movielens, uci_housing
from fluidlite.paddle.framework import get_default_dtype
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.vision.datasets.pictures import file_or_download

__all__ = ["Movielens", "UCIHousing"]


class UCIHousing(Dataset):
    """13 normalised features of a place and the price of its houses: the first four fifths ("train"), or the
    last one ("test").
    """

    def __init__(self, data_file: str | None = None, mode: str = "train", download: bool = True) -> None:
        assert mode.lower() in ("train", "test"), f"mode should be 'train' or 'test', but got {mode}"
        self.mode = mode.lower()
        file = ("uci_housing", uci_housing.URL, uci_housing.MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        self.data = uci_housing.load_data(self.data_file)[self.mode == "test"]
        self.dtype = str(get_default_dtype())

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        row = self.data[idx]
        return np.array(row[:-1]).astype(self.dtype), np.array(row[-1:]).astype(self.dtype)

    def __len__(self) -> int:
        return len(self.data)


class Movielens(Dataset):
    """Facts about people and films, and ratings from -3 to 5; about `test_ratio` of them are to test with."""

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,
    ) -> None:
        assert mode.lower() in ("train", "test"), f"mode should be 'train', 'test', but got {mode}"
        self.mode, self.test_ratio, self.rand_seed = mode.lower(), test_ratio, rand_seed
        file = ("movielens", movielens.URL, movielens.MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        is_test = self.mode == "test"
        self.data = list(movielens.ratings(self.data_file, rand_seed, test_ratio, is_test))

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(np.atleast_1d(part) for part in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)
