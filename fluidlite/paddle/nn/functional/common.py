"""Functions of 2.x: products, random zeros, tables, windows, sizes of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.neural.conv import numbers
from fluidlite.paddle.build import append, need_count, need_dims, need_variable
from fluidlite.paddle.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from fluidlite.paddle.nn.functional.windows import LAYOUTS
from fluidlite.paddle.tensor.creation import full
from fluidlite.paddle.tensor.logic import equal
from fluidlite.paddle.tensor.manipulation import reshape
from fluidlite.paddle.tensor.math import cast, clip, scale, sqrt
from fluidlite.paddle.tensor.random import uniform
from fluidlite.paddle.tensor.reduction import sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import as_list, number_tensors, shape_of

__all__ = [
    "alpha_dropout",
    "bilinear",
    "cosine_similarity",
    "dropout",
    "dropout2d",
    "dropout3d",
    "embedding",
    "interpolate",
    "label_smooth",
    "linear",
    "one_hot",
    "unfold",
    "upsample",
]


def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """x @ weight + bias, with weights [in, out]."""
    helper = LayerHelper("linear", name=name)
    kinds = {"trans_x": False, "trans_y": False}
    product = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(
        type="matmul_v2", inputs={"X": [x], "Y": [weight]}, outputs={"Out": [product]}, attrs=kinds
    )
    if bias is None:
        return product
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(
        type="elementwise_add",
        inputs={"X": [product], "Y": [bias]},
        outputs={"Out": [out]},
        attrs={"axis": -1},
    )
    return out


def bilinear(
    x1: Variable, x2: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None
) -> Variable:
    """x1 @ weight[k] @ x2 for each k, plus bias [1, k]; [batch, k]."""
    inputs = {"X": [x1], "Y": [x2], "Weight": [weight]}
    if bias is not None:
        inputs["Bias"] = [bias]
    return append("bilinear_tensor_product", inputs, dtype=x1.dtype, layer="bilinear", name=name)


def embedding(
    x: Variable,
    weight: Variable,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """The rows of `weight` that x names; zeros for `padding_idx`. `sparse` gives a gradient of those rows
    alone.
    """
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ValueError(f"padding_idx must be within [-{rows}, {rows}), but got {padding_idx}")
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += rows
    attrs = {
        "is_sparse": sparse,
        "is_distributed": False,
        "remote_prefetch": False,
        "padding_idx": padding_idx,
    }
    inputs = {"W": [weight], "Ids": [x]}
    return append("lookup_table_v2", inputs, attrs, dtype=weight.dtype, layer="embedding", name=name)


def one_hot(x: Variable, num_classes: Any, name: str | None = None) -> Variable:
    """A last dimension of `num_classes` numbers (or a Variable): 1 at the class that x names, else 0."""
    inputs = {"X": [x]}
    attrs = {"allow_out_of_range": False, "dtype": VarType.FP32}
    if isinstance(num_classes, Variable):
        num_classes.stop_gradient = True
        inputs["depth_tensor"] = [num_classes]
    else:
        attrs["depth"] = num_classes
    return append("one_hot_v2", inputs, attrs, dtype="float32", stop_gradient=True)


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, name: str | None = None
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior_dist, by default the same for all classes."""
    if not 0 <= epsilon <= 1:
        raise ValueError("The value of epsilon must be between 0 and 1.")
    inputs = {"X": [label]}
    if prior_dist is not None:
        inputs["PriorDist"] = [prior_dist]
    label.stop_gradient = True
    return append("label_smooth", inputs, {"epsilon": float(epsilon)}, dtype=label.dtype, name=name)


def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """The cosine of the angle between x1 and x2 along `axis`; `eps` bounds the product of the norms."""
    product = sum(x1 * x2, axis)
    squares = sum(x1 * x1, axis) * sum(x2 * x2, axis)
    return product / sqrt(clip(squares, min=eps * eps))


# ---------------------------------------------------------------------- random zeros
_MODES = ("downscale_in_infer", "upscale_in_train")


