"""`paddle.distribution.transform`: the transforms of draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.distribution import constraint, variable
from fluidlite.paddle.distribution.parameters import drawn_shape, laid_over, number
from fluidlite.paddle.distribution.transformed_distribution import ChainTransform, Transform, Type
from fluidlite.paddle.nn.functional.activation import log_sigmoid, sigmoid, softmax, softplus
from fluidlite.paddle.tensor.arranging import broadcast_shape
from fluidlite.paddle.tensor.creation import arange, full_like, zeros
from fluidlite.paddle.tensor.manipulation import concat, reshape, stack, unstack
from fluidlite.paddle.tensor.math import abs, cumsum, exp, log, log1p, pow, tanh
from fluidlite.paddle.tensor.reduction import sum as total
from fluidlite.paddle.tensor.special import atanh
from fluidlite.paddle.tensor.statistics import cumprod

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ChainTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
]


def _need_variable(owner: str, name: str, value: Any) -> None:
    if not isinstance(value, Variable):
        raise TypeError(f"{owner}: {name} must be a Variable, but received {type(value)}")


# ---------------------------------------------------------------------- of single numbers
class AbsTransform(Transform):
    """y = |x|, whose inverse is a pair: -y and y."""

    _type = Type.SURJECTION

    def _forward(self, x: Variable) -> Variable:
        return abs(x)

    def _inverse(self, y: Variable) -> tuple[Variable, Variable]:
        return -y, y

    def _inverse_log_det_jacobian(self, y: Variable) -> tuple[Variable, Variable]:
        zero = zeros([], y.dtype)
        return zero, zero

    @property
    def _codomain(self) -> variable.Variable:
        return variable.positive


class AffineTransform(Transform):
    """y = loc + scale * x, of Variables."""

    _type = Type.BIJECTION

    def __init__(self, loc: Variable, scale: Variable) -> None:
        _need_variable("AffineTransform", "loc", loc)
        _need_variable("AffineTransform", "scale", scale)
        self._loc, self._scale = loc, scale

    @property
    def loc(self) -> Variable:
        """The part that is added."""
        return self._loc

    @property
    def scale(self) -> Variable:
        """The factor."""
        return self._scale

    def _forward(self, x: Variable) -> Variable:
        return self._loc + self._scale * x

    def _inverse(self, y: Variable) -> Variable:
        return (y - self._loc) / self._scale

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        # one for each number of x, not of scale: where they are parts of an event, all of them are summed
        return laid_over(log(abs(self._scale)), x)[0]

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return broadcast_shape(broadcast_shape(list(shape), list(self._loc.shape)), list(self._scale.shape))

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._forward_shape(shape)


class ExpTransform(Transform):
    """y = exp(x)."""

    _type = Type.BIJECTION

    @property
    def _codomain(self) -> variable.Variable:
        return variable.positive

    def _forward(self, x: Variable) -> Variable:
        return exp(x)

    def _inverse(self, y: Variable) -> Variable:
        return log(y)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        return x


class PowerTransform(Transform):
    """y = x^power of positive numbers; `power` is a Variable."""

    _type = Type.BIJECTION

    def __init__(self, power: Variable) -> None:
        _need_variable("PowerTransform", "power", power)
        self._power = power

    @property
    def power(self) -> Variable:
        """The exponent."""
        return self._power

    @property
    def _codomain(self) -> variable.Variable:
        return variable.positive

    def _forward(self, x: Variable) -> Variable:
        x, power = laid_over(x, self._power)
        return pow(x, power)

    def _inverse(self, y: Variable) -> Variable:
        y, power = laid_over(y, 1.0 / self._power)
        return pow(y, power)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        x, power = laid_over(x, self._power)
        return log(abs(power * pow(x, power - 1.0)))

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return broadcast_shape(list(shape), list(self._power.shape))

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._forward_shape(shape)


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))."""

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Variable(False, 0, constraint.Range(0.0, 1.0))

    def _forward(self, x: Variable) -> Variable:
        return sigmoid(x)

    def _inverse(self, y: Variable) -> Variable:
        return log(y) - log1p(-y)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """y = tanh(x)."""

    _type = Type.BIJECTION

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Variable(False, 0, constraint.Range(-1.0, 1.0))

    def _forward(self, x: Variable) -> Variable:
        return tanh(x)

    def _inverse(self, y: Variable) -> Variable:
        return atanh(y)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        # log(1 - tanh(x)^2), without the difference of numbers close to 1
        return (number(math.log(2.0), x) - x - softplus(x * -2.0)) * 2.0


