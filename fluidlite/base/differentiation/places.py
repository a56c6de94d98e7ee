"""Derivatives of functions that move elements: views, joins, selections, shifts. Each is linear."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.differentiation.arrays import (
    COMPOSED,
    Pull,
    Traced,
    add_at,
    call,
    get_item,
    is_basic,
    plain,
    record,
    rule,
)
from fluidlite.base.differentiation.rules import back_to

__all__ = ["zeros_as"]


def zeros_as(array: Any, shape: Sequence[int] | None = None) -> Any:
    """Plain zeros in shape and dtype of `array`, where that lies."""
    bottom = plain(array)
    zeros = np.zeros_like(bottom) if shape is None else np.zeros_like(bottom, shape=tuple(shape))
    return zeros


@rule("reshape", "ravel", "squeeze", "expand_dims", "flatten")
def _(out: Any, x: Any, *_where: Any, **_options: Any) -> tuple[Pull]:
    return (lambda g: np.reshape(g, x.shape),)


@rule("transpose")
def _(out: Any, x: Any, axes: Any = None) -> tuple[Pull]:
    back = None
    if axes is not None:
        back = np.argsort([axis % x.ndim for axis in axes])
    return (lambda g: np.transpose(g, back),)


@rule("moveaxis")
def _(out: Any, x: Any, source: Any, destination: Any) -> tuple[Pull]:
    return (lambda g: np.moveaxis(g, destination, source),)


@rule("swapaxes")
def _(out: Any, x: Any, first: int, second: int) -> tuple[Pull]:
    return (lambda g: np.swapaxes(g, first, second),)


@rule("broadcast_to")
def _(out: Any, x: Any, shape: Any, **_options: Any) -> tuple[Pull]:
    return (lambda g: back_to(g, x),)


@rule("cast")
def _(out: Any, x: Any, dtype: Any) -> tuple[Pull]:
    return (lambda g: g.astype(x.dtype),)


@rule("get_item")
def _(out: Any, x: Any, index: Any) -> tuple[Pull]:
    return (lambda g: call_step(add_at, zeros_as(x), index, g),)


def call_step(step: Any, *args: Any) -> Any:
    """One of this room's own functions, noted where an argument is traced."""
    return record(step, args, {}) if any(isinstance(arg, Traced) for arg in args) else step(*args)


@rule("set_item")
def _(out: Any, x: Any, index: Any, values: Any) -> tuple[Pull, None, Pull]:
    def of_array(g: Any) -> Any:
        mask = np.ones_like(plain(g))
        mask[index] = 0
        return g * mask

    def of_values(g: Any) -> Any:
        taken = call_step(get_item, g, index)
        if not is_basic(index):
            # of several values for one place the last one stays
            last = np.zeros_like(plain(g), dtype="int64")  # where the gradient is: on the host or a device
            picked = last[index]
            numbers = np.cumsum(np.ones_like(picked)).reshape(picked.shape)
            last[index] = numbers
            taken = taken * (last[index] == numbers)
        return back_to(taken, values)

    return of_array, None, of_values


@rule("add_at")
def _(out: Any, x: Any, index: Any, values: Any) -> tuple[Pull, None, Pull]:
    return (lambda g: g), None, lambda g: back_to(call_step(get_item, g, index), values)


@rule("concatenate")
def _(out: Any, arrays: Sequence[Any], axis: int = 0, **_options: Any) -> tuple[list[Pull]]:
    stops = list(itertools.accumulate(np.shape(plain(array))[axis] for array in arrays))

    def part(index: int) -> Pull:
        start = stops[index - 1] if index else 0
        cut = (*[slice(None)] * (axis % out.ndim), slice(start, stops[index]))
        return lambda g: g[cut]

    return ([part(index) for index in range(len(arrays))],)


@rule("stack")
def _(out: Any, arrays: Sequence[Any], axis: int = 0, **_options: Any) -> tuple[list[Pull]]:
    def part(index: int) -> Pull:
        cut = (*[slice(None)] * (axis % out.ndim), index)
        return lambda g: g[cut]

    return ([part(index) for index in range(len(arrays))],)


@rule("flip")
def _(out: Any, x: Any, axis: Any = None) -> tuple[Pull]:
    return (lambda g: np.flip(g, axis),)


@rule("roll")
def _(out: Any, x: Any, shift: Any, axis: Any = None) -> tuple[Pull]:
    back = tuple(-s for s in shift) if isinstance(shift, (tuple, list)) else -shift
    return (lambda g: np.roll(g, back, axis),)


