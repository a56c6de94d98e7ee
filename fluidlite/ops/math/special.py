"""Special functions of elements: gamma and Bessel functions, inverses of erf, sigmoid, hyperbolic ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fluidlite.base.differentiation.rules import bessel_ratio
from fluidlite.base.dtypes import REAL_PARTS, Array, VarType
from fluidlite.base.registry import Op, Spec, same_as

Gradient = Callable[[Any, Any, Array, Array], Any]
"""The gradient of (xp, special, x, out), which is multiplied by that of the result."""


def _special(xp: Any) -> Any:
    """`scipy.special`, or CuPy's copy of it."""
    # imported when it is called: SciPy is slow to start, and few programs need it
    if xp.__name__ == "numpy":
        from scipy import special
    else:
        from cupyx.scipy import special  # type: ignore[import-not-found,no-redef]
    return special


_FRACTIONS = (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64, *REAL_PARTS)


def _of_float(slot: str) -> Callable[..., Spec]:
    """A result of the operand's shape; integers give double precision."""

    def rule(spec: Spec) -> Spec:
        whole = spec.dtype not in _FRACTIONS
        return Spec(spec.shape, VarType.FP64 if whole else spec.dtype)

    rules: dict[str, Callable[..., Spec]] = {"X": lambda X: rule(X), "x": lambda x: rule(x)}
    return rules[slot]


def _real(x: Array) -> Array:
    return x if x.dtype.kind in "fc" else x.astype("float64")


def _function(type: str, forward: Callable[[Any, Any, Array], Any], slope: Gradient, **facts: Any) -> None:
    """An op `X -> Out` of elements."""
    op = Op(type, "X -> Out", **facts)
    op.shape(_of_float("X"))

    @op.kernel
    def _(xp: Any, X: Array) -> Array:
        x = _real(X)
        return xp.asarray(forward(xp, _special(xp), x)).astype(x.dtype)

    @op.grad("X")
    def _(xp: Any, X: Array, Out: Array, dOut: Array) -> Array:
        return (dOut * slope(xp, _special(xp), _real(X), Out)).astype(X.dtype)


def _later_function(
    type: str, forward: Callable[[Any, Any, Array], Any], slope: Gradient, **facts: Any
) -> None:
    """An op `x -> out`, as those that came last spell it."""
    op = Op(type, "x -> out", **facts)
    op.shape(_of_float("x"))

    @op.kernel
    def _(xp: Any, x: Array) -> Array:
        value = _real(x)
        return xp.asarray(forward(xp, _special(xp), value)).astype(value.dtype)

    @op.grad("x")
    def _(xp: Any, x: Array, out: Array, dout: Array) -> Array:
        return (dout * slope(xp, _special(xp), _real(x), out)).astype(x.dtype)


def _acosh_slope(xp: Any, x: Array) -> Any:
    return 1 / (xp.sqrt(x - 1) * xp.sqrt(x + 1))


_function(
    "acosh",
    lambda xp, _, x: xp.arccosh(x),
    lambda xp, _, x, out: _acosh_slope(xp, x if x.dtype.kind == "c" else abs(x)),
)
_function("asinh", lambda xp, _, x: xp.arcsinh(x), lambda xp, _, x, out: 1 / xp.sqrt(x * x + 1))
_function("atanh", lambda xp, _, x: xp.arctanh(x), lambda xp, _, x, out: 1 / (1 - x * x), amp_fp16="black")
_function(
    "lgamma",
    # at -inf itself SciPy says -inf, C inf
    lambda xp, special, x: xp.where(x == -xp.inf, xp.inf, special.gammaln(x)),
    lambda _, special, x, out: special.digamma(x),
)
_function(
    "digamma", lambda _, special, x: special.digamma(x), lambda _, special, x, out: _polygamma(special, 1, x)
)
erfinv = Op("erfinv", "X -> Out", amp_fp16="black")
erfinv.shape(same_as("X"))


