"""`fluid.contrib.slim.core.compressor`: training in which strategies make a model smaller."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.contrib.slim.core.config import ConfigFactory
from fluidlite.contrib.slim.graph.executor import SlimGraphExecutor
from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper
from fluidlite.executor.executor import scope_guard
from fluidlite.log_helper import get_logger

__all__ = ["Compressor", "Context", "cached_reader"]

_logger = get_logger(__name__, logging.INFO)


def cached_reader(
    reader: Callable[[], Iterator[Any]], sampled_rate: float, cache_path: str, cached_id: int
) -> Callable[[], Iterator[Any]]:
    """A reader of a random share of the batches, the same ones each time: a folder keeps them as files."""
    folder = pathlib.Path(cache_path) / str(cached_id)

    def read() -> Iterator[Any]:
        if not folder.exists():
            folder.mkdir(parents=True)
            rng = np.random.RandomState(0)
            kept = (batch for batch in reader() if rng.random_sample() < sampled_rate)
            for index, batch in enumerate(kept):
                columns = [np.asarray(column) for column in zip(*batch, strict=True)]
                np.savez(folder / f"batch_{index:06}.npz", *columns)  # type: ignore[arg-type]
        for path in sorted(folder.glob("batch_*.npz")):
            with np.load(path, allow_pickle=False) as columns:
                arrays = [columns[name] for name in columns.files]
            yield list(zip(*arrays, strict=True))

    return read


class Context:
    """The state of a compression, which strategies read and change."""

    def __init__(
        self,
        place: Any,
        scope: Any,
        train_graph: GraphWrapper | None = None,
        train_reader: Any = None,
        eval_graph: GraphWrapper | None = None,
        eval_reader: Any = None,
        teacher_graphs: Sequence[GraphWrapper] | None = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
    ) -> None:
        self.epoch, self.epoch_id, self.batch_id = 0, 0, 0
        self.k_v: dict[str, Any] = {}
        self.place, self.scope = place, scope
        self.train_graph, self.train_reader = train_graph, train_reader
        self.eval_graph, self.eval_reader = eval_graph, eval_reader
        self.executor: SlimGraphExecutor | None = None
        self.teacher_graphs = teacher_graphs
        self.train_optimizer, self.distiller_optimizer = train_optimizer, distiller_optimizer
        self.optimize_graph: GraphWrapper | None = None
        self.cache_path = "./eval_cache"
        self.eval_results: dict[str, list[float]] = {}
        self.skip_training = False
        self.search_space = search_space

    def to_file(self, file_name: str) -> None:
        """Write the epoch and what evaluations gave, as JSON."""
        state = {"epoch_id": self.epoch_id, "eval_results": self.eval_results}
        pathlib.Path(file_name).write_text(json.dumps(state), encoding="utf8")

    def from_file(self, file_name: str) -> None:
        """Read what `to_file` wrote."""
        state = json.loads(pathlib.Path(file_name).read_text(encoding="utf8"))
        self.epoch_id, self.eval_results = int(state["epoch_id"]), dict(state["eval_results"])

    def eval_converged(self, metric_name: str, delta: float = 0.001) -> bool:
        """True if the last two evaluations differ by less than `delta`."""
        found = self.eval_results.get(metric_name, [])
        return len(found) > 1 and abs(found[-1] - found[-2]) < delta

    def run_eval_graph(
        self, sampled_rate: float | None = None, cached_id: int = 0
    ) -> tuple[list[Any], list[str]]:
        """Means of the evaluation graph's outputs over the data, or over a share of it, and their names."""
        assert self.eval_graph is not None and self.eval_reader is not None, (
            "the Compressor has no evaluation graph or no evaluation reader"
        )
        reader = self.eval_reader
        if sampled_rate is not None:
            reader = cached_reader(reader, sampled_rate, self.cache_path, cached_id)
        executor = self.executor or SlimGraphExecutor(self.place)
        with scope_guard(self.scope):
            found = [executor.run(self.eval_graph, self.scope, data=batch) for batch in reader()]
        means = [np.mean([np.mean(one) for one in column]) for column in zip(*found, strict=True)]
        return means, list(self.eval_graph.out_nodes)

    def put(self, key: str, value: Any) -> None:
        """Keep a value for later."""
        self.k_v[key] = value

    def get(self, key: str) -> Any:
        """A value that was kept; None where there is none."""
        return self.k_v.get(key)


