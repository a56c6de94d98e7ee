"""Random draws by given probabilities, of PaddlePaddle 2.x: bernoulli, poisson, exponential, multinomial,
dirichlet, samples of classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required, same_as
from fluidlite.values.tensor import host

bernoulli = Op("bernoulli", "X -> Out", random=True)
bernoulli.shape(same_as("X"))


@bernoulli.kernel
def _(xp: Any, X: Array, ctx: Any) -> Array:
    # drawn on the host: a device gets the same numbers
    drawn = ctx.rng(0).random(X.shape) < host(X)
    found = drawn.astype(X.dtype)
    return xp.asarray(found)


poisson = Op("poisson", "X -> Out", random=True)
poisson.shape(same_as("X"))


@poisson.kernel
def _(xp: Any, X: Array, ctx: Any) -> Array:
    # drawn on the host: a device gets the same numbers
    return xp.asarray(ctx.rng(0).poisson(host(X)), X.dtype)


@poisson.grad("X")
def _(xp: Any, dOut: Array) -> Array:
    return xp.zeros_like(dOut)


exponential = Op("exponential", "X -> Out", attrs={"lambda": 1.0}, random=True)
exponential.shape(same_as("X"))


@exponential.kernel
def _(xp: Any, X: Array, ctx: Any) -> Array:
    rate = ctx.op.attr("lambda")  # a word of Python's own, which no parameter can be called
    found = ctx.rng(0).exponential(1 / rate, X.shape).astype(X.dtype)
    return xp.asarray(found)


@exponential.grad("X")
def _(xp: Any, dOut: Array) -> Array:
    return xp.zeros_like(dOut)


class_center_sample = Op(
    "class_center_sample",
    "Label -> RemappedLabel SampledLocalClassCenter",
    attrs={
        "num_classes": required(AttrType.INT),
        "num_samples": required(AttrType.INT),
        "ring_id": 0,
        "rank": 0,
        "nranks": 1,
        "fix_seed": False,
        "seed": 0,
    },
    lod=None,
    random=True,
    dynamic=True,
    idle=("ring_id", "rank"),
    only={"nranks": 1},
)


@class_center_sample.shape
def _(Label: Spec, num_samples: int) -> tuple[Spec, Spec]:
    if len(Label.shape) != 1:
        raise ShapeError(f"op 'class_center_sample': Label must be a vector, but is {list(Label.shape)}")
    return Spec(Label.shape, Label.dtype), Label.with_shape((num_samples,))


@class_center_sample.kernel
def _(
    xp: Any, Label: Array, num_classes: int, num_samples: int, fix_seed: bool, seed: int, ctx: Any
) -> tuple[Array, Array]:
    """The classes that occur, in order, then others drawn at random until there are `num_samples`; labels
    become places among these.
    """
    label = host(Label)
    if label.size and not 0 <= label.min() <= label.max() < num_classes:
        raise ShapeError(
            f"op 'class_center_sample': labels from {label.min()} to {label.max()} of {num_classes} classes"
        )
    present, places = np.unique(label, return_inverse=True)
    others = np.setdiff1d(np.arange(num_classes), present)
    missing = max(num_samples - len(present), 0)
    rng = ctx.rng(seed if fix_seed else 0)
    drawn = rng.permutation(others)[:missing]
    centers = np.concatenate([present, drawn])
    places = places.reshape(-1)
    return tuple(xp.asarray(part.astype(Label.dtype)) for part in (places, centers))


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


dirichlet = Op("dirichlet", "Alpha -> Out", random=True)


@dirichlet.shape
def _(Alpha: Spec) -> Spec:
    if not Alpha.shape:
        raise ShapeError("op 'dirichlet': Alpha must have a dimension of shares, but has shape []")
    return Alpha


@dirichlet.kernel
def _(xp: Any, Alpha: Array, ctx: Any) -> Array:
    alpha = np.asarray(host(Alpha), np.float64)
    usable = (alpha > 0) & np.isfinite(alpha)
    if not usable.all():
        wrong = alpha[~usable].flat[0]
        raise ShapeError(f"op 'dirichlet': Alpha must hold finite numbers above 0, but has {wrong}")
    rng = ctx.rng(0)
    # gamma numbers of a small alpha are below the smallest float: those of alpha + 1, times u^(1 / alpha),
    # have the same distribution and a logarithm (Marsaglia and Tsang, 2000)
    logs = np.log(rng.standard_gamma(alpha + 1.0)) - rng.standard_exponential(alpha.shape) / alpha
    shares = np.exp(logs - logs.max(-1, keepdims=True))
    found = (shares / shares.sum(-1, keepdims=True)).astype(Alpha.dtype)
    return xp.asarray(found)
