"""Batch normalisation: batch_norm, sync_batch_norm, inplace_abn.

Channels are second (NCHW) or last (NHWC). Arrays are looked at as (N, C, places), or as (rows, C) where the
channels are last or there are no places.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import between, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import GradContext, Op, Spec
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.row_calls import over_rows
from fluidlite.ops.kernels.row_kernels import RowKernel
from fluidlite.ops.kernels.scalar import function_of
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


# ------------------------------------------------------------------ kernels
# by given statistics, each of a channel: y = x * factor + shift
INVERSE = "1 / sqrt(variance + epsilon)"
FACTOR = "scale * inverse"
SHIFT = "bias - mean * factor"
_INVERSE = function_of(INVERSE, ["variance", "epsilon"], {})
_FACTOR = function_of(FACTOR, ["scale", "inverse"], {})
_SHIFT = function_of(SHIFT, ["bias", "mean", "factor"], {})


def given_factors(
    scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float
) -> tuple[Array, Array]:
    """Factor and shift of each channel on the host."""
    factor = _FACTOR(np, scale, _INVERSE(np, variance, epsilon))
    return factor, _SHIFT(np, bias, mean, factor)


# `savedvariance` is one over the deviation
BY_BATCH = RowKernel(
    "batch_norm",
    "x[ncp] scale[c] bias[c] mean[c] variance[c] momentum epsilon"
    " -> y[ncp] meanout[c] varianceout[c] savedmean[c] savedvariance[c]",
    f"""
    savedmean = mean(x)
    spread = variance(x)
    meanout = mean * momentum + savedmean * (1 - momentum)
    varianceout = variance * momentum + spread * (1 - momentum)
    mean = savedmean
    variance = spread
    savedvariance = {INVERSE}
    inverse = savedvariance
    factor = {FACTOR}
    y = x * factor + ({SHIFT})
    """,
    columns="np",
)
BY_GIVEN = RowKernel(
    "batch_norm_given",
    "x[ncp] scale[c] bias[c] mean[c] variance[c] epsilon -> y[ncp] savedmean[c] savedvariance[c]",
    f"""
    savedmean = mean
    savedvariance = {INVERSE}
    inverse = savedvariance
    factor = {FACTOR}
    y = x * factor + ({SHIFT})
    """,
    columns="np",
)


def _gradient(name: str, reads: str, away: str, inverse: str, by_batch: bool) -> RowKernel:
    """The kernel of a gradient, from what says how far x is `away` from the mean; mean and variance are
    constants unless they are those `by_batch`.
    """
    through = " - (away * (mean(dy * away) * inverse * inverse) + mean(dy))"
    return RowKernel(
        name,
        f"{reads} dy[ncp] -> dx[ncp] dscale[c] dbias[c]",
        f"""
        inverse = {inverse}
        away = {away}
        dscale = sum(dy * away) * inverse
        dbias = sum(dy)
        dx = (dy{through if by_batch else ""}) * ({FACTOR})
        """,
        columns="np",
    )


_SAVED = "scale[c] savedmean[c] savedvariance[c]"
_AWAY = "x - savedmean"
GRADIENT = _gradient("batch_norm_grad", f"x[ncp] {_SAVED}", _AWAY, "savedvariance", True)
GRADIENT_OF_SAVED = _gradient("batch_norm_grad_saved", f"x[ncp] {_SAVED}", _AWAY, "savedvariance", False)
GRADIENT_OF_GIVEN = _gradient(
    "batch_norm_grad_given", "x[ncp] scale[c] mean[c] variance[c] epsilon", "x - mean", INVERSE, False
)


def sizes_of(shape: Sequence[int], data_layout: str) -> tuple[int, int, int]:
    """Images, channels, and the places of each; rows, channels and one place where the channels are last."""
    if is_channels_last(data_layout) or len(shape) == 2:
        return math.prod(shape[:-1]), shape[-1], 1
    return shape[0], shape[1], math.prod(shape[2:])


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
    sizes = sizes_of(X.shape, attrs["data_layout"])
    frozen = _frozen(attrs)
    if _passes_through(sizes, frozen, ctx):
        return (X.copy(), Mean, Variance, xp.zeros_like(Mean), xp.zeros_like(Mean))
    # half precision is computed in that of the statistics
    given: dict[str, Any] = {"x": X.astype(Scale.dtype, copy=False), "scale": Scale, "bias": Bias}
    given |= {"mean": Mean, "variance": Variance, "epsilon": attrs["epsilon"]}
    if frozen:
        y, mean, inverse = over_rows(xp, BY_GIVEN, sizes, **given)
        found = [Mean, Variance, mean, inverse]
    else:
        given["momentum"] = _momentum(attrs["momentum"], MomentumTensor, Scale.dtype)
        y, *found = over_rows(xp, BY_BATCH, sizes, gather=None if ctx is None else ctx.gather, **given)
    return (y.astype(X.dtype, copy=False).reshape(X.shape), *found)


def _passes_through(sizes: Sequence[int], frozen: bool, ctx: Any) -> bool:
    """True where a channel has one element alone: it would be its own mean, so Paddle leaves it as it is, and
    the running statistics, too.
    """
    return not frozen and ctx is None and sizes[0] * sizes[2] == 1 and sizes[1] > 0


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


def _gradients(
    xp: Any,
    kernel: RowKernel,
    shape: Sequence[int],
    attrs: Mapping[str, Any],
    wants: frozenset[str],
    frozen: bool,
    ctx: Any = None,
    **given: Any,
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of X, Scale and Bias.

    Unless `frozen`, the mean and the variance depend on X, with a context on that of all ranks; the gradients
    of Scale and Bias are always those of this rank, for they are summed like any other's.
    """
    scale, d = given["scale"], given["dy"]
    sizes = sizes_of(shape, attrs["data_layout"])
    if _passes_through(sizes, frozen, ctx):
        return d.copy(), xp.zeros_like(scale), xp.zeros_like(scale)
    arrays = {name: value.astype(scale.dtype, copy=False) for name, value in given.items()}
    arrays |= {name: attrs[name] for name in kernel.numbers}
    gather = None if ctx is None else ctx.gather
    dx, dscale, dbias = over_rows(xp, kernel, sizes, wants, gather, **arrays)
    return None if dx is None else dx.astype(d.dtype, copy=False).reshape(shape), dscale, dbias


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
        wants: frozenset[str],
        attrs: dict[str, Any],
    ) -> tuple[Maybe, Maybe, Maybe]:
        ranks = ctx if synchronised else None
        given = {"x": X, "scale": Scale, "dy": dY}
        frozen = _frozen(attrs)
        if not frozen:
            kernel, names = GRADIENT, ("savedmean", "savedvariance")
        elif Mean is None or Variance is None:
            kernel, names = GRADIENT_OF_SAVED, ("savedmean", "savedvariance")
        else:
            kernel, names = GRADIENT_OF_GIVEN, ("mean", "variance")
        values = (SavedMean, SavedVariance) if names[0] == "savedmean" else (Mean, Variance)
        given |= {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return _gradients(xp, kernel, X.shape, attrs, wants, frozen, ranks, **given)


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


class _Activated(NamedTuple):
    """An activation of h, and what comes before it in terms of its result y: h, and the gradient of h."""

    result: str
    before: str
    slope: str


_ACTIVATIONS = {
    "leaky_relu": _Activated(
        "where(h > 0, h, h * alpha)", "where(y > 0, y, y / alpha)", "where(y > 0, dy, dy * alpha)"
    ),
    "elu": _Activated(
        "where(h > 0, h, expm1(minimum(h, 0)) * alpha)",
        "where(y > 0, y, log1p(minimum(y, 0) / alpha))",
        "where(y > 0, dy, dy * (y + alpha))",
    ),
}


@functools.cache
def _abn_gradient(activation: str, frozen: bool) -> RowKernel:
    """The kernel of a gradient from the activation's result and its gradient."""
    _, before, slope = _ACTIVATIONS.get(activation, ("h", "y", "dy"))
    reads = "y[ncp] scale[c] bias[c] savedvariance[c] alpha"
    # h - bias = scale * (x - mean) * inverse
    away = f"({before} - bias) / (scale * savedvariance)\n        dy = {slope}"
    return _gradient("inplace_abn_grad", reads, away, "savedvariance", not frozen)


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
    if attrs["activation"] in _ACTIVATIONS:
        activate = function_of(_ACTIVATIONS[attrs["activation"]].result, ["h", "alpha"], {})
        y = activate(xp, y, attrs["alpha"])
    return (y, *rest)


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
@with_attrs(_ABN_ATTRS)
def _(
    xp: Any,
    Y: Array,
    Scale: Array,
    Bias: Array,
    SavedVariance: Array,
    dY: Array,
    wants: frozenset[str],
    attrs: dict[str, Any],
) -> tuple[Maybe, Maybe, Maybe]:
    frozen = attrs["is_test"] or attrs["use_global_stats"]
    kernel = _abn_gradient(attrs["activation"], frozen)
    given = {"y": Y, "scale": Scale, "bias": Bias, "savedvariance": SavedVariance, "dy": dY}
    return _gradients(xp, kernel, Y.shape, attrs, wants, frozen, **given)
