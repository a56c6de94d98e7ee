"""Normalisation over rows, instances and vectors; batch_norm and group_norm have files of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import LAYOUT, above, between, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import AttrType, GradContext, Op, Spec, required
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.numbers import rows_before
from fluidlite.ops.kernels.row_calls import over_rows
from fluidlite.ops.kernels.row_kernels import RowKernel, by_rows

Maybe: TypeAlias = "Array | None"


# ------------------------------------------------------------------ rows of a matrix
def _row_gradient(xp: Any, d: Array, unit: Array, inverse: Array) -> Array:
    """The gradient of the rows x for the gradient `d` of unit = (x - mean) * inverse."""
    count = d.dtype.type(max(d.shape[1], 1))
    share = xp.einsum("rc,rc->r", d, unit) / count
    mean = d.sum(axis=1, dtype=d.dtype) / count
    found: Array = (d - unit * share[:, None] - mean[:, None]) * inverse[:, None]
    return found


# ------------------------------------------------------------------ layer_norm
layer_norm = Op(
    "layer_norm",
    "X. Scale.? Bias.? -> Y Mean? Variance?",
    attrs={"epsilon": limited(1e-5, between(0.0, 0.001)), "begin_norm_axis": limited(1, above(0))},
    amp_fp16="black gray",
    amp_bf16="gray",
    alike=("X", "Scale", "Bias"),
)


@layer_norm.shape
def _(X: Spec, Scale: Spec | None, Bias: Spec | None, begin_norm_axis: int) -> tuple[Spec, Spec, Spec]:
    if not 0 <= begin_norm_axis < len(X.shape):
        raise ShapeError(
            f"op 'layer_norm': begin_norm_axis is {begin_norm_axis}, but X has shape {list(X.shape)}"
        )
    columns = math.prod(X.shape[begin_norm_axis:])
    for name, spec in (("Scale", Scale), ("Bias", Bias)):
        if spec is not None and columns >= 0 and spec.shape not in ((columns,), (-1,)):
            raise ShapeError(
                f"op 'layer_norm': X{list(X.shape)} has {columns} elements from dimension {begin_norm_axis} "
                f"on, but {name} has shape {list(spec.shape)}"
            )
    rows = X.with_shape((math.prod(X.shape[:begin_norm_axis]),))  # as in Paddle, which multiplies -1 too
    return X.with_shape(X.shape), rows, rows


_LAYER_NORM = RowKernel(
    "layer_norm",
    "x[rc] scale[c]=1 bias[c]=0 epsilon -> y[rc] mean[r] variance[r]",
    # the mean first, then the distances from it: nothing cancels, however far the mean is from 0
    """
    mean = mean(x)
    centred = x - mean
    variance = mean(centred * centred)
    y = centred * rsqrt(variance + epsilon) * scale + bias
    """,
)
_LAYER_NORM_GRAD = RowKernel(
    "layer_norm_grad",
    "x[rc] scale[c]=1 mean[r] variance[r] dy[rc] epsilon -> dx[rc] dscale[c] dbias[c]",
    """
    inverse = rsqrt(variance + epsilon)
    unit = (x - mean) * inverse
    slope = dy * scale
    dx = (slope - unit * mean(slope * unit) - mean(slope)) * inverse
    dscale = total(dy * unit)
    dbias = total(dy)
    """,
)


def _rows_from(shape: Sequence[int], attr: Callable[[str], Any]) -> tuple[int, int]:
    """The number of rows, which go over the dimensions ahead of `begin_norm_axis`, and their length."""
    return rows_before(shape, attr("begin_norm_axis"))


@layer_norm.kernel
def _(
    xp: Any, X: Array, Scale: Maybe, Bias: Maybe, epsilon: float, begin_norm_axis: int
) -> tuple[Array, Array, Array]:
    sizes = rows_before(X.shape, begin_norm_axis)
    y, mean, variance = over_rows(xp, _LAYER_NORM, sizes, x=X, scale=Scale, bias=Bias, epsilon=epsilon)
    return y.reshape(X.shape), mean, variance


@layer_norm.grad("X Scale Bias")
def layer_norm_grad(
    xp: Any,
    X: Array,
    Scale: Maybe,
    Bias: Maybe,
    Mean: Array,
    Variance: Array,
    dY: Array,
    epsilon: float,
    begin_norm_axis: int,
    wants: frozenset[str],
) -> tuple[Maybe, Maybe, Maybe]:
    sizes = rows_before(X.shape, begin_norm_axis)
    given = {"x": X, "scale": Scale, "mean": Mean, "variance": Variance, "dy": dY, "epsilon": epsilon}
    dx, dscale, dbias = over_rows(xp, _LAYER_NORM_GRAD, sizes, wants, **given)
    return None if dx is None else dx.reshape(X.shape), dscale, dbias


by_rows(layer_norm, _LAYER_NORM, _rows_from)
by_rows(layer_norm_grad, _LAYER_NORM_GRAD, _rows_from)


# ------------------------------------------------------------------ instance_norm
instance_norm = Op(
    "instance_norm",
    "X. Scale.? Bias.? -> Y SavedMean? SavedVariance?",
    attrs={"epsilon": limited(1e-5, between(0.0, 0.001))},
    version=1,
    alike=("X", "Scale", "Bias"),
)


@instance_norm.shape
def _(X: Spec) -> tuple[Spec, Spec, Spec]:
    if not 2 <= len(X.shape) <= 5:
        raise ShapeError(f"op 'instance_norm': X must have 2 to 5 dimensions, but has shape {list(X.shape)}")
    rows = X.with_shape((X.shape[0] * X.shape[1],))
    return X.with_shape(X.shape), rows, rows


# `savedvariance` is one over the deviation
_INSTANCE_NORM = RowKernel(
    "instance_norm",
    "x[ncp] scale[c]=1 bias[c]=0 epsilon -> y[ncp] savedmean[nc] savedvariance[nc]",
    """
    savedmean = mean(x)
    centred = x - savedmean
    savedvariance = rsqrt(mean(centred * centred) + epsilon)
    y = centred * savedvariance * scale + bias
    """,
    columns="p",
)
_INSTANCE_NORM_GRAD = RowKernel(
    "instance_norm_grad",
    "x[ncp] scale[c]=1 savedmean[nc] savedvariance[nc] dy[ncp] -> dx[ncp] dscale[c] dbias[c]",
    """
    unit = (x - savedmean) * savedvariance
    slope = dy * scale
    dx = (slope - unit * mean(slope * unit) - mean(slope)) * savedvariance
    dscale = total(dy * unit)
    dbias = total(dy)
    """,
    columns="p",
)


def _instances(shape: Sequence[int], attr: Callable[[str], Any] | None = None) -> tuple[int, int, int]:
    """Images, channels, and the places of each."""
    return shape[0], shape[1], math.prod(shape[2:])


def _per_row(factors: Maybe, X: Array) -> Array | float:
    """A value for each channel as one for each row of (N * C, places)."""
    return 1.0 if factors is None else factors[None].repeat(X.shape[0], axis=0).reshape(-1, 1)


@instance_norm.kernel
def _(xp: Any, X: Array, Scale: Maybe, Bias: Maybe, epsilon: float) -> tuple[Array, Array, Array]:
    given: dict[str, Any] = {"x": X, "scale": Scale, "bias": Bias, "epsilon": epsilon}
    y, mean, inverse = over_rows(xp, _INSTANCE_NORM, _instances(X.shape), **given)
    return y.reshape(X.shape), mean.reshape(-1), inverse.reshape(-1)


def _instance_gradients(X: Spec, Scale: Spec | None) -> tuple[Spec, Spec, Spec]:
    factors = X.with_shape(X.shape[1:2]) if Scale is None else Scale
    return X.with_shape(X.shape), factors, factors


@instance_norm.grad("X Scale Bias", shape=_instance_gradients)
def instance_norm_grad(
    xp: Any, X: Array, Scale: Maybe, SavedMean: Array, SavedVariance: Array, dY: Array, wants: frozenset[str]
) -> tuple[Maybe, Maybe, Maybe]:
    given = {"x": X, "scale": Scale, "savedmean": SavedMean, "savedvariance": SavedVariance, "dy": dY}
    dx, dscale, dbias = over_rows(xp, _INSTANCE_NORM_GRAD, _instances(X.shape), wants, **given)
    return None if dx is None else dx.reshape(X.shape), dscale, dbias


by_rows(instance_norm, _INSTANCE_NORM, _instances)
by_rows(instance_norm_grad, _INSTANCE_NORM_GRAD, _instances)
emits_once_more(
    instance_norm_grad,
    reads={
        "X": "X",
        "Scale": "Scale",
        "SavedMean": "SavedMean",
        "SavedVariance": "SavedVariance",
        "DY": "Y@GRAD",
    },
    incoming={"DDX": "X@GRAD", "DDScale": "Scale@GRAD", "DDBias": "Bias@GRAD"},
    writes={"DX": "X", "DScale": "Scale", "DDY": "Y@GRAD"},
)
instance_norm_grad_grad = Op(
    "instance_norm_grad_grad",
    "X Scale? SavedMean SavedVariance DY DDX? DDScale? DDBias? -> DX? DScale? DDY?",
    attrs=instance_norm.attr_defs,
    lod=None,
).derive()


@instance_norm_grad_grad.shape
def _(X: Spec, Scale: Spec | None, DY: Spec) -> tuple[Spec, Spec | None, Spec]:
    return X, Scale, DY


@instance_norm_grad_grad.kernel
def _(
    xp: Any, X: Array, Scale: Maybe, DY: Array, DDX: Maybe, DDScale: Maybe, DDBias: Maybe, epsilon: float
) -> tuple[Array, Array, Array]:
    rows = (X.shape[0] * X.shape[1], math.prod(X.shape[2:]))
    d, scale = DY.reshape(rows), _per_row(Scale, X)
    # of X, and not the saved statistics, which would count as constants in the gradient of this
    centred = X.reshape(rows)
    centred = centred - centred.mean(axis=1, keepdims=True)
    inverse = 1 / xp.sqrt((centred * centred).mean(axis=1) + X.dtype.type(epsilon))
    unit = centred * inverse[:, None]
    count = d.dtype.type(max(d.shape[1], 1))
    ddx = xp.zeros_like(d) if DDX is None else DDX.reshape(rows)
    dscale = 0 if DDScale is None else _per_row(DDScale, X)
    d_unit, ddx_unit = ((item * unit).sum(axis=1, keepdims=True) for item in (d, ddx))
    through_d, through_ddx = (_row_gradient(xp, item, unit, inverse) for item in (d, ddx))
    # what the first gradient is multiplied by in sum(ddx * dx), but for scale and inverse
    product = (ddx * through_d).sum(axis=1, keepdims=True)
    dx = (
        -scale * product * unit * inverse[:, None] / count
        - scale * inverse[:, None] / count * (d_unit * through_ddx + ddx_unit * through_d)
        + dscale * through_d
    )
    ddy = scale * through_ddx + dscale * unit + (0 if DDBias is None else _per_row(DDBias, X))
    return dx.reshape(X.shape), product.reshape(X.shape[:2]).sum(axis=0), ddy.reshape(X.shape)


# ------------------------------------------------------------------ data_norm
data_norm = Op(
    "data_norm",
    "X. BatchSize. BatchSum. BatchSquareSum. scale_w? bias? -> Y Means Scales",
    attrs={
        "epsilon": limited(1e-4, between(0.0, 0.001)),
        "slot_dim": -1,
        "summary_decay_rate": 0.9999999,
        "enable_scale_and_shift": False,
        "data_layout": "NCHW",
        "sync_stats": False,
    },
    idle=("summary_decay_rate", "sync_stats"),
    kept=ONEDNN,
    version=1,
    alike=("X", "BatchSize", "BatchSum", "BatchSquareSum", "scale_w", "bias"),
)
_SHOWN = 1e-7  # a slot whose first element is smaller was not shown


@data_norm.shape
def _(X: Spec, BatchSize: Spec, data_layout: str) -> tuple[Spec, Spec, Spec]:
    channels = X.shape[-1 if is_channels_last(data_layout) else 1]
    if channels >= 0 and BatchSize.shape != (channels,):
        raise ShapeError(
            f"op 'data_norm': X has {channels} columns but BatchSize has shape {list(BatchSize.shape)}"
        )
    numbers = X.with_shape((channels,))
    return X.with_shape(X.shape), numbers, numbers


def _shown(xp: Any, X: Array, slot_dim: int) -> Array:
    """Which elements belong to a slot that was shown: NaN was."""
    first = ~(abs(X[:, ::slot_dim]) < X.dtype.type(_SHOWN))
    return first.repeat(slot_dim, axis=1)[:, : X.shape[1]]


def _of_shown(xp: Any, values: Array, X: Array, slot_dim: int) -> Array:
    """`values` of the elements of X, zeros where their slot was not shown."""
    if slot_dim <= 0:
        return values
    shown = _shown(xp, X, slot_dim)
    return xp.where(shown, values, values.dtype.type(0))


@data_norm.kernel
def _(
    xp: Any,
    X: Array,
    BatchSize: Array,
    BatchSum: Array,
    BatchSquareSum: Array,
    scale_w: Maybe,
    bias: Maybe,
    slot_dim: int,
    enable_scale_and_shift: bool,
) -> tuple[Array, Array, Array]:
    means = BatchSum / BatchSize
    scales = xp.sqrt(BatchSize / BatchSquareSum)
    y = (X - means) * scales
    if enable_scale_and_shift and scale_w is not None and bias is not None:
        y = y * scale_w + bias
    return _of_shown(xp, y, X, slot_dim), means, scales


@data_norm.grad_rule("X scale_w bias BatchSize BatchSum BatchSquareSum")
def _(context: GradContext) -> None:
    sums = ("BatchSize", "BatchSum", "BatchSquareSum")
    inputs = {slot: context.input(slot) for slot in ("X", "scale_w", "bias")}
    inputs |= {slot: context.output(slot) for slot in ("Means", "Scales")} | {"Y@GRAD": context.out_grad("Y")}
    outputs = {slot + "@GRAD": context.in_grad(slot) for slot in ("X", "scale_w", "bias", *sums)}
    context.emit("data_norm_grad", inputs, outputs | {slot: context.input(slot) for slot in sums})


data_norm_grad = Op(
    "data_norm_grad",
    "X Means Scales scale_w? bias? Y@GRAD -> X@GRAD? BatchSize@GRAD? BatchSum@GRAD? "
    "BatchSquareSum@GRAD? scale_w@GRAD? bias@GRAD? BatchSize? BatchSum? BatchSquareSum?",
    attrs=data_norm.attr_defs,
    lod=None,
    opaque="it writes the sums of the batches, too",
    updates=("BatchSize", "BatchSum", "BatchSquareSum"),
)


@data_norm_grad.shape
def _(X: Spec, Means: Spec) -> tuple[Spec, ...]:
    return (X.with_shape(X.shape), *(Means.with_shape(Means.shape) for _ in range(5)))


@data_norm_grad.kernel
def _(
    xp: Any,
    X: Array,
    Means: Array,
    Scales: Array,
    scale_w: Maybe,
    bias: Maybe,
    dY: Array,
    BatchSize: Maybe,
    BatchSum: Maybe,
    BatchSquareSum: Maybe,
    epsilon: float,
    slot_dim: int,
    enable_scale_and_shift: bool,
) -> tuple[Maybe, ...]:
    scaled = enable_scale_and_shift and scale_w is not None
    factor = Scales * scale_w if scaled else Scales
    centred = X - Means
    dY = _of_shown(xp, dY, X, slot_dim)
    count, total, square = _summaries(xp, X, centred, slot_dim, epsilon)
    # the summaries go out as they came: an optimizer moves them by the "gradients" count, total and square
    return (
        dY * factor,
        count,
        total,
        square,
        (dY * centred * Scales).sum(axis=0) if scaled else None,
        dY.sum(axis=0) if scaled else None,
        BatchSize,
        BatchSum,
        BatchSquareSum,
    )


def _summaries(
    xp: Any, X: Array, centred: Array, slot_dim: int, epsilon: float
) -> tuple[Array, Array, Array]:
    """Summands of one batch for the number, the sum and the sum of squares of each column; with slots their
    means.
    """
    if slot_dim <= 0:
        count = xp.full(X.shape[1], len(X), X.dtype)
        return count, X.sum(axis=0), (centred * centred).sum(axis=0) + count * X.dtype.type(epsilon)
    shown = _shown(xp, X, slot_dim)
    count = shown.sum(axis=0).astype(X.dtype)
    some = xp.maximum(count, 1)
    square = _of_shown(xp, centred * centred, X, slot_dim).sum(axis=0)
    square = xp.where(count > 0, square / some + count * X.dtype.type(epsilon), square)
    return xp.minimum(count, 1), _of_shown(xp, X, X, slot_dim).sum(axis=0) / some, square


# ------------------------------------------------------------------ lrn
lrn = Op(
    "lrn",
    "X. -> Out MidOut",
    attrs={
        "n": limited(5, above(0)),
        "k": limited(2.0, above(0.0)),
        "alpha": limited(1e-4, above(0.0)),
        "beta": limited(0.75, above(0.0)),
        "data_format": "AnyLayout",
        "is_test": False,
    },
    idle=("is_test",),
    kept=ONEDNN,
)


@lrn.shape
def _(X: Spec, n: int) -> tuple[Spec, Spec]:
    if len(X.shape) != 4:
        raise ShapeError(f"op 'lrn': X must have 4 dimensions, but has shape {list(X.shape)}")
    if n < 1 or n % 2 == 0:
        raise ShapeError(f"op 'lrn': n should be positive odd value, but is {n}")
    return X.with_shape(X.shape), X.with_shape(X.shape)


def _window_sums(xp: Any, values: Array, n: int, axis: int) -> Array:
    """For each channel the sum over the n channels around it."""
    moved = xp.moveaxis(values, axis, 0)
    out = moved.copy()
    for shift in range(1, n // 2 + 1):
        out[shift:] += moved[:-shift]
        out[:-shift] += moved[shift:]
    return xp.moveaxis(out, 0, axis)


def _channel_axis(data_format: str) -> int:
    return 3 if is_channels_last(data_format) else 1


@lrn.kernel
def _(
    xp: Any, X: Array, n: int, k: float, alpha: float, beta: float, data_format: str
) -> tuple[Array, Array]:
    kind = X.dtype.type
    middle = xp.ascontiguousarray(_window_sums(xp, X * X, n, _channel_axis(data_format))) * kind(
        alpha
    ) + kind(k)
    return X * middle ** kind(-beta), middle


@lrn.grad("X")
def _(
    xp: Any,
    X: Array,
    Out: Array,
    MidOut: Array,
    dOut: Array,
    n: int,
    alpha: float,
    beta: float,
    data_format: str,
) -> Array:
    kind = X.dtype.type
    shares = _window_sums(xp, dOut * Out / MidOut, n, _channel_axis(data_format))
    return dOut * MidOut ** kind(-beta) - X * shares * kind(2 * alpha * beta)


# ------------------------------------------------------------------ norm
norm = Op(
    "norm",
    "X. -> Out Norm",
    attrs={"axis": required(AttrType.INT), "epsilon": 1e-10},
    lod=None,
    idle=("is_test",),
)


@norm.shape
def _(X: Spec, axis: int) -> tuple[Spec, Spec]:
    if not -len(X.shape) <= axis < len(X.shape):
        raise ShapeError(f"op 'norm': axis is {axis}, but X has shape {list(X.shape)}")
    dims = list(X.shape)
    dims[axis] = 1
    return X.with_shape(X.shape), X.with_shape(dims)


@norm.kernel
def _(xp: Any, X: Array, axis: int, epsilon: float) -> tuple[Array, Array]:
    squares = (X * X).sum(axis=axis, keepdims=True, dtype=X.dtype)
    length = xp.sqrt(squares + X.dtype.type(epsilon))
    return X / length, length


@norm.grad("X")
def _(X: Array, Norm: Array, dOut: Array, axis: int) -> Array:
    share = (X * dOut).sum(axis=axis, keepdims=True, dtype=X.dtype) / (Norm * Norm)
    return (dOut - X * share) / Norm


# ------------------------------------------------------------------ spectral_norm
spectral_norm = Op("spectral_norm", "Weight. U. V. -> Out", attrs={"dim": 0, "power_iters": 1, "eps": 1e-12})


@spectral_norm.shape
def _(Weight: Spec, U: Spec, V: Spec, dim: int, power_iters: int) -> Spec:
    if power_iters < 0:
        raise ShapeError(f"op 'spectral_norm': power_iters is {power_iters}, wanted 0 or more")
    if not 2 <= len(Weight.shape) <= 5 or dim not in (0, 1):
        raise ShapeError(
            f"op 'spectral_norm': Weight must have 2 to 5 dimensions and dim be 0 or 1, but they are "
            f"{list(Weight.shape)} and {dim}"
        )
    height = Weight.shape[dim]
    width = math.prod(Weight.shape) // max(Weight.shape[dim], 1)
    if not (fits(U.shape, (height,)) and fits(V.shape, (width,))):
        raise ShapeError(
            f"op 'spectral_norm': U and V must have shapes [{height}] and [{width}], but have "
            f"{list(U.shape)} and {list(V.shape)}"
        )
    return Weight.with_shape(Weight.shape)


def _largest_singular(
    xp: Any, matrix: Array, u: Array, v: Array, power_iters: int, eps: float
) -> tuple[Array, Array, Array]:
    """The largest singular value and its vectors, by power iteration from u and v."""
    for _ in range(power_iters):
        v = matrix.T @ u
        v = v / (xp.sqrt((v * v).sum()) + v.dtype.type(eps))
        u = matrix @ v
        u = u / (xp.sqrt((u * u).sum()) + u.dtype.type(eps))
    return u @ (matrix @ v), u, v


def _as_matrix(xp: Any, weight: Array, dim: int) -> Array:
    return xp.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1)


@spectral_norm.kernel
def _(xp: Any, Weight: Array, U: Array, V: Array, dim: int, power_iters: int, eps: float) -> Array:
    sigma, _, _ = _largest_singular(xp, _as_matrix(xp, Weight, dim), U, V, power_iters, eps)
    return Weight / sigma


@spectral_norm.grad("Weight")
def _(
    xp: Any, Weight: Array, U: Array, V: Array, dOut: Array, dim: int, power_iters: int, eps: float
) -> Array:
    sigma, u, v = _largest_singular(xp, _as_matrix(xp, Weight, dim), U, V, power_iters, eps)
    shape = [Weight.shape[dim], *(size for i, size in enumerate(Weight.shape) if i != dim)]
    outer = xp.moveaxis(xp.outer(u, v).reshape(shape), 0, dim)
    # the derivative is (dOut - outer * sum(dOut * Weight) / sigma) / sigma; this is what PaddlePaddle 1.8.5
    # computes
    return dOut * (1 - outer * (Weight.sum() / sigma)) / sigma


# ------------------------------------------------------------------ affine_channel
affine_channel = Op(
    "affine_channel",
    "X. Scale. Bias. -> Out",
    attrs={"data_layout": limited("AnyLayout", LAYOUT)},
    alike=("X", "Scale", "Bias"),
)


@affine_channel.shape
def _(X: Spec, Scale: Spec, Bias: Spec, data_layout: str) -> Spec:
    channels = X.shape[-1 if is_channels_last(data_layout) else min(1, len(X.shape) - 1)]
    for slot, spec in (("Scale", Scale), ("Bias", Bias)):
        if len(spec.shape) != 1 or (spec.shape[0] != channels and -1 not in (spec.shape[0], channels)):
            raise ShapeError(
                f"op 'affine_channel': {slot} has shape {list(spec.shape)}, wanted the {channels} channels "
                f"of X{list(X.shape)}"
            )
    return X


def _per_channel(values: Array, rank: int, data_layout: str) -> Array:
    # the channels come last in every layout but this one, so in AnyLayout as well
    return values.reshape(-1, *(1,) * (rank - 2)) if data_layout == "NCHW" else values


@affine_channel.kernel
def _(X: Array, Scale: Array, Bias: Array, data_layout: str) -> Array:
    return X * _per_channel(Scale, X.ndim, data_layout) + _per_channel(Bias, X.ndim, data_layout)


def _affine_gradients(X: Spec, Scale: Spec) -> tuple[Spec, Spec, Spec]:
    return X.with_shape(X.shape), Scale, Scale


@affine_channel.grad("X Scale Bias", shape=_affine_gradients)
def _(
    X: Array, Scale: Array, dOut: Array, data_layout: str, wants: frozenset[str]
) -> tuple[Maybe, Maybe, Maybe]:
    channel = 1 if data_layout == "NCHW" else X.ndim - 1
    axes = tuple(axis for axis in range(X.ndim) if axis != channel)
    return (
        dOut * _per_channel(Scale, X.ndim, data_layout) if "X@GRAD" in wants else None,
        (dOut * X).sum(axis=axes, dtype=X.dtype) if "Scale@GRAD" in wants else None,
        dOut.sum(axis=axes, dtype=X.dtype) if "Bias@GRAD" in wants else None,
    )
