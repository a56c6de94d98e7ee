"""`paddle.audio.datasets`: sounds with labels, from files that are there already."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {"fluidlite.paddle.audio.datasets.sounds": "ESC50 TESS"})


__getattr__, __dir__ = _NAMES.load, _NAMES.names
