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
