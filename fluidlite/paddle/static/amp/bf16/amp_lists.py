"""Lists of op types that compute in bfloat16, under the names that 2.x has for that."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fluidlite.base.families import types_with
from fluidlite.contrib.mixed_precision import fp16_lists as of_fluid
from fluidlite.paddle.static.amp.fp16_lists import FUNCTIONS, GRAY

__all__ = ["AutoMixedPrecisionListsBF16"]

BF16 = types_with("amp_bf16", "white") | {"fused_gemm_epilogue"}
FP32 = types_with("amp_bf16", "black") | FUNCTIONS


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
        self.gray_list = set(GRAY)
        super()._update_list()
