"""Numbers that an op takes from tensors instead of an attribute: shapes, axes, limits, repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.values.tensor import host

__all__ = ["first_ints", "given_ints", "ints"]


def ints(value: Any) -> list[int]:
    """The numbers in an integer tensor."""
    return [int(item) for item in host(value).reshape(-1)]


def first_ints(values: Sequence[Any]) -> list[int]:
    """The numbers in a list of one-element tensors."""
    return [int(host(value).reshape(-1)[0]) for value in values]


def given_ints(tensor: Any, tensors: Sequence[Any], attribute: Sequence[int]) -> list[int]:
    """The numbers in one tensor, else those in a list of one-element tensors, else those of the attribute."""
    if tensor is not None:
        return ints(tensor)
    return first_ints(tensors) or list(attribute)
