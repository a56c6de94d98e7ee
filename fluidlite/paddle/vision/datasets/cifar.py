"""`paddle.vision.datasets.cifar`: pictures of 32 x 32 pixels with one of 10 or of 100 labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fluidlite.paddle.dataset import cifar
from fluidlite.paddle.vision.datasets.pictures import Pictures, file_or_download

__all__ = ["Cifar10", "Cifar100"]


class Cifar10(Pictures):
    """50,000 pictures to learn from ("train"), or 10,000 to test with ("test"), with one of ten labels."""

    _FILE = (cifar.CIFAR10_URL, cifar.CIFAR10_MD5)
    _PARTS: ClassVar = {"train": "data_batch", "test": "test_batch"}

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, "train test", transform, backend)
        self.data_file = file_or_download(data_file, "data_file", download, "cifar", *self._FILE)
        self.data = list(cifar.pictures(self.data_file, self._PARTS[self.mode]))

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, label = self.data[idx]
        pixels = np.ascontiguousarray(image.reshape(3, 32, 32).transpose(1, 2, 0))
        return self._shown(pixels), np.array(label, "int64")

    def __len__(self) -> int:
        return len(self.data)


class Cifar100(Cifar10):
    """The same number of pictures with one of a hundred labels."""

    _FILE = (cifar.CIFAR100_URL, cifar.CIFAR100_MD5)
    _PARTS: ClassVar = {"train": "train", "test": "test"}
