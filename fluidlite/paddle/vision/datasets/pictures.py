"""Pictures with labels: what all data sets of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingExtraError
from fluidlite.paddle.dataset import common
from fluidlite.paddle.framework import get_default_dtype
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.vision.image import get_image_backend

__all__ = ["Pictures", "as_image", "file_or_download"]


def file_or_download(given: str | None, name: str, download: bool, folder: str, url: str, md5: str) -> str:
    """The path that was given, or that of a data set's file in `paddle.dataset`'s folder."""
    if given is not None:
        return given
    assert download, f"{name} is not set and downloading automatically is disabled"
    return common.download(url, folder, md5)


def as_image(pixels: Any) -> Any:
    """An array of bytes as Pillow's image; MissingExtraError without Pillow."""
    try:
        from PIL import Image  # of the extra [vision]
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install fluidlite[vision]") from error
    return Image.fromarray(pixels)


class Pictures(Dataset):
    """Pictures and what belongs to each. `backend` is "pil" for images and "cv2" for arrays, by default as
    `paddle.vision.set_image_backend` chose; `transform` is applied to each picture.
    """

    def __init__(
        self, mode: str, modes: str, transform: Callable[[Any], Any] | None, backend: str | None
    ) -> None:
        names = modes.split()
        listed = f"'{names[0]}' or '{names[1]}'"
        if len(names) == 3:
            listed = f"'{names[0]}', '{names[1]}' or '{names[2]}'"
        assert mode.lower() in names, f"mode should be {listed}, but got {mode}"
        chosen = get_image_backend() if backend is None else backend
        if chosen not in ("pil", "cv2"):
            raise ValueError(f"Expected backend are one of ['pil', 'cv2'], but got {chosen}")
        self.mode, self.transform, self.backend = mode.lower(), transform, chosen
        self.dtype = str(get_default_dtype())

    def _shown(self, pixels: Any) -> Any:
        """A picture of bytes as samples have it."""
        image = as_image(pixels) if self.backend == "pil" else pixels
        image = self.transform(image) if self.transform is not None else image
        return image if self.backend == "pil" else np.asarray(image).astype(self.dtype)
