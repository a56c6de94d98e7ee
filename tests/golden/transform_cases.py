"""Calls of `paddle.vision.transforms`: name -> function of (the module, a picture). Run under PaddlePaddle to
record them and under FluidLite to compare.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

WIDTH, HEIGHT = 15, 12


def pixels() -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, (HEIGHT, WIDTH, 3)).astype("uint8")


FUNCTIONS: dict[str, Any] = {
    "resize": lambda T, x: T.resize(x, 7),
    "resize_bicubic": lambda T, x: T.resize(x, (13, 21), "bicubic"),
    "resize_nearest": lambda T, x: T.resize(x, (13, 21), "nearest"),
    "crop": lambda T, x: T.crop(x, 3, 4, 10, 11),
    "center_crop": lambda T, x: T.center_crop(x, (7, 8)),
    "hflip": lambda T, x: T.hflip(x),
    "vflip": lambda T, x: T.vflip(x),
    "pad_colour": lambda T, x: T.pad(x, 2, (1, 2, 3)),
    "pad_number": lambda T, x: T.pad(x, (1, 2), 7),
    "pad_edge": lambda T, x: T.pad(x, (1, 2, 3, 4), padding_mode="edge"),
    "pad_reflect": lambda T, x: T.pad(x, (1, 2, 3, 4), padding_mode="reflect"),
    "pad_symmetric": lambda T, x: T.pad(x, 3, padding_mode="symmetric"),
    "rotate": lambda T, x: T.rotate(x, 30),
    "rotate_expanded": lambda T, x: T.rotate(x, -50, "bilinear", True, None, 9),
    "rotate_around": lambda T, x: T.rotate(x, 20, "nearest", False, (3, 4)),
    "affine": lambda T, x: T.affine(x, 20, (2, -3), 1.2, (5, -7)),
    "affine_bilinear": lambda T, x: T.affine(x, 20, (2, -3), 0.7, 10, "bilinear"),
    "affine_around": lambda T, x: T.affine(x, 20, (2, -3), 0.7, (10, 0), "nearest", 0, (4, 5)),
    "perspective": lambda T, x: T.perspective(
        x, [[0, 0], [14, 0], [14, 11], [0, 11]], [[2, 3], [12, 1], [11, 10], [4, 9]]
    ),
    "brightness": lambda T, x: T.adjust_brightness(x, 1.7),
    "less_contrast": lambda T, x: T.adjust_contrast(x, 0.3),
    "more_contrast": lambda T, x: T.adjust_contrast(x, 1.8),
    "hue": lambda T, x: T.adjust_hue(x, 0.2),
    "hue_back": lambda T, x: T.adjust_hue(x, -0.3),
    "grey": lambda T, x: T.to_grayscale(x),
    "grey_of_three": lambda T, x: T.to_grayscale(x, 3),
    "normalize": lambda T, x: T.normalize(x, [1, 2, 3], [4, 5, 6], "HWC"),
    "normalize_rgb": lambda T, x: T.normalize(x, [1, 2, 3], [4, 5, 6], "HWC", True),
    "to_tensor": lambda T, x: T.to_tensor(x),
    "to_tensor_hwc": lambda T, x: T.to_tensor(x, "HWC"),
}
CLASSES: list[tuple[str, tuple[Any, ...]]] = [
    ("RandomHorizontalFlip", ()),
    ("RandomVerticalFlip", ()),
    ("RandomCrop", (8,)),
    ("RandomCrop", ((8, 9), 2)),
    ("RandomCrop", ((14, 20), None, True)),
    ("RandomResizedCrop", (8,)),
    ("RandomResizedCrop", ((8, 9), (0.5, 1), (3.0, 4.0))),
    ("RandomRotation", (30,)),
    ("ColorJitter", (0.4, 0.4, 0.4, 0.4)),
    ("ColorJitter", (0.4, 0, 0.4)),
    ("BrightnessTransform", (0.4,)),
    ("ContrastTransform", (0.4,)),
    ("SaturationTransform", (0.4,)),
    ("SaturationTransform", ((1.5, 1.5),)),
    ("HueTransform", (0.4,)),
    ("RandomAffine", (30, (0.1, 0.2), (0.5, 1.5), 10)),
    ("RandomAffine", (30, None, None, [-5, 5, -3, 3], "bilinear")),
    ("RandomPerspective", (1.0,)),
    ("Transpose", ()),
    ("Pad", (3,)),
    ("Resize", ((5, 6),)),
    ("CenterCrop", (8,)),
    ("Grayscale", (3,)),
    ("Normalize", (127.5, 127.5, "HWC")),
    ("ToTensor", ()),
]
# what 2.6.2 does to arrays without OpenCV, or as OpenCV does it
ARRAYS = [
    "resize",
    "resize_nearest",
    "crop",
    "center_crop",
    "hflip",
    "vflip",
    "pad_colour",
    "pad_number",
    "pad_edge",
    "pad_reflect",
    "pad_symmetric",
    "brightness",
    "less_contrast",
    "more_contrast",
    "grey",
    "grey_of_three",
    "normalize",
    "normalize_rgb",
    "to_tensor",
    "to_tensor_hwc",
]


def drawn(T: Any, cls: str, args: tuple[Any, ...], picture: Any) -> np.ndarray:
    """The third result of a transform, with the seeds of both generators set."""
    random.seed(3)
    np.random.seed(3)
    transform = getattr(T, cls)(*args)
    return [np.asarray(transform(picture)) for _ in range(3)][-1]


def results(T: Any, image: Any) -> dict[str, np.ndarray]:
    """Name -> array, of all cases; `image` is the module PIL.Image."""
    picture = image.fromarray(pixels())
    found = {name: np.asarray(call(T, picture)) for name, call in FUNCTIONS.items()}
    found |= {f"{cls}{args}": drawn(T, cls, args, picture) for cls, args in CLASSES}
    found["erase_array"] = T.erase(pixels(), 2, 3, 4, 5, 9)
    found["RandomErasing_array"] = drawn(T, "RandomErasing", (1.0,), pixels())
    return found | {f"{name}_array": np.asarray(FUNCTIONS[name](T, pixels())) for name in ARRAYS}
