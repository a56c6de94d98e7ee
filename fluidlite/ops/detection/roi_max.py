"""Maxima over the bins of regions of interest: roi_pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import KernelContext, Lod, Op, Spec
from fluidlite.ops.kernels.regions import (
    check_list,
    check_positive,
    images_of_regions,
    pooled_spec,
    round_half_away,
)
from fluidlite.ops.kernels.sampled_rows import pixels_of
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_SIZES = {"spatial_scale": 1.0, "pooled_height": 1, "pooled_width": 1}
roi_pool = Op(
    "roi_pool",
    "X ROIs RoisLod? RoisNum? -> Out Argmax",
    attrs=_SIZES,
    lod=None,
    later=("RoisNum",),
    held_as={"Argmax": VarType.INT64},
    constants=("ROIs",),
    version=2,
)


@roi_pool.shape
def _(
    X: Spec, ROIs: Spec, RoisLod: Spec | None, pooled_height: int, pooled_width: int, spatial_scale: float
) -> tuple[Spec, Spec]:
    check_positive("roi_pool", spatial_scale=spatial_scale)
    check_list("roi_pool", "RoisLod", RoisLod)
    out = pooled_spec("roi_pool", X, ROIs, X.shape[1], pooled_height, pooled_width)
    # as fluid's layer declares it; the places themselves are int64
    return out, Spec(out.shape, VarType.INT32)


class Maxima(NamedTuple):
    """Largest values and the flat places in the image where they stand."""

    values: Array
    places: Array

    def better(self, xp: Any, other: Maxima) -> Maxima:
        """Those of both; of equal values the first in the image."""
        tie = (other.values == self.values) & (other.places < self.places)
        wins = (other.values > self.values) | tie
        return Maxima(xp.where(wins, other.values, self.values), xp.where(wins, other.places, self.places))

    def part(self, index: Any) -> Maxima:
        return Maxima(self.values[index], self.places[index])

    def doubled(self, xp: Any, axis: int, size: int) -> Maxima:
        """Maxima of windows twice as long along `axis`, from those of windows of `size`."""
        count = self.values.shape[axis]
        before, after, rest = (
            (slice(None),) * axis + (part,)
            for part in (slice(0, count - size), slice(size, None), slice(count - size, None))
        )
        joined = self.part(before).better(xp, self.part(after))
        pairs = zip(joined, self.part(rest), strict=True)
        return Maxima(*(xp.concatenate(pair, axis=axis) for pair in pairs))


def _tables(xp: Any, X: Array, most: tuple[int, int]) -> Iterator[tuple[int, int, Maxima]]:
    """(a, b, the maxima of all windows of 2^a rows and 2^b columns, by their first pixel), up to `most`."""
    n, c, h, w = X.shape
    table = pixels_of(xp, X).reshape(n, h, w, c)
    lowest = xp.finfo(X.dtype).min
    # as in Paddle a NaN is not found, nor the lowest number
    is_above = table > lowest
    places = xp.arange(h * w, dtype="int32").reshape(h, w, 1)
    tall = Maxima(xp.where(is_above, table, lowest), xp.where(is_above, places, np.int32(-1)))
    for a in range(most[0] + 1):
        wide = tall
        for b in range(most[1] + 1):
            yield a, b, wide
            if b < most[1]:
                wide = wide.doubled(xp, 2, 1 << b)
        if a < most[0]:
            tall = tall.doubled(xp, 1, 1 << a)


def _bounds(xp: Any, first: Array, last: Array, scale: Any, bins: int, pixels: int) -> tuple[Array, Array]:
    """(R, bins) each: the first pixel of every bin, and the one behind its last."""
    start = round_half_away(xp, first * scale)
    size = xp.maximum(round_half_away(xp, last * scale) - start + 1, 1) / bins
    number = xp.arange(bins, dtype=size.dtype)
    low = xp.floor(number * size[:, None]) + start[:, None]
    high = xp.ceil((number + 1) * size[:, None]) + start[:, None]
    return (xp.clip(low, 0, pixels).astype("int64"), xp.clip(high, 0, pixels).astype("int64"))


def _exponents(xp: Any, sizes: Array) -> Array:
    """The largest a with 2^a <= size."""
    return xp.floor(xp.log2(xp.maximum(sizes, 1))).astype("int64")


@roi_pool.kernel
@with_attrs(_SIZES)
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    ROIs: Array,
    ROIs_lod: Lod,
    RoisLod: Maybe,
    RoisNum: Maybe,
    attrs: dict[str, Any],
) -> tuple[Array, Array]:
    n, c, height, width = X.shape
    scale = ROIs.dtype.type(attrs["spatial_scale"])
    high = attrs["pooled_height"]
    wide = attrs["pooled_width"]
    images = images_of_regions(xp, "roi_pool", len(ROIs), n, ROIs_lod, RoisLod, RoisNum)
    down = _bounds(xp, ROIs[:, 1], ROIs[:, 3], scale, high, height)
    across = _bounds(xp, ROIs[:, 0], ROIs[:, 2], scale, wide, width)
    found: Any = None
    if ctx.searches is not None:
        found = ctx.searches.maxima_of_bins(pixels_of(xp, X), (height, width), images, down, across)
    if found is None:
        found = maxima_of_bins(xp, X, images, down, across)
    out, places = (part.reshape(len(ROIs), high, wide, c).transpose(0, 3, 1, 2) for part in found)
    return xp.ascontiguousarray(out), places.astype("int64", order="C")


def maxima_of_bins(
    xp: Any, X: Array, images: Array, down: tuple[Array, Array], across: tuple[Array, Array]
) -> Maxima:
    """The maxima of bins of regions, whose first pixels and ends are [R, bins]."""
    shape = (*down[0].shape, across[0].shape[1])
    sides = [xp.broadcast_to(part[:, :, None], shape).reshape(-1) for part in down]
    sides += [xp.broadcast_to(part[:, None], shape).reshape(-1) for part in across]
    return _maxima_of_windows(xp, X, xp.broadcast_to(images[:, None, None], shape).reshape(-1), sides)


def _maxima_of_windows(xp: Any, X: Array, image: Array, sides: list[Array]) -> Maxima:
    """The maxima of windows (top, bottom, left, right) of images: 0 at the place -1 where one is empty.

    A window is covered by four, perhaps overlapping, windows whose sides are powers of two, and the maxima of
    those are looked up: the work does not grow with the windows' areas.
    """
    top, bottom, left, right = sides
    rows, columns = (_exponents(xp, size) for size in (bottom - top, right - left))
    filled = (bottom > top) & (right > left)
    values = xp.zeros((len(image), X.shape[1]), X.dtype)
    out = Maxima(values, xp.full(values.shape, -1, "int32"))
    if len(rows):
        most = (int(rows.max()), int(columns.max()))
    else:
        most = (0, 0)
    for a, b, table in _tables(xp, X, most):
        (which,) = xp.nonzero((rows == a) & (columns == b) & filled)
        if len(which):
            n = image[which]
            y = top[which]
            x = left[which]
            lower = bottom[which] - (1 << a)
            further = right[which] - (1 << b)
            best = table.part((n, y, x)).better(xp, table.part((n, y, further)))
            rest = table.part((n, lower, x)).better(xp, table.part((n, lower, further)))
            out.values[which], out.places[which] = best.better(xp, rest)
    return out


@roi_pool.grad("X")
def _(
    xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, RoisLod: Maybe, RoisNum: Maybe, Argmax: Array, dOut: Array
) -> Array:
    n, c, height, width = X.shape
    images = images_of_regions(xp, "roi_pool", len(ROIs), n, ROIs_lod, RoisLod, RoisNum)
    planes = images[:, None] * c + xp.arange(c)
    places = planes[:, :, None, None] * (height * width) + xp.maximum(Argmax, 0)
    shares = (dOut * (Argmax >= 0)).reshape(-1)
    return xp.bincount(places.reshape(-1), shares, minlength=X.size).astype(X.dtype).reshape(X.shape)
