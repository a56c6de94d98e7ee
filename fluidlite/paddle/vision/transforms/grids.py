"""Transforms that move, cut or erase pixels, and those that make numbers of them.

Their random numbers come from Python's `random` and, where 2.6.2 takes them from there, `numpy.random`: the
same seeds give the same images.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.paddle.vision.transforms import functional as F
from fluidlite.paddle.vision.transforms.base import BaseTransform
from fluidlite.paddle.vision.transforms.functional import Picture, Size

__all__ = [
    "CenterCrop",
    "Normalize",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ToTensor",
    "Transpose",
]

Keys = Sequence[str] | None
_TRIES = 10  # draws of a rectangle before a transform gives up


class Resize(BaseTransform):
    """`resize` to `size`."""

    def __init__(self, size: Size, interpolation: str = "bilinear", keys: Keys = None) -> None:
        super().__init__(keys)
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, img: Picture) -> Picture:
        return F.resize(img, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """`center_crop` of `size`."""

    def __init__(self, size: Size, keys: Keys = None) -> None:
        super().__init__(keys)
        self.size = F.pair(size)

    def _apply_image(self, img: Picture) -> Picture:
        return F.center_crop(img, self.size)


class Pad(BaseTransform):
    """`pad` by `padding`."""

    def __init__(
        self, padding: Size, fill: Any = 0, padding_mode: str = "constant", keys: Keys = None
    ) -> None:
        super().__init__(keys)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply_image(self, img: Picture) -> Picture:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomHorizontalFlip(BaseTransform):
    """`hflip` with the probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None) -> None:
        super().__init__(keys)
        self.prob = _probability(prob)

    def _apply_image(self, img: Picture) -> Picture:
        return F.hflip(img) if random.random() < self.prob else img


class RandomVerticalFlip(BaseTransform):
    """`vflip` with the probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None) -> None:
        super().__init__(keys)
        self.prob = _probability(prob)

    def _apply_image(self, img: Picture) -> Picture:
        return F.vflip(img) if random.random() < self.prob else img


def _probability(prob: float) -> float:
    if not 0 <= prob <= 1:
        raise ValueError(f"a probability must be between 0 and 1, not {prob}")
    return prob


class RandomCrop(BaseTransform):
    """A rectangle of `size` (height, width) anywhere in the image, after `padding`.

    pad_if_needed: widen an image that is smaller than `size`, on both sides.
    """

    def __init__(
        self,
        size: Size,
        padding: Size | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.size = F.pair(size)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def _apply_image(self, img: Picture) -> Picture:
        height, width = self.size
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        if self.pad_if_needed:
            img = self._widened(img, height, width)
        whole_width, whole_height = F.size_of(img)
        if (whole_width, whole_height) == (width, height):
            return img
        top = random.randint(0, whole_height - height)
        left = random.randint(0, whole_width - width)
        return F.crop(img, top, left, height, width)

    def _widened(self, img: Picture, height: int, width: int) -> Picture:
        if F.size_of(img)[0] < width:
            img = F.pad(img, (width - F.size_of(img)[0], 0), self.fill, self.padding_mode)
        if F.size_of(img)[1] < height:
            img = F.pad(img, (0, height - F.size_of(img)[1]), self.fill, self.padding_mode)
        return img


class RandomResizedCrop(BaseTransform):
    """A rectangle with a share of the area between `scale`'s and a ratio of width to height between
    `ratio`'s, resized to `size`.
    """

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.size = F.pair(size)
        self.scale, self.ratio, self.interpolation = scale, ratio, interpolation

    def _apply_image(self, img: Picture) -> Picture:
        width, height = F.size_of(img)
        top, left, rows, columns = self._rectangle(width, height)
        return F.resize(F.crop(img, top, left, rows, columns), self.size, self.interpolation)

    def _rectangle(self, width: int, height: int) -> tuple[int, int, int, int]:
        for _ in range(_TRIES):
            area = np.random.uniform(self.scale[0], self.scale[1]) * width * height
            ratio = math.exp(np.random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < columns <= width and 0 < rows <= height:
                return random.randint(0, height - rows), random.randint(0, width - columns), rows, columns
        columns, rows = width, height  # the largest in the middle whose ratio is allowed
        if width / height < min(self.ratio):
            rows = round(width / min(self.ratio))
        elif width / height > max(self.ratio):
            columns = round(height * max(self.ratio))
        return (height - rows) // 2, (width - columns) // 2, rows, columns


class RandomRotation(BaseTransform):
    """`rotate` by an angle between `degrees`' two, or between -degrees and degrees."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _range("degrees", degrees)
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def _get_params(self, inputs: tuple[Any, ...]) -> float:
        return random.uniform(*self.degrees)

    def _apply_image(self, img: Picture) -> Picture:
        return F.rotate(img, self.params, self.interpolation, self.expand, self.center, self.fill)


