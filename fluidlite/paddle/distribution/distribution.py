"""`paddle.distribution.distribution`: what all distributions have, and those of an exponential family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.backward import gradients
from fluidlite.base.abstract import abstract
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution.parameters import sum_rightmost
from fluidlite.paddle.tensor.creation import assign, zeros_like
from fluidlite.paddle.tensor.math import exp
from fluidlite.paddle.tensor.reduction import sum as total

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """Base of the distributions: `batch_shape` is that of independent distributions of one kind, which the
    parameters have, and `event_shape` that of one draw.
    """

    def __init__(self, batch_shape: Iterable[int] = (), event_shape: Iterable[int] = ()) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the distributions, one beside another."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one draw of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean of each distribution."""
        self._has_no("mean")

    @property
    def variance(self) -> Any:
        """The variance of each distribution."""
        self._has_no("variance")

    def sample(self, shape: Any = ()) -> Any:
        """Draws, of the shape `shape`, then that of the batch and of an event."""
        self._has_no("sample")

    def rsample(self, shape: Any = ()) -> Any:
        """Draws through which gradients flow to the parameters."""
        self._has_no("rsample")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        self._has_no("entropy")

    def kl_divergence(self, other: Any) -> Any:
        """The Kullback-Leibler divergence of `other` from this distribution."""
        self._has_no("kl_divergence")

    def prob(self, value: Variable) -> Any:
        """The density, or the probability, at `value`."""
        return exp(self.log_prob(value))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at `value`."""
        self._has_no("log_prob")

    def probs(self, value: Any) -> Any:
        """The density at `value`, by the older name."""
        self._has_no("probs")

    def _has_no(self, method: str) -> Any:
        abstract(f"{type(self).__name__} has no {method}")

    def _extend_shape(self, sample_shape: Iterable[int]) -> tuple[int, ...]:
        """The shape of a sample, as derived classes ask for it; -1 where only a run knows it."""
        return (*sample_shape, *self._batch_shape, *self._event_shape)


class ExponentialFamily(Distribution):
    """Base of distributions whose density is exp(<t(x), p> - F(p) + k(x)) of natural parameters p.

    A derived class says p (`_natural_parameters`), F (`_log_normalizer`) and the mean of k
    (`_mean_carrier_measure`); the entropy, and the divergence of two of a kind, follow by the gradient of F.
    """

    @property
    def _natural_parameters(self) -> tuple[Variable, ...]:
        self._has_no("natural parameters")
        return ()

    def _log_normalizer(self, *parameters: Variable) -> Variable:
        found: Variable = self._has_no("logarithm of its normalizer")
        return found

    @property
    def _mean_carrier_measure(self) -> Any:
        self._has_no("mean of its carrier measure")

    def entropy(self) -> Variable:
        """F(p) - <p, gradient of F> minus the mean of k."""
        parameters, normalizer, slopes = self._normalized()
        found = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(parameters, slopes, strict=True):
            found = found - sum_rightmost(parameter * slope, len(self.event_shape))
        return found

    def _normalized(self) -> tuple[list[Variable], Variable, list[Variable]]:
        """The natural parameters, F of them, and its gradient."""
        parameters = [assign(parameter) for parameter in self._natural_parameters]
        for parameter in parameters:
            parameter.stop_gradient = False
        normalizer = self._log_normalizer(*parameters)
        found = gradients(total(normalizer), parameters)
        slopes = [
            zeros_like(parameter) if slope is None else slope
            for parameter, slope in zip(parameters, found or [None] * len(parameters), strict=True)
        ]
        return parameters, normalizer, slopes

    def _divergence(self, other: Any) -> Variable:
        """F(q) - F(p) - <q - p, gradient of F at p>, the divergence of Bregman."""
        parameters, normalizer, slopes = self._normalized()
        others = other._natural_parameters
        found: Variable = other._log_normalizer(*others) - normalizer
        for parameter, opposite, slope in zip(parameters, others, slopes, strict=True):
            found = found - sum_rightmost((opposite - parameter) * slope, len(other.event_shape))
        return found
