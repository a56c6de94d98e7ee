"""Spatial transformers: affine_grid and grid_sampler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, Op, Spec

Maybe: TypeAlias = "Array | None"

affine_grid = Op("affine_grid", "Theta OutputShape? -> Output", attrs={"output_shape": INTS()}, lod=None)


@affine_grid.shape
def _(Theta: Spec) -> Spec:
    if len(Theta.shape) != 3 or Theta.shape[1:] != (2, 3):
        raise ShapeError(f"op 'affine_grid': Theta must have shape [N, 2, 3], but has {list(Theta.shape)}")
    return Theta.with_shape((Theta.shape[0], -1, -1, 2))


def _points(xp: Any, OutputShape: Maybe, output_shape: list[int], dtype: Any) -> Array:
    """(H, W, 3): x and y from -1 to 1 over the image, and 1."""
    height, width = (int(size) for size in (output_shape if OutputShape is None else OutputShape)[2:])
    y, x = (xp.linspace(-1, 1, size, dtype=dtype) for size in (height, width))
    out = xp.ones((height, width, 3), dtype)
    out[..., 0], out[..., 1] = x, y[:, None]
    return out


@affine_grid.kernel
def _(xp: Any, Theta: Array, OutputShape: Maybe, output_shape: list[int]) -> Array:
    points = _points(xp, OutputShape, output_shape, Theta.dtype)
    return xp.matmul(points.reshape(-1, 3), Theta.swapaxes(1, 2)).reshape(len(Theta), *points.shape[:2], 2)


def _theta(dOutput: Spec) -> Spec:
    return dOutput.with_shape((dOutput.shape[0], 2, 3))


@affine_grid.grad("Theta", shape=_theta)
def _(xp: Any, OutputShape: Maybe, dOutput: Array, output_shape: list[int]) -> Array:
    points = _points(xp, OutputShape, output_shape, dOutput.dtype).reshape(-1, 3)
    return xp.matmul(dOutput.reshape(len(dOutput), -1, 2).swapaxes(1, 2), points)


grid_sampler = Op("grid_sampler", "X Grid -> Output")


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


def _places(Grid: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The columns and rows that a grid from -1 to 1 points at: (N, H * W) each."""
    half = [Grid.dtype.type((size - 1) / 2) for size in (shape[3], shape[2])]
    points = Grid.reshape(len(Grid), -1, 2)
    return (points[..., 0] + 1) * half[0], (points[..., 1] + 1) * half[1]


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
def _(xp: Any, X: Array, Grid: Array) -> Array:
    images = X.reshape(*X.shape[:2], -1)
    out = xp.zeros((*X.shape[:2], Grid.shape[1] * Grid.shape[2]), X.dtype)
    for place, across, down, inside in _corners(xp, *_places(Grid, X.shape), X.shape):
        out += _picked(xp, images, place) * (across * down * inside)[:, None]
    return out.reshape(*X.shape[:2], *Grid.shape[1:3])


@grid_sampler.grad("X Grid")
def _(xp: Any, X: Array, Grid: Array, dOutput: Array, wants: frozenset[str]) -> tuple[Maybe, Maybe]:
    d = dOutput.reshape(*X.shape[:2], -1)
    x, y = _places(Grid, X.shape)
    dx = _image_gradient(xp, X, d, x, y) if "X@GRAD" in wants else None
    return dx, _point_gradient(xp, X, d, x, y).reshape(Grid.shape) if "Grid@GRAD" in wants else None


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
    """(N, points, 2): how the result changes as the points move."""
    images = X.reshape(*X.shape[:2], -1)
    out = xp.zeros((*x.shape, 2), d.dtype)
    for corner, (place, across, down, inside) in enumerate(_corners(xp, x, y, X.shape)):
        value = (_picked(xp, images, place) * d).sum(axis=1) * inside
        out[..., 0] += value * down if corner >= 2 else -value * down  # the corners on the right, on the left
        out[..., 1] += value * across if corner % 2 else -value * across  # below, above
    out *= xp.asarray([(X.shape[3] - 1) / 2, (X.shape[2] - 1) / 2], dtype=d.dtype)
    return out
