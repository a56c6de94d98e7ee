"""Shapes and other small values that are computed while a file is read.

Exporters write sizes as chains of nodes: Shape, Gather, Concat, Reshape. Each function here gives the parts
of a result from the parts of the inputs, so that a program has numbers where the sizes are known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.saving.onnx.loading.graph import NodeView, folds, parts_of_shape
from fluidlite.saving.onnx.loading.values import MOST_PARTS, RunSize


def _each(function: Callable[..., Any], dtype: np.dtype[Any], *arrays: Array) -> Array:
    """A function of elements that are known, None elsewhere; floating-point numbers in their own type."""

    def of(*elements: Any) -> Any:
        if any(each is None or isinstance(each, RunSize) for each in elements):
            return None
        if dtype.kind == "f":
            elements = tuple(dtype.type(each) for each in elements)
        with np.errstate(all="ignore"):
            found = function(*elements)
        return found.item() if isinstance(found, np.generic) else found

    made = np.frompyfunc(of, len(arrays), 1)(*arrays)
    found = np.empty(np.shape(made), object)
    found[...] = made
    return found


def _quotient(x: Any, y: Any) -> Any:
    """x / y, cut off towards zero for whole numbers, as ONNX says; None for a division by zero."""
    if not y:
        return None
    if isinstance(x, np.floating):
        return x / y
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: Any, y: Any) -> Any:
    return x % y if y else None


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _quotient,
    "Max": max,
    "Min": min,
    "Neg": operator.neg,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Sqrt": np.sqrt,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Not": operator.not_,
    "And": operator.and_,
    "Or": operator.or_,
}


@folds(*_ARITHMETIC)
def _arithmetic(op: NodeView, *parts: Array) -> Array | None:
    if np.broadcast(*parts).size > MOST_PARTS or op.dtype().kind not in "if":
        return None
    if op.dtype().kind == "f" and any(np.isnan(each).any() for each in map(_floats, parts)):
        return None
    dtype = op.dtype()
    return _each(_ARITHMETIC[op.kind], dtype, *parts)


def _floats(parts: Array) -> Array:
    return np.array([0.0 if each is None else each for each in parts.reshape(-1)], np.float64)


@folds(*_COMPARISONS)
def _comparison(op: NodeView, *parts: Array) -> tuple[Array, Any] | None:
    if np.broadcast(*parts).size > MOST_PARTS:
        return None
    dtype = op.dtype()
    made = _each(_COMPARISONS[op.kind], dtype, *parts)
    return made, np.bool_


@folds("Mod")
def _mod(op: NodeView, x: Array, y: Array) -> Array | None:
    if op.dtype().kind != "i" or op.attr("fmod") or np.broadcast(x, y).size > MOST_PARTS:
        return None
    dtype = op.dtype()
    return _each(_remainder, dtype, x, y)


@folds("Where")
def _where(op: NodeView, condition: Array, yes: Array, no: Array) -> tuple[Array, Any] | None:
    if (
        any(each is None for each in condition.reshape(-1))
        or np.broadcast(condition, yes, no).size > MOST_PARTS
    ):
        return None
    chosen = np.empty(np.broadcast(condition, yes, no).shape, object)
    converted = condition.astype(bool)
    chosen[...] = np.where(converted, yes, no)
    dtype = op.dtype(1)
    return chosen, dtype


@folds("Cast")
def _cast(op: NodeView, x: Array) -> tuple[Array, Any] | None:
    op.idle("saturate", "round_mode")
    to = op.attr("to")
    dtype = op.graph.file.dtype(to, "its result")
    if dtype.kind in "iu" and op.dtype().kind in "iu":
        return x, dtype
    if any(each is None or isinstance(each, RunSize) for each in x.reshape(-1)):
        return None
    found = x.astype(op.dtype())
    if dtype.kind in "iu" and (not np.isfinite(found).all() or (abs(found) > 2**31).any()):
        return None
    converted = found.astype(dtype).astype(object)
    return converted, dtype


# ----------------------------------------------------------------------- sizes
@folds("Shape")
def _shape(op: NodeView, x: Array | None) -> tuple[Array, Any]:
    value = op.value()
    if value.array is not None:
        parts = np.array(value.shape, object)
    else:
        parts = parts_of_shape(op.x(), value.shape)
    return parts[slice(op.attr("start"), op.attr("end"))], np.int64


@folds("Size")
def _size(op: NodeView, x: Array | None) -> tuple[Array, Any] | None:
    shape = op.shape()
    found = np.empty((), object)
    found[()] = math.prod(shape)
    return (found, np.int64) if min(shape, default=0) >= 0 else None


@folds("ReduceProd")
def _product(op: NodeView, x: Array, axes: Array | None = None) -> Array | None:
    if x.ndim > 1 or any(each is None or isinstance(each, RunSize) for each in x.reshape(-1)):
        return None
    if op.dtype().kind != "i":
        return None
    op.idle("axes", "noop_with_empty_axes")
    found = np.empty((1,) if op.attr("keepdims") and x.ndim else (), object)
    reshaped = x.reshape(-1)
    found[...] = math.prod(reshaped)
    return found


@folds("Range")
def _range(op: NodeView, start: Array, limit: Array, step: Array) -> Array | None:
    ends: list[Any] = [each.reshape(-1)[0] if each.size == 1 else None for each in (start, limit, step)]
    if op.dtype().kind != "i" or any(each is None or isinstance(each, RunSize) for each in ends):
        return None
    found = range(*ends) if ends[2] else range(0)
    return np.array(found, object) if len(found) <= MOST_PARTS else None


@folds("ConstantOfShape")
def _constant_of_shape(op: NodeView, sizes: Array) -> tuple[Array, Any] | None:
    if any(each is None or isinstance(each, RunSize) or each < 0 for each in sizes.reshape(-1)):
        return None
    if math.prod(sizes.reshape(-1)) > MOST_PARTS:
        return None
    value = op.attr("value")
    filler = op.graph.file.array(value) if value is not None else np.zeros(1, np.float32)
    found = np.empty([int(each) for each in sizes.reshape(-1)], object)
    found[...] = filler.reshape(-1)[0].item()
    return found, filler.dtype


# ----------------------------------------------------------------------- elements in other places
@folds("Identity")
def _identity(op: NodeView, x: Array) -> Array:
    return x


@folds("Concat")
def _concat(op: NodeView, *parts: Array) -> Array | None:
    if sum(each.size for each in parts) > MOST_PARTS:
        return None
    axis = op.axis(op.attr("axis"), parts[0].ndim)
    return np.concatenate(parts, axis)


@folds("Gather")
def _gather(op: NodeView, x: Array, index: Array) -> Array | None:
    if any(each is None or isinstance(each, RunSize) for each in index.reshape(-1)) or not x.ndim:
        return None
    axis = op.axis(op.attr("axis"), x.ndim)
    if x.size * index.size > MOST_PARTS**2:
        return None
    found = np.empty((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), object)
    converted = index.astype(np.int64)
    found[...] = np.take(x, converted, axis)
    return found


@folds("Slice")
def _slice(op: NodeView, x: Array, *bounds: Array | None) -> Array | None:
    known: list[list[Any] | None] = [None if each is None else list(each.reshape(-1)) for each in bounds]
    if any(each is None or isinstance(each, RunSize) for some in known for each in some or ()):
        return None
    starts = known[0] or []
    ends = known[1] or []
    axes = known[2] if len(known) > 2 and known[2] is not None else range(len(starts))
    steps = known[3] if len(known) > 3 and known[3] is not None else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        where: list[Any] = [slice(None)] * x.ndim
        made = _python_end(end, x.shape[axis], step)
        where[op.axis(axis, x.ndim)] = slice(start, made, step)
        x = x[tuple(where)]
    return x


def _python_end(end: int, size: int, step: int) -> int | None:
    """An end as slices of Python have it: backwards what lies before the first element is None."""
    return None if step < 0 and end < -size else end


@folds("Unsqueeze")
def _unsqueeze(op: NodeView, x: Array, axes: Array) -> Array | None:
    rank = x.ndim + axes.size
    places = [op.axis(int(axis), rank) for axis in axes.reshape(-1)]
    listed = tuple(places)
    return np.expand_dims(x, listed)


@folds("Squeeze")
def _squeeze(op: NodeView, x: Array, axes: Array | None = None) -> Array | None:
    if axes is None:
        return x.reshape([size for size in x.shape if size != 1])
    listed = tuple(op.axis(int(axis), x.ndim) for axis in axes.reshape(-1))
    return np.squeeze(x, listed)


@folds("Reshape")
def _reshape(op: NodeView, x: Array, sizes: Array) -> Array | None:
    if any(each is None or isinstance(each, RunSize) for each in sizes.reshape(-1)):
        return None
    if op.attr("allowzero") and 0 in sizes:
        return None
    target = [x.shape[at] if size == 0 and at < x.ndim else size for at, size in enumerate(sizes.reshape(-1))]
    return x.reshape(target)
