"""`fluid.contrib.slim.quantization.mkldnn_post_training_strategy`: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.contrib.slim.quantization.mkldnn import REFUSED

__all__ = ["MKLDNNPostTrainingQuantStrategy"]

MKLDNNPostTrainingQuantStrategy: Any = REFUSED.get("MKLDNNPostTrainingQuantStrategy")
