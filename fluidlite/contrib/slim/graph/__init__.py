"""`fluid.contrib.slim.graph`: programs with names for what goes in and comes out."""

from __future__ import annotations

from fluidlite.contrib.slim.graph.executor import SlimGraphExecutor
from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper, VarWrapper

__all__ = ["GraphWrapper", "OpWrapper", "SlimGraphExecutor", "VarWrapper"]
