"""Padding: pad, pad2d, pad_constant_like; pad3d of 2.x."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import INTS, AttrType, Lod, Op, Spec, handed_on, required
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.numbers import contiguous, given_ints

Pairs: TypeAlias = "list[tuple[int, int]]"


def _pairs(paddings: Sequence[int]) -> Pairs:
    """(before, after) for each dimension from a flat list."""
    return list(zip(paddings[::2], paddings[1::2], strict=True))


def _padded_shape(shape: Sequence[int], pairs: Pairs) -> list[int]:
    return [
        -1 if dim < 0 else dim + before + after for dim, (before, after) in zip(shape, pairs, strict=True)
    ]


def _inside(shape: Sequence[int], pairs: Pairs) -> tuple[slice, ...]:
    """Slices of a padded array that hold the array of `shape`."""
    return tuple(slice(before, before + dim) for dim, (before, _) in zip(shape, pairs, strict=True))


def _unpadded(array: Array, pairs: Pairs) -> Array:
    return array[
        tuple(slice(before, dim - after) for dim, (before, after) in zip(array.shape, pairs, strict=True))
    ]


def pad_constant(xp: Any, array: Array, pairs: Pairs, value: float) -> Array:
    """`array` within `value`."""
    out = xp.full(_padded_shape(array.shape, pairs), value, array.dtype)
    out[_inside(array.shape, pairs)] = array
    return out


pad = Op("pad", "X -> Out", attrs={"paddings": required(AttrType.INTS), "pad_value": 0.0}, lod=None)


@pad.shape
def _(X: Spec, paddings: list[int]) -> Spec:
    if len(paddings) != 2 * len(X.shape) or min(paddings, default=0) < 0:
        raise ShapeError(
            f"op 'pad': paddings must hold {2 * len(X.shape)} numbers that are not negative, but is "
            f"{paddings}"
        )
    return Spec(tuple(_padded_shape(X.shape, _pairs(paddings))), X.dtype, X.lod_level)


@pad.kernel
def _(xp: Any, X: Array, X_lod: Lod, paddings: list[int], pad_value: float) -> Any:
    # with other rows than X it has other sequences, of which nothing is known
    return handed_on(pad_constant(xp, X, _pairs(paddings), pad_value), () if any(paddings[:2]) else X_lod)


def _unpadded_spec(dOut: Spec, paddings: list[int]) -> Spec:
    return dOut.with_shape(
        _padded_shape(dOut.shape, [(-before, -after) for before, after in _pairs(paddings)])
    )


@pad.grad("X", shape=_unpadded_spec)
def _(xp: Any, dOut: Array, paddings: list[int]) -> Array:
    return contiguous(xp, _unpadded(dOut, _pairs(paddings)))


like = Op("pad_constant_like", "X Y -> Out", attrs={"pad_value": 0.0})


@like.shape
def _(X: Spec, Y: Spec) -> Spec:
    is_larger = any(y > x >= 0 for x, y in zip(X.shape, Y.shape, strict=False))
    if len(X.shape) != len(Y.shape) or is_larger:
        raise ShapeError(f"op 'pad_constant_like': Y{list(Y.shape)} does not fit into X{list(X.shape)}")
    return Y.with_shape(X.shape)


def _pairs_to(shape: Sequence[int], size: Sequence[int]) -> Pairs:
    return [(0, large - small) for small, large in zip(shape, size, strict=True)]


@like.kernel
def _(xp: Any, X: Array, Y: Array, pad_value: float) -> Array:
    return pad_constant(xp, Y, _pairs_to(Y.shape, X.shape), pad_value)


@like.grad("Y")
def _(xp: Any, Y: Array, dOut: Array) -> Array:
    return contiguous(xp, dOut[_inside(Y.shape, _pairs_to(Y.shape, dOut.shape))])


# ------------------------------------------------------------------ pad2d
pad2d = Op(
    "pad2d",
    "X Paddings? -> Out",
    attrs={"paddings": required(AttrType.INTS), "mode": "constant", "pad_value": 0.0, "data_format": "NCHW"},
)


def _image_pairs(paddings: Sequence[int], Paddings: Array | None, data_format: str) -> Pairs:
    """Pairs for all dimensions from [top, bottom, left, right]; the tensor goes before the attribute."""
    top, bottom, left, right = paddings if Paddings is None else (int(pad) for pad in Paddings)
    image = [(top, bottom), (left, right)]
    if min(top, bottom, left, right) < 0:
        raise ShapeError(f"op 'pad2d': paddings are {image}, but have to be at least 0")
    return [(0, 0), *image, (0, 0)] if is_channels_last(data_format) else [(0, 0), (0, 0), *image]


@pad2d.shape
def _(X: Spec, Paddings: Spec | None, paddings: list[int], mode: str, data_format: str) -> Spec:
    if len(X.shape) != 4:
        raise ShapeError(f"op 'pad2d': X must have 4 dimensions, but has shape {list(X.shape)}")
    if mode not in ("constant", "reflect", "edge"):
        raise ShapeError(f"op 'pad2d': mode must be 'constant', 'reflect' or 'edge', but is {mode!r}")
    if Paddings is not None:
        if not fits(Paddings.shape, (4,)):
            raise ShapeError(f"op 'pad2d': Paddings must hold 4 numbers, but is {list(Paddings.shape)}")
        image = (1, 2) if is_channels_last(data_format) else (2, 3)
        return X.with_shape(-1 if i in image else dim for i, dim in enumerate(X.shape))
    if len(paddings) != 4:
        raise ShapeError(f"op 'pad2d': paddings must hold 4 numbers, but is {paddings}")
    return X.with_shape(_padded_shape(X.shape, _image_pairs(paddings, None, data_format)))


@functools.lru_cache(maxsize=64)
def _sources(size: int, pair: tuple[int, int], mode: str) -> Array:
    """For each element along a padded dimension the number of the element that it shows."""
    return np.pad(np.arange(size), pair, mode="reflect" if mode == "reflect" else "edge")


@pad2d.kernel
def _(
    xp: Any,
    X: Array,
    Paddings: Array | None,
    paddings: list[int],
    mode: str,
    pad_value: float,
    data_format: str,
) -> Array:
    pairs = _image_pairs(paddings, Paddings, data_format)
    if mode == "constant":
        return pad_constant(xp, X, pairs, pad_value)
    for axis, pair in enumerate(pairs):
        if any(pair):
            X = X.take(xp.asarray(_sources(X.shape[axis], pair, mode)), axis=axis)
    return X


@pad2d.grad("X")
def _(
    xp: Any, X: Array, Paddings: Array | None, dOut: Array, paddings: list[int], mode: str, data_format: str
) -> Array:
    pairs = _image_pairs(paddings, Paddings, data_format)
    if mode != "constant":
        for axis, pair in enumerate(pairs):
            if any(pair):
                dOut = _folded(dOut, axis, pair, _sources(X.shape[axis], pair, mode))
        return dOut
    return contiguous(xp, _unpadded(dOut, pairs))


def _folded(d: Array, axis: int, pair: tuple[int, int], sources: Array) -> Array:
    """The padding's gradients added to those of the elements that it shows."""
    start, end = pair[0], d.shape[axis] - pair[1]

    def at(place: int | slice) -> tuple[int | slice, ...]:
        return (*(slice(None),) * axis, place)

    out = d[at(slice(start, end))].copy()
    for i in (*range(start), *range(end, d.shape[axis])):
        out[at(int(sources[i]))] += d[at(i)]
    return out


