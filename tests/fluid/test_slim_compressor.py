"""Searches, and the compressor that runs strategies.

Numbers without another source are those of PaddlePaddle 1.8.5 for the same network.
"""

from __future__ import annotations

import json
import pathlib
import socket
import sys
import types
from typing import Any

import numpy as np
import pytest
from slim_net import IN, PLACE, Net, reader
from waiting import LIMIT

import fluidlite as fluid
from fluidlite.contrib.slim import Compressor
from fluidlite.contrib.slim.core import ConfigFactory
from fluidlite.contrib.slim.core.compressor import cached_reader
from fluidlite.contrib.slim.distillation import DistillationStrategy, SoftLabelDistiller
from fluidlite.contrib.slim.graph import GraphWrapper
from fluidlite.contrib.slim.nas import ControllerServer, LightNASStrategy, SearchAgent, SearchSpace
from fluidlite.contrib.slim.nas.lock import lock, unlock
from fluidlite.contrib.slim.prune import UniformPruneStrategy
from fluidlite.contrib.slim.searcher import EvolutionaryController, SAController
from fluidlite.errors import MissingExtraError


# ---------------------------------------------------------------------- searches
def test_simulated_annealing() -> None:
    controller = SAController(reduce_rate=0.7, init_temperature=2)
    target = [3, 1, 4]
    controller.reset([6, 6, 6], [0, 0, 0], lambda tokens: tokens[0] != 5)
    for _ in range(800):
        tokens = controller.next_tokens()
        assert tokens[0] != 5
        assert all(0 <= token < 6 for token in tokens)
        controller.update(tokens, -float(sum(abs(a - b) for a, b in zip(tokens, target, strict=True))))
    assert controller.best_tokens == target
    assert sum(a != b for a, b in zip(controller.next_tokens([1, 1, 1]), [1, 1, 1], strict=True)) == 1
    controller.reset([6], [2], lambda tokens: False)
    assert controller.next_tokens() == [2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: EvolutionaryController().next_tokens(),
        lambda: EvolutionaryController().update([1], 1.0),
        lambda: EvolutionaryController().reset([1]),
        lambda: SearchSpace().init_tokens(),
        lambda: SearchSpace().create_net([1]),
    ],
)
def test_base_classes_say_that_they_are(call: Any) -> None:
    with pytest.raises(NotImplementedError, match="Abstract method"):
        call()


def test_a_controller_is_served() -> None:
    controller = SAController()
    controller.reset([5, 5, 3], [1, 1, 1])
    server = ControllerServer(controller, ("127.0.0.1", 0), search_steps=2, key="k")
    thread = server.start()
    agent = SearchAgent(server.ip(), server.port(), "k")
    assert len(agent.next_tokens()) == 3
    agent.update([1, 2, 1], 0.5)
    assert controller.best_tokens == [1, 2, 1]
    with pytest.raises(ConnectionError, match="use the same key"):
        SearchAgent(server.ip(), server.port(), "other").update([4, 4, 2], 9.0)
    with socket.create_connection((server.ip(), server.port()), timeout=LIMIT) as client:
        client.sendall(b"nonsense")
        assert client.recv(10) == b""
    agent.update([2, 2, 1], 0.7)
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert controller.best_tokens == [2, 2, 1]


def test_locks(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        lock(file)
        unlock(file)


# ---------------------------------------------------------------------- the compressor
CONFIG: dict[str, Any] = {
    "version": 1.0,
    "pruners": {
        "pruner_1": {"class": "StructurePruner", "pruning_axis": {"*": 0}, "criterions": {"*": "l1_norm"}}
    },
    "strategies": {
        "prune": {
            "class": "UniformPruneStrategy",
            "pruner": "pruner_1",
            "start_epoch": 1,
            "target_ratio": 0.5,
        },
        "quantise": {
            "class": "QuantizationStrategy",
            "start_epoch": 2,
            "end_epoch": 2,
            "weight_quantize_type": "channel_wise_abs_max",
            "activation_quantize_type": "moving_average_abs_max",
            "save_in_nodes": ["image"],
        },
    },
    "compressor": {"epoch": 3, "strategies": ["prune", "quantise"]},
}


@pytest.fixture
def written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a configuration, as JSON, which is YAML: its package may be missing."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        monkeypatch.setitem(sys.modules, "yaml", types.SimpleNamespace(safe_load=json.loads))

    def write(config: dict[str, Any]) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(config))
        return str(path)

    return write


