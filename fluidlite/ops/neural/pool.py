"""Pools: pool2d, pool3d, those that also give the positions of the maxima, and unpool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import LIBRARIES, QUANTIZER
from fluidlite.base.registry import (
    INTS,
    OF_2X_ATTR,
    AttrType,
    KernelContext,
    Op,
    Spec,
    at_least,
    later,
    required,
)
from fluidlite.ops.kernels.conv_geometry import (
    channels_first,
    channels_last,
    is_channels_last,
    places,
    resolve_pads,
    unturned,
)
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan, Windows, out_size, window_grid
from fluidlite.ops.kernels.sampled_rows import pixels_of
from fluidlite.ops.signatures import with_attrs

_INTS, _STRING = required(AttrType.INTS), required(AttrType.STRING)


def pool_attrs(dims: int, data_format: str) -> dict[str, Any]:
    """The attributes that pools have."""
    return {
        "pooling_type": limited(_STRING, one_of("avg", "max")),
        "ksize": _INTS,
        "strides": at_least(1, [1] * dims),
        "paddings": [0] * dims,
        "padding_algorithm": "EXPLICIT",
        "global_pooling": False,
        "exclusive": True,
        "adaptive": False,
        "ceil_mode": False,
        "data_format": data_format,
        OF_2X_ATTR: later(False),
    }


def _index_attrs(dims: int) -> dict[str, Any]:
    return {
        "ksize": _INTS,
        "strides": at_least(1, [1] * dims),
        "paddings": [0] * dims,
        "global_pooling": False,
        "adaptive": False,
        "ceil_mode": later(False),
        OF_2X_ATTR: later(False),
    }


def _check(type: str, X: Spec, dims: int, ksize: Sequence[int]) -> None:
    if len(X.shape) != dims + 2:
        raise ShapeError(f"op {type!r}: X must have {dims + 2} dimensions, but has shape {list(X.shape)}")
    if len(ksize) != dims:
        raise ShapeError(f"op {type!r}: ksize must hold {dims} numbers, but is {list(ksize)}")


def _out_places(type: str, spatial: Sequence[int], attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """The spatial dimensions of the result."""
    if attrs["adaptive"] and attrs["global_pooling"]:
        return tuple(spatial)  # the whole image is the number of windows, then: one an element
    if attrs["global_pooling"]:
        return tuple(min(size, 1) for size in spatial)
    ksize, strides = attrs["ksize"], attrs["strides"]
    if min(ksize) < 1:
        raise ShapeError(f"op {type!r}: ksize is {list(ksize)}, but has to be at least 1")
    if attrs["adaptive"]:
        return tuple(ksize)
    pads = resolve_pads(
        type, attrs["paddings"], attrs.get("padding_algorithm", "EXPLICIT"), spatial, ksize, strides
    )
    found = tuple(
        -1 if size < 0 else out_size(size, k, s, pad, attrs.get("ceil_mode", False))
        for size, k, s, pad in zip(spatial, ksize, strides, pads, strict=True)
    )
    if any(size >= 0 >= out for size, out in zip(spatial, found, strict=True)):
        raise ShapeError(
            f"op {type!r}: no window of {list(ksize)} fits into {list(spatial)} with paddings {pads}"
        )
    return found


def windows_of(spatial: Sequence[int], attrs: Mapping[str, Any]) -> list[Windows]:
    """The windows along each spatial dimension."""
    if attrs["adaptive"]:
        counts = spatial if attrs["global_pooling"] else attrs["ksize"]
        return [Windows.adaptive(size, count) for size, count in zip(spatial, counts, strict=True)]
    if attrs["global_pooling"]:
        return [Windows.regular(size, size, 1, (0, 0), False) for size in spatial]
    ksize, strides = attrs["ksize"], attrs["strides"]
    pads = resolve_pads(
        "pool", attrs["paddings"], attrs.get("padding_algorithm", "EXPLICIT"), spatial, ksize, strides
    )
    return [
        Windows.regular(size, k, s, pad, attrs.get("ceil_mode", False))
        for size, k, s, pad in zip(spatial, ksize, strides, pads, strict=True)
    ]


def _plan(xp: Any, x: Array, attrs: Mapping[str, Any]) -> PoolPlan:
    """The plan for `x`, channels first."""
    return PoolPlan(xp, x.shape, pooling_of(x.shape[2:], attrs, x.dtype))


def pooling_of(spatial: Sequence[int], attrs: Mapping[str, Any], dtype: Any) -> Pooling:
    """The pool of an op's attributes. 2.x does not count what windows with `ceil_mode` reach beyond the
    padding.
    """
    windows = windows_of(spatial, attrs)
    return Pooling(windows, attrs["pooling_type"], attrs["exclusive"], dtype, attrs[OF_2X_ATTR])


def _declare_pool(type: str, dims: int, data_format: str, **facts: Any) -> None:
    attrs_of = pool_attrs(dims, data_format)
    # Paddle's pool3d has no is_test
    own = {} if dims == 3 else {"is_test": False}
    op = Op(type, "X. -> Out", attrs={**attrs_of, **own}, idle=tuple(own), **facts)

    @op.shape
    @with_attrs(attrs_of)
    def _(X: Spec, attrs: dict[str, Any]) -> Spec:
        _check(type, X, dims, attrs["ksize"])
        if attrs["pooling_type"] not in ("max", "avg"):
            raise ShapeError(
                f"op {type!r}: pooling_type must be 'max' or 'avg', but is {attrs['pooling_type']!r}"
            )
        layout = attrs["data_format"]
        channels = X.shape[-1 if is_channels_last(layout) else 1]
        return X.with_shape(
            unturned(X.shape[0], channels, _out_places(type, places(X.shape, layout), attrs), layout)
        )

    @op.kernel
    @with_attrs(attrs_of)
    def _(xp: Any, X: Array, attrs: dict[str, Any]) -> Array:
        x = channels_first(xp, X, attrs["data_format"])
        plan = _plan(xp, x, attrs)
        out = xp.empty(plan.out_shape, X.dtype)
        plan.forward(x, out)
        return channels_last(xp, out, attrs["data_format"])

    @op.grad("X")
    @with_attrs(attrs_of)
    def _(xp: Any, X: Array, Out: Array, dOut: Array, attrs: dict[str, Any]) -> Array:
        x, pooled, d = (channels_first(xp, array, attrs["data_format"]) for array in (X, Out, dOut))
        out = xp.empty(x.shape, X.dtype)
        _plan(xp, x, attrs).backward(x, pooled, d, out)
        return channels_last(xp, out, attrs["data_format"])


def _largest_of_each(X: Array, windows: Sequence[Windows], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """As `_largest`, window by window."""
    out = np.full(shape, np.finfo(X.dtype).min, X.dtype)
    index = np.full(shape, -1, "int32")
    numbers = np.arange(math.prod(X.shape[2:]), dtype="int32").reshape(X.shape[2:])
    for place in np.ndindex(shape[2:]):
        inside = tuple(w.slices[i] for w, i in zip(windows, place, strict=True))
        window = X[(slice(None), slice(None), *inside)]
        block = window.reshape(shape[0] * shape[1], math.prod(window.shape[2:]))
        if block.shape[1]:
            best = block.argmax(axis=1)
            out[(..., *place)] = np.take_along_axis(block, best[:, None], 1).reshape(shape[:2])
            index[(..., *place)] = numbers[inside].reshape(-1)[best].reshape(shape[:2])
    return out, index


_FEW = (
    4  # windows of which NumPy finds the largest elements faster than images are laid out for compiled code
)


def _largest_by_code(searches: Any, X: Array, windows: Sequence[Windows]) -> tuple[Array, Array] | None:
    """As `_largest`, by compiled code; None where there is none."""
    with np.errstate(all="ignore"):
        if not np.isfinite(X.sum()):
            return None  # it finds neither NaN nor minus infinity
    count, _, *spatial = X.shape
    bounds = [np.array([[w.starts] * count, [w.ends] * count]) for w in windows]
    found = searches.maxima_of_bins(pixels_of(np, X), spatial, np.arange(count), *bounds)
    if found is None:
        return None
    largest, places = (np.ascontiguousarray(part.transpose(0, 3, 1, 2)) for part in found)
    return largest, places


def _largest(xp: Any, X: Array, windows: Sequence[Windows], searches: Any = None) -> tuple[Array, Array]:
    """The largest element of each window, and its place in the flattened image: the first NaN, else the first
    of the largest; the lowest number and the place -1 for a window without elements.
    """
    shape = (*X.shape[:2], *(w.count for w in windows))
    count = math.prod(shape[2:])
    lowest = xp.finfo(X.dtype).min
    if not X.size:
        return xp.full(shape, lowest, X.dtype), xp.full(shape, -1, "int32")
    if count > _FEW and searches is not None and len(windows) == 2 and all(w.whole for w in windows):
        found = _largest_by_code(searches, X, windows)
        if found is not None:
            return found
    # windows that are larger than they are many are searched one by one
    if xp is np and count <= math.prod(max(w.lengths) for w in windows):
        return _largest_of_each(X, windows, shape)
    out = xp.full(shape, lowest, X.dtype)
    index = xp.full(shape, -1, "int32")
    numbers = xp.arange(math.prod(X.shape[2:]), dtype="int32").reshape(X.shape[2:])
    for elements, where in window_grid(windows):
        candidates = X[(slice(None), slice(None), *elements)]
        at: Any = (slice(None), slice(None), *where)
        best = out[at]
        better = (candidates > best) | (index[at] < 0) | (xp.isnan(candidates) & ~xp.isnan(best))
        out[at] = xp.where(better, candidates, best)
        index[at] = xp.where(better, numbers[elements], index[at])
    return out, index


def _flat_index(xp: Any, index: Array, spatial: Sequence[int]) -> Array:
    """Places that count within each channel's image as places in the whole array."""
    images = math.prod(index.shape[:2])
    return (
        xp.arange(images)[:, None] * math.prod(spatial) + index.reshape(images, math.prod(index.shape[2:]))
    ).reshape(-1)


