"""`fluid.contrib.slim.nas.light_nas_strategy`: a search for small networks that are good."""

from __future__ import annotations

import pathlib
import socket
import tempfile
from typing import Any

import numpy as np

from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper
from fluidlite.contrib.slim.nas.controller_server import ControllerServer
from fluidlite.contrib.slim.nas.lock import lock, unlock
from fluidlite.contrib.slim.nas.search_agent import SearchAgent
from fluidlite.contrib.slim.nas.search_space import SearchSpace
from fluidlite.contrib.slim.strategy import Strategy
from fluidlite.executor.executor import Executor, scope_guard
from fluidlite.values.scope import Scope

__all__ = ["LightNASStrategy", "SearchSpace"]


class LightNASStrategy(Strategy):
    """Trains networks of a search space in turn, and tells a controller how good they are.

    Parameters
    ----------
    controller: proposes networks, such as `SAController`.
    end_epoch: the last epoch of the search.
    target_flops, target_latency: networks stay below these; 0 for no limit.
    retrain_epoch: epochs that each network trains.
    metric_name: the output of the evaluation graph that is the reward.
    server_ip, server_port, key: the controller's server; with `is_server`, it runs in this process.
    max_client_num, search_steps: limits of the server.
    """

    def __init__(
        self,
        controller: Any = None,
        end_epoch: int = 1000,
        target_flops: float = 629145600,
        target_latency: float = 0,
        retrain_epoch: int = 1,
        metric_name: str = "top1_acc",
        server_ip: str | None = None,
        server_port: int = 0,
        is_server: bool = False,
        max_client_num: int = 100,
        search_steps: int | None = None,
        key: str = "light-nas",
    ) -> None:
        super().__init__(0, end_epoch)
        self._controller, self._metric_name, self._key = controller, metric_name, key
        self._max_flops, self._max_latency = target_flops, target_latency
        self._retrain_epoch = retrain_epoch
        self._server_ip, self._server_port = server_ip or self._get_host_ip(), server_port
        self._is_server, self._max_client_num, self._search_steps = is_server, max_client_num, search_steps
        self._server: ControllerServer | None = None
        self._search_agent: SearchAgent | None = None
        self._current_tokens: list[int] = []

    def _get_host_ip(self) -> str:
        return socket.gethostbyname("localhost")

    def on_compression_begin(self, context: Any) -> None:
        """Start the server, or find out where it is: its port is in a locked file of the temporary folder."""
        space = context.search_space
        self._current_tokens = list(space.init_tokens())
        self._controller.reset(
            space.range_table(), self._current_tokens, lambda tokens: self._constrain_func(tokens, context)
        )
        path = pathlib.Path(tempfile.gettempdir()) / f"light_nas_{self._key}.socket"
        path.touch()
        with path.open("r+") as file:
            lock(file)
            if self._is_server:
                self._server = ControllerServer(
                    self._controller,
                    (self._server_ip, self._server_port),
                    self._max_client_num,
                    self._search_steps,
                    self._key,
                )
                self._server.start()
                self._server_port = self._server.port()
                file.truncate(0)
                file.write(str(self._server_port))
            elif not self._server_port:
                self._server_port = int(file.read() or 0)
            unlock(file)
        assert self._server_port, (
            "no controller server runs on this machine: set `server_port` to the port of one"
        )
        self._search_agent = SearchAgent(self._server_ip, self._server_port, self._key)

    def _constrain_func(self, tokens: Any, context: Any) -> bool:
        """True for a network within the limits."""
        program = context.search_space.create_net(tokens)[2]
        if self._max_latency > 0:
            return bool(context.search_space.get_model_latency(program) <= self._max_latency)
        return self._max_flops <= 0 or GraphWrapper(program).flops() <= self._max_flops

    def on_epoch_begin(self, context: Any) -> None:
        """Build the next network, with values of its own, and train it."""
        if context.epoch_id > self.end_epoch or context.epoch_id % max(1, self._retrain_epoch):
            return
        made = context.search_space.create_net(self._current_tokens)
        startup, train, test, train_metrics, test_metrics, train_reader, test_reader = made
        context.scope = Scope()
        with scope_guard(context.scope):
            Executor(context.place).run(startup)
        inputs = context.train_graph.in_nodes
        context.train_graph = GraphWrapper(train, inputs, train_metrics)
        context.optimize_graph = context.train_graph
        context.eval_graph = GraphWrapper(test, context.eval_graph.in_nodes, test_metrics)
        context.train_reader, context.eval_reader = train_reader, test_reader

    def on_epoch_end(self, context: Any) -> None:
        """Tell the controller the reward of a network, which is 0 beyond the limits."""
        if context.epoch_id >= self.end_epoch or (context.epoch_id + 1) % max(1, self._retrain_epoch):
            return
        results, names = context.run_eval_graph()
        reward = float(np.mean(results[list(names).index(self._metric_name)]))
        if not self._constrain_func(self._current_tokens, context):
            reward = 0.0
        assert self._search_agent is not None, "the search has not started"
        self._current_tokens = self._search_agent.update(self._current_tokens, reward)

    def on_compression_end(self, context: Any) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.close()
