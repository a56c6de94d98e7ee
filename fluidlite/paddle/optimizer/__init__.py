"""`paddle.optimizer`: optimizers under the names and defaults of 2.x"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.optimizer.optimizers": "Adadelta Adagrad Adam AdamW Adamax Lamb Momentum Optimizer "
        "RMSProp SGD"
    },
    "lr",
)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
