"""`paddle.vision.datasets.folder`: pictures in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.paddle.io.datasets import Dataset
from fluidlite.paddle.vision.image import get_image_backend, image_load

__all__ = ["DatasetFolder", "ImageFolder"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_valid_extension(filename: str, extensions: Sequence[str]) -> bool:
    """True if a file's name ends with one of `extensions`, in small letters or not."""
    return filename.lower().endswith(tuple(extensions))


def _load(path: str) -> Any:
    """The picture in a file: Pillow's in colours, or OpenCV's if that is chosen."""
    return image_load(path) if get_image_backend() == "cv2" else image_load(path, "pil").convert("RGB")


def _files(folder: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """The files in a folder and those inside it that fit, sorted."""
    for root, _, names in sorted(os.walk(folder, followlinks=True)):
        for name in sorted(names):
            path = os.path.join(root, name)
            if fits(path):
                yield path


class _Folder(Dataset):
    """Pictures that are read when they are asked for."""

    def __init__(
        self,
        root: str,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ) -> None:
        self.root, self.transform, self.loader = root, transform, loader or _load
        self.extensions: Sequence[str] | None = extensions
        if extensions is None and is_valid_file is None:
            self.extensions = IMG_EXTENSIONS
        self._is_valid_file = is_valid_file
        self._find()

    def _find(self) -> None:
        """List the samples; RuntimeError where there are none."""
        abstract()

    def _fits(self, path: str) -> bool:
        if self._is_valid_file is not None:
            return self._is_valid_file(path)
        return has_valid_extension(path, self.extensions or ())

    def _found_no(self, what: str) -> RuntimeError:
        kinds = ",".join(self.extensions or ())
        where = f"Found 0 {what} in subfolders of: {self.root}"
        return RuntimeError(f"{where}\nSupported extensions are: {kinds}")

    def _loaded(self, path: str) -> Any:
        sample = self.loader(path)
        return sample if self.transform is None else self.transform(sample)


class DatasetFolder(_Folder):
    """The pictures below the folders in `root`, each of which is a class.

    `loader(path)` reads one (by default Pillow), `extensions` or `is_valid_file(path)` choose files,
    `transform` is applied to each picture.
    """

    def _find(self) -> None:
        root = self.root
        with os.scandir(root) as entries:
            self.classes = sorted(entry.name for entry in entries if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in _files(os.path.join(root, name), self._fits)
        ]
        if not self.samples:
            raise self._found_no("directories")
        self.targets = [number for _, number in self.samples]
        self.dtype = "float32"

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        return self._loaded(path), target

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(_Folder):
    """All pictures in a folder and in those inside it, without labels; see `DatasetFolder`."""

    def _find(self) -> None:
        self.samples = list(_files(self.root, self._fits))
        if not self.samples:
            raise self._found_no("files")

    def __getitem__(self, index: int) -> list[Any]:
        return [self._loaded(self.samples[index])]

    def __len__(self) -> int:
        return len(self.samples)
