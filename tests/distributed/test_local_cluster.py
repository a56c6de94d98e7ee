"""Transpiled programs at work, a thread for each role: what many processes compute is what one computes on
the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm import current
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler import Job, make_job

STEPS, ROWS, TRAINERS = 6, 8, 2


def dense() -> Any:
    x, y = fluid.data("x", [None, 200]), fluid.data("y", [None, 1])
    guess = fluid.layers.fc(fluid.layers.fc(x, 100, act="relu"), 1)
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


def sparse() -> Any:
    ids, y = fluid.data("ids", [None, 1], "int64"), fluid.data("y", [None, 1])
    rows = fluid.layers.embedding(ids, [3000, 6], is_sparse=True)
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(rows, 1), y))


def batches() -> list[dict[str, Any]]:
    random = np.random.RandomState(0)
    return [
        {
            "x": random.randn(ROWS, 200).astype("float32"),
            "y": random.randn(ROWS, 1).astype("float32"),
            "ids": random.randint(0, 3000, (ROWS, 1)),
        }
        for _ in range(STEPS)
    ]


class Trial:
    """A program trained by one process, and the same with the same initial values by a job."""

    def __init__(
        self, optimizer: Callable[[], Any], net: Callable[[], Any] = dense, naive: bool = False
    ) -> None:
        self.naive = naive
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            loss = net()
            optimizer().minimize(loss)
        self.loss = loss.name
        self.feeds = [
            {name: value for name, value in batch.items() if name in self.main.global_block().vars}
            for batch in batches()
        ]
        self.initial: dict[str, Any] = {}

    def values(self, scope: Any) -> dict[str, Any]:
        return {
            param.name: np.array(scope.find_var(param.name).get_tensor())
            for param in self.main.all_parameters()
        }

    def executor(self) -> fluid.Executor:
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = self.naive
        return exe

    def alone(self) -> dict[str, Any]:
        scope, exe = fluid.Scope(), self.executor()
        exe.run(self.startup, scope=scope)
        self.initial = self.values(scope)
        for feed in self.feeds:
            exe.run(self.main, feed=feed, fetch_list=[self.loss], scope=scope)
        return self.values(scope)

    def train(self, job: Job, number: int, feeds: list[dict[str, Any]]) -> dict[str, Any]:
        """Train as trainer `number`, on its rows of every batch."""
        programs, scope, exe = job.trainer(number), fluid.Scope(), self.executor()
        exe.run(programs.startup, scope=scope)
        if not job.has_servers:
            self.set(scope, self.initial)
        each = ROWS // TRAINERS
        for feed in feeds:
            rows = {name: value[number * each : (number + 1) * each] for name, value in feed.items()}
            exe.run(programs.main, feed=rows, fetch_list=[self.loss], scope=scope)
        if number:
            exe.close()  # trainer 0 forgets it
        return self.values(scope)

    def serve(self, job: Job, endpoint: str) -> dict[str, Any]:
        """Serve; the parameters that the server ends with."""
        programs, scope, exe = job.server(endpoint), fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        mine = [piece for piece in job.slices if piece.endpoint == endpoint]
        self.set(
            scope,
            {
                piece.param_name: self.initial[piece.param][
                    piece.first_row : piece.first_row + piece.shape[0]
                ]
                for piece in mine
            },
        )
        exe.run(programs.main, scope=scope)
        return {piece.param_name: np.array(scope.find_var(piece.param_name).get_tensor()) for piece in mine}

    def set(self, scope: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())

    def together(
        self, job: Job, network: LocalNetwork | None = None, feeds: Callable[[int], Any] | None = None
    ) -> dict[str, Any]:
        roles: list[tuple[str, Callable[[], Any]]] = []
        for role in job.roles:
            if role.kind == "trainer":
                given = self.feeds if feeds is None else feeds(role.index)
                roles.append((role.name, lambda index=role.index, given=given: self.train(job, index, given)))
            else:
                roles.append((role.name, lambda endpoint=role.endpoint: self.serve(job, endpoint)))
        return run_roles(network or LocalNetwork(), roles)

    def job(self, mode: str, **options: Any) -> Job:
        return make_job(self.main, self.startup, mode, TRAINERS, **options)


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(np.abs(found[name] - value).max() / np.abs(value).max()) for name, value in wanted.items()
    }


def norm_of_all() -> Any:
    return fluid.optimizer.SGD(0.01, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5))


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.01),
    "momentum_l2": lambda: fluid.optimizer.Momentum(0.01, 0.9, regularization=fluid.regularizer.L2Decay(0.1)),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "adamax": lambda: fluid.optimizer.Adamax(0.01),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.01),
    "adadelta": lambda: fluid.optimizer.Adadelta(0.1),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.01, centered=True),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.01),
    "lamb": lambda: fluid.optimizer.Lamb(0.01),
    "lars": lambda: fluid.optimizer.LarsMomentum(0.01, 0.9),
    "decay": lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.01, 2, 0.5)),
    "piecewise": lambda: fluid.optimizer.SGD(fluid.layers.piecewise_decay([2, 4], [0.01, 0.005, 0.001])),
    "clip_by_value": lambda: fluid.optimizer.SGD(0.01, grad_clip=fluid.clip.GradientClipByValue(0.02)),
    "clip_by_norm": lambda: fluid.optimizer.SGD(0.01, grad_clip=fluid.clip.GradientClipByNorm(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_servers_compute_what_one_process_does(name: str) -> None:
    trial = Trial(OPTIMIZERS[name])
    wanted = trial.alone()
    found = trial.together(trial.job("pserver"))
    assert max(differences(found["trainer0"], wanted).values()) < 2e-5
    assert max(differences(found["trainer1"], found["trainer0"]).values()) == 0


@pytest.mark.parametrize("mode", ["grad_allreduce", "multi_thread"])
@pytest.mark.parametrize("name", ["sgd", "adam", "decay", "norm_of_all"])
def test_collectives_compute_what_one_process_does(mode: str, name: str) -> None:
    trial = Trial({**OPTIMIZERS, "norm_of_all": norm_of_all}[name])
    wanted = trial.alone()
    found = trial.together(trial.job(mode))
    assert max(differences(found["trainer0"], wanted).values()) < 2e-5
    assert max(differences(found["trainer1"], found["trainer0"]).values()) == 0


@pytest.mark.parametrize("naive", [False, True], ids=["plan", "interpreter"])
@pytest.mark.parametrize("size", [1, 1 << 12, 1 << 20])
def test_buckets_change_nothing(size: int, naive: bool) -> None:
    trial = Trial(OPTIMIZERS["adam"], naive=naive)
    wanted = trial.alone()
    config = fluid.DistributeTranspilerConfig.make(bucket_bytes=size)
    found = trial.together(trial.job("grad_allreduce", config=config))
    assert max(differences(found["trainer0"], wanted).values()) < 2e-5


def test_local_sgd_averages_what_ranks_changed() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    wanted = (
        trial.alone()
    )  # with plain SGD the mean of the changes of a step is the change by the mean gradient
    found = trial.together(trial.job("local_sgd"))
    assert max(differences(found["trainer0"], wanted).values()) < 2e-5


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_tables_on_servers(name: str) -> None:
    trial = Trial(OPTIMIZERS[name], sparse)
    wanted = trial.alone()
    job = trial.job("pserver")
    found = trial.together(job)
    pieces = [piece for piece in job.slices if piece.sparse]
    assert len(pieces) == 2
    values = {**found["pserver0"], **found["pserver1"]}
    table = np.concatenate([values[piece.param_name] for piece in pieces])
    assert np.abs(table - wanted[pieces[0].param]).max() < 1e-5
    dense_part = {name: value for name, value in wanted.items() if name != pieces[0].param}
    assert max(differences(found["trainer0"], dense_part).values()) < 2e-5


@pytest.mark.parametrize(
    "slices", [{"min_block_size": 100}, {"slice_var_up": False}, {"split_method": "HashName"}], ids=str
)
def test_however_parameters_are_cut(slices: dict[str, Any]) -> None:
    trial = Trial(OPTIMIZERS["adam"])
    wanted = trial.alone()
    found = trial.together(
        trial.job("pserver", endpoints=5, config=fluid.DistributeTranspilerConfig.make(**slices))
    )
    assert max(differences(found["trainer0"], wanted).values()) < 2e-5


def test_asynchronous_trainers_learn() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    start = (trial.alone(), trial.initial)[1]
    found = trial.together(trial.job("pserver", sync_mode=False))
    assert all(np.abs(found["trainer0"][name] - value).max() > 1e-6 for name, value in start.items())


def test_a_trainer_with_fewer_batches_does_not_hold_up_the_others() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    trial.alone()
    found = trial.together(
        trial.job("pserver"), feeds=lambda number: trial.feeds[:2] if number else trial.feeds
    )
    assert all(np.isfinite(value).all() for value in found["trainer0"].values())


# ---------------------------------------------------------------------- what goes wrong
def test_a_deadlock_is_named_at_once() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    trial.alone()
    job = trial.job("grad_allreduce")
    block = job.trainer(1).main.global_block()
    block._remove_op(next(op.idx for op in block.ops if op.type == "c_allreduce_sum"))
    with pytest.raises(CommunicatorError, match="do not agree|deadlock"):
        trial.together(job)
    waiting = LocalNetwork()
    with pytest.raises(
        CommunicatorError, match=r"deadlock(.|\n)*alone waits for an answer of the server at a:1"
    ):
        run_roles(waiting, [("alone", lambda: current().link.answer("a:1"))])


def test_an_error_of_one_role_ends_the_others() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    trial.alone()
    broken = [{name: np.zeros((ROWS, 3), "float32") for name in trial.feeds[0]}]
    with pytest.raises(fluid.core.EnforceNotMet) as found:
        trial.together(trial.job("pserver"), feeds=lambda number: broken if number else trial.feeds)
    assert not isinstance(found.value, CommunicatorError)


def test_traffic_is_what_the_program_says() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    trial.alone()
    job, network = trial.job("pserver"), LocalNetwork()
    trial.together(job, network)
    size = 4 * sum(int(np.prod(param.shape)) for param in trial.main.all_parameters())
    sent = sum(count for (source, _), count in network.bytes.items() if source == "trainer0")
    received = sum(count for (_, target), count in network.bytes.items() if target == "trainer0")
    assert sent == STEPS * size and received == (STEPS + 1) * size  # once more at the start


def test_without_a_job_there_is_nobody_to_talk_to() -> None:
    trial = Trial(OPTIMIZERS["sgd"])
    with pytest.raises(
        CommunicatorError, match=r"op 'c_gen_nccl_id' needs a communicator: .*(.|\n)*built at"
    ):
        fluid.Executor(fluid.CPUPlace()).run(
            trial.job("grad_allreduce").trainer(0).startup, scope=fluid.Scope()
        )
