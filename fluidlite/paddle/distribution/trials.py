"""Distributions of trials that succeed or fail: one trial (Bernoulli), and failures before the first success
(Geometric).
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution.distribution import Distribution, ExponentialFamily
from fluidlite.paddle.distribution.parameters import (
    check_shape,
    drawn_shape,
    in_dtype_of,
    laid_over,
    number,
    times_log,
    value_beside,
)
from fluidlite.paddle.nn.functional.activation import log_sigmoid, sigmoid, softplus
from fluidlite.paddle.tensor import random
from fluidlite.paddle.tensor.creation import full, full_like
from fluidlite.paddle.tensor.logic import less_than
from fluidlite.paddle.tensor.manipulation import expand
from fluidlite.paddle.tensor.math import clip, exp, floor, log, log1p, sqrt
from fluidlite.paddle.tensor.search import where

__all__ = ["Bernoulli", "Geometric"]

_TINY = float(np.finfo(np.float32).tiny)


def _uniform(shape: Any, parameter: Variable) -> Variable:
    """Numbers that are uniform in (0, 1), whose logarithms are finite."""
    return random.uniform(drawn_shape(shape, parameter), parameter.dtype, _TINY, 1.0)


class Bernoulli(ExponentialFamily):
    """1 with the probability `probs`, a float or a Variable, else 0. The probability is kept from 0 and 1 by
    the smallest step of its dtype at 1.
    """

    probs: Variable  # type: ignore[assignment]  # numbers, where other distributions have a method

    def __init__(self, probs: Any, name: str | None = None) -> None:
        self.name = name or "Bernoulli"
        check_type(probs, "probs", (float, Variable), self.name)
        given = probs if isinstance(probs, Variable) else full([], probs)
        self.dtype = given.dtype
        step = float(np.finfo(to_numpy(self.dtype)).eps)
        self.probs = clip(given, step, 1.0 - step)
        self.logits = log(self.probs) - log1p(-self.probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Variable:
        """`probs`."""
        return self.probs

    @property
    def variance(self) -> Variable:
        """probs (1 - probs)."""
        return self.probs * (1.0 - self.probs)

    def sample(self, shape: Any) -> Variable:  # type: ignore[override]  # 2.6.2 asks for a shape
        """Zeros and ones of the shape `shape`, then that of the parameters."""
        check_shape("Bernoulli.sample", shape)
        return random.bernoulli(expand(self.probs, drawn_shape(shape, self.probs)))

    def rsample(self, shape: Any, temperature: float = 1.0) -> Variable:  # type: ignore[override]
        """Logits of relaxed draws, (logit(u) + logit(probs)) / temperature with u uniform: their sigmoid
        comes close to zeros and ones as the temperature falls.
        """
        check_shape("Bernoulli.rsample", shape)
        check_type(temperature, "temperature", float, "Bernoulli.rsample")
        uniform = _uniform(shape, self.probs)
        return (log(uniform) - log1p(-uniform) + self.logits) / number(temperature, uniform)

    def _value(self, method: str, value: Variable) -> Variable:
        return value_beside(f"Bernoulli.{method}", value, self.probs)

    def cdf(self, value: Variable) -> Variable:
        """0 below 0, 1 - probs from 0 up to 1, 1 from 1 on."""
        probs, value = laid_over(self.probs, self._value("cdf", value))
        zeros, ones = full_like(probs, 0.0), full_like(probs, 1.0)
        from_zero = where(less_than(value, ones), 1.0 - probs, ones)
        return where(less_than(value, zeros), zeros, from_zero)

    def log_prob(self, value: Variable) -> Variable:
        """value * logits - log(1 + exp(logits))."""
        return self._value("log_prob", value) * self.logits - softplus(self.logits)

    def prob(self, value: Variable) -> Variable:
        """The probability of `value`."""
        return exp(self.log_prob(value))

    def entropy(self) -> Variable:
        """-p log p - (1 - p) log(1 - p)."""
        return softplus(self.logits) - self.probs * self.logits

    def kl_divergence(self, other: Bernoulli) -> Variable:
        """p log(p / q) + (1 - p) log((1 - p) / (1 - q))."""
        check_type(other, "other", Bernoulli, "Bernoulli.kl_divergence")
        one, two = self.logits, other.logits
        success = sigmoid(one) * (log_sigmoid(one) - log_sigmoid(two))
        return success + sigmoid(-one) * (log_sigmoid(-one) - log_sigmoid(-two))


class Geometric(Distribution):
    """The number of failures before the first success, where each trial succeeds with the probability
    `probs`: a number or a Variable.
    """

    probs: Variable  # type: ignore[assignment]  # numbers, where other distributions have a method

    def __init__(self, probs: Any) -> None:
        if not isinstance(probs, (Real, Variable)):
            raise TypeError(f"Geometric: probs must be a number or a Variable, but received {type(probs)}")
        if isinstance(probs, Real) and not 0 < float(probs) <= 1:
            raise ValueError(f"Geometric: probs must be above 0 and at most 1, but is {probs}")
        self.probs = probs if isinstance(probs, Variable) else full([], float(probs), "float32")
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Variable:
        """1 / probs - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Variable:
        """(1 / probs - 1) / probs."""
        return (1.0 / self.probs - 1.0) / self.probs

    @property
    def stddev(self) -> Variable:
        """The square root of the variance."""
        return sqrt(self.variance)

    def _count(self, k: Any) -> Variable:
        if not isinstance(k, (Integral, Variable)):
            raise TypeError(f"Geometric: k must be an integer or a Variable, but received {type(k)}")
        return in_dtype_of(k, self.probs.dtype) if isinstance(k, Variable) else full([], int(k), self._kind)

    @property
    def _kind(self) -> Any:
        return self.probs.dtype

    def pmf(self, k: Any) -> Variable:
        """(1 - probs)^k probs."""
        return exp(self.log_pmf(k))

    def log_pmf(self, k: Any) -> Variable:
        """k log(1 - probs) + log(probs)."""
        return times_log(self._count(k), 1.0 - self.probs) + log(self.probs)

    def cdf(self, k: Any) -> Variable:
        """1 - (1 - probs)^(k + 1)."""
        return 1.0 - exp(times_log(self._count(k) + 1.0, 1.0 - self.probs))

    def sample(self, shape: Any = ()) -> Variable:
        """Counts of the shape `shape`, then that of the parameters, in the dtype of `probs`."""
        return self.rsample(shape)

    def rsample(self, shape: Any = ()) -> Variable:
        """Counts, as floor(log(u) / log(1 - probs)) with u uniform: no gradient comes through."""
        return floor(log(_uniform(shape, self.probs)) / log1p(-self.probs))

    def _trial(self) -> Variable:
        """Minus the entropy of one trial."""
        failure = 1.0 - self.probs
        return times_log(failure, failure) + times_log(self.probs, self.probs)

    def entropy(self) -> Variable:
        """The entropy of a trial, over `probs`."""
        return -self._trial() / self.probs

    def kl_divergence(self, other: Geometric) -> Variable:
        """The divergence of one trial, over `probs`: the mean number of trials."""
        if not isinstance(other, Geometric):
            raise TypeError(f"kl_divergence: other must be a Geometric, but received {type(other)}")
        other_failure = times_log(1.0 - self.probs, 1.0 - other.probs)
        return (self._trial() - other_failure - times_log(self.probs, other.probs)) / self.probs
