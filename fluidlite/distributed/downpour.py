"""`fluid.distributed.downpour`: the optimizer of pslib. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "fluid.distributed.downpour",
    "Paddle's closed parameter server (pslib) is not here; fluid.DistributeTranspiler has servers",
    classes="DownpourSGD",
    functions="",
)
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
