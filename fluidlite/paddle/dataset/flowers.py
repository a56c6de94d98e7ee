"""`paddle.dataset.flowers`: images of flowers of 102 kinds."""

from __future__ import annotations

import functools
import itertools
import os
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.io

from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.image import load_image_bytes, simple_transform
from fluidlite.paddle.dataset.texts import open_member
from fluidlite.reading.decorators import map_readers, xmap_readers

__all__ = ["default_mapper", "fetch", "test", "test_mapper", "train", "train_mapper", "valid"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/flowers/102flowers.tgz"
LABEL_URL = "http://paddlemodels.bj.bcebos.com/flowers/imagelabels.mat"
SETID_URL = "http://paddlemodels.bj.bcebos.com/flowers/setid.mat"
DATA_MD5 = "52808999861908f626f3c1f4e79d11fa"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"
# the larger set is the one to learn from, though its authors meant it otherwise
TRAIN_FLAG = "tstid"
TEST_FLAG = "trnid"
VALID_FLAG = "valid"


def default_mapper(is_train: bool, sample: Any) -> Any:
    """3x224x224 values of an image minus the mean of each channel, and its label."""
    image, label = sample
    image = load_image_bytes(image)
    image = simple_transform(image, 256, 224, is_train, mean=[103.94, 116.78, 123.68])
    return image.flatten().astype(np.float32), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def labels_of(label_file: str, setid_file: str, flag: str) -> dict[str, int]:
    """The name of each image of a set in the archive -> its label, from 1 on."""
    labels = scipy.io.loadmat(label_file)["labels"][0]
    chosen = scipy.io.loadmat(setid_file)[flag][0]
    return {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) for number in chosen}


def _pictures(flag: str, cycle: bool) -> Iterator[Any]:
    """The bytes of each image of a set, and its label from 0 on; again and again with `cycle`."""
    tables = download(LABEL_URL, "flowers", LABEL_MD5), download(SETID_URL, "flowers", SETID_MD5)
    label_of = labels_of(*tables, flag)
    path = download(DATA_URL, "flowers", DATA_MD5)
    for _ in itertools.count() if cycle else range(1):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name in label_of:
                    yield open_member(archive, member).read(), label_of[member.name] - 1


def _reader(flag: str, mapper: Callable[..., Any], buffered_size: int, use_xmap: bool, cycle: bool) -> Reader:
    pictures = functools.partial(_pictures, flag, cycle)
    if use_xmap:
        return xmap_readers(mapper, pictures, min(4, os.cpu_count() or 1), buffered_size)
    return map_readers(mapper, pictures)


def train(
    mapper: Callable[..., Any] = train_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """A reader of the 6,149 images to learn from; threads read images ahead with `use_xmap`."""
    return _reader(TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle)


def test(
    mapper: Callable[..., Any] = test_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """A reader of the 1,020 images to test with."""
    return _reader(TEST_FLAG, mapper, buffered_size, use_xmap, cycle)


def valid(
    mapper: Callable[..., Any] = test_mapper, buffered_size: int = 1024, use_xmap: bool = True
) -> Reader:
    """A reader of the 1,020 images to choose settings with."""
    return _reader(VALID_FLAG, mapper, buffered_size, use_xmap, False)


def fetch() -> None:
    """See that the files are there."""
    download(DATA_URL, "flowers", DATA_MD5)
    download(LABEL_URL, "flowers", LABEL_MD5)
    download(SETID_URL, "flowers", SETID_MD5)
