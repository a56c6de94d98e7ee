"""Lists of op types that compute in half precision in 2.x programs: 2.6.2's over those of fluid."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fluidlite.base import registry
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.families import types_with
from fluidlite.contrib.mixed_precision import fp16_lists as of_fluid

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists", "half_of", "with_the_rest_in_half"]

# names of 2.6.2's lists that are no op types here
_FUSED = frozenset(["fused_attention", "fused_bn_add_activation", "fused_feedforward"])
ONLY_FP16 = frozenset(["fused_bn_add_activation", "resnet_unit"])
"""Those of WHITE that 2.6.2 does not compute in bfloat16."""
FUNCTIONS = frozenset(["hsigmoid_loss", "margin_cross_entropy", "pnorm", "softmin", "triplet_margin_loss"])

WHITE = types_with("amp_fp16", "white") | _FUSED | ONLY_FP16 | {"fused_gemm_epilogue"}
BLACK = types_with("amp_fp16", "black") | FUNCTIONS
GRAY = types_with("amp_fp16", "gray") | _FUSED | {"fused_multi_transformer", "rank"}


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
        self.gray_list = set(GRAY)
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
