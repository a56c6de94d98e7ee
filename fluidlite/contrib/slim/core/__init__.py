"""`fluid.contrib.slim.core`: a compression, its strategies and its configuration."""

from __future__ import annotations

from fluidlite.contrib.slim.core.compressor import Compressor, Context
from fluidlite.contrib.slim.core.config import ConfigFactory
from fluidlite.contrib.slim.core.strategy import Strategy

__all__ = ["Compressor", "ConfigFactory", "Context", "Strategy"]
