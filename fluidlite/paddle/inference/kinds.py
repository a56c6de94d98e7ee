"""Kinds of elements and of devices, as predictors of 2.x number them."""

from __future__ import annotations

import enum

import numpy as np

from fluidlite.base.errors import FeedError

__all__ = ["ElementType", "PlaceType", "data_type_of", "get_num_bytes_of_data_type"]


class ElementType(enum.IntEnum):
    """Element types of a predictor's tensors."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7

    __str__ = enum.Enum.__str__


class PlaceType(enum.IntEnum):
    """Kinds of devices."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 4

    __str__ = enum.Enum.__str__


def data_type_of(dtype: np.dtype) -> ElementType:
    """The element type of arrays of a dtype; FeedError for one that 2.x has no name for."""
    name = dtype.name.upper()
    if name not in ElementType.__members__:
        raise FeedError(f"a predictor's tensors have no DataType for {dtype}")
    return ElementType[name]


def get_num_bytes_of_data_type(dtype: ElementType) -> int:
    """Bytes of an element."""
    return np.dtype(ElementType(dtype).name.lower()).itemsize
