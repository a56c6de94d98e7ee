"""Rearrangements of images: windows as rows, channels as places and back, and maxima over groups of
channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import above, least, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, LONG, AttrType, Lod, Op, Spec, WithLod, at_least, later, required
from fluidlite.ops.kernels.numbers import check_rows
from fluidlite.values.tensor import host

_INT, _INTS = required(AttrType.INT), required(AttrType.INTS)


def _images(type: str, X: Spec) -> tuple[int, int, int, int]:
    """N, C, H, W; ShapeError where X has another number of dimensions."""
    if len(X.shape) != 4:
        raise ShapeError(f"op {type!r}: X must have 4 dimensions, but has shape {list(X.shape)}")
    n, c, h, w = X.shape
    return n, c, h, w


def _check_divides(type: str, what: str, number: int, parts: int) -> None:
    if number >= 0 and number % parts:
        raise ShapeError(f"op {type!r}: {what} is {number}, which {parts} does not divide")


# ------------------------------------------------------------------ channels and places
pixel_shuffle = Op(
    "pixel_shuffle",
    "X. -> Out",
    attrs={"upscale_factor": limited(1, least(1)), "data_format": later("NCHW")},
    lod=None,
    version=1,
)


@pixel_shuffle.shape
def _(X: Spec, upscale_factor: int, data_format: str) -> Spec:
    last = data_format == "NHWC"
    n, c, h, w = _images("pixel_shuffle", X.with_shape(np.take(X.shape, [0, 3, 1, 2])) if last else X)
    _check_divides("pixel_shuffle", "the number of channels", c, upscale_factor**2)
    places = tuple(size if size < 0 else size * upscale_factor for size in (h, w))
    channels = c // upscale_factor**2
    return X.with_shape((n, *places, channels) if last else (n, channels, *places))


@pixel_shuffle.kernel
def _(X: Array, upscale_factor: int, data_format: str) -> Array:
    r = upscale_factor
    if data_format == "NHWC":
        n, h, w, c = X.shape
        apart = X.reshape(n, h, w, c // r**2, r, r).transpose(0, 1, 4, 2, 5, 3)
        return apart.reshape(n, h * r, w * r, c // r**2)
    n, c, h, w = X.shape
    apart = X.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, c // r**2, h * r, w * r)


def _unshuffled_spec(dOut: Spec, upscale_factor: int, data_format: str) -> Spec:
    last = data_format == "NHWC"
    n, c, h, w = np.take(dOut.shape, [0, 3, 1, 2]) if last else dOut.shape
    places = tuple(size if size < 0 else size // upscale_factor for size in (h, w))
    channels = c * upscale_factor**2
    return dOut.with_shape((n, *places, channels) if last else (n, channels, *places))


@pixel_shuffle.grad("X", shape=_unshuffled_spec)
def _(dOut: Array, upscale_factor: int, data_format: str) -> Array:
    r = upscale_factor
    if data_format == "NHWC":
        n, h, w, c = dOut.shape
        together = dOut.reshape(n, h // r, r, w // r, r, c).transpose(0, 1, 3, 5, 2, 4)
        return together.reshape(n, h // r, w // r, c * r**2)
    n, c, h, w = dOut.shape
    return (
        dOut.reshape(n, c, h // r, r, w // r, r)
        .transpose(0, 1, 3, 5, 2, 4)
        .reshape(n, c * r**2, h // r, w // r)
    )


space_to_depth = Op("space_to_depth", "X -> Out", attrs={"blocksize": limited(LONG(2), above(1))})


@space_to_depth.shape
def _(X: Spec, blocksize: int) -> Spec:
    n, c, h, w = _images("space_to_depth", X)
    if blocksize < 2:
        raise ShapeError(f"op 'space_to_depth': blocksize must be at least 2, but is {blocksize}")
    _check_divides("space_to_depth", "the number of channels", c, blocksize**2)
    for what, size in (("the height", h), ("the width", w)):
        _check_divides("space_to_depth", what, size, blocksize)
    return X.with_shape((n, c * blocksize**2, *(size if size < 0 else size // blocksize for size in (h, w))))


# Paddle's op moves the blocks the other way: X's channels become the places within blocks of
# (N, C / b^2, H b, W b), and these numbers get the shape (N, C b^2, H / b, W / b).
@space_to_depth.kernel
def _(X: Array, blocksize: int) -> Array:
    n, c, h, w = X.shape
    b = blocksize
    apart = X.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return apart.reshape(n, c * b**2, h // b, w // b)


@space_to_depth.grad("X")
def _(X: Array, dOut: Array, blocksize: int) -> Array:
    n, c, h, w = X.shape
    b = blocksize
    apart = dOut.reshape(n, c // b**2, h, b, w, b)
    return apart.transpose(0, 3, 5, 1, 2, 4).reshape(X.shape)


shuffle_channel = Op("shuffle_channel", "X. -> Out", attrs={"group": limited(1, least(1))}, lod=None)


@shuffle_channel.shape
def _(X: Spec, group: int) -> Spec:
    _check_divides("shuffle_channel", "the number of channels", _images("shuffle_channel", X)[1], group)
    return X.with_shape(X.shape)


def _shuffled(x: Array, rows: int) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, rows, c // rows, h, w).swapaxes(1, 2).reshape(x.shape)


@shuffle_channel.kernel
def _(X: Array, group: int) -> Array:
    return _shuffled(X, group)


@shuffle_channel.grad("X")
def _(dOut: Array, group: int) -> Array:
    return _shuffled(dOut, dOut.shape[1] // group)


temporal_shift = Op(
    "temporal_shift", "X. -> Out", attrs={"seg_num": _INT, "shift_ratio": 0.25, "data_format": later("NCHW")}
)


@temporal_shift.shape
def _(X: Spec, seg_num: int, shift_ratio: float) -> Spec:
    if not 0 < shift_ratio < 0.5:
        raise ShapeError(f"op 'temporal_shift': shift_ratio is {shift_ratio}, wanted between 0 and 0.5")
    if seg_num <= 0:
        raise ShapeError(f"op 'temporal_shift': seg_num is {seg_num}, wanted 1 or more")
    _check_divides("temporal_shift", "the number of frames", _images("temporal_shift", X)[0], seg_num)
    return X.with_shape(X.shape)


def _shifted(
    xp: Any, x: Array, seg_num: int, shift_ratio: float, data_format: str, *, forwards: bool
) -> Array:
    """The first channels move by one frame within their segment, as many others move the other way."""
    if data_format == "NHWC":
        x = xp.moveaxis(x, -1, 1)
    frames = x.reshape(-1, seg_num, *x.shape[1:])
    one = int(x.shape[1] * shift_ratio)
    two = int(x.shape[1] * 2 * shift_ratio)
    later, earlier = (slice(0, one), slice(one, two)) if forwards else (slice(one, two), slice(0, one))
    out = frames.copy()
    out[:, 0, later], out[:, 1:, later] = 0, frames[:, :-1, later]
    out[:, -1, earlier], out[:, :-1, earlier] = 0, frames[:, 1:, earlier]
    out = out.reshape(x.shape)
    return xp.ascontiguousarray(xp.moveaxis(out, 1, -1)) if data_format == "NHWC" else out


@temporal_shift.kernel
def _(xp: Any, X: Array, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    return _shifted(xp, X, seg_num, shift_ratio, data_format, forwards=True)


@temporal_shift.grad("X")
def _(xp: Any, dOut: Array, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    return _shifted(xp, dOut, seg_num, shift_ratio, data_format, forwards=False)


# ------------------------------------------------------------------ maxout
maxout = Op("maxout", "X. -> Out", attrs={"groups": _INT, "axis": 1}, lod=None)


@maxout.shape
def _(X: Spec, groups: int, axis: int) -> Spec:
    if not 3 <= len(X.shape) <= 4:
        raise ShapeError(f"op 'maxout': X must have 3 or 4 dimensions, but has shape {list(X.shape)}")
    shape = list(X.shape)
    if groups < 2:
        raise ShapeError(f"op 'maxout': groups must be at least 2, but is {groups}")
    _check_divides("maxout", f"dimension {axis} of X{shape}", shape[axis], groups)
    shape[axis] //= groups
    return X.with_shape(shape)


def _by_group(x: Array, groups: int, axis: int) -> Array:
    """A view with the members of each group along a new dimension after `axis`."""
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])


@maxout.kernel
def _(X: Array, groups: int, axis: int) -> Array:
    return _by_group(X, groups, axis).max(axis=axis % X.ndim + 1)


@maxout.grad("X")
def _(xp: Any, X: Array, Out: Array, dOut: Array, groups: int, axis: int) -> Array:
    x = _by_group(X, groups, axis)
    inner = axis % X.ndim + 1
    first = xp.expand_dims((x == xp.expand_dims(Out, inner)).argmax(axis=inner), inner)
    members = xp.arange(groups).reshape(-1, *(1,) * (x.ndim - inner - 1))
    return ((first == members) * xp.expand_dims(dOut, inner)).reshape(X.shape)


# ------------------------------------------------------------------ windows
def window_positions(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each position in the window, and the elements of the (padded) image that all windows have there."""
    for position in itertools.product(*map(range, kernel)):
        yield (
            position,
            tuple(
                slice(p * d, p * d + s * (n - 1) + 1, s)
                for p, d, s, n in zip(position, dilations, strides, counts, strict=True)
            ),
        )


