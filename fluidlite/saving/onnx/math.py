"""ONNX for ops of arithmetic: functions of elements, products, reductions, comparisons, searches."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

_SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "asin": "Asin",
    "atan": "Atan",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "logical_not": "Not",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "assign": "Identity",
    "lod_reset": "Identity",
    "share_data": "Identity",
}


@exports(*_SAME)
def _same(op: OpView) -> None:
    op.put(op.add(_SAME[op.type], op.x()))


# ------------------------------------------------------------------------------------------------ activations
@exports("square")
def _square(op: OpView) -> None:
    op.put(op.add("Mul", op.x(), op.x()))


@exports("rsqrt")
def _rsqrt(op: OpView) -> None:
    op.put(op.add("Reciprocal", op.add("Sqrt", op.x())))


@exports("round")
def _round(op: OpView) -> None:
    # halves go away from zero; ONNX's Round sends them to even numbers
    half = op.add("Add", op.add("Abs", op.x()), op.number(0.5))
    op.put(op.add("Mul", op.add("Sign", op.x()), op.add("Floor", half)))


@exports("logsigmoid")
def _logsigmoid(op: OpView) -> None:
    op.put(op.add("Neg", op.add("Softplus", op.add("Neg", op.x()))))


@exports("relu6")
def _relu6(op: OpView) -> None:
    op.put(op.add("Clip", op.x(), op.number(0.0), op.number(op.attr("threshold", 6.0))))


@exports("brelu")
def _brelu(op: OpView) -> None:
    op.put(op.add("Clip", op.x(), op.number(op.attr("t_min", 0.0)), op.number(op.attr("t_max", 24.0))))


@exports("clip")
def _clip(op: OpView) -> None:
    if op.has("Min") or op.has("Max"):
        low = op.add("Squeeze", op.x("Min")) if op.has("Min") else op.number(op.attr("min"))
        high = op.add("Squeeze", op.x("Max")) if op.has("Max") else op.number(op.attr("max"))
    else:
        low, high = op.number(op.attr("min")), op.number(op.attr("max"))
    op.put(op.add("Clip", op.x(), low, high))


@exports("leaky_relu")
def _leaky_relu(op: OpView) -> None:
    op.put(op.add("LeakyRelu", op.x(), alpha=float(op.attr("alpha", 0.02))))


@exports("elu")
def _elu(op: OpView) -> None:
    op.put(op.add("Elu", op.x(), alpha=float(op.attr("alpha", 1.0))))


@exports("selu")
def _selu(op: OpView) -> None:
    scale, alpha = op.attr("scale", 1.0507009873554805), op.attr("alpha", 1.6732632423543772)
    op.put(op.add("Selu", op.x(), gamma=float(scale), alpha=float(alpha)))


@exports("hard_sigmoid")
def _hard_sigmoid(op: OpView) -> None:
    slope, offset = op.attr("slope", 0.2), op.attr("offset", 0.5)
    op.put(op.add("HardSigmoid", op.x(), alpha=float(slope), beta=float(offset)))


@exports("hard_swish")
def _hard_swish(op: OpView) -> None:
    moved = op.add("Add", op.x(), op.number(op.attr("offset", 3.0)))
    inside = op.add("Clip", moved, op.number(0.0), op.number(op.attr("threshold", 6.0)))
    op.put(op.add("Div", op.add("Mul", op.x(), inside), op.number(op.attr("scale", 6.0))))


@exports("swish", "silu")
def _swish(op: OpView) -> None:
    beta = op.attr("beta", 1.0)
    inside = op.x() if beta == 1.0 else op.add("Mul", op.x(), op.number(beta))
    op.put(op.add("Mul", op.x(), op.add("Sigmoid", inside)))


@exports("stanh")
def _stanh(op: OpView) -> None:
    inside = op.add("Tanh", op.add("Mul", op.x(), op.number(op.attr("scale_a", 0.67))))
    op.put(op.add("Mul", inside, op.number(op.attr("scale_b", 1.7159))))


@exports("gelu")
def _gelu(op: OpView) -> None:
    x = op.x()
    if op.attr("approximate", False):
        cube = op.add("Mul", op.add("Mul", x, x), x)
        inner = op.add("Add", x, op.add("Mul", cube, op.number(0.044715)))
        wave = op.add("Tanh", op.add("Mul", inner, op.number(math.sqrt(2 / math.pi))))
    else:
        wave = op.add("Erf", op.add("Mul", x, op.number(math.sqrt(0.5))))
    half = op.add("Mul", x, op.number(0.5))
    op.put(op.add("Mul", half, op.add("Add", wave, op.number(1.0))))


@exports("prelu")
def _prelu(op: OpView) -> None:
    alpha = op.x("Alpha")
    if op.attr("mode", "all") == "channel":
        alpha = op.add("Reshape", alpha, op.ints(-1, *[1] * (op.rank() - 2)))
    op.put(op.add("PRelu", op.x(), alpha))


@exports("pow")
def _pow(op: OpView) -> None:
    if op.has("FactorTensor"):
        raise op.error("its factor is a tensor")
    op.put(op.add("Pow", op.x(), op.number(op.attr("factor", 1.0))))


@exports("scale")
def _scale(op: OpView) -> None:
    factor = op.x("ScaleTensor") if op.has("ScaleTensor") else op.number(op.attr("scale", 1.0))
    bias = op.attr("bias", 0.0)
    x = op.x()
    if bias and not op.attr("bias_after_scale", True):
        x = op.add("Add", x, op.number(bias))
    x = op.add("Mul", x, factor)
    if bias and op.attr("bias_after_scale", True):
        x = op.add("Add", x, op.number(bias))
    op.put(x)


@exports("softmax", "log_softmax")
def _softmax(op: OpView) -> None:
    kind = "Softmax" if op.type == "softmax" else "LogSoftmax"
    op.put(op.add(kind, op.x(), axis=int(op.attr("axis", -1))))


# ----------------------------------------------------------------------- two operands
_PAIRS = {
    "elementwise_add": "Add",
    "elementwise_sub": "Sub",
    "elementwise_mul": "Mul",
    "elementwise_div": "Div",
    "elementwise_max": "Max",
    "elementwise_min": "Min",
    "elementwise_pow": "Pow",
    "equal": "Equal",
    "less_than": "Less",
    "less_equal": "LessOrEqual",
    "greater_than": "Greater",
    "greater_equal": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}


def _aligned(op: OpView) -> str:
    """The second operand, with dimensions of 1 behind where it does not end with the first one's."""
    axis = op.attr("axis", -1)
    shape = op.shape("Y")
    behind = 0 if axis == -1 else op.rank("X") - int(axis) - len(shape)
    if behind > 0:
        return str(op.add("Unsqueeze", op.x("Y"), op.ints(*range(len(shape), len(shape) + behind))))
    if behind < 0:
        # ones at the end that the first operand has no dimensions for
        ones = op.ints(*range(len(shape) + behind, len(shape)))
        return str(op.add("Squeeze", op.x("Y"), ones))
    return op.x("Y")