# ---------------------------------------------------------------------- of vectors
class _OntoSimplex(Transform):
    """Vectors become shares, which add up to 1."""

    @property
    def _domain(self) -> variable.Variable:
        return variable.Independent(variable.real, 1)

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Variable(False, 1, constraint.simplex)


class SoftmaxTransform(_OntoSimplex):
    """y = softmax(x) along the last dimension; log(y) becomes y again."""

    _type = Type.OTHER

    def _forward(self, x: Variable) -> Variable:
        return softmax(x)

    def _inverse(self, y: Variable) -> Variable:
        return log(y)

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        if not shape:
            raise ValueError("SoftmaxTransform: a shape must have at least one dimension, but is []")
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._forward_shape(shape)


class StickBreakingTransform(_OntoSimplex):
    """n numbers become n + 1 shares: each breaks its part, by a sigmoid, off what is left of a stick.
    Zeros become equal shares.
    """

    _type = Type.BIJECTION

    def _log_left(self, x: Variable, count: int) -> Variable:
        """log(n), log(n - 1), ... log(1): how many shares follow each."""
        return log(arange(count, 0, -1, dtype=x.dtype))

    def _forward(self, x: Variable) -> Variable:
        broken = sigmoid(x - self._log_left(x, x.shape[-1]))
        one = full_like(x[..., :1], 1.0)
        left = cumprod(1.0 - broken, -1)
        return concat([broken, one], -1) * concat([one, left], -1)

    def _inverse(self, y: Variable) -> Variable:
        shares = y[..., :-1]
        left = 1.0 - cumsum(shares, -1)
        return log(shares) - log(left) + self._log_left(y, y.shape[-1] - 1)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        shares = self._forward(x)[..., :-1]
        shifted = x - self._log_left(x, x.shape[-1])
        return total(log_sigmoid(shifted) - shifted + log(shares), -1)

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._longer(shape, 1)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._longer(shape, -1)

    def _longer(self, shape: tuple[int, ...], by: int) -> Sequence[int]:
        if not shape:
            raise ValueError("StickBreakingTransform: a shape must have at least one dimension, but is []")
        return (*shape[:-1], shape[-1] + by)


# ---------------------------------------------------------------------- of whole events
class IndependentTransform(Transform):
    """A transform of events that are batches of another transform's, in so many dimensions more."""

    def __init__(self, base: Transform, reinterpreted_batch_rank: int) -> None:
        if not isinstance(base, Transform):
            raise TypeError(f"IndependentTransform: base must be a Transform, but received {type(base)}")
        if reinterpreted_batch_rank <= 0:
            raise ValueError(
                "IndependentTransform: reinterpreted_batch_rank must be above 0, but is "
                f"{reinterpreted_batch_rank}"
            )
        self._base, self._rank = base, reinterpreted_batch_rank

    def _is_injective(self) -> bool:
        return self._base._is_injective()

    def _forward(self, x: Variable) -> Any:
        return self._base.forward(x)

    def _inverse(self, y: Variable) -> Any:
        return self._base.inverse(y)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        return total(self._base.forward_log_det_jacobian(x), list(range(-self._rank, 0)))

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._base.forward_shape(shape)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._base.inverse_shape(shape)

    @property
    def _domain(self) -> variable.Variable:
        return variable.Independent(self._base._domain, self._rank)

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Independent(self._base._codomain, self._rank)


