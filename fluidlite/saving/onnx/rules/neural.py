"""ONNX for ops of neural networks: convolutions, normalisation, dropout, look-ups, whole layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.ops.kernels.conv_geometry import is_channels_last, resolve_pads
from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.recurrent import ACTIVATIONS

__all__ = ["back", "front", "front_shape", "window_pads"]


# ----------------------------------------------------------------------- layouts
def _layout(op: OpView) -> str:
    name = "data_format" if "data_format" in op.op.attrs else "data_layout"
    return str(op.attr(name, "NCHW"))


def front(op: OpView, slot: str = "X") -> str:
    """The value in a slot with its channels in front, as ONNX has them."""
    if not is_channels_last(_layout(op)) or op.rank(slot) < 3:
        return op.x(slot)
    rank = op.rank(slot)
    turned = op.add("Transpose", op.x(slot), perm=[0, rank - 1, *range(1, rank - 1)])
    return str(turned)


def back(op: OpView, value: str, rank: int) -> str:
    """A value with its channels in front in the layout of the op."""
    if not is_channels_last(_layout(op)) or rank < 3:
        return value
    transpose = op.add("Transpose", value, perm=[0, *range(2, rank), 1])
    return str(transpose)


def front_shape(op: OpView, slot: str = "X") -> tuple[int, ...]:
    """The declared shape in a slot, with the channels in front."""
    shape = op.shape(slot)
    if is_channels_last(_layout(op)) and len(shape) > 2:
        return (shape[0], shape[-1], *shape[1:-1])
    return shape


def window_pads(op: OpView, spatial: Sequence[int], window: Sequence[int]) -> list[tuple[int, int]] | None:
    """The padding before and behind each dimension of a image; None where that follows from a size that is
    not known.
    """
    algorithm = op.attr("padding_algorithm", "EXPLICIT")
    strides = op.attr("strides")
    if algorithm == "SAME" and min(spatial) < 0:
        op.idle("paddings")
        return None
    return list(resolve_pads(op.type, op.attr("paddings"), algorithm, spatial, window, strides))


def _pads(op: OpView, spatial: Sequence[int], window: Sequence[int]) -> dict[str, Any]:
    """The attributes that say what is put around a image."""
    pairs = window_pads(op, spatial, window)
    if pairs is None:
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": _uncut(op, pairs)}


def _uncut(op: OpView, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Paddings in ONNX's order, which has none below 0."""
    if min(map(min, pairs)) < 0:
        raise op.error(f"its paddings {list(pairs)} cut the image")
    return [before for before, _ in pairs] + [after for _, after in pairs]


def _dilations(op: OpView, count: int) -> list[int]:
    # in Paddle SAME also means that there is no dilation
    dilations = list(op.attr("dilations", [1] * count))
    return [1] * count if op.attr("padding_algorithm", "EXPLICIT") == "SAME" else dilations


# ----------------------------------------------------------------------- convolutions
@exports("conv2d", "depthwise_conv2d", "conv3d")
def _conv(op: OpView) -> None:
    window = list(op.shape("Filter")[2:])
    shape = front_shape(op, "Input")
    inputs = [front(op, "Input"), op.x("Filter"), *([op.x("Bias")] if op.has("Bias") else [])]
    dilations = _dilations(op, len(window))
    padding = _pads(op, shape[2:], window)
    _check_windows(op, shape[2:], window, dilations, padding)
    strides = op.attr("strides")
    groups = op.attr("groups")
    made = op.add(
        "Conv",
        *inputs,
        strides=list(strides),
        dilations=dilations,
        group=int(groups),
        kernel_shape=window,
        **padding,
    )
    found = back(op, made, len(shape))
    op.put(found, "Output")


def _check_windows(
    op: OpView,
    spatial: Sequence[int],
    window: Sequence[int],
    dilations: Sequence[int],
    padding: dict[str, Any],
) -> None:
    """ONNX has no window that is larger than the padded image, and fluid has one."""
    pads = padding.get("pads", [0] * 2 * len(window))
    for axis, (size, length, dilation) in enumerate(zip(spatial, window, dilations, strict=True)):
        room = size + pads[axis] + pads[axis + len(window)] - dilation * (length - 1) - 1
        if size >= 0 and room < 0 and "pads" in padding:
            raise op.error(f"its window of {list(window)} is larger than the image of {list(spatial)}")


