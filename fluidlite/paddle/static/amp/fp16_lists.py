"""Lists of op types that compute in half precision in 2.x programs: 2.6.2's over those of fluid."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fluidlite.base import registry
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.contrib.mixed_precision import fp16_lists as of_fluid

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists", "half_of", "with_the_rest_in_half"]

WHITE = frozenset(
    [
        "conv2d",
        "einsum",
        "fake_quantize_dequantize_abs_max",
        "fake_quantize_dequantize_moving_average_abs_max",
        "fused_attention",
        "fused_bn_add_activation",
        "fused_feedforward",
        "fused_gemm_epilogue",
        "matmul",
        "matmul_v2",
        "max_pool2d_with_index",
        "mul",
        "resnet_unit",
    ]
)
ONLY_FP16 = frozenset({"fused_bn_add_activation", "resnet_unit"})
"""Those of WHITE that 2.6.2 does not compute in bfloat16."""

BLACK = frozenset(
    [
        "acos",
        "asin",
        "atanh",
        "bicubic_interp_v2",
        "bilinear_interp_v2",
        "c_softmax_with_cross_entropy",
        "cosh",
        "cross_entropy",
        "cross_entropy2",
        "cumprod",
        "cumsum",
        "dist",
        "erfinv",
        "exp",
        "expm1",
        "frobenius_norm",
        "group_norm",
        "hsigmoid_loss",
        "huber_loss",
        "layer_norm",
        "linear_interp_v2",
        "log",
        "log10",
        "log2",
        "log_loss",
        "log_softmax",
        "lookup_table",
        "lookup_table_v2",
        "margin_cross_entropy",
        "mean",
        "nearest_interp_v2",
        "nll_loss",
        "pnorm",
        "pow",
        "reciprocal",
        "reduce_mean",
        "reduce_prod",
        "reduce_sum",
        "renorm",
        "rsqrt",
        "scatter",
        "sigmoid_cross_entropy_with_logits",
        "sinh",
        "softmax",
        "softmax_with_cross_entropy",
        "softmin",
        "softplus",
        "square",
        "tan",
        "tanh_shrink",
        "trilinear_interp_v2",
        "triplet_margin_loss",
    ]
)
ALSO_GRAY = frozenset(
    [
        "c_allreduce_sum",
        "c_concat",
        "c_identity",
        "concat",
        "fused_attention",
        "fused_bn_add_activation",
        "fused_feedforward",
        "fused_multi_transformer",
        "layer_norm",
        "split",
        "uniform_random",
    ]
)
NO_LONGER_GRAY = frozenset({"gaussian_random_batch_size_like", "lookup_table"})


class AutoMixedPrecisionLists(of_fluid.AutoMixedPrecisionLists):
    """The lists of one training: 2.6.2's, with a user's changes as in fluid.

    `dtype` is the half precision that they are for, "float16" or "bfloat16".
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Collection[str] | None = None,
        dtype: DTypeLike = "float16",
    ) -> None:
        self.amp_dtype = dtype
        self._half = half_of(dtype)
        super().__init__(custom_white_list, custom_black_list, custom_black_varnames)

    def _update_list(self) -> None:
        self.white_list = set(WHITE - ONLY_FP16 if self._half == VarType.BF16 else WHITE)
        self.black_list = set(BLACK)
        self.gray_list = (self.gray_list - NO_LONGER_GRAY) | ALSO_GRAY
        super()._update_list()


CustomOpLists = AutoMixedPrecisionLists


def half_of(dtype: DTypeLike) -> VarType:
    """FP16 or BF16. ValueError for another dtype."""
    half = to_vartype(dtype)
    if half not in (VarType.FP16, VarType.BF16):
        raise ValueError(f"dtype has to be 'float16' or 'bfloat16', not {dtype!r}")
    return half


def with_the_rest_in_half(lists: of_fluid.AutoMixedPrecisionLists) -> of_fluid.AutoMixedPrecisionLists:
    """The lists of level O2: an op type on none of them computes in half precision too, if it has a gradient.

    Ops without one, such as metrics, count and compare: they stay in single precision.
    """
    types = {kind for kind in registry.known_types() if registry.get(kind).differentiable}
    lists.white_list |= types - lists.black_list - lists.gray_list
    return lists
