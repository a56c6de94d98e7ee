"""`paddle.quantization`: quantisation of layers, which is refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.quantization import observers, quanters
from fluidlite.paddle.quantization.observers import WHY

REFUSED = Refusals(
    "paddle.quantization",
    WHY,
    classes=("QuantConfig BaseQuanter BaseObserver QAT PTQ"),
    functions=("quanter"),
)
__all__ = ["observers", "quanters", *REFUSED.names]


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
