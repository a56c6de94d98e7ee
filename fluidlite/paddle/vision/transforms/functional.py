"""Functions of one image, a `PIL.Image` or an array of shape [height, width] or [height, width, channels];
the result is of the same kind.

PaddlePaddle sends arrays through OpenCV. Here `resize` of them, which does not smooth where it shrinks, is
the same; `rotate`, `affine` and `perspective` go through Pillow, which takes another nearest pixel here and
there.
"""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import MissingExtraError

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "affine",
    "center_crop",
    "crop",
    "erase",
    "hflip",
    "normalize",
    "pad",
    "pair",
    "perspective",
    "resize",
    "rotate",
    "to_grayscale",
    "to_tensor",
    "vflip",
]

Picture: TypeAlias = Any  # a PIL.Image.Image or an array
Size: TypeAlias = "int | Sequence[int]"

# the share of red, green and blue in brightness, as ITU-R BT.601 has them
_LUMA = np.array([0.299, 0.587, 0.114], "float32")
_MAX_DEPTH = 255
_ARRAY_MEAN = 74  # the grey that PaddlePaddle takes for the mean of every array


def pillow(name: str = "Image") -> Any:
    """A module of Pillow; an error that names the extra where it is not installed."""
    try:
        return importlib.import_module(f"PIL.{name}")
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install fluidlite[vision]") from error


def is_array(img: Picture) -> bool:
    """True for an array, False for an image of Pillow; TypeError for anything else."""
    if isinstance(img, np.ndarray):
        if img.ndim not in (2, 3):
            raise TypeError(
                f"an image must have 2 or 3 dimensions, but this array has the shape {list(img.shape)}"
            )
        return True
    if not isinstance(img, pillow().Image):
        raise TypeError(f"expected a PIL.Image or a numpy array, got {type(img).__name__}")
    return False


def size_of(img: Picture) -> tuple[int, int]:
    """Width and height."""
    return (img.shape[1], img.shape[0]) if is_array(img) else img.size


def _through_pillow(img: Picture, change: Callable[[Any], Any]) -> Picture:
    """`change` done to an image of Pillow; to an array by way of one, or one a channel for other types than
    uint8, which Pillow holds as float32.
    """
    if not is_array(img):
        return change(img)
    image = pillow()
    if img.dtype == np.uint8 and (img.ndim == 2 or img.shape[2] in (3, 4)):
        return np.asarray(change(image.fromarray(img)))
    planes = img[:, :, None] if img.ndim == 2 else img
    changed = [
        np.asarray(change(image.fromarray(planes[:, :, i].astype("float32")))) for i in range(planes.shape[2])
    ]
    out = np.stack(changed, -1).reshape(*changed[0].shape, *img.shape[2:])
    return np.rint(out).astype(img.dtype) if img.dtype.kind in "iu" else out.astype(img.dtype)


def _method(name: str, choices: Sequence[str]) -> Any:
    if name not in choices:
        raise ValueError(f"interpolation must be one of {', '.join(choices)}, not {name!r}")
    return getattr(pillow().Resampling, name.upper())


# ---------------------------------------------------------------------- pieces
def crop(img: Picture, top: int, left: int, height: int, width: int) -> Picture:
    """The rectangle of `height` and `width` whose upper left corner is (top, left). What lies outside of a
    image of Pillow is 0; an array is cut at its borders.
    """
    if is_array(img):
        return img[top : top + height, left : left + width]
    return img.crop((left, top, left + width, top + height))


def center_crop(img: Picture, output_size: Size) -> Picture:
    """The rectangle of `output_size` (height, width; or one number for both) in the middle."""
    height, width = pair(output_size)
    whole_width, whole_height = size_of(img)
    top = round((whole_height - height) / 2)
    left = round((whole_width - width) / 2)
    if is_array(img):  # an array has no border of zeros
        top, left = max(top, 0), max(left, 0)
    return crop(img, top, left, height, width)