def test_configuration(written: Any) -> None:
    factory = ConfigFactory(written(CONFIG))
    strategy = factory.instance("prune")
    assert isinstance(strategy, UniformPruneStrategy)
    assert (strategy.start_epoch, strategy.target_ratio, strategy.end_epoch) == (1, 0.5, 0)
    assert strategy.pruner is factory.instance("pruner_1")
    assert factory.compressor["strategies"] == [strategy, factory.instance("quantise")]
    assert (factory.version, factory.instance("nothing")) == (1, None)
    wrong = {**CONFIG, "pruners": {"pruner_1": {"class": "StructurePrunner"}}}
    with pytest.raises(ValueError, match="did you mean 'StructurePruner'"):
        ConfigFactory(written(wrong))
    with pytest.raises(ValueError, match="describes no 'prunes'; did you mean 'prune'"):
        ConfigFactory(written({**CONFIG, "compressor": {"strategies": ["prunes"]}}))


def test_without_the_package_that_reads_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"pip install fluidlite\[slim\]"):
        ConfigFactory("config.yaml")


def test_compression(written: Any, tmp_path: pathlib.Path) -> None:
    """Training, pruning in the second epoch, quantising in the third, and going on from a checkpoint."""
    CONFIG["strategies"]["quantise"].update(
        float_model_save_path=str(tmp_path / "float"),
        int8_model_save_path=str(tmp_path / "int8"),
        mobile_model_save_path=str(tmp_path / "mobile"),
        save_out_nodes=["fc_0.tmp_2"],
    )
    net = Net()
    full = net.eval_graph.flops()
    config = {**CONFIG, "compressor": {**CONFIG["compressor"], "checkpoint_path": str(tmp_path / "points")}}

    def compressor(net: Net) -> Compressor:
        made = Compressor(
            PLACE,
            net.scope,
            net.main,
            train_reader=reader,
            train_feed_list=IN,
            train_fetch_list=[("loss", net.loss.name)],
            eval_program=net.eval_graph.program,
            eval_reader=reader,
            eval_feed_list=IN,
            eval_fetch_list=[("acc", net.accuracy.name)],
            eval_func={"numbers": lambda program, scope: len(list(program.list_vars()))},
            train_optimizer=fluid.optimizer.Momentum(0.05, 0.9),
            log_period=2,
        )
        made.config(written(config))
        return made

    graph = compressor(net).run()
    assert graph.flops() < 0.6 * full
    assert sorted(path.name for path in (tmp_path / "points").iterdir()) == ["0", "1", "2"]
    state = json.loads((tmp_path / "points" / "2" / "context.json").read_text())
    assert (state["epoch_id"], sorted(state["eval_results"])) == (3, ["acc", "numbers"])
    assert len(state["eval_results"]["acc"]) == 3
    exe = fluid.Executor(PLACE)
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(str(tmp_path / "float"), exe)
        (found,) = exe.run(model, feed={feeds[0]: np.ones((2, 1, 12, 12), "float32")}, fetch_list=fetches)
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    model = fluid.Program.parse_from_string((tmp_path / "int8" / "__model__").read_bytes())
    assert "conv1_weights.int8" in model.global_block().vars
    model = fluid.Program.parse_from_string((tmp_path / "mobile" / "__model__").read_bytes())
    assert "dequantize" in [op.type for op in model.global_block().ops]


def test_a_compression_goes_on(written: Any, tmp_path: pathlib.Path) -> None:
    pruning = {**CONFIG, "strategies": {"prune": CONFIG["strategies"]["prune"]}}
    made = []
    for epochs in (2, 3):
        net = Net()
        settings = {"epoch": epochs, "strategies": ["prune"], "checkpoint_path": str(tmp_path / "points")}
        compressor = Compressor(
            *(PLACE, net.scope, net.main, reader, IN, [("loss", net.loss.name)]),
            *(net.eval_graph.program, reader, IN, [("acc", net.accuracy.name)]),
            train_optimizer=fluid.optimizer.Momentum(0.05, 0.9),
            log_period=0,
        )
        compressor.config(written({**pruning, "compressor": settings}))
        with fluid.unique_name.guard():  # as in another process: what the optimizer keeps has the same names
            made.append((net.shape("conv1_weights"), compressor.run(), net))
    (_, first, one), (shape, second, other) = made
    assert shape == [8, 1, 3, 3]  # of a new network, before the checkpoint is loaded
    assert one.shape("conv1_weights") == other.shape("conv1_weights") != [8, 1, 3, 3]
    assert first.flops() == second.flops()
    state = json.loads((tmp_path / "points" / "2" / "context.json").read_text())
    assert len(state["eval_results"]["acc"]) == 3


