"""Attributes of Paddle's ops that steer libraries which are not here: programs may set and read them, and
nothing else happens. Convolutions on a device heed `use_cudnn`, `workspace_size_MB` and `exhaustive_search`.

An op that is not given one does not store it either, so that the text of programs stays short. Its bytes have
it all the same: kernels of 1.8.5's gradients read it there, and know no default.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.registry import Attr, infer_attr_type

__all__ = ["kept_attrs"]

_CONVS = "conv2d depthwise_conv2d"
_TRANSPOSED = "conv2d_transpose depthwise_conv2d_transpose"
_MATHS = (
    "abs ceil cos exp floor log log1p logsigmoid reciprocal relu round rsqrt sigmoid sin softplus softsign "
    "sqrt square tanh tanh_shrink"
)
# name, default, and the ops that have it: the same attribute may have other defaults elsewhere
_TABLE: tuple[tuple[str, Any, str], ...] = (
    ("use_cudnn", False, f"{_MATHS} {_CONVS} {_TRANSPOSED} conv3d conv3d_transpose gelu pool2d pool3d"),
    ("use_cudnn", True, "affine_grid grid_sampler"),
    (
        "use_mkldnn",
        False,
        (
            f"{_MATHS} {_CONVS} {_TRANSPOSED} addmm batch_norm concat conv3d conv3d_transpose data_norm fc "
            f"gelu inplace_abn "
            "leaky_relu lrn matmul mul partial_sum pool2d pool3d prior_box swish transpose transpose2"
        ),
    ),
    ("use_quantizer", False, f"{_CONVS} fc matmul pool2d prior_box"),
    ("workspace_size_MB", 512, f"{_CONVS} {_TRANSPOSED} conv3d conv3d_transpose"),
    ("exhaustive_search", False, f"{_CONVS} conv3d"),
    ("force_fp32_output", False, f"{_CONVS} conv3d fc matmul mul"),
    ("fuse_activation", "", f"{_CONVS} {_TRANSPOSED} conv3d"),
    ("fuse_alpha", 0.0, f"{_CONVS} {_TRANSPOSED} conv3d"),
    ("fuse_beta", 0.0, f"{_CONVS} {_TRANSPOSED} conv3d"),
    ("fuse_relu", False, f"{_CONVS} {_TRANSPOSED} conv3d"),
    ("fuse_residual_connection", False, f"{_CONVS} conv3d"),
    ("fuse_brelu", False, _CONVS),
    ("fuse_brelu_threshold", 6.0, _CONVS),
    ("fuse_relu_before_depthwise_conv", False, _CONVS),
    ("fuse_with_relu", False, "batch_norm inplace_abn"),
    ("Scale_in", 1.0, f"{_CONVS} fc"),
    ("Scale_in_eltwise", 1.0, _CONVS),
    ("Scale_weights", [1.0], f"{_CONVS} fc"),
    ("Scale_out", 1.0, f"{_CONVS} fc matmul"),
    ("Scale_x", 1.0, "matmul"),
    ("Scale_y", 1.0, "matmul"),
    ("fused_reshape_Out", [], "matmul"),
    ("fused_transpose_Out", [], "matmul"),
    ("head_number", 1, "matmul"),
    ("scale_x", 1.0, "mul"),
    ("scale_y", [1.0], "mul"),
    ("scale_out", 1.0, "mul"),
)
_BY_OP: dict[str, dict[str, Attr]] = {}
for _name, _default, _types in _TABLE:
    for _type in _types.split():
        _BY_OP.setdefault(_type, {})[_name] = Attr(infer_attr_type(_default), _default)


def kept_attrs(op_type: str) -> dict[str, Attr]:
    """Name -> type and default of the attributes that ops of that type, and their gradients, keep for
    nothing.
    """
    # fluid's gradient ops take over the attributes of their forward ops
    return _BY_OP.get(op_type.removesuffix("_grad"), {})


IDLE = {
    "use_mkldnn": "chooses a library of Paddle's",
    "use_cudnn": "chooses a library on a device",
    "use_quantizer": "marks an op for a pass of Paddle's",
    "mkldnn_data_type": "chooses a library of Paddle's",
    "with_quant_attr": "marks an op for a pass of Paddle's",
    "workspace_size_MB": "limits the memory of a library",
    "exhaustive_search": "chooses an algorithm",
    "numeric_stable_mode": "chooses an algorithm: softmax is always stable here",
    "use_seq": "chooses an algorithm",
    "sorted": "allows another order",
    "x_data_format": "tells Paddle's library the layout in memory",
    "y_data_format": "tells Paddle's library the layout in memory",
    "output_format": "tells Paddle's library the layout in memory",
    "is_distributed": "tells of tables that lie on servers: the transpiler reads it",
    "remote_prefetch": "tells of tables that lie on servers: the transpiler reads it",
    "trainer_id": "tells of tables that lie on servers: the transpiler reads it",
    "epmap": "tells of tables that lie on servers: the transpiler reads it",
    "height_sections": "tells of tables that lie on servers: the transpiler reads it",
    "table_names": "tells of tables that lie on servers: the transpiler reads it",
    "skip_eager_deletion_vars": "keeps values in memory",
    "force_fp32_output": "belongs to a library's 8-bit numbers",
    "Scale_data": "belongs to a library's 8-bit numbers",
    "Shift_data": "belongs to a library's 8-bit numbers",
    "Scale_in": "belongs to a library's 8-bit numbers",
    "Scale_out": "belongs to a library's 8-bit numbers",
    "Scale_weights": "belongs to a library's 8-bit numbers",
    "force_cpu": "places a value: the executor does",
    "place_type": "places a value: the executor does",
    "dst_place_type": "places a value: the executor does",
    "device_id": "places a value: the executor does",
    "use_calc_stream": "chooses a stream",
    "in_dtype": "tells what the input declares",
    "grad_inplace": "allows to write over a value",
    "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": "is an order to Paddle's kernels",
    "multi_precision": "is refused by the optimizers of 2.x for weights of half precision",
}
"""Names of attributes that change no value in any op here, with what they do in Paddle."""
