"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {}, "calls group objects stream tensors")


__getattr__, __dir__ = _NAMES.load, _NAMES.names
