"""`paddle.dataset.voc2012`: images, and for each pixel the kind of thing that it belongs to."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.paddle.dataset.common import Reader, download
from fluidlite.paddle.dataset.image import open_picture
from fluidlite.paddle.dataset.texts import open_member

__all__ = ["fetch", "test", "train", "val"]

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
SET_FILE = "VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt"
DATA_FILE = "VOCdevkit/VOC2012/JPEGImages/{}.jpg"
LABEL_FILE = "VOCdevkit/VOC2012/SegmentationClass/{}.png"
CACHE_DIR = "voc2012"


def _reader(sub_name: str) -> Reader:
    def reader() -> Iterator[Any]:
        with tarfile.open(download(VOC_URL, CACHE_DIR, VOC_MD5)) as archive:
            names = open_member(archive, SET_FILE.format(sub_name)).read().decode().split()
            for name in names:
                files = [open_member(archive, form.format(name)).read() for form in (DATA_FILE, LABEL_FILE)]
                picture, kinds = (np.array(open_picture(io.BytesIO(data))) for data in files)
                yield picture, kinds

    return reader


def train() -> Reader:
    """A reader of all 2,913 images."""
    return _reader("trainval")


def test() -> Reader:
    """A reader of 1,464 of the images."""
    return _reader("train")


def val() -> Reader:
    """A reader of the other 1,449 images."""
    return _reader("val")


def fetch() -> None:
    """See that the file is there."""
    download(VOC_URL, CACHE_DIR, VOC_MD5)
