"""Probability distributions: samples, entropies, densities and divergences as ops of a program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.abstract import abstract
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layers.arithmetic.activations import log
from fluidlite.layers.arithmetic.compare import less_than
from fluidlite.layers.arithmetic.elementwise import elementwise_pow
from fluidlite.layers.arithmetic.products import matmul
from fluidlite.layers.arithmetic.reduce import reduce_max, reduce_prod, reduce_sum
from fluidlite.layers.ops import exp
from fluidlite.layers.tensors.constants import diag, fill_constant_batch_size_like, ones, zeros
from fluidlite.layers.tensors.random import gaussian_random, uniform_random, uniform_random_batch_size_like
from fluidlite.layers.tensors.search import shape as shape_of
from fluidlite.layers.tensors.shaping import reshape
from fluidlite.layers.tensors.variables import assign, cast, create_tensor

__all__ = ["Categorical", "MultivariateNormalDiag", "Normal", "Uniform"]

_NUMBERS = (float, np.ndarray, Variable, list)
_ARRAYS = (np.ndarray, Variable, list)


class Distribution:
    """Base of the distributions."""

    def sample(self, shape: list[int], seed: int = 0) -> Variable:
        """Random numbers of the distribution."""
        abstract(f"{type(self).__name__} has no sample")

    def entropy(self) -> Variable:
        """The entropy, in nats."""
        abstract(f"{type(self).__name__} has no entropy")

    def log_prob(self, value: Variable) -> Variable:
        """The logarithm of the density at `value`."""
        abstract(f"{type(self).__name__} has no log_prob")

    def kl_divergence(self, other: Any) -> Variable:
        """The Kullback-Leibler divergence of `other` from this distribution."""
        abstract(f"{type(self).__name__} has no kl_divergence")

    def _validate_args(self, *args: Any) -> bool:
        """True if all are Variables; ValueError where only some are."""
        variables = [isinstance(arg, Variable) for arg in args]
        if any(variables) and not all(variables):
            raise ValueError("if one argument is Variable, all arguments should be Variable")
        return all(variables)

    def _to_variable(self, *args: Any) -> tuple[Variable, ...]:
        """Variables with the values of numbers, lists or arrays, all of the same shape, in float32."""
        arrays = []
        for arg in args:
            array = np.array(arg)
            if array.dtype != np.float32:
                if not isinstance(arg, (float, list)):
                    warn_user(
                        "data type of argument only support float32, your argument will be convert to "
                        "float32.",
                        category=UserWarning,
                    )
                array = array.astype(np.float32)
            arrays.append(array)
        # a number alone is an array of one, as a program has no other
        return tuple(_constant(array) for array in np.broadcast_arrays(np.zeros(1, np.float32), *arrays)[1:])

    def _parameters(self, *args: Any) -> tuple[Variable, ...]:
        return args if self._validate_args(*args) else self._to_variable(*args)


def _constant(array: Any) -> Variable:
    var = create_tensor(dtype="float32")
    assign(np.ascontiguousarray(array), var)
    return var


class _Spread(Distribution):
    """A distribution with two parameters, of numbers that are drawn one by one."""

    def __init__(self, first: Any, second: Any, names: tuple[str, str]) -> None:
        for value, name in zip((first, second), names, strict=True):
            check_type(value, name, _NUMBERS, type(self).__name__)
        self.batch_size_unknown = self._validate_args(first, second)
        self.all_arg_is_float = isinstance(first, float) and isinstance(second, float)
        self._pair = self._parameters(first, second)

    def _check_sample(self, shape: Any, seed: Any) -> None:
        check_type(shape, "shape", list, "sample")
        check_type(seed, "seed", int, "sample")

    def _batch_shape(self) -> list[int]:
        first, second = self._pair
        return list((first + second).shape)

    def _zeros(self, shape: list[int]) -> Variable:
        """Zeros in a shape whose first dimension is the batch's, which is known only in a run."""
        first, second = self._pair
        return fill_constant_batch_size_like(first + second, shape, first.dtype, 0.0)

    def _shaped(self, drawn: Variable, shape: list[int], batch_shape: list[int]) -> Variable:
        """Samples in the shape that they were asked for."""
        if self.batch_size_unknown:
            return reshape(drawn, shape + batch_shape)
        return reshape(drawn, shape) if self.all_arg_is_float else drawn


class Uniform(_Spread):
    """Numbers from `low` to `high`, which are floats, lists, arrays or Variables.

    `sample` of parameters that are no Variables draws from 2 * low - high on, as PaddlePaddle's does.
    """

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__(low, high, ("low", "high"))
        self.low, self.high = self._pair

    def sample(self, shape: list[int], seed: int = 0) -> Variable:
        """Samples of shape `shape` + that of the parameters."""
        self._check_sample(shape, seed)
        batch_shape = self._batch_shape()
        if self.batch_size_unknown:
            nothing = self._zeros(batch_shape + shape)
            drawn = uniform_random_batch_size_like(nothing, nothing.shape, min=0.0, max=1.0, seed=seed)
            placed = drawn * (nothing + self.high - self.low) + self.low
        else:
            whole = shape + batch_shape
            drawn = uniform_random(whole, seed=seed)
            placed = drawn * (zeros(whole, dtype=self.low.dtype) + (self.high - self.low)) + self.low
        return self._shaped(placed, shape, batch_shape)

    def log_prob(self, value: Variable) -> Variable:
        """-log(high - low) between the two, minus infinity elsewhere."""
        check_type(value, "value", Variable, "log_prob")
        above = less_than(self.low, value)
        below = less_than(value, self.high)
        above, below = cast(above, dtype=value.dtype), cast(below, dtype=value.dtype)
        return log(above * below) - log(self.high - self.low)

    def entropy(self) -> Variable:
        """log(high - low)."""
        return log(self.high - self.low)


