"""Resizing images and volumes: nearest_interp, bilinear_interp, trilinear_interp, bicubic_interp.

Every method is a sum over a few taps along one dimension after the other: out[i] = sum of weight[t, i] *
x[index[t, i]].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import FLOATS, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.conv_geometry import (
    channels_first,
    channels_last,
    is_channels_last,
    places,
    unturned,
)
from fluidlite.ops.kernels.numbers import first_ints, ints
from fluidlite.ops.signatures import with_attrs

_ATTRS = {
    "data_layout": "NCHW",
    "out_d": 0,
    "out_h": 0,
    "out_w": 0,
    "scale": 0.0,
    "interp_method": "bilinear",
    "align_corners": True,
    "align_mode": 1,
}
Maybe: TypeAlias = "Array | None"
Taps: TypeAlias = "list[tuple[Array, Array]]"
"""(index, weight) for each tap, of the length of what comes out."""

__all__ = ["Taps", "matrix_of", "taps_of"]

_DENSE = 128  # elements along a dimension up to which a product with a matrix of mostly zeros pays
_PRODUCTS = (np.dtype("float32"), np.dtype("float64"))  # what BLAS multiplies

_SIZES = "OutSize? SizeTensor*? Scale?"  # of what comes out


# ------------------------------------------------------------------ taps
def taps(
    method: str,
    size: int,
    out: int,
    align_corners: bool,
    align_mode: int,
    scale: float = 0.0,
    dtype: Any = np.float32,
) -> list[tuple[Array, Array]]:
    """(index, weight) arrays of length `out` for each tap along a dimension of `size` elements.

    With `align_corners` the centres of the first and last elements meet; else with `align_mode` 0 element i
    covers [i, i + 1), and with 1 it sits at i. A `scale`, which ops of 2.x have, says how far elements are
    apart where the corners are not aligned, instead of the two sizes. Single precision where Paddle has it:
    it decides which element is next. The weights of bicubic taps are of `dtype`.
    """
    ratio = np.float32(0)
    if out > 1:
        ratio = np.float32(size - align_corners) / np.float32(out - align_corners)
    # Paddle takes one element from the start of the dimension, wherever its size comes from
    if scale > 0 and out > 1 and not align_corners:
        ratio = np.float32(1 / np.float32(scale))
    at = np.arange(out, dtype=np.float32)
    if method == "nearest":
        index = (ratio * at + 0.5 * align_corners).astype(np.int64)
        return [(np.minimum(index, size - 1), np.ones(out, np.float32))]
    if method == "bicubic":
        centres = ratio * at if align_corners else np.float64(ratio) * (at + 0.5) - 0.5
        return _without_idle(_cubic_taps(centres.astype(dtype), size))
    if align_mode == 0 and not align_corners:
        place = np.maximum((np.float64(ratio) * (at + 0.5) - 0.5).astype(np.float32), 0)
    else:
        place = ratio * at
    low = np.minimum(place.astype(np.int64), size - 1)
    rest = place - low.astype(np.float32)
    return _without_idle([(low, 1 - rest), (np.minimum(low + 1, size - 1), rest)])


def _without_idle(found: Taps) -> Taps:
    """The same sums without weights of 0, whose product with an infinity would be NaN: a tap that is idle for
    an element takes a part of what its largest tap takes, which is exact, as those are 2 or 4 of them.
    """
    found = [(index, weight) for index, weight in found if weight.any() or not weight.size]
    index, weight = (np.stack(arrays) for arrays in zip(*found, strict=True))
    is_idle = weight == 0
    if is_idle.any():
        every = np.arange(weight.shape[1])
        largest = np.abs(weight).argmax(axis=0)
        share = weight[largest, every] / (1 + is_idle.sum(axis=0)).astype(weight.dtype)
        index = np.where(is_idle, index[largest, every], index)
        weight = np.where(is_idle, share, weight)
        weight[largest, every] = share
    return list(zip(index, weight, strict=True))


def _cubic_taps(place: Array, size: int) -> list[tuple[Array, Array]]:
    """Four taps by Keys' cubic convolution with a = -0.75."""
    a = place.dtype.type(-0.75)
    low = np.floor(place).astype(np.int64)
    t = place - low.astype(place.dtype)

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [
        (np.clip(low + shift, 0, size - 1), weight)
        for shift, weight in zip((-1, 0, 1, 2), weights, strict=True)
    ]


