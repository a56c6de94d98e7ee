"""Averages over the bins of regions of interest: roi_align, psroi_pool, prroi_pool.

A region is (left, top, right, bottom) in pixels of the input image; times `spatial_scale` in those of the
feature map. Its level of detail, or a tensor beside it, says to which image of the batch it belongs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, later, required
from fluidlite.ops.kernels.regions import (
    check_list,
    check_positive,
    images_by_counts,
    images_by_offsets,
    images_of_regions,
    pooled_spec,
    round_half_away,
)
from fluidlite.ops.kernels.sampled_rows import RowSampler, image_of_pixels, pixels_of, region_sampler
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"
Attrs: TypeAlias = "dict[str, Any]"

_MOST_PRODUCTS = 1 << 26
_SIZES = {"spatial_scale": 1.0, "pooled_height": 1, "pooled_width": 1}


def _bin_starts(xp: Any, start: Array, size: Array, bins: int) -> Array:
    """(R, bins, 1): where the bins of a region begin."""
    return (start[:, None] + xp.arange(bins, dtype=size.dtype) * size[:, None])[:, :, None]


def _maps(xp: Any, sums: Array, regions: int, attrs: Attrs) -> Array:
    """The sums of all bins, (R * height * width, C), as (R, C, height, width)."""
    return image_of_pixels(xp, sums, (regions, sums.shape[1], attrs["pooled_height"], attrs["pooled_width"]))


# ------------------------------------------------------------------ roi_align
_ALIGN = {**_SIZES, "sampling_ratio": -1, "aligned": later(False)}
roi_align = Op(
    "roi_align",
    "X ROIs RoisLod? RoisNum? -> Out",
    attrs=_ALIGN,
    lod=None,
    later=("RoisNum",),
    constants=("ROIs",),
    version=3,
    alike=("X", "ROIs"),
)


@roi_align.shape
def _(
    X: Spec, ROIs: Spec, RoisLod: Spec | None, pooled_height: int, pooled_width: int, spatial_scale: float
) -> Spec:
    check_positive("roi_align", spatial_scale=spatial_scale)
    check_list("roi_align", "RoisLod", RoisLod)
    return pooled_spec("roi_align", X, ROIs, X.shape[1], pooled_height, pooled_width)


def _sample_weights(
    xp: Any, start: Array, end: Array, bins: int, ratio: int, pixels: int, aligned: bool
) -> Array:
    """(R, bins, pixels): the mean of bilinear samples, `ratio` in a bin, else one a pixel. Regions that are
    not `aligned` have one pixel at least.
    """
    size = (end - start if aligned else xp.maximum(end - start, 1)) / bins
    counts = (xp.ceil(size) if ratio <= 0 else xp.full_like(size, ratio))[:, None, None]
    number = xp.arange(int(counts.max()) if counts.size else 1, dtype=size.dtype)
    step = size[:, None, None] / counts
    places = _bin_starts(xp, start, size, bins) + (number + 0.5) * step
    valid = (number < counts) & (places >= -1) & (places <= pixels)
    places = xp.clip(places, 0, pixels - 1)
    low = xp.floor(places)
    high = xp.minimum(low + 1, pixels - 1)
    first = xp.arange(size.size * bins).reshape(-1, bins, 1) * pixels
    shares = valid / counts * (places - low), valid / counts * (low + 1 - places)
    out = sum(
        xp.bincount(
            (first + pixel.astype("int64")).reshape(-1), share.reshape(-1), minlength=first.size * pixels
        )
        for pixel, share in zip((high, low), shares, strict=True)
    )
    return out.reshape(-1, bins, pixels).astype(start.dtype)


def _aligned(
    xp: Any, X: Array, ROIs: Array, lod: Lod, offsets: Maybe, counts: Maybe, attrs: Attrs
) -> RowSampler:
    images = images_of_regions(xp, "roi_align", len(ROIs), len(X), lod, offsets, counts)
    aligned = attrs["aligned"]
    # a pixel's value stands in its middle
    scaled = ROIs * ROIs.dtype.type(attrs["spatial_scale"]) - ROIs.dtype.type(0.5 if aligned else 0)
    ratio = attrs["sampling_ratio"]
    high, wide = X.shape[2:]
    down = _sample_weights(xp, scaled[:, 1], scaled[:, 3], attrs["pooled_height"], ratio, high, aligned)
    across = _sample_weights(xp, scaled[:, 0], scaled[:, 2], attrs["pooled_width"], ratio, wide, aligned)
    return region_sampler(xp, images[:, None, None], down, across, len(X))


@roi_align.kernel
@with_attrs(_ALIGN)
def _(xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, RoisLod: Maybe, RoisNum: Maybe, attrs: Attrs) -> Array:
    sampler = _aligned(xp, X, ROIs, ROIs_lod, RoisLod, RoisNum, attrs)
    return _maps(xp, sampler.read(pixels_of(xp, X)), len(ROIs), attrs)


@roi_align.grad("X")
@with_attrs(_ALIGN)
def _(
    xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, RoisLod: Maybe, RoisNum: Maybe, dOut: Array, attrs: Attrs
) -> Array:
    sampler = _aligned(xp, X, ROIs, ROIs_lod, RoisLod, RoisNum, attrs)
    return image_of_pixels(xp, sampler.spread(pixels_of(xp, dOut)), X.shape)


# ------------------------------------------------------------------ psroi_pool
_PER_POSITION = {"output_channels": required(AttrType.INT), **_SIZES}
psroi_pool = Op(
    "psroi_pool",
    "X. ROIs. RoisNum? -> Out",
    attrs=_PER_POSITION,
    lod=None,
    later=("RoisNum",),
    constants=("ROIs",),
)


@psroi_pool.shape
def _(
    X: Spec, ROIs: Spec, output_channels: int, pooled_height: int, pooled_width: int, spatial_scale: float
) -> Spec:
    check_positive("psroi_pool", spatial_scale=spatial_scale)
    wanted = output_channels * pooled_height * pooled_width
    if len(X.shape) == 4 and X.shape[1] not in (-1, wanted):
        raise ShapeError(
            f"op 'psroi_pool': X has {X.shape[1]} channels, wanted output_channels * pooled_height * "
            f"pooled_width = {output_channels} * {pooled_height} * {pooled_width} = {wanted}"
        )
    return pooled_spec("psroi_pool", X, ROIs, output_channels, pooled_height, pooled_width)


def _mean_weights(xp: Any, first: Array, last: Array, scale: Any, bins: int, pixels: int) -> Array:
    """(R, bins, pixels): the mean of the pixels that a bin touches."""
    start = round_half_away(xp, first) * scale
    size = xp.maximum((round_half_away(xp, last) + 1) * scale - start, first.dtype.type(0.1)) / bins
    number = xp.arange(bins, dtype=size.dtype)
    low, high = (
        xp.clip(rounded((number + more) * size[:, None] + start[:, None]), 0, pixels)[:, :, None]
        for rounded, more in ((xp.floor, 0), (xp.ceil, 1))
    )
    pixel = xp.arange(pixels)
    return ((pixel >= low) & (pixel < high)) / xp.maximum(high - low, 1)


class _PerPosition:
    """Means over the bins of regions, each of channels of its own: `down` (R, high, H) and `across` (R, wide,
    W) are weights of rows and columns.
    """

    def __init__(self, xp: Any, X: Array, ROIs: Array, lod: Lod, counts: Maybe, attrs: Attrs) -> None:
        high = attrs["pooled_height"]
        wide = attrs["pooled_width"]
        self.channels = attrs["output_channels"]
        scale = ROIs.dtype.type(attrs["spatial_scale"])
        self.xp = xp
        self.attrs = attrs
        self.shape = X.shape
        self.images = images_of_regions(xp, "psroi_pool", len(ROIs), len(X), lod, None, counts)
        self.down = _mean_weights(xp, ROIs[:, 1], ROIs[:, 3], scale, high, X.shape[2]).astype(X.dtype)
        self.across = _mean_weights(xp, ROIs[:, 0], ROIs[:, 2], scale, wide, X.shape[3]).astype(X.dtype)
        self.bins = self.channels, high, wide

    def is_dense(self, *arrays: Array) -> bool:
        """True if products of all pixels take no longer than finding the few that a bin reads (16 times as
        long for a few hundred regions), and a weight of 0 hides them.
        """
        work = math.prod(self.shape[1:]) * len(self.images)
        return self.xp is np and work < _MOST_PRODUCTS and all(np.isfinite(each).all() for each in arrays)

    def parts(self) -> Iterator[tuple[int, slice, Array, Array]]:
        """Each image with its regions, and their weights (high, H, r) and (wide, r, W)."""
        bounds = np.searchsorted(self.images, np.arange(self.shape[0] + 1)).tolist()
        for image, (first, end) in enumerate(itertools.pairwise(bounds)):
            regions = slice(first, end)
            down = self.down[regions].transpose(1, 2, 0)
            across = self.across[regions].swapaxes(0, 1)
            yield image, regions, down[:, None], across

    def sampler(self) -> RowSampler:
        """The pixels that each bin reads."""
        xp = self.xp
        _, high, wide = self.bins
        # an image for each of the bins
        read = self.images[:, None, None] * (high * wide) + xp.arange(high * wide).reshape(high, wide)
        return region_sampler(xp, read, self.down, self.across, self.shape[0] * high * wide)

    def read(self, X: Array) -> Array:
        """(R, channels, high, wide) of images."""
        n, _, h, w = self.shape
        by_bin = X.reshape(n, *self.bins, h, w)
        if not self.is_dense(X):
            table = by_bin.transpose(0, 2, 3, 1, 4, 5).reshape(-1, self.channels, h, w)
            return _maps(
                self.xp, self.sampler().read(pixels_of(self.xp, table)), len(self.images), self.attrs
            )
        out = np.empty((len(self.images), *self.bins), X.dtype)
        for image, regions, down, across in self.parts():
            rows = by_bin[image] @ across.swapaxes(1, 2)
            out[regions] = (rows * down).sum(axis=-2).transpose(3, 0, 1, 2)
        return out

    def spread(self, d: Array) -> Array:
        """The gradient of the images from that of what `read` gave."""
        n, _, h, w = self.shape
        if not self.is_dense(d):
            _, high, wide = self.bins
            table = self.sampler().spread(pixels_of(self.xp, d))
            by_bin = image_of_pixels(self.xp, table, (n * high * wide, self.channels, h, w))
            return (
                by_bin.reshape(n, high, wide, *by_bin.shape[1:])
                .transpose(0, 3, 1, 2, 4, 5)
                .reshape(self.shape)
            )
        out = np.empty((n, *self.bins, h, w), d.dtype)
        for image, regions, down, across in self.parts():
            np.matmul(d[regions].transpose(1, 2, 3, 0)[..., None, :] * down, across, out=out[image])
        return out.reshape(self.shape)


@psroi_pool.kernel
@with_attrs(_PER_POSITION)
def _(xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, RoisNum: Maybe, attrs: Attrs) -> Array:
    return _PerPosition(xp, X, ROIs, ROIs_lod, RoisNum, attrs).read(X)


@psroi_pool.grad("X")
@with_attrs(_PER_POSITION)
def _(xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, RoisNum: Maybe, dOut: Array, attrs: Attrs) -> Array:
    return _PerPosition(xp, X, ROIs, ROIs_lod, RoisNum, attrs).spread(dOut)


# ------------------------------------------------------------------ prroi_pool
prroi_pool = Op("prroi_pool", "X ROIs BatchRoINums? -> Out", attrs=_SIZES, lod=None, alike=("X", "ROIs"))


@prroi_pool.shape
def _(
    X: Spec,
    ROIs: Spec,
    BatchRoINums: Spec | None,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Spec:
    check_positive("prroi_pool", spatial_scale=spatial_scale)
    check_list("prroi_pool", "BatchRoINums", BatchRoINums, X.shape[0])
    return pooled_spec("prroi_pool", X, ROIs, X.shape[1], pooled_height, pooled_width)


def _hat(xp: Any, x: Array) -> Array:
    """The weight of a pixel for a point at the distance x: 1 - |x|, never negative."""
    return xp.maximum(1 - xp.abs(x), 0)


def _hat_integral(xp: Any, x: Array) -> Array:
    """The integral of `_hat` up to x."""
    x = xp.clip(x, -1, 1)
    return xp.where(x < 0, (x + 1) ** 2, 2 - (1 - x) ** 2) / 2


class _Edges:
    """The bins of regions along one axis: `edges` (2, R, bins, 1), where they begin and end, and their
    `size` (R,).
    """

    def __init__(self, xp: Any, start: Array, end: Array, bins: int, pixels: int) -> None:
        self.xp = xp
        self.pixel = xp.arange(pixels, dtype=start.dtype)
        self.size = xp.maximum(end - start, 0) / bins
        begins = _bin_starts(xp, start, self.size, bins)
        self.edges = xp.stack([begins, begins + self.size[:, None, None]])

    def integral(self) -> Array:
        """(R, bins, pixels): the weights of the pixels in the integral over a bin."""
        low, high = _hat_integral(self.xp, self.edges - self.pixel)
        return high - low

    def at(self, side: int) -> Array:
        """(R, bins, pixels): the weights of the pixels at the bins' beginnings (0) or ends (1)."""
        return _hat(self.xp, self.edges[side] - self.pixel)


