"""`paddle.nn.quant.quant_layers`: layers that are quantised, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.quantization.observers import WHY

REFUSED = Refusals(
    "paddle.nn.quant.quant_layers",
    WHY,
    classes=(
        "FakeQuantAbsMax FakeQuantMovingAverageAbsMax FakeQuantChannelWiseAbsMax QuantizedConv2D "
        "QuantizedConv2DTranspose QuantizedLinear MovingAverageAbsMaxScale MAOutputScaleLayer "
        "FakeQuantMAOutputScaleLayer QuantStub QuantizedRowParallelLinear "
        "QuantizedColumnParallelLinear QuantizedMatmul"
    ),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
