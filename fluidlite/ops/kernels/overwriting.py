"""Writes of which a later one may take the place of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array

__all__ = ["stays"]


def stays(xp: Any, shape: Sequence[int], where: Any) -> Array:
    """Of the elements written by `array[where] = ...` to an array of that shape, True for those that no later
    one overwrites: these alone get gradients.
    """
    last = xp.zeros(shape, "int64")
    picked = last[where]
    numbers = xp.arange(picked.size).reshape(picked.shape)
    # written in order, so that the last one is there
    last[where] = numbers
    found: Array = last[where] == numbers
    return found
