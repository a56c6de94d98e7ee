"""deformable_psroi_pooling: means over bins of regions that are moved by offsets (Dai et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, at_least, required
from fluidlite.ops.kernels.numbers import check_rows
from fluidlite.ops.kernels.regions import check_positive, check_regions, images_by_offsets, round_half_away
from fluidlite.ops.kernels.sampled_rows import RowSampler, bilinear_corners, image_of_pixels, pixels_of
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"
Attrs: TypeAlias = "dict[str, Any]"

_INT, _INTS, _FLOAT = required(AttrType.INT), required(AttrType.INTS), required(AttrType.FLOAT)
_ATTRS = {
    "no_trans": required(AttrType.BOOLEAN),
    "spatial_scale": _FLOAT,
    "output_dim": _INT,
    "group_size": at_least(1, _INTS),
    "pooled_height": _INT,
    "pooled_width": _INT,
    "part_size": at_least(1, _INTS),
    "sample_per_part": _INT,
    "trans_std": _FLOAT,
}
deformable_psroi_pooling = Op(
    "deformable_psroi_pooling",
    "Input. ROIs. Trans. -> TopCount Output",
    attrs=_ATTRS,
    lod=None,
    constants=("ROIs", "TopCount"),
    alike=("Input", "ROIs", "Trans"),
)


@deformable_psroi_pooling.shape
@with_attrs(_ATTRS)
def _(Input: Spec, ROIs: Spec, Trans: Spec, attrs: Attrs) -> tuple[Spec, Spec]:
    type = "deformable_psroi_pooling"
    check_regions(type, Input, ROIs)
    positive = ("spatial_scale", "output_dim", "pooled_height", "pooled_width", "sample_per_part")
    check_positive(type, **{name: attrs[name] for name in positive})
    if not 0 <= attrs["trans_std"] <= 1:
        raise ShapeError(f"op {type!r}: trans_std must be from 0 to 1, but is {attrs['trans_std']}")
    groups = attrs["group_size"]
    if Input.shape[1] not in (-1, attrs["output_dim"] * groups[0] * groups[1]):
        raise ShapeError(
            f"op {type!r}: Input has {Input.shape[1]} channels, wanted output_dim * group_size = "
            f"{attrs['output_dim']} * {groups[0]} * {groups[1]}"
        )
    parts = attrs["part_size"]
    if len(Trans.shape) != 4 or any(
        -1 < size < part for size, part in zip(Trans.shape[2:], parts, strict=True)
    ):
        raise ShapeError(
            f"op {type!r}: Trans has the shape {list(Trans.shape)}, wanted [R, 2 * classes, {parts[0]}, "
            f"{parts[1]}]"
        )
    if not attrs["no_trans"]:
        check_rows(type, ROIs=ROIs, Trans=Trans)
    out = Input.with_shape(
        (ROIs.shape[0], attrs["output_dim"], attrs["pooled_height"], attrs["pooled_width"])
    )
    return Spec(out.shape, VarType.INT32), out


class _BinSamples(NamedTuple):
    """The samples of every (region, class, bin down, bin across)."""

    sampler: Callable[[int], RowSampler]
    """By number: how the means are read, and how they change with the bins' offsets down and across; each
    is made when it is asked for.
    """
    counts: Array
    """(R, classes, high, wide): how many samples of a bin lie in the image."""


_MEAN, _DOWN, _ACROSS = range(3)


class _MovedBins:
    """The sizes of a pool, and its operands as tables.

    A class is a run of output channels that move together. Input channel (d * group height + i) * group width
    + j belongs to output channel d, where it serves part (i, j) of a region.
    """

    def __init__(self, xp: Any, Input: Array, ROIs: Array, lod: Lod, Trans: Array, attrs: Attrs) -> None:
        self.xp = xp
        self.attrs = attrs
        self.image = Input.shape
        self.trans = Trans
        self.images = images_by_offsets(xp, "deformable_psroi_pooling", len(ROIs), len(Input), lod)
        if not attrs["no_trans"]:
            check_rows("deformable_psroi_pooling", ROIs=ROIs, Trans=Trans)
        self.classes = 1 if attrs["no_trans"] else Trans.shape[1] // 2
        self.channels = attrs["output_dim"] // self.classes  # of a class
        self.bins = attrs["pooled_height"], attrs["pooled_width"]
        scale = ROIs.dtype.type(attrs["spatial_scale"])
        half = ROIs.dtype.type(0.5)
        starts = round_half_away(xp, ROIs[:, :2]) * scale - half
        ends = (round_half_away(xp, ROIs[:, 2:]) + 1) * scale - half
        self.sizes = xp.maximum(ends - starts, ROIs.dtype.type(0.1))
        self.starts = starts

    def table(self, Input: Array) -> Array:
        """Pixels by (image, class, group down, group across), with the class's channels in a row."""
        n, _, height, width = self.image
        groups = self.attrs["group_size"]
        parted = Input.reshape(n, self.classes, self.channels, *groups, height, width)
        return self.xp.ascontiguousarray(parted.transpose(0, 1, 3, 4, 5, 6, 2)).reshape(-1, self.channels)

    def untabled(self, d: Array) -> Array:
        """The inverse of `table`."""
        n, _, height, width = self.image
        parted = d.reshape(n, self.classes, *self.attrs["group_size"], height, width, self.channels)
        return self.xp.ascontiguousarray(parted.transpose(0, 1, 6, 2, 3, 4, 5)).reshape(self.image)

    def maps(self, sums: Array) -> Array:
        """(R, output_dim, high, wide) of the sums of every (region, class, bin)."""
        by_class = image_of_pixels(self.xp, sums, (-1, self.channels, *self.bins))
        return by_class.reshape(-1, self.attrs["output_dim"], *self.bins)

    def unmapped(self, d: Array) -> Array:
        """The inverse of `maps`."""
        return pixels_of(self.xp, d.reshape(-1, self.channels, *self.bins))

    def parts(self, sizes: Any) -> tuple[Array, Array]:
        """The rows (high, 1) and columns (wide,) of the bins in a grid of `sizes`."""
        down, across = (
            self.xp.floor(self.xp.arange(bins, dtype="float32") / bins * size).astype("int64")
            for bins, size in zip(self.bins, sizes, strict=True)
        )
        return down[:, None], across

    def _places(self, axis: int) -> Array:
        """Places of the samples along an axis (1: down, 0: across); the last dimension is a bin's samples."""
        bins = self.bins[1 - axis]
        count = self.attrs["sample_per_part"]
        size = self.sizes[:, axis] / bins
        if axis == 1:
            shape = [1, 1, -1, 1]
        else:
            shape = [1, 1, 1, -1]
        number = self.xp.arange(bins, dtype=size.dtype).reshape(shape)
        column = (slice(None), None, None, None)
        starts = number * size[column] + self.starts[:, axis][column]
        if not self.attrs["no_trans"]:
            moved = self.trans[(slice(None), slice(axis, None, 2), *self.parts(self.attrs["part_size"]))]
            starts = starts + moved * size.dtype.type(self.attrs["trans_std"]) * self.sizes[:, axis][column]
        step = self.xp.arange(count, dtype=size.dtype) * (size / count)[:, None]
        return starts[..., None] + step[:, None, None, None]

    def samples(self) -> _BinSamples:
        xp = self.xp
        height, width = self.image[2:]
        shape = (len(self.starts), self.classes, *self.bins, *[self.attrs["sample_per_part"]] * 2)
        y = xp.broadcast_to(self._places(1)[..., None], shape)
        x = xp.broadcast_to(self._places(0)[..., None, :], shape)
        near = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
        counts = near.sum(axis=(4, 5))
        share = near / xp.maximum(counts, 1)[..., None, None]
        y = xp.clip(y, 0, height - 1)
        x = xp.clip(x, 0, width - 1)
        corners, weights, by_y, by_x = bilinear_corners(xp, y, x, height, width)
        # at a pixel, so at the border too, 1.8.5 takes the slope for 0
        parts = (weights, by_y * (y % 1 != 0)[..., None], by_x * (x % 1 != 0)[..., None])
        images = self.images[:, None, None, None] * self.classes + xp.arange(self.classes)[:, None, None]
        groups = self.attrs["group_size"]
        down, across = self.parts(groups)
        first = ((images * groups[0] + down) * groups[1] + across) * (height * width)
        rows = (first[..., None, None, None] + corners).reshape(-1)
        bins = xp.arange(counts.size).reshape(*counts.shape, 1, 1, 1)
        owners = xp.broadcast_to(bins, corners.shape).reshape(-1)
        size = self.image[0] * self.classes * groups[0] * groups[1] * height * width

        def sampler(number: int) -> RowSampler:
            shares = (parts[number] * share[..., None]).astype(y.dtype).reshape(-1)
            return RowSampler.of_owners(xp, owners, rows, shares, counts.size, size)

        return _BinSamples(sampler, counts)

    def moved(self, samples: _BinSamples, table: Array, d: Array) -> Array:
        """The gradient of Trans: that of every bin's offset, added up where bins share a part."""
        xp = self.xp
        attrs = self.attrs
        if attrs["no_trans"]:
            return xp.zeros_like(self.trans)
        shape = self.trans.shape
        cells = xp.arange(shape[0] * shape[1]).reshape(shape[0], self.classes, 2, 1, 1)
        down, across = self.parts(attrs["part_size"])
        places = (cells * shape[2] + down) * shape[3] + across
        changes = []
        for axis, way in enumerate((_ACROSS, _DOWN)):
            sums = xp.einsum("rc,rc->r", samples.sampler(way).read(table), d)
            moves = (self.sizes[:, axis] * attrs["trans_std"])[:, None, None, None]
            changes.append(sums.reshape(shape[0], self.classes, *self.bins) * moves)
        by_cell = xp.stack(changes, axis=2).reshape(-1)
        sums = xp.bincount(places.reshape(-1), by_cell, minlength=self.trans.size)
        return sums.astype(self.trans.dtype).reshape(shape)


@deformable_psroi_pooling.kernel
@with_attrs(_ATTRS)
def _(xp: Any, Input: Array, ROIs: Array, ROIs_lod: Lod, Trans: Array, attrs: Attrs) -> tuple[Array, Array]:
    pool = _MovedBins(xp, Input, ROIs, ROIs_lod, Trans, attrs)
    samples = pool.samples()
    counts = xp.repeat(samples.counts, pool.channels, axis=1).astype("int32")
    return counts, pool.maps(samples.sampler(_MEAN).read(pool.table(Input)))


@deformable_psroi_pooling.grad("Input Trans")
@with_attrs(_ATTRS)
def _(
    xp: Any,
    Input: Array,
    ROIs: Array,
    ROIs_lod: Lod,
    Trans: Array,
    TopCount: Array,  # 1.8.5's gradient divides by it; here it is part of the samples' weights
    dOutput: Array,
    attrs: Attrs,
) -> tuple[Array, Array]:
    pool = _MovedBins(xp, Input, ROIs, ROIs_lod, Trans, attrs)
    samples = pool.samples()
    d = pool.unmapped(dOutput)
    dinput = pool.untabled(samples.sampler(_MEAN).spread(d))
    return dinput, pool.moved(samples, pool.table(Input), d)
