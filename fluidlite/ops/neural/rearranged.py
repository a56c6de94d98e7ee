"""Pixels as channels, channels in another order, windows put together: ops of PaddlePaddle 2.x."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, at_least, required
from fluidlite.ops.neural.vision import unfold_counts, window_positions

_LAYOUTS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2)}
_INTS = required(AttrType.INTS)


def _first(x: Any, data_format: str) -> Any:
    """Images with their channels in front."""
    return x if data_format == "NCHW" else x.transpose(0, 3, 1, 2)


def _back(x: Any, data_format: str) -> Any:
    return x if data_format == "NCHW" else x.transpose(0, 2, 3, 1)


def _sizes(type: str, X: Spec, data_format: str) -> tuple[int, int, int, int]:
    if data_format not in _LAYOUTS or len(X.shape) != 4:
        raise ShapeError(f"op {type!r}: X{list(X.shape)} must hold images, in NCHW or NHWC: {data_format}")
    n, c, h, w = (X.shape[place] for place in _LAYOUTS[data_format])
    return n, c, h, w


def _spec(X: Spec, shape: tuple[int, ...], data_format: str) -> Spec:
    n, c, h, w = shape
    return X.with_shape((n, c, h, w) if data_format == "NCHW" else (n, h, w, c))


pixel_unshuffle = Op(
    "pixel_unshuffle", "X -> Out", attrs={"downscale_factor": 1, "data_format": "NCHW"}, lod=None
)


@pixel_unshuffle.shape
def _(X: Spec, downscale_factor: int, data_format: str) -> Spec:
    n, c, h, w = _sizes("pixel_unshuffle", X, data_format)
    r = downscale_factor
    for what, size in (("height", h), ("width", w)):
        if r < 1 or (size >= 0 and size % r):
            raise ShapeError(f"op 'pixel_unshuffle': the {what} is {size}, which {r} does not divide")
    places = (-1 if size < 0 else size // r for size in (h, w))
    return _spec(X, (n, c * r * r, *places), data_format)


def _unshuffled(x: Array, r: int) -> Array:
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return apart.reshape(n, c * r * r, h // r, w // r)


def _shuffled(x: Array, r: int) -> Array:
    n, c, h, w = x.shape
    apart = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, c // (r * r), h * r, w * r)


@pixel_unshuffle.kernel
def _(X: Array, downscale_factor: int, data_format: str) -> Array:
    return _back(_unshuffled(_first(X, data_format), downscale_factor), data_format).copy()


@pixel_unshuffle.grad("X")
def _(X: Array, dOut: Array, downscale_factor: int, data_format: str) -> Array:
    return _back(_shuffled(_first(dOut, data_format), downscale_factor), data_format).copy()


channel_shuffle = Op("channel_shuffle", "X -> Out", attrs={"groups": 1, "data_format": "NCHW"}, lod=None)


@channel_shuffle.shape
def _(X: Spec, groups: int, data_format: str) -> Spec:
    channels = _sizes("channel_shuffle", X, data_format)[1]
    if groups < 1 or (channels >= 0 and channels % groups):
        raise ShapeError(f"op 'channel_shuffle': groups {groups} do not divide {channels} channels")
    return Spec(X.shape, X.dtype)


def _dealt(x: Array, groups: int) -> Array:
    """The first channel of each group, then the second of each, and so on."""
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h, w).transpose(0, 2, 1, 3, 4).reshape(n, c, h, w)


@channel_shuffle.kernel
def _(X: Array, groups: int, data_format: str) -> Array:
    return _back(_dealt(_first(X, data_format), groups), data_format).copy()


@channel_shuffle.grad("X")
def _(X: Array, dOut: Array, groups: int, data_format: str) -> Array:
    d = _first(dOut, data_format)
    return _back(_dealt(d, d.shape[1] // groups), data_format).copy()


# ---------------------------------------------------------------------- windows
fold = Op(
    "fold",
    "X -> Y",
    attrs={
        "output_sizes": _INTS,
        "kernel_sizes": at_least(1, _INTS),
        "strides": at_least(1, _INTS),
        "paddings": at_least(0, _INTS),
        "dilations": at_least(0, _INTS),
    },
    lod=None,
)


@fold.shape
def _(
    X: Spec,
    output_sizes: list[int],
    kernel_sizes: list[int],
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
) -> Spec:
    window = kernel_sizes[0] * kernel_sizes[1]
    counts = unfold_counts(output_sizes, kernel_sizes, strides, paddings, dilations)
    fits = len(X.shape) == 3 and X.shape[1] % window == 0 and min(counts) > 0
    if not fits or X.shape[2] not in (-1, counts[0] * counts[1]):
        raise ShapeError(
            f"op 'fold': X{list(X.shape)} must hold {counts[0]} * {counts[1]} windows of {window} "
            "numbers per channel"
        )
    return X.with_shape((X.shape[0], X.shape[1] // window, *output_sizes))


@fold.kernel
def _(
    xp: Any,
    X: Array,
    output_sizes: list[int],
    kernel_sizes: list[int],
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
) -> Array:
    """The windows added up where they lie over each other."""
    counts = unfold_counts(output_sizes, kernel_sizes, strides, paddings, dilations)
    channels = X.shape[1] // (kernel_sizes[0] * kernel_sizes[1])
    windows = X.reshape(len(X), channels, *kernel_sizes, *counts)
    height, width = (size + paddings[i] + paddings[i + 2] for i, size in enumerate(output_sizes))
    out = xp.zeros((*windows.shape[:2], height, width), X.dtype)
    for (i, j), window in window_positions(kernel_sizes, strides, dilations, counts):
        out[(slice(None), slice(None), *window)] += windows[:, :, i, j]
    top, left = paddings[:2]
    return out[:, :, top : top + output_sizes[0], left : left + output_sizes[1]].copy()


@fold.grad("X")
def _(
    xp: Any,
    X: Array,
    dY: Array,
    kernel_sizes: list[int],
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
) -> Array:
    counts = unfold_counts(dY.shape[2:], kernel_sizes, strides, paddings, dilations)
    borders = ((0, 0), (0, 0), (paddings[0], paddings[2]), (paddings[1], paddings[3]))
    d = xp.pad(dY, borders)
    out = xp.empty((*dY.shape[:2], *kernel_sizes, *counts), dY.dtype)
    for (i, j), window in window_positions(kernel_sizes, strides, dilations, counts):
        out[:, :, i, j] = d[(slice(None), slice(None), *window)]
    return out.reshape(X.shape)
