"""Softmax, cross-entropy and mean: few passes over the logits, row sums as products with a vector of ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan.actions import Call, Out, SetItem, When
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.rows import Softmax, SoftmaxGrad
from fluidlite.ops.neural.softmax import LOWEST_SCORE


def ones(e: Emitter, count: int, dtype: object) -> Value:
    """A vector of ones: a sum as a dot product is three times faster than `add.reduce` over a few columns."""
    return e.made((count,), np.ones, count, dtype)


def _rows(e: Emitter, value: Value, axis: int) -> Value:
    """`value` as a matrix whose rows run along its last axis."""
    assert value.shape is not None
    is_last = axis in (-1, len(value.shape) - 1)
    if not is_last or not value.shape or value.dtype not in (np.float32, np.float64):
        raise CannotLower("not the last axis")
    height = math.prod(value.shape[:-1])
    return e.reshape(value, (height, value.shape[-1]))


def _softmax(e: Emitter, x: Value, out: Value) -> None:
    """out = softmax of the rows of x."""
    assert x.shape is not None
    rows, cols = x.shape
    if e.on_host and x.size:
        # Paddle's lowest score: a probability is never quite 0, nor its logarithm infinite
        kernel = e.bind_fresh("softmax", Softmax, rows, cols, x.dtype, e.threads, LOWEST_SCORE)
        e.run(kernel, x, Out(out))
        return
    top = e.temp((rows, 1), x.dtype)
    total = e.temp((rows, 1), x.dtype)
    e.call("maximum.reduce", x, axis=1, keepdims=True, out=top)
    e.call("subtract", x, top, out=out)
    e.call("maximum", out, e.number(LOWEST_SCORE, x), out=out)
    e.call("exp", out, out=out)
    e.call("dot", out, e.made((cols, 1), np.ones, (cols, 1), x.dtype), out=total)
    e.call("reciprocal", total, out=total)
    e.call("multiply", out, total, out=out)


@lowering("softmax")
def _(e: Emitter) -> None:
    x = e.need("X")
    flat = _rows(e, x, e.attr("axis"))
    result = e.out("Out", x.shape, x.dtype)
    _softmax(e, flat, e.reshape(result, flat.shape or ()))


@lowering("softmax_grad")
def _(e: Emitter) -> None:
    out = e.need("Out")
    d = e.need("Out@GRAD")
    y = _rows(e, out, e.attr("axis"))
    dy = _rows(e, d, e.attr("axis"))
    assert y.shape is not None
    dx = e.reshape(e.out("X@GRAD", out.shape, out.dtype), y.shape)
    if e.on_host and y.size:
        e.run(e.bind_fresh("softmax_grad", SoftmaxGrad, *y.shape, y.dtype, e.threads), y, dy, Out(dx))
        return
    rows, cols = y.shape
    dot = e.temp((rows, 1), y.dtype)
    work = e.temp(y.shape, y.dtype)
    e.call("multiply", y, dy, out=work)
    e.call("dot", work, e.made((cols, 1), np.ones, (cols, 1), y.dtype), out=dot)
    e.call("subtract", dy, dot, out=dx)
    e.call("multiply", dx, y, out=dx)


@dataclass(frozen=True)
class Labelled:
    """The places of the labelled elements in a flattened matrix, and the rows that are to be left out.

    On the host `left_out` is a name for the rows of ignored labels, or None where there are none (found when
    the step runs); on a device `counts` is a column of 0 and 1.
    """

    index: Value
    left_out: Value | None
    counts: Value | None


def _labelled(e: Emitter, label: Value, shape: tuple[int, ...]) -> Labelled:
    """The labels of a matrix's rows; forward and backward share them."""
    rows, cols = shape
    found: Labelled | None = e.recall(("labelled", label, cols))
    if found is not None:
        return found
    index = e.temp((rows,), np.int64)
    flat = e.reshape(label, (rows,))
    if e.on_host:
        left_out = e.unknown()
        find = e.bind_fresh("labels", Labels, cols, rows, e.attr("ignore_index"))
        e.assign(left_out, Call(find, (flat, Out(index))))
        found = Labelled(index, left_out, None)
    else:
        # rows are masked instead of picked: their number would have to come to the host
        counts = e.temp((rows,), np.float32)
        ignored = e.attr("ignore_index")
        start = e.constant(np.arange(rows, dtype=np.int64) * cols)
        e.elementwise("where(y != ignored, 1.0, 0.0)", counts, y=flat, ignored=ignored)
        e.elementwise("where(y != ignored, y, 0) + base", index, y=flat, base=start, ignored=ignored)
        found = Labelled(index, None, counts)
    e.remember(("labelled", label, cols), found)
    return found


