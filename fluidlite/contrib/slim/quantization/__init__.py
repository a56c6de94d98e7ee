"""`fluid.contrib.slim.quantization`: models whose weights and values are small integers."""

from __future__ import annotations

from fluidlite.contrib.slim.quantization.post_training_quantization import (
    PostTrainingQuantization,
    WeightQuantization,
)
from fluidlite.contrib.slim.quantization.quantization_pass import (
    AddQuantDequantPass,
    ConvertToInt8Pass,
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)

__all__ = [
    "AddQuantDequantPass",
    "ConvertToInt8Pass",
    "OutScaleForInferencePass",
    "OutScaleForTrainingPass",
    "PostTrainingQuantization",
    "QuantizationFreezePass",
    "QuantizationTransformPass",
    "TransformForMobilePass",
    "WeightQuantization",
]
