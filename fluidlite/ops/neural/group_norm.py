"""Normalisation over groups of channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import above, between, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.row_calls import over_rows
from fluidlite.ops.kernels.row_kernels import RowKernel, by_rows

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
    alike=("X", "Scale", "Bias"),
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


_GROUP_NORM = RowKernel(
    "group_norm",
    "x[ngcp] scale[gc]=1 bias[gc]=0 epsilon -> y[ngcp] mean[ng] variance[ng]",
    """
    mean = mean(x)
    centred = x - mean
    variance = mean(centred * centred)
    y = centred * rsqrt(variance + epsilon) * scale + bias
    """,
    columns="cp",
)


def _gradient(name: str, scale: str, slope: str) -> RowKernel:
    """The kernel of a gradient from what the op has written."""
    return RowKernel(
        name,
        f"{scale} bias[gc]=0 y[ngcp] variance[ng] dy[ngcp] epsilon -> dx[ngcp] dscale[gc] dbias[gc]",
        f"""
        unit = (y - bias) / where(scale == 0, 1, scale)
        slope = dy * scale
        dx = ({slope} - unit * mean(slope * unit)) * rsqrt(variance + epsilon)
        dscale = total(dy * unit)
        dbias = total(dy)
        """,
        columns="cp",
    )


_GROUP_NORM_GRAD = _gradient("group_norm_grad", "scale[gc]", "slope - mean(slope)")
# without a scale PaddlePaddle 1.8.5 leaves out the part of the gradient that goes through the mean; so do we
_WITHOUT_SCALE = _gradient("group_norm_grad", "scale[gc]=1", "slope")


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
    given: dict[str, Any] = {"x": x, "scale": Scale, "bias": Bias, "epsilon": epsilon}
    y, mean, variance = over_rows(xp, _GROUP_NORM, x.shape, **given)
    return _ungrouped(y, X.shape, data_layout), mean, variance


@group_norm.grad("X Scale Bias")
def group_norm_grad(
    xp: Any,
    Y: Array,
    Scale: Maybe,
    Bias: Maybe,
    Variance: Array,
    dY: Array,
    epsilon: float,
    groups: int,
    data_layout: str,
    wants: frozenset[str],
) -> tuple[Maybe, Maybe, Maybe]:
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
            wants,
        )
        for index, channels in enumerate(_uneven_groups(Y, groups, data_layout))
        if channels.start < channels.stop
    ]
    if not parts:
        return _group_gradients(xp, Y, Scale, Bias, Variance, dY, epsilon, groups, data_layout, wants)
    dx, weight, bias = zip(*parts, strict=True)
    axis = -1 if is_channels_last(data_layout) else 1
    return _joined(xp, dx, axis), _joined(xp, weight), _joined(xp, bias)


def _joined(xp: Any, parts: Sequence[Maybe], axis: int = 0) -> Maybe:
    return None if parts[0] is None else xp.concatenate(parts, axis)


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
    wants: frozenset[str],
) -> tuple[Maybe, Maybe, Maybe]:
    y, d = (_grouped(array, groups, data_layout) for array in (Y, dY))
    given = {"scale": Scale, "bias": Bias, "y": y, "variance": Variance, "dy": d, "epsilon": epsilon}
    kernel = _WITHOUT_SCALE if Scale is None else _GROUP_NORM_GRAD
    dx, weight, bias = over_rows(xp, kernel, y.shape, wants, **given)
    return (
        None if dx is None else _ungrouped(dx, Y.shape, data_layout),
        None if weight is None else weight.reshape(-1),
        None if bias is None else bias.reshape(-1),
    )


def _even_groups(shape: Sequence[int], attr: Callable[[str], Any]) -> tuple[int, int, int, int] | None:
    """Images, groups, the channels of each, and their places, where channels are second."""
    groups = attr("groups")
    if is_channels_last(attr("data_layout")) or groups < 1 or shape[1] % groups:
        return None
    return shape[0], groups, shape[1] // groups, math.prod(shape[2:])


by_rows(group_norm, _GROUP_NORM, _even_groups)
by_rows(group_norm_grad, _GROUP_NORM_GRAD, _even_groups)
