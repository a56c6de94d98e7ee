"""Functions of elements that 2.x added to `paddle.tensor.math` and `ops`: special functions, bits, angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import REAL_PARTS, VarType
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.flow.while_loop import while_loop
from fluidlite.layers.signatures import Logic, Unary
from fluidlite.paddle import defaults
from fluidlite.paddle.build import WHOLE, append, need_float, need_variable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.complexes import as_complex, as_real
from fluidlite.paddle.tensor.creation import arange, assign, full_like, ones_like, zeros_like
from fluidlite.paddle.tensor.logic import equal, isinf, isnan
from fluidlite.paddle.tensor.manipulation import broadcast_tensors, unsqueeze
from fluidlite.paddle.tensor.math import (
    abs,
    add,
    cast,
    divide,
    elementwise,
    exp,
    floor,
    floor_divide,
    log1p,
    log2,
    maximum,
    mod,
    multiply,
    pow,
    scale,
    sqrt,
    subtract,
)
from fluidlite.paddle.tensor.reduction import any, sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import constant

__all__ = [
    "acosh",
    "asinh",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "deg2rad",
    "digamma",
    "erfinv",
    "floor_mod",
    "fmax",
    "fmin",
    "frac",
    "frexp",
    "gcd",
    "heaviside",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "lcm",
    "ldexp",
    "lerp",
    "lgamma",
    "logaddexp",
    "logit",
    "multigammaln",
    "nan_to_num",
    "neg",
    "nextafter",
    "polygamma",
    "rad2deg",
    "remainder",
    "sgn",
    "trunc",
]

remainder = floor_mod = mod


# ---------------------------------------------------------------------- one operand
def _unary(op_type: str) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        need_variable(x, "x", op_type)
        need_float(x, op_type)
        return append(op_type, {"X": [x]}, dtype=x.dtype, name=name)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"`{op_type}` of each element, as the op of that name."
    return function


def _bessel(op_type: str, what: str) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        need_variable(x, "x", op_type)
        need_float(x, op_type)
        return append(op_type, {"x": [x]}, dtype=x.dtype, name=name, slot="out")

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"The modified Bessel function of the first kind, {what}."
    return function


acosh, asinh, atanh = _unary("acosh"), _unary("asinh"), _unary("atanh")
digamma, erfinv, lgamma = _unary("digamma"), _unary("erfinv"), _unary("lgamma")
i0, i0e = _bessel("i0", "of order 0"), _bessel("i0e", "of order 0, times exp(-|x|)")
i1, i1e = _bessel("i1", "of order 1"), _bessel("i1e", "of order 1, times exp(-|x|)")


def polygamma(x: Variable, n: int, name: str | None = None) -> Variable:
    """The n-th derivative of digamma, which itself is n = 0."""
    if not isinstance(n, int):
        raise TypeError(f"The input of n must be int type, but received: {type(n)}")
    if n < 0:
        raise ValueError(f"The input of n must be greater than or equal to 0. But received n = {n}")
    if n == 0:
        return digamma(x)
    need_float(x, "polygamma")
    return append("polygamma", {"x": [x]}, {"n": n}, dtype=x.dtype, name=name, slot="out")


def multigammaln(x: Variable, p: int, name: str | None = None) -> Variable:
    """The logarithm of the gamma function of p dimensions."""
    if p < 1:
        raise AssertionError(f"The p must be greater than or equal to 1, but received {p}")
    offset = 0.25 * p * (p - 1) * math.log(math.pi)
    steps = arange(1.0 - p, 1.0, 1.0, x.dtype) * 0.5
    return sum(lgamma(unsqueeze(x, -1) + steps), axis=-1) + offset


def logit(x: Variable, eps: float | None = None, name: str | None = None) -> Variable:
    """log(x / (1 - x)), with x held within [eps, 1 - eps]."""
    need_float(x, "logit")
    return append("logit", {"X": [x]}, {"eps": eps or 0.0}, dtype=x.dtype, name=name)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """The elements without their fractions."""
    return append("trunc", {"X": [input]}, dtype=input.dtype, name=name)


def frac(x: Variable, name: str | None = None) -> Variable:
    """The fractions of the elements, with their signs."""
    return subtract(x, append("trunc", {"X": [x]}, dtype=x.dtype, name=name))


def sgn(x: Variable, name: str | None = None) -> Variable:
    """The signs of real elements; complex ones over their absolute values, and 0 of 0."""
    if x.dtype not in REAL_PARTS:
        return append("sign", {"X": [x]}, dtype=x.dtype, name=name)
    parts = divide(as_real(x), unsqueeze(abs(x), -1))
    return as_complex(where(isnan(parts), zeros_like(parts), parts), name)


def neg(x: Variable, name: str | None = None) -> Variable:
    """The elements with the other sign."""
    return scale(x, -1.0, 0.0, True, None, name)


def _scaled(layer: str, factor: float) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        begin()
        helper = LayerHelper(layer, name=name)
        if x.dtype in WHOLE:
            real = helper.create_variable_for_type_inference(VarType.FP32)
            attrs = {"in_dtype": x.dtype, "out_dtype": VarType.FP32}
            helper.append_op(type="cast", inputs={"X": [x]}, outputs={"Out": [real]}, attrs=attrs)
            x = real
        out = helper.create_variable_for_type_inference(x.dtype)
        helper.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"scale": factor})
        return out

    function.__name__ = function.__qualname__ = layer
    function.__doc__ = "Degrees as radians." if layer == "deg2rad" else "Radians as degrees."
    return function


deg2rad, rad2deg = _scaled("deg2rad", math.pi / 180), _scaled("rad2deg", 180 / math.pi)


def nan_to_num(
    x: Variable,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    name: str | None = None,
) -> Variable:
    """Numbers in the place of NaN and infinities: of the latter, the largest and smallest one by default."""
    need_float(x, "nan_to_num")
    limits = np.finfo(np.float64) if x.dtype == VarType.FP64 else np.finfo(np.float32)
    large = full_like(x, float("inf"))
    small = full_like(x, float("-inf"))
    instead = full_like(x, nan)
    high = full_like(x, float(limits.max) if posinf is None else posinf)
    low = full_like(x, float(limits.min) if neginf is None else neginf)
    out = where(append("isnan_v2", {"X": [x]}, dtype=VarType.BOOL), instead, x)
    out = where(equal(out, large), high, out)
    return where(equal(out, small), low, out)


def frexp(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """(m, e) with x = m * 2**e and |m| in [0.5, 1), or both 0."""
    need_float(x, "frexp")
    size = abs(x)
    logarithm = log2(size)
    logarithm.stop_gradient = True  # which steps do not have, and 0 * inf is none
    exponent = floor(logarithm)
    exponent = where(isinf(exponent), full_like(exponent, 0), exponent)
    mantissa = divide(size, 2**exponent)
    exponent = where(mantissa >= 1, add(exponent, full_like(exponent, 1)), exponent)
    mantissa = where(mantissa >= 1, divide(mantissa, 2 ** full_like(exponent, 1)), mantissa)
    return where(x < 0, mantissa * -1, mantissa), exponent


# ---------------------------------------------------------------------- two operands
fmax, fmin = elementwise("elementwise_fmax", "fmax"), elementwise("elementwise_fmin", "fmin")
heaviside = elementwise("elementwise_heaviside", "heaviside")


def _bits(op_type: str) -> Logic:
    def function(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
        need_whole(x, "x", op_type)
        need_whole(y, "y", op_type)
        return append(op_type, {"X": [x], "Y": [y]}, dtype=x.dtype, name=name, out=out)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"`{op_type}` of integers or booleans."
    return function


def need_whole(x: Variable, what: str, function: str) -> None:
    """TypeError unless x is a Variable of integers or booleans."""
    need_variable(x, what, function)
    if x.dtype not in WHOLE:
        raise TypeError(
            f"The data type of '{what}' in {function} must be ['bool', 'uint8', 'int8', 'int16', 'int32', "
            f"'int64'], but received {x.dtype.name}."
        )


bitwise_and, bitwise_or, bitwise_xor = _bits("bitwise_and"), _bits("bitwise_or"), _bits("bitwise_xor")


def bitwise_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The other bits of integers, the other booleans."""
    need_whole(x, "x", "bitwise_not")
    return append("bitwise_not", {"X": [x]}, dtype=x.dtype, name=name, out=out)


