"""`paddle.jit`: saved models as layers; what traces imperative code is refused"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames
from fluidlite.paddle.jit.refused import REFUSED

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.jit.translated_layer": "TranslatedLayer load",
        "fluidlite.paddle.jit.refused": " ".join(REFUSED.names),
    },
    "translated_layer",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
