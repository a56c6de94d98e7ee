"""ONNX for reductions, norms of vectors, running sums and ops that order elements."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

_REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "reduce_amax": "ReduceMax",
    "reduce_amin": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
    "frobenius_norm": "ReduceL2",
    "reduce_all": "ReduceMin",
    "reduce_any": "ReduceMax",
}


@exports(*_REDUCTIONS)
def _reduce(op: OpView) -> None:
    op.idle("in_dtype", "out_dtype", "of_2x")
    of_log = op.type == "logsumexp"
    dims = op.attr("axis" if of_log else "dim")
    dims = [dims] if isinstance(dims, int) else dims
    rank = op.rank()
    every = op.attr("reduce_all") or not dims or not rank
    axes = list(range(rank)) if every else sorted(set(op.axes(dims)))
    keep = bool(op.attr("keepdim" if of_log else "keep_dim"))
    x, wanted = op.x(), op.dtype("Out")
    is_truth = op.type in ("reduce_all", "reduce_any")
    if is_truth:
        x = op.cast(x if op.dtype().kind == "b" else op.cast(x, np.bool_), np.int32)
    elif wanted != op.dtype():
        x = op.cast(x, wanted)
    if op.type == "reduce_mean" and wanted.kind in "iu":
        raise op.error("the mean of integers is truncated")
    made = op.graph.reduce(_REDUCTIONS[op.type], x, axes, keep)
    # single numbers have the shape [1] in fluid
    made = op.add("Reshape", made, op.ints(1)) if len(axes) == rank and not keep else made
    op.put(op.cast(made, np.bool_) if is_truth else made)


@exports("mean", "squared_l2_norm", "l1_norm")
def _of_all(op: OpView) -> None:
    kind = {"mean": "ReduceMean", "squared_l2_norm": "ReduceSumSquare", "l1_norm": "ReduceL1"}[op.type]
    made = op.graph.reduce(kind, op.x(), list(range(op.rank())))
    op.put(op.add("Reshape", made, op.ints(1)))


@exports("norm")
def _norm(op: OpView) -> None:
    op.idle("is_test")
    axes = op.axes(int(op.attr("axis")))
    squares = op.graph.reduce("ReduceSum", op.add("Mul", op.x(), op.x()), axes, keep=True)
    length = op.add("Sqrt", op.add("Add", squares, op.number(op.attr("epsilon"))))
    op.put(length, "Norm")
    op.put(op.add("Div", op.x(), length))


@exports("p_norm")
def _p_norm(op: OpView) -> None:
    # epsilon is the gradient's
    op.idle("epsilon")
    x, order, keep = op.x(), float(op.attr("porder")), bool(op.attr("keepdim"))
    rank = op.rank()
    if op.attr("asvector"):
        op.idle("axis")
        axes = list(range(rank))
    else:
        axes = op.axes(int(op.attr("axis")))
    if order == 1:
        made = op.graph.reduce("ReduceL1", x, axes, keep)
    elif order == 2:
        made = op.graph.reduce("ReduceL2", x, axes, keep)
    elif 0 < order < float("inf"):
        powers = op.add("Pow", op.add("Abs", x), op.number(order))
        made = op.add("Pow", op.graph.reduce("ReduceSum", powers, axes, keep), op.number(1 / order))
    else:
        raise op.error(f"porder is {order}")
    is_single = op.attr("asvector") and not keep
    op.put(op.add("Reshape", made, op.ints(1)) if is_single else made)


@exports("clip_by_norm")
def _clip_by_norm(op: OpView) -> None:
    norm, limit = op.graph.reduce("ReduceL2", op.x(), list(range(op.rank()))), op.number(op.attr("max_norm"))
    factor = op.add("Div", limit, op.add("Max", norm, op.number(1e-30)))
    is_within = op.add("LessOrEqual", norm, limit)
    op.put(op.add("Where", is_within, op.x(), op.add("Mul", op.x(), factor)))


@exports("cumsum")
def _cumsum(op: OpView) -> None:
    flags = {name: int(bool(op.attr(name))) for name in ("exclusive", "reverse")}
    x, axis = op.x(), int(op.attr("axis"))
    if op.attr("flatten"):
        x, axis = op.add("Reshape", x, op.ints(-1)), 0
    op.put(op.add("CumSum", x, op.whole(axis), **flags))


# ----------------------------------------------------------------------- order
@exports("top_k", "top_k_v2")
def _top_k(op: OpView) -> None:
    if op.has("K"):
        op.idle("k")
        count = op.cast(op.add("Reshape", op.x("K"), op.ints(1)), np.int64)
    else:
        count = op.ints(int(op.attr("k")))
    axis, largest = (op.attr("axis"), op.attr("largest")) if op.type == "top_k_v2" else (-1, True)
    axis = op.axes(int(axis))[0]
    values, indices = op.add(
        "TopK", op.x(), count, outputs=2, axis=axis, largest=int(bool(largest)), sorted=1
    )
    op.put(values)
    op.put(indices, "Indices")


@exports("argsort")
def _argsort(op: OpView) -> None:
    axis = op.axes(int(op.attr("axis")))[0]
    count = op.dims(op.x(), axis, axis + 1)
    values, indices = op.add(
        "TopK", op.x(), count, outputs=2, axis=axis, largest=int(bool(op.attr("descending"))), sorted=1
    )
    op.put(values)
    op.put(indices, "Indices")


@exports("arg_max", "arg_min")
def _arg(op: OpView) -> None:
    kind = "ArgMax" if op.type == "arg_max" else "ArgMin"
    x, axis, keep = op.x(), op.attr("axis"), int(bool(op.attr("keepdims")))
    rank, dtype = op.rank(), op.attr("dtype")
    if op.attr("flatten"):
        op.idle("axis")
        x, axis = op.add("Reshape", x, op.ints(-1)), 0
    elif not rank:
        raise op.error("X is a single number without dimensions")
    made = op.add(kind, x, axis=int(axis), keepdims=keep)
    if op.attr("flatten"):
        made = op.add("Reshape", made, op.ints(*[1] * (rank if keep else 1)))
    op.put(made if dtype < 0 else op.cast(made, to_numpy(VarType(dtype))))


@exports("tril_triu")
def _triangle(op: OpView) -> None:
    op.needs_opset(14)
    shift = op.whole(int(op.attr("diagonal")))
    op.put(op.add("Trilu", op.x(), shift, upper=int(not op.attr("lower"))))


@exports("is_empty")
def _is_empty(op: OpView) -> None:
    op.put(op.add("Equal", op.add("Reshape", op.add("Size", op.x()), op.ints(1)), op.ints(0)))
