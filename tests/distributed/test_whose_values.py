"""Values that trainers read come from somewhere: shared tables, frozen parameters, averages, rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.distributed import verify
from fluidlite.distributed.trial import communicator_of
from fluidlite.executor.comm import transports
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler import make_job
from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole, Programs
from fluidlite.values.scope import Scope

MODES = ("pserver", "async", "half_async", "geo_sgd")
TWO = ["127.0.0.1:6174", "127.0.0.1:6175"]


def programs(network: Callable[[], Any], optimizer: Any = None) -> tuple[Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        (optimizer or fluid.optimizer.SGD(0.1)).minimize(network())
    return main, startup


def batches(steps: int = 4, rows: int = 8) -> list[dict[str, Any]]:
    numbers = np.random.RandomState(0)
    return [
        {
            "x": numbers.uniform(-1, 1, (rows, 4)).astype("float32"),
            "id": numbers.randint(0, 9, (rows, 1)).astype("int64"),
        }
        for _ in range(steps)
    ]


def ids() -> Any:
    return fluid.data("id", [None, 1], "int64")


def end(h: Any) -> Any:
    rows = fluid.layers.concat([fluid.data("x", [None, 4]), h], axis=1)
    return fluid.layers.mean(fluid.layers.square(fluid.layers.fc(rows, 1)))


def look_up(**how: Any) -> Any:
    param = fluid.ParamAttr(name="table", trainable=how.pop("trainable", True))
    return fluid.layers.embedding(ids(), [9, 3], param_attr=param, **how)


def sparse_and_dense() -> Any:
    return end(look_up(is_sparse=True) + look_up(is_sparse=False))


def sparse_and_tied() -> Any:
    h = look_up(is_sparse=True)
    table = fluid.default_main_program().global_block().var("table")
    return end(fluid.layers.matmul(h, table, transpose_y=True))


def sparse_and_shown() -> Any:
    h = look_up(is_sparse=True)
    table = fluid.default_main_program().global_block().var("table")
    size = fluid.layers.reduce_mean(fluid.layers.square(table))
    size.stop_gradient = True
    return end(fluid.layers.elementwise_mul(h, fluid.layers.reshape(size, [1]), axis=-1))


def frozen_sparse() -> Any:
    return end(look_up(is_sparse=True, trainable=False))


def frozen_weight() -> Any:
    frozen = fluid.ParamAttr(name="frozen", trainable=False)
    return end(fluid.layers.fc(fluid.data("x", [None, 4]), 3, param_attr=frozen, act="tanh"))


NETWORKS = (sparse_and_dense, sparse_and_tied, sparse_and_shown, frozen_sparse, frozen_weight)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS)
def test_what_trainers_read_is_given_to_them(network: Callable[[], Any], mode: str) -> None:
    main, startup = programs(network)
    job = make_job(main, startup, mode, trainers=2, endpoints=TWO)
    assert check(job).ok, check(job)
    feeds = [{key: feed[key] for key in feed if main.global_block().has_var(key)} for feed in batches()]
    proof = verify(main, startup, feeds, mode, 2, 2)
    assert proof.ok, proof


def test_check_finds_a_table_that_is_only_made_room_for() -> None:
    main, startup = programs(sparse_and_dense)
    job = make_job(main, startup, "pserver", trainers=2, endpoints=TWO)
    made = {role: job.programs(role) for role in job.roles}
    trainer = JobRole("trainer", 0)
    broken = made[trainer].startup.clone()
    block = broken.global_block()
    block.set_ops([op for op in block.ops if "table" not in op.output_arg_names])
    block.append_op("fake_init", {}, {"Out": "table"}, {"shape": [9, 3]})
    made[trainer] = replace(made[trainer], startup=broken)
    report = check(made)
    assert "uninitialised" in report.rules() and "'table'" in str(report)


# ---------------------------------------------------------------------- servers without parameters
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_holds_nothing_ends_with_the_trainers(mode: str) -> None:
    main, startup = programs(
        lambda: fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1, bias_attr=False))
    )
    feeds = [{"x": feed["x"]} for feed in batches()]
    assert verify(main, startup, feeds, mode, 2, 3).ok


# ---------------------------------------------------------------------- delayed gradients
@pytest.mark.parametrize("extra", ["plain", "decay", "clip"])
@pytest.mark.parametrize("sparse", [False, True])
def test_delays_are_corrected_behind_penalties_and_clips(extra: str, sparse: bool) -> None:
    config = fluid.DistributeTranspilerConfig()
    config.enable_dc_asgd = True
    decay = fluid.regularizer.L2Decay(0.1) if extra == "decay" else None
    clip = fluid.clip.GradientClipByValue(0.02) if extra == "clip" else None
    optimizer = fluid.optimizer.SGD(0.1, regularization=decay, grad_clip=clip)
    main, startup = programs(lambda: end(look_up(is_sparse=sparse)), optimizer)
    proof = verify(main, startup, batches(5), "async", 2, 2, config)
    assert proof.ok and max(proof.differences.values()) < 1e-6, proof


# ---------------------------------------------------------------------- averages
def roles_of(job: Job, train: Callable[[Any, Programs, Scope], Any]) -> dict[str, Any]:
    """Run a job as threads; `train` does a trainer's part."""

    def work(role: JobRole) -> Callable[[], Any]:
        def do() -> Any:
            made, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
            exe.run(made.startup, scope=scope)
            if role.trains:
                return train(exe, made, scope)
            exe.run(made.main, scope=scope)
            return None

        return do

    return run_roles(LocalNetwork(), [(role.name, work(role)) for role in job.roles])


