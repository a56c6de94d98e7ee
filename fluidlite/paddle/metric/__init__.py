"""`paddle.metric`: figures that are kept over the batches of an epoch"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.metric.metrics": "Accuracy Auc Metric Precision Recall",
        "fluidlite.paddle.static.variables": "accuracy",
    },
)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
