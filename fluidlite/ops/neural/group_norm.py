"""Normalisation over groups of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import above, between, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.neural.norm import row_gradient, row_statistics

Maybe: TypeAlias = "Array | None"

group_norm = Op(
    "group_norm",
    "X. Scale.? Bias.? -> Y Mean? Variance?",
    attrs={
        "epsilon": limited(1e-5, between(0.0, 1.0)),
        "groups": limited(required(AttrType.INT), above(0)),
        "data_layout": "NCHW",
    },
    amp_fp16="black",
)


@group_norm.shape
def _(X: Spec, groups: int, data_layout: str) -> tuple[Spec, Spec, Spec]:
    channels = X.shape[-1 if is_channels_last(data_layout) else 1]
    if groups < 1 or 0 <= channels < groups:
        raise ShapeError(
            f"op 'group_norm': groups must be between 1 and the {channels} channels, but is {groups}"
        )
    numbers = X.with_shape((X.shape[0], groups))
    return X.with_shape(X.shape), numbers, numbers


def _grouped(X: Array, groups: int, data_layout: str) -> Array:
    """(N, groups, channels of a group, places)."""
    n = X.shape[0]
    channels = X.shape[-1 if is_channels_last(data_layout) else 1]
    if is_channels_last(data_layout):
        return X.reshape(n, math.prod(X.shape[1:-1]), groups, channels // groups).transpose(0, 2, 3, 1)
    return X.reshape(n, groups, channels // groups, math.prod(X.shape[2:]))


def _ungrouped(x: Array, shape: Sequence[int], data_layout: str) -> Array:
    return (x.transpose(0, 3, 1, 2) if is_channels_last(data_layout) else x).reshape(tuple(shape))


def _uneven_groups(X: Array, groups: int, data_layout: str) -> list[slice]:
    """The channels of each group where they do not divide, else nothing.

    As in 1.8.5, each group has ceil(C / groups) channels as long as there are any: 5 in 3 groups are 2, 2, 1,
    and 5 in 4 groups 2, 2, 1, 0. A group that starts behind the last channel stops before it starts.
    """
    channels = X.shape[-1 if is_channels_last(data_layout) else 1]
    if channels % groups == 0:
        return []
    size = -(-channels // groups)
    return [slice(start, min(start + size, channels)) for start in range(0, groups * size, size)]


def _without_channels(xp: Any, X: Array, count: int, data_layout: str) -> tuple[Array, Array, Array]:
    """A group without channels, whose mean and variance are 0 / count, for a count of at most 0."""
    numbers = xp.full((X.shape[0], 1), np.float64(0) / count, X.dtype)
    return _part(X, slice(0, 0), data_layout), numbers, numbers


def _part(array: Array, channels: slice, data_layout: str) -> Array:
    return array[..., channels] if is_channels_last(data_layout) else array[:, channels]


def _of(numbers: Maybe, channels: slice) -> Maybe:
    return None if numbers is None else numbers[channels]


@group_norm.kernel
def _(
    xp: Any, X: Array, Scale: Maybe, Bias: Maybe, epsilon: float, groups: int, data_layout: str
) -> tuple[Array, Array, Array]:
    uneven = _uneven_groups(X, groups, data_layout)
    if not uneven:
        return _normalise_groups(xp, X, Scale, Bias, epsilon, groups, data_layout)
    parts = []
    for channels in uneven:
        count = channels.stop - channels.start
        if count <= 0:
            parts.append(_without_channels(xp, X, count, data_layout))
            continue
        x, scale, bias = _part(X, channels, data_layout), _of(Scale, channels), _of(Bias, channels)
        parts.append(_normalise_groups(xp, x, scale, bias, epsilon, 1, data_layout))
    y, mean, variance = zip(*parts, strict=True)
    axis = -1 if is_channels_last(data_layout) else 1
    return xp.concatenate(y, axis), xp.concatenate(mean, 1), xp.concatenate(variance, 1)


def _normalise_groups(
    xp: Any, X: Array, Scale: Maybe, Bias: Maybe, epsilon: float, groups: int, data_layout: str
) -> tuple[Array, Array, Array]:
    x = _grouped(X, groups, data_layout)
    mean, variance, y = row_statistics(xp, as_matrix(x, 2))
    y *= (1 / xp.sqrt(variance + variance.dtype.type(epsilon)))[:, None]
    y = y.reshape(x.shape)
    if Scale is not None:
        y *= Scale.reshape(groups, -1, 1)
    if Bias is not None:
        y += Bias.reshape(groups, -1, 1)
    return _ungrouped(y, X.shape, data_layout), mean.reshape(-1, groups), variance.reshape(-1, groups)


@group_norm.grad("X Scale Bias")
def _(
    xp: Any,
    Y: Array,
    Scale: Maybe,
    Bias: Maybe,
    Variance: Array,
    dY: Array,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Array, Maybe, Maybe]:
    parts = [
        _group_gradients(
            xp,
            _part(Y, channels, data_layout),
            _of(Scale, channels),
            _of(Bias, channels),
            Variance.reshape(-1, groups)[:, index],
            _part(dY, channels, data_layout),
            epsilon,
            1,
            data_layout,
        )
        for index, channels in enumerate(_uneven_groups(Y, groups, data_layout))
        if channels.start < channels.stop
    ]
    if not parts:
        return _group_gradients(xp, Y, Scale, Bias, Variance, dY, epsilon, groups, data_layout)
    dx, weight, bias = zip(*parts, strict=True)
    axis = -1 if is_channels_last(data_layout) else 1
    return (
        xp.concatenate(dx, axis),
        None if Scale is None else xp.concatenate(weight),
        None if Bias is None else xp.concatenate(bias),
    )


def _group_gradients(
    xp: Any,
    Y: Array,
    Scale: Maybe,
    Bias: Maybe,
    Variance: Array,
    dY: Array,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Array, Maybe, Maybe]:
    unit = _grouped(Y, groups, data_layout)
    d = _grouped(dY, groups, data_layout)
    if Bias is not None:
        unit = unit - Bias.reshape(groups, -1, 1)
    if Scale is not None:
        scale = Scale.reshape(groups, -1, 1)
        unit = unit / xp.where(scale == 0, scale.dtype.type(1), scale)
    weight = None if Scale is None else (d * unit).sum(axis=(0, 3), dtype=d.dtype).reshape(-1)
    bias = None if Bias is None else d.sum(axis=(0, 3), dtype=d.dtype).reshape(-1)
    inverse = 1 / xp.sqrt(Variance.reshape(-1) + Variance.dtype.type(epsilon))
    rows = (len(inverse), math.prod(d.shape[2:]))
    # without a scale PaddlePaddle 1.8.5 leaves out the part of the gradient that goes through the mean; so do
    # we
    dx = row_gradient(
        xp, (d if Scale is None else d * scale).reshape(rows), unit.reshape(rows), inverse, Scale is not None
    )
    return _ungrouped(dx.reshape(d.shape), Y.shape, data_layout), weight, bias
