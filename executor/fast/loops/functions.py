"""exp, log, tanh and erf of float32 lanes, in plain arithmetic.

The coefficients are fits of our own (least squares, reweighted until the largest relative errors are equal;
`tests/executor/fit_functions.py` makes them). Errors are the largest found over all of a dense set of
float32 numbers, in units of the last place of the result; `tests/executor/test_fast_functions.py` holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["erf", "exp", "log", "log1p", "tanh"]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693359375  # of few bits, so that its products with exponents are exact
_LN2_LOW = -2.12194440e-4
_ROUNDER = 12582912.0  # 1.5 * 2 ** 23: adding it leaves the nearest whole number in the last bits
_ROUNDER_BITS = 0x4B400000

_EXP = (
    0.49999993432099127,
    0.16666520398846646,
    0.04166839078966638,
    0.008368745127119274,
    0.0013814539879476446,
)
_LOG = (
    0.3333333170780461,
    -0.2500082103550021,
    0.20001226865407568,
    -0.1662335729811644,
    0.14201758233761896,
    -0.13160183062480527,
    0.12761575643751213,
    -0.07634493024227404,
)
_TANH = (
    (
        0.9999999790302633,
        0.13379711381797868,
        0.0034940267270240468,
        2.058335257241802e-05,
        1.3318897669512443e-08,
    ),
    (1.0, 0.4671302662696343, 0.02587104349239271, 0.0003283080013057002, 7.761947078441322e-07),
)
_TANH_END = 9.02
_ERF = (
    (
        1.1283791393222515,
        0.19354515734017208,
        0.05310174728869643,
        0.003883344493488788,
        0.000284565393184653,
        1.986775422157225e-06,
    ),
    (
        1.0,
        0.5048574853697607,
        0.11535002939859688,
        0.01520725307225103,
        0.001185570250491906,
        3.742007517269441e-05,
    ),
)
_ERF_END = 4.0


def _polynomial(x: Vector, coefficients: Sequence[float]) -> Vector:
    """The polynomial with these coefficients, the constant one first."""
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.times_plus(x, coefficient)
    return result


def _limited(x: Vector, low: float, high: float) -> Vector:
    """x between two limits; NaN stays."""
    select = x.code.select
    x = select(x.compare("ogt", high), x.like(high), x)
    return select(x.compare("olt", low), x.like(low), x)


def exp(x: Vector) -> Vector:
    """e ** x; at most 1 ulp. Infinity beyond 88.72, zero below -103.97, subnormal between that and -87.34."""
    x = _limited(x, -105.0, 89.0)
    shifted = x.times_plus(_LOG2_E, _ROUNDER)
    whole = shifted - _ROUNDER
    rest = whole.times_plus(-_LN2_HIGH, x)
    rest = whole.times_plus(-_LN2_LOW, rest)
    near = (rest * rest).times_plus(_polynomial(rest, _EXP), rest) + 1.0
    power = shifted.as_kind("i32") - _ROUNDER_BITS
    # 2 ** 128 and 2 ** -150 are no float32 numbers: the scale is two factors
    half = power.bits("ashr", 1)
    first = (half + 127).bits("shl", 23).as_kind("float")
    second = (power - half + 127).bits("shl", 23).as_kind("float")
    return near * first * second


def log(x: Vector) -> Vector:
    """The natural logarithm; at most 1 ulp. -inf of zero, NaN of what is negative."""
    select = x.code.select
    is_tiny = x.compare("olt", 1.1754943508222875e-38)
    scaled = select(is_tiny, x * 8388608.0, x)
    # 0x3F3504F3 is sqrt(0.5): mantissas lie between it and its double
    raised = scaled.as_kind("i32") - 0x3F3504F3
    exponent = raised.bits("ashr", 23)
    mantissa = (raised.bits("and", 0x007FFFFF) + 0x3F3504F3).as_kind("float")
    exponent = exponent - select(is_tiny, exponent.like(23), exponent.like(0))
    whole = exponent.converted("float")
    f = mantissa - 1.0
    square = f * f
    tail = _polynomial(f, _LOG) * square * f
    tail = whole.times_plus(_LN2_LOW, tail)
    result = whole.times_plus(_LN2_HIGH, square.times_plus(-0.5, tail) + f)
    result = select(x.compare("oeq", 0.0), x.like(-float("inf")), result)
    result = select(x.compare("olt", 0.0), x.like(float("nan")), result)
    # infinity and NaN are their own logarithms
    return select(x.compare("ult", float("inf")), select(x.compare("uno", x), x, result), x)


def log1p(x: Vector) -> Vector:
    """log(1 + x); at most 3 ulp: what 1 + x loses of x is put back in proportion."""
    select = x.code.select
    moved = x + 1.0
    lost = x - (moved - 1.0)
    result = log(moved) + lost / moved
    is_plain = x.compare("oeq", float("inf"))
    result = select(is_plain, x, result)
    result = select(x.compare("oeq", -1.0), x.like(-float("inf")), result)
    return select(x.code.call("fabs", x).compare("olt", 5.9604644775390625e-08), x, result)


def _odd_fraction(x: Vector, fit: Sequence[Sequence[float]], end: float) -> Vector:
    """x * P(x * x) / Q(x * x) up to `end`, 1 with the sign of x beyond."""
    limited = _limited(x, -end, end)
    square = limited * limited
    fraction = limited * _polynomial(square, fit[0]) / _polynomial(square, fit[1])
    is_far = x.code.call("fabs", x).compare("oge", end)
    return x.code.select(is_far, x.code.call("copysign", x.like(1.0), x), fraction)


def tanh(x: Vector) -> Vector:
    """The hyperbolic tangent; at most 6 ulp, and exactly 1 from 9.02 on."""
    return _odd_fraction(x, _TANH, _TANH_END)


def erf(x: Vector) -> Vector:
    """The error function; at most 6 ulp, and exactly 1 from 4 on."""
    return _odd_fraction(x, _ERF, _ERF_END)
