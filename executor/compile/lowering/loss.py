"""Cross-entropy, mean, and a loss over a tree of classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel, takes
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.values import Value
from fluidlite.ops.losses.sampling import hierarchical_sigmoid


def ones(e: Emitter, count: int, dtype: object) -> Value:
    """A vector of ones: a sum as a dot product is three times faster than `add.reduce` over a few columns."""
    return e.made((count,), np.ones, count, dtype)


def _rows(e: Emitter, value: Value, axis: int) -> Value:
    """`value` as a matrix whose rows run along its last axis."""
    assert value.shape is not None
    is_last = axis in (-1, len(value.shape) - 1)
    if not is_last or not value.shape or not takes(e, value.dtype):
        raise CannotLower("not the last axis")
    if value.shape[-1] == 0:
        raise CannotLower("rows without columns")
    height = math.prod(value.shape[:-1])
    return e.reshape(value, (height, value.shape[-1]))


# ---------------------------------------------------------------------- cross-entropy of probabilities
def _on_device(e: Emitter) -> None:
    if e.on_host:
        raise CannotLower("only the portable kernel supports it")


@lowering("cross_entropy2")
def _(e: Emitter) -> None:
    _on_device(e)
    x = e.need("X")
    label = for_kernel(e, e.need("Label"), np.int64)
    rows = _rows(e, for_kernel(e, x, x.dtype), -1)
    assert x.shape is not None and label.shape is not None and rows.shape is not None
    loss = e.out("Y", x.shape[:-1] + (1,) * (len(label.shape) == len(x.shape)), x.dtype)
    match = e.out("MatchX", (*x.shape[:-1], 1), x.dtype)
    # without elements: its shape tells the gradient the number of classes
    e.alias("XShape", e.made((*x.shape, 0), np.empty, (*x.shape, 0), x.dtype))
    kernel = row_kernel(e, "cross_entropy2", rows, [e.attr("ignore_index")])
    e.run(kernel, rows, label, Out(loss), Out(match))


@lowering("cross_entropy_grad2")
def _(e: Emitter) -> None:
    _on_device(e)
    shape = e.need("XShape").shape
    match = e.need("MatchX")
    assert shape is not None
    label = for_kernel(e, e.need("Label"), np.int64)
    match, d = (for_kernel(e, e.need(slot), match.dtype) for slot in ("MatchX", "Y@GRAD"))
    out = e.out("X@GRAD", shape[:-1], match.dtype)
    rows = _rows(e, out, -1)
    kernel = row_kernel(e, "cross_entropy_grad2", rows, [e.attr("ignore_index")])
    e.run(kernel, label, match, d, Out(rows))


@lowering("mean")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype != np.float32 or not x.size:
        raise CannotLower("dtype")
    out = e.out("Out", (1,), x.dtype)
    total = e.reshape(out, ())
    flat = e.reshape(x, (x.size,))
    # a dot with ones adds in one float32 accumulator per lane: pairwise summation where many elements would
    # lose digits
    if about(x.size) <= 1 << 12:
        e.call("dot", flat, ones(e, x.size, x.dtype), out=total)
    else:
        e.call("add.reduce", flat, out=total)
    e.call("multiply", total, e.number(1.0 / x.size, x), out=total)


@lowering("mean_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Out@GRAD")
    if not x.size:
        raise CannotLower("a mean over no elements")
    out = e.out("X@GRAD", x.shape, x.dtype)
    if d.uniform is not None:
        e.elementwise("a", out, a=d.uniform / x.size)
    else:
        e.elementwise("d * a", out, d=e.reshape(d, ()), a=1.0 / x.size)


# ---------------------------------------------------------------------- a tree of classes
@lowering("hierarchical_sigmoid")
def _(e: Emitter) -> None:
    if not e.on_host or (e.op.outputs.get("W_Out") != e.op.inputs["W"] and e.wants("W_Out")):
        raise CannotLower("the table has another name")
    x = e.need("X")
    table, code, bias = (e.x(slot) for slot in ("PathTable", "PathCode", "Bias"))
    assert x.shape is not None
    depth = (e.attr("num_classes") - 1).bit_length()
    if table is not None and code is not None:
        assert table.shape is not None
        depth = table.shape[1]
    outs = e.out("Out", e.inferred_shape("Out"), x.dtype), e.out("PreOut", (x.shape[0], depth), x.dtype)
    cost = e.bind_fresh("tree_cost", TreeCost, e.attr("num_classes"))
    e.run(cost, x, e.need("W"), e.need("Label"), table, code, bias, *map(Out, outs))


class TreeCost:
    """The op's kernel but for the output that is the table itself, which would be copied twice a step."""

    def __init__(self, xp: Any, num_classes: int) -> None:
        self.xp = xp
        self.num_classes = num_classes

    def __call__(self, *operands: Array | None) -> None:
        *given, out, scores = operands
        compute = hierarchical_sigmoid.compute
        assert compute is not None and out is not None and scores is not None
        out[...], scores[...], _ = compute(self.xp, *given, self.num_classes)