def dropout(
    x: Variable,
    p: Any = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Zeros with the probability `p` in training, the rest divided by 1 - p (or, with "downscale_in_infer",
    everything times 1 - p after training). `axis` are the dimensions in which the zeros differ.
    """
    if not isinstance(p, Variable) and not 0 <= p <= 1:
        raise ValueError("p argument should between 0 and 1")
    if mode not in _MODES:
        raise ValueError("mode argument should be 'downscale_in_infer' or 'upscale_in_train'")
    if isinstance(p, Variable):
        axes = list(range(len(x.shape))) if axis is None else as_list(axis)
        return _along(x, reshape(cast(p, x.dtype), [1]), axes, training, mode)
    if p == 0:
        return x
    if axis is not None:
        return _along(x, p, as_list(axis), training, mode)
    attrs = {
        "dropout_prob": p,
        "is_test": not training,
        "fix_seed": False,
        "seed": 0,
        # the op's name for it
        "dropout_implementation": "downgrade_in_infer" if mode == _MODES[0] else mode,
    }
    extra = {"Mask": VarType.UINT8}
    return append("dropout", {"X": [x]}, attrs, dtype=x.dtype, name=name, extra=extra)


def _along(x: Variable, p: Any, axes: list[int], training: bool, mode: str) -> Variable:
    """`dropout` whose zeros are the same along all dimensions but `axes`; p may be a Variable of one
    element in the dtype of x.
    """
    if len(axes) > len(x.shape) or not all(0 <= axis < len(x.shape) for axis in axes):
        raise ValueError(f"axis {axes} should be dimensions of x, which has {len(x.shape)} dimensions")
    upscaled = mode == "upscale_in_train"
    if not training and upscaled:
        return x
    if not training:
        return x * (1 - p) if isinstance(p, Variable) else scale(x, 1 - p)
    if isinstance(p, Variable):
        is_all = equal(p, full([1], 1.0, p.dtype))
        scaled = x / where(is_all, full([1], 1.0, p.dtype), 1 - p) if upscaled else x
    elif p == 1:
        return scale(x, 0.0)
    else:
        scaled = scale(x, 1 / (1 - p)) if upscaled else x
    shape = [size if place in axes else 1 for place, size in enumerate(x.shape)]
    if any(size < 0 for size in shape):
        shape = _known(x, shape)
    limit = cast(p, "float32") if isinstance(p, Variable) else full([1], p, "float32")
    kept = uniform(shape, "float32", 0.0, 1.0) >= limit
    return scaled * cast(kept, x.dtype)


def _known(x: Variable, shape: list[int]) -> list[Any]:
    """The shape with tensors in the place of sizes that only the run knows."""

    found = shape_of(x)
    whole = [found[place] if size < 0 else size for place, size in enumerate(shape)]
    return number_tensors(whole, shape=())


def dropout2d(
    x: Variable, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """`dropout` of whole channels of images."""
    return _channels(x, p, training, data_format, ("NCHW", "NHWC"), name)


def dropout3d(
    x: Variable, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None
) -> Variable:
    """`dropout` of whole channels of volumes."""
    return _channels(x, p, training, data_format, ("NCDHW", "NDHWC"), name)


def _channels(
    x: Variable, p: float, training: bool, data_format: str, known: Sequence[str], name: str | None
) -> Variable:
    if len(x.shape) != len(data_format):
        raise ValueError(f"dimensions of x should be {len(data_format)}, but received {len(x.shape)}")
    if data_format not in known:
        raise ValueError(f"Attr(data_format) should be one of {', '.join(known)}. Received: {data_format}")
    axes = [0, len(x.shape) - 1 if data_format.endswith("C") else 1]
    return dropout(x, p, axes, training, name=name)


_ALPHA = 1.6732632423543772848170429916717 * 1.0507009873554804934193349852946


def alpha_dropout(x: Variable, p: float = 0.5, training: bool = True, name: str | None = None) -> Variable:
    """`dropout` that keeps mean and variance of what `selu` gives: to its lowest value in the place of zeros,
    then scaled and shifted (Klambauer et al., 2017).
    """
    if not 0 <= p <= 1:
        raise ValueError("p argument should between 0 and 1")
    if not training:
        return x
    if p == 1:
        return scale(x, 0.0)
    low = -_ALPHA
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    shape = list(x.shape) if all(size >= 0 for size in x.shape) else _known(x, list(x.shape))
    kept = cast(uniform(shape, "float32", 0.0, 1.0) >= full([1] if shape else [], p, "float32"), x.dtype)
    mixed = x * kept + scale(1 - kept, low)
    return scale(mixed, a, -a * low * p)


# ---------------------------------------------------------------------- windows and sizes
def unfold(
    x: Variable,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images, [batch, channels * window, number of windows]."""
    if len(x.shape) != 4:
        raise AssertionError("input should be the format of [N, C, H, W]")
    given = [paddings] * 4 if isinstance(paddings, Integral) else list(paddings)
    attrs = {
        "kernel_sizes": numbers(kernel_sizes, 2, "kernel_sizes"),
        "strides": numbers(strides, 2, "strides"),
        "paddings": given * 2 if len(given) == 2 else given,
        "dilations": numbers(dilations, 2, "dilations"),
    }
    return append("unfold", {"X": [x]}, attrs, dtype=x.dtype, slot="Y", name=name)


def sequence_mask(
    x: Variable, maxlen: Any = None, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """1 for the first x places of a row of `maxlen` (the largest x), 0 for the others."""
    kind = to_vartype(dtype)
    inputs, attrs = {"X": [x]}, {"out_dtype": int(kind)}
    if isinstance(maxlen, Variable):
        inputs["MaxLenTensor"] = [maxlen]
    else:
        attrs["maxlen"] = -1 if maxlen is None else maxlen
    return append("sequence_mask", inputs, attrs, dtype=kind, slot="Y", name=name, stop_gradient=True)


# mode -> dimensions of x that it takes
_MODES_OF_SIZE = {
    "linear": (3,),
    "bilinear": (4,),
    "bicubic": (4,),
    "trilinear": (5,),
    "nearest": (4, 5),
    "area": (3, 4, 5),
}


def interpolate(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """x with its spatial dimensions in another size: `size`, or `scale_factor` times their own; one number,
    one a dimension, or a Variable.

    mode: "nearest", "linear" (one dimension), "bilinear", "bicubic", "trilinear" or "area" (means).
    align_corners: the first and the last pixels stay where they are; otherwise, for linear modes, align_mode
        says how pixels lie on the grid: 0 with their centres, 1 with their corners.
    """
    dims = len(x.shape)
    if mode.lower() not in _MODES_OF_SIZE:
        raise ValueError(f"The 'mode' of interpolate should be one of {', '.join(_MODES_OF_SIZE)}: {mode}")
    if dims not in _MODES_OF_SIZE[mode.lower()]:
        raise ValueError(f"'{mode}' takes x of {_MODES_OF_SIZE[mode.lower()]} dimensions, but x has {dims}")
    if size is None and scale_factor is None:
        raise ValueError("One of size and scale_factor must not be None.")
    if align_corners and mode.lower() == "nearest":
        raise ValueError(
            "align_corners option can only be set with the interpolating modes, not with nearest"
        )
    if mode.lower() == "area":
        return _areas(x, size, scale_factor, dims - 2, name)
    attrs: dict[str, Any] = {
        "out_d": -1,
        "out_h": -1,
        "out_w": -1,
        "interp_method": mode.lower(),
        "align_corners": align_corners,
        "align_mode": align_mode,
        "data_layout": "NHWC" if _is_last(data_format, dims - 2) else "NCHW",
    }
    inputs = {"X": [x]}
    _put_size(inputs, attrs, size, scale_factor, dims - 2)
    return append(f"{mode.lower()}_interp_v2", inputs, attrs, dtype=x.dtype, name=name)


def _is_last(data_format: str, dims: int) -> bool:
    """As `windows.is_last`, in small letters, too, and of lines under another name."""
    layout = data_format.upper()
    known = (("NCW", "NWC"), *list(LAYOUTS.values())[1:])[dims - 1]
    if layout not in known:
        raise ValueError(f"'data_format' in interpolate must be one of {known}, but is {data_format!r}")
    return layout == known[1]


def _put_size(
    inputs: dict[str, list[Variable]], attrs: dict[str, Any], size: Any, factor: Any, dims: int
) -> None:
    """The wanted size, as numbers or tensors of the op."""
    names = ("out_d", "out_h", "out_w")[3 - dims :]
    attrs["scale"] = []
    if isinstance(size, Variable):
        need_dims(size, "size", "interpolate", 1)
        need_count(size, "size", "interpolate", dims)
        inputs["OutSize"] = [size]
    elif size is not None:
        given = [size] * dims if isinstance(size, Integral) else list(size)
        if len(given) != dims:
            raise ValueError(f"size needs {dims} numbers, but is {size}")
        if any(isinstance(length, Variable) for length in given):
            inputs["SizeTensor"] = number_tensors(given)
        attrs |= {
            name: -1 if isinstance(length, Variable) else int(length)
            for name, length in zip(names, given, strict=True)
        }
    elif isinstance(factor, Variable):
        need_dims(factor, "scale_factor", "interpolate", 1)
        inputs["Scale"] = [factor]
    else:
        given = [factor] * dims if isinstance(factor, Real) else list(factor)
        if len(given) != dims:
            raise ValueError(f"scale_factor needs {dims} numbers, but is {factor}")
        attrs["scale"] = [float(one) for one in given]


def _areas(x: Variable, size: Any, factor: Any, dims: int, name: str | None) -> Variable:

    if size is None:
        factors: list[Any] = [factor] * dims if isinstance(factor, Real) else list(factor)
        size = [int(length * by) for length, by in zip(x.shape[2:], factors, strict=True)]
    pools: dict[int, Callable[..., Variable]] = {
        1: adaptive_avg_pool1d,
        2: adaptive_avg_pool2d,
        3: adaptive_avg_pool3d,
    }
    return pools[dims](x, size, name=name)


def upsample(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """`interpolate` under its other name."""
    need_variable(x, "x", "upsample")
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)
