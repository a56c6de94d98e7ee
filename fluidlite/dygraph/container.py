"""`fluid.dygraph.container`: lists of layers. Refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.dygraph.refused import REFUSED

_REFUSED = REFUSED["container"]
__all__ = _REFUSED.names


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