def _resample(xp: Any, x: Array, axis: int, found: Sequence[tuple[Array, Array]]) -> Array:
    """x resampled along `axis`."""
    product = _times(xp, matrix_of(x.shape[axis], found), x, axis)
    if product is not None:
        return product
    shape = (-1, *(1,) * (x.ndim - axis - 1))
    terms = [
        x.take(xp.asarray(index), axis=axis) * xp.asarray(weight.astype(x.dtype)).reshape(shape)
        for index, weight in found
    ]
    return sum(terms[1:], terms[0])


def matrix_of(size: int, found: Sequence[tuple[Array, Array]]) -> Array:
    """The share of each of `size` elements in each that comes out: [targets, elements]."""
    places = np.arange(len(found[0][0]))
    matrix = np.zeros((len(places), size))
    for index, weight in found:
        matrix[places, index] += weight
    return matrix


def _times(xp: Any, matrix: Array, x: Array, axis: int) -> Array | None:
    """x times a matrix along `axis`; None where sums are to be added up tap by tap: the zeros of the matrix
    times infinities are NaN, and a long dimension has too many of them.

    A volume of 8 x 28 x 28 takes a quarter of the time so.
    """
    if xp is not np or x.dtype not in _PRODUCTS or not x.size or max(matrix.shape) > _DENSE:
        return None
    shape = x.shape
    matrix = matrix.astype(x.dtype)
    parts = np.ascontiguousarray(x).reshape(math.prod(shape[:axis]), shape[axis], -1)
    with np.errstate(all="ignore"):
        if parts.shape[2] == 1:
            out = parts[:, :, 0] @ matrix.T
        else:
            out = np.matmul(matrix, parts)
        is_finite = np.isfinite(out.sum())
    return out.reshape(*shape[:axis], len(matrix), *shape[axis + 1 :]) if is_finite else None


def _resample_all(xp: Any, x: Array, found: Sequence[tuple[int, Sequence[tuple[Array, Array]]]]) -> Array:
    """x resampled along the axes that `found` names with their taps; integers as fractions still."""
    if x.dtype.kind in "iu" and found:
        return _resample_whole(xp, x, found)
    for axis, taps_of_axis in found:
        x = _resample(xp, x, axis, taps_of_axis)
    return x


def _resample_whole(xp: Any, x: Array, found: Sequence[tuple[int, Sequence[tuple[Array, Array]]]]) -> Array:
    """Integers resampled along all axes at once.

    The sum is cut off behind the point, so its terms come in the order in which Paddle adds them up: the
    first axis's taps change fastest.
    """
    total: Any = 0
    for chosen in itertools.product(*(taps for _, taps in reversed(found))):
        term = x.astype("float32")
        for (axis, _), (index, weight) in zip(found, reversed(chosen), strict=True):
            shape = (-1, *(1,) * (x.ndim - axis - 1))
            term = term.take(xp.asarray(index), axis=axis) * xp.asarray(weight).reshape(shape)
        total = total + term
    return total


def _resample_gradient(
    xp: Any, d: Array, axis: int, size: int, found: Sequence[tuple[Array, Array]]
) -> Array:
    """The gradient of what `_resample` took `size` elements along `axis` of."""
    matrix = matrix_of(size, found)
    if xp is not np:
        return xp.moveaxis(xp.tensordot(d, xp.asarray(matrix.astype(d.dtype)), axes=(axis, 0)), -1, axis)
    product = _times(xp, matrix.T, d, axis)
    if product is not None:
        return product
    rows = np.moveaxis(d, axis, 0)
    out = np.zeros((size, *rows.shape[1:]), d.dtype)
    for index, weight in found:  # indices ascend: equal ones are neighbours
        starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
        weighted = rows * weight.astype(d.dtype).reshape(-1, *(1,) * (rows.ndim - 1))
        out[index[starts]] += np.add.reduceat(weighted, starts, axis=0)
    result = np.moveaxis(out, 0, axis)
    return np.ascontiguousarray(result)


# ------------------------------------------------------------------ sizes
def _out_places(
    spatial: Sequence[int],
    OutSize: Array | None,
    SizeTensor: Sequence[Array],
    Scale: Array | None,
    attrs: Mapping[str, Any],
) -> list[int]:
    """The size that comes out: from a list of tensors, from a tensor, from a scale, or from the
    attributes.
    """
    if SizeTensor:
        return first_ints(SizeTensor)
    if OutSize is not None:
        return ints(OutSize)
    scale = attrs["scale"] if Scale is None else float(Scale.reshape(-1)[0])
    if scale > 0:
        return [int(size * np.float32(scale)) for size in spatial]
    return _attr_places(len(spatial), attrs)


def _scaled(size: int, scale: float) -> int:
    # times a whole number, images of many sizes keep one plan
    if float(scale).is_integer():
        return size * int(scale)
    return int(size * np.float32(scale))