@exports(*_PAIRS)
def _pair(op: OpView) -> None:
    op.put(op.add(_PAIRS[op.type], op.x("X"), _aligned(op)))


@exports("not_equal")
def _not_equal(op: OpView) -> None:
    op.put(op.add("Not", op.add("Equal", op.x("X"), _aligned(op))))


@exports("elementwise_mod", "elementwise_floordiv")
def _mod(op: OpView) -> None:
    x, y = op.x("X"), _aligned(op)
    whole = op.dtype("X").kind == "i"
    # whole numbers are divided towards zero in ONNX
    left = op.add("Mod", x, y, fmod=0) if whole else None
    if left is None:
        quotient = op.add("Floor", op.add("Div", x, y))
        left = op.add("Sub", x, op.add("Mul", quotient, y))
    elif op.type != "elementwise_mod":
        quotient = op.add("Div", op.add("Sub", x, left), y)
    op.put(left if op.type == "elementwise_mod" else quotient)


@exports("sum")
def _sum(op: OpView) -> None:
    op.put(op.add("Sum", *op.all()))


@exports("where")
def _where(op: OpView) -> None:
    op.put(op.add("Where", op.x("Condition"), op.x("X"), op.x("Y")))


# ------------------------------------------------------------------------------------------------ products
@exports("mul")
def _mul(op: OpView) -> None:
    kept, rows = int(op.attr("x_num_col_dims", 1)), int(op.attr("y_num_col_dims", 1))
    y_shape = op.shape("Y")
    depth = math.prod(y_shape[:rows])
    x, y = op.x("X"), op.x("Y")
    if kept != op.rank("X") - 1:
        # 0 keeps a dimension
        x = op.add("Reshape", x, op.ints(*[0] * kept, depth))
    if len(y_shape) > 2:
        y = op.add("Reshape", y, op.ints(depth, -1))
    made = op.add("MatMul", x, y)
    if len(y_shape) - rows > 1:
        made = op.add("Reshape", made, op.ints(*[0] * kept, *y_shape[rows:]))
    op.put(made)


