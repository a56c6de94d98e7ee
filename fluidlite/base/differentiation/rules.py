"""Derivatives of NumPy's functions of elements, of reductions, and of functions that are made of others.

Each is written with NumPy's functions of arrays, which record themselves when an outer tape traces them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.differentiation.arrays import COMPOSED, Pull, Traced, no_gradient, plain, rule

__all__ = ["back_to", "bessel_ratio", "gradient_texts"]


def back_to(gradient: Any, like: Any) -> Any:
    """A gradient of a broadcast operand: added up to the shape of `like`, in its dtype."""
    shape, dtype = np.shape(plain(like)), getattr(like, "dtype", None)
    extra = gradient.ndim - len(shape)
    axes = (
        *range(extra),
        *(extra + i for i, dim in enumerate(shape) if dim == 1 and gradient.shape[extra + i] != 1),
    )
    if axes:
        gradient = gradient.sum(axis=axes).reshape(shape)
    return gradient if dtype is None or dtype == gradient.dtype else gradient.astype(dtype)


def _of_text(text: str, names: str) -> Callable[..., Any]:
    """A function of `names` from an expression, which may call NumPy's functions and those above."""
    function: Callable[..., Any] = eval(f"lambda {names}: {text}", globals())
    return function


def _declare_slope(names: str, text: str) -> None:
    slope = _of_text(text, "out, x")

    @rule(*names.split())
    def _(out: Any, x: Any, **_options: Any) -> tuple[Pull]:
        return (lambda g: back_to(g * slope(out, x), x),)


def _declare_parts(names: str, left: str, right: str) -> None:
    by_x = _of_text(left, "g, out, x, y")
    by_y = _of_text(right, "g, out, x, y")

    @rule(*names.split())
    def _(out: Any, x: Any, y: Any, **_options: Any) -> tuple[Pull, Pull]:
        return (lambda g: back_to(by_x(g, out, x, y), x), lambda g: back_to(by_y(g, out, x, y), y))


# ---------------------------------------------------------------------- what the expressions call
def _log_of_base(x: Any) -> Any:
    """log(x), 0 where x is 0 or less: there a power has no derivative by its exponent that is a number."""
    return np.log(np.where(plain(x) > 0, x, 1))


def _exponent_less_one(x: Any, y: Any) -> Any:
    """y x^(y - 1), without a division by zero where y is 0."""
    exponent = np.where(plain(y) == 0, 1, y - 1)
    return y * np.power(x, exponent)


def _larger(x: Any, y: Any) -> Any:
    """1 where the left operand is the larger one; a half where both are alike."""
    x = plain(x)
    y = plain(y)
    larger = (x > y) + 0.5 * (x == y)
    return larger.astype(np.result_type(x, y))


def _sign(x: Any) -> Any:
    return np.sign(plain(x))


def _special() -> Any:
    from scipy import special  # slow to start, and few programs need it

    return special


def _polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of the digamma function, n at least 1, by Hurwitz' zeta function."""
    factor = (-1) ** (n + 1) * math.gamma(n + 1)
    return factor * _special().zeta(float(n + 1), x)


def bessel_ratio(xp: Any, out: Any, x: Any, scaled: bool = False) -> Any:
    """i1(x) / x for `out`, which is i1(x), or i1(x) exp(-|x|) where `scaled`: a half where x is 0.

    Near 0 it is the series 1/2 + x^2 / 16 + x^4 / 384, whose derivatives are those of the ratio, too; what is
    left out is below 1e-16.
    """
    is_near = abs(plain(x)) < 0.01
    square = xp.where(is_near, x, 0) ** 2
    series = 0.5 + square / 16 + square * square / 384
    if scaled:
        series = series * xp.exp(-abs(x))
    return xp.where(is_near, series, out / xp.where(is_near, 1, x)).astype(x.dtype)


# ---------------------------------------------------------------------- functions of elements
_SLOPES = {
    # functions -> their derivative, by result and operand
    "negative": "-1",
    "positive conjugate": "1",
    "reciprocal": "-out * out",
    "square": "2 * x",
    "sqrt": "0.5 / out",
    "absolute fabs": "_sign(x)",
    "exp2": "out * math.log(2)",
    "expm1": "out + 1",
    "log": "1 / x",
    "log2": "1 / (x * math.log(2))",
    "log10": "1 / (x * math.log(10))",
    "log1p": "1 / (1 + x)",
    "sin": "np.cos(x)",
    "cos": "-np.sin(x)",
    "tan": "1 + out * out",
    "arcsin": "1 / np.sqrt(1 - x * x)",
    "arccos": "-1 / np.sqrt(1 - x * x)",
    "arctan": "1 / (1 + x * x)",
    "sinh": "np.cosh(x)",
    "cosh": "np.sinh(x)",
    "tanh": "1 - out * out",
    "arcsinh": "1 / np.sqrt(x * x + 1)",
    "arccosh": "1 / np.sqrt(x * x - 1)",
    "arctanh": "1 / (1 - x * x)",
    # of SciPy
    "erf": "2 / math.sqrt(math.pi) * np.exp(-x * x)",
    "erfinv": "math.sqrt(math.pi) / 2 * np.exp(out * out)",
    "gammaln": "_special().psi(x)",
    "psi": "_polygamma(1, x)",
    "i0": "_special().i1(x)",
    "i1": "_special().i0(x) - bessel_ratio(np, out, x)",
    "i0e": "_special().i1e(x) - _sign(x) * out",
    "i1e": "_special().i0e(x) - bessel_ratio(np, out, x, True) - out * _sign(x)",
}
_PARTS = {
    # functions -> the gradients of both operands, by that of the result, result and operands
    "add": ("g", "g"),
    "subtract": ("g", "-g"),
    "multiply": ("g * y", "g * x"),
    "divide true_divide": ("g / y", "-g * x / (y * y)"),
    "power float_power": ("g * _exponent_less_one(x, y)", "g * out * _log_of_base(x)"),
    "maximum fmax": ("g * _larger(x, y)", "g * _larger(y, x)"),
    "minimum fmin": ("g * _larger(y, x)", "g * _larger(x, y)"),
    "remainder mod fmod": ("g", "-g * np.rint((plain(x) - plain(out)) / plain(y))"),
    "arctan2": ("g * y / (x * x + y * y)", "-g * x / (x * x + y * y)"),
    "logaddexp": ("g * np.exp(x - out)", "g * np.exp(y - out)"),
    "copysign": ("g * _sign(out) * _sign(x)", "g * 0"),
}


