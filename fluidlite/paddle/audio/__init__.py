"""`paddle.audio`: what signals of sound need."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {}, "functional")


__getattr__, __dir__ = _NAMES.load, _NAMES.names