def test_distillation_in_a_compression() -> None:
    net, teacher = Net(), fluid.Program()
    with fluid.program_guard(teacher, fluid.Program()), fluid.unique_name.guard("teacher_"):
        image = fluid.data("image", [None, 1, 12, 12])
        fluid.layers.fc(image, 10, param_attr="teacher_w", name="features")
    net.scope.var("teacher_w").get_tensor().set(np.ones((144, 10), "float32"), PLACE)
    net.scope.var("teacher_features.b_0").get_tensor().set(np.zeros(10, "float32"), PLACE)
    context = net.context(
        teacher_graphs=[GraphWrapper(teacher)], distiller_optimizer=fluid.optimizer.SGD(0.01)
    )
    plain = context.optimize_graph
    strategy = DistillationStrategy(
        [SoftLabelDistiller("fc_0.tmp_1", "teacher_features.tmp_1")], start_epoch=0, end_epoch=2
    )
    strategy.on_epoch_begin(context)
    assert list(context.optimize_graph.out_nodes)[-1].startswith("soft_label_loss")
    context.executor.run(context.optimize_graph, net.scope, data=next(reader()))
    for epoch in (0, 1):
        context.epoch_id = epoch
        strategy.on_epoch_end(context)
        assert (context.optimize_graph is plain) == (epoch == 1)


class Widths(SearchSpace):
    """Networks of one hidden layer; the token says how wide."""

    def init_tokens(self) -> list[int]:
        return [3]

    def range_table(self) -> list[int]:
        return [6]

    def create_net(self, tokens: Any = None) -> Any:
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            image, label = fluid.data("image", [None, 1, 12, 12]), fluid.data("label", [None, 1], "int64")
            hidden = fluid.layers.fc(image, 4 * (tokens[0] + 1), act="relu")
            prediction = fluid.layers.fc(hidden, 10, act="softmax")
            loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
            accuracy = fluid.layers.accuracy(prediction, label)
            test = main.clone(for_test=True)
            fluid.optimizer.SGD(0.1).minimize(loss)
        metrics = [("loss", loss.name), ("acc", accuracy.name)]
        return startup, main, test, metrics, metrics, reader, reader


def test_a_search_for_networks() -> None:
    space, scope = Widths(), fluid.Scope()
    controller = SAController(reduce_rate=0.9, init_temperature=1.0)
    _, main, test, *_ = space.create_net([3])
    compressor = Compressor(
        PLACE, scope, main, reader, IN, [], test, reader, IN, [], search_space=space, log_period=0
    )
    compressor._add_strategy(
        LightNASStrategy(
            controller, end_epoch=4, target_flops=0, metric_name="acc", server_ip="127.0.0.1", is_server=True
        )
    )
    graph = compressor.run()
    assert list(graph.out_nodes) == ["loss", "acc"]
    assert controller._iter == 4
    assert 0 <= controller.best_tokens[0] < 6


def test_context(tmp_path: pathlib.Path) -> None:
    context = Net().context()
    context.put("key", 3)
    assert (context.get("key"), context.get("other")) == (3, None)
    context.eval_results["acc"] = [0.5, 0.5001]
    assert context.eval_converged("acc")
    assert not context.eval_converged("acc", 1e-5)
    context.epoch_id = 4
    context.to_file(str(tmp_path / "state"))
    again = Net().context()
    again.from_file(str(tmp_path / "state"))
    assert (again.epoch_id, again.eval_results) == (4, context.eval_results)
    sampled = cached_reader(lambda: reader(40), 0.25, str(tmp_path / "cache"), 1)
    first, second = list(sampled()), list(sampled())
    assert 2 < len(first) < 25
    np.testing.assert_array_equal(first[0][0][0], second[0][0][0])
    context.cache_path = str(tmp_path / "evaluations")
    assert context.run_eval_graph(0.9)[1] == ["loss", "acc"]
