"""`paddle.audio`: what signals of sound need."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__, {"fluidlite.paddle.audio.backends": "info load save"}, "backends datasets features functional"
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
