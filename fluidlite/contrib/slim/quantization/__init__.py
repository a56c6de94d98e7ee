"""`fluid.contrib.slim.quantization`: models whose weights and values are small integers."""

from __future__ import annotations

from fluidlite.contrib.slim.quantization.mkldnn_post_training_strategy import MKLDNNPostTrainingQuantStrategy
from fluidlite.contrib.slim.quantization.post_training_quantization import (
    PostTrainingQuantization,
    WeightQuantization,
)
from fluidlite.contrib.slim.quantization.qat2_int8_mkldnn_pass import Qat2Int8MkldnnPass
from fluidlite.contrib.slim.quantization.qat_int8_mkldnn_pass import QatInt8MkldnnPass
from fluidlite.contrib.slim.quantization.quantization_pass import (
    AddQuantDequantPass,
    ConvertToInt8Pass,
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)
from fluidlite.contrib.slim.quantization.quantization_strategy import QuantizationStrategy

__all__ = [
    "AddQuantDequantPass",
    "ConvertToInt8Pass",
    "MKLDNNPostTrainingQuantStrategy",
    "OutScaleForInferencePass",
    "OutScaleForTrainingPass",
    "PostTrainingQuantization",
    "Qat2Int8MkldnnPass",
    "QatInt8MkldnnPass",
    "QuantizationFreezePass",
    "QuantizationStrategy",
    "QuantizationTransformPass",
    "TransformForMobilePass",
    "WeightQuantization",
]