@exports("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _conv_transpose(op: OpView) -> None:
    shape = front_shape(op, "Input")
    window = list(op.shape("Filter")[2:])
    strides = list(op.attr("strides"))
    dilations = _dilations(op, len(strides))
    pairs = window_pads(op, shape[2:], window)
    if pairs is None:
        raise op.error("padding SAME, and the size of its input is not known")
    pads = _uncut(op, pairs)
    groups = op.attr("groups")
    made = op.add(
        "ConvTranspose",
        front(op, "Input"),
        op.x("Filter"),
        strides=strides,
        dilations=dilations,
        group=int(groups),
        kernel_shape=window,
        pads=pads,
        output_padding=_beyond(op, shape[2:], pads, strides, dilations, window),
    )
    found = back(op, made, len(shape))
    op.put(found, "Output")


def _beyond(
    op: OpView,
    sizes: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    window: Sequence[int],
) -> list[int] | None:
    """Rows and columns beyond what strides and windows give, where the output's size was asked for."""
    wanted = list(op.attr("output_size"))
    beyond = list(op.attr("output_padding") or [])
    if not wanted:
        return beyond or None
    if -1 in sizes:
        raise op.error("the size of its output was asked for, and that of its input is not known")
    rank = len(strides)
    least = [
        (sizes[at] - 1) * strides[at] + dilations[at] * (window[at] - 1) + 1 - pads[at] - pads[at + rank]
        for at in range(rank)
    ]
    return [int(size) - low for size, low in zip(wanted, least, strict=True)]


# ----------------------------------------------------------------------- normalisation
@exports("batch_norm", "sync_batch_norm", "inplace_abn")
def _batch_norm(op: OpView) -> None:
    op.idle("momentum", "MomentumTensor")
    is_test = op.attr("is_test")
    is_global = op.attr("use_global_stats")
    if not is_global and (not is_test or op.attr("trainable_statistics")):
        raise op.error("it takes the statistics of its batch: export the program's clone(for_test=True)")
    op.idle("trainable_statistics")
    inputs = [front(op), *[op.x(slot) for slot in ("Scale", "Bias", "Mean", "Variance")]]
    if op.type == "inplace_abn":
        _check_activation(op, "activation")
    made = op.add("BatchNormalization", *inputs, epsilon=float(op.attr("epsilon")))
    rank = op.rank()
    found = back(op, made, rank)
    op.put(found, "Y")
    result = op.x("Mean")
    op.put(result, "MeanOut")
    value = op.x("Variance")
    op.put(value, "VarianceOut")


def _check_activation(op: OpView, name: str) -> None:
    if op.attr(name, "") not in ("", "identity"):
        raise op.error(f"its {name} is {op.attr(name)!r}, and the rule knows none")


def _factors(op: OpView, slot: str, count: int, value: float) -> str:
    """The numbers in a slot, or as many of one value."""
    return op.x(slot) if op.has(slot) else op.graph.constant(np.full(count, value), op.dtype())


@exports("instance_norm")
def _instance_norm(op: OpView) -> None:
    channels = op.shape()[1]
    x = op.x()
    if op.rank() == 2:
        x = op.add("Unsqueeze", x, op.ints(2))
    inputs = [x, _factors(op, "Scale", channels, 1.0), _factors(op, "Bias", channels, 0.0)]
    made = op.add("InstanceNormalization", *inputs, epsilon=float(op.attr("epsilon")))
    op.put(op.add("Squeeze", made, op.ints(2)) if op.rank() == 2 else made, "Y")


@exports("layer_norm")
def _layer_norm(op: OpView) -> None:
    axis = int(op.attr("begin_norm_axis"))
    x = op.x()
    rows = op.add("Flatten", x, axis=axis)
    mean = op.graph.reduce("ReduceMean", rows, [1], keep=True)
    centred = op.add("Sub", rows, mean)
    product = op.add("Mul", centred, centred)
    squares = op.graph.reduce("ReduceMean", product, [1], keep=True)
    reshaped = op.add("Reshape", mean, op.ints(-1))
    op.put(reshaped, "Mean")
    found = op.add("Reshape", squares, op.ints(-1))
    op.put(found, "Variance")
    epsilon = float(op.attr("epsilon"))
    inside = op.shape()[axis:]
    if op.graph.opset >= 17 and -1 not in inside:
        made = _whole_layer_norm(op, inside, axis, epsilon)
    else:
        total = op.add("Add", squares, op.number(epsilon))
        root = op.add("Sqrt", total)
        made = op.add("Div", centred, root)
        for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
            made = op.add(kind, made, op.x(slot)) if op.has(slot) else made
        shape = op.add("Shape", x)
        made = op.add("Reshape", made, shape)
    op.put(made, "Y")


def _whole_layer_norm(op: OpView, inside: Sequence[int], axis: int, epsilon: float) -> str:
    """One node, whose scale and bias have the shape of what is normalised."""
    shape = op.ints(*inside)
    scale = op.graph.constant(np.ones(inside), op.dtype())
    if op.has("Scale"):
        scale = op.add("Reshape", op.x("Scale"), shape)
    bias = [op.add("Reshape", op.x("Bias"), shape)] if op.has("Bias") else []
    made = op.add("LayerNormalization", op.x(), scale, *bias, axis=axis, epsilon=epsilon)
    return str(made)


@exports("group_norm")
def _group_norm(op: OpView) -> None:
    groups = int(op.attr("groups"))
    channels = front_shape(op)[1]
    if channels < 0 or channels % groups:
        raise op.error(f"{channels} channels do not divide into {groups} groups")
    x = front(op)
    # groups as the channels of an instance normalisation, and back
    inside = op.add("Reshape", x, op.ints(0, groups, -1))
    one, zero = (op.graph.constant(np.full(groups, value), op.dtype()) for value in (1.0, 0.0))
    made = op.add("InstanceNormalization", inside, one, zero, epsilon=float(op.attr("epsilon")))
    made = op.add("Reshape", made, op.add("Shape", x))
    shape = op.ints(channels, *[1] * (op.rank() - 2))
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if op.has(slot):
            reshaped = op.add("Reshape", op.x(slot), shape)
            made = op.add(kind, made, reshaped)
    rank = op.rank()
    found = back(op, made, rank)
    op.put(found, "Y")


@exports("lrn")
def _lrn(op: OpView) -> None:
    size = int(op.attr("n"))
    # ONNX divides alpha by the number of channels
    k = op.attr("k")
    alpha = op.attr("alpha")
    beta = op.attr("beta")
    made = op.add("LRN", front(op), size=size, bias=float(k), alpha=float(alpha) * size, beta=float(beta))
    found = back(op, made, 4)
    op.put(found)


@exports("data_norm")
def _data_norm(op: OpView) -> None:
    op.idle("epsilon", "data_layout")
    x = op.x()
    count = op.x("BatchSize")
    means = op.add("Div", op.x("BatchSum"), count)
    quotient = op.add("Div", count, op.x("BatchSquareSum"))
    scales = op.add("Sqrt", quotient)
    difference = op.add("Sub", x, means)
    made = op.add("Mul", difference, scales)
    op.idle("scale_w", "bias")
    if op.attr("enable_scale_and_shift") and op.has("scale_w") and op.has("bias"):
        mul = op.add("Mul", made, op.x("scale_w"))
        made = op.add("Add", mul, op.x("bias"))
    width = int(op.attr("slot_dim"))
    if width > 0:
        firsts = np.arange(op.shape()[1]) // width * width
        taken = op.add("Gather", x, op.ints(*firsts.tolist()), axis=1)
        first = op.add("Abs", taken)
        # a slot whose first element is smaller was not shown
        is_shown = op.add("GreaterOrEqual", first, op.number(1e-07))
        cast = op.cast(is_shown, op.dtype())
        made = op.add("Mul", made, cast)
    op.put(made, "Y")
    op.put(means, "Means")
    op.put(scales, "Scales")


@exports("affine_channel")
def _affine_channel(op: OpView) -> None:
    is_last = is_channels_last(_layout(op))
    shape = op.ints(-1, *([] if is_last or op.rank() < 2 else [1] * (op.rank() - 2)))
    reshaped = op.add("Reshape", op.x("Scale"), shape)
    scaled = op.add("Mul", op.x(), reshaped)
    reshape = op.add("Reshape", op.x("Bias"), shape)
    total = op.add("Add", scaled, reshape)
    op.put(total)


# ----------------------------------------------------------------------- dropout, look-ups
@exports("dropout", "dropout_nd")
def _dropout(op: OpView) -> None:
    op.idle("seed", "fix_seed", "Seed", "axis")
    if not op.attr("is_test"):
        raise op.error("it draws: export the program's clone(for_test=True)")
    if op.attr("dropout_implementation") == "upscale_in_train":
        op.idle("dropout_prob")
        made = op.x()
        op.put(made)
    else:
        product = op.add("Mul", op.x(), op.number(1.0 - op.attr("dropout_prob")))
        op.put(product)


@exports("lookup_table", "lookup_table_v2")
def _lookup(op: OpView) -> None:
    op.idle("is_sparse", "entry", "entry_config", "slot", "table_class")
    ids = op.x("Ids")
    if op.type == "lookup_table":
        rank = op.rank("Ids")
        ids = op.add("Squeeze", ids, op.ints(rank - 1))
    made = op.add("Gather", op.x("W"), ids, axis=0)
    padding = int(op.attr("padding_idx"))
    if padding >= 0:
        hidden = op.add("Equal", ids, op.graph.constant(padding, op.dtype("Ids")))
        hidden = op.add("Unsqueeze", hidden, op.ints(-1))
        made = op.add("Where", hidden, op.number(0.0, "W"), made)
    op.put(made)


# ----------------------------------------------------------------------- whole layers
@exports("fc")
def _fc(op: OpView) -> None:
    kept = int(op.attr("in_num_col_dims"))
    weight = op.x("W")
    rows = op.shape("W")[0]
    if op.attr("padding_weights"):
        rows -= 4
        weight = op.add("Slice", weight, op.ints(0, 0), op.ints(-4, -4), op.ints(0, 1))
    x = op.x("Input")
    if kept != op.rank("Input") - 1:
        x = op.add("Reshape", x, op.ints(*[0] * kept, rows))
    made = op.add("MatMul", x, weight)
    if op.has("Bias"):
        reshaped = op.add("Reshape", op.x("Bias"), op.ints(-1))
        made = op.add("Add", made, reshaped)
    after = op.attr("activation_type")
    if after in ("", "identity"):
        op.put(made)
    elif after in ACTIVATIONS:
        found = op.add(ACTIVATIONS[after], made)
        op.put(found)
    else:
        known = ", ".join(["identity", *ACTIVATIONS])
        raise op.error(f"its activation_type is {after!r}, and the rule knows {known}")
