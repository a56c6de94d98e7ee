"""ONNX for ops of neural networks: convolution, pooling, normalisation, look-ups, dropout, images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports


def _check_layout(op: OpView) -> None:
    layout = op.attr("data_format", op.attr("data_layout", "NCHW"))
    if layout not in ("NCHW", "NCDHW", "AnyLayout", "NCL"):
        raise op.error(f"the layout is {layout}, but ONNX has the channels first")


def _padding(op: OpView) -> dict[str, Any]:
    """The attributes that say what is put around an image."""
    algorithm = op.attr("padding_algorithm", "EXPLICIT")
    if algorithm == "SAME":
        return {"auto_pad": "SAME_UPPER"}
    given = [int(size) for size in op.attr("paddings")]
    rank = len(op.attr("strides"))
    if algorithm == "VALID":
        given = [0] * rank
    # one for each dimension, or before and after for each
    pairs = [(size, size) for size in given] if len(given) == rank else list(zip(given[::2], given[1::2]))
    return {"pads": [before for before, _ in pairs] + [after for _, after in pairs]}


@exports("conv2d", "depthwise_conv2d", "conv3d")
def _conv(op: OpView) -> None:
    _check_layout(op)
    inputs = [op.x("Input"), op.x("Filter"), *([op.x("Bias")] if op.has("Bias") else [])]
    made = op.add(
        "Conv",
        *inputs,
        strides=list(op.attr("strides")),
        dilations=list(op.attr("dilations", [1] * len(op.attr("strides")))),
        group=int(op.attr("groups", 1)),
        kernel_shape=list(op.shape("Filter")[2:]),
        **_padding(op),
    )
    op.put(made, "Output")


@exports("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _conv_transpose(op: OpView) -> None:
    _check_layout(op)
    padding = _padding(op)
    if "pads" not in padding:
        raise op.error("padding SAME")
    strides, window = list(op.attr("strides")), list(op.shape("Filter")[2:])
    dilations = list(op.attr("dilations", [1] * len(strides)))
    made = op.add(
        "ConvTranspose",
        op.x("Input"),
        op.x("Filter"),
        strides=strides,
        dilations=dilations,
        group=int(op.attr("groups", 1)),
        kernel_shape=window,
        output_padding=_beyond(op, padding["pads"], strides, dilations, window),
        **padding,
    )
    op.put(made, "Output")


def _beyond(op: OpView, pads: list[int], strides: list[int], dilations: list[int], window: list[int]) -> Any:
    """Rows and columns beyond what strides and windows give, where the output's size was asked for."""
    wanted = list(op.attr("output_size", []))
    if not wanted:
        return list(op.attr("output_padding", [])) or None
    rank = len(strides)
    sizes = op.shape("Input")[2:]
    if -1 in sizes:
        raise op.error("the size of its output was given, but that of its input is not known")
    least = [
        (sizes[at] - 1) * strides[at] + dilations[at] * (window[at] - 1) + 1 - pads[at] - pads[at + rank]
        for at in range(rank)
    ]
    return [int(size) - low for size, low in zip(wanted, least, strict=True)]


