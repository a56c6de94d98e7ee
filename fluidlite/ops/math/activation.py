"""Activations and other functions of one element.

Formulas are those of PaddlePaddle 1.8.5, with its choice of side at every kink; a gradient reads Out where
Paddle's does.
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base.dtypes import REAL_PARTS, Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import LIBRARIES, ONEDNN
from fluidlite.base.registry import OF_2X_ATTR, GradContext, Op, Spec, get, later, same_as
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.scalar import erf, is_one_number, unary
from fluidlite.ops.math.second_derivatives import Slopes, declare_second


def _both_incoming(DDX: Spec) -> tuple[Spec, Spec]:
    return DDX, DDX


def _second_by_input(op: Op) -> Op:
    """The second derivative of an op whose gradient is written with X."""
    emits_once_more(
        get(op.grad_type),
        reads={"X": "X", "DOut": "Out@GRAD"},
        incoming={"DDX": "X@GRAD"},
        writes={"DX": "X", "DDOut": "Out@GRAD"},
    )
    second = Op(op.type + "_grad_grad", "X DOut DDX -> DX? DDOut?", attrs=op.attr_defs).derive()
    second.shape(_both_incoming)
    return second


def _second_by_output(op: Op) -> Op:
    """The second derivative of a piecewise linear op, whose Out identifies the piece: X gets no gradient."""
    emits_once_more(
        get(op.grad_type), reads={"Out": "Out"}, incoming={"DDX": "X@GRAD"}, writes={"DDOut": "Out@GRAD"}
    )
    second = Op(op.type + "_grad_grad", "Out DDX -> DDOut?", attrs=op.attr_defs).derive()
    second.shape(same_as("DDX"))
    return second


# ---------------------------------------------------------------------- functions
unary("exp", "exp(x)", grad="dout * out", whole=True, kept=LIBRARIES, amp="black")
unary("expm1", "expm1(x)", grad="dout * out + dout", whole=True, amp_fp16="black")
unary("log", "log(x)", grad="dout / x", kept=LIBRARIES, amp="black")
unary("log1p", "log1p(x)", grad="dout / (1 + x)", kept=LIBRARIES)
unary(
    "log2",
    "log(x) * 1.4426950408889634",
    grad="dout / (x * 0.6931471805599453)",
    whole=True,
    amp_fp16="black",
)
unary(
    "log10",
    "log(x) * 0.4342944819032518",
    grad="dout / (x * 2.302585092994046)",
    whole=True,
    amp_fp16="black",
)
unary("sqrt", "sqrt(x)", grad="dout * 0.5 / out", kept=LIBRARIES)
unary("rsqrt", "1 / sqrt(x)", grad="dout * -0.5 * out * out * out", kept=LIBRARIES, amp_fp16="black")
square = unary("square", "x * x", grad="dout * 2 * x", whole=True, captured=True, kept=LIBRARIES, amp="black")
unary("reciprocal", "1 / x", grad="-dout * out * out", kept=LIBRARIES, amp_fp16="black")
absolute = unary("abs", "abs(x)", grad="dout * sign(x)", whole=True, kept=LIBRARIES)
absolute.lod_of_2x = None
get("abs_grad").lod_of_2x = "X"
unary("ceil", "ceil(x)", grad="dout * 0.0", kept=LIBRARIES)
unary("floor", "floor(x)", grad="dout * 0.0", kept=LIBRARIES)
# halves go away from zero, as in C; 1.8.5 on a CPU rounds them to even in whole vectors of 8 and away in the
# rest
unary(
    "round",
    "where(x < 0, ceil(x - 0.5), floor(x + 0.5))",
    grad="dout * 0.0",
    kept=LIBRARIES,
    version=1,
    newer={"decimals": 0},
)
unary("cos", "cos(x)", grad="-dout * sin(x)", kept=LIBRARIES)
unary("sin", "sin(x)", grad="dout * cos(x)", kept=LIBRARIES)
unary("tan", "tan(x)", grad="dout / (cos(x) * cos(x))", whole=True, amp_fp16="black")
unary("acos", "acos(x)", grad="-dout / sqrt(1 - x * x)", amp_fp16="black")
unary("asin", "asin(x)", grad="dout / sqrt(1 - x * x)", amp_fp16="black")
unary("atan", "atan(x)", grad="dout / (1 + x * x)")
unary("sinh", "sinh(x)", grad="dout * cosh(x)", whole=True, amp_fp16="black")
unary("cosh", "cosh(x)", grad="dout * sinh(x)", whole=True, amp_fp16="black")
unary("erf", "erf(x)", grad="dout * 1.1283791670955126 * exp(-x * x)")

emits_once_more(
    get("sqrt_grad"),
    reads={"Out": "Out", "DX": "X@GRAD"},
    incoming={"DDX": "X@GRAD"},
    writes={"DOut": "Out", "DDOut": "Out@GRAD"},
)
sqrt_grad_grad = Op("sqrt_grad_grad", "Out DX DDX -> DOut? DDOut?").derive()
sqrt_grad_grad.shape(_both_incoming)


@sqrt_grad_grad.kernel
def _(Out: Array, DX: Array, DDX: Array) -> tuple[Array, Array]:
    return -DX * DDX / Out, 0.5 * DDX / Out


square_grad_grad = _second_by_input(square)


@square_grad_grad.kernel
def _(X: Array, DOut: Array, DDX: Array) -> tuple[Array, Array]:
    return 2 * DOut * DDX, 2 * X * DDX


@square_grad_grad.grad("X DOut DDX")
def _(X: Array, DOut: Array, DDX: Array, dDX: Any, dDDOut: Any) -> tuple[Array, Array, Array]:
    dDX, dDDOut = (0 if coming is None else coming for coming in (dDX, dDDOut))
    return 2 * dDDOut * DDX, 2 * dDX * DDX, 2 * (dDDOut * X + dDX * DOut)


sign = unary("sign", "sign(x)", amp="gray")


@sign.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("scale", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")}, {"scale": 0.0})


real = Op("real", "X -> Out", lod=None)
imag = Op("imag", "X -> Out", lod=None)


@real.shape
@imag.shape
def _(X: Spec) -> Spec:
    if X.dtype not in REAL_PARTS:
        raise ShapeError(f"ops 'real' and 'imag' take complex numbers, but X has the dtype {X.dtype}")
    return Spec(X.shape, REAL_PARTS[X.dtype])


@real.kernel
def _(X: Array) -> Array:
    return X.real.copy()


@imag.kernel
def _(X: Array) -> Array:
    return X.imag.copy()


def _of_part(X: Spec) -> Spec:
    return X


@real.grad("X", shape=_of_part, of_complex=True)
def _(X: Array, dOut: Array) -> Array:
    return dOut.astype(X.dtype)


@imag.grad("X", shape=_of_part, of_complex=True)
def _(X: Array, dOut: Array) -> Array:
    return dOut.astype(X.dtype) * X.dtype.type(1j)


@absolute.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, REAL_PARTS.get(X.dtype, X.dtype), kind=X.kind)


absolute_grad = get("abs_grad")
absolute_grad.of_complex = True
absolute_grad.shape(_of_part)


conj = Op("conj", "X -> Out")
conj.shape(same_as("X"))


@conj.kernel
def _(xp: Any, X: Array) -> Array:
    return xp.conj(X)


@conj.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("conj", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


power = Op("pow", "X FactorTensor? -> Out", attrs={"factor": 1.0}, amp_fp16="black")
power.shape(same_as("X"))


def _factor(FactorTensor: Array | None, factor: float, dtype: Any) -> Any:
    """The exponent in the dtype of X: whole, where X is."""
    if FactorTensor is not None:
        return FactorTensor.reshape(()).astype(dtype)
    return int(factor) if dtype.kind in "iu" else factor


@power.kernel
def _(X: Array, FactorTensor: Array | None, factor: float) -> Any:
    if X.dtype.kind in "iu":  # by way of float64, as std::pow
        return (X.astype("float64") ** _factor(FactorTensor, factor, X.dtype)).astype(X.dtype)
    if is_one_number(X):
        return (X.astype("float64") ** _factor(FactorTensor, factor, X.dtype)).astype(X.dtype)
    return X ** _factor(FactorTensor, factor, X.dtype)


@power.grad("X")
def _(xp: Any, X: Array, FactorTensor: Array | None, dOut: Array, factor: float) -> Any:
    exponent = _factor(FactorTensor, factor, X.dtype)
    if FactorTensor is None and exponent == 0:
        return dOut * 0  # also where X is 0
    if FactorTensor is not None:  # 0, of which nobody knows yet, is no reason to divide
        X = xp.where(exponent == 0, X.dtype.type(1), X)
    if X.dtype.kind in "iu":
        return dOut * exponent * (X.astype("float64") ** (exponent - 1)).astype(X.dtype)
    return dOut * exponent * X ** (exponent - 1)


# ---------------------------------------------------------------------- smooth activations
unary(
    "sigmoid",
    "sigmoid(x)",
    grad="dout * out * (1 - out)",
    captured=True,
    kept=LIBRARIES,
    amp="gray",
    follows=True,
)
unary("logsigmoid", "-(maximum(-x, 0) + log1p(exp(-abs(x))))", grad="dout / (1 + exp(x))", kept=LIBRARIES)
unary(
    "tanh", "tanh(x)", grad="dout * (1 - out * out)", captured=True, kept=LIBRARIES, amp="gray", follows=True
)
unary("tanh_shrink", "x - tanh(x)", grad="dout * tanh(x) * tanh(x)", kept=LIBRARIES, amp_fp16="black")
unary(
    "stanh",
    "scale_b * tanh(scale_a * x)",
    grad="dout * scale_a * scale_b * (1 - tanh(scale_a * x) * tanh(scale_a * x))",
    attrs={"scale_a": 0.67, "scale_b": 1.7159},
)
unary(
    "softplus",
    "where(beta * x > threshold, x, (maximum(beta * x, 0) + log1p(exp(-abs(beta * x)))) / beta)",
    grad="dout * where(beta * x > threshold, 1.0, sigmoid(beta * x))",
    attrs={"beta": later(1.0), "threshold": later(20.0)},
    kept=LIBRARIES,
    version=1,
    amp_fp16="black",
)
unary("softsign", "x / (1 + abs(x))", grad="dout / ((1 + abs(x)) * (1 + abs(x)))", kept=LIBRARIES)
unary(
    "soft_relu",
    "log(1 + exp(minimum(maximum(x, -threshold), threshold)))",
    # 1.8.5 compares `out` with the thresholds, which are those of x; a little inside of what it is there, as
    # it is rounded
    grad="dout * (1 - exp(-out)) * ((out > 1.00001 * log(1 + exp(-threshold)))"
    " & (out < 0.99999 * (threshold + log(1 + exp(-threshold)))))",
    attrs={"threshold": 40.0},
    amp="gray",
)
unary(
    "selu",
    "scale * where(x > 0, x, alpha * exp(x) - alpha)",
    grad="dout * where(out > 0, scale, out + alpha * scale)",
    attrs={"scale": 1.0507009873554805, "alpha": 1.6732632423543772},
)
unary(
    "swish",
    "x * sigmoid(beta * x)",
    grad="dout * sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))",
    attrs={"beta": 1.0},
    kept=ONEDNN,
    follows=True,
)
unary("silu", "x * sigmoid(x)", grad="dout * sigmoid(x) * (1 + x * (1 - sigmoid(x)))", whole=True)

elu = unary(
    "elu",
    "where(x > 0, x, alpha * (exp(x) - 1))",
    grad="dout * where(x > 0, 1.0, alpha * exp(x))",
    attrs={"alpha": 1.0},
)


@_second_by_input(elu).kernel
def _(xp: Any, X: Array, DOut: Array, DDX: Array, alpha: float) -> tuple[Array, Array]:
    curve = alpha * xp.exp(xp.minimum(X, 0))
    return xp.where(X > 0, 0, DOut * DDX * curve).astype(X.dtype), xp.where(X > 0, DDX, DDX * curve)


gelu = Op("gelu", "X. -> Out", attrs={"approximate": False}, kept=LIBRARIES, follows=True)
gelu.shape(same_as("X"))
_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


@gelu.kernel
def _(xp: Any, X: Array, approximate: bool) -> Any:
    if approximate:
        return 0.5 * X * (1 + xp.tanh(_ROOT * (X + _CUBIC * X * X * X)))
    return 0.5 * X * (1 + erf(xp, X * math.sqrt(0.5)))


@gelu.grad("X")
def _(xp: Any, X: Array, dOut: Array, approximate: bool) -> Any:
    if approximate:
        bend = xp.tanh(_ROOT * (X + _CUBIC * X * X * X))
        return dOut * 0.5 * (1 + bend + X * (1 - bend * bend) * _ROOT * (1 + 3 * _CUBIC * X * X))
    below = 0.5 * (1 + erf(xp, X * math.sqrt(0.5)))
    density = xp.exp(-0.5 * X * X) * (0.5 * _ROOT)
    return dOut * (below + X * density)


unary(
    "celu",
    "maximum(x, 0) + minimum(alpha * (exp(x / alpha) - 1), 0)",
    grad="dout * where(x > 0, 1.0, exp(x / alpha))",
    attrs={"alpha": 1.0},
)

mish = Op("mish", "X. -> Out", attrs={"threshold": 20.0}, version=1)
mish.shape(same_as("X"))


def _softplus(xp: Any, x: Array, threshold: float) -> Any:
    """log(1 + exp(x)), by its asymptotes beyond +-threshold."""
    inner = xp.clip(x, -threshold, threshold)
    return xp.where(x > threshold, x, xp.where(x < -threshold, xp.exp(x), xp.log1p(xp.exp(inner))))


@mish.kernel
def _(xp: Any, X: Array, threshold: float) -> Any:
    return X * xp.tanh(_softplus(xp, X, threshold))


@mish.grad("X")
def _(xp: Any, X: Array, dOut: Array, threshold: float) -> Any:
    soft = _softplus(xp, X, threshold)
    bend = xp.tanh(soft)
    one = X.dtype.type(1)
    slope = xp.where(X > threshold, one, xp.where(X < -threshold, soft, -xp.expm1(-soft)))
    return dOut * (bend + X * (1 - bend * bend) * slope)


# ---------------------------------------------------------------------- second derivatives of 2.x
declare_second(
    "tanh",
    "tanh_grad_grad",
    "Out",
    "grad_out",
    Slopes(lambda xp, y: 1 - y * y, lambda xp, y: -2 * y, lambda xp, y: -2),
)
declare_second(
    "sigmoid",
    "sigmoid_grad_grad",
    "Out",
    "fwd_grad_out",
    Slopes(lambda xp, y: y * (1 - y), lambda xp, y: 1 - 2 * y, lambda xp, y: -2),
)
declare_second(
    "sin",
    "sin_double_grad",
    "X",
    "grad_out",
    Slopes(lambda xp, x: xp.cos(x), lambda xp, x: -xp.sin(x), lambda xp, x: -xp.cos(x)),
)
declare_second(
    "cos",
    "cos_double_grad",
    "X",
    "grad_out",
    Slopes(lambda xp, x: -xp.sin(x), lambda xp, x: -xp.cos(x), lambda xp, x: xp.sin(x)),
)
declare_second(
    "log",
    "log_grad_grad",
    "X",
    "grad_out",
    Slopes(lambda xp, x: 1 / x, lambda xp, x: -1 / (x * x), lambda xp, x: 2 / (x * x * x)),
)


# ---------------------------------------------------------------------- activations with kinks
# of -0 it is -0, as in 1.8.5; so it is one instruction, too
relu = unary(
    "relu", "maximum(0, x)", grad="dout * (out > 0)", captured=True, kept=LIBRARIES, amp="gray", follows=True
)


@_second_by_output(relu).kernel
def _(Out: Array, DDX: Array) -> Array:
    return DDX * (Out > 0)


# fluid takes the larger of both sides and tells them apart by Out, 2.x takes the one that X says.
# They part where alpha is above 1, and in gradients where it is negative or X is 0
leaky_relu = unary(
    "leaky_relu",
    # with an alpha of 0 it is relu, of infinities too
    "where(alpha == 0, maximum(0, x), where(of_2x, where(x > 0, x, alpha * x), maximum(x, alpha * x)))",
    attrs={"alpha": 0.02, OF_2X_ATTR: later(False)},
    kept=ONEDNN,
    version=1,
    amp="gray",
    follows=True,
)


@leaky_relu.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "leaky_relu_grad",
        {
            **({"X": context.input("X")} if _needs_x(context) else {"Out": context.output("Out")}),
            "Out@GRAD": context.out_grad("Out"),
        },
        {"X@GRAD": context.in_grad("X")},
    )


def _needs_x(context: GradContext) -> bool:
    """True where the result does not tell on which side of 0 x was: with a slope below 0 it is positive on
    both.
    """
    attrs = context.op.attrs
    return bool(attrs.get(OF_2X_ATTR)) or attrs.get("alpha", 0.02) < 0


def _leaky_slopes(alpha: float) -> tuple[float, float]:
    """The slopes of max(x, alpha * x) above 0 and below."""
    return (alpha, 1.0) if alpha > 1 else (1.0, alpha)


@leaky_relu.grad("X", later=("X",))
def leaky_relu_grad(
    xp: Any, X: Array | None, Out: Array | None, dOut: Array, alpha: float, of_2x: bool
) -> Any:
    side: Any = Out if X is None else X
    if of_2x:
        return xp.where(side < 0, alpha * dOut, dOut)
    above, below = _leaky_slopes(alpha)
    # at 0 itself the gradient of 2.x is 1, that of fluid alpha
    return xp.where(side > 0, above * dOut, below * dOut)


emits_once_more(
    leaky_relu_grad, reads={"X": "X", "Out": "Out"}, incoming={"DDX": "X@GRAD"}, writes={"DDOut": "Out@GRAD"}
)
leaky_relu_grad_grad = Op(
    "leaky_relu_grad_grad", "X? Out? DDX -> DDOut?", attrs=leaky_relu.attr_defs, later=("X",)
).derive()
leaky_relu_grad_grad.shape(same_as("DDX"))


@leaky_relu_grad_grad.kernel
def _(xp: Any, X: Array | None, Out: Array | None, DDX: Array, alpha: float, of_2x: bool) -> Array:
    side: Any = Out if X is None else X
    above, below = (1.0, alpha) if of_2x else _leaky_slopes(alpha)
    slope: Array = xp.where(side > 0, DDX * above, DDX * below)
    return slope


unary(
    "relu6",
    "minimum(maximum(x, 0), threshold)",
    grad="dout * ((out > 0) & (out < threshold))",
    attrs={"threshold": 6.0},
    amp="gray",
    follows=True,
)
unary(
    "brelu",
    "minimum(maximum(x, t_min), t_max)",
    grad="dout * ((x > t_min) & (x < t_max))",
    attrs={"t_min": 0.0, "t_max": 24.0},
)
# the comparisons of the three that follow are such that nan stays nan
unary(
    "thresholded_relu",
    "where(x <= threshold, 0.0, x)",
    grad="dout * (x > threshold)",
    attrs={"threshold": 1.0},
    version=1,
    newer={"value": 0.0},
)
unary(
    "hard_shrink",
    "where((x <= threshold) & (x >= -threshold), 0.0, x)",
    grad="dout * ((x > threshold) | (x < -threshold))",
    attrs={"threshold": 0.5},
    version=1,
)
unary(
    "softshrink",
    "x - minimum(maximum(x, -lambda_), lambda_)",
    grad="dout * ((x > lambda_) | (x < -lambda_))",
    attrs={"lambda": 0.5},
)
unary(
    "hard_sigmoid",
    "minimum(maximum(slope * x + offset, 0), 1)",
    grad="dout * slope * ((out > 0) & (out < 1))",
    attrs={"slope": 0.2, "offset": 0.5},
)
unary(
    "hard_swish",
    "x * minimum(maximum(x + offset, 0), threshold) / scale",
    grad=(
        "dout * where(x + offset < threshold, "
        "(x + offset > 0) * ((2 * x + offset) / scale), threshold / scale)"
    ),
    attrs={"threshold": 6.0, "scale": 6.0, "offset": 3.0},
    follows=True,
)

prelu = Op(
    "prelu",
    "X. Alpha. -> Out",
    attrs={"mode": "all", "data_format": later("NCHW")},
    alike=("X", "Alpha"),
    follows=True,
)


@prelu.shape
def _(X: Spec, Alpha: Spec, mode: str, data_format: str) -> Spec:
    channels = 1 if len(X.shape) < 2 else X.shape[_channel(data_format)]
    wanted = {"all": 1, "channel": channels, "element": math.prod(X.shape[1:])}
    if mode not in wanted:
        raise ShapeError(f"op 'prelu': mode is {mode!r}, wanted 'all', 'channel' or 'element'")
    if Alpha.static and wanted[mode] >= 0 and math.prod(Alpha.shape) != wanted[mode]:
        raise ShapeError(
            f"op 'prelu': Alpha{list(Alpha.shape)} does not hold {wanted[mode]} numbers, "
            f"which mode {mode!r} wants of X{list(X.shape)}"
        )
    return Spec(X.shape, X.dtype)


@prelu.refuses
def _(X: Spec, Alpha: Spec, mode: str) -> str:
    if mode != "element" or len(Alpha.shape) == len(X.shape):
        return ""
    return f"Alpha{list(Alpha.shape)} and X{list(X.shape)} must have the same number of dimensions"


def _channel(data_format: str) -> int:
    """The dimension of the channels; 1.8's op has them behind the batch always."""
    return -1 if data_format == "NHWC" else 1


def _slopes(X: Array, Alpha: Array, mode: str, data_format: str) -> Array:
    """Alpha in a shape that broadcasts against X."""
    shape = [1] * X.ndim
    if mode == "channel":
        shape[_channel(data_format)] = -1
    return Alpha.reshape(shape if mode != "element" else (1, *X.shape[1:]))


@prelu.kernel
def _(xp: Any, X: Array, Alpha: Array, mode: str, data_format: str) -> Any:
    return xp.where(X > 0, X, _slopes(X, Alpha, mode, data_format) * X)


@prelu.grad("X Alpha")
def _(
    xp: Any, X: Array, Alpha: Array, dOut: Array, mode: str, data_format: str, wants: frozenset[str]
) -> tuple[Any, Any]:
    slopes = _slopes(X, Alpha, mode, data_format)
    positive = X > 0
    dx = xp.where(positive, dOut, slopes * dOut) if "X@GRAD" in wants else None
    if "Alpha@GRAD" not in wants:
        return dx, None
    axes = tuple(i for i, dim in enumerate(slopes.shape) if dim == 1)
    return dx, xp.where(positive, X.dtype.type(0), X * dOut).sum(axis=axes).reshape(Alpha.shape).astype(
        Alpha.dtype
    )
