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


def _away(op: OpView) -> bool:
    """True where halves are rounded away from zero: in 2.x, unless `round_type` is 0."""
    is_of_2x = op.op.block.program.is_of_2x
    op.idle("of_2x")
    return int(op.attr("round_type")) == 1 and is_of_2x


def _steps(x: GraphValue, scale: GraphValue, bits: int, away: bool) -> GraphValue:
    """Integer multiples of the scale, as real numbers."""
    is_there = scale.compare("LessOrEqual", _TINY)
    chosen = is_there.where(scale + 1e-06, scale)
    inverse = 1.0 / chosen
    least = x.at_most(scale)
    within = least.at_least(-scale)
    steps = within * (inverse * _levels(bits))
    return _rounded_away(steps) if away else steps.node("Round")


def _rounded_away(x: GraphValue) -> GraphValue:
    size = (x.node("Abs") + 0.5).node("Floor")
    return x.node("Sign") * size


def _single(scale: GraphValue) -> GraphValue:
    shape = scale.op.scalar_shape()
    reshape = scale.op.add("Reshape", scale.name, shape)
    return GraphValue(scale.op, reshape, scale.dtype)


def _largest(x: GraphValue, rank: int) -> GraphValue:
    made = x.op.graph.reduce("ReduceMax", x.node("Abs").name, list(range(rank)))
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
    bits = int(op.attr("bit_length"))
    if "dequantize" in op.type:
        found = _there_and_back(op, x, scale, bits)
        op.put(found.name)
    else:
        result = _steps(x, scale, bits, _away(op))
        op.put(result.name)
    made = given.reshape(1)
    op.put(made.name, "OutScale")


def _there_and_back(op: OpView, x: GraphValue, scale: GraphValue, bits: int) -> GraphValue:
    """A pair of nodes for 8 bits, where the scale is known."""
    away = _away(op)
    known = op.graph.constants.get(op.x("InScale")) is not None
    if bits != 8 or not known or float(op.parameter("InScale").reshape(-1)[0]) <= _TINY:
        return _steps(x, scale, bits, away) * (scale / _levels(bits))
    reshaped = op.parameter("InScale").reshape(())
    size = op.graph.constant(reshaped / np.float32(_levels(bits)), x.dtype)
    zero = op.graph.constant(0, np.int8)
    least = x.at_most(scale)
    within = least.at_least(-scale)
    whole = op.add("QuantizeLinear", within.name, size, zero)
    made = op.add("DequantizeLinear", whole, size, zero)
    return GraphValue(op, made, x.dtype)


def _along(op: OpView, scale: GraphValue, axis: int) -> GraphValue:
    """Scales as they go with X: one for each index of dimension `axis`."""
    return scale.reshape(-1, *[1] * (op.rank() - 1 - axis))


@exports(
    "fake_quantize_abs_max",
    "fake_channel_wise_quantize_abs_max",
    "fake_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
def _by_own_scale(op: OpView) -> None:
    op.idle("is_test")
    (x,) = values_of(op, "X")
    if "channel" in op.type:
        axis = int(op.attr("quant_axis"))
        others = [at for at in range(op.rank()) if at != axis]
        found = op.graph.reduce("ReduceMax", x.node("Abs").name, others)
        scale = _along(op, GraphValue(op, found, x.dtype), axis)
    else:
        scale = _largest(x, op.rank())
    result = scale.reshape(-1)
    op.put(result.name, "OutScale")
    bits = int(op.attr("bit_length"))
    made = _steps(x, scale, bits, _away(op))
    if "dequantize" in op.type:
        made = made * scale / _levels(bits)
    op.put(made.name)


@exports("quantize_linear")
def _quantize_linear(op: OpView) -> None:
    scale = _linear(op)
    (x,) = values_of(op, "X")
    bits = int(op.attr("bit_length"))
    if int(op.attr("round_type")) == 1:
        found = _steps(x, scale, bits, True)
        op.put(found.name, "Y")
        return
    is_there = scale.compare("LessOrEqual", _TINY)
    inverse = _levels(bits) / is_there.where(scale + 1e-06, scale)
    rounded = (x * inverse).node("Round")
    made = rounded.at_least(-_levels(bits) - 1).at_most(_levels(bits))
    op.put(made.name, "Y")


@exports("dequantize_linear")
def _dequantize_linear(op: OpView) -> None:
    op.idle("round_type")
    scale = _linear(op)
    (x,) = values_of(op, "X")
    real = x.cast(scale.dtype)
    made = real * scale / _levels(int(op.attr("bit_length")))
    op.put(made.name, "Y")


def _linear(op: OpView) -> GraphValue:
    """The scale of the two ops, as it goes with X."""
    op.idle("moving_rate", "InAccum", "InState")
    if not op.attr("is_test") or op.attr("only_observer"):
        raise op.error("it looks for its scale: export the program in test mode")
    if op.has("ZeroPoint") and op.parameter("ZeroPoint").any():
        raise op.error("its ZeroPoint is not 0")
    (scale,) = values_of(op, "Scale")
    axis = int(op.attr("quant_axis"))
    return _along(op, scale, axis) if axis >= 0 else _single(scale)


@exports("moving_average_abs_max_scale")
def _scale_alone(op: OpView) -> None:
    op.idle("moving_rate", "InAccum", "InState")
    if not op.attr("is_test"):
        raise op.error("it looks for its scale: export the program's clone(for_test=True)")
    made = op.x()
    op.put(made)


@exports("fake_dequantize_max_abs", "dequantize_abs_max")
def _dequantize(op: OpView) -> None:
    x, scale = values_of(op, "X", "Scale")
    cast = x.cast(scale.dtype)
    made = _single(scale) * cast / float(op.attr("max_range"))
    op.put(made.name)


@exports("fake_channel_wise_dequantize_max_abs")
def _dequantize_channels(op: OpView) -> None:
    x = values_of(op, "X")[0]
    scales = [GraphValue(op, name, op.dtype()) for name in op.all("Scales")]
    bits = op.attr("quant_bits")
    axis, columns = int(op.attr("quant_axis")), int(op.attr("x_num_col_dims"))
    if len(scales) == 1:
        made = _along(op, scales[0], axis) * x / _levels(bits[0])
    else:
        # a product of quantised weight and input: the channels are in the second dimension, or a later one
        scale = _along(op, scales[0], columns) * _single(scales[1])
        made = scale * x / (_levels(bits[0]) * _levels(bits[1]))
    op.put(made.name)


@exports("quantize")
def _to_integers(op: OpView) -> None:
    op.idle("output_format")
    dtype = np.int8 if op.attr("is_negative_input") else np.uint8
    limits = np.iinfo(dtype)
    (x,) = values_of(op, "Input")
    node = (x * float(op.attr("Scale"))).node("Round")
    most = node.at_least(float(limits.min))
    steps = most.at_most(float(limits.max))
    made = steps.cast(dtype)
    op.put(made.name, "Output")


@exports("dequantize")
def _from_integers(op: OpView) -> None:
    (x,) = values_of(op, "Input")
    made = x.cast(np.float32) * (1.0 / float(op.attr("Scale")))
    op.put(made.name, "Output")