@exports("matmul", "matmul_v2")
def _matmul(op: OpView) -> None:
    turned = []
    for slot, names in (("X", ("transpose_X", "trans_x")), ("Y", ("transpose_Y", "trans_y"))):
        value, rank = op.x(slot), op.rank(slot)
        if rank > 1 and any(op.attr(name, False) for name in names):
            value = op.add("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
        turned.append(value)
    made = op.add("MatMul", *turned)
    alpha = op.attr("alpha", 1.0)
    if alpha != 1.0:
        made = op.add("Mul", made, op.number(alpha))
    if op.rank("X") == op.rank("Y") == 1:
        made = op.add("Reshape", made, op.ints(*op.shape("Out")))
    op.put(made)


# ------------------------------------------------------------------------------------------------ reductions
_REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
}


@exports(*_REDUCTIONS, "mean")
def _reduce(op: OpView) -> None:
    dims = op.attr("dim", [0])
    every = op.type == "mean" or op.attr("reduce_all", False) or len(dims) in (0, op.rank())
    axes = list(range(op.rank())) if every else op.axes(dims)
    kind = _REDUCTIONS.get(op.type, "ReduceMean")
    keep = int(bool(op.attr("keep_dim", False)))
    if kind == "ReduceSum":
        made = op.add(kind, op.x(), op.ints(*axes), keepdims=keep)
    else:
        made = op.add(kind, op.x(), axes=axes, keepdims=keep)
    # single numbers have the shape [1] in fluid
    op.put(op.add("Reshape", made, op.ints(1)) if every and not keep and op.shape("Out") == (1,) else made)


@exports("reduce_all", "reduce_any")
def _reduce_bools(op: OpView) -> None:
    whole = op.add("Cast", op.x(), to=op.graph.dtype(np.int32))
    axes = list(range(op.rank())) if op.attr("reduce_all", False) else op.axes(op.attr("dim", [0]))
    kind = "ReduceMin" if op.type == "reduce_all" else "ReduceMax"
    made = op.add(kind, whole, axes=axes, keepdims=int(bool(op.attr("keep_dim", False))))
    made = op.add("Reshape", made, op.ints(1)) if op.shape("Out") == (1,) else made
    op.put(op.add("Cast", made, to=op.graph.dtype(np.bool_)))


@exports("norm")
def _norm(op: OpView) -> None:
    axes = op.axes(int(op.attr("axis", -1)))
    squares = op.add("ReduceSum", op.add("Mul", op.x(), op.x()), op.ints(*axes), keepdims=1)
    length = op.add("Sqrt", op.add("Add", squares, op.number(op.attr("epsilon", 1e-10))))
    op.put(length, "Norm")
    op.put(op.add("Div", op.x(), length))


@exports("cumsum")
def _cumsum(op: OpView) -> None:
    axis = op.graph.constant(op.attr("axis", -1), np.int64)
    flags = {name: int(bool(op.attr(name, False))) for name in ("exclusive", "reverse")}
    x = op.add("Reshape", op.x(), op.ints(-1)) if op.attr("flatten", False) else op.x()
    op.put(op.add("CumSum", x, axis, **flags))


# ------------------------------------------------------------------------------------------------ searches
@exports("top_k", "top_k_v2")
def _top_k(op: OpView) -> None:
    count = op.add("Reshape", op.x("K"), op.ints(1)) if op.has("K") else op.ints(int(op.attr("k", 1)))
    count = op.add("Cast", count, to=op.graph.dtype(np.int64)) if op.has("K") else count
    largest = int(bool(op.attr("largest", True)))
    values, indices = op.add(
        "TopK", op.x(), count, outputs=2, axis=int(op.attr("axis", -1)), largest=largest, sorted=1
    )
    op.put(values)
    op.put(indices, "Indices")


@exports("arg_max", "arg_min")
def _arg(op: OpView) -> None:
    kind = "ArgMax" if op.type == "arg_max" else "ArgMin"
    x, axis = op.x(), int(op.attr("axis", -1))
    if op.attr("flatten", False):
        x, axis = op.add("Reshape", x, op.ints(-1)), 0
    made = op.add(kind, x, axis=axis, keepdims=int(bool(op.attr("keepdims", False))))
    wanted = np.dtype(to_numpy(op.var("Out").dtype))
    op.put(made if wanted == np.int64 else op.add("Cast", made, to=op.graph.dtype(wanted)))