def _range(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    """Both ends of a range; one number stands for itself and its negative."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} must not be negative if it is a single number, but got {value}")
        return -value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be one number or two, but got {value}")
    low, high = value
    return low, high


class RandomAffine(BaseTransform):
    """`affine` by an angle of `degrees`, a move of at most `translate` (shares of width and height), a scale
    of `scale` and a shear of `shear`: one number, both ends along x, or both ends along x and along y.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Sequence[float] | None = None,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _range("degrees", degrees)
        if translate is not None and not all(0 <= share <= 1 for share in translate):
            raise ValueError(
                f"translate must hold fractions of the size, between 0 and 1, but got {translate}"
            )
        if scale is not None and not all(factor > 0 for factor in scale):
            raise ValueError(f"scale must hold positive numbers, but got {scale}")
        self.translate, self.scale = translate, scale
        self.shear = (-shear, shear) if isinstance(shear, (int, float)) else shear
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def _get_params(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        # in this order, and nothing for what is not asked for: the same seeds give 2.6.2's pictures
        angle = random.uniform(*self.degrees)
        moves = [
            share * size for share, size in zip(self.translate or (), F.size_of(inputs[0]), strict=False)
        ]
        translate = [int(random.uniform(-move, move)) for move in moves] or [0, 0]
        scale = 1.0 if self.scale is None else random.uniform(*self.scale)
        ends = list(self.shear or ())
        shear = [random.uniform(*ends[at : at + 2]) for at in range(0, len(ends), 2)]
        return angle, translate, scale, (*shear, 0.0, 0.0)[:2]

    def _apply_image(self, img: Picture) -> Picture:
        angle, translate, scale, shear = self.params
        return F.affine(img, angle, translate, scale, shear, self.interpolation, self.fill, self.center)


class RandomPerspective(BaseTransform):
    """`perspective`, with the probability `prob`, to corners that are moved inwards by at most
    `distortion_scale` of half the size.
    """

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: Any = 0,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.prob = _probability(prob)
        self.distortion_scale = _probability(distortion_scale)
        self.interpolation, self.fill = interpolation, fill

    def get_params(self, width: int, height: int, distortion_scale: float) -> tuple[Any, Any]:
        """The corners, and where they come to lie: each (x, y), clockwise from the upper left one."""
        across = int(distortion_scale * width / 2) + 1
        down = int(distortion_scale * height / 2) + 1
        left, right = (0, across), (width - across, width)
        top, bottom = (0, down), (height - down, height)
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
        ends = [[int(random.uniform(*x)), int(random.uniform(*y))] for x, y in corners]
        return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends

    def _apply_image(self, img: Picture) -> Picture:
        if random.random() >= self.prob:
            return img
        start, end = self.get_params(*F.size_of(img), self.distortion_scale)
        return F.perspective(img, start, end, self.interpolation, self.fill)


class RandomErasing(BaseTransform):
    """`erase`, with the probability `prob`, of a rectangle with a share of the area between `scale`'s and a
    ratio of height to width between `ratio`'s, by `value`: a number, one a channel, or "random".
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.prob = _probability(prob)
        if isinstance(value, str) and value != "random":
            raise ValueError(f"value must be one number, one number per channel, or 'random', not {value!r}")
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def _apply_image(self, img: Picture) -> Picture:
        if random.random() >= self.prob:
            return img
        width, height = F.size_of(img)
        for _ in range(_TRIES):
            area = np.random.uniform(self.scale[0], self.scale[1]) * width * height
            ratio = math.exp(np.random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            rows, columns = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if rows < height and columns < width:
                # drawn after the size: the same seeds give 2.6.2's rectangles
                value = self._drawn(img, rows, columns)
                top = np.random.randint(0, height - rows + 1)
                left = np.random.randint(0, width - columns + 1)
                return F.erase(img, top, left, rows, columns, value, self.inplace)
        return img

    def _drawn(self, img: Picture, rows: int, columns: int) -> Any:
        if not isinstance(self.value, str):
            return self.value
        return np.random.normal(size=(rows, columns, *np.asarray(img).shape[2:]))


class Normalize(BaseTransform):
    """`normalize` by `mean` and `std`."""

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, (int, float)) else mean
        self.std = [std] * 3 if isinstance(std, (int, float)) else std
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, img: Picture) -> Any:
        return F.normalize(img, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """An array with its dimensions in another order, by default channels first."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Keys = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, img: Picture) -> Any:
        array = np.asarray(img)
        return (array[..., None] if array.ndim == 2 else array).transpose(self.order)


class ToTensor(BaseTransform):
    """`to_tensor`."""

    def __init__(self, data_format: str = "CHW", keys: Keys = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Picture) -> Any:
        return F.to_tensor(img, self.data_format)
