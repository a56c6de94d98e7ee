"""layer_norm and its gradient: rows in blocks that a team shares, or that a device's threads do."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.dense import matrix
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel, takes
from fluidlite.executor.cuda.rows import DeviceLayerNormGrad
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.rows import LayerNorm, LayerNormGrad


def _rows(e: Emitter, x: Value) -> Value:
    """X as a matrix of the rows that are normalised."""
    if not takes(e, x.dtype) or not x.size:
        raise CannotLower("no floats")
    return matrix(e, for_kernel(e, x, x.dtype), e.attr("begin_norm_axis"))


def _factor(e: Emitter, slot: str, columns: int, dtype: Any) -> Value | None:
    """Scale or Bias as one row; None where the op has none."""
    given = e.x(slot) if e.op.inputs.get(slot) else None
    if given is None:
        return None
    if given.size != columns:
        raise CannotLower("sizes")  # the portable kernel says what is wrong
    return e.reshape(for_kernel(e, given, dtype), (columns,))


def _forward(e: Emitter, rows: Value, scale: Value | None, bias: Value | None) -> Bound:
    """The kernel of layer_norm."""
    assert rows.shape is not None
    epsilon = e.attr("epsilon")
    if not e.on_host:
        switches = _switches(SCALED=scale, SHIFTED=bias)
        return row_kernel(e, "layer_norm", rows, [epsilon], switches)
    return e.bind_fresh("layer_norm", LayerNorm, *rows.shape, rows.dtype, e.threads, epsilon)


def _backward(e: Emitter, rows: Value, scale: Value | None) -> Bound:
    """The kernel of its gradient."""
    assert rows.shape is not None
    epsilon = e.attr("epsilon")
    if not e.on_host:
        is_scaled = scale is not None
        return e.bind_fresh(
            "layer_norm_grad", DeviceLayerNormGrad, *rows.shape, rows.dtype, epsilon, is_scaled
        )
    return e.bind_fresh("layer_norm_grad", LayerNormGrad, *rows.shape, rows.dtype, e.threads, epsilon)


def _switches(**values: Value | None) -> list[str]:
    """The names of those that are there."""
    return [name for name, value in values.items() if value is not None]


def _statistic(e: Emitter, slot: str, x: Value, count: int) -> Value:
    """Mean or Variance, which an op need not name."""
    return e.out(slot, (count,), x.dtype) if e.op.outputs.get(slot) else e.temp((count,), x.dtype)


@lowering("layer_norm")
def _(e: Emitter) -> None:
    x = e.need("X")
    rows = _rows(e, x)
    assert rows.shape is not None
    count, columns = rows.shape
    scale, bias = (_factor(e, slot, columns, x.dtype) for slot in ("Scale", "Bias"))
    mean, variance = (_statistic(e, slot, x, count) for slot in ("Mean", "Variance"))
    y = e.reshape(e.out("Y", x.shape, x.dtype), rows.shape)
    e.run(_forward(e, rows, scale, bias), rows, scale, bias, Out(y), Out(mean), Out(variance))


@lowering("layer_norm_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Y@GRAD")
    rows = _rows(e, x)
    assert rows.shape is not None and x.shape is not None
    count, columns = rows.shape
    if math.prod(d.shape or ()) != x.size or d.dtype != x.dtype:
        raise CannotLower("another gradient")
    scale = _factor(e, "Scale", columns, x.dtype)
    statistics = (for_kernel(e, e.need(slot), x.dtype) for slot in ("Mean", "Variance"))
    mean, variance = (e.reshape(value, (count,)) for value in statistics)
    dx = Out(e.reshape(e.out("X@GRAD", x.shape, x.dtype), rows.shape)) if e.wants("X@GRAD") else None
    sums = [Out(e.out(slot, (columns,), x.dtype)) if e.wants(slot) else None for slot in _SUMS]
    incoming = e.reshape(for_kernel(e, d, x.dtype), rows.shape)
    e.run(_backward(e, rows, scale), rows, scale, mean, variance, incoming, dx, *sums)


_SUMS = ("Scale@GRAD", "Bias@GRAD")
