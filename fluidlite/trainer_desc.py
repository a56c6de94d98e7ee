"""`fluid.trainer_desc`: descriptions of the threads that train. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "fluid.trainer_desc",
    "Executor.train_from_dataset runs data sets here, without Paddle's C++ trainers",
    classes="TrainerDesc MultiTrainer DistMultiTrainer PipelineTrainer",
    functions="",
)
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
