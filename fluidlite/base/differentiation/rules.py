"""Derivatives of NumPy's functions of elements, of reductions, and of functions that are made of others.

Each is written with NumPy's functions of arrays, which record themselves when an outer tape traces them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.differentiation.arrays import COMPOSED, Pull, Traced, no_gradient, plain, rule

__all__ = ["back_to"]


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


def _binary(names: str, left: Callable[..., Any], right: Callable[..., Any]) -> None:
    """Declare partial derivatives, times the gradient, as functions of gradient, result and operands."""

    @rule(*names.split())
    def _(out: Any, x: Any, y: Any, **_options: Any) -> tuple[Pull, Pull]:
        return (lambda g: back_to(left(g, out, x, y), x), lambda g: back_to(right(g, out, x, y), y))


def _unary(names: str, slope: Callable[[Any, Any], Any]) -> None:
    """Declare a derivative as a function of result and operand."""

    @rule(*names.split())
    def _(out: Any, x: Any, **_options: Any) -> tuple[Pull]:
        return (lambda g: back_to(g * slope(out, x), x),)


# ---------------------------------------------------------------------- arithmetic
def _log_of_base(x: Any) -> Any:
    """log(x), 0 where x is 0 or less: there a power has no derivative by its exponent that is a number."""
    return np.log(np.where(plain(x) > 0, x, 1))


def _exponent_less_one(x: Any, y: Any) -> Any:
    """y x^(y - 1), without a division by zero where y is 0."""
    return y * np.power(x, np.where(plain(y) == 0, 1, y - 1))


_binary("add", lambda g, out, x, y: g, lambda g, out, x, y: g)
_binary("subtract", lambda g, out, x, y: g, lambda g, out, x, y: -g)
_binary("multiply", lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)
_binary("divide true_divide", lambda g, out, x, y: g / y, lambda g, out, x, y: -g * x / (y * y))
_binary(
    "power float_power",
    lambda g, out, x, y: g * _exponent_less_one(x, y),
    lambda g, out, x, y: g * out * _log_of_base(x),
)
_binary("maximum fmax", lambda g, out, x, y: g * _larger(x, y), lambda g, out, x, y: g * _smaller(x, y))
_binary("minimum fmin", lambda g, out, x, y: g * _smaller(x, y), lambda g, out, x, y: g * _larger(x, y))
_binary(
    "remainder mod fmod",
    lambda g, out, x, y: g,
    lambda g, out, x, y: -g * np.rint((plain(x) - plain(out)) / plain(y)),
)
_binary(
    "arctan2", lambda g, out, x, y: g * y / (x * x + y * y), lambda g, out, x, y: -g * x / (x * x + y * y)
)
_binary("logaddexp", lambda g, out, x, y: g * np.exp(x - out), lambda g, out, x, y: g * np.exp(y - out))
_binary("copysign", lambda g, out, x, y: g * np.sign(plain(out) * plain(x)), lambda g, out, x, y: g * 0)


def _larger(x: Any, y: Any) -> Any:
    """1 where the left operand is the larger one; a half where both are alike."""
    x, y = plain(x), plain(y)
    return ((x > y) + 0.5 * (x == y)).astype(np.result_type(x, y))


def _smaller(x: Any, y: Any) -> Any:
    return _larger(y, x)


_unary("negative", lambda out, x: -1)
_unary("positive conjugate", lambda out, x: 1)
_unary("reciprocal", lambda out, x: -out * out)
_unary("square", lambda out, x: 2 * x)
_unary("sqrt", lambda out, x: 0.5 / out)
_unary("absolute fabs", lambda out, x: np.sign(plain(x)))
_unary("exp", lambda out, x: out)
_unary("exp2", lambda out, x: out * math.log(2))
_unary("expm1", lambda out, x: out + 1)
_unary("log", lambda out, x: 1 / x)
_unary("log2", lambda out, x: 1 / (x * math.log(2)))
_unary("log10", lambda out, x: 1 / (x * math.log(10)))
_unary("log1p", lambda out, x: 1 / (1 + x))
_unary("sin", lambda out, x: np.cos(x))
_unary("cos", lambda out, x: -np.sin(x))
_unary("tan", lambda out, x: 1 + out * out)
_unary("arcsin", lambda out, x: 1 / np.sqrt(1 - x * x))
_unary("arccos", lambda out, x: -1 / np.sqrt(1 - x * x))
_unary("arctan", lambda out, x: 1 / (1 + x * x))
_unary("sinh", lambda out, x: np.cosh(x))
_unary("cosh", lambda out, x: np.sinh(x))
_unary("tanh", lambda out, x: 1 - out * out)
_unary("arcsinh", lambda out, x: 1 / np.sqrt(x * x + 1))
_unary("arccosh", lambda out, x: 1 / np.sqrt(x * x - 1))
_unary("arctanh", lambda out, x: 1 / (1 - x * x))


# ---------------------------------------------------------------------- functions of SciPy
def _special() -> Any:
    from scipy import special  # slow to start, and few programs need it

    return special


_unary("erf", lambda out, x: 2 / math.sqrt(math.pi) * np.exp(-x * x))
_unary("erfinv", lambda out, x: math.sqrt(math.pi) / 2 * np.exp(out * out))
_unary("gammaln", lambda out, x: _special().psi(x))
_unary("psi", lambda out, x: polygamma(1, x))
_unary("i0", lambda out, x: _special().i1(x))
_unary("i1", lambda out, x: _special().i0(x) - out / x)
_unary("i0e", lambda out, x: _special().i1e(x) - np.sign(plain(x)) * out)
_unary("i1e", lambda out, x: _special().i0e(x) - out * (1 / x + np.sign(plain(x))))


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of the digamma function, n at least 1, by Hurwitz' zeta function."""
    factor = (-1) ** (n + 1) * math.gamma(n + 1)
    return factor * _special().zeta(float(n + 1), x)


@rule("zeta", "_zeta")
def _(out: Any, s: float, x: Any) -> tuple[None, Pull]:
    return None, lambda g: back_to(g * (-s * _special().zeta(s + 1.0, x)), x)


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