def pair(size: Size) -> tuple[int, int]:
    """Height and width, of which one number stands for both."""
    if isinstance(size, (int, float)):
        return int(size), int(size)
    height, width = size
    return int(height), int(width)


def hflip(img: Picture) -> Picture:
    """Left and right exchanged."""
    return img[:, ::-1] if is_array(img) else img.transpose(pillow().Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Picture) -> Picture:
    """Top and bottom exchanged."""
    return img[::-1] if is_array(img) else img.transpose(pillow().Transpose.FLIP_TOP_BOTTOM)


def pad(img: Picture, padding: Size, fill: Any = 0, padding_mode: str = "constant") -> Picture:
    """The image with a border.

    padding: one number for all sides, (left and right, top and bottom), or (left, top, right, bottom).
    fill: one number a channel, or the first one's alone: 7 stands for (7, 0, 0), as in PaddlePaddle; for
        `padding_mode` "constant". The others are "edge", "reflect" and "symmetric", as in `numpy.pad`.
    """
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"padding_mode must be constant, edge, reflect or symmetric, not {padding_mode!r}")
    left, top, right, bottom = _sides(padding)
    if not is_array(img) and padding_mode == "constant":
        return pillow("ImageOps").expand(img, (left, top, right, bottom), fill=fill)
    array = np.asarray(img)
    sides = [(top, bottom), (left, right), (0, 0)][: array.ndim]
    if padding_mode != "constant":
        padded = np.pad(array, sides, padding_mode)  # type: ignore[call-overload]
    else:
        padded = np.empty(
            [size + sum(side) for size, side in zip(array.shape, sides, strict=True)], array.dtype
        )
        padded[...] = _one_a_channel(fill, array)
        padded[top : top + array.shape[0], left : left + array.shape[1]] = array
    return padded if is_array(img) else pillow().fromarray(padded)


def _one_a_channel(fill: Any, array: Array) -> Any:
    """A colour for an array: what is missing at its end is 0."""
    if array.ndim == 2:
        return fill
    given = [fill] if isinstance(fill, numbers.Number) else list(fill)
    return (given + [0] * array.shape[2])[: array.shape[2]]


def _sides(padding: Size) -> tuple[int, int, int, int]:
    given = [padding] if isinstance(padding, (int, float)) else list(padding)
    if len(given) not in (1, 2, 4):
        raise ValueError(f"padding must be one number, two or four, not {len(given)}")
    left, top, right, bottom = (given * 4)[:4]
    return left, top, right, bottom


def _colour(img: Any, fill: Any) -> Any:
    """`fill` as Pillow takes it: one number a band."""
    bands = len(img.getbands())
    if isinstance(fill, numbers.Number):
        return fill if bands == 1 else (fill,) * bands
    return tuple(fill)


