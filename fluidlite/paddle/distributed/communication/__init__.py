"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(__name__, {}, "calls group objects stream tensors")


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
