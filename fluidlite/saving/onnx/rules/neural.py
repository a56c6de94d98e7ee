"""ONNX for ops of neural networks: convolutions, normalisation, dropout, look-ups, whole layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.ops.kernels.conv_geometry import is_channels_last, resolve_pads
from fluidlite.saving.onnx.graph import OpView, exports

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
    return str(op.add("Transpose", op.x(slot), perm=[0, rank - 1, *range(1, rank - 1)]))


def back(op: OpView, value: str, rank: int) -> str:
    """A value with its channels in front in the layout of the op."""
    if not is_channels_last(_layout(op)) or rank < 3:
        return value
    return str(op.add("Transpose", value, perm=[0, *range(2, rank), 1]))


def front_shape(op: OpView, slot: str = "X") -> tuple[int, ...]:
    """The declared shape in a slot, with the channels in front."""
    shape = op.shape(slot)
    if is_channels_last(_layout(op)) and len(shape) > 2:
        return (shape[0], shape[-1], *shape[1:-1])
    return shape


def window_pads(op: OpView, spatial: Sequence[int], window: Sequence[int]) -> list[tuple[int, int]] | None:
    """What is put before and behind each dimension of a picture; None where that follows from a size that is
    not known.
    """
    algorithm, strides = op.attr("padding_algorithm", "EXPLICIT"), op.attr("strides")
    if algorithm == "SAME" and min(spatial) < 0:
        op.idle("paddings")
        return None
    return list(resolve_pads(op.type, op.attr("paddings"), algorithm, spatial, window, strides))


def _pads(op: OpView, spatial: Sequence[int], window: Sequence[int]) -> dict[str, Any]:
    """The attributes that say what is put around a picture."""
    pairs = window_pads(op, spatial, window)
    if pairs is None:
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": [before for before, _ in pairs] + [after for _, after in pairs]}


def _dilations(op: OpView, count: int) -> list[int]:
    # in Paddle SAME also means that there is no dilation
    dilations = list(op.attr("dilations", [1] * count))
    return [1] * count if op.attr("padding_algorithm", "EXPLICIT") == "SAME" else dilations


# ----------------------------------------------------------------------- convolutions
@exports("conv2d", "depthwise_conv2d", "conv3d")
def _conv(op: OpView) -> None:
    window, shape = list(op.shape("Filter")[2:]), front_shape(op, "Input")
    inputs = [front(op, "Input"), op.x("Filter"), *([op.x("Bias")] if op.has("Bias") else [])]
    dilations, padding = _dilations(op, len(window)), _pads(op, shape[2:], window)
    _check_windows(op, shape[2:], window, dilations, padding)
    made = op.add(
        "Conv",
        *inputs,
        strides=list(op.attr("strides")),
        dilations=dilations,
        group=int(op.attr("groups")),
        kernel_shape=window,
        **padding,
    )
    op.put(back(op, made, len(shape)), "Output")


def _check_windows(
    op: OpView,
    spatial: Sequence[int],
    window: Sequence[int],
    dilations: Sequence[int],
    padding: dict[str, Any],
) -> None:
    """ONNX has no window that is larger than the padded picture, and fluid has one."""
    pads = padding.get("pads", [0] * 2 * len(window))
    for axis, (size, length, dilation) in enumerate(zip(spatial, window, dilations, strict=True)):
        room = size + pads[axis] + pads[axis + len(window)] - dilation * (length - 1) - 1
        if size >= 0 and room < 0 and "pads" in padding:
            raise op.error(f"its window of {list(window)} is larger than the picture of {list(spatial)}")


@exports("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _conv_transpose(op: OpView) -> None:
    shape, window, strides = front_shape(op, "Input"), list(op.shape("Filter")[2:]), list(op.attr("strides"))
    dilations = _dilations(op, len(strides))
    pairs = window_pads(op, shape[2:], window)
    if pairs is None:
        raise op.error("padding SAME, and the size of its input is not known")
    pads = [before for before, _ in pairs] + [after for _, after in pairs]
    made = op.add(
        "ConvTranspose",
        front(op, "Input"),
        op.x("Filter"),
        strides=strides,
        dilations=dilations,
        group=int(op.attr("groups")),
        kernel_shape=window,
        pads=pads,
        output_padding=_beyond(op, shape[2:], pads, strides, dilations, window),
    )
    op.put(back(op, made, len(shape)), "Output")


def _beyond(
    op: OpView,
    sizes: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    window: Sequence[int],
) -> list[int] | None:
    """Rows and columns beyond what strides and windows give, where the output's size was asked for."""
    wanted, beyond = list(op.attr("output_size")), list(op.attr("output_padding") or [])
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
    is_test, is_global = op.attr("is_test"), op.attr("use_global_stats")
    if not is_global and (not is_test or op.attr("trainable_statistics")):
        raise op.error("it takes the statistics of its batch: export the program's clone(for_test=True)")
    op.idle("trainable_statistics")
    inputs = [front(op), *[op.x(slot) for slot in ("Scale", "Bias", "Mean", "Variance")]]
    if op.type == "inplace_abn":
        _check_activation(op, "activation")
    made = op.add("BatchNormalization", *inputs, epsilon=float(op.attr("epsilon")))
    op.put(back(op, made, op.rank()), "Y")
    op.put(op.x("Mean"), "MeanOut")
    op.put(op.x("Variance"), "VarianceOut")


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
    axis, x = int(op.attr("begin_norm_axis")), op.x()
    rows = op.add("Flatten", x, axis=axis)
    mean = op.graph.reduce("ReduceMean", rows, [1], keep=True)
    centred = op.add("Sub", rows, mean)
    squares = op.graph.reduce("ReduceMean", op.add("Mul", centred, centred), [1], keep=True)
    op.put(op.add("Reshape", mean, op.ints(-1)), "Mean")
    op.put(op.add("Reshape", squares, op.ints(-1)), "Variance")
    epsilon = float(op.attr("epsilon"))
    inside = op.shape()[axis:]
    if op.graph.opset >= 17 and -1 not in inside:
        made = _whole_layer_norm(op, inside, axis, epsilon)
    else:
        made = op.add("Div", centred, op.add("Sqrt", op.add("Add", squares, op.number(epsilon))))
        for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
            made = op.add(kind, made, op.x(slot)) if op.has(slot) else made
        made = op.add("Reshape", made, op.add("Shape", x))
    op.put(made, "Y")


