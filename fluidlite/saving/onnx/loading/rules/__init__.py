"""Rules by which ONNX nodes become ops, one subject a file; they enter the table as they are imported."""

from fluidlite.saving.onnx.loading.rules import (
    control,
    elementwise,
    images,
    known,
    neural,
    picking,
    quantising,
    recurrent,
    reductions,
    shapes,
)

__all__ = [
    "control",
    "elementwise",
    "images",
    "known",
    "neural",
    "picking",
    "quantising",
    "recurrent",
    "reductions",
    "shapes",
]
