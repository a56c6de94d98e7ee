"""Random draws by given probabilities: bernoulli and multinomial of PaddlePaddle 2.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec, same_as
from fluidlite.values.tensor import host

bernoulli = Op("bernoulli", "X -> Out", random=True)
bernoulli.shape(same_as("X"))


@bernoulli.kernel
def _(xp: Any, X: Array, ctx: Any) -> Array:
    # drawn on the host: a device gets the same numbers
    drawn = ctx.rng(0).random(X.shape) < host(X)
    return xp.asarray(drawn.astype(X.dtype))


poisson = Op("poisson", "X -> Out", random=True)
poisson.shape(same_as("X"))


@poisson.kernel
def _(xp: Any, X: Array, ctx: Any) -> Array:
    # drawn on the host: a device gets the same numbers
    return xp.asarray(ctx.rng(0).poisson(host(X)), X.dtype)


@poisson.grad("X")
def _(xp: Any, dOut: Array) -> Array:
    return xp.zeros_like(dOut)


multinomial = Op(
    "multinomial", "X -> Out", attrs={"num_samples": 1, "replacement": False}, lod=None, random=True
)


@multinomial.shape
def _(X: Spec, num_samples: int) -> Spec:
    if len(X.shape) not in (1, 2):
        raise ShapeError(f"op 'multinomial': X must have 1 or 2 dimensions, but has shape {list(X.shape)}")
    return Spec((*X.shape[:-1], num_samples), VarType.INT64)


@multinomial.kernel
def _(xp: Any, X: Array, num_samples: int, replacement: bool, ctx: Any) -> Array:
    weights = np.asarray(host(X), np.float64).reshape(-1, X.shape[-1])
    _check_weights(weights, num_samples, replacement)
    draw = _with_replacement if replacement else _without_replacement
    out = draw(ctx.rng(0), weights, num_samples)
    return xp.asarray(out.reshape(*X.shape[:-1], num_samples).astype(np.int64))


def _check_weights(weights: Array, count: int, replacement: bool) -> None:
    if (weights < 0).any() or not (weights.sum(1) > 0).all():
        raise ShapeError("op 'multinomial': X must hold weights that are not negative, and not all zero")
    possible = int((weights > 0).sum(1).min())
    if not replacement and possible < count:
        raise ShapeError(
            f"op 'multinomial': {count} samples without replacement need as many weights above zero, "
            f"but a row of X has {possible}"
        )


def _with_replacement(rng: Any, weights: Array, count: int) -> Array:
    """The place of a uniform number among the running sums of the weights."""
    edges = np.cumsum(weights, axis=1)
    drawn = rng.random((len(weights), count)) * edges[:, -1:]
    places = (drawn[:, :, None] >= edges[:, None, :]).sum(-1)
    return np.minimum(places, weights.shape[1] - 1)


def _without_replacement(rng: Any, weights: Array, count: int) -> Array:
    """The first of a race in which each weight is a rate: exponential times, the smallest ones win."""
    with np.errstate(divide="ignore"):
        times = rng.standard_exponential(weights.shape) / weights
    return np.argsort(times, axis=1)[:, :count]