class _Precise:
    """The integrals of precise RoI pooling (Jiang et al. 2018): exact, of the bilinear interpolation."""

    def __init__(self, xp: Any, X: Array, ROIs: Array, lod: Lod, counts: Maybe, attrs: Attrs) -> None:
        sizes = len(ROIs), len(X)
        if counts is None:
            images = images_by_offsets(xp, "prroi_pool", *sizes, lod)
        else:
            images = images_by_counts(xp, "prroi_pool", *sizes, counts)
        scaled = ROIs * ROIs.dtype.type(attrs["spatial_scale"])
        self.xp = xp
        self.images = images[:, None, None]
        self.count = len(X)
        self.down = _Edges(xp, scaled[:, 1], scaled[:, 3], attrs["pooled_height"], X.shape[2])
        self.across = _Edges(xp, scaled[:, 0], scaled[:, 2], attrs["pooled_width"], X.shape[3])
        areas = self.down.size * self.across.size
        per_area = xp.where(areas > 0, 1 / xp.where(areas > 0, areas, 1), 0).astype(X.dtype)
        self.per_area = xp.repeat(per_area, attrs["pooled_height"] * attrs["pooled_width"])[:, None]

    def sampler(self, down: Array, across: Array) -> RowSampler:
        return region_sampler(self.xp, self.images, down, across, self.count)

    def integrals(self) -> RowSampler:
        return self.sampler(self.down.integral(), self.across.integral())

    def change(self, table: Array, weighted: Array, bins: tuple[int, int, int]) -> list[Array]:
        """Derivatives of the loss by each bin's left, top, right, bottom, through its integral; (R, high,
        wide) each.
        """
        down = self.down.integral()
        across = self.across.integral()
        sides = [
            (-1, self.sampler(down, self.across.at(0))),
            (-1, self.sampler(self.down.at(0), across)),
            (1, self.sampler(down, self.across.at(1))),
            (1, self.sampler(self.down.at(1), across)),
        ]
        return [sign * (side.read(table) * weighted).sum(axis=1).reshape(bins) for sign, side in sides]


