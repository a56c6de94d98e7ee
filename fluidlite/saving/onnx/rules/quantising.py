"""ONNX for quantised values.

Ops that quantise and go back become a pair of QuantizeLinear and DequantizeLinear, which a runtime replaces
by whole numbers; those that keep whole numbers as real ones, which ONNX has nothing like, become arithmetic.
"""

from __future__ import annotations

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.values import GraphValue, values_of

_TINY = 1e-30  # scales up to this one are those of tensors of zeros


def _levels(bits: int) -> float:
    return float((1 << (bits - 1)) - 1)


def _steps(x: GraphValue, scale: GraphValue, bits: int) -> GraphValue:
    """Whole multiples of the scale, as real numbers."""
    is_there = scale.compare("LessOrEqual", _TINY)
    chosen = is_there.where(scale + 1e-06, scale)
    inverse = 1.0 / chosen
    least = x.at_most(scale)
    within = least.at_least(-scale)
    node = (within * (inverse * _levels(bits))).node("Round")
    return node


def _single(scale: GraphValue) -> GraphValue:
    shape = scale.op.scalar_shape()
    return GraphValue(scale.op, scale.op.add("Reshape", scale.name, shape), scale.dtype)


def _largest(x: GraphValue, rank: int, first: int = 0) -> GraphValue:
    made = x.op.graph.reduce("ReduceMax", x.node("Abs").name, list(range(first, rank)))
    return GraphValue(x.op, made, x.dtype)


@exports(
    "fake_quantize_range_abs_max",
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
)
def _by_known_scale(op: OpView) -> None:
    op.idle("moving_rate", "window_size", "InAccum", "InState", "Iter")
    if not op.attr("is_test"):
        raise op.error("it looks for its scale: export the program's clone(for_test=True)")
    x, given = values_of(op, "X", "InScale")
    scale = _single(given)
    value = op.attr("bit_length")
    bits = int(value)
    if "dequantize" in op.type:
        op.put(_there_and_back(op, x, scale, bits).name)
    else:
        op.put(_steps(x, scale, bits).name)
    op.put(given.reshape(1).name, "OutScale")


def _there_and_back(op: OpView, x: GraphValue, scale: GraphValue, bits: int) -> GraphValue:
    """A pair of nodes for 8 bits, where the scale is known."""
    known = op.graph.constants.get(op.x("InScale")) is not None
    if bits != 8 or not known or float(op.parameter("InScale").reshape(-1)[0]) <= _TINY:
        return _steps(x, scale, bits) * (scale / _levels(bits))
    reshaped = op.parameter("InScale").reshape(())
    size = op.graph.constant(reshaped / np.float32(_levels(bits)), x.dtype)
    zero = op.graph.constant(0, np.int8)
    least = x.at_most(scale)
    within = least.at_least(-scale)
    whole = op.add("QuantizeLinear", within.name, size, zero)
    made = op.add("DequantizeLinear", whole, size, zero)
    return GraphValue(op, made, x.dtype)


@exports("fake_quantize_abs_max", "fake_channel_wise_quantize_abs_max")
def _by_own_scale(op: OpView) -> None:
    op.idle("is_test")
    (x,) = values_of(op, "X")
    rank = op.rank()
    by_channel = "channel" in op.type
    scale = _largest(x, rank, int(by_channel))
    op.put(scale.reshape(-1).name, "OutScale")
    if by_channel:
        scale = scale.reshape(-1, *[1] * (rank - 1))
    op.put(_steps(x, scale, int(op.attr("bit_length"))).name)


@exports("moving_average_abs_max_scale")
def _scale_alone(op: OpView) -> None:
    op.idle("moving_rate", "InAccum", "InState")
    if not op.attr("is_test"):
        raise op.error("it looks for its scale: export the program's clone(for_test=True)")
    op.put(op.x())


@exports("fake_dequantize_max_abs", "dequantize_abs_max")
def _dequantize(op: OpView) -> None:
    x, scale = values_of(op, "X", "Scale")
    cast = x.cast(scale.dtype)
    value = op.attr("max_range")
    made = _single(scale) * cast / float(value)
    op.put(made.name)


@exports("fake_channel_wise_dequantize_max_abs")
def _dequantize_channels(op: OpView) -> None:
    x = values_of(op, "X")[0]
    rank = op.rank()
    scales = [GraphValue(op, name, op.dtype()) for name in op.all("Scales")]
    bits = op.attr("quant_bits")
    behind = [1] * (rank - 1)
    if len(scales) == 1:
        reshaped = scales[0].reshape(-1, *behind)
        made = reshaped * x / _levels(bits[0])
    else:
        # a product of quantised weight and input: the channels are in the second dimension
        reshaped_2 = scales[0].reshape(1, -1, *behind[1:])
        scale = reshaped_2 * _single(scales[1])
        made = scale * x / (_levels(bits[0]) * _levels(bits[1]))
    op.put(made.name)


@exports("quantize")
def _to_integers(op: OpView) -> None:
    op.idle("output_format")
    dtype = np.int8 if op.attr("is_negative_input") else np.uint8
    limits = np.iinfo(dtype)
    (x,) = values_of(op, "Input")
    value = op.attr("Scale")
    node = (x * float(value)).node("Round")
    most = node.at_least(float(limits.min))
    steps = most.at_most(float(limits.max))
    op.put(steps.cast(dtype).name, "Output")


@exports("dequantize")
def _from_integers(op: OpView) -> None:
    (x,) = values_of(op, "Input")
    op.put((x.cast(np.float32) * (1.0 / float(op.attr("Scale")))).name, "Output")
