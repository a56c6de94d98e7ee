"""Softmax, cross-entropy and mean: few passes over the logits, row sums as products with a vector of ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel, takes
from fluidlite.executor.plan.actions import Bound, Call, Out, SetItem, When
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.rows import Labels, Softmax, SoftmaxGrad, SoftmaxLoss, SoftmaxLossGrad
from fluidlite.ops.losses.sampling import hierarchical_sigmoid
from fluidlite.ops.neural.softmax import LOWEST_SCORE


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


def _softmax_kernel(e: Emitter, x: Value) -> Bound:
    """The kernel of softmax for the rows of x."""
    assert x.shape is not None
    if not e.on_host:
        return row_kernel(e, "softmax", x, [LOWEST_SCORE])
    # Paddle's lowest score: a probability is never quite 0, nor its logarithm infinite
    return e.bind_fresh("softmax", Softmax, *x.shape, x.dtype, e.threads, LOWEST_SCORE)


@lowering("softmax")
def _(e: Emitter) -> None:
    x = e.need("X")
    flat = _rows(e, for_kernel(e, x, x.dtype), e.attr("axis"))
    result = e.out("Out", x.shape, x.dtype)
    e.run(_softmax_kernel(e, flat), flat, Out(e.reshape(result, flat.shape or ())))


@lowering("softmax_grad")
def _(e: Emitter) -> None:
    out = e.need("Out")
    d = e.need("Out@GRAD")
    y, dy = (_rows(e, for_kernel(e, value, out.dtype), e.attr("axis")) for value in (out, d))
    assert y.shape is not None
    dx = e.reshape(e.out("X@GRAD", out.shape, out.dtype), y.shape)
    if e.on_host:
        kernel = e.bind_fresh("softmax_grad", SoftmaxGrad, *y.shape, y.dtype, e.threads)
    else:
        kernel = row_kernel(e, "softmax_grad", y)
    e.run(kernel, y, dy, Out(dx))


@dataclass(frozen=True)
class Labelled:
    """The places of the labelled elements in a flattened matrix, and a name for the rows of ignored labels,
    or None where there are none (found when the step runs).
    """

    index: Value
    left_out: Value


def _labelled(e: Emitter, label: Value, shape: tuple[int, ...]) -> Labelled:
    """The labels of a matrix's rows; forward and backward share them."""
    rows, cols = shape
    found: Labelled | None = e.recall(("labelled", label, cols))
    if found is not None:
        return found
    index = e.temp((rows,), np.int64)
    left_out = e.unknown()
    find = e.bind_fresh("labels", Labels, cols, rows, e.attr("ignore_index"))
    e.assign(left_out, Call(find, (e.reshape(label, (rows,)), Out(index))))
    found = Labelled(index, left_out)
    e.remember(("labelled", label, cols), found)
    return found


def _leave_out(e: Emitter, labelled: Labelled, rows: Value) -> None:
    """Set the rows of ignored labels to zero."""
    e.step(When(labelled.left_out, SetItem(rows, labelled.left_out, 0)))


def _hard(e: Emitter, label: Value) -> None:
    if e.attr("soft_label") or label.dtype != np.int64:
        raise CannotLower("soft labels")
    if not e.attr("use_softmax"):
        raise CannotLower("probabilities")


def _loss_on_device(e: Emitter, x: Value, label: Value, softmax: Value, loss: Value) -> None:
    """Softmax and loss in one kernel."""
    kernel = row_kernel(e, "softmax_with_cross_entropy", x, [LOWEST_SCORE, e.attr("ignore_index")])
    e.run(kernel, x, for_kernel(e, label, np.int64), Out(softmax), Out(loss))


@lowering("softmax_with_cross_entropy")
def _(e: Emitter) -> None:
    x = e.need("Logits")
    label = e.need("Label")
    _hard(e, label)
    flat = _rows(e, for_kernel(e, x, x.dtype), e.attr("axis"))
    assert flat.shape is not None and x.shape is not None
    softmax = e.out("Softmax", x.shape, x.dtype)
    out = e.reshape(softmax, flat.shape)
    loss = e.out("Loss", (*x.shape[:-1], 1), x.dtype)
    loss = e.reshape(loss, (flat.shape[0],))
    if not e.on_host:
        _loss_on_device(e, flat, label, out, loss)
        return
    if e.compiles(x):
        arguments = (*flat.shape, x.dtype, e.threads, LOWEST_SCORE, e.attr("ignore_index"))
        kernel = e.bind_fresh("softmax_loss", SoftmaxLoss, *arguments)
        e.run(kernel, flat, e.reshape(label, loss.shape or ()), Out(out), Out(loss))
        return
    e.run(_softmax_kernel(e, flat), flat, Out(out))
    labelled = _labelled(e, label, flat.shape)
    every = e.reshape(out, (out.size,))
    # the logarithm of the picked entries alone, not of all classes
    e.call("take", every, labelled.index, mode="clip", out=loss)
    e.call("log", loss, out=loss)
    e.call("negative", loss, out=loss)
    _leave_out(e, labelled, loss)


@lowering("softmax_with_cross_entropy_grad")
def _(e: Emitter) -> None:
    softmax = e.need("Softmax")
    label = e.need("Label")
    d = e.need("Loss@GRAD")
    _hard(e, label)
    y = _rows(e, for_kernel(e, softmax, softmax.dtype), e.attr("axis"))
    assert y.shape is not None
    rows = y.shape[0]
    out = e.out("Logits@GRAD", softmax.shape, softmax.dtype)
    dx = e.reshape(out, y.shape)
    if not e.on_host:
        _grad_on_device(e, label, y, d, dx)
        return
    if e.compiles(y):
        arguments = (*y.shape, y.dtype, e.threads, e.attr("ignore_index"))
        kernel = e.bind_fresh("softmax_loss_grad", SoftmaxLossGrad, *arguments)
        if d.uniform is not None:
            incoming = e.number(d.uniform, y)
        else:
            incoming = e.reshape(d, (rows,))
        e.run(kernel, y, e.reshape(label, (rows,)), incoming, Out(dx))
        return
    labelled = _labelled(e, label, y.shape)
    flat = e.reshape(out, (out.size,))
    if d.uniform is not None:
        # the gradient of a mean: one number for all rows, so no column to multiply with
        number = e.number(d.uniform, y)
        e.call("multiply", y, number, out=dx)
        # no two rows share an element of the flat array, so nothing is subtracted only once by mistake
        e.set_item(flat, labelled.index, number, subtract=True)
    else:
        row = e.reshape(d, (rows,))
        e.call("multiply", y, e.reshape(d, (rows, 1)), out=dx)
        e.set_item(flat, labelled.index, row, subtract=True)
    _leave_out(e, labelled, dx)


def _grad_on_device(e: Emitter, label: Value, y: Value, d: Value, dx: Value) -> None:
    """(y - one at the label) * d in one kernel."""
    # the gradient of a mean is one number for all rows
    if d.uniform is None:
        factor = 1.0
        each = for_kernel(e, d, y.dtype)
    else:
        factor = float(d.uniform)
        each = None
    assert y.shape is not None
    numbers = [e.attr("ignore_index"), factor]
    kernel = row_kernel(
        e, "softmax_with_cross_entropy_grad", y, numbers, ["EACH_ROW"] if each is not None else []
    )
    e.run(kernel, y, for_kernel(e, label, np.int64), each, Out(dx))


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
