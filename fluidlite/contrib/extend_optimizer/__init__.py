"""`fluid.contrib.extend_optimizer`: optimizers with weight decay that is not part of the gradient."""

from __future__ import annotations

from fluidlite.contrib.extend_optimizer.extend_optimizer_with_weight_decay import (
    DecoupledWeightDecay,
    extend_with_decoupled_weight_decay,
)

__all__ = ["DecoupledWeightDecay", "extend_with_decoupled_weight_decay"]
