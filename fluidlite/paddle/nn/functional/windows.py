"""Arguments of what slides a window over an image: sizes, strides and paddings as users write them."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.layers.neural.conv import numbers, padding_of
from fluidlite.layers.tensors.constants import has_variable

__all__ = ["LAYOUTS", "is_last", "is_open", "line_padding", "padding_of", "window"]

# number of spatial dimensions -> layouts with the channels first and last
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def is_last(data_format: str, dims: int) -> bool:
    """True if the channels are the last dimension; ValueError for an unknown layout."""
    if data_format not in LAYOUTS[dims]:
        raise ValueError(
            f"Attr(data_format) should be one of {', '.join(LAYOUTS[dims])}. Received: {data_format}"
        )
    return data_format == LAYOUTS[dims][1]


def is_open(sizes: Any) -> bool:
    """True if a Variable says the size of a dimension, or of all."""
    if isinstance(sizes, Variable):
        return True
    return isinstance(sizes, (list, tuple)) and has_variable(sizes)


def window(value: Any, dims: int, name: str) -> list[int]:
    """One number a dimension."""
    return numbers(value, dims, name)


def line_padding(padding: Any, data_format: str) -> Any:
    """The padding of a line, for an image that is one pixel high."""
    if isinstance(padding, str):
        return padding
    pads, _ = padding_of(padding, 1, data_format)
    return [0, *pads] if len(pads) == 1 else [0, 0, *pads]
