"""`fluid.contrib.slim.quantization.quantization_pass`: the passes over graphs."""

from __future__ import annotations

from fluidlite.contrib.slim.quantization.freeze import (
    ConvertToInt8Pass,
    QuantizationFreezePass,
    TransformForMobilePass,
)
from fluidlite.contrib.slim.quantization.out_scale import OutScaleForInferencePass, OutScaleForTrainingPass
from fluidlite.contrib.slim.quantization.transform import AddQuantDequantPass, QuantizationTransformPass

__all__ = [
    "AddQuantDequantPass",
    "ConvertToInt8Pass",
    "OutScaleForInferencePass",
    "OutScaleForTrainingPass",
    "QuantizationFreezePass",
    "QuantizationTransformPass",
    "TransformForMobilePass",
]
