"""Methods of Variables that look at more than their declarations: values in a scope, hooks, arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.ir.variable import Variable
from fluidlite.layers.flow import array as arrays
from fluidlite.layers.flow.debug import py_func
from fluidlite.paddle.programs import begin
from fluidlite.saving.variables import value_of
from fluidlite.values.scope import Scope, global_scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["append", "get_value", "item", "place", "register_hook", "set_value"]


def _scope_of(scope: Any) -> Scope | None:
    if scope is not None and not isinstance(scope, Scope):
        raise TypeError(f"`scope` should be None or `paddle.static.Scope` type, but received {type(scope)}.")
    return scope


def get_value(self: Variable, scope: Scope | None = None) -> Any:
    """The tensor that a scope (the global one) has for this variable; ValueError where it has none."""
    found = _scope_of(scope)
    if (found or global_scope()).find_var(self.name) is None:
        raise ValueError(f"Can not find Variable '{self.name}' in the Scope.")
    return value_of(self, found)


def set_value(self: Variable, value: Any, scope: Scope | None = None) -> None:
    """Write an array or a tensor into a scope (the global one), in the variable's dtype.

    ValueError where the scope has no such variable, or one of another shape; TypeError for other values.
    """
    if not isinstance(value, (np.ndarray, LoDTensor)):
        raise TypeError(f"`value` should be `numpy.ndarray` or `LoDTensor`, but received {type(value)}.")
    held = (_scope_of(scope) or global_scope()).find_var(self.name)
    if held is None:
        raise ValueError(f"Can not find Variable '{self.name}' in the Scope.")
    array, tensor = np.asarray(value), held.get_tensor()
    # the declared shape may leave sizes open
    if list(array.shape) != list(tensor.shape()):
        raise ValueError(
            f"{self.name} expected a shape {tensor.shape()}, but the received shape is {list(array.shape)}."
        )
    tensor.set(array.astype(to_numpy(self.dtype)))


def item(self: Variable) -> Variable:
    """This variable, which must have one element: its value exists when the program runs."""
    if any(size != 1 for size in self.shape):
        raise TypeError(f"item() of variable {self.name!r} needs one element, not the shape {[*self.shape]}")
    return self


def register_hook(self: Variable, hook: Callable[[Any], Any]) -> None:
    """Call `hook` with each array that is this variable's gradient; what it returns is the gradient then.

    Ops that are appended from now on read a copy of the variable, under the same name.
    """
    begin()

    def same(value: Any) -> Any:
        return value

    def changed(gradient: Any) -> Any:
        return hook(np.asarray(gradient))

    py_func(same, self, self, changed, skip_vars_in_backward_input=[self])


def append(self: Variable, var: Variable) -> None:
    """Write `var` behind the last entry of this array. TypeError for a variable that is no array."""
    if self.type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(
            f"Only Variable with VarType.LOD_TENSOR_ARRAY support `append` method, but received type: "
            f"{self.type}"
        )
    if not isinstance(var, Variable):
        raise TypeError(f"Required input var should be Variable, but received {type(var)}")
    begin()
    arrays.array_write(var, arrays.array_length(self), self)


def place(self: Variable) -> None:
    """None: where a program runs, its executor says."""
