"""`fluid.distributed.fleet`: the servers of pslib. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "fluid.distributed.fleet",
    "Paddle's closed parameter server (pslib) is not here; fluid.DistributeTranspiler has servers",
    classes="Fleet",
    functions="",
)
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
