"""layer_norm and its gradient: rows in blocks that a team shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.dense import matrix
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.rows import LayerNorm, LayerNormGrad


def _rows(e: Emitter, x: Value) -> Value:
    """X as a matrix of the rows that are normalised."""
    if not e.on_host or x.dtype not in (np.float32, np.float64) or not x.size:
        raise CannotLower("no floats on the host")
    return matrix(e, x, e.attr("begin_norm_axis"))


def _factor(e: Emitter, slot: str, columns: int) -> Value | None:
    """Scale or Bias as one row; None where the op has none."""
    given = e.x(slot) if e.op.inputs.get(slot) else None
    return None if given is None else e.reshape(given, (columns,))


def _kernel(e: Emitter, hint: str, kind: Any, rows: Value) -> Any:
    assert rows.shape is not None
    return e.bind_fresh(hint, kind, *rows.shape, rows.dtype, e.threads, e.attr("epsilon"))


def _statistic(e: Emitter, slot: str, x: Value, count: int) -> Value:
    """Mean or Variance, which an op need not name."""
    return e.out(slot, (count,), x.dtype) if e.op.outputs.get(slot) else e.temp((count,), x.dtype)


@lowering("layer_norm")
def _(e: Emitter) -> None:
    x = e.need("X")
    rows = _rows(e, x)
    assert rows.shape is not None
    count, columns = rows.shape
    scale, bias = (_factor(e, slot, columns) for slot in ("Scale", "Bias"))
    mean, variance = (_statistic(e, slot, x, count) for slot in ("Mean", "Variance"))
    y = e.reshape(e.out("Y", x.shape, x.dtype), rows.shape)
    e.run(_kernel(e, "layer_norm", LayerNorm, rows), rows, scale, bias, Out(y), Out(mean), Out(variance))


@lowering("layer_norm_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Y@GRAD")
    rows = _rows(e, x)
    assert rows.shape is not None and x.shape is not None
    count, columns = rows.shape
    if math.prod(d.shape or ()) != x.size or d.dtype != x.dtype:
        raise CannotLower("another gradient")
    scale = _factor(e, "Scale", columns)
    mean, variance = (e.reshape(e.need(slot), (count,)) for slot in ("Mean", "Variance"))
    dx = Out(e.reshape(e.out("X@GRAD", x.shape, x.dtype), rows.shape)) if e.wants("X@GRAD") else None
    sums = [Out(e.out(slot, (columns,), x.dtype)) if e.wants(slot) else None for slot in _SUMS]
    kernel = _kernel(e, "layer_norm_grad", LayerNormGrad, rows)
    e.run(kernel, rows, scale, mean, variance, e.reshape(d, rows.shape), dx, *sums)


_SUMS = ("Scale@GRAD", "Bias@GRAD")
