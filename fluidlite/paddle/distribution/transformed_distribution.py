"""`paddle.distribution.transformed_distribution`: transforms, chains of them, and what they make of
distributions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution import variable
from fluidlite.paddle.distribution.distribution import Distribution
from fluidlite.paddle.distribution.parameters import sum_rightmost

__all__ = ["ChainTransform", "Independent", "Transform", "TransformedDistribution", "Type"]


class Type(enum.Enum):
    """How a transform maps values: whether several may become one, and whether all are reached."""

    BIJECTION = "bijection"
    INJECTION = "injection"
    SURJECTION = "surjection"
    OTHER = "other"

    @classmethod
    def is_injective(cls, kind: Type) -> bool:
        """True if no two values become one."""
        return kind in (cls.BIJECTION, cls.INJECTION)


# ---------------------------------------------------------------------- transforms
class Transform:
    """Base of the transforms: y = forward(x), and the logarithm of how much a volume grows at x.

    A derived class has `_forward`, `_inverse`, and one of `_forward_log_det_jacobian` and
    `_inverse_log_det_jacobian`.
    """

    _type = Type.INJECTION

    def _is_injective(self) -> bool:
        return Type.is_injective(self._type)

    def __call__(self, input: Any) -> Any:
        """A distribution transformed, this transform before another one, or a tensor transformed."""
        if isinstance(input, Distribution):
            return TransformedDistribution(input, [self])
        if isinstance(input, Transform):
            return ChainTransform([self, input])
        return self.forward(input)

    def forward(self, x: Variable) -> Any:
        """The transformed values."""
        self._check("x", x, self._domain)
        return self._forward(x)

    def inverse(self, y: Variable) -> Any:
        """The values that become y."""
        self._check("y", y, self._codomain)
        return self._inverse(y)

    def forward_log_det_jacobian(self, x: Variable) -> Any:
        """log |det(dy/dx)| for each event x."""
        self._check("x", x, self._domain)
        if not self._is_injective():
            abstract(f"{type(self).__name__} maps several values to one, and has no determinant")
        return self._log_slope_at(x)

    def inverse_log_det_jacobian(self, y: Variable) -> Any:
        """log |det(dx/dy)| for each event y."""
        self._check("y", y, self._codomain)
        if self._has_inverse_slope():
            return self._inverse_log_det_jacobian(y)
        return -self._log_slope_at(self._inverse(y))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what a tensor of a shape becomes."""
        return tuple(self._forward_shape(_dims(shape)))

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what becomes a tensor of a shape."""
        return tuple(self._inverse_shape(_dims(shape)))

    def _check(self, what: str, value: Any, kind: variable.Variable) -> None:
        if not isinstance(value, Variable):
            raise TypeError(f"{type(self).__name__}: {what} must be a Variable, but received {type(value)}")
        if len(value.shape) < kind.event_rank:
            raise ValueError(
                f"{type(self).__name__}: {what} must have at least {kind.event_rank} dimensions, but "
                f"{value.name!r} is {list(value.shape)}"
            )

    def _log_slope_at(self, x: Variable) -> Any:
        if type(self)._forward_log_det_jacobian is not Transform._forward_log_det_jacobian:
            return self._forward_log_det_jacobian(x)
        if self._has_inverse_slope():
            return -self._inverse_log_det_jacobian(self.forward(x))
        abstract(f"{type(self).__name__} has no determinant of either direction")

    def _has_inverse_slope(self) -> bool:
        return type(self)._inverse_log_det_jacobian is not Transform._inverse_log_det_jacobian

    # what derived classes say
    @property
    def _domain(self) -> variable.Variable:
        return variable.real

    @property
    def _codomain(self) -> variable.Variable:
        return variable.real

    def _forward(self, x: Variable) -> Any:
        abstract(f"{type(self).__name__} has no forward")

    def _inverse(self, y: Variable) -> Any:
        abstract(f"{type(self).__name__} has no inverse")

    def _forward_log_det_jacobian(self, x: Variable) -> Any:
        abstract(f"{type(self).__name__} has no determinant")

    def _inverse_log_det_jacobian(self, y: Variable) -> Any:
        abstract(f"{type(self).__name__} has no determinant of its inverse")

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return shape


def _dims(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, Sequence):
        raise TypeError(f"a shape must be a sequence of integers, but received {type(shape)}")
    return tuple(shape)


class ChainTransform(Transform):
    """Transforms one after another."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        _check_transforms("ChainTransform", transforms)
        self.transforms = transforms

    def _is_injective(self) -> bool:
        return all(each._is_injective() for each in self.transforms)

    def _forward(self, x: Variable) -> Any:
        for each in self.transforms:
            x = each.forward(x)
        return x

    def _inverse(self, y: Variable) -> Any:
        for each in reversed(self.transforms):
            y = each.inverse(y)
        return y

    def _forward_log_det_jacobian(self, x: Variable) -> Any:
        found: Any = None
        rank = self._domain.event_rank
        for each in self.transforms:
            slope = sum_rightmost(each.forward_log_det_jacobian(x), rank - each._domain.event_rank)
            found = slope if found is None else found + slope
            x = each.forward(x)
            rank += each._codomain.event_rank - each._domain.event_rank
        return found

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        for each in self.transforms:
            shape = each.forward_shape(shape)
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        for each in reversed(self.transforms):
            shape = each.inverse_shape(shape)
        return shape

    @property
    def _domain(self) -> variable.Variable:
        domain = self.transforms[0]._domain
        rank = self.transforms[-1]._codomain.event_rank
        for each in reversed(self.transforms):
            rank -= each._codomain.event_rank - each._domain.event_rank
            rank = max(rank, each._domain.event_rank)
        return variable.Independent(domain, rank - domain.event_rank)

    @property
    def _codomain(self) -> variable.Variable:
        codomain = self.transforms[-1]._codomain
        rank = self.transforms[0]._domain.event_rank
        for each in self.transforms:
            rank += each._codomain.event_rank - each._domain.event_rank
            rank = max(rank, each._codomain.event_rank)
        return variable.Independent(codomain, rank - codomain.event_rank)


