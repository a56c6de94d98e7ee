"""`paddle.quantization.observers`: what looks at the values of layers, which is refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

WHY = (
    "quantises layers of imperative mode; programs are quantised by "
    "fluidlite.contrib.slim.quantization and fluidlite.contrib.quantize"
)
REFUSED = Refusals("paddle.quantization.observers", WHY, classes=("AbsmaxObserver GroupWiseWeightObserver"))
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
