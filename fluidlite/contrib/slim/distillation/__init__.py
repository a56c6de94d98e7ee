"""`fluid.contrib.slim.distillation`: a model that learns from a larger one."""

from __future__ import annotations

from fluidlite.contrib.slim.distillation.distillation_strategy import DistillationStrategy
from fluidlite.contrib.slim.distillation.distiller import FSPDistiller, L2Distiller, SoftLabelDistiller

__all__ = ["DistillationStrategy", "FSPDistiller", "L2Distiller", "SoftLabelDistiller"]
