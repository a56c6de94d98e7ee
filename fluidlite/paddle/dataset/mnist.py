"""`paddle.dataset.mnist`: handwritten digits, 28x28 pixels in [-1, 1] and a label."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.paddle.dataset.common import Reader, download

__all__ = ["fetch", "test", "train"]

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"


_LARGEST = 1 << 24  # points of an image


def reader_creator(image_filename: str, label_filename: str, buffer_size: int) -> Reader:
    """A reader of two files in the IDX format, which takes `buffer_size` samples at a time."""

    def reader() -> Iterator[Any]:
        with gzip.open(image_filename) as images, gzip.open(label_filename) as labels:
            _, _, rows, columns = np.frombuffer(images.read(16), ">u4")
            left = int(np.frombuffer(labels.read(8), ">u4")[1])
            size = int(rows) * int(columns)
            if not 0 < size <= _LARGEST:
                raise FormatError(f"{image_filename}: images of {rows} x {columns} pixels")
            while left > 0:
                pixels = np.frombuffer(images.read(buffer_size * size), np.uint8)
                if not len(pixels):
                    raise FormatError(f"{image_filename} ends {left} images before {label_filename}")
                group = pixels.reshape(-1, size).astype(np.float32)
                # step by step, so that the rounding is 1.8.5's
                group /= np.float32(255.0)
                group *= np.float32(2.0)
                group -= np.float32(1.0)
                yield from zip(group, map(int, labels.read(buffer_size)), strict=True)
                left -= buffer_size

    return reader


def _images() -> tuple[str, str]:
    return (
        download(TRAIN_IMAGE_URL, "mnist", TRAIN_IMAGE_MD5),
        download(TRAIN_LABEL_URL, "mnist", TRAIN_LABEL_MD5),
    )


def _test_images() -> tuple[str, str]:
    return (
        download(TEST_IMAGE_URL, "mnist", TEST_IMAGE_MD5),
        download(TEST_LABEL_URL, "mnist", TEST_LABEL_MD5),
    )


def train() -> Reader:
    """A reader of the 60,000 digits to learn from."""
    return lambda: reader_creator(*_images(), 100)()


def test() -> Reader:
    """A reader of the 10,000 digits to test with."""
    return lambda: reader_creator(*_test_images(), 100)()


def fetch() -> None:
    """See that the files are there."""
    _images()
    _test_images()
