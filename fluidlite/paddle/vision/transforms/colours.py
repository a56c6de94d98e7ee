"""Transforms of colours, whose factors are drawn from Python's `random`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from fluidlite.paddle.vision.transforms import functional as F
from fluidlite.paddle.vision.transforms.base import BaseTransform, Compose
from fluidlite.paddle.vision.transforms.functional import Picture

__all__ = [
    "BrightnessTransform",
    "ColorJitter",
    "ContrastTransform",
    "Grayscale",
    "HueTransform",
    "SaturationTransform",
]

Keys = Sequence[str] | None


def _factors(
    value: float | Sequence[float],
    name: str,
    center: float = 1.0,
    least: float = 0.0,
    most: float = float("inf"),
) -> tuple[float, float] | None:
    """The range of a factor around `center`: `value` to each side, or both ends; None for no change."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} must not be negative if it is a single number, but got {value}")
        low, high = center - value, center + value
        if center:  # hue may go below zero, the others end there
            low = max(low, 0.0)
    else:
        low, high = value
    if not least <= low <= high <= most:
        raise ValueError(f"{name} must be between {least} and {most}, but got {value}")
    return None if low == high == center else (low, high)


class _Factor(BaseTransform):
    """A change of colour by a factor that each call draws."""

    def __init__(self, value: tuple[float, float] | None, keys: Keys) -> None:
        super().__init__(keys)
        self.value = value

    def _apply_image(self, img: Picture) -> Picture:
        return img if self.value is None else self._changed(img, random.uniform(*self.value))

    def _changed(self, img: Picture, factor: float) -> Picture:
        raise self._refused("image")


class BrightnessTransform(_Factor):
    """`adjust_brightness` by a factor between max(0, 1 - value) and 1 + value, or between value's ends."""

    def __init__(self, value: float | Sequence[float], keys: Keys = None) -> None:
        super().__init__(_factors(value, "brightness"), keys)

    def _changed(self, img: Picture, factor: float) -> Picture:
        return F.adjust_brightness(img, factor)


class ContrastTransform(_Factor):
    """`adjust_contrast` by a factor between max(0, 1 - value) and 1 + value, or between value's ends."""

    def __init__(self, value: float | Sequence[float], keys: Keys = None) -> None:
        super().__init__(_factors(value, "contrast"), keys)

    def _changed(self, img: Picture, factor: float) -> Picture:
        return F.adjust_contrast(img, factor)


class SaturationTransform(_Factor):
    """`adjust_saturation` by a factor between max(0, 1 - value) and 1 + value, or between value's ends."""

    def __init__(self, value: float | Sequence[float], keys: Keys = None) -> None:
        super().__init__(_factors(value, "saturation"), keys)

    def _changed(self, img: Picture, factor: float) -> Picture:
        return F.adjust_saturation(img, factor)


class HueTransform(_Factor):
    """`adjust_hue` by a factor between -value and value (at most 0.5), or between value's ends."""

    def __init__(self, value: float | Sequence[float], keys: Keys = None) -> None:
        super().__init__(_factors(value, "hue", 0.0, -0.5, 0.5), keys)

    def _changed(self, img: Picture, factor: float) -> Picture:
        return F.adjust_hue(img, factor)


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue changed in an order that each call draws."""

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
        keys: Keys = None,
    ) -> None:
        super().__init__(keys)
        self.brightness, self.contrast = brightness, contrast
        self.saturation, self.hue = saturation, hue

    def _get_params(self, inputs: tuple[Any, ...]) -> Compose:
        changes = [
            BrightnessTransform(self.brightness, self.keys),
            ContrastTransform(self.contrast, self.keys),
            SaturationTransform(self.saturation, self.keys),
            HueTransform(self.hue, self.keys),
        ]
        random.shuffle(changes)
        return Compose(changes)

    def _apply_image(self, img: Picture) -> Picture:
        return self.params(img)


class Grayscale(BaseTransform):
    """`to_grayscale` with so many channels."""

    def __init__(self, num_output_channels: int = 1, keys: Keys = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, img: Picture) -> Picture:
        return F.to_grayscale(img, self.num_output_channels)
