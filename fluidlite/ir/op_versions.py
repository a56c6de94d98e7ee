"""Versions of ops' meanings, which files of PaddlePaddle 2.x name for each op type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import FormatError
from fluidlite.base.kept_attrs import IDLE, kept_attrs
from fluidlite.ir.attributes import COMMON_TYPES
from fluidlite.ir.warned import warn_user

if TYPE_CHECKING:
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program

__all__ = ["check_op_versions"]

# version -> the op types that have it in whichever of the releases 2.0.0 to 3.0.0 has the highest; all others
# have version 0. No release has them all: 2.5 and later no longer count the changes of ops that moved
_TYPES = {
    1: (
        "affine_grid arg_max arg_min argsort assign_value auc clip collect_fpn_proposals conv2d conv3d "
        "conv3d_transpose conv_transpose cudnn_lstm cumprod cumsum data_norm depthwise_conv2d "
        "depthwise_conv2d_transpose dequantize elementwise_add elementwise_div elementwise_floordiv "
        "elementwise_max elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub "
        "equal expand_as_v2 fake_channel_wise_quantize_abs_max flip fused_attention fused_feedforward "
        "fused_multi_transformer fusion_gru gather gaussian_random generate_proposals_v2 greater_equal "
        "greater_than grid_sampler hard_shrink histogram instance_norm kldiv_loss lamb leaky_relu "
        "less_equal less_than linspace lookup_table lookup_table_v2 lstsq matmul matrix_nms "
        "max_pool2d_with_index max_pool3d_with_index mish momentum not_equal p_norm pixel_shuffle print "
        "rank_attention requantize round seed send_and_recv softmax_with_cross_entropy softplus "
        "thresholded_relu trace transfer_layout truncated_gaussian_random unique unique_consecutive "
        "weight_dequantize weight_only_linear weight_quantize yolo_box"
    ),
    2: (
        "allclose coalesce_tensor conv2d_transpose distribute_fpn_proposals "
        "fake_channel_wise_dequantize_max_abs fill_constant generate_proposal_labels generate_proposals "
        "moving_average_abs_max_scale quantize roi_pool roll"
    ),
    3: "roi_align",
    4: "adam set_value",
}
_NEWEST = {op_type: version for version, types in _TYPES.items() for op_type in types.split()}

# attributes that versions brought and that ops do not have here, with the values that change nothing
_WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "cumprod": {"exclusive": False, "reverse": False},
    "histogram": {"density": False},
    "kldiv_loss": {"log_target": False},
    "round": {"decimals": 0},
    "thresholded_relu": {"value": 0.0},
    "truncated_gaussian_random": {"a": -2.0, "b": 2.0},
    "print": {"print_tensor_layout": True},
}

# attributes of optimizers that kernels look up by name
_LOOKED_UP = {"always_adapt", "regularization_coeff", "regularization_method", "use_global_beta_pow"}


def check_op_versions(program: Program) -> None:
    """Look at ops that have a newer meaning in the program's file than in any release up to 3.0.0.

    Where all that such an op says is known here, it is a warning at the op's line; FormatError where one of
    its slots or attributes is not, and for attributes that a known version brought and that FluidLite's op
    cannot follow. The file lists all ops that its writer knew, of which those of the program matter.
    """
    for block in program.blocks:
        for op in block.ops:
            if op.definition is None:
                continue
            _check_brought(op)
            version, newest = program.op_versions.get(op.type, 0), _NEWEST.get(op.type, 0)
            if version > newest:
                _check_newer(op, version, newest)


def _check_brought(op: Operator) -> None:
    for name, plain in _WITHOUT_EFFECT.get(op.type.removesuffix("_grad"), {}).items():
        assert op.definition is not None
        if name not in op.definition.attr_defs and op.attrs.get(name, plain) != plain:
            raise FormatError(
                f"op {op.type!r} of this program has the attribute {name!r} of a later version, with the "
                f"value {op.attrs[name]!r}: FluidLite's op computes with {plain!r}\n  built at {op.where}"
            )


def _check_newer(op: Operator, version: int, newest: int) -> None:
    text = f"op {op.type!r} of this program has version {version}, and known are those up to {newest}"
    unknown = _unknown(op)
    if unknown:
        raise FormatError(
            f"{text}: a later PaddlePaddle than 3.0.0 wrote it, with {', '.join(unknown)}, which FluidLite "
            f"does not know\n  built at {op.where}"
        )
    warn_user(f"{text}: it may mean something else than it does here", op.where)


def _unknown(op: Operator) -> list[str]:
    """The slots and attributes of an op that nothing here reads."""
    definition = op.definition
    assert definition is not None
    found = [
        f"the slot {slot!r}" for slot, names in op.inputs.items() if names and slot not in definition.inputs
    ]
    found += [
        f"the slot {slot!r}" for slot, names in op.outputs.items() if names and slot not in definition.outputs
    ]
    known = {*definition.attr_defs, *definition.only, *definition.idle}
    known.update(COMMON_TYPES, kept_attrs(op.type), IDLE, _LOOKED_UP, _WITHOUT_EFFECT.get(op.type, {}))
    return found + [f"the attribute {name!r}" for name in op.attrs if name not in known]
