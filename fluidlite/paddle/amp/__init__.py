"""`paddle.amp`: half precision in programs"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.amp.support": "GradScaler auto_cast decorate is_bfloat16_supported "
        "is_float16_supported"
    },
    "debugging",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
