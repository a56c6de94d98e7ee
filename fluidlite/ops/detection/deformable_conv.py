"""Deformable convolutions: deformable_conv_v1 (Dai et al. 2017), and deformable_conv, whose samples have
weights (Zhu et al. 2018).

Tap k of a filter reads the image at its regular place plus (y, x) = Offset[:, 2 k : 2 k + 2]; Mask[:, k] is
the weight of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import Op, Spec, at_least
from fluidlite.ops.kernels.numbers import check_rows
from fluidlite.ops.kernels.sampled_rows import RowSampler, bilinear_corners, image_of_pixels, pixels_of
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"
Attrs: TypeAlias = "dict[str, Any]"

_ATTRS = {
    "strides": at_least(1, [1, 1]),
    "paddings": at_least(0, [0, 0]),
    "dilations": at_least(1, [1, 1]),
    "groups": at_least(1, 1),
    "deformable_groups": at_least(1, 1),
    # 1.8.5 works on so many images at once: nothing that its results depend on
    "im2col_step": at_least(1, 64),
}
_LARGEST = 1 << 23  # numbers sampled at once: 32 MB in float32


def _out_sizes(image: Any, filter: Any, attrs: Mapping[str, Any]) -> tuple[int, int]:
    down, across = (
        -1 if size < 0 else (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
        for size, taps, pad, dilation, stride in zip(
            image[2:], filter[2:], attrs["paddings"], attrs["dilations"], attrs["strides"], strict=True
        )
    )
    return down, across


def _check(type: str, Input: Spec, Offset: Spec, Mask: Spec | None, Filter: Spec, attrs: Attrs) -> Spec:
    """The shape of the output; ShapeError where the operands do not fit."""
    for slot, spec in (("Input", Input), ("Offset", Offset), ("Filter", Filter), ("Mask", Mask)):
        if spec is not None and len(spec.shape) != 4:
            raise ShapeError(f"op {type!r}: {slot} must have 4 dimensions, but has shape {list(spec.shape)}")
    if not fits(Input.shape[1], Filter.shape[1] * attrs["groups"]):
        raise ShapeError(
            f"op {type!r}: Input has {Input.shape[1]} channels but Filter takes {Filter.shape[1]} x "
            f"{attrs['groups']} groups (Input{list(Input.shape)}, Filter{list(Filter.shape)})"
        )
    if Filter.shape[0] % attrs["groups"]:
        raise ShapeError(
            f"op {type!r}: {Filter.shape[0]} filters do not divide into {attrs['groups']} groups"
        )
    check_rows(type, Input=Input, Offset=Offset, Mask=Mask or Offset)
    sizes = _out_sizes(Input.shape, Filter.shape, attrs)
    taps = Filter.shape[2] * Filter.shape[3] * attrs["deformable_groups"]
    for slot, spec, channels in (("Offset", Offset, 2 * taps), ("Mask", Mask, taps)):
        wanted = (channels, *sizes)
        if spec is not None and any(
            -1 not in (a, b) and a != b for a, b in zip(spec.shape[1:], wanted, strict=True)
        ):
            raise ShapeError(
                f"op {type!r}: {slot} has the shape {list(spec.shape)}, wanted [N, {channels}, {sizes[0]}, "
                f"{sizes[1]}] for Input{list(Input.shape)} and Filter{list(Filter.shape)}"
            )
    return Input.with_shape((Input.shape[0], Filter.shape[0], *sizes))


class _TapSamples(NamedTuple):
    """Samples of some images, (image, place, deformable group, tap) each, and their derivatives."""

    values: RowSampler  # masked
    unmasked: RowSampler
    by_y: RowSampler
    by_x: RowSampler


class _DeformableLayer:
    """The sizes of a deformable convolution, and its operands as matrices."""

    def __init__(self, xp: Any, Input: Array, Filter: Array, attrs: Attrs) -> None:
        self.xp = xp
        self.attrs = attrs
        self.image = Input.shape
        self.filter = Filter.shape
        self.parts = attrs["deformable_groups"]
        self.taps = Filter.shape[2] * Filter.shape[3]
        self.out = _out_sizes(Input.shape, Filter.shape, attrs)
        self.places = self.out[0] * self.out[1]

    def chunks(self) -> Iterator[slice]:
        """The batch in pieces, as many images at once as memory allows."""
        step = max(1, _LARGEST // max(1, self.places * self.taps * self.image[1]))
        for start in range(0, self.image[0], step):
            yield slice(start, start + step)

    def table(self, images: Array) -> Array:
        """Pixels by (image, deformable group)."""
        return pixels_of(self.xp, images.reshape(-1, self.image[1] // self.parts, *self.image[2:]))

    def samples(self, Offset: Array, Mask: Maybe) -> _TapSamples:
        xp = self.xp
        height, width = self.image[2:]
        n = len(Offset)
        offsets = Offset.reshape(n, self.parts, self.taps, 2, self.places).transpose(3, 0, 4, 1, 2)
        row, column = self._regular(Offset.dtype)
        y = offsets[0] + row[:, None]
        x = offsets[1] + column[:, None]
        near = (y > -1) & (y < height) & (x > -1) & (x < width)
        # what is read outside has no weight: 0 times a place or a mask at infinity would be NaN
        y, x = (xp.where(near, at, 0) for at in (y, x))
        corners, weights, by_y, by_x = bilinear_corners(xp, y, x, height, width)
        table = xp.arange(n * self.parts).reshape(n, 1, self.parts, 1, 1)
        rows = (table * (height * width) + corners).reshape(-1)
        mask: Any = 1
        if Mask is not None:
            mask = Mask.reshape(n, self.parts, self.taps, self.places).transpose(0, 3, 1, 2)
        owners = xp.broadcast_to(xp.arange(y.size).reshape(*y.shape, 1), corners.shape).reshape(-1)

        def sampler(weights: Array, factor: Any) -> RowSampler:
            flat = (weights * xp.where(near, factor, 0)[..., None]).astype(Offset.dtype).reshape(-1)
            return RowSampler.of_owners(xp, owners, rows, flat, y.size, n * self.parts * height * width)

        return _TapSamples(
            sampler(weights, mask), sampler(weights, 1), sampler(by_y, mask), sampler(by_x, mask)
        )

    def _regular(self, dtype: Any) -> tuple[Array, Array]:
        """(places, taps) each: the rows and columns that the taps read without offsets."""
        numbers = self.xp.indices((*self.out, *self.filter[2:])).reshape(4, self.places, self.taps)
        row, column = (
            numbers[axis] * self.attrs["strides"][axis]
            - self.attrs["paddings"][axis]
            + numbers[axis + 2] * self.attrs["dilations"][axis]
            for axis in (0, 1)
        )
        return row.astype(dtype), column.astype(dtype)

    def columns(self, read: Array) -> Array:
        """The samples as a matrix for each group: (groups, images * places, taps * C / groups)."""
        groups = self.attrs["groups"]
        channels = self.image[1]
        by_tap = read.reshape(-1, self.parts, self.taps, channels // self.parts).swapaxes(1, 2)
        by_group = by_tap.reshape(-1, self.taps, groups, channels // groups).transpose(2, 0, 1, 3)
        return by_group.reshape(groups, -1, self.taps * (channels // groups))

    def read(self, columns: Array) -> Array:
        """The inverse of `columns`."""
        groups = self.attrs["groups"]
        channels = self.image[1]
        by_group = columns.reshape(groups, -1, self.taps, channels // groups).transpose(1, 2, 0, 3)
        by_part = by_group.reshape(-1, self.taps, self.parts, channels // self.parts).swapaxes(1, 2)
        return self.xp.ascontiguousarray(by_part).reshape(-1, channels // self.parts)

    def filters(self, Filter: Array) -> Array:
        """(groups, taps * C / groups, filters / groups)."""
        groups = self.attrs["groups"]
        inside = self.filter[1]
        parted = Filter.reshape(groups, -1, inside, self.taps)
        return self.xp.ascontiguousarray(parted.transpose(0, 3, 2, 1)).reshape(groups, self.taps * inside, -1)

    def unfiltered(self, d: Array) -> Array:
        """The inverse of `filters`."""
        parted = d.reshape(self.attrs["groups"], self.taps, self.filter[1], -1)
        return self.xp.ascontiguousarray(parted.transpose(0, 3, 2, 1)).reshape(self.filter)

    def maps(self, out: Array) -> Array:
        """(N, filters, height, width) of (groups, N * places, filters / groups)."""
        shape = (out.shape[1] // self.places, self.filter[0], *self.out)
        return image_of_pixels(self.xp, out.swapaxes(0, 1).reshape(-1, self.filter[0]), shape)

    def unmapped(self, d: Array) -> Array:
        """The inverse of `maps`."""
        table = pixels_of(self.xp, d)
        return table.reshape(len(table), self.attrs["groups"], -1).swapaxes(0, 1)


def _forward(xp: Any, Input: Array, Offset: Array, Mask: Maybe, Filter: Array, attrs: Attrs) -> Array:
    layer = _DeformableLayer(xp, Input, Filter, attrs)
    filters = layer.filters(Filter)
    out = []
    for part in layer.chunks():
        samples = layer.samples(Offset[part], None if Mask is None else Mask[part])
        columns = layer.columns(samples.values.read(layer.table(Input[part])))
        out.append(layer.maps(xp.matmul(columns, filters)))
    if len(out) == 1:
        return out[0]
    return xp.concatenate(out)


def _backward(
    xp: Any, Input: Array, Offset: Array, Mask: Maybe, Filter: Array, d: Array, attrs: Attrs
) -> tuple[Array, Array, Array, Array]:
    """The gradients of Input, Offset, Mask and Filter."""
    layer = _DeformableLayer(xp, Input, Filter, attrs)
    filters = layer.filters(Filter)
    dfilters = xp.zeros_like(filters)
    parts = []
    for part in layer.chunks():
        samples = layer.samples(Offset[part], None if Mask is None else Mask[part])
        table = layer.table(Input[part])
        dout = layer.unmapped(d[part])
        dfilters += xp.matmul(layer.columns(samples.values.read(table)).swapaxes(1, 2), dout)
        dread = layer.read(xp.matmul(dout, filters.swapaxes(1, 2)))
        parts.append(_part_gradients(layer, samples, table, dread))
    dinput, doffset, dmask = (xp.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return dinput.reshape(Input.shape), doffset, dmask, layer.unfiltered(dfilters)


def _part_gradients(
    layer: _DeformableLayer, samples: _TapSamples, table: Array, dread: Array
) -> tuple[Array, ...]:
    """The gradients of some images, their offsets and masks, from those of what was read."""
    xp = layer.xp
    height, width = layer.image[2:]
    spread = samples.values.spread(dread)
    shape = (len(spread) // (height * width), spread.shape[1], height, width)
    by_y, by_x, mask = (
        xp.einsum("rc,rc->r", sampler.read(table), dread).reshape(-1, layer.places, layer.parts, layer.taps)
        for sampler in (samples.by_y, samples.by_x, samples.unmasked)
    )
    offset = xp.stack([by_y, by_x], axis=4).transpose(0, 2, 3, 4, 1)
    images = image_of_pixels(xp, spread, shape).reshape(-1, *layer.image[1:])
    doffset = offset.reshape(len(offset), -1, *layer.out)
    dmask = mask.transpose(0, 2, 3, 1).reshape(len(offset), -1, *layer.out)
    return images, doffset, dmask


# ------------------------------------------------------------------ the two ops
deformable_conv = Op(
    "deformable_conv",
    "Input. Offset. Mask. Filter -> Output",
    attrs=_ATTRS,
    lod=None,
    blas_threads=True,
    alike=("Input", "Offset", "Mask", "Filter"),
)
deformable_conv_v1 = Op(
    "deformable_conv_v1",
    "Input. Offset. Filter -> Output",
    attrs=_ATTRS,
    lod=None,
    blas_threads=True,
    alike=("Input", "Offset", "Filter"),
)


@deformable_conv.shape
@with_attrs(_ATTRS)
def _(Input: Spec, Offset: Spec, Mask: Spec, Filter: Spec, attrs: Attrs) -> Spec:
    return _check("deformable_conv", Input, Offset, Mask, Filter, attrs)


@deformable_conv_v1.shape
@with_attrs(_ATTRS)
def _(Input: Spec, Offset: Spec, Filter: Spec, attrs: Attrs) -> Spec:
    return _check("deformable_conv_v1", Input, Offset, None, Filter, attrs)


@deformable_conv.kernel
@with_attrs(_ATTRS)
def _(xp: Any, Input: Array, Offset: Array, Mask: Array, Filter: Array, attrs: Attrs) -> Array:
    return _forward(xp, Input, Offset, Mask, Filter, attrs)


@deformable_conv_v1.kernel
@with_attrs(_ATTRS)
def _(xp: Any, Input: Array, Offset: Array, Filter: Array, attrs: Attrs) -> Array:
    return _forward(xp, Input, Offset, None, Filter, attrs)


@deformable_conv.grad("Input Offset Mask Filter", blas_threads=True)
@with_attrs(_ATTRS)
def _(
    xp: Any, Input: Array, Offset: Array, Mask: Array, Filter: Array, dOutput: Array, attrs: Attrs
) -> tuple[Array, ...]:
    return _backward(xp, Input, Offset, Mask, Filter, dOutput, attrs)


@deformable_conv_v1.grad("Input Offset Filter", blas_threads=True)
@with_attrs(_ATTRS)
def _(xp: Any, Input: Array, Offset: Array, Filter: Array, dOutput: Array, attrs: Attrs) -> tuple[Array, ...]:
    dinput, doffset, _, dfilter = _backward(xp, Input, Offset, None, Filter, dOutput, attrs)
    return dinput, doffset, dfilter
