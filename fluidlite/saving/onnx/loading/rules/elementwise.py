"""ONNX ops of elements: functions, arithmetic, comparisons, limits, choices, other data types."""

from __future__ import annotations

import functools

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads

__all__ = ["alike", "expanded_alike", "rounded"]

# ONNX ops that mean what ops of fluid mean which are called so, too
_SAME = (
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
)


@reads(*_SAME)
def _same(op: NodeView) -> None:
    x = op.x()
    made = op.one(op.kind.lower(), x)
    op.put(made)


def _is(kind: str, type: str, *operands: str, **names: str) -> None:
    """Let an ONNX op be an op with these operands; `names` are attributes of the op and what ONNX calls them.

    Ops of two operands broadcast both as ONNX does.
    """

    @reads(kind)
    def rule(op: NodeView) -> None:
        inputs = dict(zip(operands, op.all(), strict=True))
        attrs = {name: op.attr(theirs) for name, theirs in names.items()}
        made = op.emit(type, inputs, attrs)
        op.put(made)


_is("IsNaN", "isnan_v2", "X")
_is("Not", "logical_not", "X")
_is("BitwiseNot", "bitwise_not", "X")
_is("Celu", "celu", "X", alpha="alpha")
_is("Elu", "elu", "X", alpha="alpha")
_is("HardSigmoid", "hard_sigmoid", "X", slope="alpha", offset="beta")
_is("LeakyRelu", "leaky_relu", "X", alpha="alpha")
_is("Selu", "selu", "X", scale="gamma", alpha="alpha")
_is("ThresholdedRelu", "thresholded_relu", "X", threshold="alpha")
_is("Add", "elementwise_add", "X", "Y")
_is("Div", "elementwise_div", "X", "Y")
_is("Mul", "elementwise_mul", "X", "Y")
_is("Sub", "elementwise_sub", "X", "Y")
_is("And", "logical_and", "X", "Y")
_is("Or", "logical_or", "X", "Y")
_is("Xor", "logical_xor", "X", "Y")
_is("BitwiseAnd", "bitwise_and", "X", "Y")
_is("BitwiseOr", "bitwise_or", "X", "Y")
_is("BitwiseXor", "bitwise_xor", "X", "Y")
_is("Equal", "equal", "X", "Y")
_is("Greater", "greater_than", "X", "Y")
_is("GreaterOrEqual", "greater_equal", "X", "Y")
_is("Less", "less_than", "X", "Y")
_is("LessOrEqual", "less_equal", "X", "Y")


# ----------------------------------------------------------------------- functions put together
@reads("Identity")
def _identity(op: NodeView) -> None:
    value = op.value()
    op.put(value)


@reads("Dropout")
def _dropout(op: NodeView) -> None:
    """The identity: inference drops no element."""
    op.only(0)
    op.idle("seed")
    for place in (1, 2):
        if op.has(place) and place == 2 and op.array(2).any():
            raise op.error("it drops in training")
    value = op.value()
    op.put(value)


@reads("Neg")
def _neg(op: NodeView) -> None:
    x = op.x()
    scaled = op.one("scale", x, scale=-1.0)
    op.put(scaled)


@reads("Softplus")
def _softplus(op: NodeView) -> None:
    # beyond its threshold the op is the identity, which ONNX has nowhere
    x = op.x()
    soft = op.one("softplus", x, threshold=1e30)
    op.put(soft)


def rounded(op: NodeView, x: Variable) -> Variable:
    """The nearest whole number, of halves the even one: twice the rounded half of x. The op takes them away
    from zero.
    """
    below = op.one("floor", x)
    fraction = op.two("elementwise_sub", x, below)
    dtype = op.dtype()
    constant = op.fixed(0.5, dtype)
    is_half = op.two("equal", fraction, constant)
    scaled = op.one("scale", x, scale=0.5)
    nearest = op.one("round", scaled)
    even = op.one("scale", nearest, scale=2.0)
    made = op.one("round", x)
    return _chosen(op, is_half, even, made)


@reads("Round")
def _round(op: NodeView) -> None:
    x = op.x()
    made = rounded(op, x)
    op.put(made)


