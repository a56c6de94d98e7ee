"""`fluid.device_worker`: kinds of threads that train. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "fluid.device_worker",
    "Executor.train_from_dataset runs data sets here, without Paddle's C++ trainers",
    classes="DeviceWorker Hogwild DownpourSGD DownpourSGDOPT Section",
    functions="",
)
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
