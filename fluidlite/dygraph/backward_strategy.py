"""`fluid.dygraph.backward_strategy`: how gradients are added up. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.dygraph.refused import REFUSED

_REFUSED = REFUSED["backward_strategy"]
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
