"""To be written by its owner."""
from __future__ import annotations

from fluidlite.layers.data_layer import data

__all__: list[str] = ["data"]
