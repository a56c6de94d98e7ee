"""`paddle.distribution.normal`: the normal distribution, and that of numbers whose logarithms are normal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution.distribution import Distribution
from fluidlite.paddle.distribution.parameters import as_variables, drawn_shape, number, value_beside
from fluidlite.paddle.distribution.transform import ExpTransform
from fluidlite.paddle.distribution.transformed_distribution import TransformedDistribution
from fluidlite.paddle.tensor.math import exp, expm1, log, square
from fluidlite.paddle.tensor.random import gaussian

__all__ = ["LogNormal", "Normal"]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Normal(Distribution):
    """The normal distribution of mean `loc` and standard deviation `scale`: numbers, lists and arrays, or
    Variables.
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self.name = name or "Normal"
        self.loc, self.scale = as_variables("Normal", loc=loc, scale=scale)
        self.dtype = self.loc.dtype
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Variable:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Variable:
        """scale^2."""
        return square(self.scale)

    def sample(self, shape: Iterable[int] = (), seed: int = 0) -> Variable:
        """Draws of the shape `shape`, then that of the parameters; with a seed the same in each run.

        Gradients flow to the parameters, as from `rsample`.
        """
        if not isinstance(shape, Iterable):
            raise TypeError(f"Normal: the shape of a sample must be iterable, but is {shape!r}")
        check_type(seed, "seed", int, "sample")
        noise = gaussian(drawn_shape(shape, self.loc), seed=seed, dtype=self.dtype)
        return noise * self.scale + self.loc

    def rsample(self, shape: Iterable[int] = ()) -> Variable:
        """Draws as `loc + noise * scale`."""
        return self.sample(shape)

    def entropy(self) -> Variable:
        """(1 + log(2 pi)) / 2 + log(scale)."""
        return log(self.scale) + number(0.5 + _HALF_LOG_2PI, self.scale)

    def log_prob(self, value: Variable) -> Variable:
        """-((value - loc) / scale)^2 / 2 - log(scale) - log(2 pi) / 2."""
        distance = (value_beside("Normal.log_prob", value, self.loc) - self.loc) / self.scale
        return square(distance) * -0.5 - log(self.scale) - number(_HALF_LOG_2PI, distance)

    def probs(self, value: Variable) -> Variable:
        """The density."""
        return exp(self.log_prob(value))

    def kl_divergence(self, other: Normal) -> Variable:
        """(r + d - 1 - log r) / 2 with r the ratio of the variances, d the squared distance of the means in
        units of the other's scale.
        """
        check_type(other, "other", Normal, "kl_divergence")
        ratio = square(self.scale / other.scale)
        distance = square((self.loc - other.loc) / other.scale)
        return (ratio + distance - 1.0 - log(ratio)) * 0.5


class LogNormal(TransformedDistribution):
    """The distribution of exp(x), where x is normal with mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self._normal = Normal(loc, scale)
        self.loc, self.scale = self._normal.loc, self._normal.scale
        super().__init__(self._normal, [ExpTransform()])

    @property
    def mean(self) -> Variable:
        """exp(loc + scale^2 / 2)."""
        return exp(self._normal.mean + self._normal.variance * 0.5)

    @property
    def variance(self) -> Variable:
        """(exp(scale^2) - 1) exp(2 loc + scale^2)."""
        variance = self._normal.variance
        return expm1(variance) * exp(self._normal.mean * 2.0 + variance)

    def entropy(self) -> Variable:
        """The entropy of x, plus `loc`."""
        return self._normal.entropy() + self._normal.mean

    def probs(self, value: Variable) -> Variable:
        """The density."""
        return exp(self.log_prob(value))

    def kl_divergence(self, other: LogNormal) -> Variable:
        """The divergence of the two normal distributions."""
        check_type(other, "other", LogNormal, "kl_divergence")
        return self._normal.kl_divergence(other._normal)
