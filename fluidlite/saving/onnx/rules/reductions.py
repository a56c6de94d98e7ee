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
    value = op.attr("keepdim" if of_log else "keep_dim")
    keep = bool(value)
    x = op.x()
    wanted = op.dtype("Out")
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
    rank = op.rank()
    made = op.graph.reduce(kind, op.x(), list(range(rank)))
    numbers = op.ints(1)
    reshaped = op.add("Reshape", made, numbers)
    op.put(reshaped)


@exports("norm")
def _norm(op: OpView) -> None:
    op.idle("is_test")
    value = op.attr("axis")
    axes = op.axes(int(value))
    product = op.add("Mul", op.x(), op.x())
    squares = op.graph.reduce("ReduceSum", product, axes, keep=True)
    value_2 = op.attr("epsilon")
    number = op.number(value_2)
    total = op.add("Add", squares, number)
    length = op.add("Sqrt", total)
    op.put(length, "Norm")
    quotient = op.add("Div", op.x(), length)
    op.put(quotient)


@exports("p_norm")
def _p_norm(op: OpView) -> None:
    # epsilon is the gradient's
    op.idle("epsilon")
    x = op.x()
    value_2 = op.attr("porder")
    order = float(value_2)
    value_3 = op.attr("keepdim")
    keep = bool(value_3)
    rank = op.rank()
    if op.attr("asvector"):
        op.idle("axis")
        axes = list(range(rank))
    else:
        value = op.attr("axis")
        axes = op.axes(int(value))
    if order == 1:
        made = op.graph.reduce("ReduceL1", x, axes, keep)
    elif order == 2:
        made = op.graph.reduce("ReduceL2", x, axes, keep)
    elif 0 < order < float("inf"):
        size = op.add("Abs", x)
        number = op.number(order)
        powers = op.add("Pow", size, number)
        reduced = op.graph.reduce("ReduceSum", powers, axes, keep)
        number_2 = op.number(1 / order)
        made = op.add("Pow", reduced, number_2)
    else:
        raise op.error(f"porder is {order}")
    is_single = op.attr("asvector") and not keep
    op.put(op.add("Reshape", made, op.ints(1)) if is_single else made)


@exports("clip_by_norm")
def _clip_by_norm(op: OpView) -> None:
    rank = op.rank()
    norm = op.graph.reduce("ReduceL2", op.x(), list(range(rank)))
    value = op.attr("max_norm")
    limit = op.number(value)
    number = op.number(1e-30)
    larger = op.add("Max", norm, number)
    factor = op.add("Div", limit, larger)
    is_within = op.add("LessOrEqual", norm, limit)
    product_2 = op.add("Mul", op.x(), factor)
    chosen = op.add("Where", is_within, op.x(), product_2)
    op.put(chosen)


@exports("cumsum")
def _cumsum(op: OpView) -> None:
    flags = {name: int(bool(op.attr(name))) for name in ("exclusive", "reverse")}
    x = op.x()
    value = op.attr("axis")
    axis = int(value)
    if op.attr("flatten"):
        numbers = op.ints(-1)
        x = op.add("Reshape", x, numbers)
        axis = 0
    number = op.whole(axis)
    rank_2 = op.add("CumSum", x, number, **flags)
    op.put(rank_2)


# ----------------------------------------------------------------------- order
@exports("top_k", "top_k_v2")
def _top_k(op: OpView) -> None:
    if op.has("K"):
        op.idle("k")
        numbers = op.ints(1)
        reshaped_2 = op.add("Reshape", op.x("K"), numbers)
        count = op.cast(reshaped_2, np.int64)
    else:
        value = op.attr("k")
        count = op.ints(int(value))
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
    value = op.attr("descending")
    values, indices = op.add("TopK", op.x(), count, outputs=2, axis=axis, largest=int(bool(value)), sorted=1)
    op.put(values)
    op.put(indices, "Indices")


@exports("arg_max", "arg_min")
def _arg(op: OpView) -> None:
    kind = "ArgMax" if op.type == "arg_max" else "ArgMin"
    x = op.x()
    axis = op.attr("axis")
    value = op.attr("keepdims")
    keep = int(bool(value))
    rank = op.rank()
    dtype = op.attr("dtype")
    if op.attr("flatten"):
        op.idle("axis")
        numbers = op.ints(-1)
        x = op.add("Reshape", x, numbers)
        axis = 0
    elif not rank:
        raise op.error("X is a single number without dimensions")
    made = op.add(kind, x, axis=int(axis), keepdims=keep)
    if op.attr("flatten"):
        numbers_2 = op.ints(*[1] * (rank if keep else 1))
        made = op.add("Reshape", made, numbers_2)
    op.put(made if dtype < 0 else op.cast(made, to_numpy(VarType(dtype))))


@exports("tril_triu")
def _triangle(op: OpView) -> None:
    op.needs_opset(14)
    value = op.attr("diagonal")
    shift = op.whole(int(value))
    made = op.add("Trilu", op.x(), shift, upper=int(not op.attr("lower")))
    op.put(made)


@exports("is_empty")
def _is_empty(op: OpView) -> None:
    count_2 = op.add("Size", op.x())
    numbers = op.ints(1)
    reshaped = op.add("Reshape", count_2, numbers)
    numbers_2 = op.ints(0)
    is_equal = op.add("Equal", reshaped, numbers_2)
    op.put(is_equal)