class Normal(_Spread):
    """The normal distribution of mean `loc` and standard deviation `scale`: floats, lists, arrays or
    Variables.
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale, ("loc", "scale"))
        self.loc, self.scale = self._pair

    def sample(self, shape: list[int], seed: int = 0) -> Variable:
        """Samples of shape `shape` + that of the parameters."""
        self._check_sample(shape, seed)
        batch_shape = self._batch_shape()
        if self.batch_size_unknown:
            nothing = self._zeros(batch_shape + shape)
            drawn = gaussian_random(shape_of(nothing), mean=0.0, std=1.0, seed=seed)
        else:
            whole = shape + batch_shape
            drawn = gaussian_random(whole, mean=0.0, std=1.0, seed=seed)
            nothing = zeros(whole, dtype=self.loc.dtype)
        return self._shaped(drawn * (nothing + self.scale) + self.loc, shape, batch_shape)

    def entropy(self) -> Variable:
        """(1 + log(2 pi)) / 2 + log(scale)."""
        nothing = self._zeros(self._batch_shape())
        return 0.5 + 0.5 * math.log(2 * math.pi) + log(self.scale + nothing)

    def log_prob(self, value: Variable) -> Variable:
        """-(value - loc)^2 / (2 scale^2) - log(scale) - log(2 pi) / 2."""
        check_type(value, "value", Variable, "log_prob")
        variance = self.scale * self.scale
        log_scale = log(self.scale)
        squared = (value - self.loc) * (value - self.loc)
        return -1.0 * squared / (2.0 * variance) - log_scale - math.log(math.sqrt(2.0 * math.pi))

    def kl_divergence(self, other: Normal) -> Variable:
        """(r + d - 1 - log r) / 2 with r the ratio of the variances, d the squared distance of the means in
        units of the other's scale.
        """
        check_type(other, "other", Normal, "kl_divergence")
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        distance = (self.loc - other.loc) / other.scale
        distance = distance * distance
        return 0.5 * (ratio + distance - 1.0 - log(ratio))


class Categorical(Distribution):
    """One of several classes, with probabilities softmax(logits)."""

    def __init__(self, logits: Any) -> None:
        check_type(logits, "logits", _ARRAYS, "Categorical")
        (self.logits,) = self._parameters(logits)

    def _shifted(self) -> Variable:
        """The logits with a maximum of 0, so that none overflows."""
        return self.logits - reduce_max(self.logits, dim=-1, keep_dim=True)

    def kl_divergence(self, other: Categorical) -> Variable:
        """The sum of p (log p - log q)."""
        check_type(other, "other", Categorical, "kl_divergence")
        logits, other_logits = self._shifted(), other._shifted()
        powers, other_powers = exp(logits), exp(other_logits)
        total = reduce_sum(powers, dim=-1, keep_dim=True)
        other_total = reduce_sum(other_powers, dim=-1, keep_dim=True)
        probabilities = powers / total
        difference = logits - log(total) - other_logits + log(other_total)
        return reduce_sum(probabilities * difference, dim=-1, keep_dim=True)

    def entropy(self) -> Variable:
        """Minus the sum of p log p."""
        logits = self._shifted()
        powers = exp(logits)
        total = reduce_sum(powers, dim=-1, keep_dim=True)
        return -1.0 * reduce_sum(powers / total * (logits - log(total)), dim=-1, keep_dim=True)


class MultivariateNormalDiag(Distribution):
    """A normal distribution of k dimensions with mean `loc` [k] and the diagonal matrix `scale` [k, k] of
    covariances.
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        check_type(loc, "loc", _ARRAYS, "MultivariateNormalDiag")
        check_type(scale, "scale", _ARRAYS, "MultivariateNormalDiag")
        self.loc, self.scale = self._parameters(loc, scale)

    def _diagonal(self, value: Variable) -> tuple[Variable, Variable]:
        """A matrix of ones, and one with ones on the diagonal, as `value`."""
        size = list(value.shape)
        every = ones(shape=size, dtype=self.loc.dtype)
        return every, diag(ones(shape=[size[0]], dtype=self.loc.dtype))

    def _det(self, value: Variable) -> Variable:
        """The product of the diagonal."""
        every, diagonal = self._diagonal(value)
        return reduce_prod(value + every - diagonal)

    def _inv(self, value: Variable) -> Variable:
        """1 / x on the diagonal: off it x^1 is x."""
        every, diagonal = self._diagonal(value)
        return elementwise_pow(value, every - 2 * diagonal)

    def entropy(self) -> Variable:
        """(k (1 + log(2 pi)) + log det scale) / 2."""
        constant = self.scale.shape[0] * (1.0 + math.log(2 * math.pi))
        return 0.5 * (constant + log(self._det(self.scale)))

    def kl_divergence(self, other: MultivariateNormalDiag) -> Variable:
        """(trace + distance - k + log of the ratio of the determinants) / 2."""
        check_type(other, "other", MultivariateNormalDiag, "kl_divergence")
        trace = reduce_sum(self._inv(other.scale) * self.scale)
        left = matmul(other.loc - self.loc, self._inv(other.scale))
        distance = matmul(left, other.loc - self.loc)
        dims = self.scale.shape[0]
        ratio = log(self._det(other.scale)) - log(self._det(self.scale))
        return 0.5 * (trace + distance - dims + ratio)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
