"""Asynchronous, half-asynchronous and geo-SGD jobs: each is held against the same algorithm written out in
NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.communicator import Communicator
from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.background.communicator import AsyncCommunicator, CommunicatorSettings
from fluidlite.executor.comm.background.merging import MergedValues
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.comm.session import current
from fluidlite.transpiler.distribute_transpiler import DistributedMode
from fluidlite.transpiler.geo_sgd_transpiler import GeoSgdTranspiler
from fluidlite.values.tensor import SelectedRows

RATE, SEEN, WIDTH, ROWS = 0.1, 6, 4, 4  # the learning rate, inputs, the width of the table, rows of the table
START = {"w": 0.5, "t": 0.25}
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"
MODES = {
    "async": DistributedMode.ASYNC,
    "sync": DistributedMode.SYNC,
    "half_async": DistributedMode.HALF_ASYNC,
    "geo": DistributedMode.GEO,
}


def net(sparse: bool) -> Any:
    """y = x w + the sum of a row of the table t."""

    def constant(name: str) -> Any:
        return fluid.ParamAttr(name, initializer=fluid.initializer.Constant(START[name]))

    x, y = fluid.data("x", [None, SEEN]), fluid.data("y", [None, 1])
    guess = fluid.layers.fc(x, 1, param_attr=constant("w"), bias_attr=False)
    if sparse:
        rows = fluid.layers.embedding(
            fluid.data("ids", [None, 1], "int64"), [ROWS, WIDTH], is_sparse=True, param_attr=constant("t")
        )
        guess = guess + fluid.layers.reduce_sum(rows, dim=1, keep_dim=True)
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


class Model:
    """The same in NumPy."""

    def __init__(self, sparse: bool) -> None:
        self.values = {"w": np.full((SEEN, 1), START["w"], "float32")}
        if sparse:
            self.values["t"] = np.full((ROWS, WIDTH), START["t"], "float32")

    def gradients(self, feed: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        values = self.values if values is None else values
        guess = feed["x"] @ values["w"]
        if "t" in values:
            guess = guess + values["t"][feed["ids"][:, 0]].sum(1, keepdims=True)
        error = 2 * (guess - feed["y"]) / len(guess)
        found = {"w": feed["x"].T @ error}
        if "t" in values:
            found["t"] = np.zeros_like(values["t"])
            np.add.at(found["t"], feed["ids"][:, 0], error)
        return found

    def step(self, feed: Mapping[str, Any], values: dict[str, Any] | None = None) -> None:
        values = self.values if values is None else values
        for name, grad in self.gradients(feed, values).items():
            values[name] = values[name] - np.float32(RATE) * grad


def batches(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.RandomState(seed)
    return [
        {
            "x": random.randn(3, SEEN).astype("float32"),
            "y": random.randn(3, 1).astype("float32"),
            "ids": random.randint(0, ROWS, (3, 1)),
        }
        for _ in range(count)
    ]


class Job:
    """Programs of a job with two servers."""

    def __init__(
        self,
        mode: str,
        trainers: int = 1,
        sparse: bool = False,
        push: int = 2,
        servers: str = SERVERS,
        optimizer: Callable[[], Any] = lambda: fluid.optimizer.SGD(RATE),
        **config: Any,
    ) -> None:
        self.mode, self.trainers, self.sparse, self.push, self.servers, self.optimizer = (
            mode,
            trainers,
            sparse,
            push,
            servers,
            optimizer,
        )
        runs = {
            "geo": {"geo_sgd_mode": True, "geo_sgd_need_push_nums": push},
            "half_async": {"half_async": True},
            "sync": {"half_async": True, "completely_not_async": True},
        }.get(mode, {})
        self.config = fluid.DistributeTranspilerConfig.make(
            **{"sync_mode": False, "runtime_split_send_recv": True, "min_block_size": 3, **runs, **config}
        )
        self.lock = threading.Lock()
        self.late = False  # communicators start after the startup programs

    def transpiled(self, trainer: int = 0) -> tuple[Any, fluid.Program, fluid.Program, str]:
        main, startup = fluid.Program(), fluid.Program()
        with self.lock, fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = net(self.sparse)
            self.optimizer().minimize(loss)
            made = (GeoSgdTranspiler if self.mode == "geo" else fluid.DistributeTranspiler)(self.config)
            made.transpile(trainer, main, self.servers, self.trainers, False, startup)
        return made, main, startup, loss.name

    def serve(self, endpoint: str) -> dict[str, Any]:
        """The variables of a server in the end."""
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        main, startup = self.transpiled()[0].get_pserver_programs(endpoint)
        exe.run(startup, scope=scope)
        exe.run(main, scope=scope)
        return {
            name: np.array(scope.find_var(name).get_tensor())
            for name, var in main.global_block().vars.items()
            if var.persistable and name.partition(".")[0] in START and "bak" not in name
        }

    def train(
        self,
        number: int,
        feeds: Sequence[Mapping[str, Any]],
        turn: Callable[[int], None] = lambda step: None,
        envs: Mapping[str, Any] | None = None,
        after: Callable[[int, Any], None] = lambda step, values: None,
    ) -> dict[str, Any]:
        """The variables of a trainer in the end; with `envs` a communicator runs. `turn` is called before
        each step, `after` after it.
        """
        made, main, startup, loss = self.transpiled(number)
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        communicator = None
        if envs is not None:
            given = {
                "geo": lambda: {
                    "push_vars": made.vars_info,
                    "trainers": self.trainers,
                    "push_nums": self.push,
                },
                "sync": lambda: {"pserver_endpoints": self.servers.split(","), "trainer_id": number},
            }.get(self.mode, dict)()
            communicator = Communicator(main, MODES[self.mode], given, envs)
            if not self.late:
                communicator.start()
        exe.run(startup, scope=scope)
        if communicator is not None and self.late:
            communicator.start()

        def values() -> dict[str, Any]:
            return {
                name: np.array(scope.find_var(name).get_tensor())
                for name in START
                if name == "w" or (self.sparse and self.mode == "geo")
            }

        for step, feed in enumerate(feeds):
            turn(step)
            given = {name: value for name, value in feed.items() if self.sparse or name != "ids"}
            exe.run(main, feed=given, fetch_list=[loss], scope=scope)
            after(step, values)
        turn(len(feeds))
        if communicator is not None:
            communicator.stop()
        exe.close()
        return values()

    def run(
        self, feeds: Sequence[Sequence[Mapping[str, Any]]], schedule: Sequence[int] | None = (), **how: Any
    ) -> dict[str, Any]:
        """The variables of every role in the end: trainers by name, and "servers" with their parts joined.

        schedule: whose turn it is, step by step, where there are several trainers; None where they wait for
        each other.
        """
        order = Order([0] * len(feeds[0]) if schedule == () else schedule or ())
        roles: list[tuple[str, Callable[[], Any]]] = [
            (
                f"trainer{number}",
                lambda number=number: self.train(
                    number, feeds[number], lambda step: order.wait(number, step), **how
                ),
            )
            for number in range(self.trainers)
        ]
        roles += [
            (f"server{number}", lambda endpoint=endpoint: self.serve(endpoint))
            for number, endpoint in enumerate(self.servers.split(","))
        ]
        found = run_roles(LocalNetwork(), roles)
        held = {name: value for role in roles[self.trainers :] for name, value in found[role[0]].items()}
        found["servers"] = {
            name: np.concatenate([held[piece] for piece in sorted(held) if piece.partition(".")[0] == name])
            for name in sorted({piece.partition(".")[0] for piece in held})
        }
        return found


class Order:
    """Trainers that take their steps in a given order, the first of them when all have begun: a trainer that
    fetches its parameters after another one's step has others than the test thinks.
    """

    def __init__(self, schedule: Sequence[int]) -> None:
        self.schedule, self.place, self.changed = list(schedule), 0, threading.Condition()
        self.missing = set(schedule)  # trainers that have not fetched their parameters yet

    def wait(self, trainer: int, step: int) -> None:
        """Called before each step: the step before is over, and this one begins when it is its turn."""
        with self.changed:
            if step and self.schedule:
                self.place += 1
            self.missing.discard(trainer)
            self.changed.notify_all()
            found = self.changed.wait_for(lambda: self._has_turn(trainer), 60)
            assert found, f"trainer {trainer}, step {step}: {self.place} of {self.schedule}, {self.missing}"

    def _has_turn(self, trainer: int) -> bool:
        left = self.schedule[self.place :]
        return not left or (not self.missing and left[0] == trainer) or trainer not in left


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


# ---------------------------------------------------------------------- asynchronous
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("at_run_time", [False, True], ids=["ops", "run_time"])
@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_one_trainer_is_one_process(mode: str, at_run_time: bool, sparse: bool) -> None:
    model, feeds = Model(sparse), batches(5)
    for feed in feeds:
        model.step(feed)
    found = Job(mode, sparse=sparse, runtime_split_send_recv=at_run_time).run([feeds])
    close(found["trainer0"]["w"], model.values["w"])
    close(found["servers"]["w"], model.values["w"])
    if sparse:
        close(found["servers"]["t"], model.values["t"])


@pytest.mark.parametrize("schedule", [[0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 1, 0]], ids=str)
def test_two_trainers_in_a_given_order(schedule: list[int]) -> None:
    model, feeds = Model(True), [batches(3, 1), batches(3, 2)]
    known = [dict(model.values) for _ in range(2)]  # what each trainer has of the dense parameters
    left = [list(mine) for mine in feeds]
    for trainer in schedule:
        gradients = model.gradients(left[trainer].pop(0), {"w": known[trainer]["w"], "t": model.values["t"]})
        for name, grad in gradients.items():
            model.values[name] = model.values[name] - np.float32(RATE) * grad
        known[trainer] = dict(model.values)
    found = Job("async", 2, True).run(feeds, schedule)
    close(found["servers"]["w"], model.values["w"])
    close(found["servers"]["t"], model.values["t"])


@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_communicator_merges(most: int, mean: bool) -> None:
    model, feeds = Model(True), batches(6)
    known, waiting = dict(model.values), []
    for feed in feeds:
        waiting.append(model.gradients(feed, {"w": known["w"], "t": model.values["t"]}))
        if len(waiting) == most:
            for name in model.values:
                total = sum(gradients[name] for gradients in waiting)
                model.values[name] = model.values[name] - np.float32(RATE) * total / (most if mean else 1)
            known, waiting = dict(model.values), []
    envs = {
        "communicator_max_merge_var_num": str(most),
        "communicator_is_sgd_optimizer": str(int(not mean)),
        "communicator_independent_recv_thread": "0",
    }
    found = Job("async", sparse=True).run([feeds], envs=envs)
    close(found["trainer0"]["w"], model.values["w"])
    close(found["servers"]["t"], model.values["t"])


def test_parameters_come_every_so_many_gradients() -> None:
    seen: list[Any] = []
    model, feeds = Model(False), batches(6)
    known, wanted = dict(model.values), []
    for step, feed in enumerate(feeds):
        model.values["w"] = model.values["w"] - np.float32(RATE) * model.gradients(feed, known)["w"]
        if step % 3 == 2:  # more than two gradients since it fetched last
            known = dict(model.values)
        wanted.append(known["w"])
    envs = {"communicator_max_merge_var_num": 1, "communicator_min_send_grad_num_before_recv": 2}
    Job("async").run([feeds], envs=envs, after=lambda step, values: seen.append(values()["w"]))
    for found, value in zip(seen, wanted, strict=True):
        close(found, value)


def test_nothing_is_lost_at_the_end() -> None:
    model, feeds = Model(True), batches(5)
    start = dict(model.values)
    for feed in feeds:
        for name, grad in model.gradients(feed, start).items():
            model.values[name] = model.values[name] - np.float32(RATE) * grad
    found = Job("async", sparse=True).run([feeds], envs={})  # fluid's settings: twenty gradients go together
    close(found["servers"]["w"], model.values["w"])
    close(found["servers"]["t"], model.values["t"])
    close(found["trainer0"]["w"], model.values["w"])


def test_nothing_is_sent_by_fake_rpc() -> None:
    found = Job("async", sparse=True).run([batches(3)], envs={"communicator_fake_rpc": 1})
    assert (found["servers"]["w"] == START["w"]).all() and (found["servers"]["t"] == START["t"]).all()


# ---------------------------------------------------------------------- half-asynchronous
def test_barriers_of_half_asynchronous_trainers_wait_for_nobody() -> None:
    model, feeds = Model(True), [batches(2, 1), batches(4, 2)]
    schedule = [1, 0, 1, 1, 0, 1]
    known, left = [dict(model.values) for _ in range(2)], [list(mine) for mine in feeds]
    for trainer in schedule:
        gradients = model.gradients(left[trainer].pop(0), {"w": known[trainer]["w"], "t": model.values["t"]})
        for name, grad in gradients.items():
            model.values[name] = model.values[name] - np.float32(RATE) * grad
        known[trainer] = dict(model.values)
    found = Job("half_async", 2, True).run(feeds, schedule, envs={})
    close(found["servers"]["w"], model.values["w"])
    close(found["servers"]["t"], model.values["t"])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_communicator_of_trainers_in_step(sparse: bool) -> None:
    model, feeds = Model(sparse), [batches(4, 1), batches(4, 2)]
    for both in zip(*feeds, strict=True):
        gradients = [model.gradients(feed) for feed in both]
        for name in model.values:
            model.values[name] = (
                model.values[name] - np.float32(RATE) * (gradients[0][name] + gradients[1][name]) / 2
            )
    found = Job("sync", 2, sparse).run(feeds, None, envs={})
    close(found["trainer0"]["w"], model.values["w"])
    close(found["trainer1"]["w"], model.values["w"])
    close(found["servers"]["w"], model.values["w"])
    if sparse:
        close(found["servers"]["t"], model.values["t"])


# ---------------------------------------------------------------------- geo-SGD
class GeoModel:
    """Geo-SGD as it is defined: each trainer has x and o, the servers p; of tables the rows of a batch are
    sent.
    """

    def __init__(self, sparse: bool, trainers: int, push: int) -> None:
        self.model, self.trainers, self.push = Model(sparse), trainers, push
        self.server = dict(self.model.values)
        self.x = [dict(self.server) for _ in range(trainers)]
        self.o = [dict(self.server) for _ in range(trainers)]
        self.steps = [0] * trainers
        self.touched: list[set[int]] = [set() for _ in range(trainers)]

    def step(self, trainer: int, feed: Mapping[str, Any]) -> None:
        self.model.step(feed, self.x[trainer])
        self.steps[trainer] += 1
        self.touched[trainer].update(feed["ids"][:, 0].tolist())
        if self.steps[trainer] % self.push == 0:
            self.exchange(trainer)

    def exchange(self, trainer: int) -> None:
        x, o = self.x[trainer], self.o[trainer]
        for name in x:
            change = (x[name] - o[name]) / np.float32(self.trainers)
            if name == "t":
                change[[row for row in range(ROWS) if row not in self.touched[trainer]]] = 0
            self.server[name] = self.server[name] + change
            x[name] = x[name] + (self.server[name] - (o[name] + change))
            o[name] = self.server[name]
        self.touched[trainer].clear()

    def end(self) -> None:
        for trainer in range(self.trainers):
            if self.steps[trainer] % self.push:
                self.exchange(trainer)


@pytest.mark.parametrize("push", [1, 2, 4])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_geo_trainers_in_a_given_order(sparse: bool, push: int) -> None:
    schedule, feeds = [0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1], [batches(6, 1), batches(6, 2)]
    geo, left = GeoModel(sparse, 2, push), [list(mine) for mine in feeds]
    for trainer in schedule:
        geo.step(trainer, left[trainer].pop(0))
    found = Job("geo", 2, sparse, push).run(feeds, schedule, envs={})
    if 6 % push == 0:  # otherwise who of the two comes first in the end is not said
        for name, value in geo.server.items():
            close(found["servers"][name], value)
            close(found["trainer0"][name], geo.x[0][name])
            close(found["trainer1"][name], geo.x[1][name])


@pytest.mark.parametrize("late", [False, True], ids=["", "started after the startup program"])
def test_the_last_steps_of_geo_count(late: bool) -> None:
    geo, feeds = GeoModel(True, 1, 4), batches(6)
    for feed in feeds:
        geo.step(0, feed)
    geo.end()
    job = Job("geo", 1, True, 4)
    job.late = late
    found = job.run([feeds], envs={})
    for name, value in geo.server.items():
        close(found["servers"][name], value)
        close(found["trainer0"][name], value)


def test_geo_says_that_it_needs_a_communicator() -> None:
    with pytest.raises(CommunicatorError, match="geo-SGD needs a communicator that runs"):
        Job("geo").run([batches(1)])


# ---------------------------------------------------------------------- delayed gradients
def test_delay_is_corrected() -> None:
    schedule, feeds = [0, 1, 1, 0, 1, 0], [batches(3, 1), batches(3, 2)]
    model = Model(False)
    known, left = [dict(model.values) for _ in range(2)], [list(mine) for mine in feeds]
    for trainer in schedule:
        grad = model.gradients(left[trainer].pop(0), known[trainer])["w"]
        grad = grad + grad * grad * (model.values["w"] - known[trainer]["w"])
        model.values["w"] = model.values["w"] - np.float32(RATE) * grad
        known[trainer] = dict(model.values)
    found = Job("async", 2, enable_dc_asgd=True, runtime_split_send_recv=False).run(feeds, schedule)
    close(found["servers"]["w"], model.values["w"])


# ---------------------------------------------------------------------- schedules
@pytest.mark.parametrize("at_run_time", [False, True], ids=["ops", "run_time"])
def test_servers_count_the_steps_of_all_trainers(at_run_time: bool) -> None:
    schedule, feeds = [0, 1, 0, 0, 1, 1], [batches(3, 1), batches(3, 2)]
    model = Model(False)
    known, left = [dict(model.values) for _ in range(2)], [list(mine) for mine in feeds]
    for count, trainer in enumerate(schedule):  # the first step of all is step 0, as in one process
        grad = model.gradients(left[trainer].pop(0), known[trainer])["w"]
        model.values["w"] = model.values["w"] - np.float32(RATE * 0.5 ** (count / 4)) * grad
        known[trainer] = dict(model.values)

    def decayed() -> Any:
        return fluid.optimizer.SGD(fluid.layers.exponential_decay(RATE, 4, 0.5))

    found = Job("async", 2, optimizer=decayed, runtime_split_send_recv=at_run_time).run(feeds, schedule)
    close(found["servers"]["w"], model.values["w"])


# ---------------------------------------------------------------------- the communicator itself
def test_settings_come_from_flags_and_arguments(flags: Callable[..., None]) -> None:
    assert CommunicatorSettings.read({}) == CommunicatorSettings()
    found = CommunicatorSettings.read(
        {"communicator_max_merge_var_num": "3", "FLAGS_communicator_independent_recv_thread": "False"}
    )
    assert found.max_merge_var_num == 3 and found.independent_recv_thread is False
    with pytest.raises(ValueError, match="communicator_send_queue_size should be an integer, not 'many'"):
        CommunicatorSettings.read({"communicator_send_queue_size": "many"})
    flags(communicator_send_wait_times=7)
    assert CommunicatorSettings.read({}).send_wait_times == 7


def test_rows_are_merged_by_number() -> None:
    group = MergedValues()
    group.add(SelectedRows(np.array([3, 1, 3]), 5, np.array([[1.0], [2.0], [4.0]], "float32")))
    group.add(SelectedRows(np.array([1]), 5, np.array([[8.0]], "float32")))
    found = group.merged(mean=False)
    assert found.rows() == [1, 3] and found.array.tolist() == [[10.0], [5.0]]
    assert group.merged(mean=True).array.tolist() == [
        [5.0],
        [2.5],
    ]  # the mean over the gradients, as in fluid, not over the rows


def test_what_a_communicator_is_not_told() -> None:
    """It is asynchronous by itself, and a synchronous one knows its servers from the program's barrier."""
    main = Job("sync").transpiled()[1]
    assert type(Communicator(main).communicator_) is AsyncCommunicator
    synchronous = Communicator(main, DistributedMode.SYNC).communicator_
    barrier = next(op for op in main.global_block().ops if op.type == "send_barrier")
    assert list(synchronous.endpoints) == list(barrier.attr("endpoints"))


def test_what_a_communicator_changes() -> None:
    job = Job("async")
    main = job.transpiled()[1]

    def flags() -> set[Any]:
        return {op.attr("do_not_run") for op in main.global_block().ops if op.type == "recv"}

    assert flags() == {0}
    communicator = Communicator(main, DistributedMode.ASYNC)
    assert all(flags()) and not communicator.is_running()
    with pytest.raises(AssertionError):
        Communicator("main", DistributedMode.ASYNC)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode is one of DistributedMode's"):
        Communicator(main, 7)

    def work() -> None:
        communicator.start()
        assert communicator.is_running()
        with pytest.raises(CommunicatorError, match="another communicator of this process is running"):
            Communicator(main, DistributedMode.ASYNC).start()
        communicator.stop()
        assert not communicator.is_running() and flags() == {0}
        current().leave()  # type: ignore[union-attr]

    run_roles(LocalNetwork(), [("trainer0", work)])
    assert fluid.communicator.Communicator is Communicator
