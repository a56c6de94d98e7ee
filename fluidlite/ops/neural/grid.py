"""Spatial transformers: affine_grid and grid_sampler."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import INTS, OF_2X_ATTR, Op, Spec, later

Maybe: TypeAlias = "Array | None"

affine_grid = Op(
    "affine_grid",
    "Theta. OutputShape? -> Output",
    attrs={"output_shape": INTS(), "align_corners": later(True)},
    kept={"use_cudnn": True},
    version=1,
)


@affine_grid.shape
def _(Theta: Spec, OutputShape: Spec | None, output_shape: list[int]) -> Spec:
    if len(Theta.shape) != 3 or not fits(Theta.shape[1:], (2, 3), (3, 4)):
        raise ShapeError(
            f"op 'affine_grid': Theta must have shape [N, 2, 3], or [N, 3, 4] of volumes, but has "
            f"{list(Theta.shape)}"
        )
    dims = max(Theta.shape[1], Theta.shape[2] - 1)
    if dims < 0:  # of images, where nothing says of what
        dims = 2
    if OutputShape is None and len(output_shape) != dims + 2:
        raise ShapeError(
            f"op 'affine_grid': output_shape must have {dims + 2} numbers for Theta{list(Theta.shape)}, but "
            f"is {list(output_shape)}"
        )
    return Theta.with_shape((Theta.shape[0], *(-1,) * dims, dims))


def _points(xp: Any, OutputShape: Maybe, output_shape: list[int], dtype: Any, aligned: bool) -> Array:
    """(H, W, 3), or (D, H, W, 4): x, y (and z) from -1 to 1 over the image, and 1. -1 and 1 are the centres
    of the outermost pixels (`aligned`), or their outer borders.
    """
    sizes = [int(size) for size in (output_shape if OutputShape is None else OutputShape)[2:]]
    out = xp.ones((*sizes, len(sizes) + 1), dtype)
    for axis, size in enumerate(sizes):
        line = xp.linspace(-1, 1, size, dtype=dtype) * dtype.type(1 if aligned else (size - 1) / size)
        out[..., len(sizes) - 1 - axis] = line.reshape(-1, *(1,) * (len(sizes) - 1 - axis))
    return out


@affine_grid.kernel
def _(xp: Any, Theta: Array, OutputShape: Maybe, output_shape: list[int], align_corners: bool) -> Array:
    points = _points(xp, OutputShape, output_shape, Theta.dtype, align_corners)
    dims = Theta.shape[1]
    if points.ndim != dims + 1:
        raise ShapeError(
            f"op 'affine_grid': Theta{list(Theta.shape)} is for {dims} dimensions, but the images "
            f"have {points.ndim - 1}"
        )
    flat = points.reshape(-1, dims + 1)
    return xp.matmul(flat, Theta.swapaxes(1, 2)).reshape(len(Theta), *points.shape[:-1], dims)


def _theta(dOutput: Spec) -> Spec:
    dims = len(dOutput.shape) - 2
    return dOutput.with_shape((dOutput.shape[0], dims, dims + 1))


@affine_grid.grad("Theta", shape=_theta)
def _(xp: Any, OutputShape: Maybe, dOutput: Array, output_shape: list[int], align_corners: bool) -> Array:
    dims = dOutput.shape[-1]
    points = _points(xp, OutputShape, output_shape, dOutput.dtype, align_corners).reshape(-1, dims + 1)
    rows = dOutput.reshape(len(dOutput), math.prod(dOutput.shape[1:-1]), dims)
    return xp.matmul(rows.swapaxes(1, 2), points)


grid_sampler = Op(
    "grid_sampler",
    "X. Grid. -> Output",
    attrs={
        "mode": later("bilinear"),
        "padding_mode": later("zeros"),
        "align_corners": later(True),
        OF_2X_ATTR: later(False),
    },
    alike=("X", "Grid"),
    kept={"use_cudnn": True},
    version=1,
)


@grid_sampler.shape
def _(X: Spec, Grid: Spec, of_2x: bool) -> Spec:
    dims = len(X.shape) - 2
    if dims not in (2, 3) or len(Grid.shape) != dims + 2 or Grid.shape[-1] not in (-1, dims):
        raise ShapeError(
            f"op 'grid_sampler': X must have 4 dimensions and Grid shape [N, H, W, 2] (of volumes 5 and "
            f"[N, D, H, W, 3]), but they have shapes {list(X.shape)} and {list(Grid.shape)}"
        )
    size: Sequence[int] = Grid.shape[1:-1]
    if not of_2x:  # 1.8.5 takes sizes that are not known for those of the image
        size = [x if g < 0 else g for x, g in zip(X.shape[2:], size, strict=True)]
    return X.with_shape((*X.shape[:2], *size))


class _Places(NamedTuple):
    """Places of the points of a grid along one dimension of the image: (N, points); and how much they move
    there for each step of the grid.
    """

    at: Array
    slope: Any


def _along(xp: Any, grid: Array, size: int, padding: str, aligned: bool) -> _Places:
    """The rows or columns that numbers from -1 to 1 point at."""
    kind = grid.dtype.type
    if aligned:  # -1 and 1 are the centres of the outermost pixels
        at = (grid + 1) * kind((size - 1) / 2)
        slope = kind((size - 1) / 2)
    else:
        at = ((grid + 1) * kind(size) - 1) / kind(2)
        slope = kind(size / 2)
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


def _places(xp: Any, Grid: Array, shape: tuple[int, ...], padding: str, aligned: bool) -> list[_Places]:
    """The columns, rows (and slices) that a grid points at."""
    dims = Grid.shape[-1]
    points = Grid.reshape(len(Grid), math.prod(Grid.shape[1:-1]), dims)
    return [_along(xp, points[..., i], shape[-1 - i], padding, aligned) for i in range(dims)]


def _nearest(xp: Any, at: Array) -> Array:
    """The next integer; halves go up, as C's round does with numbers that are not negative."""
    return xp.floor(at + at.dtype.type(0.5))