def erase(img: Picture, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Picture:
    """The image with the rectangle of height `h` and width `w` at (i, j) replaced by `v`."""
    array = np.asarray(img) if inplace and is_array(img) else np.array(img)
    array[i : i + h, j : j + w] = v
    return array if is_array(img) else pillow().fromarray(array)


# ---------------------------------------------------------------------- other grids
def resize(img: Picture, size: Size, interpolation: str = "bilinear") -> Picture:
    """The image in another size: (height, width), or one number for the shorter side, whose ratio to the
    longer stays.
    """
    method = _method(interpolation, ("nearest", "bilinear", "bicubic", "box", "lanczos", "hamming"))
    width, height = size_of(img)
    if not isinstance(size, (int, float)):
        new_height, new_width = pair(size)
    elif width < height:
        new_width = int(size)
        new_height = int(size * height / width)
    else:
        new_width, new_height = int(size * width / height), int(size)
    if isinstance(size, (int, float)) and min(width, height) == size:
        return img
    if is_array(img) and interpolation in ("nearest", "bilinear"):
        return _resampled(img, (new_height, new_width), interpolation == "nearest")
    return _through_pillow(img, lambda picture: picture.resize((new_width, new_height), method))


def _resampled(img: Array, size: tuple[int, int], nearest: bool) -> Array:
    """An array at other rows and columns, with the pixels' centres for the grid, without smoothing."""
    out = img if nearest else img.astype("float32")
    for axis, (old, new) in enumerate(zip(img.shape, size, strict=False)):
        if nearest:
            out = out.take(np.arange(new) * old // new, axis)
            continue
        place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.floor(place).astype("int64")
        high = np.minimum(low + 1, old - 1)
        share = (place - low).astype("float32").reshape(-1, *[1] * (out.ndim - 1 - axis))
        out = out.take(low, axis) * (1 - share) + out.take(high, axis) * share
    return np.rint(out).astype(img.dtype) if img.dtype.kind in "iu" else out.astype(img.dtype)


_GRID = ("nearest", "bilinear", "bicubic")


def rotate(
    img: Picture,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = 0,
) -> Picture:
    """The image rotated by `angle` degrees, counter-clockwise, around `center` (x, y) or its middle.

    expand: make it large enough to hold the whole. fill: the colour outside, a number or one a channel.
    """
    method = _method(interpolation, _GRID)
    return _through_pillow(
        img,
        lambda picture: picture.rotate(
            angle, method, expand, tuple(center) if center else None, fillcolor=_colour(picture, fill)
        ),
    )


def affine(
    img: Picture,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Sequence[float] | None = None,
) -> Picture:
    """The image sheared by `shear` degrees (x, y), scaled, rotated by `angle` degrees, clockwise, all around
    `center`, then moved by `translate` pixels (x, y).
    """
    if scale <= 0:
        raise ValueError(f"scale must be a positive number, not {scale}")
    method = _method(interpolation, _GRID)
    width, height = size_of(img)
    middle = (width * 0.5, height * 0.5) if center is None else center
    inverse = inverse_affine(middle, angle, translate, scale, shear)
    return _through_pillow(
        img,
        lambda picture: picture.transform(
            (width, height), pillow().Transform.AFFINE, inverse, method, fillcolor=_colour(picture, fill)
        ),
    )


def inverse_affine(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
) -> list[float]:
    """The six numbers that lead from a pixel of the result to its source.

    The way there is: to `center`, the shear along x, that along y, the turn, the scale, back, the move.
    """
    both = (shear, 0.0) if isinstance(shear, (int, float)) else tuple(shear)
    turn, shear_x, shear_y = np.deg2rad([angle, *both])
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, -sin], [sin, cos]])
    along_y = np.array([[1, 0], [-np.tan(shear_y), 1]])
    along_x = np.array([[1, -np.tan(shear_x)], [0, 1]])
    back = np.linalg.inv(scale * rotation @ along_y @ along_x)
    offset = np.asarray(center) - back @ (np.asarray(center) + np.asarray(translate))
    return [*back[0], offset[0], *back[1], offset[1]]


def perspective(
    img: Picture,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: str = "nearest",
    fill: Any = 0,
) -> Picture:
    """The image seen so that four points (x, y) of it, `startpoints`, come to lie at `endpoints`."""
    method = _method(interpolation, _GRID)
    rows, values = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        values += [u, v]
    # eight unknowns of the projective map from the result to its source (Heckbert 1989)
    numbers_ = np.linalg.lstsq(np.array(rows, float), np.array(values, float), rcond=None)[0]
    return _through_pillow(
        img,
        lambda picture: picture.transform(
            picture.size, pillow().Transform.PERSPECTIVE, numbers_.tolist(), method, fillcolor=fill
        ),
    )


# ---------------------------------------------------------------------- colours
def _blend(first: Array, second: Array, share: float) -> Array:
    """share * first + (1 - share) * second within the depth, in the type of `first`."""
    mixed = share * first.astype("float32") + (1 - share) * second
    return np.clip(mixed, 0, _MAX_DEPTH).astype(first.dtype)


def _grey(array: Array) -> Array:
    """Brightness, [height, width], of an array of colours."""
    if array.ndim == 2 or array.shape[2] == 1:
        return array.reshape(array.shape[:2]).astype("float32")
    grey: Array = array[:, :, :3].astype("float32") @ _LUMA
    return grey