def _with_border(xp: Any, x: Array, size: Sequence[int], top: int, left: int) -> Array:
    """x within zeros: `size` is what comes out, cut where that is smaller."""
    out = xp.zeros((*x.shape[:2], *size), x.dtype)
    part = x[:, :, : max(size[0] - top, 0), : max(size[1] - left, 0)]
    out[:, :, top : top + part.shape[2], left : left + part.shape[3]] = part
    return out


unfold = Op(
    "unfold",
    "X. -> Y",
    attrs={
        "kernel_sizes": at_least(1, _INTS),
        "strides": at_least(1, _INTS),
        "paddings": at_least(0, _INTS),
        "dilations": at_least(0, _INTS),
    },
    lod=None,
)


def unfold_counts(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Windows down and across; paddings are top, left, bottom, right."""
    return [
        (size + paddings[i] + paddings[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        if size >= 0
        else -1
        for i, size in enumerate(spatial)
    ]


@unfold.shape
def _(
    X: Spec, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Spec:
    n, c, h, w = _images("unfold", X)
    counts = unfold_counts((h, w), kernel_sizes, strides, paddings, dilations)
    if any(size >= 0 >= count for size, count in zip((h, w), counts, strict=True)):
        raise ShapeError(
            f"op 'unfold': no window of {kernel_sizes} with dilations {dilations} and paddings {paddings} "
            f"fits into X{list(X.shape)}"
        )
    return X.with_shape(
        (n, c * kernel_sizes[0] * kernel_sizes[1], -1 if -1 in counts else counts[0] * counts[1])
    )


def _bordered_size(x: Array, paddings: Sequence[int]) -> tuple[int, int]:
    return x.shape[2] + paddings[0] + paddings[2], x.shape[3] + paddings[1] + paddings[3]


@unfold.kernel
def _(
    xp: Any, X: Array, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Array:
    counts = unfold_counts(X.shape[2:], kernel_sizes, strides, paddings, dilations)
    x = _with_border(xp, X, _bordered_size(X, paddings), paddings[0], paddings[1])
    out = xp.empty((*X.shape[:2], *kernel_sizes, *counts), X.dtype)
    for (i, j), window in window_positions(kernel_sizes, strides, dilations, counts):
        out[:, :, i, j] = x[(slice(None), slice(None), *window)]
    return out.reshape(len(X), math.prod(out.shape[1:4]), counts[0] * counts[1])


@unfold.grad("X")
def _(
    xp: Any,
    X: Array,
    dY: Array,
    kernel_sizes: list[int],
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
) -> Array:
    counts = unfold_counts(X.shape[2:], kernel_sizes, strides, paddings, dilations)
    d = dY.reshape(*X.shape[:2], *kernel_sizes, *counts)
    out = xp.zeros((*X.shape[:2], *_bordered_size(X, paddings)), X.dtype)
    for (i, j), window in window_positions(kernel_sizes, strides, dilations, counts):
        out[(slice(None), slice(None), *window)] += d[:, :, i, j]
    return xp.ascontiguousarray(
        out[:, :, paddings[0] : paddings[0] + X.shape[2], paddings[1] : paddings[1] + X.shape[3]]
    )


im2sequence = Op(
    "im2sequence",
    "X. Y? -> Out",
    lod=None,
    constants=("Y",),
    attrs={
        "kernels": at_least(1, _INTS),
        "strides": at_least(1, [1, 1]),
        "paddings": at_least(0, INTS((0, 0, 0, 0))),
        "out_stride": at_least(1, [1, 1]),
    },
    makes_lod=True,
)


def _sequence_counts(
    spatial: Sequence[int], kernels: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> list[int]:
    """Windows down and across."""
    return [
        (paddings[i] + paddings[i + 2] + size - kernels[i]) // strides[i] + 1
        for i, size in enumerate(spatial)
    ]


@im2sequence.shape
def _(X: Spec, Y: Spec | None, kernels: list[int], strides: list[int], paddings: list[int]) -> Spec:
    n, c, h, w = _images("im2sequence", X)
    check_rows("im2sequence", X=X, Y=Y or X)
    rows = -1
    # (one by one: the least of them would compare the batch with the pixels)
    if Y is None and -1 not in (n, h, w):
        down, across = _sequence_counts((h, w), kernels, strides, paddings)
        rows = n * down * across
    return Spec((rows, c * kernels[0] * kernels[1]), X.dtype, 1)


def _window_rows(
    xp: Any,
    x: Array,
    counts: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
) -> Array:
    """(N, down, across, C, *kernel)"""
    size = [s * (n - 1) + k for s, n, k in zip(strides, counts, kernels, strict=True)]
    x = _with_border(xp, x, size, paddings[0], paddings[1])
    out = xp.empty((len(x), *counts, x.shape[1], *kernels), x.dtype)
    for (i, j), window in window_positions(kernels, strides, (1, 1), counts):
        out[..., i, j] = x[(slice(None), slice(None), *window)].transpose(0, 2, 3, 1)
    return out


@im2sequence.kernel
def _(
    xp: Any,
    X: Array,
    Y: Array | None,
    kernels: list[int],
    strides: list[int],
    paddings: list[int],
    out_stride: list[int],
) -> WithLod:
    columns = X.shape[1] * kernels[0] * kernels[1]
    if Y is None or len(X) == 1:
        counts = _sequence_counts(X.shape[2:], kernels, strides, paddings)
        rows = _window_rows(xp, X, counts, kernels, strides, paddings).reshape(-1, columns)
        return WithLod(rows, _even_lod(len(X), counts[0] * counts[1]))
    parts = []
    for i, size in enumerate(_real_sizes(Y, out_stride)):
        counts = _sequence_counts(size, kernels, strides, paddings)
        parts.append(_window_rows(xp, X[i : i + 1], counts, kernels, strides, paddings).reshape(-1, columns))
    ends = itertools.accumulate(map(len, parts), initial=0)
    return WithLod(xp.concatenate(parts), (tuple(ends),))


def _real_sizes(Y: Array, out_stride: Sequence[int]) -> list[list[int]]:
    """Heights and widths of what a network with this stride makes of images of the sizes in Y."""
    return [
        [-(-int(pixels) // stride) for pixels, stride in zip(real, out_stride, strict=True)]
        for real in host(Y).tolist()
    ]


def _even_lod(count: int, length: int) -> Lod:
    return (tuple(range(0, count * length + 1, length)) if length else (0,) * (count + 1),)


@im2sequence.grad("X")
def _(
    xp: Any,
    X: Array,
    Y: Array | None,
    dOut: Array,
    kernels: list[int],
    strides: list[int],
    paddings: list[int],
    out_stride: list[int],
) -> Any:
    if Y is None or len(X) == 1:
        counts = _sequence_counts(X.shape[2:], kernels, strides, paddings)
        return _rows_gradient(xp, dOut, X.shape, counts, kernels, strides, paddings)
    parts, start = [], 0
    for size in _real_sizes(Y, out_stride):
        counts = _sequence_counts(size, kernels, strides, paddings)
        stop = start + counts[0] * counts[1]
        one = (1, *X.shape[1:])
        parts.append(_rows_gradient(xp, dOut[start:stop], one, counts, kernels, strides, paddings))
        start = stop
    return xp.concatenate(parts)


def _rows_gradient(
    xp: Any,
    d: Array,
    shape: Sequence[int],
    counts: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
) -> Array:
    """The gradient of images of that shape from that of the rows of their windows."""
    d = d.reshape(shape[0], *counts, shape[1], *kernels)
    size = [s * (n - 1) + k for s, n, k in zip(strides, counts, kernels, strict=True)]
    out = xp.zeros((*shape[:2], *size), d.dtype)
    for (i, j), window in window_positions(kernels, strides, (1, 1), counts):
        out[(slice(None), slice(None), *window)] += d[..., i, j].transpose(0, 3, 1, 2)
    # elements after the last window have no gradient
    return _with_border(xp, out[:, :, paddings[0] :, paddings[1] :], shape[2:], 0, 0)