def _attr_places(dims: int, attrs: Mapping[str, Any]) -> list[int]:
    return [attrs[name] for name in ("out_d", "out_h", "out_w")[-dims:]]


def _shape_rule(type: str, dims: int) -> Callable[..., Spec]:
    @with_attrs(_ATTRS)
    def rule(
        X: Spec, OutSize: Spec | None, SizeTensor: list[Spec], Scale: Spec | None, attrs: dict[str, Any]
    ) -> Spec:
        if len(X.shape) != dims + 2:
            raise ShapeError(f"op {type!r}: X must have {dims + 2} dimensions, but has shape {list(X.shape)}")
        if Scale is not None and not fits(Scale.shape, (1,) * len(Scale.shape)):
            raise ShapeError(f"op {type!r}: Scale must be one number, but has the shape {list(Scale.shape)}")
        layout = attrs["data_layout"]
        spatial = places(X.shape, layout)
        channels = X.shape[-1 if is_channels_last(layout) else 1]
        # as 1.8.5 declares it: OutSize, which is known at run time alone, does not count
        if Scale is not None and not SizeTensor:
            found = [-1] * dims
        elif attrs["scale"] > 0 and not SizeTensor:
            found = [-1 if size < 0 else _scaled(size, attrs["scale"]) for size in spatial]
        else:
            found = [size if size > 0 else -1 for size in _attr_places(dims, attrs)]
        return X.with_shape(unturned(X.shape[0], channels, found, layout))

    return rule


# ------------------------------------------------------------------ ops
def _axes_and_taps(
    method: str,
    shape: Sequence[int],
    dtype: Any,
    out: Sequence[int],
    scales: Sequence[float],
    attrs: Mapping[str, Any],
) -> list[tuple[int, Taps]]:
    """Each dimension of a shape (channels first) that gets another size, with the taps along it."""
    corners = attrs["align_corners"]
    mode = attrs["align_mode"]
    exact = np.dtype("float64" if dtype == "float64" else "float32")
    return [
        (axis, taps(method, shape[axis], size, corners, mode, scale, exact))
        for axis, (size, scale) in enumerate(zip(out, scales, strict=True), start=2)
        if size != shape[axis]
    ]


# type -> the method that the attribute's names stand for, the type's own, and the rule of sizes
_RULES: dict[str, tuple[Mapping[str, str], str, Callable[..., tuple[list[int], list[float]]]]] = {}


def taps_of(
    type: str, shape: Sequence[int], dtype: Any, attrs: Mapping[str, Any]
) -> tuple[list[int], list[tuple[int, Taps]]]:
    """The sizes that an op makes of images of a shape (channels first), by its attributes alone, and the taps
    along each dimension that changes.
    """
    methods, named, sizes = _RULES[type]
    out, scales = sizes(shape[2:], None, (), None, attrs)
    method = methods.get(attrs["interp_method"], named)
    return out, _axes_and_taps(method, shape, dtype, out, scales, attrs)


# ------------------------------------------------------------------ as 2.x has it: a scale a dimension
_ATTRS_V2 = {**_ATTRS, "out_d": -1, "out_h": -1, "out_w": -1, "scale": FLOATS()}


def _scales(dims: int, Scale: Array | None, attrs: Mapping[str, Any]) -> list[float]:
    """The scale of each dimension; 0 where the sizes say it."""
    given = [float(one) for one in (attrs["scale"] if Scale is None else Scale.reshape(-1))]
    if not given:
        return [0.0] * dims
    return given * dims if len(given) == 1 else given


def _places_v2(
    spatial: Sequence[int],
    OutSize: Array | None,
    SizeTensor: Sequence[Array],
    Scale: Array | None,
    attrs: Mapping[str, Any],
) -> tuple[list[int], list[float]]:
    """The size that comes out, and the scales that it comes from."""
    none = [0.0] * len(spatial)
    if SizeTensor:
        return first_ints(SizeTensor), none
    if OutSize is not None:
        return ints(OutSize), none
    scales = _scales(len(spatial), Scale, attrs)
    if all(scale > 0 for scale in scales):
        sizes = zip(spatial, scales, strict=True)
        return [int(size * np.float32(scale)) for size, scale in sizes], scales
    return _attr_places(len(spatial), attrs), none


