"""`paddle.quantization.quanters`: what rounds the values of layers, which is refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.quantization.observers import WHY

REFUSED = Refusals("paddle.quantization.quanters", WHY, classes=("FakeQuanterWithAbsMaxObserver"))
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