def gradient_texts(function: str) -> tuple[str, ...]:
    """The gradients of a function's operands, x and y, as expressions of these, of the result (`out`) and of
    its gradient (`g`).
    """
    for names, slope in _SLOPES.items():
        if function in names.split():
            return (f"g * ({slope})",)
    return next(parts for names, parts in _PARTS.items() if function in names.split())


for _names, _text in _SLOPES.items():
    _declare_slope(_names, _text)
for _names, _texts in _PARTS.items():
    _declare_parts(_names, *_texts)


@rule("exp")
def _(out: Any, x: Any) -> tuple[Pull]:
    # a gradient of 0 stays 0 where the slope is infinite, as that of 1 / (1 + exp(-x)) does far below 0
    return (lambda g: back_to(np.where(plain(g) == 0, 0, g * out), x),)


@rule("zeta", "_zeta")
def _(out: Any, s: float, x: Any) -> tuple[None, Pull]:
    def back(g: Any) -> Any:
        slope = -s * _special().zeta(s + 1.0, x)
        return back_to(g * slope, x)

    return None, back


# ---------------------------------------------------------------------- choices
@rule("where")
def _(out: Any, condition: Any, x: Any, y: Any) -> tuple[Pull, Pull, Pull]:
    return (
        no_gradient,
        lambda g: back_to(np.where(condition, g, 0), x),
        lambda g: back_to(np.where(condition, 0, g), y),
    )


def _clip(x: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    """`numpy.clip`, whose bounds may depend on the inputs, too; inside, and on a bound, x has the slope 1."""
    low, high = options.get("a_min", low), options.get("a_max", high)
    out = x
    if low is not None:
        out = np.where(plain(x) < plain(low), low, out)
    if high is not None:
        out = np.where(plain(x) > plain(high), high, out)
    return out.astype(x.dtype, copy=False)


# ---------------------------------------------------------------------- reductions
def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(a % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def _kept(shape: Sequence[int], axis: Any) -> tuple[int, ...]:
    axes = _axes(axis, len(shape))
    return tuple(1 if i in axes else dim for i, dim in enumerate(shape))


@rule("sum", "add_reduce")
def _(out: Any, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> tuple[Pull]:
    def back(g: Any) -> Any:
        return np.broadcast_to(np.reshape(g, _kept(x.shape, axis)), x.shape).astype(x.dtype)

    return (back,)


@rule("max", "min", "amax", "amin")
def _(out: Any, x: Any, axis: Any = None, keepdims: bool = False, **_options: Any) -> tuple[Pull]:
    def back(g: Any) -> Any:
        kept = _kept(x.shape, axis)
        found = plain(x) == plain(out).reshape(kept)
        share = found / np.maximum(found.sum(axis=_axes(axis, x.ndim), keepdims=True), 1)
        return np.reshape(g, kept) * share.astype(x.dtype)

    return (back,)


def _mean(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    count = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    return x.sum(axis=axis, keepdims=keepdims) / x.dtype.type(count)


def _var(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
) -> Any:
    away = x - _mean(x, axis, keepdims=True)
    count = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    return (away * away).sum(axis=axis, keepdims=keepdims) / x.dtype.type(count - ddof)


def _std(*args: Any, **options: Any) -> Any:
    return np.sqrt(_var(*args, **options))


def _prod(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """One factor after the other, which is right where factors are zero, too."""
    axes = _axes(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[a] for a in axes)
    rows = np.transpose(x, (*axes, *rest)).reshape((count, *(x.shape[i] for i in rest)))
    total = rows[0] if count else np.ones(rows.shape[1:], x.dtype)
    for index in range(1, count):
        total = total * rows[index]
    return total.reshape(_kept(x.shape, axis)) if keepdims else total


# ---------------------------------------------------------------------- running sums and products
@rule("cumsum")
def _(out: Any, x: Any, axis: Any = None, dtype: Any = None) -> tuple[Pull]:
    def back(g: Any) -> Any:
        if axis is None:
            return np.flip(np.cumsum(np.flip(g, 0)), 0).reshape(x.shape)
        return np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis)

    return (back,)


def _cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    rows = np.moveaxis(x, axis, 0) if axis is not None else x.ravel()
    found: list[Any] = []
    for row in rows:
        found.append(found[-1] * row if found else row)
    if not found:
        return x
    together = np.stack(found)
    return together if axis is None else np.moveaxis(together, 0, axis)


def _copied(x: Any, **_options: Any) -> Any:
    return x.copy() if isinstance(x, Traced) else np.copy(x)


def _round(x: Any, *_digits: Any) -> Any:
    return np.round(plain(x), *_digits)


COMPOSED.update(
    clip=_clip, mean=_mean, var=_var, std=_std, prod=_prod, cumprod=_cumprod, copy=_copied, round=_round
)
