"""`paddle.vision.image`: the library that pictures are read with."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import MissingExtraError
from fluidlite.base.records import dataclass
from fluidlite.paddle.dataset.image import open_picture

__all__ = ["get_image_backend", "image_load", "set_image_backend"]

_BACKENDS = ["pil", "cv2", "tensor"]


@dataclass
class _ImageBackend:
    backend: str = "pil"


_chosen = _ImageBackend()


def set_image_backend(backend: str) -> None:
    """Read pictures as Pillow's images ("pil"), as OpenCV's arrays ("cv2"), or as arrays of programs
    ("tensor").
    """
    _chosen.backend = _checked(backend)


def get_image_backend() -> str:
    """The library that `set_image_backend` chose: "pil" from the start."""
    return _chosen.backend


def _checked(backend: str) -> str:
    if backend not in _BACKENDS:
        raise ValueError(f"Expected backend are one of {_BACKENDS}, but got {backend}")
    return backend


def image_load(path: str, backend: str | None = None) -> Any:
    """The picture in a file, as the chosen library has it."""
    kind = get_image_backend() if backend is None else _checked(backend)
    if kind == "pil":
        image = open_picture(path)
        image.load()  # which closes the file
        return image
    return _cv2().imread(path)


def _cv2() -> Any:
    try:
        import cv2  # a large library that nothing else needs
    except ImportError as error:
        raise MissingExtraError("backend='cv2' needs OpenCV: pip install opencv-python") from error
    return cv2