class ReshapeTransform(Transform):
    """Events of one shape become events of another."""

    _type = Type.BIJECTION

    def __init__(self, in_event_shape: Sequence[int], out_event_shape: Sequence[int]) -> None:
        for shape in (in_event_shape, out_event_shape):
            if not isinstance(shape, Sequence):
                raise TypeError(f"ReshapeTransform: shapes must be sequences, but one is {type(shape)}")
        sizes = math.prod(in_event_shape), math.prod(out_event_shape)
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"ReshapeTransform: {list(in_event_shape)} has {sizes[0]} elements, but "
                f"{list(out_event_shape)} has {sizes[1]}"
            )
        self._in_event_shape, self._out_event_shape = tuple(in_event_shape), tuple(out_event_shape)

    @property
    def in_event_shape(self) -> tuple[int, ...]:
        """The shape of events of x."""
        return self._in_event_shape

    @property
    def out_event_shape(self) -> tuple[int, ...]:
        """The shape of events of y."""
        return self._out_event_shape

    @property
    def _domain(self) -> variable.Variable:
        return variable.Independent(variable.real, len(self._in_event_shape))

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Independent(variable.real, len(self._out_event_shape))

    def _batch(self, x: Variable, event: tuple[int, ...]) -> list[Any]:
        """The sizes in front of an event."""
        return drawn_shape((), x)[: len(x.shape) - len(event)]

    def _forward(self, x: Variable) -> Variable:
        return reshape(x, [*self._batch(x, self._in_event_shape), *self._out_event_shape])

    def _inverse(self, y: Variable) -> Variable:
        return reshape(y, [*self._batch(y, self._out_event_shape), *self._in_event_shape])

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._changed(shape, self._in_event_shape, self._out_event_shape)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._changed(shape, self._out_event_shape, self._in_event_shape)

    def _changed(
        self, shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
    ) -> tuple[int, ...]:
        batch = len(shape) - len(before)
        if batch < 0 or shape[batch:] != before:
            raise ValueError(f"ReshapeTransform: {list(shape)} does not end in {list(before)}")
        return (*shape[:batch], *after)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        return zeros(self._batch(x, self._in_event_shape), x.dtype)


class StackTransform(Transform):
    """A transform for each part along an axis."""

    def __init__(self, transforms: Sequence[Transform], axis: int = 0) -> None:
        if not transforms or not isinstance(transforms, Sequence):
            raise TypeError(f"StackTransform: transforms must be a sequence, but received {type(transforms)}")
        for each in transforms:
            if not isinstance(each, Transform):
                raise TypeError(f"StackTransform: transforms must be of Transform, but one is {type(each)}")
        if not isinstance(axis, int):
            raise TypeError(f"StackTransform: axis must be an integer, but received {type(axis)}")
        self._transforms, self._axis = transforms, axis

    def _is_injective(self) -> bool:
        return all(each._is_injective() for each in self._transforms)

    @property
    def transforms(self) -> Sequence[Transform]:
        """The transforms, in the order of the parts."""
        return self._transforms

    @property
    def axis(self) -> int:
        """The dimension of the parts."""
        return self._axis

    def _parts(self, value: Variable) -> list[tuple[Transform, Variable]]:
        rank, count = len(value.shape), len(self._transforms)
        if not -rank <= self._axis < rank or value.shape[self._axis] != count:
            raise ValueError(
                f"StackTransform: {value.name!r} must have {count} parts along axis {self._axis}, but is "
                f"{list(value.shape)}"
            )
        return list(zip(self._transforms, unstack(value, self._axis), strict=True))

    def _forward(self, x: Variable) -> Variable:
        return stack([each.forward(part) for each, part in self._parts(x)], self._axis)

    def _inverse(self, y: Variable) -> Variable:
        return stack([each.inverse(part) for each, part in self._parts(y)], self._axis)

    def _forward_log_det_jacobian(self, x: Variable) -> Variable:
        slopes = [each.forward_log_det_jacobian(part) for each, part in self._parts(x)]
        return stack(slopes, self._axis)

    @property
    def _domain(self) -> variable.Variable:
        return variable.Stack([each._domain for each in self._transforms], self._axis)

    @property
    def _codomain(self) -> variable.Variable:
        return variable.Stack([each._codomain for each in self._transforms], self._axis)
