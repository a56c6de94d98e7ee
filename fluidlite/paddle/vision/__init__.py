"""`paddle.vision`: what images need"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {}, "models ops transforms")


__getattr__, __dir__ = _NAMES.load, _NAMES.names
