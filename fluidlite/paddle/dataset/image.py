"""`paddle.dataset.image`: images as arrays, in the order blue, green, red, and changes of them.

1.8.5 calls OpenCV. Pillow reads the files here, and `resize_short` computes as OpenCV does, so the pixels are
the same.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingExtraError
from fluidlite.paddle.dataset.texts import open_member

__all__ = [
    "batch_images_from_tar",
    "center_crop",
    "left_right_flip",
    "load_and_transform",
    "load_image",
    "load_image_bytes",
    "open_picture",
    "random_crop",
    "resize_short",
    "simple_transform",
    "to_chw",
]

_BITS = 11  # of a weight after the point
_SHARPNESS = -0.75  # of the cubic


def open_picture(source: Any) -> Any:
    """Pillow's image in a file; MissingExtraError without Pillow."""
    try:
        from PIL import Image  # of the extra [vision]
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install fluidlite[vision]") from error
    return Image.open(source)


def batch_images_from_tar(
    data_file: str, dataset_name: str, img2label: Mapping[str, Any], num_per_batch: int = 1024
) -> str:
    """Gather an archive's images that have labels in files of so many; the path of a list of these files,
    which may be there from before.
    """
    folder = f"{data_file}_batch"
    out_path = f"{folder}/{dataset_name}"
    listed = f"{folder}/{dataset_name}.txt"
    if os.path.exists(out_path):
        return listed
    os.makedirs(out_path)
    samples = []
    with tarfile.open(data_file) as archive:
        for member in archive:
            if member.name in img2label:
                samples.append((open_member(archive, member).read(), img2label[member.name]))
    paths = []
    for number, start in enumerate(range(0, len(samples), num_per_batch)):
        group = samples[start : start + num_per_batch]
        paths.append(os.path.abspath(f"{out_path}/batch_{number}"))
        with open(paths[-1], "wb") as out:
            batch = {"label": [label for _, label in group], "data": [data for data, _ in group]}
            pickle.dump(batch, out, protocol=2)
    with open(listed, "w", encoding="utf8") as out:
        out.writelines(f"{path}\n" for path in paths)
    return listed


def load_image_bytes(bytes: bytes, is_color: bool = True) -> Any:
    """An image from the bytes of its file: HxWx3, or HxW without `is_color`."""
    picture = open_picture(io.BytesIO(bytes))
    if not is_color:
        return np.asarray(picture.convert("L"))
    return np.ascontiguousarray(np.asarray(picture.convert("RGB"))[:, :, ::-1])


def load_image(file: str, is_color: bool = True) -> Any:
    """An image from a file."""
    with open(file, "rb") as source:
        return load_image_bytes(source.read(), is_color)


def resize_short(im: Any, size: int) -> Any:
    """An image whose shorter edge is `size`, by cubic interpolation."""
    height, width = im.shape[:2]
    if height > width:
        return _resized(im, size * height // width, size)
    return _resized(im, size, size * width // height)


def _resized(im: Any, height: int, width: int) -> Any:
    if im.dtype != np.uint8:
        raise TypeError(f"images must hold integers from 0 to 255, not {im.dtype}")
    if (height, width) == im.shape[:2]:
        return im.copy()
    rows, row_weights = _taps(im.shape[0], height)
    columns, column_weights = _taps(im.shape[1], width)
    more = (1,) * (im.ndim - 2)
    wide = sum(
        im[:, columns[:, tap]].astype(np.int64) * column_weights[:, tap].reshape(1, -1, *more)
        for tap in range(4)
    )
    # along rows in whole numbers, then in single precision and from the last to the first: so does OpenCV
    parts = [
        np.asarray(wide)[rows[:, tap]].astype(np.float32)
        * (row_weights[:, tap].astype(np.float32) * np.float32(2.0 ** (-2 * _BITS))).reshape(-1, 1, *more)
        for tap in range(4)
    ]
    full = parts[0] + (parts[1] + (parts[2] + parts[3]))
    return np.clip(np.rint(full), 0, 255).astype(np.uint8)


@functools.lru_cache(maxsize=8)
def _taps(old: int, new: int) -> tuple[Any, Any]:
    """For each new pixel the four old ones that it is made of, and their weights times 2^11."""
    where = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(where).astype(np.int64)
    x = (where - first).astype(np.float32)
    a = np.float32(_SHARPNESS)
    one = np.float32(1)
    left = ((a * (x + one) - 5 * a) * (x + one) + 8 * a) * (x + one) - 4 * a
    near = ((a + 2) * x - (a + 3)) * x * x + one
    after = ((a + 2) * (one - x) - (a + 3)) * (one - x) * (one - x) + one
    weights = np.stack([left, near, after, one - left - near - after], axis=1)
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, old - 1)
    return places, np.rint(weights * (1 << _BITS)).astype(np.int64)


def to_chw(im: Any, order: Sequence[int] = (2, 0, 1)) -> Any:
    """An image with its channels first."""
    assert len(im.shape) == len(order)
    return im.transpose(order)


def center_crop(im: Any, size: int, is_color: bool = True) -> Any:
    """The middle of an image, `size` by `size`."""
    top = (im.shape[0] - size) // 2
    left = (im.shape[1] - size) // 2
    return im[top : top + size, left : left + size]


def random_crop(im: Any, size: int, is_color: bool = True) -> Any:
    """A part of an image, `size` by `size`, drawn by `numpy.random`."""
    top = np.random.randint(0, im.shape[0] - size + 1)
    left = np.random.randint(0, im.shape[1] - size + 1)
    return im[top : top + size, left : left + size]


def left_right_flip(im: Any, is_color: bool = True) -> Any:
    """An image as in a mirror."""
    return im[:, ::-1]


def simple_transform(
    im: Any, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> Any:
    """An image for a network: resized, cut (and mirrored half of the time in training), channels first,
    minus a mean of each channel or of each pixel.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size, is_color)
        if np.random.randint(2) == 0:
            im = left_right_flip(im, is_color)
    else:
        im = center_crop(im, crop_size, is_color)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype(np.float32)
    if mean is not None:
        mean = np.array(mean, dtype=np.float32)
        im -= mean[:, np.newaxis, np.newaxis] if mean.ndim == 1 and is_color else mean
    return im


def load_and_transform(
    filename: str, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> Any:
    """An image from a file, for a network."""
    return simple_transform(load_image(filename, is_color), resize_size, crop_size, is_train, is_color, mean)