def _whole_layer_norm(op: OpView, inside: Sequence[int], axis: int, epsilon: float) -> str:
    """One node, whose scale and bias have the shape of what is normalised."""
    shape = op.ints(*inside)
    scale = op.graph.constant(np.ones(inside), op.dtype())
    if op.has("Scale"):
        scale = op.add("Reshape", op.x("Scale"), shape)
    bias = [op.add("Reshape", op.x("Bias"), shape)] if op.has("Bias") else []
    return str(op.add("LayerNormalization", op.x(), scale, *bias, axis=axis, epsilon=epsilon))


@exports("group_norm")
def _group_norm(op: OpView) -> None:
    groups, channels = int(op.attr("groups")), front_shape(op)[1]
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
            made = op.add(kind, made, op.add("Reshape", op.x(slot), shape))
    op.put(back(op, made, op.rank()), "Y")


@exports("lrn")
def _lrn(op: OpView) -> None:
    size = int(op.attr("n"))
    # ONNX divides alpha by the number of channels
    made = op.add(
        "LRN",
        front(op),
        size=size,
        bias=float(op.attr("k")),
        alpha=float(op.attr("alpha")) * size,
        beta=float(op.attr("beta")),
    )
    op.put(back(op, made, 4))


@exports("data_norm")
def _data_norm(op: OpView) -> None:
    op.idle("epsilon", "data_layout")
    x, count = op.x(), op.x("BatchSize")
    means = op.add("Div", op.x("BatchSum"), count)
    scales = op.add("Sqrt", op.add("Div", count, op.x("BatchSquareSum")))
    made = op.add("Mul", op.add("Sub", x, means), scales)
    op.idle("scale_w", "bias")
    if op.attr("enable_scale_and_shift") and op.has("scale_w") and op.has("bias"):
        made = op.add("Add", op.add("Mul", made, op.x("scale_w")), op.x("bias"))
    width = int(op.attr("slot_dim"))
    if width > 0:
        firsts = np.arange(op.shape()[1]) // width * width
        first = op.add("Abs", op.add("Gather", x, op.ints(*firsts.tolist()), axis=1))
        # a slot whose first element is smaller was not shown
        is_shown = op.add("GreaterOrEqual", first, op.number(1e-7))
        made = op.add("Mul", made, op.cast(is_shown, op.dtype()))
    op.put(made, "Y")
    op.put(means, "Means")
    op.put(scales, "Scales")


