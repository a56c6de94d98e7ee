"""ONNX ops of elements: functions, arithmetic, comparisons, limits, choices, other data types."""

from __future__ import annotations

import functools

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads

__all__ = ["alike", "expanded_alike", "rounded"]

# ONNX op -> op of one operand, which means the same
_FUNCTIONS = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "BitwiseNot": "bitwise_not",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan_v2",
    "Log": "log",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
# ONNX op -> op of two operands, which broadcasts both as ONNX does
_OF_TWO = {
    "Add": "elementwise_add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Div": "elementwise_div",
    "Equal": "equal",
    "Greater": "greater_than",
    "GreaterOrEqual": "greater_equal",
    "Less": "less_than",
    "LessOrEqual": "less_equal",
    "Mul": "elementwise_mul",
    "Or": "logical_or",
    "Sub": "elementwise_sub",
    "Xor": "logical_xor",
}
# ONNX op -> op of one operand, and the attributes that it has under other names
_WITH_ATTRIBUTES = {
    "Celu": ("celu", {"alpha": "alpha"}),
    "Elu": ("elu", {"alpha": "alpha"}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": "slope", "beta": "offset"}),
    "LeakyRelu": ("leaky_relu", {"alpha": "alpha"}),
    "Selu": ("selu", {"gamma": "scale", "alpha": "alpha"}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": "threshold"}),
}


@reads(*_FUNCTIONS)
def _function(op: NodeView) -> None:
    op.put(op.one(_FUNCTIONS[op.kind], op.x()))


@reads(*_OF_TWO)
def _of_two(op: NodeView) -> None:
    made = op.two(_OF_TWO[op.kind], op.x(0), op.x(1))
    op.put(made)


@reads(*_WITH_ATTRIBUTES)
def _with_attributes(op: NodeView) -> None:
    type, names = _WITH_ATTRIBUTES[op.kind]
    attrs = {ours: op.attr(theirs) for theirs, ours in names.items()}
    op.put(op.one(type, op.x(), **attrs))


# ----------------------------------------------------------------------- functions put together
@reads("Identity")
def _identity(op: NodeView) -> None:
    op.put(op.value())


@reads("Dropout")
def _dropout(op: NodeView) -> None:
    """Nothing is dropped in inference."""
    op.only(0)
    op.idle("seed")
    for place in (1, 2):
        if op.has(place) and place == 2 and op.array(2).any():
            raise op.error("it drops in training")
    op.put(op.value())


@reads("Neg")
def _neg(op: NodeView) -> None:
    op.put(op.one("scale", op.x(), scale=-1.0))


@reads("Softplus")
def _softplus(op: NodeView) -> None:
    # beyond its threshold the op is the identity, which ONNX has nowhere
    op.put(op.one("softplus", op.x(), threshold=1e30))


def rounded(op: NodeView, x: Variable) -> Variable:
    """The nearest whole number, of halves the even one: twice the rounded half of x. The op takes them away
    from zero.
    """
    fraction = op.two("elementwise_sub", x, op.one("floor", x))
    is_half = op.two("equal", fraction, op.fixed(0.5, op.dtype()))
    even = op.one("scale", op.one("round", op.one("scale", x, scale=0.5)), scale=2.0)
    return _chosen(op, is_half, even, op.one("round", x))


@reads("Round")
def _round(op: NodeView) -> None:
    op.put(rounded(op, op.x()))


@reads("IsInf")
def _is_inf(op: NodeView) -> None:
    x = op.x()
    limit = op.fixed(np.inf, op.dtype())
    if op.attr("detect_negative") and op.attr("detect_positive"):
        op.put(op.one("isinf_v2", x))
    elif op.attr("detect_positive"):
        op.put(op.two("equal", x, limit))
    else:
        op.put(op.two("equal", op.one("scale", x, scale=-1.0), limit))


@reads("PRelu")
def _prelu(op: NodeView) -> None:
    x = op.x()
    zero = op.fixed(0, op.dtype())
    negative = op.two("elementwise_mul", op.two("elementwise_min", x, zero), op.x(1))
    op.put(op.two("elementwise_add", op.one("relu", x), negative))


@reads("HardSwish")
def _hard_swish(op: NodeView) -> None:
    op.put(op.one("hard_swish", op.x(), threshold=6.0, scale=6.0, offset=3.0))


@reads("Mish")
def _mish(op: NodeView) -> None:
    x = op.x()
    op.put(op.two("elementwise_mul", x, op.one("tanh", op.one("softplus", x, threshold=1e30))))


@reads("Gelu")
def _gelu(op: NodeView) -> None:
    op.put(op.one("gelu", op.x(), approximate=op.attr("approximate") == "tanh"))


@reads("Swish")
def _swish(op: NodeView) -> None:
    op.put(op.one("swish", op.x(), beta=op.attr("alpha")))


# ----------------------------------------------------------------------- arithmetic
@reads("Pow")
def _pow(op: NodeView) -> None:
    y = op.cast(op.x(1), op.dtype())
    op.put(op.two("elementwise_pow", op.x(), y))


@reads("Mod")
def _mod(op: NodeView) -> None:
    """The remainder has the sign of the divisor, or with `fmod` that of the dividend."""
    x, y = op.x(0), op.x(1)
    if not op.attr("fmod"):
        op.put(op.two("elementwise_mod", x, y))
        return
    rest = op.two("elementwise_mod", op.one("abs", x), op.one("abs", y))
    op.put(op.two("elementwise_mul", op.one("sign", x), rest))


def _together(op: NodeView, type: str) -> Variable:
    """An op of two operands over all inputs."""
    return functools.reduce(functools.partial(op.two, type), op.all())


@reads("Max", "Min", "Sum")
def _together_all(op: NodeView) -> None:
    types = {"Max": "elementwise_max", "Min": "elementwise_min", "Sum": "elementwise_add"}
    made = _together(op, types[op.kind])
    # of one input, that input
    op.put(made)


@reads("Mean")
def _mean(op: NodeView) -> None:
    total = _together(op, "elementwise_add")
    op.put(op.one("scale", total, scale=1.0 / len(op.node.input)))


@reads("Clip")
def _clip(op: NodeView) -> None:
    x = op.x()
    bounds = [op.value(place).array if op.has(place) else None for place in (1, 2)]
    if op.dtype() == np.float32 and all(bound is not None for bound in bounds):
        least, most = (float(bound.reshape(-1)[0]) for bound in bounds if bound is not None)
        if least <= most:
            op.put(op.one("clip", x, min=least, max=most))
            return
    for place, type in ((1, "elementwise_max"), (2, "elementwise_min")):
        x = op.two(type, x, op.x(place)) if op.has(place) else x
    op.put(x)


# ----------------------------------------------------------------------- choices and data types
def alike(op: NodeView, *variables: Variable) -> bool:
    """True if variables have one shape, all of it known."""
    shapes = {tuple(var.shape) for var in variables}
    return len(shapes) == 1 and min(shapes.pop(), default=0) >= 0


def expanded_alike(op: NodeView, *variables: Variable) -> list[Variable]:
    """Variables of the shape that all of them have together."""
    if alike(op, *variables):
        return list(variables)
    zeros = [op.one("fill_any_like", op.cast(var, np.int32), value=0.0) for var in variables]
    whole = functools.reduce(functools.partial(op.two, "elementwise_add"), zeros)
    if not whole.shape:
        return list(variables)
    return [var if alike(op, var, whole) else op.two("expand_as_v2", var, whole) for var in variables]


def _chosen(op: NodeView, condition: Variable, yes: Variable, no: Variable) -> Variable:
    condition, yes, no = expanded_alike(op, condition, yes, no)
    return op.emit("where", {"Condition": condition, "X": yes, "Y": no})


@reads("Where")
def _where(op: NodeView) -> None:
    op.put(_chosen(op, *op.all()))


@reads("Cast")
def _cast(op: NodeView) -> None:
    op.idle("saturate", "round_mode")
    op.put(op.cast(op.x(), op.graph.file.dtype(op.attr("to"), "its result")))


@reads("CastLike")
def _cast_like(op: NodeView) -> None:
    op.idle("saturate", "round_mode")
    op.put(op.cast(op.x(), op.dtype(1)))
