"""`paddle.hapi`: `Model`, which trains a layer with data in a call, and the size of models in numbers"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.hapi"
_NAMES = LazyNames(
    __name__,
    {f"{_HOME}.model": "Model", f"{_HOME}.model_summary": "summary", f"{_HOME}.count": "flops"},
    "callbacks model model_summary progressbar",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
