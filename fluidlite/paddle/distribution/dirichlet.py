"""`paddle.distribution.dirichlet`: shares that add up to 1, and one share of two (Beta)."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_float, need_variable
from fluidlite.paddle.distribution.distribution import ExponentialFamily
from fluidlite.paddle.distribution.parameters import drawn_shape, real_parameters, times_log
from fluidlite.paddle.tensor.manipulation import expand, stack, unsqueeze
from fluidlite.paddle.tensor.math import exp, square
from fluidlite.paddle.tensor.reduction import sum as total
from fluidlite.paddle.tensor.special import digamma, lgamma

__all__ = ["Beta", "Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Shares [..., k] that add up to 1, with a density in proportion to the product of
    share^(concentration - 1); `concentration` is a Variable [..., k].
    """

    def __init__(self, concentration: Variable) -> None:
        need_variable(concentration, "concentration", "Dirichlet")
        if not concentration.shape:
            raise ValueError(f"Dirichlet: concentration {concentration.name!r} must have a dimension")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:])

    @property
    def mean(self) -> Variable:
        """The concentrations, over their sum."""
        return self.concentration / total(self.concentration, -1, keepdim=True)

    @property
    def variance(self) -> Variable:
        """m (1 - m) / (s + 1) of the means m and the sum s of the concentrations."""
        whole = total(self.concentration, -1, keepdim=True)
        rest = whole - self.concentration
        return self.concentration * rest / (square(whole) * (whole + 1.0))

    def sample(self, shape: Any = ()) -> Variable:
        """Shares of the shape `shape`, then that of the concentrations."""
        need_float(self.concentration, "dirichlet")
        alpha = expand(self.concentration, drawn_shape(shape, self.concentration))
        return append("dirichlet", {"Alpha": [alpha]}, dtype=alpha.dtype, stop_gradient=True)

    def prob(self, value: Variable) -> Variable:
        """The density."""
        return exp(self.log_prob(value))

    def log_prob(self, value: Variable) -> Variable:
        """The sum of (c - 1) log(share), less the logarithm of the normalizer."""
        need_variable(value, "value", "Dirichlet.log_prob")
        powers = times_log(self.concentration - 1.0, value)
        return total(powers, -1) - self._log_normalizer(self.concentration)

    def entropy(self) -> Variable:
        """log B + (s - k) psi(s) - the sum of (c - 1) psi(c), with s the sum of the k concentrations c."""
        whole = total(self.concentration, -1)
        excess = self.concentration - 1.0
        found = self._log_normalizer(self.concentration) + total(excess, -1) * digamma(whole)
        return found - total(excess * digamma(self.concentration), -1)

    def _divergence(self, other: Dirichlet) -> Variable:
        one, two = self.concentration, other.concentration
        slopes = digamma(one) - unsqueeze(digamma(total(one, -1)), -1)
        return self._log_normalizer(two) - self._log_normalizer(one) + total((one - two) * slopes, -1)

    @property
    def _natural_parameters(self) -> tuple[Variable, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *parameters: Variable) -> Variable:
        (x,) = parameters
        return total(lgamma(x), -1) - lgamma(total(x, -1))


class Beta(ExponentialFamily):
    """Numbers between 0 and 1, with a density in proportion to x^(alpha - 1) (1 - x)^(beta - 1): numbers or
    Variables.
    """

    def __init__(self, alpha: Any, beta: Any) -> None:
        self.alpha, self.beta = real_parameters("Beta", alpha=alpha, beta=beta)
        self._dirichlet = Dirichlet(stack([self.alpha, self.beta], -1))
        super().__init__(self.alpha.shape)

    @property
    def mean(self) -> Variable:
        """alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Variable:
        """alpha beta / ((alpha + beta)^2 (alpha + beta + 1))."""
        whole = self.alpha + self.beta
        return self.alpha * self.beta / (square(whole) * (whole + 1.0))

    def sample(self, shape: Any = ()) -> Variable:
        """Draws of the shape `shape`, then that of the parameters."""
        found: Variable = self._dirichlet.sample(shape)[..., 0]
        return found

    def prob(self, value: Variable) -> Variable:
        """The density."""
        return exp(self.log_prob(value))

    def log_prob(self, value: Variable) -> Variable:
        """(alpha - 1) log(value) + (beta - 1) log(1 - value) - log B(alpha, beta)."""
        need_variable(value, "value", "Beta.log_prob")
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Variable:
        """The entropy of the two shares."""
        return self._dirichlet.entropy()

    def _divergence(self, other: Beta) -> Variable:
        return self._dirichlet._divergence(other._dirichlet)

    @property
    def _natural_parameters(self) -> tuple[Variable, ...]:
        return (self.alpha, self.beta)

    def _log_normalizer(self, *parameters: Variable) -> Variable:
        x, y = parameters
        return lgamma(x) + lgamma(y) - lgamma(x + y)
