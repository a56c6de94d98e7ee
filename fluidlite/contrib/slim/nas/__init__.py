"""`fluid.contrib.slim.nas`: a search for networks."""

from __future__ import annotations

from fluidlite.contrib.slim.nas.controller_server import ControllerServer
from fluidlite.contrib.slim.nas.light_nas_strategy import LightNASStrategy
from fluidlite.contrib.slim.nas.search_agent import SearchAgent
from fluidlite.contrib.slim.nas.search_space import SearchSpace

__all__ = ["ControllerServer", "LightNASStrategy", "SearchAgent", "SearchSpace"]
