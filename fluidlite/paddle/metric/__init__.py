"""`paddle.metric`: figures that are kept over the batches of an epoch"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__, {"fluidlite.paddle.metric.metrics": "Accuracy Auc Metric Precision Recall accuracy"}
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
