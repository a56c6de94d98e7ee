"""Rules by which ops become ONNX, one subject a file; they enter the table as they are imported."""

from fluidlite.saving.onnx.rules import (
    control,
    decoding,
    filling,
    images,
    math,
    neural,
    pools,
    quantising,
    rearranging,
    recurrent,
    reductions,
    scalars,
    sequences,
    tensors,
)
from fluidlite.saving.onnx.rules.detection import boxes, proposals, suppression

__all__ = [
    "boxes",
    "control",
    "decoding",
    "filling",
    "images",
    "math",
    "neural",
    "pools",
    "proposals",
    "quantising",
    "rearranging",
    "recurrent",
    "reductions",
    "scalars",
    "sequences",
    "suppression",
    "tensors",
]
