"""`paddle.static.amp.bf16`: programs that train in bfloat16"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.static.amp.bf16.amp_lists": "AutoMixedPrecisionListsBF16",
        "fluidlite.paddle.static.amp.bf16.amp_utils": (
            "bf16_guard cast_model_to_bf16 cast_parameters_to_bf16 convert_float_to_uint16 "
            "rewrite_program_bf16"
        ),
        "fluidlite.paddle.static.amp.bf16.decorator": "decorate_bf16",
    },
    "amp_lists amp_utils decorator",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
