"""Fetch lists and fetched values: what a run is asked for by name, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.run.interpreter import Frame, not_fetched
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.variable import Variable
from fluidlite.values.fetched import as_fetched
from fluidlite.values.scope import Scope, global_scope
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, host

__all__ = ["_fetch_var", "as_numpy", "fetch", "members", "present", "split_fetches"]


def split_fetches(fetch_list: Any) -> tuple[tuple[str, ...], tuple[Operator, ...]]:
    """Names to fetch, and the optimizer ops among the items, such as those of what `minimize` returned."""
    names: list[str] = []
    targets: list[Operator] = []
    if isinstance(fetch_list, (Variable, str)):
        fetch_list = [fetch_list]
    elif not isinstance(fetch_list, (list, tuple, type(None))):
        raise AssertionError(
            "Currently , The fetch_list type only should be list or tuple, "
            f"but the input type is {type(fetch_list)}. For more information please refer to the "
            f"executor.run(...)."
        )
    for item in fetch_list or ():
        for found in members(item):
            if isinstance(found, Variable):
                names.append(found.name)
            elif isinstance(found, str):
                names.append(found)
            elif not isinstance(found, Operator):
                raise TypeError(
                    f"The item in fetch_list should be str, variable or optimize_op, but recieved "
                    f"{type(found)}."
                )
            elif not found.role & OpRole.Optimize:
                raise TypeError(f"The operator in fetch_list is not an optimize_op: {found.type!r}")
            else:
                targets.append(found)
    return tuple(names), tuple(targets)


def members(item: Any) -> Sequence[Any]:
    """The things that an item of a fetch list stands for: a list for its items, `(optimize_ops,
    params_grads)` for the ops.
    """
    if not isinstance(item, tuple):
        return item if isinstance(item, list) else (item,)
    if not item or not isinstance(item[0], (list, tuple)):
        raise TypeError(
            "a tuple in fetch_list is what minimize returned, (optimize_ops, params_grads), and its first "
            "item a list, "
            f"not {type(item[0]) if item else 'nothing'}"
        )
    return item[0]


def fetch(frame: Frame, name: str) -> Any:
    """The value of a fetched variable after the interpreter ran."""
    value = frame.find(name)
    if value is None:
        raise not_fetched(frame.block, name)
    return value


def present(value: Any, lod: Any, return_numpy: bool) -> Any:
    """A fetched value, copied so that later runs do not change it; an array of tensors is a list of them."""
    if isinstance(value, LoDTensorArray):
        return as_numpy(value) if return_numpy else list(value)
    if isinstance(value, SelectedRows) or not hasattr(value, "dtype"):
        return value
    if return_numpy:
        if lod:
            raise RuntimeError(_HAS_LOD)
        return as_fetched(value.copy() if isinstance(value, np.ndarray) else host(value))
    return LoDTensor(value.copy(), lod or ())


_HAS_LOD = (
    "Some of your fetched tensors hold LoD information. They can not be completely cast to Python ndarray. "
    "Please set the parameter 'return_numpy' as 'False' to return LoDTensor itself directly."
)


def as_numpy(tensor: Any) -> Any:
    """A LoDTensor without a level of detail as an array (None when it is empty), a list of them as a list
    of arrays.
    """
    if isinstance(tensor, list):
        return [as_numpy(item) for item in tensor]
    if not isinstance(tensor, LoDTensor):
        raise AssertionError(f"as_numpy takes a LoDTensor or a list of them, not {type(tensor).__name__}")
    if tensor.lod():
        raise RuntimeError(_HAS_LOD)
    return as_fetched(np.array(tensor)) if tensor.array is not None else None


def _fetch_var(name: str, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """The value that a scope holds for a persistable variable."""
    assert isinstance(name, str), f"variables are fetched by name, not by {name!r}"
    held = (scope if scope is not None else global_scope()).find_var(name)
    assert held is not None, (
        f"Cannot find {name} in scope. Perhaps you need to make the variable persistable by using "
        "var.persistable = True in your program."
    )
    return as_numpy(held.get_tensor()) if return_numpy else held.get_tensor()
