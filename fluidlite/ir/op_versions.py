"""Versions of ops' meanings, which files of PaddlePaddle 2.x name for each op type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.errors import FormatError

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["check_op_versions"]

# version -> the op types that have it in 2.6.2; all others have version 0
_TYPES = {
    1: (
        "affine_grid auc clip collect_fpn_proposals conv2d conv3d conv3d_transpose cudnn_lstm cumsum "
        "data_norm depthwise_conv2d depthwise_conv2d_transpose dequantize elementwise_add elementwise_div "
        "elementwise_mul elementwise_pow elementwise_sub equal fake_channel_wise_quantize_abs_max flip "
        "gather generate_proposals_v2 greater_equal greater_than grid_sampler hard_shrink instance_norm "
        "lamb leaky_relu less_equal less_than linspace lookup_table lookup_table_v2 lstsq matmul "
        "matrix_nms mish momentum not_equal p_norm pixel_shuffle print rank_attention requantize seed "
        "send_and_recv softplus trace transfer_layout unique_consecutive yolo_box"
    ),
    2: (
        "allclose coalesce_tensor conv2d_transpose distribute_fpn_proposals "
        "fake_channel_wise_dequantize_max_abs fill_constant generate_proposal_labels generate_proposals "
        "moving_average_abs_max_scale quantize roi_pool roll"
    ),
    3: ("roi_align"),
    4: ("set_value"),
}
_NEWEST = {op_type: version for version, types in _TYPES.items() for op_type in types.split()}


def check_op_versions(program: Program) -> None:
    """FormatError if the program's file gives an op of it a newer meaning than 2.6.2 has.

    The file lists all ops that its writer knew, of which only those that the program has matter.
    """
    if not program.op_versions:
        return
    used = {op.type for block in program.blocks for op in block.ops}
    for op_type in sorted(used & program.op_versions.keys()):
        version, newest = program.op_versions[op_type], _NEWEST.get(op_type, 0)
        if version > newest:
            raise FormatError(
                f"op {op_type!r} of this program has version {version}, and known are those up to {newest}: "
                "a later PaddlePaddle than 2.6.2 wrote it, where the op may mean something else"
            )
