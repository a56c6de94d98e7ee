"""One row of the sweep over operators: a single op with its inputs and attributes, and what it is asked.

The same source runs under PaddlePaddle 1.8.5 (Python 3.7, `golden.record_ops`) and under FluidLite.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Sequence

import numpy as np


@dataclass
class Seq:
    """Rows that fall into sequences; `lengths` has one list a level."""

    array: Any
    lengths: List[List[int]]  # noqa: UP006


@dataclass
class Rows:
    """SELECTED_ROWS: `array` holds the rows `ids` of a table of `height` rows."""

    array: Any
    ids: List[int]  # noqa: UP006
    height: int


@dataclass
class Row:
    """An op; `inputs` are arrays, Seq or Rows, or lists of them, by slot.

    outputs: further output slots -> number of variables (those that may not be absent come of themselves).
    grad: input slots whose gradients are asked for, with made-up gradients of the slots in `wants`.
    ignore: output slots whose values mean nothing. declared: shapes that the inputs are declared with.
    """

    op: str
    inputs: Dict[str, Any]  # noqa: UP006
    attrs: Dict[str, Any] = field(default_factory=dict)  # noqa: UP006
    grad: Sequence[str] = ()
    wants: Sequence[str] = ()
    outputs: Dict[str, int] = field(default_factory=dict)  # noqa: UP006
    ignore: Sequence[str] = ()
    name: str = ""
    declared: Dict[str, Any] = field(default_factory=dict)  # noqa: UP006
    alias: Dict[str, str] = field(default_factory=dict)  # noqa: UP006
    undeclared: bool = False  # Paddle declares another shape than it computes
    rows: Sequence[str] = ()  # output slots that are declared SELECTED_ROWS
    tolerance: float = 2e-5

    def __str__(self) -> str:
        return self.op + "-" + self.name


def real(*shape: int, low: float = 0.5, high: float = 1.5, dtype: str = "float32", key: str = "") -> Any:
    """Numbers from `low` to `high`, the same for the same shape and key."""
    rng = np.random.RandomState(zlib.crc32(f"{key}{shape}".encode()) % 2**31)
    return (rng.rand(*shape) * (high - low) + low).astype(dtype)


def signed(*shape: int, dtype: str = "float32", key: str = "") -> Any:
    """Numbers from -2 to 2 of which none is near zero."""
    made = real(*shape, low=-1.9, high=1.9, key=key)
    return (made + np.where(made < 0, -0.1, 0.1)).astype(dtype)


def whole(*shape: int, low: int = 0, high: int = 5, dtype: str = "int64", key: str = "") -> Any:
    """Whole numbers from `low` to below `high`."""
    return np.floor(real(*shape, low=low, high=high, dtype="float64", key=key)).astype(dtype)


def truth(*shape: int, key: str = "") -> Any:
    """Truth values."""
    return real(*shape, low=0, high=1, key=key) > 0.5
