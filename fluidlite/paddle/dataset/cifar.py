"""`paddle.dataset.cifar`: small images, 3x32x32 values in [0, 1], with one of 10 or of 100 labels."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.texts import open_member
from fluidlite.saving.pickles import load_objects

__all__ = ["fetch", "test10", "test100", "train10", "train100"]

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"


def pictures(path: str, sub_name: str) -> Iterator[tuple[Any, int]]:
    """The bytes and labels of those files in an archive whose names have `sub_name` in them."""
    with tarfile.open(path) as archive:
        for member in archive:
            if sub_name in member.name:
                yield from _labelled(_batch(archive, member), member.name)


def _labelled(batch: dict[str, Any], name: str) -> Iterator[tuple[Any, int]]:
    labels = batch.get("labels", batch.get("fine_labels"))
    if labels is None:
        raise FormatError(f"{name} has neither labels nor fine_labels")
    for sample, label in zip(batch["data"], labels, strict=False):
        yield sample, int(label)


def reader_creator(filename: str | Callable[[], str], sub_name: str, cycle: bool = False) -> Reader:
    """A reader of those files in an archive whose names have `sub_name` in them; again and again with
    `cycle`.
    """

    def reader() -> Iterator[Any]:
        path = filename() if callable(filename) else filename
        while True:
            for sample, label in pictures(path, sub_name):
                yield (sample / 255.0).astype(np.float32), label
            if not cycle:
                return

    return reader


def _batch(archive: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
    source = open_member(archive, member)
    found = load_objects(source.read(), member.name, lambda array: array)
    # texts of Python 2 are bytes or not, as Python 3 sees them
    return {key.decode() if isinstance(key, bytes) else key: value for key, value in found.items()}


def _of_10() -> str:
    return download(CIFAR10_URL, "cifar", CIFAR10_MD5)


def _of_100() -> str:
    return download(CIFAR100_URL, "cifar", CIFAR100_MD5)


def train100() -> Reader:
    """A reader of the 50,000 images with 100 labels to learn from."""
    return reader_creator(_of_100, "train")


def test100() -> Reader:
    """A reader of the 10,000 images with 100 labels to test with."""
    return reader_creator(_of_100, "test")


def train10(cycle: bool = False) -> Reader:
    """A reader of the 50,000 images with 10 labels to learn from."""
    return reader_creator(_of_10, "data_batch", cycle)


def test10(cycle: bool = False) -> Reader:
    """A reader of the 10,000 images with 10 labels to test with."""
    return reader_creator(_of_10, "test_batch", cycle)


def fetch() -> None:
    """See that the files are there."""
    _of_10()
    _of_100()