@erfinv.kernel
def _(xp: Any, X: Array) -> Array:
    return xp.asarray(_special(xp).erfinv(X)).astype(X.dtype)


@erfinv.grad("X")
def _(xp: Any, Out: Array, dOut: Array) -> Array:
    slope = math.sqrt(math.pi) / 2 * xp.exp(Out * Out)
    return (dOut * slope).astype(dOut.dtype)


# ---------------------------------------------------------------------- modified Bessel functions
def _slope_of_i1(xp: Any, special: Any, x: Array, out: Array) -> Array:
    slope: Array = special.i0(x) - bessel_ratio(xp, out, x)
    return slope


def _slope_of_i1e(xp: Any, special: Any, x: Array, out: Array) -> Array:
    slope: Array = special.i0e(x) - out * xp.sign(x) - bessel_ratio(xp, out, x, scaled=True)
    return slope


_later_function("i0", lambda _, special, x: special.i0(x), lambda _, special, x, out: special.i1(x))
_later_function(
    "i0e", lambda _, special, x: special.i0e(x), lambda xp, special, x, out: special.i1e(x) - xp.sign(x) * out
)
_later_function("i1", lambda _, special, x: special.i1(x), _slope_of_i1)
_later_function("i1e", lambda _, special, x: special.i1e(x), _slope_of_i1e)


# ---------------------------------------------------------------------- with a number
def _polygamma(special: Any, n: int, x: Array) -> Any:
    """The n-th derivative of digamma, n at least 1, by the zeta function of Hurwitz, whose derivative by x is
    known: as `scipy.special.polygamma`, which is not one function of arrays.
    """
    return (-1.0) ** (n + 1) * math.gamma(n + 1) * special.zeta(n + 1.0, x)


polygamma = Op("polygamma", "x -> out", attrs={"n": 0})
polygamma.shape(same_as("x"))


@polygamma.kernel
def _(xp: Any, x: Array, n: int) -> Array:
    return xp.asarray(_special(xp).polygamma(n, x)).astype(x.dtype)


@polygamma.grad("x")
def _(xp: Any, x: Array, dout: Array, n: int) -> Array:
    return (dout * _polygamma(_special(xp), n + 1, x)).astype(x.dtype)


logit = Op("logit", "X -> Out", attrs={"eps": 1e-6})
logit.shape(same_as("X"))


@logit.kernel
def _(xp: Any, X: Array, eps: float) -> Array:
    """log(x / (1 - x)), with x held within [eps, 1 - eps]; NaN outside of [0, 1] without eps."""
    x = xp.clip(X, eps, 1 - eps) if eps else X
    return xp.log(x / (1 - x)).astype(X.dtype)


@logit.grad("X")
def _(xp: Any, X: Array, dOut: Array, eps: float) -> Array:
    slope = dOut / (X * (1 - X))
    if not eps:
        return xp.where((X < 0) | (X > 1), 0, slope).astype(X.dtype)
    return xp.where((X < eps) | (X > 1 - eps), 0, slope).astype(X.dtype)


angle = Op("angle", "X -> Out", lod=None)


@angle.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, REAL_PARTS.get(X.dtype, X.dtype))


@angle.kernel
def _(xp: Any, X: Array) -> Array:
    if X.dtype.kind == "c":
        return xp.angle(X)
    return xp.where(X < 0, xp.pi, 0).astype(X.dtype)


@angle.grad("X", of_complex=True)
def _(xp: Any, X: Array, dOut: Array) -> Array:
    if X.dtype.kind != "c":
        return xp.zeros_like(dOut)
    return (1j * dOut * X / (X.real**2 + X.imag**2)).astype(X.dtype)


trunc = Op("trunc", "X -> Out")
trunc.shape(same_as("X"))


@trunc.kernel
def _(xp: Any, X: Array) -> Array:
    return xp.trunc(X).astype(X.dtype)


@trunc.grad("X")
def _(xp: Any, dOut: Array) -> Array:
    return xp.zeros_like(dOut)