def _shape_rule_v2(type: str, dims: int | tuple[int, ...]) -> Callable[..., Spec]:
    @with_attrs(_ATTRS_V2)
    def rule(
        X: Spec, OutSize: Spec | None, SizeTensor: list[Spec], Scale: Spec | None, attrs: dict[str, Any]
    ) -> Spec:
        taken = dims if isinstance(dims, tuple) else (dims,)
        if len(X.shape) - 2 not in taken:
            wanted = " or ".join(str(count + 2) for count in taken)
            raise ShapeError(f"op {type!r}: X must have {wanted} dimensions, but has shape {list(X.shape)}")
        layout = attrs["data_layout"]
        spatial = places(X.shape, attrs["data_layout"])
        channels = X.shape[-1 if is_channels_last(layout) else 1]
        if SizeTensor or OutSize is not None or Scale is not None:
            found = _attr_places(len(spatial), attrs)
        else:
            found, _ = _places_v2(spatial, None, (), None, attrs)
        found = [size if size > 0 else -1 for size in found]
        return X.with_shape(unturned(X.shape[0], channels, found, layout))

    return rule


def _places_v1(
    spatial: Sequence[int],
    OutSize: Array | None,
    SizeTensor: Sequence[Array],
    Scale: Array | None,
    attrs: Mapping[str, Any],
) -> tuple[list[int], list[float]]:
    """The size that comes out; the scales by which fluid's ops find elements follow from the sizes."""
    return _out_places(spatial, OutSize, SizeTensor, Scale, attrs), [0.0] * len(spatial)


class _Version(NamedTuple):
    """The differences between fluid's ops and those of 2.x."""

    slots: str
    attrs: dict[str, Any]
    shape: Callable[[str, Any], Callable[..., Spec]]
    places: Callable[..., Any]


_V1 = _Version(f"X. {_SIZES} -> Out", _ATTRS, _shape_rule, _places_v1)
_V2 = _Version(f"X {_SIZES} -> Out", _ATTRS_V2, _shape_rule_v2, _places_v2)


# names in the attribute, which decides in fluid's ops on images, whatever the type is called
_METHODS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "bicubic"}


def _declare(
    type: str, dims: int | tuple[int, ...], named: str, version: _Version = _V1, **facts: Any
) -> None:
    op = Op(type, version.slots, attrs=version.attrs, lod=None, constants=("Scale",), makes_lod=True, **facts)
    op.shape(version.shape(type, dims))
    methods, sizes = _METHODS if version is _V1 and dims == 2 else {}, version.places
    _RULES[type] = methods, named, sizes

    @op.kernel
    @with_attrs(_ATTRS)
    def _(
        xp: Any,
        X: Array,
        X_lod: Lod,
        OutSize: Maybe,
        SizeTensor: list[Array],
        Scale: Maybe,
        attrs: dict[str, Any],
    ) -> WithLod:
        x = channels_first(xp, X, attrs["data_layout"])
        out, scales = sizes(x.shape[2:], OutSize, SizeTensor, Scale, attrs)
        method = methods.get(attrs["interp_method"], named)
        along = _axes_and_taps(method, x.shape, x.dtype, out, scales, attrs)
        resampled = _resample_all(xp, x, along).astype(X.dtype, copy=False)
        # only a run with OutSize passes the level of detail on, which the declared shape does not show
        lod = X_lod if OutSize is not None and not SizeTensor else ()
        return WithLod(channels_last(xp, resampled, attrs["data_layout"]), lod)

    @op.grad("X")
    @with_attrs(_ATTRS)
    def _(
        xp: Any, X: Array, OutSize: Maybe, SizeTensor: Any, Scale: Maybe, dOut: Array, attrs: dict[str, Any]
    ) -> Array:
        x, d = (channels_first(xp, array, attrs["data_layout"]) for array in (X, dOut))
        _, scales = sizes(x.shape[2:], OutSize, SizeTensor, Scale, attrs)
        method = methods.get(attrs["interp_method"], named)
        along = _axes_and_taps(method, x.shape, x.dtype, d.shape[2:], scales, attrs)
        for axis, found in along:
            d = _resample_gradient(xp, d, axis, x.shape[axis], found)
        return channels_last(xp, d, attrs["data_layout"])


_declare("nearest_interp", 2, "nearest")
_declare("bilinear_interp", 2, "linear")
_declare("trilinear_interp", 3, "linear")
_declare("bicubic_interp", 2, "bicubic")
_declare("linear_interp", 1, "linear")


_declare("linear_interp_v2", 1, "linear", _V2, amp_fp16="black", amp_bf16="")
_declare("nearest_interp_v2", (2, 3), "nearest", _V2, amp_fp16="black", amp_bf16="")
_declare("bilinear_interp_v2", 2, "linear", _V2, amp_fp16="black", amp_bf16="")
_declare("trilinear_interp_v2", 3, "linear", _V2, amp_fp16="black", amp_bf16="")
_declare("bicubic_interp_v2", 2, "bicubic", _V2, amp_fp16="black", amp_bf16="")
