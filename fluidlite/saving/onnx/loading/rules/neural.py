"""ONNX ops of networks: convolutions, pools, normalisations.

Ops of fluid have images and volumes: a row of one spatial dimension becomes an image of height 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads


class _SlidingWindow:
    """The attributes of a window that moves over an image, as ops of fluid have them."""

    def __init__(self, op: NodeView, window: Sequence[int]) -> None:
        count = len(window)
        if not 1 <= count <= 3:
            raise op.error(f"its windows have {count} dimensions, and the rule knows 1 to 3")
        self.more = [1] if count == 1 else []
        self.window = [*self.more, *window]
        self.strides = [*self.more, *(op.attr("strides") or [1] * count)]
        self.dilations = [*self.more, *(op.attr("dilations") or [1] * count)]
        pads = op.attr("pads") or [0] * 2 * count
        self.pairs = [(0, 0)] * len(self.more) + list(zip(pads[:count], pads[count:], strict=True))
        self.algorithm = _algorithm(op, op.attr("auto_pad") or "NOTSET")
        if self.algorithm == "SAME" and set(self.dilations) != {1}:
            raise op.error(f"auto_pad with dilations of {self.dilations}")
        if self.algorithm != "EXPLICIT":
            self.pairs = [(0, 0)] * len(self.window)

    @property
    def attrs(self) -> dict[str, Any]:
        """Strides and padding."""
        flat = [side for pair in self.pairs for side in pair]
        return {"strides": self.strides, "paddings": flat, "padding_algorithm": self.algorithm}

    def widened(self, op: NodeView, x: Variable) -> Variable:
        """x with a height."""
        return op.unsqueezed(x, [2]) if self.more else x

    def narrowed(self, op: NodeView, made: Variable) -> Variable:
        """A result without the height."""
        return op.squeezed(made, [2]) if self.more else made


def _algorithm(op: NodeView, auto_pad: str) -> str:
    found = {"NOTSET": "EXPLICIT", "SAME_UPPER": "SAME", "VALID": "VALID"}.get(auto_pad)
    if found is None:
        raise op.error(f"its attribute 'auto_pad' is {auto_pad!r}")
    return found


def _kind(op: NodeView, name: str, windows: _SlidingWindow) -> str:
    return f"{name}{len(windows.window)}d"


# ----------------------------------------------------------------------- convolutions
def _filter(op: NodeView) -> list[int]:
    """The sizes of the filters."""
    window = list(op.shape(1)[2:])
    said = op.attr("kernel_shape")
    if min(window, default=0) < 0 or (said is not None and said != window):
        raise op.malformed(f"its attribute 'kernel_shape' is {said}, and its filters are {window}")
    return window


@reads("Conv")
def _conv(op: NodeView) -> None:
    found = _filter(op)
    windows = _SlidingWindow(op, found)
    inputs = {"Input": windows.widened(op, op.x()), "Filter": windows.widened(op, op.x(1))}
    group = op.attr("group")
    attrs = {**windows.attrs, "dilations": windows.dilations, "groups": group}
    result = _kind(op, "conv", windows)
    made = op.emit(result, inputs, attrs, slot="Output")
    value = windows.narrowed(op, _biased(op, made))
    op.put(value)


def _biased(op: NodeView, made: Variable, place: int = 2) -> Variable:
    """A result and, where it is there, a number for each channel."""
    if not op.has(place):
        return made
    return op.emit("elementwise_add", {"X": made, "Y": op.x(place)}, {"axis": 1})


@reads("DeformConv")
def _deform_conv(op: NodeView) -> None:
    found = _filter(op)
    windows = _SlidingWindow(op, found)
    if len(windows.window) != 2 or windows.more or any(before != after for before, after in windows.pairs):
        raise op.error(f"its padding is {windows.pairs}, and the rule knows images with even padding alone")
    x = op.x()
    second = op.x(1)
    third = op.x(2)
    inputs = {"Input": x, "Filter": second, "Offset": third}
    type = "deformable_conv_v1"
    if op.has(4):
        inputs["Mask"] = op.x(4)
        type = "deformable_conv"
    group = op.attr("group")
    offset_group = op.attr("offset_group")
    attrs = {
        "strides": windows.strides,
        "paddings": [before for before, _ in windows.pairs],
        "dilations": windows.dilations,
        "groups": group,
        "deformable_groups": offset_group,
    }
    result = op.emit(type, inputs, attrs, slot="Output")
    made = _biased(op, result, 3)
    op.put(made)


@reads("ConvTranspose")
def _conv_transpose(op: NodeView) -> None:
    result = _filter(op)
    windows = _SlidingWindow(op, result)
    inputs = {"Input": windows.widened(op, op.x()), "Filter": windows.widened(op, op.x(1))}
    group = op.attr("group")
    attrs = {**windows.attrs, "dilations": windows.dilations, "groups": group}
    more = op.attr("output_padding")
    if more is not None and any(more):
        attrs["output_padding"] = [0] * len(windows.more) + more
    if windows.algorithm == "SAME":
        raise op.error("its attribute 'auto_pad' is 'SAME_UPPER'")
    made = op.emit(f"{_kind(op, 'conv', windows)}_transpose", inputs, attrs, slot="Output")
    found = windows.narrowed(op, _biased(op, made))
    op.put(found)


# ----------------------------------------------------------------------- pools
@reads("MaxPool", "AveragePool")
def _pool(op: NodeView) -> None:
    kernel_shape = op.attr("kernel_shape")
    windows = _SlidingWindow(op, kernel_shape)
    if not op.wants(1):
        op.idle("storage_order")
    if set(windows.dilations) != {1}:
        raise op.error(f"its attribute 'dilations' is {windows.dilations}, and the rule knows 1 alone")
    is_max = op.kind == "MaxPool"
    ceil_mode = bool(op.attr("ceil_mode"))
    attrs = {**windows.attrs, "ksize": windows.window, "ceil_mode": ceil_mode}
    exclusive = is_max or not op.attr("count_include_pad")
    x = windows.widened(op, op.x())
    if attrs["ceil_mode"]:
        _check_last(op, windows, x.shape[2:], exclusive)
    if op.wants(1):
        _with_places(op, windows, x, attrs)
        return
    attrs |= {"pooling_type": "max" if is_max else "avg", "exclusive": exclusive}
    made = windows.narrowed(op, op.one(_kind(op, "pool", windows), x, **attrs))
    op.put(made)


def _check_last(op: NodeView, windows: _SlidingWindow, spatial: Sequence[int], exclusive: bool) -> None:
    """UnsupportedError where a last window, which `ceil_mode` adds, means something else to fluid."""
    for size, length, stride, (before, after) in zip(
        spatial, windows.window, windows.strides, windows.pairs, strict=True
    ):
        room = size + before + after - length
        if size >= 0 and room % stride == 0:
            continue
        if size >= 0 and exclusive and -(-room // stride) * stride < size + before:
            continue
        if size < 0 and exclusive and after + stride <= length:
            continue
        raise op.error(
            f"ceil_mode with windows of {length} every {stride} over {size} and {before} + {after}"
        )


def _with_places(op: NodeView, windows: _SlidingWindow, x: Variable, attrs: dict[str, Any]) -> None:
    """Largest elements and their places, which count in all of x, and in fluid in one image."""
    if any(before != after for before, after in windows.pairs) or windows.algorithm != "EXPLICIT":
        raise op.error("places of largest elements with uneven padding")
    if min(x.shape[2:]) < 0 or min(x.shape) < 0:
        raise op.error(f"places of largest elements in {list(x.shape)}, whose sizes are not known")
    kept = {name: attrs[name] for name in ("strides", "ksize", "ceil_mode")}
    kept["paddings"] = [before for before, _ in windows.pairs]
    type = f"max_{_kind(op, 'pool', windows)}_with_index"
    made, mask = op.emit_all(type, {"X": x}, kept, {"Out": 1, "Mask": 1})
    images = x.shape[0] * x.shape[1]
    size = int(np.prod(x.shape[2:]))
    starts = np.arange(images).reshape(*x.shape[:2], *[1] * len(windows.window)) * size
    cast = op.cast(mask, np.int64)
    constant = op.fixed(starts, np.int64)
    places = op.two("elementwise_add", cast, constant)
    found = windows.narrowed(op, made)
    op.put(found, 0)
    result = windows.narrowed(op, places)
    op.put(result, 1)


@reads("GlobalMaxPool", "GlobalAveragePool")
def _global_pool(op: NodeView) -> None:
    type = "reduce_max" if op.kind == "GlobalMaxPool" else "reduce_mean"
    axes = list(range(2, op.rank()))
    x = op.x()
    made = op.one(type, x, dim=axes, keep_dim=True)
    op.put(made)


@reads("LRN")
def _lrn(op: NodeView) -> None:
    size = op.attr("size")
    bias = op.attr("bias")
    beta = op.attr("beta")
    attrs = {"n": size, "k": bias, "alpha": op.attr("alpha") / size, "beta": beta}
    x = op.x()
    made = op.emit("lrn", {"X": x}, attrs, others=("MidOut",))
    op.put(made)


# ----------------------------------------------------------------------- normalisations
@reads("BatchNormalization")
def _batch_norm(op: NodeView) -> None:
    op.only(0)
    op.idle("momentum")
    if op.attr("epsilon") > _MOST_EPSILON:
        made = _scaled_by_statistics(op)
        op.put(made)
        return
    x = op.x()
    second = op.x(1)
    third = op.x(2)
    fourth = op.x(3)
    fifth = op.x(4)
    inputs = {"X": x, "Scale": second, "Bias": third, "Mean": fourth, "Variance": fifth}
    epsilon = op.attr("epsilon")
    attrs = {"epsilon": epsilon, "is_test": True}
    outputs: dict[str, Any] = {"Y": [op.new()], "MeanOut": inputs["Mean"], "VarianceOut": inputs["Variance"]}
    outputs |= {"SavedMean": [op.new()], "SavedVariance": [op.new()]}
    op.graph.block.append_op(
        type="batch_norm", inputs={slot: [var] for slot, var in inputs.items()}, outputs=outputs, attrs=attrs
    )
    op.put(outputs["Y"][0])


_MOST_EPSILON = 0.001  # of the op


def _scaled_by_statistics(op: NodeView) -> Variable:
    """Batch normalisation as arithmetic."""
    epsilon = op.attr("epsilon")
    fifth = op.x(4)
    scaled = op.one("scale", fifth, bias=epsilon)
    root = op.one("sqrt", scaled)
    second = op.x(1)
    factor = op.two("elementwise_div", second, root)
    x = op.x()
    fourth = op.x(3)
    centred = op.emit("elementwise_sub", {"X": x, "Y": fourth}, {"axis": 1})
    third = op.x(2)
    return _per_channel(op, centred, factor, third)


def _centred(op: NodeView, x: Variable, axes: list[int], epsilon: float) -> Variable:
    """x without its mean, divided by its standard deviation, over some dimensions."""
    mean = op.one("reduce_mean", x, dim=axes, keep_dim=True)
    centred = op.two("elementwise_sub", x, mean)
    product = op.two("elementwise_mul", centred, centred)
    squares = op.one("reduce_mean", product, dim=axes, keep_dim=True)
    scaled = op.one("scale", squares, bias=epsilon)
    root = op.one("sqrt", scaled)
    return op.two("elementwise_div", centred, root)


def _per_channel(op: NodeView, made: Variable, scale: Variable, bias: Variable) -> Variable:
    """A value times one factor for each channel, and one number more."""
    made = op.emit("elementwise_mul", {"X": made, "Y": scale}, {"axis": 1})
    return op.emit("elementwise_add", {"X": made, "Y": bias}, {"axis": 1})


@reads("InstanceNormalization")
def _instance_norm(op: NodeView) -> None:
    epsilon = op.attr("epsilon")
    x = op.x()
    listed = list(range(2, op.rank()))
    made = _centred(op, x, listed, epsilon)
    second = op.x(1)
    third = op.x(2)
    result = _per_channel(op, made, second, third)
    op.put(result)


@reads("LayerNormalization")
def _layer_norm(op: NodeView) -> None:
    op.only(0)
    if op.attr("stash_type") != 1:
        raise op.error(f"its attribute 'stash_type' is {op.attr('stash_type')}, and the rule knows 1 alone")
    second = op.x(1)
    x = op.x()
    scale = second
    axis = op.axis(op.attr("axis"))
    epsilon = op.attr("epsilon")
    inside = tuple(x.shape[axis:])
    weights = [scale, *([op.x(2)] if op.has(2) else [])]
    if axis and min(inside) >= 0 and all(tuple(each.shape) == inside for each in weights):
        flat = [op.reshaped(each, [-1]) if len(inside) > 1 else each for each in weights]
        inputs = {"X": x, **dict(zip(("Scale", "Bias"), flat, strict=False))}
        attrs = {"epsilon": epsilon, "begin_norm_axis": axis}
        result = op.emit("layer_norm", inputs, attrs, slot="Y", others=("Mean", "Variance"))
        op.put(result)
        return
    listed = list(range(axis, op.rank()))
    made = _centred(op, x, listed, epsilon)
    for each, type in zip(weights, ("elementwise_mul", "elementwise_add"), strict=False):
        made = op.two(type, made, each)
    op.put(made)


@reads("MeanVarianceNormalization")
def _mean_variance(op: NodeView) -> None:
    axes = [op.axis(axis) for axis in op.attr("axes")]
    x = op.x()
    mean = op.one("reduce_mean", x, dim=axes, keep_dim=True)
    centred = op.two("elementwise_sub", x, mean)
    product = op.two("elementwise_mul", centred, centred)
    squares = op.one("reduce_mean", product, dim=axes, keep_dim=True)
    root = op.one("sqrt", squares)
    scaled = op.one("scale", root, bias=1e-9)
    quotient = op.two("elementwise_div", centred, scaled)
    op.put(quotient)


@reads("RMSNormalization")
def _rms_norm(op: NodeView) -> None:
    if op.attr("stash_type") != 1:
        raise op.error(f"its attribute 'stash_type' is {op.attr('stash_type')}, and the rule knows 1 alone")
    x = op.x()
    axes = list(range(op.axis(op.attr("axis")), op.rank()))
    product = op.two("elementwise_mul", x, x)
    squares = op.one("reduce_mean", product, dim=axes, keep_dim=True)
    epsilon = op.attr("epsilon")
    scaled = op.one("scale", squares, bias=epsilon)
    root = op.one("sqrt", scaled)
    quotient = op.two("elementwise_div", x, root)
    second = op.x(1)
    made = op.two("elementwise_mul", quotient, second)
    op.put(made)


@reads("GroupNormalization")
def _group_norm(op: NodeView) -> None:
    if op.opset < 21:
        raise op.error(f"in opset {op.opset} it has one scale for each group")
    if op.attr("stash_type") != 1:
        raise op.error(f"its attribute 'stash_type' is {op.attr('stash_type')}, and the rule knows 1 alone")
    x = op.x()
    second = op.x(1)
    third = op.x(2)
    inputs = {"X": x, "Scale": second, "Bias": third}
    epsilon = op.attr("epsilon")
    num_groups = op.attr("num_groups")
    attrs = {"epsilon": epsilon, "groups": num_groups}
    made = op.emit("group_norm", inputs, attrs, slot="Y", others=("Mean", "Variance"))
    op.put(made)
