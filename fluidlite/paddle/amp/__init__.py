"""`paddle.amp`: half precision in programs"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.amp.support": "GradScaler auto_cast decorate is_bfloat16_supported "
        "is_float16_supported"
    },
)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
