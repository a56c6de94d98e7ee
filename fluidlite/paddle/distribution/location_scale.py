"""Distributions that have a place and a scale: those of Cauchy, Gumbel and Laplace."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import need_variable
from fluidlite.paddle.distribution.distribution import Distribution
from fluidlite.paddle.distribution.parameters import (
    check_shape,
    drawn_shape,
    in_dtype_of,
    number,
    real_parameters,
    value_beside,
)
from fluidlite.paddle.distribution.transformed_distribution import TransformedDistribution
from fluidlite.paddle.distribution.uniform import Uniform
from fluidlite.paddle.tensor import random
from fluidlite.paddle.tensor.creation import full, full_like
from fluidlite.paddle.tensor.logic import less_than
from fluidlite.paddle.tensor.math import abs, atan, exp, expm1, log, log1p, sign, square, tan
from fluidlite.paddle.tensor.search import where

__all__ = ["Cauchy", "Gumbel", "Laplace"]


class Cauchy(Distribution):
    """The distribution of Cauchy with the median `loc` and half of the middle half's width `scale`: numbers
    or Variables. It has neither mean nor variance.
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self.name = name or "Cauchy"
        self.loc, self.scale = real_parameters("Cauchy", loc=loc, scale=scale)
        self.dtype = self.loc.dtype
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Variable:
        """Refused: the integral has no limit."""
        raise ValueError("Cauchy distribution has no mean.")

    @property
    def variance(self) -> Variable:
        """Refused: the integral has no limit."""
        raise ValueError("Cauchy distribution has no variance.")

    @property
    def stddev(self) -> Variable:
        """Refused: the integral has no limit."""
        raise ValueError("Cauchy distribution has no stddev.")

    def sample(self, shape: Any, name: str | None = None) -> Variable:  # type: ignore[override]
        """Draws of the shape `shape`, then that of the parameters."""
        return self.rsample(shape, name)

    def rsample(self, shape: Any, name: str | None = None) -> Variable:  # type: ignore[override]
        """Draws as `loc + scale * tan(pi (u - 1/2))` with u uniform in [0, 1)."""
        check_shape("Cauchy.rsample", shape)
        uniform = random.rand(drawn_shape(shape, self.loc), self.dtype)
        return tan((uniform - 0.5) * number(math.pi, uniform)) * self.scale + self.loc

    def _distance(self, method: str, value: Variable) -> Variable:
        value = value_beside(f"Cauchy.{method}", value, self.loc)
        return (value - self.loc) / self.scale

    def log_prob(self, value: Variable) -> Variable:
        """-log(pi scale (1 + ((value - loc) / scale)^2))."""
        distance = self._distance("log_prob", value)
        return -log1p(square(distance)) - log(self.scale) - number(math.log(math.pi), distance)

    def cdf(self, value: Variable) -> Variable:
        """The probability of numbers up to `value`."""
        return atan(self._distance("cdf", value)) / number(math.pi, self.loc) + 0.5

    def entropy(self) -> Variable:
        """log(4 pi scale)."""
        return log(self.scale) + number(math.log(4.0 * math.pi), self.scale)

    def kl_divergence(self, other: Cauchy) -> Variable:
        """log(((s + t)^2 + (m - n)^2) / (4 s t)) for scales s and t, medians m and n."""
        if not isinstance(other, Cauchy):
            raise TypeError(f"kl_divergence: other must be a Cauchy, but received {type(other)}")
        apart = square(self.scale + other.scale) + square(self.loc - other.loc)
        return log(apart) - log(self.scale * other.scale * 4.0)


def _two_sides(x: Variable) -> tuple[Variable, Variable]:
    """Numbers below 0 and those from 0 on, each with zeros for the others: by signs and magnitudes there were
    no gradient at 0.
    """
    zeros = full_like(x, 0.0)
    below = less_than(x, zeros)
    return where(below, x, zeros), where(below, zeros, x)


