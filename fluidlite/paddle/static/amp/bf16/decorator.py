"""An optimizer that rewrites a program to bfloat16."""

from __future__ import annotations

from fluidlite.optimizer.base import Optimizer
from fluidlite.paddle.static.amp.bf16.amp_lists import AutoMixedPrecisionListsBF16
from fluidlite.paddle.static.amp.decorator import OptimizerWithMixedPrecision, decorate

__all__ = ["decorate_bf16"]


def decorate_bf16(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionListsBF16 | None = None,
    use_pure_bf16: bool = False,
    use_bf16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """`optimizer` for a program that `minimize` rewrites to bfloat16; the loss is not scaled.

    use_pure_bf16: all op types but the list of single precision compute in bfloat16.
    use_bf16_guard: only ops written under `bf16_guard` do; by default with `use_pure_bf16`.
    """
    return decorate(
        optimizer,
        amp_lists=AutoMixedPrecisionListsBF16() if amp_lists is None else amp_lists,
        level="O2" if use_pure_bf16 else "O1",
        dtype="bfloat16",
        use_amp_guard=use_pure_bf16 if use_bf16_guard is None else use_bf16_guard,
    )
