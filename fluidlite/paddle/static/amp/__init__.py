"""`paddle.static.amp`: programs that train in half precision"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.static.amp.decorator": "decorate",
        "fluidlite.paddle.static.amp.fp16_lists": "AutoMixedPrecisionLists CustomOpLists",
        "fluidlite.paddle.static.amp.fp16_utils": "cast_model_to_fp16 cast_parameters_to_fp16 fp16_guard",
    },
    "bf16 debugging decorator fp16_lists fp16_utils",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