def _scattered(xp: Any, values: Array, index: Array, spatial: Sequence[int]) -> Array:
    """(N, C, *spatial) with `values` added up at `index`."""
    shape = (*values.shape[:2], *spatial)
    if xp is np:
        # twenty times as fast as counting over all places, most of which nothing is added to
        sums = np.zeros(math.prod(shape), values.dtype)
        np.add.at(sums, _flat_index(xp, index, spatial), values.reshape(-1))
        return sums.reshape(shape)
    sums = xp.bincount(
        _flat_index(xp, index, spatial), weights=values.reshape(-1), minlength=math.prod(shape)
    )
    return sums.astype(values.dtype).reshape(shape)


def _declare_with_index(type: str, dims: int, **facts: Any) -> None:
    attrs_of = _index_attrs(dims)
    held = {"Mask": VarType.INT32}
    op = Op(type, "X. -> Out Mask", attrs=attrs_of, lod=None, held_as=held, constants=("Mask",), **facts)

    @op.shape
    @with_attrs(attrs_of)
    def _(X: Spec, attrs: dict[str, Any]) -> tuple[Spec, Spec]:
        _check(type, X, dims, attrs["ksize"])
        out = X.with_shape((*X.shape[:2], *_out_places(type, X.shape[2:], attrs)))
        # 1.8.5 declares Mask as X's type too
        return out, Spec(out.shape, VarType.INT32) if attrs[OF_2X_ATTR] else out

    @op.kernel
    @with_attrs(attrs_of)
    def _(xp: Any, ctx: KernelContext, X: Array, attrs: dict[str, Any]) -> tuple[Array, Array]:
        return _largest(xp, X, windows_of(X.shape[2:], attrs), ctx.searches)

    @op.grad("X")
    def _(xp: Any, X: Array, Mask: Array, dOut: Array) -> Array:
        if Mask.size and Mask.min() < 0:  # a window without elements has no place
            dOut = xp.where(Mask < 0, 0, dOut)
            Mask = xp.maximum(Mask, 0)
        return _scattered(xp, dOut, Mask, X.shape[2:])


