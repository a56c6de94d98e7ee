"""Activations that draw numbers while they train: rrelu, gumbel_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import KernelContext, Op, Spec
from fluidlite.ops.kernels.numbers import check_axes, named_dims
from fluidlite.ops.neural.softmax import softmax_of


def _uniform(xp: Any, ctx: KernelContext, shape: tuple[int, ...]) -> Array:
    """Numbers in [0, 1)."""
    generator = ctx.rng(0)
    if xp is not np:  # draw where the numbers are needed
        generator = xp.random.default_rng(int(generator.integers(1 << 31)))
    found: Array = generator.random(shape, dtype="float32")
    return found


rrelu = Op(
    "rrelu",
    "X -> Out Noise",
    attrs={"lower": 1.0 / 8, "upper": 1.0 / 3, "is_test": False},
    random=True,
    constants=("Noise",),
)


@rrelu.shape
def _(X: Spec, lower: float, upper: float) -> tuple[Spec, Spec]:
    if not 0 <= lower <= upper <= 1:
        raise ShapeError(f"op 'rrelu': slopes must have 0 <= lower <= upper <= 1, but are {lower}, {upper}")
    return Spec(X.shape, X.dtype), Spec(X.shape, X.dtype)


@rrelu.kernel
def _(
    xp: Any, ctx: KernelContext, X: Array, lower: float, upper: float, is_test: bool
) -> tuple[Array, Array]:
    """x, times a slope where it is negative: the middle of both limits, or one drawn for each element."""
    if is_test:
        slope = xp.full(X.shape, (lower + upper) / 2, X.dtype)
    else:
        slope = (lower + (upper - lower) * _uniform(xp, ctx, X.shape)).astype(X.dtype)
    noise = xp.where(X < 0, slope, X.dtype.type(1))
    return X * noise, noise


@rrelu.grad("X")
def _(X: Array, Noise: Array, dOut: Array) -> Array:
    return dOut * Noise


gumbel_softmax = Op(
    "gumbel_softmax", "X -> Out", attrs={"temperature": 1.0, "hard": False, "axis": -1}, random=True
)


@gumbel_softmax.shape
def _(X: Spec, temperature: float, axis: int) -> Spec:
    check_axes("gumbel_softmax", X.shape, [axis], named_dims(X.shape))
    if temperature <= 0:
        raise ShapeError(f"op 'gumbel_softmax': temperature must be positive, but is {temperature}")
    return Spec(X.shape, X.dtype)


@gumbel_softmax.kernel
def _(xp: Any, ctx: KernelContext, X: Array, temperature: float, hard: bool, axis: int) -> Array:
    """Softmax of the scores with Gumbel noise; `hard`: 1 for the largest share, 0 for others."""
    least = X.dtype.type(1e-20)
    noise = -xp.log(-xp.log(_uniform(xp, ctx, X.shape).astype(X.dtype) + least) + least)
    shares = softmax_of(xp, (X + noise) / X.dtype.type(temperature), axis)
    if not hard or not X.size:
        return shares
    best = xp.expand_dims(shares.argmax(axis=axis), axis)
    places = xp.arange(X.shape[axis]).reshape([-1 if i == axis % X.ndim else 1 for i in range(X.ndim)])
    return (places == best).astype(X.dtype)


@gumbel_softmax.grad("X")
def _(Out: Array, dOut: Array, axis: int) -> Array:
    # as in 2.6.2, which does not divide by the temperature
    return (dOut - (dOut * Out).sum(axis=axis, keepdims=True)) * Out