@pytest.mark.parametrize("kind", ["EMA", "ModelAverage"])
@pytest.mark.parametrize("trains", [True, False], ids=["trained", "frozen"])
def test_trainers_fetch_averages_from_their_servers(kind: str, trains: bool) -> None:
    def weight(name: str, value: float, trainable: bool = True) -> Any:
        return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(value), trainable=trainable)

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        h = fluid.layers.fc(
            fluid.data("x", [None, 4]), 3, param_attr=weight("v", 0.5, trains), bias_attr=False
        )
        loss = fluid.layers.mean(fluid.layers.fc(h, 1, param_attr=weight("w", 0.1), bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(loss)
        if kind == "EMA":
            average: Any = fluid.optimizer.ExponentialMovingAverage(0.5)
            average.update()
        else:
            average = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    feeds = [{"x": feed["x"]} for feed in batches()]

    def train(exe: Any, made: Programs, scope: Scope) -> list[Any]:
        for feed in feeds:
            exe.run(made.main, feed=feed, scope=scope)
        with fluid.scope_guard(scope), average.apply(exe):
            return [np.array(scope.find_var(name).get_tensor()) for name in "vw"]

    alone = train(*_started(startup, main))
    # a process that has no servers does not look for any: it would take itself for a trainer of some
    assert not transports._sessions
    job = make_job(main, startup, "pserver", trainers=1, endpoints=TWO)
    found = roles_of(job, train)["trainer0"]
    for mine, wanted in zip(found, alone, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5)


def _started(startup: Any, main: Any) -> tuple[Any, Programs, Scope]:
    scope, exe = Scope(), fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    return exe, Programs(main, startup), scope


# ---------------------------------------------------------------------- rates
RATES = [10.0**step for step in range(6)]  # with a gradient of 1 they add up to 111111


def in_step_at_run_time() -> Any:
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.half_async = config.completely_not_async = config.runtime_split_send_recv = True
    return config


def slope(layers: Any) -> Any:
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    return layers.mean(layers.fc(fluid.data("x", [None, 1]), 1, bias_attr=False, param_attr=weight))


@pytest.mark.parametrize("mode", ["pserver", "fleet", "async", "half_async"])
@pytest.mark.parametrize("trainers", [1, 2, 3])
def test_rates_of_a_schedule_add_up(mode: str, trainers: int) -> None:
    if mode in ("async", "half_async") and trainers > 1:
        trainers = 1  # others count the steps of all, in an order of their own
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rate = fluid.layers.piecewise_decay([1, 2, 3, 4, 5], RATES)
        fluid.optimizer.SGD(rate).minimize(slope(fluid.layers))
    assert moved(main, startup, mode, trainers, lambda step, scope: None) == pytest.approx(111111, rel=1e-6)


@pytest.mark.parametrize("mode", ["pserver", "fleet", "async"])
@pytest.mark.parametrize("trainers", [1, 2, 3])
def test_rates_that_runs_of_2x_set_reach_the_servers(mode: str, trainers: int) -> None:
    if mode == "async":
        trainers = 1
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 1])
        weight = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(0.0))
        loss = paddle.mean(paddle.static.nn.fc(x, 1, bias_attr=False, weight_attr=weight))
        schedule = paddle.optimizer.lr.PiecewiseDecay([1, 2, 3, 4, 5], RATES)
        paddle.optimizer.SGD(schedule).minimize(loss)
    name = main.lr_var.name

    def set_rate(step: int, scope: Scope) -> None:
        scope.var(name).get_tensor().set(np.array(RATES[step], "float32"), fluid.CPUPlace())

    assert check(make_job(main, startup, "pserver", trainers=2, endpoints=TWO)).ok
    assert moved(main, startup, mode, trainers, set_rate) == pytest.approx(111111, rel=1e-6)


