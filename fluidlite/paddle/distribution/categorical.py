"""`paddle.distribution.categorical`: one of several classes, and how often each of them comes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import is_integer
from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import need_variable
from fluidlite.paddle.distribution.distribution import Distribution
from fluidlite.paddle.distribution.parameters import as_variables, drawn_shape, number, times_log
from fluidlite.paddle.nn.functional.activation import log_softmax, softmax
from fluidlite.paddle.nn.functional.common import one_hot
from fluidlite.paddle.tensor import random
from fluidlite.paddle.tensor.arranging import take_along_axis
from fluidlite.paddle.tensor.creation import arange
from fluidlite.paddle.tensor.manipulation import expand, gather, reshape, transpose
from fluidlite.paddle.tensor.math import cast, exp, log
from fluidlite.paddle.tensor.reduction import sum as total
from fluidlite.paddle.tensor.shapes import size_of
from fluidlite.paddle.tensor.special import lgamma

__all__ = ["Categorical", "Multinomial"]


class Categorical(Distribution):
    """One of several classes, by `logits` [..., classes]: a list, an array or a Variable.

    As in 2.6.2 the numbers are taken in two ways: samples, entropy and divergence are those of
    softmax(logits), `probs` and `log_prob` those of weights, each over the sum of all.
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        self.name = name or "Categorical"
        check_type(logits, "logits", (np.ndarray, Variable, list, tuple), "Categorical")
        (self.logits,) = as_variables("Categorical", logits=logits)
        self.dtype = self.logits.dtype
        super().__init__(self.logits.shape[:-1])

    def sample(self, shape: Any) -> Variable:  # type: ignore[override]  # 2.6.2 asks for a list
        """Classes of the shape `shape`, a list, then that of the batch."""
        check_type(shape, "shape", list, "sample")
        count, classes = math.prod(shape), size_of(self.logits, -1)
        rows = reshape(self.logits, [-1, classes])
        drawn = transpose(random.multinomial(softmax(rows), count, True), [1, 0])
        return reshape(drawn, drawn_shape(shape, self.logits)[:-1])

    def entropy(self) -> Variable:
        """Minus the sum of p log p."""
        logs = log_softmax(self.logits)
        return -total(exp(logs) * logs, -1)

    def kl_divergence(self, other: Categorical) -> Variable:
        """The sum of p (log p - log q), in a dimension of size 1."""
        check_type(other, "other", Categorical, "kl_divergence")
        logs = log_softmax(self.logits)
        return total(exp(logs) * (logs - log_softmax(other.logits)), -1, keepdim=True)

    def probs(self, value: Variable) -> Variable:
        """The weights of classes, over the sum of all. One row of logits takes `value` of any shape; several
        take a vector, for all of them, or a row each.
        """
        need_variable(value, "value", "Categorical.probs")
        weights = self.logits / total(self.logits, -1, keepdim=True)
        rank = len(weights.shape)
        if rank == 1:
            return reshape(gather(weights, reshape(value, [-1])), drawn_shape((), value))
        if len(value.shape) == 1:
            value = expand(value, [*drawn_shape((), weights)[:-1], *drawn_shape((), value)])
        return take_along_axis(weights, value, -1)

    def log_prob(self, value: Variable) -> Variable:
        """The logarithm of `probs`."""
        return log(self.probs(value))


class Multinomial(Distribution):
    """How often each class comes in `total_count` draws by the weights `probs` [..., classes], a Variable."""

    probs: Variable  # type: ignore[assignment]  # numbers, where other distributions have a method

    def __init__(self, total_count: int, probs: Variable) -> None:
        if not isinstance(total_count, int) or total_count < 1:
            raise ValueError(f"Multinomial: total_count must be an integer above 0, but is {total_count!r}")
        need_variable(probs, "probs", "Multinomial")
        if not probs.shape:
            raise ValueError(f"Multinomial: probs {probs.name!r} must have at least one dimension")
        self.total_count = total_count
        self.probs = probs / total(probs, -1, keepdim=True)
        super().__init__(probs.shape[:-1], probs.shape[-1:])

    @property
    def mean(self) -> Variable:
        """total_count * probs."""
        return self.probs * float(self.total_count)

    @property
    def variance(self) -> Variable:
        """total_count * probs * (1 - probs)."""
        return self.probs * (1.0 - self.probs) * float(self.total_count)

    def prob(self, value: Variable) -> Variable:
        """The probability of the counts `value`."""
        return exp(self.log_prob(value))

    def log_prob(self, value: Variable) -> Variable:
        """log(n! / (k1! k2! ...)) + the sum of k log p."""
        need_variable(value, "value", "Multinomial.log_prob")
        value = cast(value, self.probs.dtype) if is_integer(value.dtype) else value
        orders = lgamma(total(value, -1) + 1.0) - total(lgamma(value + 1.0), -1)
        return orders + total(times_log(value, self.probs), -1)

    def sample(self, shape: Any = ()) -> Variable:
        """Counts of the shape `shape`, then that of `probs`, in its dtype."""
        if not isinstance(shape, Iterable):
            raise TypeError(f"Multinomial: the shape of a sample must be iterable, but is {shape!r}")
        drawn = Categorical(log(self.probs)).sample([self.total_count, *shape])
        return total(cast(one_hot(drawn, size_of(self.probs, -1)), self.probs.dtype), 0)

    def entropy(self) -> Variable:
        """n times the entropy of one draw, less log(n!), plus the mean of the sum of log(k!)."""
        n, rank = self.total_count, len(self.probs.shape)
        factorial = number(math.lgamma(n + 1), self.probs)
        one_draw = -total(times_log(self.probs, self.probs), -1)
        # each class alone comes as often as a trial with its probability succeeds; 0! has no part in it
        counts = reshape(arange(1, n + 1, dtype=self.probs.dtype), [n, *rank * [1]])
        orders = lgamma(counts + 1.0) + lgamma(float(n + 1) - counts) - factorial
        chances = times_log(counts, self.probs) + times_log(float(n) - counts, 1.0 - self.probs)
        means = total(exp(chances - orders) * lgamma(counts + 1.0), [0, -1])
        return one_draw * float(n) - factorial + means
