"""What fluid keeps beside its core."""
from __future__ import annotations

from fluidlite.contrib.extend_optimizer import extend_with_decoupled_weight_decay

__all__ = ["extend_with_decoupled_weight_decay"]