class Compressor:
    """Trains a model for some epochs while strategies change it.

    Parameters
    ----------
    place, scope: where, and with which values.
    train_program, train_reader, train_feed_list, train_fetch_list: the program that computes the loss, its
        data, and pairs of a name and a variable's name for its inputs and outputs (one of them "loss").
    eval_program, eval_reader, eval_feed_list, eval_fetch_list: the same to evaluate with.
    eval_func: functions of (program, scope) by name, whose results are evaluations as well.
    save_eval_model, prune_infer_model: whether checkpoints have the evaluation graph, and the names of
        inputs and outputs of a model that infers.
    teacher_programs: larger models to learn from.
    checkpoint_path: folder of a checkpoint each epoch, from which a run goes on.
    train_optimizer, distiller_optimizer: what trains; None where the program trains already.
    search_space: networks to search among.
    log_period: batches between messages.
    """

    def __init__(
        self,
        place: Any,
        scope: Any,
        train_program: Any,
        train_reader: Any = None,
        train_feed_list: Any = None,
        train_fetch_list: Any = None,
        eval_program: Any = None,
        eval_reader: Any = None,
        eval_feed_list: Any = None,
        eval_fetch_list: Any = None,
        eval_func: Any = None,
        save_eval_model: bool = True,
        prune_infer_model: Any = None,
        teacher_programs: Sequence[Any] = (),
        checkpoint_path: str | None = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
        log_period: int = 20,
    ) -> None:
        for what, pairs in (("train_feed_list", train_feed_list), ("train_fetch_list", train_fetch_list)):
            assert pairs is None or isinstance(pairs, (list, dict)), (
                f"{what} should be a list of pairs or a dict, not {type(pairs).__name__}"
            )
        self.strategies: list[Any] = []
        self.epoch, self.eval_epoch = 0, 1
        self.place, self.scope = place, scope
        self.train_graph = GraphWrapper(train_program, train_feed_list or (), train_fetch_list or ())
        self.eval_graph = GraphWrapper(eval_program, eval_feed_list or (), eval_fetch_list or ())
        self.train_reader, self.eval_reader, self.eval_func = train_reader, eval_reader, eval_func
        self.save_eval_model, self.prune_infer_model = save_eval_model, prune_infer_model
        self.teacher_graphs = [GraphWrapper(program) for program in teacher_programs]
        self.checkpoint_path, self.init_model = checkpoint_path, None
        self.train_optimizer, self.distiller_optimizer = train_optimizer, distiller_optimizer
        self.search_space, self.log_period = search_space, log_period

    def _add_strategy(self, strategy: Any) -> None:
        self.strategies.append(strategy)
        self.epoch = max(strategy.end_epoch, self.epoch)

    def config(self, config_file: str) -> None:
        """Take the strategies and settings of a YAML file; see `ConfigFactory`."""
        found = ConfigFactory(config_file).compressor
        self.epoch = found.get("epoch", self.epoch)
        for strategy in found["strategies"]:
            self._add_strategy(strategy)
        self.checkpoint_path = found.get("checkpoint_path", self.checkpoint_path)
        self.init_model = found.get("init_model", self.init_model)
        self.eval_epoch = found.get("eval_epoch", self.eval_epoch)

    def run(self) -> GraphWrapper:
        """Train; the evaluation graph of the smaller model."""
        context = Context(
            self.place,
            self.scope,
            self.train_graph,
            self.train_reader,
            self.eval_graph,
            self.eval_reader,
            self.teacher_graphs,
            self.train_optimizer,
            self.distiller_optimizer,
            self.search_space,
        )
        context.epoch, context.executor = self.epoch, SlimGraphExecutor(self.place)
        self._init_model(context)
        self._load_checkpoint(context)
        self._tell("on_compression_begin", context)
        while context.epoch_id < self.epoch:
            self._tell("on_epoch_begin", context)
            self._train_one_epoch(context)
            self._tell("on_epoch_end", context)
            if self.eval_epoch and context.epoch_id % self.eval_epoch == 0 and self.eval_reader is not None:
                self._eval(context)
            context.epoch_id += 1
            self._save_checkpoint(context)
        self._tell("on_compression_end", context)
        assert context.eval_graph is not None
        return context.eval_graph

    def _tell(self, moment: str, context: Context) -> None:
        for strategy in self.strategies:
            _MOMENTS[moment](strategy, context)

    def _init_model(self, context: Context) -> None:
        """Load values to begin with, and have the model train."""
        assert context.train_graph is not None
        executor = SlimGraphExecutor(self.place).exe
        if self.init_model:
            with scope_guard(self.scope):
                context.train_graph.load_persistables(self.init_model, executor)
            for graph in (context.train_graph, self.eval_graph):
                graph.update_param_shape(self.scope)
                graph.update_groups_of_conv()
                graph.infer_shape()
        context.optimize_graph = context.train_graph
        if self.train_optimizer is not None:
            context.optimize_graph = context.train_graph.get_optimize_graph(
                self.train_optimizer, self.place, self.scope
            )

    # ------------------------------------------------------------------ epochs
    def _train_one_epoch(self, context: Context) -> None:
        if context.skip_training or context.train_reader is None:
            return
        assert context.executor is not None and context.optimize_graph is not None
        context.batch_id = 0
        for batch in context.train_reader():
            self._tell("on_batch_begin", context)
            with scope_guard(context.scope):
                results = context.executor.run(context.optimize_graph, context.scope, data=batch)
            if self.log_period > 0 and context.batch_id % self.log_period == 0:
                means = [
                    f"{name} {np.mean(one):.5f}"
                    for name, one in zip(context.optimize_graph.out_nodes, results)
                ]
                _logger.info("epoch %d, batch %d: %s", context.epoch_id, context.batch_id, ", ".join(means))
            self._tell("on_batch_end", context)
            context.batch_id += 1

    def _eval(self, context: Context) -> None:
        results, names = context.run_eval_graph()
        found = dict(zip(names, results, strict=True))
        if self.eval_func is not None:
            assert context.eval_graph is not None
            for name, function in self.eval_func.items():
                found[name] = function(context.eval_graph.program, context.scope)
        for name, value in found.items():
            context.eval_results.setdefault(name, []).append(float(value))
        means = ", ".join(f"{name} {float(value):.5f}" for name, value in found.items())
        _logger.info("epoch %d, evaluation: %s", context.epoch_id, means)

    # ------------------------------------------------------------------ checkpoints
    def _save_checkpoint(self, context: Context) -> None:
        """Save the epoch, the values, and the models that were asked for, in a folder named by the epoch."""
        if not self.checkpoint_path:
            return
        assert context.optimize_graph is not None and context.eval_graph is not None
        folder = pathlib.Path(self.checkpoint_path) / str(context.epoch_id - 1)
        folder.mkdir(parents=True, exist_ok=True)
        executor = SlimGraphExecutor(self.place).exe
        with scope_guard(context.scope):
            context.optimize_graph.save_persistables(str(folder / "persistables"), executor)
            if self.save_eval_model and context.eval_graph.out_nodes:
                context.eval_graph.save_model(str(folder / "eval_model"), executor)
            if self.prune_infer_model:
                context.eval_graph.save_infer_model(
                    str(folder / "eval_model"), executor, self.prune_infer_model, self.save_eval_model
                )
        context.to_file(str(folder / "context.json"))  # last: a checkpoint without it is not whole

    def _load_checkpoint(self, context: Context) -> None:
        """Go on from the last whole checkpoint."""
        if not self.checkpoint_path:
            return
        found = pathlib.Path(self.checkpoint_path).glob("*/context.json")
        folders = sorted(
            (path.parent for path in found if path.parent.name.isdigit()), key=lambda one: int(one.name)
        )
        if not folders:
            return
        assert context.optimize_graph is not None
        context.from_file(str(folders[-1] / "context.json"))
        for strategy in self.strategies:
            strategy.restore_from_checkpoint(context)
        with scope_guard(context.scope):
            executor = SlimGraphExecutor(self.place).exe
            context.optimize_graph.load_persistables(str(folders[-1] / "persistables"), executor)
        for graph in (context.optimize_graph, context.eval_graph):
            assert graph is not None
            graph.update_param_shape(context.scope)
            graph.update_groups_of_conv()
            graph.infer_shape()


_MOMENTS: dict[str, Callable[[Any, Context], None]] = {
    "on_compression_begin": lambda strategy, context: strategy.on_compression_begin(context),
    "on_epoch_begin": lambda strategy, context: strategy.on_epoch_begin(context),
    "on_epoch_end": lambda strategy, context: strategy.on_epoch_end(context),
    "on_batch_begin": lambda strategy, context: strategy.on_batch_begin(context),
    "on_batch_end": lambda strategy, context: strategy.on_batch_end(context),
    "on_compression_end": lambda strategy, context: strategy.on_compression_end(context),
}
