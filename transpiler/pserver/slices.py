"""How parameters are cut into pieces of whole rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["VarBlock", "rows_of_pieces", "slice_variable"]


class VarBlock:
    """One piece as fluid writes it: `name:index:elements`."""

    def __init__(self, varname: str, offset: int, size: int) -> None:
        self.varname = varname
        self.offset = offset
        self.size = size

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def rows_of_pieces(shape: Sequence[int], count: int, min_block_size: int) -> list[int]:
    """The rows of each piece: at most `count` pieces of at least `min_block_size` elements, the last may be
    smaller.

    A row is `shape[1:]`; a vector's rows are its elements.
    """
    size = math.prod(shape)
    width = math.prod(shape[1:])
    wanted = max(1, min(count, size // max(min_block_size, 1)))
    # fluid's arithmetic, with both its roundings: files of slices fit only where the rows are the same
    rows = math.ceil(math.ceil(size / wanted) / width) if size else 0
    if not rows:
        return [shape[0] if shape else 1]
    height = size // width
    return [min(rows, height - first) for first in range(0, height, rows)]


def slice_variable(var_list: Iterable[Any], slice_count: int, min_block_size: int) -> list[str]:
    """The pieces of all variables as `name:index:elements`, as fluid's function of this name gives them."""
    blocks = []
    for var in var_list:
        width = math.prod(var.shape[1:])
        for index, rows in enumerate(rows_of_pieces(var.shape, slice_count, min_block_size)):
            blocks.append(str(VarBlock(var.name, index, rows * width)))
    return blocks
