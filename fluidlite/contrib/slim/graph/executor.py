"""`fluid.contrib.slim.graph.executor`: running graphs."""

from __future__ import annotations

from typing import Any

from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper, VarWrapper
from fluidlite.data_feeder import DataFeeder
from fluidlite.executor.executor import Executor

__all__ = ["GraphWrapper", "OpWrapper", "SlimGraphExecutor", "VarWrapper"]


class SlimGraphExecutor:
    """Runs graphs on a place."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.exe = Executor(place)

    def run(self, graph: GraphWrapper, scope: Any, data: Any = None) -> list[Any]:
        """The values of the graph's outputs.

        `data` is a list of samples, in the order of the graph's inputs, or a dict or list of dicts of
        arrays by the names of variables; None where readers in the program have it.
        """
        assert isinstance(graph, GraphWrapper), "graph must be the instance of GraphWrapper."
        feed = data
        if isinstance(data, list) and data and not isinstance(data[0], dict):
            feed = DataFeeder(list(graph.in_nodes.values()), self.place, graph.program).feed(data)
        elif isinstance(data, list) and len(data) == 1 and graph.compiled_graph is None:
            feed = data[0]
        program = graph.program if graph.compiled_graph is None else graph.compiled_graph
        fetches = list(graph.out_nodes.values())
        found: list[Any] = self.exe.run(program, feed=feed, fetch_list=fetches, scope=scope)
        return found
