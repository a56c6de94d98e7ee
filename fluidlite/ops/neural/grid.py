"""Spatial transformers: affine_grid and grid_sampler."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, Op, Spec, later

Maybe: TypeAlias = "Array | None"

affine_grid = Op(
    "affine_grid",
    "Theta. OutputShape? -> Output",
    attrs={"output_shape": INTS(), "align_corners": later(True)},
)


@affine_grid.shape
def _(Theta: Spec) -> Spec:
    if len(Theta.shape) != 3 or Theta.shape[1:] != (2, 3):
        raise ShapeError(f"op 'affine_grid': Theta must have shape [N, 2, 3], but has {list(Theta.shape)}")
    return Theta.with_shape((Theta.shape[0], -1, -1, 2))


def _points(xp: Any, OutputShape: Maybe, output_shape: list[int], dtype: Any, aligned: bool) -> Array:
    """(H, W, 3): x and y from -1 to 1 over the image, and 1. -1 and 1 are the centres of the outermost pixels
    (`aligned`), or their outer borders.
    """
    height, width = (int(size) for size in (output_shape if OutputShape is None else OutputShape)[2:])
    y, x = (
        xp.linspace(-1, 1, size, dtype=dtype) * dtype.type(1 if aligned else (size - 1) / size)
        for size in (height, width)
    )
    out = xp.ones((height, width, 3), dtype)
    out[..., 0], out[..., 1] = x, y[:, None]
    return out


@affine_grid.kernel
def _(xp: Any, Theta: Array, OutputShape: Maybe, output_shape: list[int], align_corners: bool) -> Array:
    points = _points(xp, OutputShape, output_shape, Theta.dtype, align_corners)
    return xp.matmul(points.reshape(-1, 3), Theta.swapaxes(1, 2)).reshape(len(Theta), *points.shape[:2], 2)


def _theta(dOutput: Spec) -> Spec:
    return dOutput.with_shape((dOutput.shape[0], 2, 3))


@affine_grid.grad("Theta", shape=_theta)
def _(xp: Any, OutputShape: Maybe, dOutput: Array, output_shape: list[int], align_corners: bool) -> Array:
    points = _points(xp, OutputShape, output_shape, dOutput.dtype, align_corners).reshape(-1, 3)
    return xp.matmul(dOutput.reshape(len(dOutput), math.prod(dOutput.shape[1:-1]), 2).swapaxes(1, 2), points)


grid_sampler = Op(
    "grid_sampler",
    "X. Grid. -> Output",
    attrs={"mode": later("bilinear"), "padding_mode": later("zeros"), "align_corners": later(True)},
    alike=("X", "Grid"),
)


@grid_sampler.shape
def _(X: Spec, Grid: Spec) -> Spec:
    if len(X.shape) != 4 or len(Grid.shape) != 4 or Grid.shape[3] not in (-1, 2):
        raise ShapeError(
            f"op 'grid_sampler': X must have 4 dimensions and Grid shape [N, H, W, 2], but they have shapes "
            f"{list(X.shape)} and {list(Grid.shape)}"
        )
    return X.with_shape(
        (*X.shape[:2], *(x if g < 0 else g for x, g in zip(X.shape[2:], Grid.shape[1:3], strict=True)))
    )


class _Places(NamedTuple):
    """Places of the points of a grid along one dimension of the image: (N, H * W); and how much they move
    there for each step of the grid.
    """

    at: Array
    slope: Any


def _along(xp: Any, grid: Array, size: int, padding: str, aligned: bool) -> _Places:
    """The rows or columns that numbers from -1 to 1 point at."""
    kind = grid.dtype.type
    if aligned:  # -1 and 1 are the centres of the outermost pixels
        at, slope = (grid + 1) * kind((size - 1) / 2), kind((size - 1) / 2)
    else:
        at, slope = ((grid + 1) * kind(size) - 1) / kind(2), kind(size / 2)
    if padding == "zeros":
        return _Places(at, slope)
    if padding == "reflection":
        low, span = (kind(0), kind(size - 1)) if aligned else (kind(-0.5), kind(size))
        if span == 0:
            return _Places(xp.zeros_like(at), kind(0))
        turns = xp.floor((at - low) / span)
        rest = at - low - turns * span
        back = turns % 2 == 1
        at = xp.where(back, span - rest, rest) + low
        slope = slope * xp.where(back, kind(-1), kind(1))
    inside = (at > 0) & (at < size - 1)
    return _Places(xp.clip(at, 0, size - 1), slope * inside.astype(grid.dtype))


def _places(
    xp: Any, Grid: Array, shape: tuple[int, ...], padding: str, aligned: bool
) -> tuple[_Places, _Places]:
    """The columns and rows that a grid points at."""
    points = Grid.reshape(len(Grid), -1, 2)
    return (
        _along(xp, points[..., 0], shape[3], padding, aligned),
        _along(xp, points[..., 1], shape[2], padding, aligned),
    )


def _nearest(xp: Any, at: Array) -> Array:
    """The next whole number; halves go up, as C's round does with numbers that are not negative."""
    return xp.floor(at + at.dtype.type(0.5))


