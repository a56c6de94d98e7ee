"""`fluid.incubate.fleet.utils.fleet_barrier_util`: a barrier of files on HDFS. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "fluid.incubate.fleet.utils.fleet_barrier_util",
    "Paddle's closed parameter server (pslib) is not here; fluid.DistributeTranspiler has servers",
    classes="",
    functions="check_all_trainers_ready",
)
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