_declare_pool("pool2d", 2, "NCHW", kept=LIBRARIES | QUANTIZER, amp="gray")
_declare_pool("pool3d", 3, "NCDHW", kept=LIBRARIES, amp="gray")
_declare_with_index("max_pool2d_with_index", 2, version=1, amp_fp16="white")
_declare_with_index("max_pool3d_with_index", 3, version=1)


def _unpooled(
    shape: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    """The places of what is put back: as 2.x says them, or the fewest that pools of this kind have."""
    if output_size:
        return tuple(output_size)
    return tuple(
        -1 if size < 0 else (size - 1) * s - 2 * pad + k
        for size, k, s, pad in zip(shape[2:], ksize, strides, paddings, strict=True)
    )


def _check_places(type: str, places: Array, spatial: Sequence[int]) -> None:
    """ShapeError for a place that is none of the image's: another image would have it."""
    wrong = places[(places < 0) | (places >= math.prod(spatial))]
    if wrong.size:
        found = int(wrong.reshape(-1)[0])
        raise ShapeError(f"op {type!r}: Indices holds {found}, but an image has the size {list(spatial)}")


def _declare_unpool(type: str, dims: int, layout: str, attrs: dict[str, Any], **facts: Any) -> None:
    """An op that puts elements back where a pool found them, among zeros."""
    of_2x = {"output_size": later(INTS()), "data_format": later(layout)}
    windows = {"ksize": at_least(1, _INTS), "strides": at_least(1, [1] * dims), "paddings": [0] * dims}
    only = {"data_format": layout}
    if "unpooling_type" in attrs:
        only["unpooling_type"] = "max"
    op = Op(type, "X. Indices -> Out", attrs={**windows, **attrs, **of_2x}, only=only, **facts)

    @op.shape
    def _(
        X: Spec, ksize: list[int], strides: list[int], paddings: list[int], output_size: list[int] | None
    ) -> Spec:
        _check(type, X, dims, ksize)
        return X.with_shape((*X.shape[:2], *_unpooled(X.shape, ksize, strides, paddings, output_size)))

    @op.kernel
    def _(
        xp: Any,
        X: Array,
        Indices: Array,
        ksize: list[int],
        strides: list[int],
        paddings: list[int],
        output_size: list[int] | None,
    ) -> Array:
        spatial = _unpooled(X.shape, ksize, strides, paddings, output_size)
        if xp is np:  # those on a device are not looked at, as with classes
            _check_places(type, Indices, spatial)
        out = xp.zeros((*X.shape[:2], *spatial), X.dtype)
        out.reshape(-1)[_flat_index(xp, Indices, spatial)] = X.reshape(-1)
        return out

    @op.grad("X")
    def _(xp: Any, X: Array, Indices: Array, Out: Any, dOut: Array) -> Array:
        return dOut.reshape(-1)[_flat_index(xp, Indices, dOut.shape[2:])].reshape(X.shape)


_declare_unpool("unpool", 2, "NCHW", {"unpooling_type": limited(_STRING, one_of("max"))})
_declare_unpool("unpool3d", 3, "NCDHW", {})
