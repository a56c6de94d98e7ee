"""Ops as PaddlePaddle's passes for oneDNN fuse them: with a bias, a residual, an activation, 8-bit scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.fused.plain_ops import PlainOps, Rule, UnknownForm, Write
from fluidlite.ir.operator import Operator

__all__ = ["ONEDNN", "activate"]


ONEDNN: list[Rule] = []
"""The rules of this file."""
_NOT_IN_8_BITS = "computes with 8-bit numbers, which FluidLite has for convolutions and products only"


def _fused(types: str, sign: Callable[[Operator], bool]) -> Callable[[Write], Write]:
    """Declare the function that writes out ops of these types which have the sign that they are fused."""

    def declare(write: Write) -> Write:
        ONEDNN.append((types, sign, write))
        return write

    return declare


# ---------------------------------------------------------------------- activations
def activate(plain: PlainOps, name: str) -> None:
    """The activation `name`, whose settings are in `fuse_alpha` and `fuse_beta`."""
    alpha, beta = float(plain.attr("fuse_alpha", 0.0)), float(plain.attr("fuse_beta", 0.0))
    settings: dict[str, dict[str, Any]] = {
        **{
            plain: {}
            for plain in ["relu", "sigmoid", "tanh", "mish", "abs", "sqrt", "exp", "log", "round", "square"]
        },
        "gelu": {"approximate": False},
        "relu6": {"threshold": alpha or 6.0},
        "leaky_relu": {"alpha": alpha},
        "elu": {"alpha": alpha},
        "swish": {"beta": alpha if "fuse_alpha" in plain.op.attrs else 1.0},
        "hard_sigmoid": {"slope": alpha, "offset": beta},
        "clip": {"min": alpha, "max": beta},
        "hard_swish": _hard_swish(alpha, beta),
    }
    if name in ("", "identity", "linear"):
        return
    if name in ("gelu_tanh", "gelu_erf"):
        plain.then("gelu", approximate=name == "gelu_tanh")
    elif name in settings:
        plain.then(name, **settings[name])
    else:
        raise UnknownForm(f"is fused with {name!r}, an activation that FluidLite does not know there")


def _hard_swish(alpha: float, beta: float) -> dict[str, float]:
    """x clip(alpha x + beta, 0, 1); releases that always computed x relu6(x + 3) / 6 wrote 0, or 6 and 3."""
    if (alpha, beta) in ((0.0, 0.0), (6.0, 3.0)):
        return {"threshold": 6.0, "scale": 6.0, "offset": 3.0}
    return {"threshold": 1 / alpha, "scale": 1 / alpha, "offset": beta / alpha} if alpha else {}


def _activation_of(plain: PlainOps) -> str:
    if plain.attr("fuse_brelu", False):
        return "relu6"
    return "relu" if plain.attr("fuse_relu", False) else str(plain.attr("fuse_activation", ""))


def _is_rectified(plain: PlainOps) -> bool:
    """True where the activation gives no negative numbers."""
    return _activation_of(plain).startswith("relu")


# ---------------------------------------------------------------------- convolutions
_CONV_ATTRS = "strides paddings dilations groups padding_algorithm data_format output_padding output_size"
_FUSED_CONV = {
    "fuse_activation": "",
    "fuse_relu": False,
    "fuse_brelu": False,
    "fuse_residual_connection": False,
    "fuse_relu_before_depthwise_conv": False,
}


def _is_8_bit(plain: PlainOps) -> bool:
    return plain.attr("mkldnn_data_type", "float32") == "int8"


def _conv_is_fused(op: Operator) -> bool:
    return (
        op.type.startswith("fused_")
        or bool(op.inputs.get("Bias"))
        or any(op.attrs.get(name, plain) != plain for name, plain in _FUSED_CONV.items())
        or op.attrs.get("mkldnn_data_type") == "int8"
    )


@_fused(
    "conv2d depthwise_conv2d conv3d conv2d_transpose depthwise_conv2d_transpose conv3d_transpose "
    "fused_conv2d fused_conv3d",
    _conv_is_fused,
)
def _conv(plain: PlainOps) -> None:
    attrs = plain.given(_CONV_ATTRS)
    x, w = plain.name("Input"), plain.name("Filter")
    if plain.attr("fuse_relu_before_depthwise_conv", False):
        x = plain.add("relu", {"X": x})
    if _is_8_bit(plain):
        x = plain.add("dequantize", {"Input": x}, "Output", Scale=plain.attr("Scale_in", 1.0))
        w = _steps_of_weights(plain, w, plain.attr("Scale_weights", [1.0]))
    type = plain.op.type.removeprefix("fused_")
    plain.add(type, {"Input": x, "Filter": w}, "Output", **attrs)
    if plain.name("Bias"):
        last = str(attrs.get("data_format", "NCHW")).endswith("C")
        plain.add("elementwise_add", {"X": plain.value, "Y": plain.name("Bias")}, axis=-1 if last else 1)
    residual = bool(plain.attr("fuse_residual_connection", False))
    if residual:
        _add_residual(plain)
    if plain.attr("fuse_brelu", False):
        plain.then("relu6", threshold=plain.attr("fuse_brelu_threshold", 6.0))
    else:
        activate(plain, _activation_of(plain))
    # the sum with a residual takes the residual's type, which has a sign
    _to_8_bits(plain, _is_rectified(plain) and not residual)


def _steps_of_weights(plain: PlainOps, w: str, scales: Sequence[float]) -> str:
    """Weights as the 8-bit numbers of the kernel would be: whole multiples of 1 / scale, one scale or one for
    each filter.
    """
    var = plain.block._find_var_recursive(w)
    if var is None or var.dtype != VarType.FP32:
        raise UnknownForm(f"has 8-bit weights {w!r}: FluidLite reads weights of 32 bits, and scales")
    shape = [len(scales), *([1] * (len(var.shape) - 1))]
    scale = plain.add("assign_value", {}, shape=shape, dtype=int(VarType.FP32), fp32_values=list(scales))
    plain.add("elementwise_mul", {"X": w, "Y": scale})
    plain.then("round")
    plain.then("clip", min=-128.0, max=127.0)
    return plain.add("elementwise_div", {"X": plain.value, "Y": scale})


def _add_residual(plain: PlainOps) -> None:
    made, other = plain.value, plain.name("ResidualData")
    if not other:
        raise UnknownForm("is fused with a residual connection, and has nothing in its slot 'ResidualData'")
    if _is_8_bit(plain):
        scale = plain.attr("Scale_in_eltwise", 1.0)
        other = plain.add("dequantize", {"Input": other}, "Output", Scale=scale)
    plain.add("elementwise_add", {"X": made, "Y": other})


def _to_8_bits(plain: PlainOps, positive: bool) -> None:
    if _is_8_bit(plain) and not plain.attr("force_fp32_output", False):
        scale = plain.attr("Scale_out", 1.0)
        plain.then("quantize", "Input", "Output", Scale=scale, is_negative_input=not positive)


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


@_fused("matmul matmul_v2 fused_matmul", _matmul_is_fused)
def _matmul(plain: PlainOps) -> None:
    """X and Y are reshaped, then transposed; the product is transposed, then reshaped."""
    operands = {}
    for slot in "XY":
        name = plain.name(slot)
        if _is_8_bit(plain):
            scale = plain.attr(f"Scale_{slot.lower()}", 1.0)
            name = plain.add("dequantize", {"Input": name}, "Output", Scale=scale)
        if plain.attr(f"fused_reshape_{slot}", []):
            name = plain.add("reshape2", {"X": name}, shape=plain.attr(f"fused_reshape_{slot}", []))
        if plain.attr(f"fused_transpose_{slot}", []):
            name = plain.add("transpose2", {"X": name}, axis=plain.attr(f"fused_transpose_{slot}", []))
        operands[slot] = name
    if plain.op.type == "matmul":
        kept = ("transpose_X", "transpose_Y", "alpha")
        plain.add(
            "matmul", operands, **{name: plain.op.attrs[name] for name in kept if name in plain.op.attrs}
        )
    else:
        plain.add("matmul_v2", operands, **plain.given("trans_x trans_y"))
        if plain.attr("matmul_alpha", 1.0) != 1.0:
            plain.then("scale", scale=plain.attr("matmul_alpha", 1.0))
    if plain.name("ResidualData"):
        _add_residual(plain)
    activate(plain, _activation_of(plain))
    if plain.attr("fused_output_scale", 1.0) != 1.0:
        plain.then("scale", scale=plain.attr("fused_output_scale", 1.0))
    _to_8_bits(plain, _is_rectified(plain))
    if plain.attr("fused_transpose_Out", []):
        plain.then("transpose2", axis=plain.attr("fused_transpose_Out", []))
    if plain.attr("fused_reshape_Out", []):
        plain.then("reshape2", shape=plain.attr("fused_reshape_Out", []))


def _fc_is_fused(op: Operator) -> bool:
    return bool(op.inputs.get("ResidualData")) or op.attrs.get("mkldnn_data_type") == "int8"


@_fused("fc", _fc_is_fused)
def _fc(plain: PlainOps) -> None:
    if _is_8_bit(plain):
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    operands = {slot: plain.name(slot) for slot in ("Input", "W", "Bias")}
    kept = {
        name: plain.op.attrs[name]
        for name in ("in_num_col_dims", "padding_weights")
        if name in plain.op.attrs
    }
    plain.add("fc", operands, **kept)
    _add_residual(plain)
    activate(plain, str(plain.attr("activation_type", "")) or _activation_of(plain))


# ---------------------------------------------------------------------- the others
def _is_activated(op: Operator) -> bool:
    return op.type.startswith("fused_") or bool(op.attrs.get("fuse_activation"))


@_fused(
    " ".join(f"elementwise_{kind} fused_elementwise_{kind}" for kind in ("add", "sub", "mul", "div")),
    _is_activated,
)
def _elementwise(plain: PlainOps) -> None:
    scales = [float(plain.attr(name, 1.0)) for name in ("scale_x", "scale_y", "scale_out")]
    if scales != [1.0, 1.0, 1.0]:
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    type = plain.op.type.removeprefix("fused_")
    operands = {slot: plain.name(slot) for slot in "XY"}
    plain.add(type, operands, axis=plain.attr("axis", -1))
    activate(plain, _activation_of(plain))
    if plain.attr("fused_output_scale", 1.0) != 1.0:
        plain.then("scale", scale=plain.attr("fused_output_scale", 1.0))
    if plain.attr("fused_unsqueeze2_axes", []):
        plain.then("unsqueeze2", axes=plain.attr("fused_unsqueeze2_axes", []))


@_fused("softplus fused_softplus", _is_activated)
def _softplus(plain: PlainOps) -> None:
    plain.add("softplus", {"X": plain.name("X")}, **plain.given("beta threshold"))
    activate(plain, _activation_of(plain))


@_fused("fused_transpose", _is_activated)
def _transpose(plain: PlainOps) -> None:
    if plain.attr("scale", 1.0) != 1.0 or plain.attr("shift", 0.0) or plain.attr("output_data_type", ""):
        raise UnknownForm(
            "computes with 8-bit numbers, which FluidLite has for convolutions and products only"
        )
    plain.value = plain.name("X")
    if plain.attr("fused_squeeze2_axes", []):
        plain.then("squeeze2", axes=plain.attr("fused_squeeze2_axes", []))
    plain.then("transpose2", axis=plain.attr("axis", []))
    if plain.attr("fused_unsqueeze2_axes", []):
        plain.then("unsqueeze2", axes=plain.attr("fused_unsqueeze2_axes", []))
    if plain.attr("fused_reshape2_shape", []):
        plain.then("reshape2", shape=plain.attr("fused_reshape2_shape", []))


def _normalised_is_fused(op: Operator) -> bool:
    return bool(op.attrs.get("fuse_with_relu"))


@_fused("batch_norm", _normalised_is_fused)
def _normalised(plain: PlainOps) -> None:
    op = plain.op
    attrs = {name: value for name, value in op.attrs.items() if name != "fuse_with_relu"}
    plain.add(op.type, {slot: names[0] for slot, names in op.inputs.items() if names}, "Y", **attrs)
    plain.then("relu")
