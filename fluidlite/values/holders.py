"""The lists in a scope that feed ops read from and fetch ops write to, one tensor for each column."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import NotFoundError
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["get_fetch_variable", "set_feed_variable"]


def set_feed_variable(scope: Scope, tensor: LoDTensor, var_name: str, index: int) -> None:
    """Put what is fed at position `index` into the list that feed ops read."""
    held = scope.var(var_name).get_lod_tensor_array()
    while len(held) <= index:
        held.append(LoDTensor())
    held[index] = tensor


def get_fetch_variable(scope: Scope, var_name: str, index: int) -> Any:
    """The tensor, or array of tensors, that a fetch op put at position `index`."""
    found = scope.find_var(var_name)
    held = [] if found is None else found.get_lod_tensor_array()
    if index >= len(held):
        raise NotFoundError(f"{var_name!r} holds {len(held)} fetched tensors, and none at {index}")
    return held[index]
