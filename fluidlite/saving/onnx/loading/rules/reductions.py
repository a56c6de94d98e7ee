"""ONNX ops that reduce, sort and add up along dimensions, and matrix products."""

from __future__ import annotations

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads

# ----------------------------------------------------------------------- reductions


def _axes(op: NodeView) -> list[int]:
    """The dimensions that go, of an attribute or an input; all where nothing says so."""
    given = op.ints(1) if op.has(1) else op.attr("axes")
    if not given and not op.attr("noop_with_empty_axes"):
        return list(range(op.rank()))
    return [op.axis(axis) for axis in given or []]


def _reduced(op: NodeView, type: str, x: Variable, axes: list[int], keep: bool) -> Variable:
    if not axes:
        return x
    whole = len(axes) == len(x.shape)
    attrs = {"dim": axes, "keep_dim": keep, "reduce_all": whole}
    return op.emit(type, {"X": x}, attrs, scalar=whole and not keep)


@reads("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def _reduce(op: NodeView) -> None:
    name = op.kind.removeprefix("Reduce").lower()
    axes = _axes(op)
    keepdims = op.attr("keepdims")
    keep = bool(keepdims)
    x = op.x()
    made = _reduced(op, f"reduce_{name}", x, axes, keep)
    op.put(made)


@reads("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
def _reduce_of(op: NodeView) -> None:
    x = op.x()
    if op.kind == "ReduceL1":
        x = op.one("abs", x)
    elif op.kind != "ReduceLogSum":
        x = op.two("elementwise_mul", x, x)
    keepdims = op.attr("keepdims")
    keep = bool(keepdims)
    made = _axes(op)
    total = _reduced(op, "reduce_sum", x, made, keep)
    if op.kind == "ReduceL2":
        total = op.one("sqrt", total)
    elif op.kind == "ReduceLogSum":
        total = op.one("log", total)
    op.put(total)


@reads("ReduceLogSumExp")
def _log_sum_exp(op: NodeView) -> None:
    axes = _axes(op)
    whole = len(axes) == op.rank()
    keepdims = op.attr("keepdims")
    keep = bool(keepdims)
    attrs = {"axis": axes, "keepdim": keep, "reduce_all": whole}
    x = op.x()
    made = op.emit("logsumexp", {"X": x}, attrs, scalar=whole and not keep)
    op.put(made)


# ----------------------------------------------------------------------- order
@reads("ArgMax", "ArgMin")
def _arg(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    type = "arg_max" if op.kind == "ArgMax" else "arg_min"
    keepdims = op.attr("keepdims")
    keep = bool(keepdims)
    scalar = op.rank() == 1 and not keep
    x = op.x()
    made = op.emit(type, {"X": x}, {"axis": axis, "keepdims": keep}, scalar=scalar)
    op.put(made)


@reads("Hardmax")
def _hardmax(op: NodeView) -> None:
    """1 at the first largest element, else 0."""
    axis = op.axis(op.attr("axis"))
    size = op.shape()[axis]
    if size < 0:
        raise op.error(f"axis {axis} of {list(op.shape())}, whose size is not known")
    x = op.x()
    best = op.emit("arg_max", {"X": x}, {"axis": axis, "keepdims": True})
    places = np.arange(size).reshape([size, *[1] * (op.rank() - 1 - axis)])
    constant = op.fixed(places, np.int64)
    is_equal = op.two("equal", best, constant)
    dtype = op.dtype()
    cast = op.cast(is_equal, dtype)
    op.put(cast)


@reads("LpNormalization")
def _lp_norm(op: NodeView) -> None:
    axis = [op.axis(op.attr("axis"))]
    x = op.x()
    size = op.one("abs", x) if op.attr("p") == 1 else op.two("elementwise_mul", x, x)
    norm = op.one("reduce_sum", size, dim=axis, keep_dim=True)
    norm = norm if op.attr("p") == 1 else op.one("sqrt", norm)
    # of zeros they are zeros
    dtype = op.dtype()
    constant = op.fixed(0, dtype)
    is_equal = op.two("equal", norm, constant)
    is_zero = op.cast(is_equal, op.dtype())
    total = op.two("elementwise_add", norm, is_zero)
    quotient = op.two("elementwise_div", x, total)
    op.put(quotient)


@reads("TopK")
def _top(op: NodeView) -> None:
    op.idle("sorted")
    axis = op.axis(op.attr("axis"))
    largest = bool(op.attr("largest"))
    attrs = {"axis": axis, "largest": largest, "sorted": True}
    x = op.x()
    inputs = {"X": x}
    known = op.value(1).array
    if known is not None:
        attrs["k"] = int(known.reshape(-1)[0])
    else:
        inputs["K"] = op.x(1)
    made = op.emit_all("top_k_v2", inputs, attrs, {"Out": 1, "Indices": 1})
    op.put_all(made)


@reads("CumSum")
def _cumsum(op: NodeView) -> None:
    number = int(op.array(1).reshape(-1)[0])
    axis = op.axis(number)
    flags = {name: bool(op.attr(name)) for name in ("exclusive", "reverse")}
    x = op.x()
    counts = op.one("cumsum", x, axis=axis, **flags)
    op.put(counts)


@reads("Softmax", "LogSoftmax")
def _softmax(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    x = op.x()
    made = op.one("softmax" if op.kind == "Softmax" else "log_softmax", x, axis=axis)
    op.put(made)


# ----------------------------------------------------------------------- products
def _product(
    op: NodeView, x: Variable, y: Variable, trans_x: bool = False, trans_y: bool = False
) -> Variable:
    attrs = {"trans_x": trans_x, "trans_y": trans_y}
    scalar = len(x.shape) == len(y.shape) == 1
    return op.emit("matmul_v2", {"X": x, "Y": y}, attrs, scalar=scalar)


@reads("MatMul")
def _matmul(op: NodeView) -> None:
    x = op.x(0)
    second = op.x(1)
    made = _product(op, x, second)
    op.put(made)


@reads("Gemm")
def _gemm(op: NodeView) -> None:
    x = op.x(0)
    second = op.x(1)
    transA = bool(op.attr("transA"))
    transB = bool(op.attr("transB"))
    made = _product(op, x, second, transA, transB)
    alpha = op.attr("alpha")
    beta = op.attr("beta")
    made = op.one("scale", made, scale=alpha) if alpha != 1 else made
    if op.has(2):
        bias = op.x(2)
        bias = op.one("scale", bias, scale=beta) if beta != 1 else bias
        made = op.two("elementwise_add", made, bias)
    op.put(made)


@reads("Einsum")
def _einsum(op: NodeView) -> None:
    equation = op.attr("equation").replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    # without an arrow the letters that come once are what is left
    left = (
        result if arrow else [letter for letter in inputs if letter.isalpha() and inputs.count(letter) == 1]
    )
    scalar = not left and "..." not in equation
    made = op.emit("einsum", {"Operands": op.all()}, {"equation": equation}, scalar=scalar)
    op.put(made)


@reads("Det")
def _det(op: NodeView) -> None:
    x = op.x()
    made = op.emit("determinant", {"Input": x}, scalar=op.rank() == 2)
    op.put(made)
