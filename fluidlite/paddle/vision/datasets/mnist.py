"""`paddle.vision.datasets.mnist`: handwritten digits, and clothes in the same format."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.paddle.dataset import mnist
from fluidlite.paddle.vision.datasets.pictures import Pictures, file_or_download

__all__ = ["MNIST", "FashionMNIST"]


class MNIST(Pictures):
    """60,000 digits to learn from ("train"), or 10,000 to test with ("test"): 28 x 28 pixels and a label."""

    NAME = "mnist"
    URL_PREFIX = mnist.URL_PREFIX
    # part -> the MD5 sums of its images and labels
    _SUMS: ClassVar = {
        "train": (mnist.TRAIN_IMAGE_MD5, mnist.TRAIN_LABEL_MD5),
        "test": (mnist.TEST_IMAGE_MD5, mnist.TEST_LABEL_MD5),
    }

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, "train test", transform, backend)
        part = "train" if self.mode == "train" else "t10k"
        sums, url = self._SUMS[self.mode], self.URL_PREFIX + part
        self.image_path = file_or_download(
            image_path, "image_path", download, self.NAME, f"{url}-images-idx3-ubyte.gz", sums[0]
        )
        self.label_path = file_or_download(
            label_path, "label_path", download, self.NAME, f"{url}-labels-idx1-ubyte.gz", sums[1]
        )
        self.images = _elements(self.image_path, 16).reshape(-1, 28, 28)
        self.labels = _elements(self.label_path, 8).astype("int64").reshape(-1, 1)
        if len(self.images) != len(self.labels):
            raise FormatError(
                f"{self.image_path} has {len(self.images)} images, but {self.label_path} has "
                f"{len(self.labels)} labels"
            )

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._shown(self.images[idx]), self.labels[idx]

    def __len__(self) -> int:
        return len(self.labels)


class FashionMNIST(MNIST):
    """70,000 pictures of clothes: 28 x 28 pixels and one of ten labels."""

    NAME = "fashion-mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/fashion_mnist/"
    _SUMS: ClassVar = {
        "train": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
        "test": ("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
    }


def _elements(path: str, head: int) -> Any:
    """The bytes of a file in the IDX format behind its head, which must have as many as it says."""
    with gzip.open(path) as source:
        sizes = np.frombuffer(source.read(head), ">u4")[1:]
        count = 1
        for size in sizes:
            count *= int(size)
        # no more than what is wanted, so that a packed file of zeros fills no memory
        found = source.read(min(count, 1 << 32))
    if len(found) != count or (head == 16 and tuple(sizes[1:]) != (28, 28)):
        raise FormatError(f"{path}: {len(found)} elements, but its head says {[*map(int, sizes)]}")
    return np.frombuffer(found, np.uint8)
