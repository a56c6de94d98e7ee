"""Softmax, cross-entropy and mean: few passes over the logits, row sums as products with a vector of ones."""
from __future__ import annotations

import math

import numpy as np

from fluidlite.dtypes import Array
from fluidlite.executor.emitter import CannotLower, Emitter, HostCheck, lowering
from fluidlite.executor.plan_ir import Value


def ones(e: Emitter, count: int, dtype: object) -> Value:
    """A vector of ones: a sum as a dot product is three times faster than `add.reduce` over a few columns."""
    return e.constant(np.ones(count, dtype))                                   # type: ignore[call-overload]


def _rows(e: Emitter, value: Value, axis: int) -> Value:
    """`value` as a matrix whose rows run along its last axis."""
    assert value.shape is not None
    if axis not in (-1, len(value.shape) - 1) or not value.shape or value.dtype != np.float32:
        raise CannotLower("not the last axis")
    return e.reshape(value, (math.prod(value.shape[:-1]), value.shape[-1]))


def _softmax(e: Emitter, x: Value, out: Value) -> Value:
    """out = softmax of the rows of x; returns the row sums of the exponentials (a column)."""
    assert x.shape is not None
    rows, cols = x.shape
    top, total = e.temp((rows, 1), x.dtype), e.temp((rows, 1), x.dtype)
    e.line(f"maximum.reduce({x}, axis=1, keepdims=True, out={top})", [x], [top])
    e.call("subtract", x, top, out=out)
    e.call("exp", out, out=out)
    e.call("dot", out, e.constant(np.ones((cols, 1), x.dtype)), out=total)
    return total


@lowering("softmax")
def _(e: Emitter) -> None:
    x = e.need("X")
    flat = _rows(e, x, e.attr("axis"))
    result = e.out("Out", x.shape, x.dtype)
    out = e.reshape(result, flat.shape)                                        # type: ignore[arg-type]
    total = _softmax(e, flat, out)
    e.line(f"reciprocal({total}, out={total})", [total], [total])
    e.call("multiply", out, total, out=out)


@lowering("softmax_grad")
def _(e: Emitter) -> None:
    out, d = e.need("Out"), e.need("Out@GRAD")
    y, dy = _rows(e, out, e.attr("axis")), _rows(e, d, e.attr("axis"))
    assert y.shape is not None
    rows, cols = y.shape
    dot, work = e.temp((rows, 1), y.dtype), e.temp(y.shape, y.dtype)
    dx = e.reshape(e.out("X@GRAD", out.shape, out.dtype), y.shape)
    e.call("multiply", y, dy, out=work)
    e.call("dot", work, e.constant(np.ones((cols, 1), y.dtype)), out=dot)
    e.call("subtract", dy, dot, out=dx)
    e.call("multiply", dx, y, out=dx)


def _picked(e: Emitter, label: Value, shape: tuple[int, ...]) -> Value:
    """Positions of the labelled elements in the flattened matrix, checked against the classes; forward and backward share them."""
    rows, cols = shape
    found = e.remembered(("picked", label, cols))
    if found is not None:
        return found
    index = e.temp((rows,), np.int64)
    base = e.constant(np.arange(rows, dtype=np.int64) * cols)
    flat = e.reshape(label, (rows,))
    check = e.bind("check_labels", LabelCheck(cols))
    e.line(f"{check}({flat})\nadd({base}, {flat}, out={index})", [base, flat], [index])
    e.remember(("picked", label, cols), index)
    return index


class LabelCheck(HostCheck):
    """Raises for labels that are no class: an index beyond the row would silently pick another sample's.

    Seen as unsigned numbers, negative labels are large ones, so that one maximum tells.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def __call__(self, labels: Array) -> None:
        if len(labels) and np.maximum.reduce(labels.view(np.uint64)) >= self.classes:
            bad = labels[(labels < 0) | (labels >= self.classes)][0]
            raise ValueError(f"label {int(bad)} is not one of the {self.classes} classes")


@lowering("softmax_with_cross_entropy")
def _(e: Emitter) -> None:
    x, label = e.need("Logits"), e.need("Label")
    if e.attr("soft_label") or label.dtype != np.int64 or e.attr("ignore_index") >= 0:
        raise CannotLower("soft labels")
    flat = _rows(e, x, e.attr("axis"))
    assert flat.shape is not None and x.shape is not None
    softmax = e.out("Softmax", x.shape, x.dtype)
    out = e.reshape(softmax, flat.shape)
    loss = e.reshape(e.out("Loss", (*x.shape[:-1], 1), x.dtype), (flat.shape[0],))
    total = _softmax(e, flat, out)
    e.line(f"reciprocal({total}, out={total})", [total], [total])
    e.call("multiply", out, total, out=out)
    index = _picked(e, label, flat.shape)
    every = e.reshape(out, (out.size,))
    e.line(f"take({every}, {index}, out={loss}, mode='clip')", [every, index], [loss])
    e.call("log", loss, out=loss)
    e.call("negative", loss, out=loss)


@lowering("softmax_with_cross_entropy_grad")
def _(e: Emitter) -> None:
    softmax, label, d = e.need("Softmax"), e.need("Label"), e.need("Loss@GRAD")
    if e.attr("soft_label") or label.dtype != np.int64 or e.attr("ignore_index") >= 0:
        raise CannotLower("soft labels")
    y = _rows(e, softmax, e.attr("axis"))
    assert y.shape is not None
    rows = y.shape[0]
    out = e.out("Logits@GRAD", softmax.shape, softmax.dtype)
    dx = e.reshape(out, y.shape)
    index = _picked(e, label, y.shape)
    flat = e.reshape(out, (out.size,))
    if d.uniform is not None:
        e.call("multiply", y, e.constant(np.array(d.uniform, y.dtype)), out=dx)
        e.line(f"{flat}[{index}] -= {e.constant(np.array(d.uniform, y.dtype))}", [index, flat], [flat])
        return
    column, row = e.reshape(d, (rows, 1)), e.reshape(d, (rows,))
    e.call("multiply", y, column, out=dx)
    e.line(f"{flat}[{index}] -= {row}", [index, row, flat], [flat])


@lowering("mean")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype != np.float32 or not x.size:
        raise CannotLower("dtype")
    out = e.out("Out", (1,), x.dtype)
    total = e.reshape(out, ())
    flat = e.reshape(x, (x.size,))
    # a dot with ones adds in one float32 accumulator per lane: pairwise summation where many elements would lose digits
    if x.size <= 1 << 12:
        e.call("dot", flat, ones(e, x.size, x.dtype), out=total)
    else:
        e.line(f"add.reduce({flat}, out={total})", [flat], [total])
    e.call("multiply", total, e.constant(np.array(1.0 / x.size, x.dtype)), out=total)


@lowering("mean_grad")
def _(e: Emitter) -> None:
    x, d = e.need("X"), e.need("Out@GRAD")
    out = e.out("X@GRAD", x.shape, x.dtype)
    if d.uniform is not None:
        e.elementwise("a", out, a=d.uniform / x.size)
    else:
        e.elementwise("d * a", out, d=e.reshape(d, ()), a=1.0 / x.size)
