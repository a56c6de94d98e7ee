"""`fluid.dygraph.learning_rate_scheduler`: schedules that count calls. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.dygraph.refused import REFUSED

_REFUSED = REFUSED["learning_rate_scheduler"]
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