@prroi_pool.kernel
@with_attrs(_SIZES)
def _(xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, BatchRoINums: Maybe, attrs: Attrs) -> Array:
    precise = _Precise(xp, X, ROIs, ROIs_lod, BatchRoINums, attrs)
    means = precise.integrals().read(pixels_of(xp, X)) * precise.per_area
    return _maps(xp, means, len(ROIs), attrs)


@prroi_pool.grad("X ROIs")
@with_attrs(_SIZES)
def _(
    xp: Any,
    X: Array,
    ROIs: Array,
    ROIs_lod: Lod,
    BatchRoINums: Maybe,
    Out: Array,
    dOut: Array,
    wants: frozenset[str],
    attrs: Attrs,
) -> tuple[Maybe, Maybe]:
    precise = _Precise(xp, X, ROIs, ROIs_lod, BatchRoINums, attrs)
    weighted = pixels_of(xp, dOut) * precise.per_area
    dx = drois = None
    if "X@GRAD" in wants:
        dx = image_of_pixels(xp, precise.integrals().spread(weighted), X.shape)
    if "ROIs@GRAD" in wants:
        bins = (len(ROIs), attrs["pooled_height"], attrs["pooled_width"])
        sides = precise.change(pixels_of(xp, X), weighted, bins)
        loss = (dOut * Out).sum(axis=1)  # a mean falls as the area grows: d(I / A) = dI / A - (I / A) dA / A
        drois = _region_gradient(xp, precise, sides, loss) * X.dtype.type(attrs["spatial_scale"])
    return dx, drois


def _region_gradient(xp: Any, precise: _Precise, sides: list[Array], loss: Array) -> Array:
    """(R, 4), from how the loss changes with the sides of the bins and, through `loss`, with their areas."""
    parts = []
    for low, high, axis, edges in ((0, 2, 2, precise.across), (1, 3, 1, precise.down)):
        bins = loss.shape[axis]
        if axis == 1:
            shape = [1, -1, 1]
        else:
            shape = [1, 1, -1]
        begin = (xp.arange(bins, dtype=loss.dtype) / bins).reshape(shape)
        end = begin + 1 / bins
        by_size = loss.sum(axis=(1, 2)) / xp.maximum(edges.size, 1e-12) / bins
        first = (sides[low] * (1 - begin) + sides[high] * (1 - end)).sum(axis=(1, 2)) + by_size
        last = (sides[low] * begin + sides[high] * end).sum(axis=(1, 2)) - by_size
        parts.append((first, last))
    (left, right), (top, bottom) = parts
    return xp.stack([left, top, right, bottom], axis=1).astype(loss.dtype)