def _check_transforms(owner: str, transforms: Any) -> None:
    if not isinstance(transforms, Sequence):
        raise TypeError(f"{owner}: transforms must be a sequence, but received {type(transforms)}")
    for each in transforms:
        if not isinstance(each, Transform):
            raise TypeError(f"{owner}: transforms must all be of Transform, but one is {type(each)}")


# ---------------------------------------------------------------------- distributions
class Independent(Distribution):
    """A distribution whose events are batches of another one: the last dimensions of its batch, so many of
    them, count as an event, and their densities are multiplied.
    """

    def __init__(self, base: Distribution, reinterpreted_batch_rank: int) -> None:
        if not isinstance(base, Distribution):
            raise TypeError(f"Independent: base must be a Distribution, but received {type(base)}")
        rank = len(base.batch_shape)
        if not 0 < reinterpreted_batch_rank <= rank:
            raise ValueError(
                f"Independent: reinterpreted_batch_rank must be from 1 to {rank}, as the batch of base is "
                f"{list(base.batch_shape)}, but is {reinterpreted_batch_rank}"
            )
        self._base, self._rank = base, reinterpreted_batch_rank
        shape = base.batch_shape + base.event_shape
        super().__init__(shape[: rank - self._rank], shape[rank - self._rank :])

    @property
    def mean(self) -> Variable:
        """The means of the base."""
        found: Variable = self._base.mean
        return found

    @property
    def variance(self) -> Variable:
        """The variances of the base."""
        found: Variable = self._base.variance
        return found

    def sample(self, shape: Any = ()) -> Variable:
        """Draws of the base."""
        found: Variable = self._base.sample(list(shape))
        return found

    def log_prob(self, value: Variable) -> Variable:
        """The sum of the logarithms over an event."""
        return sum_rightmost(self._base.log_prob(value), self._rank)

    def entropy(self) -> Variable:
        """The sum of the entropies over an event."""
        return sum_rightmost(self._base.entropy(), self._rank)


class TransformedDistribution(Distribution):
    """The distribution of draws of `base` that go through transforms, one after another."""

    def __init__(self, base: Distribution, transforms: Sequence[Transform]) -> None:
        if not isinstance(base, Distribution):
            raise TypeError(f"TransformedDistribution: base must be a Distribution, but is {type(base)}")
        _check_transforms("TransformedDistribution", transforms)
        self._base, self._transforms = base, transforms
        if not transforms:
            super().__init__(base.batch_shape, base.event_shape)
            return
        chain, shape = ChainTransform(transforms), base.batch_shape + base.event_shape
        needed = chain._domain.event_rank
        if len(shape) < needed:
            raise ValueError(
                f"TransformedDistribution: the transforms take events of {needed} dimensions, but draws of "
                f"base have {len(shape)}: {list(shape)}"
            )
        shape = chain.forward_shape(shape)
        # dimensions of an event beyond those that the transforms take stay such
        rank = chain._codomain.event_rank + max(len(base.event_shape) - needed, 0)
        super().__init__(shape[: len(shape) - rank], shape[len(shape) - rank :])

    def _transformed(self, x: Any) -> Any:
        for each in self._transforms:
            x = each.forward(x)
        return x

    def sample(self, shape: Any = ()) -> Any:
        """Draws of the base, transformed."""
        return self._transformed(self._base.sample(list(shape)))

    def rsample(self, shape: Any = ()) -> Any:
        """Draws of the base through which gradients flow, transformed."""
        return self._transformed(self._base.rsample(list(shape)))

    def log_prob(self, value: Variable) -> Any:
        """The density of what becomes `value`, less the logarithms of the determinants on the way."""
        y, found = value, None
        rank = len(self.event_shape)
        for each in reversed(self._transforms):
            x = each.inverse(y)
            rank += each._domain.event_rank - each._codomain.event_rank
            slope = sum_rightmost(each.forward_log_det_jacobian(x), rank - each._domain.event_rank)
            found = -slope if found is None else found - slope
            y = x
        density = sum_rightmost(self._base.log_prob(y), rank - len(self._base.event_shape))
        return density if found is None else found + density
