"""Passes and strategies for MKL-DNN: refused by name."""

from __future__ import annotations

from fluidlite.base.refusals import Refusals

__all__ = ["REFUSED"]

REFUSED = Refusals(
    "fluid.contrib.slim.quantization",
    "its programs are for MKL-DNN, which is not here; those of QuantizationFreezePass run anywhere",
    classes="MKLDNNPostTrainingQuantStrategy Qat2Int8MkldnnPass QatInt8MkldnnPass",
)
