"""`paddle.incubate.nn`: several functions of networks in one."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {}, "functional")


__getattr__, __dir__ = _NAMES.load, _NAMES.names
