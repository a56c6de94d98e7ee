"""Ops as PaddlePaddle's passes for oneDNN fuse them: with a bias, a residual, an activation, 8-bit scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.fused.plain_ops import PlainOps, Rule, UnknownForm
from fluidlite.ir.operator import Operator

__all__ = ["ONEDNN", "activate"]


_NOT_IN_8_BITS = "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
_PLAIN = ("relu", "sigmoid", "tanh", "mish", "abs", "sqrt", "exp", "log", "round", "square")


# ---------------------------------------------------------------------- activations
def activate(writer: PlainOps, name: str) -> None:
    """The activation `name`, whose settings are in `fuse_alpha` and `fuse_beta`."""
    alpha, beta = float(writer.attr("fuse_alpha", 0.0)), float(writer.attr("fuse_beta", 0.0))
    settings: dict[str, dict[str, Any]] = {
        **{
            plain: {}
            for plain in ["relu", "sigmoid", "tanh", "mish", "abs", "sqrt", "exp", "log", "round", "square"]
        },
        "gelu": {"approximate": False},
        "relu6": {"threshold": alpha or 6.0},
        "leaky_relu": {"alpha": alpha},
        "elu": {"alpha": alpha},
        "swish": {"beta": alpha if "fuse_alpha" in writer.op.attrs else 1.0},
        "hard_sigmoid": {"slope": alpha, "offset": beta},
        "clip": {"min": alpha, "max": beta},
        "hard_swish": _hard_swish(alpha, beta),
    }
    if name in ("", "identity", "linear"):
        return
    if name in ("gelu_tanh", "gelu_erf"):
        writer.then("gelu", approximate=name == "gelu_tanh")
    elif name in settings:
        writer.then(name, **settings[name])
    else:
        raise UnknownForm(f"is fused with {name!r}, an activation that FluidLite does not know there")


def _hard_swish(alpha: float, beta: float) -> dict[str, float]:
    """x clip(alpha x + beta, 0, 1); releases that always computed x relu6(x + 3) / 6 wrote 0, or 6 and 3."""
    if (alpha, beta) in ((0.0, 0.0), (6.0, 3.0)):
        return {"threshold": 6.0, "scale": 6.0, "offset": 3.0}
    return {"threshold": 1 / alpha, "scale": 1 / alpha, "offset": beta / alpha} if alpha else {}


def _activation_of(writer: PlainOps) -> str:
    if writer.attr("fuse_brelu", False):
        return "relu6"
    return "relu" if writer.attr("fuse_relu", False) else str(writer.attr("fuse_activation", ""))


# ---------------------------------------------------------------------- convolutions
_CONV_ATTRS = "strides paddings dilations groups padding_algorithm data_format output_padding output_size"
_FUSED_CONV = {
    "fuse_activation": "",
    "fuse_relu": False,
    "fuse_brelu": False,
    "fuse_residual_connection": False,
    "fuse_relu_before_depthwise_conv": False,
}


def _is_8_bit(writer: PlainOps) -> bool:
    return writer.attr("mkldnn_data_type", "float32") == "int8"


def _conv_is_fused(op: Operator) -> bool:
    return (
        op.type.startswith("fused_")
        or bool(op.inputs.get("Bias"))
        or any(op.attrs.get(name, plain) != plain for name, plain in _FUSED_CONV.items())
        or op.attrs.get("mkldnn_data_type") == "int8"
    )


def _conv(writer: PlainOps) -> None:
    attrs = writer.given(_CONV_ATTRS)
    x, w = writer.name("Input"), writer.name("Filter")
    if writer.attr("fuse_relu_before_depthwise_conv", False):
        x = writer.add("relu", {"X": x})
    if _is_8_bit(writer):
        x = writer.add("dequantize", {"Input": x}, "Output", Scale=writer.attr("Scale_in", 1.0))
        w = _steps_of_weights(writer, w, writer.attr("Scale_weights", [1.0]))
    type = writer.op.type.removeprefix("fused_")
    writer.add(type, {"Input": x, "Filter": w}, "Output", **attrs)
    if writer.name("Bias"):
        last = str(attrs.get("data_format", "NCHW")).endswith("C")
        writer.add("elementwise_add", {"X": writer.value, "Y": writer.name("Bias")}, axis=-1 if last else 1)
    residual = bool(writer.attr("fuse_residual_connection", False))
    if residual:
        _add_residual(writer)
    if writer.attr("fuse_brelu", False):
        writer.then("relu6", threshold=writer.attr("fuse_brelu_threshold", 6.0))
    else:
        activate(writer, _activation_of(writer))
    # the sum with a residual takes the residual's type, which has a sign
    _to_8_bits(writer, _activation_of(writer) in ("relu", "relu6") and not residual)


def _steps_of_weights(writer: PlainOps, w: str, scales: Sequence[float]) -> str:
    """Weights as the 8-bit numbers of the kernel would be: whole multiples of 1 / scale, one scale or one for
    each filter.
    """
    var = writer.block._find_var_recursive(w)
    if var is None or var.dtype != VarType.FP32:
        raise UnknownForm(f"has 8-bit weights {w!r}: FluidLite reads weights of 32 bits, and scales")
    shape = [len(scales), *([1] * (len(var.shape) - 1))]
    scale = writer.add("assign_value", {}, shape=shape, dtype=int(VarType.FP32), fp32_values=list(scales))
    writer.add("elementwise_mul", {"X": w, "Y": scale})
    writer.then("round")
    writer.then("clip", min=-128.0, max=127.0)
    return writer.add("elementwise_div", {"X": writer.value, "Y": scale})


def _add_residual(writer: PlainOps) -> None:
    made, other = writer.value, writer.name("ResidualData")
    if not other:
        raise UnknownForm("is fused with a residual connection, and has nothing in its slot 'ResidualData'")
    if _is_8_bit(writer):
        scale = writer.attr("Scale_in_eltwise", 1.0)
        other = writer.add("dequantize", {"Input": other}, "Output", Scale=scale)
    writer.add("elementwise_add", {"X": made, "Y": other})


def _to_8_bits(writer: PlainOps, positive: bool) -> None:
    if _is_8_bit(writer) and not writer.attr("force_fp32_output", False):
        scale = writer.attr("Scale_out", 1.0)
        writer.then("quantize", "Input", "Output", Scale=scale, is_negative_input=not positive)


# ---------------------------------------------------------------------- products
_MATMUL_FUSED = tuple(
    f"fused_{what}_{slot}" for what in ("reshape", "transpose") for slot in ("X", "Y", "Out")
)


def _matmul_is_fused(op: Operator) -> bool:
    return (
        op.type == "fused_matmul"
        or any(op.attrs.get(name) for name in _MATMUL_FUSED)
        or bool(op.attrs.get("fuse_activation"))
        or bool(op.inputs.get("ResidualData"))
        or op.attrs.get("fused_output_scale", 1.0) != 1.0
        or op.attrs.get("mkldnn_data_type") == "int8"
    )


def _matmul(writer: PlainOps) -> None:
    """X and Y are reshaped, then transposed; the product is transposed, then reshaped."""
    operands = {}
    for slot in "XY":
        name = writer.name(slot)
        if _is_8_bit(writer):
            scale = writer.attr(f"Scale_{slot.lower()}", 1.0)
            name = writer.add("dequantize", {"Input": name}, "Output", Scale=scale)
        if writer.attr(f"fused_reshape_{slot}", []):
            name = writer.add("reshape2", {"X": name}, shape=writer.attr(f"fused_reshape_{slot}", []))
        if writer.attr(f"fused_transpose_{slot}", []):
            name = writer.add("transpose2", {"X": name}, axis=writer.attr(f"fused_transpose_{slot}", []))
        operands[slot] = name
    if writer.op.type == "matmul":
        kept = ("transpose_X", "transpose_Y", "alpha")
        writer.add(
            "matmul", operands, **{name: writer.op.attrs[name] for name in kept if name in writer.op.attrs}
        )
    else:
        trans = {name: bool(writer.attr(name, False)) for name in ("trans_x", "trans_y")}
        writer.add("matmul_v2", operands, **trans)
        if writer.attr("matmul_alpha", 1.0) != 1.0:
            writer.then("scale", scale=writer.attr("matmul_alpha", 1.0))
    if writer.name("ResidualData"):
        _add_residual(writer)
    activate(writer, _activation_of(writer))
    if writer.attr("fused_output_scale", 1.0) != 1.0:
        writer.then("scale", scale=writer.attr("fused_output_scale", 1.0))
    _to_8_bits(writer, _activation_of(writer) in ("relu", "relu6"))
    if writer.attr("fused_transpose_Out", []):
        writer.then("transpose2", axis=writer.attr("fused_transpose_Out", []))
    if writer.attr("fused_reshape_Out", []):
        writer.then("reshape2", shape=writer.attr("fused_reshape_Out", []))


def _fc_is_fused(op: Operator) -> bool:
    return bool(op.inputs.get("ResidualData")) or op.attrs.get("mkldnn_data_type") == "int8"


def _fc(writer: PlainOps) -> None:
    if _is_8_bit(writer):
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    operands = {slot: writer.name(slot) for slot in ("Input", "W", "Bias")}
    kept = {
        name: writer.op.attrs[name]
        for name in ("in_num_col_dims", "padding_weights")
        if name in writer.op.attrs
    }
    writer.add("fc", operands, **kept)
    _add_residual(writer)
    activate(writer, str(writer.attr("activation_type", "")) or _activation_of(writer))


# ---------------------------------------------------------------------- the others
def _is_activated(op: Operator) -> bool:
    return op.type.startswith("fused_") or bool(op.attrs.get("fuse_activation"))


def _elementwise(writer: PlainOps) -> None:
    scales = [float(writer.attr(name, 1.0)) for name in ("scale_x", "scale_y", "scale_out")]
    if scales != [1.0, 1.0, 1.0]:
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    type = writer.op.type.removeprefix("fused_")
    operands = {slot: writer.name(slot) for slot in "XY"}
    writer.add(type, operands, axis=writer.attr("axis", -1))
    activate(writer, _activation_of(writer))
    if writer.attr("fused_output_scale", 1.0) != 1.0:
        writer.then("scale", scale=writer.attr("fused_output_scale", 1.0))
    if writer.attr("fused_unsqueeze2_axes", []):
        writer.then("unsqueeze2", axes=writer.attr("fused_unsqueeze2_axes", []))


def _softplus(writer: PlainOps) -> None:
    writer.add("softplus", {"X": writer.name("X")}, **writer.given("beta threshold"))
    activate(writer, _activation_of(writer))


def _transpose(writer: PlainOps) -> None:
    if writer.attr("scale", 1.0) != 1.0 or writer.attr("shift", 0.0) or writer.attr("output_data_type", ""):
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    writer.value = writer.name("X")
    if writer.attr("fused_squeeze2_axes", []):
        writer.then("squeeze2", axes=writer.attr("fused_squeeze2_axes", []))
    writer.then("transpose2", axis=writer.attr("axis", []))
    if writer.attr("fused_unsqueeze2_axes", []):
        writer.then("unsqueeze2", axes=writer.attr("fused_unsqueeze2_axes", []))
    if writer.attr("fused_reshape2_shape", []):
        writer.then("reshape2", shape=writer.attr("fused_reshape2_shape", []))


def _normalised_is_fused(op: Operator) -> bool:
    return bool(op.attrs.get("fuse_with_relu"))


def _normalised(writer: PlainOps) -> None:
    op = writer.op
    attrs = {name: value for name, value in op.attrs.items() if name != "fuse_with_relu"}
    writer.add(op.type, {slot: names[0] for slot, names in op.inputs.items() if names}, "Y", **attrs)
    writer.then("relu")


# op types, the sign that one is fused, and the ops in its place
_CONVS = (
    "conv2d depthwise_conv2d conv3d conv2d_transpose depthwise_conv2d_transpose conv3d_transpose "
    "fused_conv2d fused_conv3d"
)
_ELEMENTWISE = " ".join(
    f"{each} fused_{each}" for each in map("elementwise_{}".format, ("add", "sub", "mul", "div"))
)
ONEDNN: tuple[Rule, ...] = (
    (_CONVS, _conv_is_fused, _conv),
    ("matmul matmul_v2 fused_matmul", _matmul_is_fused, _matmul),
    ("fc", _fc_is_fused, _fc),
    (_ELEMENTWISE, _is_activated, _elementwise),
    ("softplus fused_softplus", _is_activated, _softplus),
    ("fused_transpose", _is_activated, _transpose),
    ("batch_norm", _normalised_is_fused, _normalised),
)