def _corners(
    xp: Any, x: Array, y: Array, shape: tuple[int, ...]
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """For each of the four neighbours of the points: its flat place, weights across and down, and whether
    it is in the image.
    """
    height, width = shape[2:]
    left, top = xp.floor(x), xp.floor(y)
    for column, across in ((left, left + 1 - x), (left + 1, x - left)):
        for row, down in ((top, top + 1 - y), (top + 1, y - top)):
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            place = xp.clip(row, 0, height - 1) * width + xp.clip(column, 0, width - 1)
            yield place.astype("int64"), across, down, inside


def _picked(xp: Any, images: Array, place: Array) -> Array:
    """(N, C, points) from images (N, C, H * W)."""
    return xp.take_along_axis(images, place[:, None], axis=2)


@grid_sampler.kernel
def _(xp: Any, X: Array, Grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    if len(X) != len(Grid):
        raise ShapeError(f"op 'grid_sampler': X has {len(X)} images, but Grid is one for {len(Grid)}")
    images = X.reshape(*X.shape[:2], -1)
    out = xp.zeros((*X.shape[:2], Grid.shape[1] * Grid.shape[2]), X.dtype)
    x, y = (places.at for places in _places(xp, Grid, X.shape, padding_mode, align_corners))
    if mode == "nearest":
        x, y = _nearest(xp, x), _nearest(xp, y)
    for place, across, down, inside in _corners(xp, x, y, X.shape):
        out += _picked(xp, images, place) * (across * down * inside)[:, None]
    return out.reshape(*X.shape[:2], *Grid.shape[1:3])


@grid_sampler.grad("X Grid")
def _(
    xp: Any,
    X: Array,
    Grid: Array,
    dOutput: Array,
    wants: frozenset[str],
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> tuple[Maybe, Maybe]:
    d = dOutput.reshape(*X.shape[:2], -1)
    columns, rows = _places(xp, Grid, X.shape, padding_mode, align_corners)
    x, y = columns.at, rows.at
    if mode == "nearest":
        x, y = _nearest(xp, x), _nearest(xp, y)
    dx = _image_gradient(xp, X, d, x, y) if "X@GRAD" in wants else None
    if "Grid@GRAD" not in wants:
        return dx, None
    if mode == "nearest":  # the result does not change as the points move a little
        return dx, xp.zeros_like(Grid)
    moved = _point_gradient(xp, X, d, x, y)
    moved[..., 0] *= columns.slope
    moved[..., 1] *= rows.slope
    return dx, moved.reshape(Grid.shape)


def _image_gradient(xp: Any, X: Array, d: Array, x: Array, y: Array) -> Array:
    n, c, height, width = X.shape
    first = (xp.arange(n * c) * (height * width)).reshape(n, c, 1)
    sums = xp.zeros(X.size, "float64")
    for place, across, down, inside in _corners(xp, x, y, X.shape):
        shares = d * (across * down * inside)[:, None]
        sums += xp.bincount(
            (first + place[:, None]).reshape(-1), weights=shares.reshape(-1), minlength=X.size
        )
    return sums.astype(X.dtype).reshape(X.shape)


def _point_gradient(xp: Any, X: Array, d: Array, x: Array, y: Array) -> Array:
    """(N, points, 2): how the result changes as the points move by a pixel."""
    images = X.reshape(*X.shape[:2], -1)
    out = xp.zeros((*x.shape, 2), d.dtype)
    for corner, (place, across, down, inside) in enumerate(_corners(xp, x, y, X.shape)):
        value = (_picked(xp, images, place) * d).sum(axis=1) * inside
        out[..., 0] += value * down if corner >= 2 else -value * down  # the corners on the right, on the left
        out[..., 1] += value * across if corner % 2 else -value * across  # below, above
    return out
