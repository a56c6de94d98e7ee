"""ONNX for reductions, norms of vectors, running sums and ops that order elements."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports


def _reduces(kind: str, *types: str) -> None:
    """Declare the node of ONNX that ops of these types are."""

    @exports(*types)
    def _(op: OpView) -> None:
        _reduce(op, kind)


def _reduce(op: OpView, kind: str) -> None:
    op.idle("in_dtype", "out_dtype", "of_2x")
    of_log = op.type == "logsumexp"
    dims = op.attr("axis" if of_log else "dim")
    dims = [dims] if isinstance(dims, int) else dims
    rank = op.rank()
    every = op.attr("reduce_all") or not dims or not rank
    axes = list(range(rank)) if every else sorted(set(op.axes(dims)))
    keep = bool(op.attr("keepdim" if of_log else "keep_dim"))
    x = op.x()
    wanted = op.dtype("Out")
    is_truth = wanted.kind == "b"
    if is_truth:
        x = op.cast(x if op.dtype().kind == "b" else op.cast(x, np.bool_), np.int32)
    elif wanted != op.dtype():
        x = op.cast(x, wanted)
    if op.type == "reduce_mean" and wanted.kind in "iu":
        raise op.error("the mean of integers is truncated")
    made = op.graph.reduce(kind, x, axes, keep)
    # single numbers have the shape [1] in fluid
    made = op.add("Reshape", made, op.ints(1)) if len(axes) == rank and not keep else made
    op.put(op.cast(made, np.bool_) if is_truth else made)


_reduces("ReduceSum", "reduce_sum")
_reduces("ReduceMean", "reduce_mean")
_reduces("ReduceMax", "reduce_max", "reduce_amax", "reduce_any")
_reduces("ReduceMin", "reduce_min", "reduce_amin", "reduce_all")
_reduces("ReduceProd", "reduce_prod")
_reduces("ReduceLogSumExp", "logsumexp")
_reduces("ReduceL2", "frobenius_norm")


@exports("mean", "squared_l2_norm", "l1_norm")
def _of_all(op: OpView) -> None:
    kind = {"mean": "ReduceMean", "squared_l2_norm": "ReduceSumSquare", "l1_norm": "ReduceL1"}[op.type]
    rank = op.rank()
    made = op.graph.reduce(kind, op.x(), list(range(rank)))
    reshaped = op.add("Reshape", made, op.ints(1))
    op.put(reshaped)


@exports("norm")
def _norm(op: OpView) -> None:
    op.idle("is_test")
    axes = op.axes(int(op.attr("axis")))
    product = op.add("Mul", op.x(), op.x())
    squares = op.graph.reduce("ReduceSum", product, axes, keep=True)
    total = op.add("Add", squares, op.number(op.attr("epsilon")))
    length = op.add("Sqrt", total)
    op.put(length, "Norm")
    quotient = op.add("Div", op.x(), length)
    op.put(quotient)


@exports("p_norm")
def _p_norm(op: OpView) -> None:
    # epsilon is the gradient's
    op.idle("epsilon")
    x = op.x()
    order = float(op.attr("porder"))
    keep = bool(op.attr("keepdim"))
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
        size = op.add("Abs", x)
        powers = op.add("Pow", size, op.number(order))
        reduced = op.graph.reduce("ReduceSum", powers, axes, keep)
        made = op.add("Pow", reduced, op.number(1 / order))
    else:
        raise op.error(f"porder is {order}")
    is_single = op.attr("asvector") and not keep
    op.put(op.add("Reshape", made, op.ints(1)) if is_single else made)


@exports("clip_by_norm")
def _clip_by_norm(op: OpView) -> None:
    rank = op.rank()
    norm = op.graph.reduce("ReduceL2", op.x(), list(range(rank)))
    limit = op.number(op.attr("max_norm"))
    larger = op.add("Max", norm, op.number(1e-30))
    factor = op.add("Div", limit, larger)
    is_within = op.add("LessOrEqual", norm, limit)
    mul = op.add("Mul", op.x(), factor)
    chosen = op.add("Where", is_within, op.x(), mul)
    op.put(chosen)


@exports("cumsum")
def _cumsum(op: OpView) -> None:
    flags = {name: int(bool(op.attr(name))) for name in ("exclusive", "reverse")}
    x, axis, is_flat = op.x(), int(op.attr("axis")), bool(op.attr("flatten"))
    if is_flat or not op.rank():
        x, axis = op.add("Reshape", x, op.ints(-1)), 0
    made = op.add("CumSum", x, op.whole(axis), **flags)
    op.put(made if is_flat or op.rank() else op.add("Reshape", made, op.ints()))


# ----------------------------------------------------------------------- order
@exports("top_k", "top_k_v2")
def _top_k(op: OpView) -> None:
    if op.has("K"):
        op.idle("k")
        reshape = op.add("Reshape", op.x("K"), op.ints(1))
        count = op.cast(reshape, np.int64)
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
    descending = op.attr("descending")
    values, indices = op.add(
        "TopK", op.x(), count, outputs=2, axis=axis, largest=int(bool(descending)), sorted=1
    )
    op.put(values)
    op.put(indices, "Indices")


@exports("arg_max", "arg_min")
def _arg(op: OpView) -> None:
    kind = "ArgMax" if op.type == "arg_max" else "ArgMin"
    x = op.x()
    axis = op.attr("axis")
    keep = int(bool(op.attr("keepdims")))
    rank = op.rank()
    dtype = op.attr("dtype")
    if op.attr("flatten"):
        op.idle("axis")
        x = op.add("Reshape", x, op.ints(-1))
        axis = 0
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
    made = op.add("Trilu", op.x(), shift, upper=int(not op.attr("lower")))
    op.put(made)


@exports("is_empty")
def _is_empty(op: OpView) -> None:
    size = op.add("Size", op.x())
    reshaped = op.add("Reshape", size, op.ints(1))
    is_equal = op.add("Equal", reshaped, op.ints(0))
    op.put(is_equal)
