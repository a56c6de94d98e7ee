"""`paddle.dataset.uci_housing`: 13 normalised features of a place, and the price of its houses."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.paddle.dataset.common import Reader, download

__all__ = ["fetch", "fluid_model", "predict_reader", "test", "train"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
FLUID_URL_MODEL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fluid/fit_a_line.fluid.tar"
FLUID_MD5_MODEL = "6e6dd637ccd5993961f68bfbde46090b"
feature_names = ["CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO"]
feature_names += ["B", "LSTAT"]


def load_data(filename: str, feature_num: int = 14, ratio: float = 0.8) -> tuple[Any, Any]:
    """The rows to learn from and those to test with: each feature minus its mean, over its range."""
    with open(filename, encoding="ascii") as source:
        data = np.array(source.read().split(), np.float64).reshape(-1, feature_num)
    most, least, mean = data.max(axis=0), data.min(axis=0), data.sum(axis=0) / len(data)
    for feature in range(feature_num - 1):
        data[:, feature] = (data[:, feature] - mean[feature]) / (most[feature] - least[feature])
    offset = int(len(data) * ratio)
    return data[:offset], data[offset:]


def _reader(part: int) -> Reader:
    def reader() -> Iterator[Any]:
        for row in load_data(download(URL, "uci_housing", MD5))[part]:
            yield row[:-1], row[-1:]

    return reader


def train() -> Reader:
    """A reader of the first four fifths of the places."""
    return _reader(0)


def test() -> Reader:
    """A reader of the last fifth of the places."""
    return _reader(1)


def predict_reader() -> tuple[Any]:
    """The features of one place, to predict its price."""
    return (load_data(download(URL, "uci_housing", MD5))[1][0][:-1],)


def fluid_model() -> str:
    """A new folder with a model that was trained on these data."""
    path = download(FLUID_URL_MODEL, "uci_housing", FLUID_MD5_MODEL, "fit_a_line.fluid.tar")
    folder = tempfile.mkdtemp()
    with tarfile.open(path) as archive:
        # `data`: no file of an archive lands outside the folder
        archive.extractall(folder, filter="data")
    return folder


def fetch() -> None:
    """See that the file is there."""
    download(URL, "uci_housing", MD5)
