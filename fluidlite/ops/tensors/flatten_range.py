"""`flatten` as programs of 2.x have it: dimensions start_axis to stop_axis in one."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.tensors.shaping import remembered

flatten_range = Op("flatten_contiguous_range", "X -> Out XShape?", attrs={"start_axis": 1, "stop_axis": 1})


def _flattened(shape: tuple[int, ...], start_axis: int, stop_axis: int) -> tuple[int, ...]:
    start, stop = start_axis % len(shape), stop_axis % len(shape) + 1
    middle = shape[start:stop]
    return (*shape[:start], -1 if -1 in middle else math.prod(middle), *shape[stop:])


@flatten_range.shape
def _(X: Spec, start_axis: int, stop_axis: int) -> tuple[Spec, Spec]:
    return X.with_shape(_flattened(X.shape, start_axis, stop_axis)), Spec((0, *X.shape), X.dtype, 0)


@flatten_range.kernel
def _(xp: Any, X: Array, start_axis: int, stop_axis: int) -> tuple[Array, Array]:
    return X.reshape(_flattened(X.shape, start_axis, stop_axis)), remembered(xp, X)


def _like_x(XShape: Spec, dOut: Spec) -> Spec:
    return Spec(XShape.shape[1:], dOut.dtype)


@flatten_range.grad("X", shape=_like_x)
def _(XShape: Array, dOut: Array) -> Array:
    return dOut.reshape(XShape.shape[1:])
