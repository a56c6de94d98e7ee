"""Arguments of what slides a window over a picture: sizes, strides and paddings as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.layers.neural.conv import numbers

__all__ = ["LAYOUTS", "is_last", "padding_of", "window"]

# number of spatial dimensions -> layouts with the channels first and last
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def is_last(data_format: str, dims: int) -> bool:
    """True if the channels are the last dimension; ValueError for an unknown layout."""
    if data_format not in LAYOUTS[dims]:
        raise ValueError(
            f"Attr(data_format) should be one of {', '.join(LAYOUTS[dims])}. Received: {data_format}"
        )
    return data_format == LAYOUTS[dims][1]


def window(value: Any, dims: int, name: str) -> list[int]:
    """One number a dimension."""
    return numbers(value, dims, name)


def padding_of(padding: Any, dims: int, last: bool) -> tuple[list[int], str]:
    """Numbers (one or two a dimension) and algorithm: from a number, one or two numbers a dimension, pairs
    for all dimensions, or "SAME" and "VALID".
    """
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ValueError(f"Unknown padding: '{padding}'. It can only be 'SAME' or 'VALID'.")
        return [0] * dims, padding.upper()
    if isinstance(padding, (list, tuple)) and padding and isinstance(padding[0], (list, tuple)):
        return _of_pairs(padding, dims, last), "EXPLICIT"
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * dims:
        return _shortened(numbers(padding, 2 * dims, "padding")), "EXPLICIT"
    return numbers(padding, dims, "padding"), "EXPLICIT"


def _of_pairs(padding: Sequence[Sequence[int]], dims: int, last: bool) -> list[int]:
    channel = dims + 1 if last else 1
    if len(padding) != dims + 2 or any(any(padding[place]) for place in (0, channel)):
        raise ValueError(
            f"{dims + 2} pairs of paddings are needed, with zeros for the batch and the channels: {padding}"
        )
    return _shortened([item for i, pair in enumerate(padding) if i not in (0, channel) for item in pair])


def _shortened(pairs: list[int]) -> list[int]:
    """One number a dimension where both sides are alike."""
    return pairs[::2] if pairs[::2] == pairs[1::2] else pairs
