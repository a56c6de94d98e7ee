"""The arrays of a scope that a plan works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import UninitializedError
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.plan.values import Storage
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, on, rebinds

__all__ = ["HeldArrays"]


class HeldArrays:
    """The arrays, and the tensors, of the persistable variables that a plan names."""

    def __init__(self, plan: CompiledPlan, scope: Scope, xp: Any) -> None:
        self.plan = plan
        self.scope = scope
        self.xp = xp
        self.arrays: dict[str, Any] = {}
        self.tensors: dict[str, LoDTensor] = {}
        self.written = _written(plan)
        """The variables to whose arrays the plan writes."""
        self._seen = -1

    @property
    def may_be_old(self) -> bool:
        """True if some tensor was given another array since the last look."""
        # one comparison a run: every tensor that gets another array counts up
        return self._seen != rebinds.count

    def look(self) -> bool | None:
        """True if other arrays are there than at the last look, False if the same ones; None where the plan
        does not fit what is there.
        """
        # an input that the op did without when the plan was made is there now: the plan would leave it out
        absent = map(self.scope.find_var, self.plan.plan.absent)
        if any(held is not None and held.is_initialized() for held in absent):
            return None
        tensors = {name: self._tensor(name) for name in self.plan.tensors}
        arrays = {name: self._array(name) for name in self.plan.params}
        # another shape: the executor makes another plan
        if not self._fits(Storage.TENSOR, {name: tensor.form for name, tensor in tensors.items()}):
            return None
        are_others = _differ(arrays, self.arrays) or _differ(tensors, self.tensors)
        if are_others and not self._fits(Storage.PARAM, arrays):
            return None
        self.arrays, self.tensors = arrays, tensors
        self._seen = rebinds.count
        return are_others

    def load(self, name: str) -> tuple[Any, Any]:
        """The value in the scope of a persistable variable that is not a plain array, with its level of
        detail.
        """
        held = self.scope.find_var(name)
        if held is None:
            return None, ()
        if isinstance(held.value, LoDTensor):
            return held.value.array, held.value._lod
        return held.value, ()

    def store(self, name: str, value: Any, lod: Any = None) -> None:
        """Give a persistable variable another array (or a list, or SelectedRows)."""
        held = self.scope.find_var(name) or self.scope.var(name)
        rebinds.writes += 1
        bound = self.arrays.get(name)  # a later step may write to it in place
        if not isinstance(held.value, LoDTensor) or held.value.array is not bound:
            bound = None  # an earlier step has stored another shape
        if bound is not None and getattr(value, "shape", None) == bound.shape and value.dtype == bound.dtype:
            bound[...] = value
        elif isinstance(value, (list, SelectedRows)) or not hasattr(value, "copy"):
            held.set(value)
        else:
            held.set(value.copy())
        if lod is not None and isinstance(held.value, LoDTensor):
            held.value._lod = lod

    def _tensor(self, name: str) -> LoDTensor:
        """The tensor of a persistable variable, which has a value."""
        held = self.scope.find_var(name)
        if held is None or not isinstance(held.value, LoDTensor) or held.value.form is None:
            raise UninitializedError(
                f"variable {name!r} no longer holds a value; run the startup program or load it"
            )
        return held.value

    def _array(self, name: str) -> Any:
        """The array of a persistable variable."""
        tensor = self._tensor(name)
        array = on(self.xp, tensor.array)
        # a reshaped view would be a copy: a write to it would be lost, and a later `set` not be seen. What
        # cannot be written may stay as it is: a table on servers is one zero that claims to be all of it
        if not array.flags.c_contiguous and (
            self.xp is not np or array.flags.writeable or name in self.written
        ):
            array = array.copy(order="C")
        if array is not tensor.array:
            tensor.array = array  # moves to where this plan runs, or into order
        return array

    def _fits(self, storage: Storage, arrays: Mapping[str, Any]) -> bool:
        return all(
            arrays[value.name].shape == value.shape and arrays[value.name].dtype == value.dtype
            for value in self.plan.values
            if value.storage is storage
        )


def _differ(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """True if any of the objects is another than before."""
    return any(now[name] is not before.get(name) for name in now)


def _written(plan: CompiledPlan) -> frozenset[str]:
    """The persistable variables to whose arrays steps write."""
    steps = [step for step in flat(plan.plan.steps) if not step.is_view]
    roots = [value.root for step in steps for value in step.writes]
    return frozenset(root.name for root in roots if root.storage is Storage.PARAM)
