"""Reductions over axes."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import takes
from fluidlite.executor.compile.lowering.device_rows import kept_rows, total_of_rows
from fluidlite.executor.plan.values import Value


def sum_to(e: Emitter, value: Value, shape: tuple[int, ...], out: Value) -> None:
    """out (of `shape`) = value summed over the dimensions along which `shape` was broadcast, aligned on
    the right.
    """
    assert value.shape is not None
    padded = (1,) * (len(value.shape) - len(shape)) + tuple(shape)
    axes = tuple(i for i, want in enumerate(padded) if value.shape[i] != want)
    sum_axes(e, value, axes, out)


def sum_axes(e: Emitter, value: Value, axes: tuple[int, ...], out: Value) -> None:
    """out = value summed over `axes`; leading or trailing axes of float32 go through BLAS."""
    assert value.shape is not None
    rank = len(value.shape)
    lead = axes == tuple(range(len(axes)))
    trail = axes == tuple(range(rank - len(axes), rank))
    kept = math.prod(dim for i, dim in enumerate(value.shape) if i not in axes)
    if not axes:
        e.copy(value, e.reshape(out, value.shape))
    elif (lead or trail) and takes(e, value.dtype):
        # over a few columns a product with ones is three times as fast as `add.reduce`
        count = math.prod(value.shape[axis] for axis in axes)
        ones = e.made((count,), np.ones, count, value.dtype)
        target = e.reshape(out, (kept,))
        if lead:
            e.call("dot", ones, e.reshape(value, (count, kept)), out=target)
        else:
            e.call("dot", e.reshape(value, (kept, count)), ones, out=target)
    else:
        target = e.reshape(out, tuple(dim for i, dim in enumerate(value.shape) if i not in axes))
        e.call("add.reduce", value, axis=axes, out=target)


def _axes(e: Emitter, rank: int) -> tuple[int, ...]:
    dims = e.attr("dim")
    # a number has no dimensions to count from
    if e.attr("reduce_all") or not dims or not rank:
        return tuple(range(rank))
    return tuple(sorted({dim % rank for dim in dims}))


def _of_rows(e: Emitter) -> bool:
    """True if the op is the sum of a row-sparse gradient that a device keeps."""
    parts = kept_rows(e, e.any("X")) or []
    is_whole = e.attr("reduce_all") or not e.attr("dim")
    if not parts or e.op.type != "reduce_sum" or not is_whole or e.attr("out_dtype") >= 0:
        return False
    total_of_rows(e, parts, e.out("Out", e.inferred_shape("Out"), parts[0].rows.dtype))
    return True


@lowering("reduce_sum", "reduce_mean")
def _(e: Emitter) -> None:
    _reduce(e, "add")


@lowering("reduce_max")
def _(e: Emitter) -> None:
    _reduce(e, "maximum")


@lowering("reduce_min")
def _(e: Emitter) -> None:
    _reduce(e, "minimum")


def _reduce(e: Emitter, function: str) -> None:
    if _of_rows(e):
        return
    x = e.need("X")
    assert x.shape is not None
    if not takes(e, x.dtype) or not x.shape or not x.size or e.attr("out_dtype") >= 0:
        raise CannotLower("dtype")
    axes = _axes(e, len(x.shape))
    out = e.out("Out", e.inferred_shape("Out"), x.dtype)
    kept = tuple(dim for i, dim in enumerate(x.shape) if i not in axes)
    target = e.reshape(out, kept)
    # a sum of everything is left to `add.reduce`, which adds pairwise and so keeps digits
    if function == "add" and kept:
        sum_axes(e, x, axes, target)
    else:
        e.call(f"{function}.reduce", x, axis=axes, out=target)
    if e.op.type == "reduce_mean":
        count = x.size // max(out.size, 1)
        e.call("multiply", target, e.number(1.0 / count, x), out=target)


@lowering("reduce_sum_grad", "reduce_mean_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Out@GRAD")
    assert x.shape is not None
    axes = _axes(e, len(x.shape))
    out = e.out("X@GRAD", x.shape, x.dtype)
    kept = tuple(1 if i in axes else dim for i, dim in enumerate(x.shape))
    count = math.prod(x.shape[axis] for axis in axes)
    if d.uniform is None and d.size != math.prod(kept):
        raise CannotLower("a branch for another axis than the one whose result is declared")
    # a number fits any shape; an array gets its reduced dimensions back, as ones
    grad = d if d.uniform is not None else e.reshape(d, kept)
    if e.op.type == "reduce_mean_grad":
        if x.dtype is None or x.dtype.kind != "f":
            raise CannotLower("NumPy would return floating point for integers")
        if not count:
            raise CannotLower("a mean over no elements")
        e.elementwise("d * a", out, d=grad, a=1.0 / count)
    else:
        e.elementwise("d", out, d=grad)
