"""`fluid.trainer_factory`: makers of trainers, refused when used, and `FetchHandler`."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.executor.datasets import FetchHandler

_REFUSED = Refusals(
    "fluid.trainer_factory",
    "Executor.train_from_dataset runs data sets here, without Paddle's C++ trainers",
    classes="TrainerFactory FetchHandlerMonitor",
)
__all__ = ["FetchHandler", *_REFUSED.names]


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
