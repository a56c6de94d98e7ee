"""`fluid.contrib.slim.core.strategy`: the base of strategies."""

from __future__ import annotations

from fluidlite.contrib.slim.strategy import Strategy

__all__ = ["Strategy"]
