"""`paddle.optimizer`: optimizers under the names and defaults of 2.x"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.optimizer.optimizers": "Adadelta Adagrad Adam AdamW Adamax Lamb Momentum Optimizer "
        "RMSProp SGD",
        "fluidlite.paddle.optimizer.closures": "LBFGS",
    },
    "lr",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