def adjust_brightness(img: Picture, brightness_factor: float) -> Picture:
    """The image `brightness_factor` times as bright: 0 is black, 1 changes nothing."""
    if is_array(img):
        return _blend(img, np.zeros_like(img), brightness_factor)
    return pillow("ImageEnhance").Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Picture, contrast_factor: float) -> Picture:
    """The image with `contrast_factor` times its contrast: 0 is one grey, 1 changes nothing."""
    if is_array(img):
        return _blend(img, np.array(_ARRAY_MEAN, "float32"), contrast_factor)
    return pillow("ImageEnhance").Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Picture, saturation_factor: float) -> Picture:
    """The image with `saturation_factor` times its colour: 0 is grey, 1 changes nothing."""
    if is_array(img):
        return _blend(img, _grey(img).reshape(*img.shape[:2], *[1] * (img.ndim - 2)), saturation_factor)
    return pillow("ImageEnhance").Color(img).enhance(saturation_factor)


def adjust_hue(img: Picture, hue_factor: float) -> Picture:
    """The image with its hues moved by `hue_factor`, from -0.5 to 0.5 of the colour circle."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor must be between -0.5 and 0.5, not {hue_factor}")
    if is_array(img):
        # PaddlePaddle takes the channels of arrays for blue, green and red here, and only here
        colours = np.ascontiguousarray(img[..., ::-1], "uint8")
        return np.asarray(_moved_hue(pillow().fromarray(colours), hue_factor))[..., ::-1].astype(img.dtype)
    if img.mode in ("L", "1", "I", "F"):  # without colour
        return img
    return _moved_hue(img, hue_factor)


def _moved_hue(picture: Any, hue_factor: float) -> Any:
    hue, saturation, value = picture.convert("HSV").split()
    # the circle has 256 steps, and whole numbers of eight bits go round it by themselves
    moved = np.asarray(hue) + np.int16(hue_factor * _MAX_DEPTH).astype("uint8")
    bands = (pillow().fromarray(moved), saturation, value)
    return pillow().merge("HSV", bands).convert(picture.mode)


def to_grayscale(img: Picture, num_output_channels: int = 1) -> Picture:
    """The image without colour, in one channel or three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, not {num_output_channels}")
    if is_array(img):
        grey = np.rint(_grey(img)).astype(img.dtype)[:, :, None]
        return np.repeat(grey, num_output_channels, 2)
    grey = img.convert("L")
    return grey if num_output_channels == 1 else pillow().merge("RGB", (grey, grey, grey))


# ---------------------------------------------------------------------- numbers
def normalize(
    img: Picture,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    data_format: str = "CHW",
    to_rgb: bool = False,
) -> Array:
    """(img - mean) / std as a float32 array, with a mean and a deviation for each channel.

    data_format: "CHW" or "HWC", where the channels are. to_rgb: reverse their order first.
    """
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format must be CHW or HWC, not {data_format!r}")
    array = np.asarray(img, "float32")
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    if to_rgb:
        array = array[::-1] if data_format == "CHW" else array[..., ::-1]
    return (array - np.reshape(mean, shape).astype("float32")) / np.reshape(std, shape).astype("float32")


def to_tensor(pic: Picture, data_format: str = "CHW") -> Array:
    """The image as a float32 array, [channels, height, width] or, for "HWC", [height, width, channels].
    Numbers of eight bits are divided by 255.

    PaddlePaddle makes a tensor of imperative mode here; a static program is fed arrays.
    """
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format must be CHW or HWC, not {data_format!r}")
    is_array(pic)
    array = np.asarray(pic)
    # times the reciprocal, rounded to float32, as in PaddlePaddle: a quotient differs in the last place
    factor = np.float32(1 / _MAX_DEPTH if array.dtype == np.uint8 else 1)
    array = array[:, :, None] if array.ndim == 2 else array
    if data_format == "CHW":
        array = array.transpose(2, 0, 1)
    return np.ascontiguousarray(array, "float32") * factor
