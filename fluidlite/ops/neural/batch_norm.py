"""Batch normalisation: batch_norm, sync_batch_norm, inplace_abn.

Channels are second (NCHW) or last (NHWC). Arrays are looked at as (N, C, places), or as (rows, C) where the
channels are last or there are no places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import between, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import GradContext, Op, Spec
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_ATTRS = {
    "is_test": False,
    "momentum": 0.9,
    "epsilon": limited(1e-5, between(0.0, 0.001)),
    "data_layout": "NCHW",
    "use_global_stats": False,
    "trainable_statistics": False,
}
_KEPT = {**ONEDNN, "fuse_with_relu": False}
_MORE_SLOTS = "MomentumTensor? -> Y MeanOut VarianceOut SavedMean? SavedVariance? ReserveSpace?"


# ------------------------------------------------------------------ sums over channels
def by_channel(array: Array, data_layout: str) -> Array:
    """`array` as (N, C, places) or (rows, C)."""
    if is_channels_last(data_layout) or array.ndim == 2:
        return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])
    return array.reshape(*array.shape[:2], math.prod(array.shape[2:]))


def _count(x: Array) -> int:
    """How many elements a channel has."""
    return len(x) * math.prod(x.shape[2:])


def channel_sum(x: Array) -> Array:
    """The sum over everything but the channels of what `by_channel` gave."""
    if x.ndim == 2:
        return x.sum(axis=0, dtype=x.dtype)
    return x.sum(axis=2, dtype=x.dtype).sum(axis=0)


def channel_dot(xp: Any, a: Array, b: Array) -> Array:
    """The sum of a * b over everything but the channels."""
    return xp.einsum("nc,nc->c", a, b) if a.ndim == 2 else xp.einsum("ncp,ncp->nc", a, b).sum(axis=0)


def spread(x: Array, factors: Array) -> Array:
    """A value for each channel, in a shape that broadcasts against `x`."""
    return factors if x.ndim == 2 else factors[:, None]


def _statistics(xp: Any, x: Array) -> tuple[Array, Array]:
    """Mean and biased variance of each channel."""
    count = _count(x)
    mean = channel_sum(x) / x.dtype.type(count)
    # squares of the centred values: mean(x * x) - mean * mean loses digits where the mean is large
    centred = x - spread(x, mean)
    return mean, channel_dot(xp, centred, centred) / x.dtype.type(count)


def _shared_statistics(xp: Any, ctx: Any, x: Array) -> tuple[Array, Array]:
    """The statistics of the batches of all ranks, each with as many rows as it has.

    The variance of the whole is the mean of the parts' variances and of their means' squared distances from
    the whole's mean.
    """
    mean, variance = _statistics(xp, x)
    parts = ctx.gather(xp.stack([mean, variance, xp.full_like(mean, _count(x))]))
    if len(parts) == 1:
        return mean, variance
    means, variances, counts = (xp.stack(found) for found in zip(*parts, strict=True))
    weights = counts / counts.sum(axis=0)
    whole = (weights * means).sum(axis=0)
    return whole, (weights * (variances + (means - whole) ** 2)).sum(axis=0)


# ------------------------------------------------------------------ forward
def _shape_rule(type: str) -> Callable[..., tuple[Spec, ...]]:
    def rule(
        X: Spec, Scale: Spec, Bias: Spec, Mean: Spec, data_layout: str, epsilon: float
    ) -> tuple[Spec, ...]:
        if not 2 <= len(X.shape) <= 5:
            raise ShapeError(f"op {type!r}: X must have 2 to 5 dimensions, but has shape {list(X.shape)}")
        channels = X.shape[-1 if is_channels_last(data_layout) else 1]
        for name, spec in (("Scale", Scale), ("Bias", Bias)):
            if channels >= 0 and spec.shape != (channels,):
                raise ShapeError(
                    f"op {type!r}: X has {channels} channels (X{list(X.shape)}, {data_layout}) but {name} "
                    f"has shape {list(spec.shape)}"
                )
        if not 0 <= epsilon <= 0.001 + 1e-9:
            raise ShapeError(f"op {type!r}: 'epsilon' should be between 0 and 0.001, but is {epsilon}")
        return (X.with_shape(X.shape), *(Mean.with_shape((channels,)) for _ in range(4)))

    return rule


def _normalise(
    xp: Any,
    X: Array,
    Scale: Array,
    Bias: Array,
    Mean: Array,
    Variance: Array,
    MomentumTensor: Maybe,
    attrs: Mapping[str, Any],
    ctx: Any = None,
) -> tuple[Array, ...]:
    """Y, MeanOut, VarianceOut, SavedMean, SavedVariance.

    With a context, the statistics are those of all ranks that run the program together.
    """
    x = by_channel(X, attrs["data_layout"])
    epsilon = Scale.dtype.type(attrs["epsilon"])
    frozen = _frozen(attrs)
    if _passes_through(x, frozen, ctx):
        return (X.copy(), Mean, Variance, xp.zeros_like(Mean), xp.zeros_like(Mean))
    if frozen:
        mean, inverse, running = Mean, 1 / xp.sqrt(Variance + epsilon), (Mean, Variance)
    else:
        momentum = _momentum(attrs["momentum"], MomentumTensor, Scale.dtype)
        mean, variance = (
            item.astype(Scale.dtype, copy=False)
            for item in (_statistics(xp, x) if ctx is None else _shared_statistics(xp, ctx, x))
        )
        inverse = 1 / xp.sqrt(variance + epsilon)
        running = (Mean * momentum + mean * (1 - momentum), Variance * momentum + variance * (1 - momentum))
    scale = inverse * Scale
    # x * scale + shift: two passes over x, where the formula as it is written takes four
    y = x * spread(x, scale.astype(x.dtype, copy=False))
    y += spread(x, (Bias - mean * scale).astype(x.dtype, copy=False))
    return (y.reshape(X.shape), *running, mean, inverse)


def _passes_through(x: Array, frozen: bool, ctx: Any) -> bool:
    """True where a channel has one element alone: it would be its own mean, so Paddle leaves it as it is, and
    the running statistics, too.
    """
    return not frozen and ctx is None and x.size == x.shape[1] > 0


def _frozen(attrs: Mapping[str, Any]) -> bool:
    """True if the running statistics are taken as they are."""
    return attrs["use_global_stats"] or (attrs["is_test"] and not attrs["trainable_statistics"])


def _momentum(momentum: float, MomentumTensor: Maybe, dtype: Any) -> Any:
    return dtype.type(momentum) if MomentumTensor is None else MomentumTensor.reshape(()).astype(dtype)


def _gradient_rule(type: str) -> Callable[[GradContext], None]:
    def rule(context: GradContext) -> None:
        inputs = {slot: context.input(slot) for slot in ("X", "Scale", "Bias")}
        inputs |= {slot: context.output(slot) for slot in ("SavedMean", "SavedVariance")} | {
            "Y@GRAD": context.out_grad("Y")
        }
        if context.op.attrs.get("use_global_stats"):
            inputs |= {"Mean": context.output("MeanOut"), "Variance": context.output("VarianceOut")}
        context.emit(
            type + "_grad", inputs, {slot + "@GRAD": context.in_grad(slot) for slot in ("X", "Scale", "Bias")}
        )

    return rule


def gradients(
    xp: Any, centred: Array, d: Array, scale: Array, inverse: Array, frozen: bool, ctx: Any = None
) -> tuple[Array, Array, Array]:
    """Gradients of x, scale and bias for y = scale * centred * inverse + bias; overwrites `centred`.

    Unless `frozen`, the mean and the variance that made `centred` and `inverse` depend on x, with a context
    on that of all ranks; the gradients of scale and bias are always those of this rank, for they are summed
    like any other's.
    """
    if _passes_through(centred, frozen, ctx):
        return d.copy(), xp.zeros_like(scale), xp.zeros_like(scale)
    bias = channel_sum(d)
    weight = channel_dot(xp, centred, d) * inverse
    factor = spread(centred, (scale * inverse).astype(d.dtype, copy=False))
    if frozen:
        return d * factor, weight, bias
    # dx = factor * (d - mean(d) - unit * mean(d * unit)), where unit = centred * inverse
    count, of_weight, of_bias = d.dtype.type(_count(d)), weight, bias
    if ctx is not None:
        of_weight, of_bias, count = sum(ctx.gather(xp.stack([weight, bias, xp.full_like(weight, count)])))
    centred *= spread(centred, of_weight * inverse / count)
    centred += spread(centred, of_bias / count)
    xp.subtract(d, centred, out=centred)
    centred *= factor
    return centred, weight, bias


_ALIKE = ("X", "Scale", "Bias", "Mean", "Variance")


def _declare(type: str, slots: str, synchronised: bool, **facts: Any) -> None:
    op = Op(type, f"{slots} {_MORE_SLOTS}", attrs=_ATTRS, alike=_ALIKE, **facts)
    op.shape(_shape_rule(type))

    @op.kernel
    @with_attrs(_ATTRS)
    def _(
        xp: Any,
        ctx: Any,
        X: Array,
        Scale: Array,
        Bias: Array,
        Mean: Array,
        Variance: Array,
        MomentumTensor: Maybe,
        attrs: dict[str, Any],
    ) -> tuple[Array, ...]:
        ranks = ctx if synchronised else None
        return _normalise(xp, X, Scale, Bias, Mean, Variance, MomentumTensor, attrs, ranks)

    op.grad_rule("X Scale Bias")(_gradient_rule(type))
    _declare_gradient(op, synchronised)


def _declare_gradient(op: Op, synchronised: bool) -> None:
    @op.grad("X Scale Bias")
    @with_attrs(_ATTRS)
    def _(
        xp: Any,
        ctx: Any,
        X: Array,
        Scale: Array,
        Bias: Array,
        Mean: Maybe,
        Variance: Maybe,
        SavedMean: Maybe,
        SavedVariance: Maybe,
        dY: Array,
        attrs: dict[str, Any],
    ) -> tuple[Array, Array, Array]:
        layout = attrs["data_layout"]
        frozen = _frozen(attrs)
        mean, inverse = SavedMean, SavedVariance
        if frozen and Mean is not None and Variance is not None:
            mean = Mean
            inverse = 1 / xp.sqrt(Variance + Scale.dtype.type(attrs["epsilon"]))
        assert mean is not None and inverse is not None
        x, d, ranks = by_channel(X, layout), by_channel(dY, layout), ctx if synchronised else None
        dx, weight, bias = gradients(xp, x - spread(x, mean), d, Scale, inverse, frozen, ranks)
        return dx.astype(X.dtype, copy=False).reshape(X.shape), weight, bias


_declare(
    "batch_norm", "X. Scale. Bias. Mean. Variance.", synchronised=False, kept=_KEPT, amp="gray", follows=True
)
_declare("sync_batch_norm", "X Scale Bias Mean Variance", synchronised=True)


# ------------------------------------------------------------------ with an activation, in place
_ABN_ATTRS = {**_ATTRS, "activation": "", "alpha": 0.1, "use_sync_bn": False}
inplace_abn = Op(
    "inplace_abn", f"X. Scale Bias Mean Variance {_MORE_SLOTS}", attrs=_ABN_ATTRS, kept=_KEPT, alike=_ALIKE
)
inplace_abn.shape(_shape_rule("inplace_abn"))


def _activated(xp: Any, y: Array, activation: str, alpha: float) -> Array:
    if activation == "leaky_relu":
        return xp.where(y > 0, y, y * y.dtype.type(alpha))
    if activation == "elu":
        return xp.where(y > 0, y, xp.expm1(xp.minimum(y, 0)) * y.dtype.type(alpha))
    return y


def _before_activation(xp: Any, y: Array, d: Array, activation: str, alpha: float) -> tuple[Array, Array]:
    """Input of the activation and its gradient, from the activation's result and its gradient."""
    factor = y.dtype.type(alpha)
    if activation == "leaky_relu":
        return xp.where(y > 0, y, y / factor), xp.where(y > 0, d, d * factor)
    if activation == "elu":
        before = xp.log1p(xp.minimum(y, 0) / factor)
        return xp.where(y > 0, y, before), xp.where(y > 0, d, d * (y + factor))
    return y, d


