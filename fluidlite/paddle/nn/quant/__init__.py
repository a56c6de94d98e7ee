"""`paddle.nn.quant`: layers that are quantised, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.nn.quant import quant_layers
from fluidlite.paddle.quantization.observers import WHY

REFUSED = Refusals(
    "paddle.nn.quant",
    WHY,
    classes=("Stub"),
    functions=("weight_only_linear llm_int8_linear weight_quantize weight_dequantize"),
)
__all__ = ["quant_layers", *REFUSED.names]


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