class Laplace(Distribution):
    """The distribution of Laplace with mean `loc` and mean distance `scale`: numbers or Variables."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = real_parameters("Laplace", loc=loc, scale=scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Variable:
        """`loc`."""
        return self.loc

    @property
    def stddev(self) -> Variable:
        """sqrt(2) scale."""
        return self.scale * number(math.sqrt(2.0), self.scale)

    @property
    def variance(self) -> Variable:
        """2 scale^2."""
        return square(self.scale) * 2.0

    def _value(self, value: Any) -> Variable:
        if isinstance(value, Real):
            return full([], float(value), self.loc.dtype)
        need_variable(value, "value", "Laplace")
        return in_dtype_of(value, self.loc.dtype)

    def log_prob(self, value: Any) -> Variable:
        """-|value - loc| / scale - log(2 scale); `value` is a number or a Variable."""
        return -abs(self._value(value) - self.loc) / self.scale - log(self.scale * 2.0)

    def entropy(self) -> Variable:
        """1 + log(2 scale)."""
        return log(self.scale * 2.0) + 1.0

    def cdf(self, value: Any) -> Variable:
        """The probability of numbers up to `value`."""
        below, above = _two_sides(self._value(value) - self.loc)
        return (exp(below / self.scale) - expm1(-above / self.scale)) * 0.5

    def icdf(self, value: Any) -> Variable:
        """The number that the probability `value` lies below."""
        below, above = _two_sides(self._value(value) - 0.5)
        return self.loc + self.scale * (log1p(below * 2.0) - log1p(above * -2.0))

    def sample(self, shape: Any = ()) -> Variable:
        """Draws of the shape `shape`, then that of the parameters."""
        return self.rsample(shape)

    def rsample(self, shape: Any) -> Variable:  # type: ignore[override]  # 2.6.2 asks for it
        """Draws as `loc - scale * sign(u) * log(1 - |u|)` with u uniform in (-1, 1)."""
        kind = np.float64 if self.loc.dtype == VarType.FP64 else np.float32
        limit = 1.0 - float(np.finfo(kind).eps) / 2.0
        drawn = random.uniform(drawn_shape(shape, self.loc), self.loc.dtype, -limit, limit)
        return self.loc - self.scale * sign(drawn) * log1p(-abs(drawn))

    def kl_divergence(self, other: Laplace) -> Variable:
        """(s exp(-d / s) + d) / t + log(t / s) - 1 for scales s and t and the distance d of the means."""
        distance = abs(self.loc - other.loc)
        first = (self.scale * exp(-distance / self.scale) + distance) / other.scale
        return first + log(other.scale / self.scale) - 1.0


class Gumbel(TransformedDistribution):
    """The distribution of the largest of many numbers, with mode `loc` and `scale`: numbers or Variables."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = real_parameters("Gumbel", loc=loc, scale=scale)
        limits = np.finfo(np.float32)
        low, high = float(limits.tiny), float(1 - limits.eps)
        self.base_dist = Uniform(full_like(self.loc, low), full_like(self.loc, high))
        self.transforms = ()
        super().__init__(self.base_dist, self.transforms)

    @property
    def mean(self) -> Variable:
        """loc + scale times Euler's constant."""
        return self.scale * number(np.euler_gamma, self.scale) + self.loc

    @property
    def variance(self) -> Variable:
        """(pi scale)^2 / 6."""
        return square(self.scale) * number(math.pi**2 / 6.0, self.scale)

    @property
    def stddev(self) -> Variable:
        """pi scale / sqrt(6)."""
        return self.scale * number(math.pi / math.sqrt(6.0), self.scale)

    def _distance(self, value: Variable) -> Variable:
        need_variable(value, "value", "Gumbel")
        return (self.loc - value) / self.scale

    def prob(self, value: Variable) -> Variable:
        """The density."""
        return exp(self.log_prob(value))

    def log_prob(self, value: Variable) -> Variable:
        """y - exp(y) - log(scale) with y = (loc - value) / scale."""
        distance = self._distance(value)
        return distance - exp(distance) - log(self.scale)

    def cdf(self, value: Variable) -> Variable:
        """The probability of numbers up to `value`."""
        return exp(-exp(self._distance(value)))

    def entropy(self) -> Variable:
        """log(scale) + 1 + Euler's constant."""
        return log(self.scale) + number(1.0 + np.euler_gamma, self.scale)

    def sample(self, shape: Any) -> Variable:  # type: ignore[override]  # 2.6.2 asks for a shape
        """Draws of the shape `shape`, then that of the parameters."""
        return self.rsample(shape)

    def rsample(self, shape: Any) -> Variable:  # type: ignore[override]  # 2.6.2 asks for a shape
        """Draws as `loc - scale * log(-log(u))` with u uniform in (0, 1)."""
        uniform = self.base_dist.sample(list(shape))
        return self.loc - self.scale * log(-log(uniform))
