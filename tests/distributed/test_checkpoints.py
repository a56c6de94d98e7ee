"""Checkpoints of jobs: a job that goes on from one ends where it would have ended."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checkpoint_jobs import (
    OPTIMIZERS,
    SAVED,
    STEPS,
    Values,
    feeds,
    job_of,
    net,
    parts,
    run,
    same,
    same_start,
    state,
)

import fluidlite as fluid
from fluidlite.distributed import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.comm.server.state import decode_value
from fluidlite.transpiler import DistributeTranspilerConfig, Job, JobRole, make_job
from fluidlite.values.scope import Scope


# ---------------------------------------------------------------------- jobs that go on
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_job_goes_on_with_any_number_of_servers(tmp_path: pathlib.Path, servers: int) -> None:
    job = job_of()
    wanted = run(job, tmp_path, [SAVED])
    again = job_of(servers=servers)
    found = run(again, tmp_path)
    same(parts(job, wanted), parts(again, found))
    for role in ("trainer0", "trainer1"):
        names = {name for name in wanted[role] if not name.startswith("table") and ".block" not in name}
        same({name: wanted[role][name] for name in names}, {name: found[role][name] for name in names})


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_each_optimizer_goes_on(tmp_path: pathlib.Path, optimizer: str) -> None:
    wanted = run(job_of(optimizer=optimizer), tmp_path, [SAVED])
    found = run(job_of(optimizer=optimizer), tmp_path)
    for role in wanted:
        same(wanted[role], found[role])


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd"])
def test_ranks_go_on(tmp_path: pathlib.Path, mode: str) -> None:
    wanted = run(job_of(mode), tmp_path, [SAVED])
    found = run(job_of(mode), tmp_path)
    for role in ("trainer0", "trainer1"):
        same(wanted[role], found[role])


def test_one_process_goes_on(tmp_path: pathlib.Path) -> None:
    ends = []
    for _ in range(2):
        main, startup, _ = net()
        scope, exe = Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(startup, scope=scope)
        found = load_checkpoint(exe, tmp_path, main, scope)
        for step in range(found.step if found else 0, STEPS):
            exe.run(main, feed=feeds(0, 1)[step], scope=scope)
            if step + 1 == SAVED and not found:
                save_checkpoint(exe, tmp_path, main, SAVED, scope=scope)
        ends.append(state(scope, main))
    same(*ends)


@pytest.mark.parametrize("mode", ["asynchronous", "geo_sgd"])
def test_trainers_that_do_not_wait_go_on_from_the_servers(tmp_path: pathlib.Path, mode: str) -> None:
    def job() -> Job:
        return (
            job_of(optimizer="SGD", sync=False)
            if mode == "asynchronous"
            else job_of("geo_sgd", optimizer="SGD")
        )

    run(job(), tmp_path, [SAVED], SAVED)
    found = run(job(), tmp_path, stop_at=SAVED)  # nothing more is done
    checkpoint = Checkpoint.open(latest_checkpoint(tmp_path) or "")
    for name, value in parts(job(), found).items():
        assert np.array_equal(whole(checkpoint, name), value)


def whole(checkpoint: Checkpoint, name: str) -> Any:
    return np.array(decode_value(checkpoint.read(f"variables/{name}"), name, False).array)


@pytest.mark.parametrize("half", [False, True])
def test_communicators_go_on(tmp_path: pathlib.Path, half: bool) -> None:
    def job() -> Job:
        main, startup, _ = net("SGD")
        config = DistributeTranspilerConfig.make(
            min_block_size=20, sync_mode=False, runtime_split_send_recv=True, half_async=half
        )
        return make_job(main, startup, "pserver", 2, 2, False, config)

    wanted, found = run(job(), tmp_path, [SAVED]), run(job(), tmp_path)
    counts = [name for name in wanted["pserver0"] if "COUNTER" in name]
    assert len(counts) == 3 and all(wanted["pserver0"][name] == found["pserver0"][name] for name in counts)
    assert found["pserver0"]["@LR_DECAY_COUNTER@.trainer_1"] == STEPS


def test_more_trainers_begin_with_what_the_first_had(tmp_path: pathlib.Path) -> None:
    wanted = run(job_of(), tmp_path, [SAVED], SAVED)
    job = job_of(trainers=4)

    def train(role: JobRole) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        found = load_checkpoint(exe, tmp_path, programs.main, scope)
        assert found is not None and (found.step, found.reader_position is None) == (SAVED, role.index > 1)
        exe.close()
        return state(scope, programs.main)

    def serve(role: JobRole) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        load_checkpoint(exe, tmp_path, programs.main, scope)
        exe.run(programs.main, scope=scope)
        return {}

    found = run_roles(
        LocalNetwork(),
        [
            (role.name, (lambda role=role: (train if role.kind == "trainer" else serve)(role)))
            for role in job.roles
        ],
    )
    same(
        found["trainer1"],
        {name: value for name, value in wanted["trainer1"].items() if name in found["trainer1"]},
    )
    same(
        found["trainer3"],
        {name: value for name, value in wanted["trainer0"].items() if name in found["trainer3"]},
    )
    assert not np.array_equal(wanted["trainer0"]["batch_norm_0.w_1"], wanted["trainer1"]["batch_norm_0.w_1"])


def test_a_single_process_reads_the_variables_of_a_job(tmp_path: pathlib.Path) -> None:
    job = job_of()
    wanted = run(job, tmp_path, [SAVED], SAVED)
    main, startup, _ = net()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(Scope()):
        exe.run(startup)
        fluid.io.load_persistables(exe, f"{latest_checkpoint(tmp_path)}/variables", main)
        found = state(fluid.global_scope(), main)
    for name, value in parts(job, wanted).items():
        assert np.array_equal(found[name], value), name
    assert found["@LR_DECAY_COUNTER@"] == SAVED - 1


def test_compiled_programs_of_several_trainers(tmp_path: pathlib.Path) -> None:
    """With one device each, and nothing random: the runtime gives the first one's statistics to all."""

    def train(number: int, main: Any, startup: Any, loss: Any) -> Values:
        scope, exe, build = Scope(), fluid.Executor(fluid.CPUPlace()), fluid.BuildStrategy()
        build.num_trainers, build.trainer_id = 2, number
        exe.run(startup, scope=scope)
        same_start(scope, main)
        compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, build, places=[fluid.CPUPlace()])
        found = load_checkpoint(exe, tmp_path, compiled, scope)
        assert not found or found.reader_position == number
        for step in range(found.step if found else 0, STEPS):
            exe.run(compiled, feed=feeds(number)[step], fetch_list=[loss], scope=scope)
            if step + 1 == SAVED and not found:
                save_checkpoint(exe, tmp_path, compiled, SAVED, reader_position=number, scope=scope)
        return state(scope, main)

    def work(number: int) -> Callable[[], Values]:
        programs = plain()  # built here: the default programs and names of fluid belong to no thread
        return lambda: train(number, *programs)

    ends = [
        run_roles(LocalNetwork(), [(f"trainer{number}", work(number)) for number in range(2)])
        for _ in range(2)
    ]
    for role in ("trainer0", "trainer1"):
        same(ends[0][role], ends[1][role])


def plain() -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 20]), fluid.data("y", [None, 1])
        fluid.data("ids", [None, 1], "int64")
        loss = fluid.layers.mean(
            fluid.layers.square_error_cost(fluid.layers.fc(fluid.layers.fc(x, 10, act="tanh"), 1), y)
        )
        fluid.optimizer.Adam(0.1).minimize(loss)
    return main, startup, loss