@reads("IsInf")
def _is_inf(op: NodeView) -> None:
    x = op.x()
    dtype = op.dtype()
    limit = op.fixed(np.inf, dtype)
    if op.attr("detect_negative") and op.attr("detect_positive"):
        made = op.one("isinf_v2", x)
        op.put(made)
    elif op.attr("detect_positive"):
        found = op.two("equal", x, limit)
        op.put(found)
    else:
        result = op.two("equal", op.one("scale", x, scale=-1.0), limit)
        op.put(result)


@reads("PRelu")
def _prelu(op: NodeView) -> None:
    x = op.x()
    dtype = op.dtype()
    zero = op.fixed(0, dtype)
    least = op.two("elementwise_min", x, zero)
    second = op.x(1)
    negative = op.two("elementwise_mul", least, second)
    positive = op.one("relu", x)
    total = op.two("elementwise_add", positive, negative)
    op.put(total)


@reads("HardSwish")
def _hard_swish(op: NodeView) -> None:
    x = op.x()
    made = op.one("hard_swish", x, threshold=6.0, scale=6.0, offset=3.0)
    op.put(made)


@reads("Mish")
def _mish(op: NodeView) -> None:
    x = op.x()
    soft = op.one("softplus", x, threshold=1e30)
    wave = op.one("tanh", soft)
    product = op.two("elementwise_mul", x, wave)
    op.put(product)


@reads("Gelu")
def _gelu(op: NodeView) -> None:
    x = op.x()
    made = op.one("gelu", x, approximate=op.attr("approximate") == "tanh")
    op.put(made)


@reads("Swish")
def _swish(op: NodeView) -> None:
    alpha = op.attr("alpha")
    x = op.x()
    made = op.one("swish", x, beta=alpha)
    op.put(made)


# ----------------------------------------------------------------------- arithmetic
@reads("Pow")
def _pow(op: NodeView) -> None:
    second = op.x(1)
    dtype = op.dtype()
    y = op.cast(second, dtype)
    x = op.x()
    made = op.two("elementwise_pow", x, y)
    op.put(made)


@reads("Mod")
def _mod(op: NodeView) -> None:
    """The remainder has the sign of the divisor, or with `fmod` that of the dividend."""
    second = op.x(1)
    x = op.x(0)
    y = second
    if not op.attr("fmod"):
        made = op.two("elementwise_mod", x, y)
        op.put(made)
        return
    size = op.one("abs", x)
    magnitude = op.one("abs", y)
    rest = op.two("elementwise_mod", size, magnitude)
    sign = op.one("sign", x)
    product = op.two("elementwise_mul", sign, rest)
    op.put(product)


def _together(op: NodeView, type: str) -> Variable:
    """An op of two operands over all inputs."""
    inputs = op.all()
    return functools.reduce(functools.partial(op.two, type), inputs)


@reads("Max", "Min", "Sum")
def _together_all(op: NodeView) -> None:
    types = {"Max": "elementwise_max", "Min": "elementwise_min", "Sum": "elementwise_add"}
    made = _together(op, types[op.kind])
    # of one input, that input
    op.put(made)


@reads("Mean")
def _mean(op: NodeView) -> None:
    total = _together(op, "elementwise_add")
    scaled = op.one("scale", total, scale=1.0 / len(op.node.input))
    op.put(scaled)


@reads("Clip")
def _clip(op: NodeView) -> None:
    x = op.x()
    bounds = [op.value(place).array if op.has(place) else None for place in (1, 2)]
    if op.dtype() == np.float32 and all(bound is not None for bound in bounds):
        least, most = (float(bound.reshape(-1)[0]) for bound in bounds if bound is not None)
        if least <= most:
            made = op.one("clip", x, min=least, max=most)
            op.put(made)
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
    made = _chosen(op, *op.all())
    op.put(made)


@reads("Cast")
def _cast(op: NodeView) -> None:
    op.idle("saturate", "round_mode")
    x = op.x()
    cast = op.cast(x, op.graph.file.dtype(op.attr("to"), "its result"))
    op.put(cast)


@reads("CastLike")
def _cast_like(op: NodeView) -> None:
    op.idle("saturate", "round_mode")
    x = op.x()
    dtype = op.dtype(1)
    cast = op.cast(x, dtype)
    op.put(cast)