def moved(main: Any, startup: Any, mode: str, trainers: int, before: Callable[[int, Scope], None]) -> float:
    """How far w has gone down after six steps of a job with one server."""
    config = in_step_at_run_time() if mode == "fleet" else None
    kind = "half_async" if mode == "fleet" else mode
    job = make_job(main, startup, kind, trainers=trainers, endpoints=TWO[:1], config=config)

    def train(exe: Any, made: Programs, scope: Scope) -> float:
        needed = communicator_of(job, made.main)
        if mode == "fleet":
            facts = {"pserver_endpoints": TWO[:1], "trainer_id": trainer_of(made)}
            needed = fluid.communicator.Communicator(made.main, 0, facts, {})
        if needed is not None:
            needed.start()
        for step in range(6):
            before(step, scope)
            exe.run(made.main, feed={"x": np.ones((2, 1), "float32")}, scope=scope)
        if needed is not None:
            needed.stop()
        return -float(np.array(scope.find_var("w").get_tensor()).item())

    found = roles_of(job, train)
    return float(found["trainer0"])


def trainer_of(made: Programs) -> int:
    return max(int(op.attrs.get("trainer_id", 0)) for op in made.main.global_block().ops)


# ---------------------------------------------------------------------- by design
@pytest.mark.parametrize("mode", ["pserver", "grad_allreduce"])
@pytest.mark.parametrize("kind", ["batch_norm", "dropout", "reduce_sum", "clip"])
def test_proof_names_what_shares_make_otherwise(kind: str, mode: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        h = fluid.layers.fc(fluid.data("x", [None, 4]), 6, act="tanh")
        if kind == "batch_norm":
            h = fluid.layers.batch_norm(h)
        elif kind == "dropout":
            h = fluid.layers.dropout(h, 0.5)
        error = fluid.layers.square(fluid.layers.fc(h, 1) - 1.0)
        loss = fluid.layers.reduce_sum(error) if kind == "reduce_sum" else fluid.layers.mean(error)
        if kind == "clip":
            fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.01))
        fluid.optimizer.SGD(0.1).minimize(loss)
    proof = verify(main, startup, [{"x": feed["x"]} for feed in batches()], mode, 2, 2)
    assert proof.ok, proof
    # in a ring all clip the mean of all
    if kind == "clip" and mode == "grad_allreduce":
        assert not proof.by_design
    else:
        named = "clips the gradients of one trainer" if kind == "clip" else kind
        assert any(named in reason for reason in proof.by_design), proof
        assert "by design" in str(proof)


def test_a_wrong_job_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from fluidlite.transpiler.pserver import server

    real = server._Server.merge

    def merge(self: Any, block: Any, piece: Any, update: Any) -> None:
        real(self, block, piece, update)
        block.ops[-1]._set_attr("scale", 1.0)

    monkeypatch.setattr(server._Server, "merge", merge)
    main, startup = programs(frozen_weight)
    proof = verify(main, startup, [{"x": feed["x"]} for feed in batches()], "pserver", 2, 2)
    assert not proof.equal and not proof.by_design
