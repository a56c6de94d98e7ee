"""ONNX ops that reduce, sort and add up along dimensions, and matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads

# ----------------------------------------------------------------------- reductions
_TYPES = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
}


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


@reads(*_TYPES)
def _reduce(op: NodeView) -> None:
    made = _reduced(op, _TYPES[op.kind], op.x(), _axes(op), bool(op.attr("keepdims")))
    op.put(made)


_BEFORE: dict[str, Callable[[NodeView, Variable], Variable]] = {
    "ReduceL1": lambda op, x: op.one("abs", x),
    "ReduceL2": lambda op, x: op.two("elementwise_mul", x, x),
    "ReduceSumSquare": lambda op, x: op.two("elementwise_mul", x, x),
    "ReduceLogSum": lambda op, x: x,
}
_BEHIND = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}


@reads(*_BEFORE)
def _reduce_of(op: NodeView) -> None:
    total = _reduced(op, "reduce_sum", _BEFORE[op.kind](op, op.x()), _axes(op), bool(op.attr("keepdims")))
    op.put(op.one(_BEHIND[op.kind], total) if op.kind in _BEHIND else total)


@reads("ReduceLogSumExp")
def _log_sum_exp(op: NodeView) -> None:
    axes = _axes(op)
    whole = len(axes) == op.rank()
    keep = bool(op.attr("keepdims"))
    attrs = {"axis": axes, "keepdim": keep, "reduce_all": whole}
    op.put(op.emit("logsumexp", {"X": op.x()}, attrs, scalar=whole and not keep))


# ----------------------------------------------------------------------- order
@reads("ArgMax", "ArgMin")
def _arg(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    type = "arg_max" if op.kind == "ArgMax" else "arg_min"
    keep = bool(op.attr("keepdims"))
    scalar = op.rank() == 1 and not keep
    op.put(op.emit(type, {"X": op.x()}, {"axis": axis, "keepdims": keep}, scalar=scalar))


@reads("Hardmax")
def _hardmax(op: NodeView) -> None:
    """1 at the first largest element, else 0."""
    axis = op.axis(op.attr("axis"))
    size = op.shape()[axis]
    if size < 0:
        raise op.error(f"axis {axis} of {list(op.shape())}, whose size is not known")
    best = op.emit("arg_max", {"X": op.x()}, {"axis": axis, "keepdims": True})
    places = np.arange(size).reshape([size, *[1] * (op.rank() - 1 - axis)])
    op.put(op.cast(op.two("equal", best, op.fixed(places, np.int64)), op.dtype()))


@reads("LpNormalization")
def _lp_norm(op: NodeView) -> None:
    axis = [op.axis(op.attr("axis"))]
    x = op.x()
    size = op.one("abs", x) if op.attr("p") == 1 else op.two("elementwise_mul", x, x)
    norm = op.one("reduce_sum", size, dim=axis, keep_dim=True)
    norm = norm if op.attr("p") == 1 else op.one("sqrt", norm)
    # of zeros they are zeros
    is_zero = op.cast(op.two("equal", norm, op.fixed(0, op.dtype())), op.dtype())
    op.put(op.two("elementwise_div", x, op.two("elementwise_add", norm, is_zero)))


@reads("TopK")
def _top(op: NodeView) -> None:
    op.idle("sorted")
    attrs = {"axis": op.axis(op.attr("axis")), "largest": bool(op.attr("largest")), "sorted": True}
    inputs = {"X": op.x()}
    known = op.value(1).array
    if known is not None:
        attrs["k"] = int(known.reshape(-1)[0])
    else:
        inputs["K"] = op.x(1)
    op.put_all(op.emit_all("top_k_v2", inputs, attrs, {"Out": 1, "Indices": 1}))


@reads("CumSum")
def _cumsum(op: NodeView) -> None:
    axis = op.axis(int(op.array(1).reshape(-1)[0]))
    flags = {name: bool(op.attr(name)) for name in ("exclusive", "reverse")}
    op.put(op.one("cumsum", op.x(), axis=axis, **flags))


@reads("Softmax", "LogSoftmax")
def _softmax(op: NodeView) -> None:
    axis = op.axis(op.attr("axis"))
    op.put(op.one("softmax" if op.kind == "Softmax" else "log_softmax", op.x(), axis=axis))


# ----------------------------------------------------------------------- products
def _product(
    op: NodeView, x: Variable, y: Variable, trans_x: bool = False, trans_y: bool = False
) -> Variable:
    attrs = {"trans_x": trans_x, "trans_y": trans_y}
    scalar = len(x.shape) == len(y.shape) == 1
    return op.emit("matmul_v2", {"X": x, "Y": y}, attrs, scalar=scalar)


@reads("MatMul")
def _matmul(op: NodeView) -> None:
    op.put(_product(op, op.x(0), op.x(1)))


@reads("Gemm")
def _gemm(op: NodeView) -> None:
    made = _product(op, op.x(0), op.x(1), bool(op.attr("transA")), bool(op.attr("transB")))
    alpha, beta = op.attr("alpha"), op.attr("beta")
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
    op.put(op.emit("einsum", {"Operands": op.all()}, {"equation": equation}, scalar=scalar))


@reads("Det")
def _det(op: NodeView) -> None:
    op.put(op.emit("determinant", {"Input": op.x()}, scalar=op.rank() == 2))
