"""`fluid.contrib.slim.searcher`: searches for settings with a high reward."""

from __future__ import annotations

from fluidlite.contrib.slim.searcher.controller import EvolutionaryController, SAController

__all__ = ["EvolutionaryController", "SAController"]