def atan2(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The angle of the point (y, x)."""
    return append("atan2", {"X1": [x], "X2": [y]}, dtype=x.dtype, name=name)


def nextafter(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The next number after x in the direction of y."""
    return append("nextafter", {"x": [x], "y": [y]}, dtype=x.dtype, name=name, slot="out")


def hypot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """sqrt(x**2 + y**2)."""
    need_variable(x, "x", "hypot")
    need_variable(y, "y", "hypot")
    return sqrt(pow(x, 2) + pow(y, 2))


def ldexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """x * 2**y, in float64 where that is the default."""
    need_variable(x, "x", "ldexp")
    need_variable(y, "y", "ldexp")
    kind = VarType.FP64 if VarType.FP64 in (x.dtype, y.dtype, defaults.dtype()) else VarType.FP32
    x, y = cast(x, kind), cast(y, kind)
    return multiply(x, pow(cast(assign(np.array(2)), kind), y))


def logaddexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """log(exp(x) + exp(y))."""
    need_float(x, "logaddexp")
    return log1p(exp(-abs(x - y))) + maximum(x, y)


def lerp(x: Variable, y: Variable, weight: Any, name: str | None = None) -> Variable:
    """x + weight * (y - x), the weight a number or a Variable."""
    if isinstance(weight, float):
        weight = constant([], x.dtype, weight)
    return append("lerp", {"X": [x], "Y": [y], "Weight": [weight]}, dtype=x.dtype, name=name)


# ---------------------------------------------------------------------- divisors
def gcd(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The greatest common divisors of integers, by Euclid's algorithm; 0 of 0 and 0."""
    for var, what in ((x, "x"), (y, "y")):
        need_variable(var, what, "gcd")
        if var.dtype not in (VarType.INT32, VarType.INT64):
            raise TypeError(
                f"The data type of '{what}' in gcd must be ['int32', 'int64'], but received {var.dtype}"
            )
    one, other = broadcast_tensors([x, y])

    def goes_on(one: Any, other: Any) -> Variable:
        return any(other != 0)

    def divide_on(one: Any, other: Any) -> list[Any]:
        divisor = where(other == 0, ones_like(other), other)
        return [where(other != 0, other, one), where(other != 0, mod(one, divisor), zeros_like(other))]

    found: Variable = while_loop(goes_on, divide_on, [abs(one), abs(other)])[0]
    return found


def lcm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The least common multiples of integers; 0 where one of them is 0."""
    divisor = gcd(x, y)
    none = equal(divisor, zeros_like(divisor))
    product: Any = abs(multiply(x, y))
    return where(none, zeros_like(divisor), floor_divide(product, where(none, ones_like(divisor), divisor)))
