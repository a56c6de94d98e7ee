"""The lists in a scope that feed ops read from and fetch ops write to, one tensor for each column."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import NotFoundError
from fluidlite.values.scope import Scope, ScopeVariable
from fluidlite.values.tensor import LoDTensor

__all__ = ["get_fetch_variable", "put_in_list", "set_feed_variable"]


def put_in_list(variable: ScopeVariable, value: Any, index: int) -> None:
    """Put a tensor, or an array of tensors, at a position of the list that a variable of a scope holds."""
    held = variable.get_lod_tensor_array()
    held.extend(LoDTensor() for _ in range(index + 1 - len(held)))
    held[index] = value


def set_feed_variable(scope: Scope, tensor: LoDTensor, var_name: str, index: int) -> None:
    """Put what is fed at position `index` into the list that feed ops read."""
    put_in_list(scope.var(var_name), tensor, index)


def get_fetch_variable(scope: Scope, var_name: str, index: int) -> Any:
    """The tensor, or array of tensors, at a position of such a list; NotFoundError where there is none."""
    found = scope.find_var(var_name)
    held = [] if found is None else found.get_lod_tensor_array()
    if index >= len(held):
        raise NotFoundError(f"{var_name!r} holds {len(held)} tensors, but none at index {index}")
    return held[index]
