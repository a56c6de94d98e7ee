"""Attributes of convolutions, pools and the like: layouts, paddings, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError

__all__ = [
    "Pads",
    "channels_first",
    "channels_last",
    "is_channels_last",
    "places",
    "resolve_pads",
    "unturned",
]

Pads: TypeAlias = "tuple[tuple[int, int], ...]"


def is_channels_last(data_format: str) -> bool:
    """True if the channels are the last dimension (NHWC, NDHWC, NWC) rather than the second."""
    return len(data_format) > 1 and data_format.startswith("N") and data_format.endswith("C")


def channels_first(xp: Any, array: Array, data_format: str) -> Array:
    """A view with the channels as the second dimension."""
    return xp.moveaxis(array, -1, 1) if is_channels_last(data_format) else array


def channels_last(xp: Any, array: Array, data_format: str) -> Array:
    """An array with the channels as the second dimension, back in the op's layout; contiguous."""
    return xp.ascontiguousarray(xp.moveaxis(array, 1, -1)) if is_channels_last(data_format) else array


def places(shape: Sequence[int], data_format: str) -> tuple[int, ...]:
    """The spatial dimensions of a shape."""
    return tuple(shape[1:-1] if is_channels_last(data_format) else shape[2:])


def unturned(batch: int, channels: int, spatial: Sequence[int], data_format: str) -> tuple[int, ...]:
    """A shape in the layout of the op."""
    return (batch, *spatial, channels) if is_channels_last(data_format) else (batch, channels, *spatial)


def resolve_pads(
    type: str,
    paddings: Sequence[int],
    algorithm: str,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """(before, after) for each spatial dimension: as given, none (VALID), or so that out = ceil(in /
    stride) (SAME).
    """
    dims = len(kernel)
    if algorithm == "VALID":
        return ((0, 0),) * dims
    if algorithm == "SAME":
        totals = [
            # what (ceil(size / s) - 1) windows after the first need beyond the data
            max(-(-size // s) * s - s + k - size, 0)
            for size, k, s in zip(spatial, kernel, strides, strict=True)
        ]
        return tuple((total // 2, total - total // 2) for total in totals)
    if len(paddings) == dims:
        return tuple((pad, pad) for pad in paddings)
    if len(paddings) != 2 * dims:
        raise ShapeError(
            f"op {type!r}: paddings must hold {dims} or {2 * dims} numbers, but is {list(paddings)}"
        )
    return tuple(zip(paddings[::2], paddings[1::2], strict=True))
