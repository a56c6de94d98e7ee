"""Lists of op types that compute in bfloat16, under the names that 2.x has for that."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fluidlite.contrib.mixed_precision import fp16_lists as of_fluid
from fluidlite.paddle.static.amp.fp16_lists import ALSO_GRAY, NO_LONGER_GRAY

__all__ = ["AutoMixedPrecisionListsBF16"]

BF16 = frozenset(
    ["conv2d", "einsum", "fused_gemm_epilogue", "matmul", "matmul_v2", "max_pool2d_with_index", "mul"]
)
FP32 = frozenset(
    [
        "acos",
        "asin",
        "atanh",
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
        "fake_quantize_dequantize_abs_max",
        "fake_quantize_dequantize_moving_average_abs_max",
        "frobenius_norm",
        "group_norm",
        "hsigmoid_loss",
        "huber_loss",
        "log",
        "log10",
        "log2",
        "log_loss",
        "log_softmax",
        "margin_cross_entropy",
        "mean",
        "nll_loss",
        "pnorm",
        "pow",
        "reciprocal",
        "reduce_mean",
        "reduce_prod",
        "reduce_sum",
        "renorm",
        "rsqrt",
        "sigmoid_cross_entropy_with_logits",
        "sinh",
        "softmax",
        "softmax_with_cross_entropy",
        "softmin",
        "softplus",
        "square",
        "tan",
        "tanh_shrink",
        "triplet_margin_loss",
    ]
)


class AutoMixedPrecisionListsBF16(of_fluid.AutoMixedPrecisionLists):
    """The lists of one training in bfloat16; `bf16_list` and `fp32_list` are the white and the black one.

    custom_bf16_list, custom_fp32_list: op types that move to that list; ValueError for one on both.
    custom_fp32_varnames: variables; an op that reads or writes one of them computes in single precision.
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Collection[str] | None = None,
    ) -> None:
        super().__init__(custom_bf16_list, custom_fp32_list, custom_fp32_varnames)

    @property
    def bf16_list(self) -> set[str]:
        """Op types that compute in bfloat16."""
        return self.white_list

    @property
    def fp32_list(self) -> set[str]:
        """Op types that compute in single precision."""
        return self.black_list

    @property
    def fp32_varnames(self) -> Collection[str] | None:
        """Variables whose ops compute in single precision."""
        return self.black_varnames

    def _update_list(self) -> None:
        self.white_list, self.black_list = set(BF16), set(FP32)
        self.gray_list = (self.gray_list - NO_LONGER_GRAY) | ALSO_GRAY
        super()._update_list()