@exports("affine_channel")
def _affine_channel(op: OpView) -> None:
    is_last = is_channels_last(_layout(op))
    shape = op.ints(-1, *([] if is_last or op.rank() < 2 else [1] * (op.rank() - 2)))
    scaled = op.add("Mul", op.x(), op.add("Reshape", op.x("Scale"), shape))
    op.put(op.add("Add", scaled, op.add("Reshape", op.x("Bias"), shape)))


# ----------------------------------------------------------------------- dropout, look-ups
@exports("dropout")
def _dropout(op: OpView) -> None:
    op.idle("seed", "fix_seed", "Seed")
    if not op.attr("is_test"):
        raise op.error("it draws: export the program's clone(for_test=True)")
    if op.attr("dropout_implementation") == "upscale_in_train":
        op.idle("dropout_prob")
        op.put(op.x())
    else:
        op.put(op.add("Mul", op.x(), op.number(1.0 - op.attr("dropout_prob"))))


@exports("lookup_table", "lookup_table_v2")
def _lookup(op: OpView) -> None:
    op.idle("is_sparse", "entry", "entry_config", "slot", "table_class")
    ids = op.x("Ids")
    if op.type == "lookup_table":
        ids = op.add("Squeeze", ids, op.ints(op.rank("Ids") - 1))
    made = op.add("Gather", op.x("W"), ids, axis=0)
    padding = int(op.attr("padding_idx"))
    if padding >= 0:
        hidden = op.add("Equal", ids, op.graph.constant(padding, op.dtype("Ids")))
        hidden = op.add("Unsqueeze", hidden, op.ints(-1))
        made = op.add("Where", hidden, op.number(0.0, "W"), made)
    op.put(made)


# ----------------------------------------------------------------------- whole layers
_AFTER: dict[str, Callable[[OpView, str], Any]] = {
    "": lambda op, value: value,
    "identity": lambda op, value: value,
    "relu": lambda op, value: op.add("Relu", value),
    "tanh": lambda op, value: op.add("Tanh", value),
    "sigmoid": lambda op, value: op.add("Sigmoid", value),
}


@exports("fc")
def _fc(op: OpView) -> None:
    kept, weight = int(op.attr("in_num_col_dims")), op.x("W")
    rows = op.shape("W")[0]
    if op.attr("padding_weights"):
        rows -= 4
        weight = op.add("Slice", weight, op.ints(0, 0), op.ints(-4, -4), op.ints(0, 1))
    x = op.x("Input")
    if kept != op.rank("Input") - 1:
        x = op.add("Reshape", x, op.ints(*[0] * kept, rows))
    made = op.add("MatMul", x, weight)
    if op.has("Bias"):
        made = op.add("Add", made, op.add("Reshape", op.x("Bias"), op.ints(-1)))
    after = op.attr("activation_type")
    if after not in _AFTER:
        raise op.error(
            f"its activation_type is {after!r}, and the rule knows {', '.join(filter(None, _AFTER))}"
        )
    op.put(_AFTER[after](op, made))
