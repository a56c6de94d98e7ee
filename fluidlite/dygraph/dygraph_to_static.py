"""`fluid.dygraph.dygraph_to_static`: functions turned into programs. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.dygraph.refused import REFUSED

_REFUSED = REFUSED["dygraph_to_static"]
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
