"""`fluid.contrib.slim`: smaller models: quantised, pruned, taught by larger ones, or searched for."""

from __future__ import annotations

from fluidlite.contrib.slim import core, distillation, graph, nas, prune, quantization, searcher
from fluidlite.contrib.slim.core import Compressor

__all__ = ["Compressor", "core", "distillation", "graph", "nas", "prune", "quantization", "searcher"]
