"""Normalisations of 2.x, with scales, shifts and running figures that the caller has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_variable
from fluidlite.paddle.nn.functional.padding import pad as padded
from fluidlite.paddle.nn.functional.pooling import avg_pool2d, avg_pool3d
from fluidlite.paddle.tensor.creation import full_like
from fluidlite.paddle.tensor.linalg import norm as p_norm
from fluidlite.paddle.tensor.manipulation import reshape, squeeze, unsqueeze
from fluidlite.paddle.tensor.math import maximum, pow, scale
from fluidlite.paddle.tensor.shapes import as_list, constant, shape_of

__all__ = ["batch_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize"]

_HALF = (VarType.FP16, VarType.BF16)


def _figures(x: Variable) -> VarType:
    """The dtype of means and variances."""
    return VarType.FP32 if x.dtype in _HALF else x.dtype


def _for_each(channels: Variable, x: Variable, value: float) -> Variable:
    """`value` for each of `channels`, whose number may be that of the run."""
    if min(channels.shape) < 0:
        return full_like(channels, value, _figures(x))
    return constant(channels.shape, _figures(x), value)


def batch_norm(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Variable:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each channel: with the batch's mean and
    variance in `training`, which then move the running ones (momentum * old + (1 - momentum) * new), else
    with those.

    use_global_stats: True for the running ones in training too, False for the batch's in evaluation too.
    """
    need_variable(x, "input", "batch_norm")
    frozen = not training if use_global_stats is None else use_global_stats
    # asked for by name, the batch's figures are taken in evaluation as well
    by_batch = use_global_stats is not None and not use_global_stats
    inputs = {
        "X": [x],
        "Mean": [running_mean],
        "Variance": [running_var],
        "Scale": [_for_each(running_mean, x, 1.0) if weight is None else weight],
        "Bias": [_for_each(running_mean, x, 0.0) if bias is None else bias],
    }
    attrs = {
        "momentum": momentum,
        "epsilon": epsilon,
        "is_test": not training,
        "data_layout": "NHWC" if data_format.endswith("C") and len(data_format) > 2 else "NCHW",
        "use_global_stats": frozen,
        "trainable_statistics": by_batch,
    }
    extra = {"SavedMean": _figures(x), "SavedVariance": _figures(x)}
    written = {"MeanOut": running_mean, "VarianceOut": running_var}
    return append(
        "batch_norm", inputs, attrs, dtype=x.dtype, slot="Y", name=name, extra=extra, written=written
    )


def layer_norm(
    x: Variable,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Variable:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimensions, those of
    `normalized_shape`.
    """
    need_variable(x, "x", "layer_norm")
    shape = [int(size) for size in as_list(normalized_shape)]
    begin = len(x.shape) - len(shape)
    if begin < 0 or list(x.shape[begin:]) != shape:
        raise ValueError(
            f"Given normalized_shape is {shape}, expected input with shape [*, {shape}], but got input shape "
            f"{list(x.shape)}"
        )
    inputs = {"X": [x]}
    # the op takes them flat
    inputs |= {slot: [var] for slot, var in (("Scale", weight), ("Bias", bias)) if var is not None}
    attrs = {"epsilon": epsilon, "begin_norm_axis": begin}
    extra = {"Mean": _figures(x), "Variance": _figures(x)}
    return append("layer_norm", inputs, attrs, dtype=x.dtype, slot="Y", name=name, extra=extra)


def instance_norm(
    x: Variable,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: Variable | None = None,
    bias: Variable | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-5,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of each sample. `running_mean`,
    `running_var`, `use_input_stats` and `momentum` change nothing, as in 2.6.2.
    """
    need_variable(x, "x", "instance_norm")
    inputs = {"X": [x]}
    if weight is not None and bias is not None:
        inputs |= {"Scale": [weight], "Bias": [bias]}
    extra = {"SavedMean": _figures(x), "SavedVariance": _figures(x)}
    return append("instance_norm", inputs, {"epsilon": eps}, dtype=x.dtype, slot="Y", name=name, extra=extra)


def local_response_norm(
    x: Variable,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """x / (k + alpha * mean of x**2 over `size` channels around)**beta (Krizhevsky et al., 2012)."""
    if data_format not in ("NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC"):
        raise ValueError(
            f"data_format should be in one of [NCL, NCHW, NCDHW, NLC, NHWC, NDHWC]: {data_format}"
        )
    if len(x.shape) < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input, but got {len(x.shape)} dimensions")
    last = data_format.endswith("C")
    around = [size // 2, (size - 1) // 2]
    squared = unsqueeze(x * x, [1])
    if len(x.shape) == 3:
        # a picture whose height (or, with channels last, width) is the channels
        sides, kernel = ([*around, 0, 0], [1, size]) if last else ([0, 0, *around], [size, 1])
        means = squeeze(avg_pool2d(padded(squared, sides), kernel, 1), [1])
    else:
        # a 0 keeps a dimension, whose size the run alone may know
        flat = [0, 0, 0, -1, x.shape[-1]] if last else [0, 0, 0, 0, -1]
        sides, kernel = (
            ([*around, 0, 0, 0, 0], [1, 1, size]) if last else ([0, 0, 0, 0, *around], [size, 1, 1])
        )
        pooled = avg_pool3d(padded(reshape(squared, flat), sides, data_format="NCDHW"), kernel, 1)
        dims = [0, 0, *x.shape[2:]] if x.shape[1:].count(-1) < 2 else shape_of(x)
        means = reshape(squeeze(pooled, [1]), dims)
    return x / pow(scale(means, alpha, k), beta)


def normalize(
    x: Variable, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None
) -> Any:
    """x / max(its p-norm along `axis`, epsilon)."""
    along = 0 if len(x.shape) == 1 else axis
    length = p_norm(x, float(p), along, keepdim=True)
    return x / maximum(length, constant([1], x.dtype, epsilon))
