"""`paddle.vision.datasets.flowers`: pictures of flowers of 102 kinds."""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.paddle.dataset import flowers
from fluidlite.paddle.dataset.image import open_picture
from fluidlite.paddle.dataset.texts import open_member
from fluidlite.paddle.vision.datasets.pictures import Pictures, file_or_download

__all__ = ["Flowers"]

_FLAGS = {"train": flowers.TRAIN_FLAG, "valid": flowers.VALID_FLAG, "test": flowers.TEST_FLAG}


class Flowers(Pictures):
    """6,149 pictures to learn from ("train"), 1,020 to choose settings with ("valid") or 1,020 to test with
    ("test"), each with a label from 1 on.
    """

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, "train valid test", transform, backend)
        files = [
            file_or_download(given, name, download, "flowers", url, md5)
            for given, name, url, md5 in (
                (data_file, "data_file", flowers.DATA_URL, flowers.DATA_MD5),
                (label_file, "label_file", flowers.LABEL_URL, flowers.LABEL_MD5),
                (setid_file, "setid_file", flowers.SETID_URL, flowers.SETID_MD5),
            )
        ]
        self.data_file = files[0]
        self._labels = list(flowers.labels_of(files[1], files[2], _FLAGS[self.mode]).items())

    @functools.cached_property
    def _pictures(self) -> dict[str, bytes]:
        """The files of the set: 300 MB, because a packed archive can only be read from its beginning."""
        names = {name for name, _ in self._labels}
        with tarfile.open(self.data_file) as archive:
            chosen = (member for member in archive if member.name in names)
            return {member.name: open_member(archive, member).read() for member in chosen}

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        name, label = self._labels[idx]
        picture = open_picture(io.BytesIO(self._pictures[name]))
        return self._shown(np.array(picture)), np.array([label], "int64")

    def __len__(self) -> int:
        return len(self._labels)