# ---------------------------------------------------------------------- pad3d, as 2.x has it
_PAD3D_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}

pad3d = Op(
    "pad3d",
    "X Paddings? -> Out",
    attrs={"paddings": INTS(), "value": 0.0, "mode": "constant", "data_format": "NCDHW"},
)


def _sides(paddings: Sequence[int], data_format: str) -> dict[int, tuple[int, int]]:
    """Dimension -> elements in front and behind; the attribute begins with the last spatial dimension."""
    first = 2 if data_format.startswith("NC") else 1
    return {first + 2 - i: (paddings[2 * i], paddings[2 * i + 1]) for i in range(3)}


@pad3d.shape
def _(X: Spec, Paddings: Spec | None, paddings: list[int], data_format: str) -> Spec:
    if len(X.shape) != 5:
        raise ShapeError(f"op 'pad3d': X must have 5 dimensions, but has shape {list(X.shape)}")
    if Paddings is not None:
        kept = (0, 1) if data_format.startswith("NC") else (0, 4)
        return X.with_shape([dim if i in kept else -1 for i, dim in enumerate(X.shape)])
    sides = _sides(paddings, data_format)
    out = [dim if dim < 0 else dim + sum(sides.get(i, ())) for i, dim in enumerate(X.shape)]
    if any(size < 0 <= dim for size, dim in zip(out, X.shape, strict=True)):
        raise ShapeError(f"op 'pad3d': paddings {paddings} cut off more than X{list(X.shape)} has")
    return X.with_shape(out)


@functools.lru_cache(maxsize=64)
def _repeated_places(size: int, sides: tuple[int, int], mode: str) -> Array:
    """For each element of a padded dimension the one that it repeats."""
    return np.pad(np.arange(size), sides, mode=_PAD3D_MODES[mode])  # type: ignore[call-overload, no-any-return]


def _added(side: tuple[int, int]) -> tuple[int, int]:
    """The elements that a padding adds in front and behind; a negative one adds none."""
    return max(side[0], 0), max(side[1], 0)


def _cut(side: tuple[int, int]) -> tuple[int, int]:
    """The elements that a negative padding cuts off in front and behind."""
    return max(-side[0], 0), max(-side[1], 0)


@pad3d.kernel
def _(
    xp: Any, X: Array, Paddings: Array | None, paddings: list[int], value: float, mode: str, data_format: str
) -> Array:
    sides = _sides(given_ints(Paddings, (), paddings), data_format)
    added = {axis: _added(side) for axis, side in sides.items()}
    if mode == "constant":
        out = pad_constant(xp, X, [added.get(i, (0, 0)) for i in range(5)], value)
    else:
        out = X
        for axis, side in added.items():
            if any(side):
                out = xp.take(out, xp.asarray(_repeated_places(X.shape[axis], side, mode)), axis=axis)
    return contiguous(xp, _unpadded(out, [_cut(sides.get(i, (0, 0))) for i in range(5)]))


@pad3d.grad("X")
def _(
    xp: Any, X: Array, Paddings: Array | None, dOut: Array, paddings: list[int], mode: str, data_format: str
) -> Array:
    sides = _sides(given_ints(Paddings, (), paddings), data_format)
    d = dOut
    if min(min(side) for side in sides.values()) < 0:
        d = pad_constant(xp, d, [_cut(sides.get(i, (0, 0))) for i in range(5)], 0.0)
    if mode == "constant":
        return contiguous(xp, _unpadded(d, [_added(sides.get(i, (0, 0))) for i in range(5)]))
    for axis, side in sides.items():
        if any(_added(side)):
            d = _folded(d, axis, _added(side), _repeated_places(X.shape[axis], _added(side), mode))
    return d