class Labels:
    """Writes the positions of labels; gives the rows whose label is to be ignored, or None; raises for what
    is no class.

    Seen as unsigned numbers, negative labels are large ones, so that one maximum tells whether all is well.
    """

    def __init__(self, xp: Any, classes: int, rows: int, ignored: int) -> None:
        self.classes = classes
        self.base = xp.arange(rows, dtype=np.int64) * classes
        self.ignored = ignored

    def __call__(self, labels: Array, index: Array) -> Array | None:
        rows = None
        if len(labels) and np.maximum.reduce(labels.view(np.uint64)) >= self.classes:
            bad = ((labels < 0) | (labels >= self.classes)) & (labels != self.ignored)
            if bad.any():
                raise ValueError(f"label {int(labels[bad][0])} is not one of the {self.classes} classes")
            rows = np.flatnonzero(labels == self.ignored)
            labels = np.where(labels == self.ignored, 0, labels)
        np.add(labels, self.base, out=index)
        return rows


def _leave_out(e: Emitter, labelled: Labelled, rows: Value, width: int) -> None:
    """Set the rows of ignored labels to zero."""
    if labelled.left_out is not None:
        e.step(When(labelled.left_out, SetItem(rows, labelled.left_out, 0)))
    elif labelled.counts is not None:
        assert rows.shape is not None
        shape = (rows.shape[0], width) if width else (rows.shape[0],)
        e.call("multiply", rows, e.reshape(labelled.counts, shape), out=rows)


def _hard(e: Emitter, label: Value) -> None:
    if e.attr("soft_label") or label.dtype != np.int64 or e.attr("ignore_index") >= 0:
        raise CannotLower("soft labels")
    if not e.attr("use_softmax"):
        raise CannotLower("probabilities")


@lowering("softmax_with_cross_entropy")
def _(e: Emitter) -> None:
    x = e.need("Logits")
    label = e.need("Label")
    _hard(e, label)
    flat = _rows(e, x, e.attr("axis"))
    assert flat.shape is not None and x.shape is not None
    softmax = e.out("Softmax", x.shape, x.dtype)
    out = e.reshape(softmax, flat.shape)
    loss = e.out("Loss", (*x.shape[:-1], 1), x.dtype)
    loss = e.reshape(loss, (flat.shape[0],))
    _softmax(e, flat, out)
    labelled = _labelled(e, label, flat.shape)
    every = e.reshape(out, (out.size,))
    # the logarithm of the picked entries alone, not of all classes
    e.call("take", every, labelled.index, mode="clip", out=loss)
    e.call("log", loss, out=loss)
    e.call("negative", loss, out=loss)
    _leave_out(e, labelled, loss, 0)


@lowering("softmax_with_cross_entropy_grad")
def _(e: Emitter) -> None:
    softmax = e.need("Softmax")
    label = e.need("Label")
    d = e.need("Loss@GRAD")
    _hard(e, label)
    y = _rows(e, softmax, e.attr("axis"))
    assert y.shape is not None
    rows = y.shape[0]
    out = e.out("Logits@GRAD", softmax.shape, softmax.dtype)
    dx = e.reshape(out, y.shape)
    labelled = _labelled(e, label, y.shape)
    if not e.on_host:
        _grad_on_device(e, label, y, d, dx)
        _leave_out(e, labelled, dx, 1)
        return
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
    _leave_out(e, labelled, dx, 1)


def _grad_on_device(e: Emitter, label: Value, y: Value, d: Value, dx: Value) -> None:
    """dx = (y - one at the label) * d, as one kernel: picking elements allocates, which no graph holds."""
    assert y.shape is not None
    rows, columns = y.shape
    at = e.constant(np.arange(columns, dtype=np.int64).reshape(1, columns))
    picked = {"y": y, "column": at, "label": e.reshape(label, (rows, 1))}
    factor = d.uniform if d.uniform is not None else e.reshape(d, (rows, 1))
    e.elementwise("where(column == label, y - 1.0, y) * d", dx, d=factor, **picked)


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
    if x.size <= 1 << 12:
        e.call("dot", flat, ones(e, x.size, x.dtype), out=total)
    else:
        e.call("add.reduce", flat, out=total)
    e.call("multiply", total, e.number(1.0 / x.size, x), out=total)


@lowering("mean_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Out@GRAD")
    if not x.size:
        raise CannotLower("a mean of nothing")
    out = e.out("X@GRAD", x.shape, x.dtype)
    if d.uniform is not None:
        e.elementwise("a", out, a=d.uniform / x.size)
    else:
        e.elementwise("d * a", out, d=e.reshape(d, ()), a=1.0 / x.size)