@exports("pool2d", "pool3d", "max_pool2d_with_index", "max_pool3d_with_index")
def _pool(op: OpView) -> None:
    _check_layout(op)
    kind = "Max" if op.attr("pooling_type", "max") == "max" else "Average"
    window = [int(size) for size in op.attr("ksize")]
    adaptive = op.attr("adaptive", False)
    if op.attr("global_pooling", False) or (adaptive and set(window) == {1}):
        op.put(op.add(f"Global{kind}Pool", op.x()))
        return
    attrs: dict[str, Any] = {"strides": list(op.attr("strides")), **_padding(op)}
    if adaptive:
        sizes = op.shape()[2:]
        if -1 in sizes or any(size % out for size, out in zip(sizes, window, strict=True)):
            raise op.error(f"adaptive windows from {list(sizes)} to {window} are not all of the same size")
        window = [size // out for size, out in zip(sizes, window, strict=True)]
        attrs = {"strides": window}
    if kind == "Average":
        attrs["count_include_pad"] = int(not op.attr("exclusive", True))
    ceil = int(bool(op.attr("ceil_mode", False)))
    if ceil and "pads" in attrs:
        _check_last_window(op, attrs["strides"], attrs["pads"])
    op.put(op.add(f"{kind}Pool", op.x(), kernel_shape=window, ceil_mode=ceil, **attrs))


def _check_last_window(op: OpView, strides: list[int], pads: list[int]) -> None:
    """ONNX leaves a window out that begins behind the image, and fluid does not."""
    pairs = zip(op.shape()[2:], op.shape("Out")[2:], strides, pads[: len(strides)], strict=True)
    if any(size > 0 and (out - 1) * stride >= size + before for size, out, stride, before in pairs):
        raise op.error("ceil_mode is set, and its last window begins outside of the image")


# ----------------------------------------------------------------------- normalisation
@exports("batch_norm", "sync_batch_norm", "inplace_abn")
def _batch_norm(op: OpView) -> None:
    _check_layout(op)
    inputs = [op.x(slot) for slot in ("X", "Scale", "Bias", "Mean", "Variance")]
    op.put(op.add("BatchNormalization", *inputs, epsilon=float(op.attr("epsilon", 1e-5))), "Y")


@exports("instance_norm")
def _instance_norm(op: OpView) -> None:
    inputs = [op.x(slot) for slot in ("X", "Scale", "Bias")]
    op.put(op.add("InstanceNormalization", *inputs, epsilon=float(op.attr("epsilon", 1e-5))), "Y")


@exports("layer_norm")
def _layer_norm(op: OpView) -> None:
    axis = int(op.attr("begin_norm_axis", 1))
    inside = op.shape()[axis:]
    if -1 in inside:
        raise op.error(f"the shape {list(op.shape())} is unknown from axis {axis} on")
    shape = op.ints(*inside)
    scale = op.graph.constant(np.ones(inside), op.dtype())
    if op.has("Scale"):
        scale = op.add("Reshape", op.x("Scale"), shape)
    bias = [op.add("Reshape", op.x("Bias"), shape)] if op.has("Bias") else []
    epsilon = float(op.attr("epsilon", 1e-5))
    op.put(op.add("LayerNormalization", op.x(), scale, *bias, axis=axis, epsilon=epsilon), "Y")


@exports("group_norm")
def _group_norm(op: OpView) -> None:
    _check_layout(op)
    groups, channels = int(op.attr("groups", 1)), op.shape()[1]
    # groups as the channels of an instance normalisation, and back
    inside = op.add("Reshape", op.x(), op.ints(0, groups, -1))
    one, zero = (op.graph.constant(np.full(groups, value), op.dtype()) for value in (1.0, 0.0))
    epsilon = float(op.attr("epsilon", 1e-5))
    made = op.add("InstanceNormalization", inside, one, zero, epsilon=epsilon)
    made = op.add("Reshape", made, op.add("Shape", op.x()))
    shape = op.ints(channels, *[1] * (op.rank() - 2))
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if op.has(slot):
            made = op.add(kind, made, op.add("Reshape", op.x(slot), shape))
    op.put(made, "Y")


@exports("dropout")
def _dropout(op: OpView) -> None:
    if op.attr("dropout_implementation", "downgrade_in_infer") == "upscale_in_train":
        op.put(op.add("Identity", op.x()))
    else:
        op.put(op.add("Mul", op.x(), op.number(1.0 - op.attr("dropout_prob", 0.5))))


# ------------------------------------------------------------------------------------------------ look-ups
@exports("lookup_table", "lookup_table_v2")
def _lookup(op: OpView) -> None:
    ids = op.x("Ids")
    if op.type == "lookup_table":
        ids = op.add("Squeeze", ids, op.ints(op.rank("Ids") - 1))
    made = op.add("Gather", op.x("W"), ids, axis=0)
    padding = int(op.attr("padding_idx", -1))
    if padding >= 0:
        hidden = op.add("Equal", ids, op.graph.constant(padding, op.dtype("Ids")))
        hidden = op.add("Unsqueeze", hidden, op.ints(-1))
        made = op.add("Where", hidden, op.number(0.0, "W"), made)
    op.put(made)


# ------------------------------------------------------------------------------------------------ images
_MODES = {
    "nearest": "nearest",
    "bilinear": "linear",
    "bicubic": "cubic",
    "trilinear": "linear",
    "linear": "linear",
}
_INTERPOLATIONS = [f"{kind}_interp{version}" for kind in _MODES for version in ("", "_v2")]


@exports(*_INTERPOLATIONS)
def _interpolate(op: OpView) -> None:
    _check_layout(op)
    if op.has("OutSize") or op.has("SizeTensor") or op.has("Scale"):
        raise op.error("its size is a tensor")
    mode = op.attr("interp_method") or op.type.partition("_")[0]
    names = {3: ("out_w",), 4: ("out_h", "out_w"), 5: ("out_d", "out_h", "out_w")}[op.rank()]
    scale = op.attr("scale", 0.0)
    scales = [float(each) for each in scale] if isinstance(scale, (list, tuple)) else [float(scale)]
    scales = scales * len(names) if len(scales) == 1 else scales
    attrs: dict[str, Any] = {"mode": _MODES[mode], "coordinate_transformation_mode": _coordinates(op, mode)}
    if mode == "nearest":
        attrs["nearest_mode"] = "round_prefer_ceil" if op.attr("align_corners", True) else "floor"
    if mode == "bicubic":
        attrs["cubic_coeff_a"] = -0.75
    if scales and all(each > 0 for each in scales):
        factors = op.graph.constant([1.0, 1.0, *scales], np.float32)
        op.put(op.add("Resize", op.x(), "", factors, **attrs))
        return
    sizes = [int(op.attr(name)) for name in names]
    front = op.add("Slice", op.add("Shape", op.x()), op.ints(0), op.ints(2))
    op.put(op.add("Resize", op.x(), "", "", op.add("Concat", front, op.ints(*sizes), axis=0), **attrs))


def _coordinates(op: OpView, mode: str) -> str:
    """ONNX's name for the way from a new pixel to an old one."""
    if op.attr("align_corners", True):
        return "align_corners"
    return (
        "half_pixel"
        if (mode != "nearest" and op.attr("align_mode", 1) == 0) or mode == "bicubic"
        else "asymmetric"
    )


@exports("pixel_shuffle")
def _pixel_shuffle(op: OpView) -> None:
    op.put(op.add("DepthToSpace", op.x(), blocksize=int(op.attr("upscale_factor")), mode="CRD"))


@exports("affine_channel")
def _affine_channel(op: OpView) -> None:
    shape = op.ints(-1, *[1] * (op.rank() - 2))
    scaled = op.add("Mul", op.x(), op.add("Reshape", op.x("Scale"), shape))
    op.put(op.add("Add", scaled, op.add("Reshape", op.x("Bias"), shape)))


@exports("fc")
def _fc(op: OpView) -> None:
    kept = int(op.attr("in_num_col_dims", 1))
    depth = math.prod(op.shape("W")[:1])
    made = op.add("MatMul", op.add("Reshape", op.x("Input"), op.ints(*[0] * kept, depth)), op.x("W"))
    made = op.add("Add", made, op.x("Bias")) if op.has("Bias") else made
    op.put(op.add("Relu", made) if op.attr("activation_type", "") == "relu" else made)
