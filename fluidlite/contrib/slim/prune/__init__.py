"""`fluid.contrib.slim.prune`: networks with fewer channels."""

from __future__ import annotations

from fluidlite.contrib.slim.prune.auto_prune_strategy import AutoPruneStrategy
from fluidlite.contrib.slim.prune.prune_strategy import (
    PruneStrategy,
    SensitivePruneStrategy,
    UniformPruneStrategy,
)
from fluidlite.contrib.slim.prune.pruner import Pruner, StructurePruner

__all__ = [
    "AutoPruneStrategy",
    "PruneStrategy",
    "Pruner",
    "SensitivePruneStrategy",
    "StructurePruner",
    "UniformPruneStrategy",
]
