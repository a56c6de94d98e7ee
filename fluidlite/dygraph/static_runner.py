"""`fluid.dygraph.static_runner`: saved models run as layers. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.dygraph.refused import REFUSED

_REFUSED = REFUSED["static_runner"]
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
