"""`paddle.device.xpu`: Kunlun devices, which are not here."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals("paddle.device.xpu", "there are no kernels for XPU devices here", functions="synchronize")
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
