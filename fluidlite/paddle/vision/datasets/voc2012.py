"""`paddle.vision.datasets.voc2012`: pictures, and for each pixel the kind of thing that it belongs to."""

from __future__ import annotations

import io
import tarfile
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.paddle.dataset import voc2012
from fluidlite.paddle.dataset.image import open_picture
from fluidlite.paddle.dataset.texts import open_member
from fluidlite.paddle.vision.datasets.pictures import Pictures, as_image, file_or_download

__all__ = ["VOC2012"]

VOC_URL = "https://dataset.bj.bcebos.com/voc/VOCtrainval_11-May-2012.tar"
_PARTS = {"train": "trainval", "valid": "val", "test": "train"}


class VOC2012(Pictures):
    """2,913 pictures to learn from ("train"), 1,449 of them to choose settings with ("valid"), the others to
    test with ("test"); each with the kinds of its pixels.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, "train valid test", transform, backend)
        file = (voc2012.CACHE_DIR, VOC_URL, voc2012.VOC_MD5)
        self.data_file = file_or_download(data_file, "data_file", download, *file)
        self._archive = tarfile.open(self.data_file)  # noqa: SIM115  # read when pictures are asked for
        weakref.finalize(self, self._archive.close)
        names = open_member(self._archive, voc2012.SET_FILE.format(_PARTS[self.mode]))
        self._names = names.read().decode().split()

    def _pixels(self, form: str, idx: int) -> Any:
        data = open_member(self._archive, form.format(self._names[idx])).read()
        return np.array(open_picture(io.BytesIO(data)))

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        picture = self._shown(self._pixels(voc2012.DATA_FILE, idx))
        kinds = self._pixels(voc2012.LABEL_FILE, idx)
        return picture, as_image(kinds) if self.backend == "pil" else kinds.astype(self.dtype)

    def __len__(self) -> int:
        return len(self._names)