class _Corner(NamedTuple):
    """One of the neighbours of the points: its flat place, whether it is in the image, its weight along each
    dimension, and the sign by which that weight changes as a point moves.
    """

    place: Array
    inside: Array
    weights: list[Array]
    signs: tuple[int, ...]

    def weight(self, without: int = -1) -> Any:
        """The product of the weights, but for that along one dimension."""
        kept = [weight for i, weight in enumerate(self.weights) if i != without]
        return functools.reduce(operator.mul, kept)


def _corners(xp: Any, places: Sequence[Array], shape: tuple[int, ...]) -> Iterator[_Corner]:
    """The neighbours of points: four in images, eight in volumes; `places` are columns first."""
    sizes = shape[:1:-1]
    floors = [xp.floor(at) for at in places]
    for bits in itertools.product((0, 1), repeat=len(places)):
        spots = [low + bit for low, bit in zip(floors, bits, strict=True)]
        weights = [
            at - low if bit else low + 1 - at for at, low, bit in zip(places, floors, bits, strict=True)
        ]
        inside = functools.reduce(
            operator.and_, [(spot >= 0) & (spot < size) for spot, size in zip(spots, sizes, strict=True)]
        )
        flat: Any = 0
        for spot, size in zip(spots[::-1], sizes[::-1], strict=True):
            flat = flat * size + xp.where(inside, spot, 0)  # a nan lies nowhere
        signs = tuple(1 if bit else -1 for bit in bits)
        yield _Corner(flat.astype("int64"), inside, weights, signs)


def _picked(xp: Any, images: Array, corner: _Corner) -> Array:
    """(N, C, points) from images (N, C, pixels); what a corner outside of the image finds means nothing."""
    return xp.take_along_axis(images, corner.place[:, None], axis=2)


def _flat(X: Array) -> Array:
    """Images as rows of pixels: (N, C, pixels)."""
    return X.reshape(*X.shape[:2], math.prod(X.shape[2:]))


@grid_sampler.kernel
def _(xp: Any, X: Array, Grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    if len(X) != len(Grid):
        raise ShapeError(f"op 'grid_sampler': X has {len(X)} images, but Grid is for {len(Grid)}")
    images = _flat(X)
    out = xp.zeros((*X.shape[:2], math.prod(Grid.shape[1:-1])), X.dtype)
    found = [places.at for places in _places(xp, Grid, X.shape, padding_mode, align_corners)]
    if mode == "nearest":
        found = [_nearest(xp, at) for at in found]
    for corner in _corners(xp, found, X.shape):
        share = _picked(xp, images, corner) * corner.weight()[:, None]
        # chosen, not multiplied: a point far outside has weights that are infinite or nan
        out += xp.where(corner.inside[:, None], share, X.dtype.type(0))
    return out.reshape(*X.shape[:2], *Grid.shape[1:-1])


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
    d = _flat(dOutput)
    places = _places(xp, Grid, X.shape, padding_mode, align_corners)
    found = [one.at for one in places]
    if mode == "nearest":
        found = [_nearest(xp, at) for at in found]
    dx = _image_gradient(xp, X, d, found) if "X@GRAD" in wants else None
    if "Grid@GRAD" not in wants:
        return dx, None
    if mode == "nearest":  # the result does not change as the points move a little
        return dx, xp.zeros_like(Grid)
    moved = _point_gradient(xp, X, d, found)
    for i, one in enumerate(places):
        moved[..., i] *= one.slope
    return dx, moved.reshape(Grid.shape)


def _image_gradient(xp: Any, X: Array, d: Array, places: Sequence[Array]) -> Array:
    n, c = X.shape[:2]
    first = (xp.arange(n * c) * math.prod(X.shape[2:])).reshape(n, c, 1)
    sums = xp.zeros(X.size, "float64")
    for corner in _corners(xp, places, X.shape):
        # chosen, not multiplied: the weights of a point at infinity are nan
        shares = xp.where(corner.inside[:, None], d * corner.weight()[:, None], d.dtype.type(0))
        sums += xp.bincount(
            (first + corner.place[:, None]).reshape(-1), weights=shares.reshape(-1), minlength=X.size
        )
    return sums.astype(X.dtype).reshape(X.shape)


def _point_gradient(xp: Any, X: Array, d: Array, places: Sequence[Array]) -> Array:
    """(N, points, dimensions): how the result changes as the points move by a pixel."""
    images = _flat(X)
    out = xp.zeros((*places[0].shape, len(places)), d.dtype)
    for corner in _corners(xp, places, X.shape):
        value = (_picked(xp, images, corner) * d).sum(axis=1)
        for i, sign in enumerate(corner.signs):
            moved = sign * value * corner.weight(without=i)
            out[..., i] += xp.where(corner.inside, moved, d.dtype.type(0))
    return out