@inplace_abn.kernel
@with_attrs(_ABN_ATTRS)
def _(
    xp: Any,
    X: Array,
    Scale: Array,
    Bias: Array,
    Mean: Array,
    Variance: Array,
    MomentumTensor: Maybe,
    attrs: dict[str, Any],
) -> tuple[Array, ...]:
    y, *rest = _normalise(xp, X, Scale, Bias, Mean, Variance, MomentumTensor, attrs)
    return (_activated(xp, y, attrs["activation"], attrs["alpha"]), *rest)


def _abn_rule(context: GradContext) -> None:
    inputs = {
        "Y": context.output("Y"),
        "Scale": context.input("Scale"),
        "Bias": context.input("Bias"),
        "SavedMean": context.output("SavedMean"),
        "SavedVariance": context.output("SavedVariance"),
        "Y@GRAD": context.out_grad("Y"),
    }
    context.emit(
        "inplace_abn_grad", inputs, {slot + "@GRAD": context.in_grad(slot) for slot in ("X", "Scale", "Bias")}
    )


inplace_abn.grad_rule("X Scale Bias")(_abn_rule)


@inplace_abn.grad("X Scale Bias")
def _(
    xp: Any,
    Y: Array,
    Scale: Array,
    Bias: Array,
    SavedMean: Array,
    SavedVariance: Array,
    dY: Array,
    is_test: bool,
    use_global_stats: bool,
    data_layout: str,
    activation: str,
    alpha: float,
) -> tuple[Array, Array, Array]:
    y, d = _before_activation(xp, Y, dY, activation, alpha)
    y = by_channel(y, data_layout)
    # y - bias = scale * (x - mean) * inverse
    centred = (y - spread(y, Bias)) / spread(y, Scale * SavedVariance)
    dx, weight, bias = gradients(
        xp, centred, by_channel(d, data_layout), Scale, SavedVariance, is_test or use_global_stats
    )
    return dx.reshape(Y.shape), weight, bias
