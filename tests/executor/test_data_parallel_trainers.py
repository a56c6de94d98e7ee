"""Trainers of parameter servers with several devices each: they compute what one process does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import TranspilerError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler import Job, JobRole, make_job

BATCH, STEPS, TRAINERS, DEVICES = 16, 4, 2, 2


def dense() -> tuple[Any, dict[str, Any]]:
    x, y = fluid.data("x", [None, 20]), fluid.data("y", [None, 1])
    hidden = fluid.layers.fc(x, 600, act="tanh", param_attr="hidden")
    random = np.random.RandomState(0)
    return (
        fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1, param_attr="out"), y)),
        {
            "x": random.randn(STEPS, BATCH, 20).astype("float32"),
            "y": random.randn(STEPS, BATCH, 1).astype("float32"),
        },
    )


def sparse() -> tuple[Any, dict[str, Any]]:
    word, label = fluid.data("word", [None, 1], "int64"), fluid.data("label", [None, 1], "int64")
    vector = fluid.layers.embedding(word, [50, 8], is_sparse=True, param_attr="vectors")
    random = np.random.RandomState(0)
    return (
        fluid.layers.mean(
            fluid.layers.cross_entropy(fluid.layers.fc(vector, 5, act="softmax", param_attr="out"), label)
        ),
        {"word": random.randint(0, 50, (STEPS, BATCH, 1)), "label": random.randint(0, 5, (STEPS, BATCH, 1))},
    )


class Trial:
    """A program, its batches, and the initial values that all processes start from."""

    def __init__(self, net: Callable[[], Any], optimizer: Any) -> None:
        self.main, self.startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.loss, self.data = net()
            optimizer().minimize(self.loss)
        self.params = [param.name for param in self.main.all_parameters()]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(self.startup, scope=scope)
        self.initial = {name: np.array(scope.find_var(name).get_tensor()) for name in self.params}
        self.losses = [
            float(exe.run(self.main, feed=self.share(step, 0, 1), fetch_list=[self.loss], scope=scope)[0][0])
            for step in range(STEPS)
        ]
        self.wanted = {name: np.array(scope.find_var(name).get_tensor()) for name in self.params}

    def share(self, step: int, trainer: int, trainers: int) -> dict[str, Any]:
        rows = BATCH // trainers
        return {
            name: values[step, trainer * rows : (trainer + 1) * rows] for name, values in self.data.items()
        }

    def serve(self, job: Job, role: JobRole) -> dict[str, Any]:
        programs, scope, exe = job.programs(role), fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        mine = [piece for piece in job.slices if piece.endpoint == role.endpoint]
        for piece in mine:
            value = self.initial[piece.param][piece.first_row : piece.first_row + piece.shape[0]]
            scope.find_var(piece.param_name).get_tensor().set(value, fluid.CPUPlace())
        exe.run(programs.main, scope=scope)
        return {}

    def train(self, job: Job, role: JobRole, reduce: bool) -> tuple[list[float], dict[str, Any]]:
        programs, scope, exe = job.programs(role), fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        strategy = fluid.BuildStrategy()
        strategy.reduce_strategy = (
            fluid.BuildStrategy.ReduceStrategy.Reduce
            if reduce
            else fluid.BuildStrategy.ReduceStrategy.AllReduce
        )
        compiled = fluid.CompiledProgram(programs.main).with_data_parallel(
            self.loss.name, strategy, places=fluid.cpu_places(DEVICES)
        )
        losses = []
        for step in range(STEPS):
            (found,) = exe.run(
                compiled,
                feed=self.share(step, role.index, TRAINERS),
                fetch_list=[self.loss.name],
                scope=scope,
            )
            assert found.shape == (DEVICES,)
            losses.append(float(found.mean()))
        exe.close()
        held = {name: scope.find_var(name) for name in self.params if name != "vectors"}
        return losses, {name: np.array(var.get_tensor()) for name, var in held.items()}


@pytest.mark.parametrize("reduce", [False, True], ids=["all-reduce", "reduce"])
@pytest.mark.parametrize("net", [dense, sparse])
def test_two_trainers_of_two_devices(net: Callable[[], Any], reduce: bool) -> None:
    trial = Trial(
        net, lambda: fluid.optimizer.Momentum(0.05, 0.9) if net is dense else fluid.optimizer.SGD(0.5)
    )
    job = make_job(trial.main, trial.startup, "pserver", TRAINERS, 2)

    def work(role: JobRole) -> Any:
        return trial.train(job, role, reduce) if role.kind == "trainer" else trial.serve(job, role)

    found = run_roles(LocalNetwork(), [(role.name, lambda role=role: work(role)) for role in job.roles])
    (first, params), (second, _) = found["trainer0"], found["trainer1"]
    assert np.allclose(np.mean([first, second], 0), trial.losses, rtol=1e-5)
    for name, value in params.items():
        assert np.abs(value - trial.wanted[name]).max() <= 1e-5 * np.abs(trial.wanted[name]).max()


def test_geo_trainers_have_one_device() -> None:
    trial = Trial(dense, lambda: fluid.optimizer.SGD(0.05))
    job = make_job(trial.main, trial.startup, "geo_sgd", TRAINERS, 2)
    compiled = fluid.CompiledProgram(job.trainer(0).main).with_data_parallel(
        trial.loss.name, places=fluid.cpu_places(DEVICES)
    )
    with pytest.raises(TranspilerError, match="runs on one device"):
        fluid.Executor(fluid.CPUPlace()).run(
            compiled, feed=trial.share(0, 0, 1), fetch_list=[trial.loss.name], scope=fluid.Scope()
        )
