"""Feeds: checking them once by name, turning each into the array and level of detail that a plan takes."""
from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.dtypes import VarType, to_numpy
from fluidlite.errors import FeedError, NotFoundError, did_you_mean
from fluidlite.executor.builder import FeedSpec
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.tensor import LoDTensor, SelectedRows

__all__ = ["Signature", "blas_threads"]

MAX_FORMS = 16            # shapes of one program's feeds that get a plan of their own
Form = tuple[tuple[Any, Any, bool], ...]


class Signature:
    """The names fed to, and fetched from, one version of a program."""

    def __init__(self, block: Block, names: Sequence[str], fetches: Sequence[str], xp: Any) -> None:
        self.names, self.fetches, self.xp = list(names), list(fetches), xp
        self.variables = [_variable(block, name) for name in names]
        self.dtypes = [to_numpy(var.dtype) if var.type == VarType.LOD_TENSOR and var._dtype is not None else None for var in self.variables]
        self.forms: set[Form] = set()

    def arguments(self, feed: Mapping[str, Any]) -> tuple[list[Any], Form]:
        """The plan's arguments, and their form (shape, dtype, whether there is a level of detail): the key of a plan."""
        arguments: list[Any] = []
        form: list[tuple[Any, Any, bool]] = []
        for name, var, dtype in zip(self.names, self.variables, self.dtypes, strict=True):
            value = feed[name]
            if type(value) is np.ndarray and value.dtype is dtype and self.xp is np and not var.need_check_feed:
                arguments.append(value)
                form.append((value.shape, dtype, False))
                continue
            array, lod = self._convert(var, dtype, value)
            arguments.append(array)
            if lod:
                arguments.append(lod)
            shape = getattr(array, "shape", None)
            form.append((None if lod else shape, getattr(array, "dtype", None), bool(lod)))
        return arguments, self._settle(tuple(form))

    def _settle(self, form: Form) -> Form:
        """The form itself, or without shapes once feeds have come in so many shapes that a plan for each does not pay."""
        if form in self.forms:
            return form
        if len(self.forms) < MAX_FORMS:
            self.forms.add(form)
            return form
        return tuple((None, dtype, has_lod) for _, dtype, has_lod in form)

    def _convert(self, var: Variable, dtype: Any, value: Any) -> tuple[Any, Any]:
        lod: Any = ()
        if isinstance(value, LoDTensor):
            lod, value = value._lod, value.array
            if value is None:
                raise FeedError(f"the LoDTensor fed to {var.name!r} holds no data")
        if (isinstance(value, (SelectedRows, list)) and dtype is None) or isinstance(value, SelectedRows):
            return value, ()
        array = self._array(var, dtype, value)
        if var.need_check_feed:
            _check(var, array)
        return array, lod

    def _array(self, var: Variable, dtype: Any, value: Any) -> Any:
        if isinstance(value, (self.xp.ndarray, np.ndarray)):
            array = value
        else:
            array = _from_python(var, value)
        if array.dtype == object:
            raise FeedError(f"cannot feed {var.name!r}: the rows differ in length; feed a LoDTensor (fluid.create_lod_tensor)")
        if dtype is not None and array.dtype != dtype and not var.need_check_feed:
            array = array.astype(dtype)
        return self.xp.asarray(array) if self.xp is not np else np.asarray(array)

    def specs(self, form: Form) -> dict[str, FeedSpec]:
        """What a plan may take for granted."""
        return {name: FeedSpec(*entry) for name, entry in zip(self.names, form, strict=True)}


def _variable(block: Block, name: str) -> Variable:
    var = block._find_var_recursive(name)
    if var is None:
        raise NotFoundError(f"cannot feed {name!r}: the program has no such variable{did_you_mean(name, list(block.vars))}")
    return var


def _from_python(var: Variable, value: Any) -> Any:
    """An array from numbers and lists of them, in the variable's dtype."""
    wanted = to_numpy(var.dtype) if var._dtype is not None else None
    try:
        return np.asarray(value, dtype=wanted)
    except (ValueError, TypeError) as error:
        raise FeedError(f"cannot feed {var.name!r} (shape {list(var.shape)}, dtype {var._dtype}) with {type(value).__name__}: "
                        f"{error}") from None


def _check(var: Variable, array: Any) -> None:
    """`fluid.data` variables check rank, dimensions and dtype of what is fed."""
    shape = tuple(array.shape)
    if len(shape) != len(var.shape) or any(want >= 0 and want != have for want, have in zip(var.shape, shape, strict=True)):
        raise FeedError(f"The feeded Variable {var.name!r} should have dimensions = {len(var.shape)}, shape = {var.shape}, "
                        f"but received feeded shape {list(shape)}")
    if array.dtype != to_numpy(var.dtype):
        raise FeedError(f"The data type of feeded Variable {var.name!r} must be {to_numpy(var.dtype)}, but received {array.dtype}")


@functools.cache
def blas_threads() -> int:
    """How many threads BLAS may use here, and so how many a plan's own loops use."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
