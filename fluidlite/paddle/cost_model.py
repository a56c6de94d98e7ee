"""`paddle.cost_model`: what ops cost, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.cost_model",
    "measures kernels of Paddle's library; `fluidlite.transpiler.estimate` says what a job costs, and "
    "paddle.profiler what ops take",
    classes=("CostModel"),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