@rule("tril")
def _(out: Any, x: Any, k: int = 0) -> tuple[Pull]:
    return (lambda g: np.tril(g, k),)


@rule("triu")
def _(out: Any, x: Any, k: int = 0) -> tuple[Pull]:
    return (lambda g: np.triu(g, k),)


# ---------------------------------------------------------------------- selections, as indexing
def _chosen(name: str) -> Any:
    """A function that selects elements: it is applied to their numbers, which then index the array."""

    def choose(x: Any, *args: Any, **options: Any) -> Any:
        bottom = plain(x)
        places = np.arange(bottom.size).reshape(bottom.shape)
        where = getattr(np, name)(places, *map(plain, args), **options)
        return np.reshape(x, (-1,))[where]

    return choose


COMPOSED.update({name: _chosen(name) for name in ("take", "take_along_axis", "repeat", "tile", "diagonal")})


def _split(x: Any, parts: Any, axis: int = 0) -> list[Any]:
    size = x.shape[axis]
    starts = [0, *parts] if not isinstance(parts, int) else list(range(0, size, size // parts))
    stops = [*starts[1:], size]
    ahead = [slice(None)] * (axis % x.ndim)
    found = []
    for start, stop in zip(starts, stops, strict=True):
        cut = slice(start, stop)
        found.append(x[(*ahead, cut)])
    return found


def _pad(x: Any, width: Any, mode: str = "constant", **options: Any) -> Any:
    bottom = plain(x)
    if mode != "constant":
        return _chosen("pad")(x, width, mode=mode, **options)
    numbers = np.arange(bottom.size).reshape(bottom.shape)
    places = np.pad(numbers, width, constant_values=-1)
    value = bottom.dtype.type(options.get("constant_values", 0))
    elements = np.reshape(x, (-1,))
    return np.where(places < 0, value, elements[np.maximum(places, 0)])


def _diag(x: Any, k: int = 0) -> Any:
    if x.ndim == 2:
        return COMPOSED["diagonal"](x, k)
    size = x.shape[0] + abs(k)
    where = np.arange(x.shape[0])
    return call_step(add_at, zeros_as(x, (size, size)), (where + max(-k, 0), where + max(k, 0)), x)


def _trace(x: Any, *args: Any, **options: Any) -> Any:
    return COMPOSED["diagonal"](x, *args, **options).sum(axis=-1)


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if weights is None:
        return np.bincount(plain(x), minlength=minlength)
    size = max(minlength, int(plain(x).max(initial=-1)) + 1)
    # NumPy counts in double precision
    return call_step(add_at, np.zeros_like(plain(x), "float64", shape=size), plain(x), weights)


def _put_along_axis(x: Any, index: Any, values: Any, axis: int) -> None:
    bottom = plain(x)
    places = np.arange(bottom.size).reshape(bottom.shape)
    where = np.unravel_index(np.take_along_axis(places, plain(index), axis), bottom.shape)
    x[where] = values


def _broadcast_arrays(*arrays: Any) -> list[Any]:
    shape = np.broadcast_shapes(*(np.shape(plain(array)) for array in arrays))
    return [np.broadcast_to(array, shape) for array in arrays]


def _outer(x: Any, y: Any) -> Any:
    return np.reshape(x, (-1, 1)) * np.reshape(y, (1, -1))


def _diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    ends = [slice(None)] * (axis % x.ndim)
    return x[(*ends, slice(1, None))] - x[(*ends, slice(None, -1))]


def _atleast_1d(x: Any) -> Any:
    return x if x.ndim else call(np.reshape, (x, (1,)), {})


COMPOSED.update(
    split=_split,
    array_split=_split,
    pad=_pad,
    diag=_diag,
    trace=_trace,
    bincount=_bincount,
    put_along_axis=_put_along_axis,
    broadcast_arrays=_broadcast_arrays,
    outer=_outer,
    diff=_diff,
    atleast_1d=_atleast_1d,
)


@rule("add_reduceat")
def _(out: Any, x: Any, indices: Any, axis: int = 0, dtype: Any = None) -> tuple[Pull]:
    starts = np.asarray(indices)
    stops = np.append(starts[1:], x.shape[axis])
    # a segment that does not go forwards is one element
    lengths = np.where(stops > starts, stops - starts, 1)
    rows = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    segments = np.repeat(np.arange(len(starts)), lengths)
    ahead = [slice(None)] * (axis % x.ndim)
    return (lambda g: call_step(add_at, zeros_as(x), (*ahead, rows), g[(*ahead, segments)]),)
