"""Checkpoints that not all processes take part in, or that do not fit the program."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from checkpoint_jobs import SAVED, feeds, job_of, net, run, same, state

import fluidlite as fluid
from fluidlite.distributed import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from fluidlite.errors import ArgumentError, CommunicatorError, FormatError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler import JobRole
from fluidlite.values.scope import Scope


# ---------------------------------------------------------------------- who takes part
def trial(work: Callable[[Any, Any, Scope, int], None], trainers: int = 2) -> None:
    """Run one step in each trainer, then `work`."""
    job = job_of(trainers=trainers)

    def train(role: JobRole) -> None:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, feed=feeds(role.index, trainers)[0], scope=scope)
        work(exe, programs.main, scope, role.index)

    def serve(role: JobRole) -> None:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, scope=scope)

    run_roles(
        LocalNetwork(),
        [
            (role.name, (lambda role=role: (train if role.kind == "trainer" else serve)(role)))
            for role in job.roles
        ],
    )


def test_all_trainers_have_to_take_part(tmp_path: pathlib.Path) -> None:
    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        if index == 0:
            save_checkpoint(exe, tmp_path, main, 1, scope=scope)
        else:
            exe.run(main, feed=feeds(index)[1], scope=scope)

    with pytest.raises(
        CommunicatorError, match="trainer 0 saves or loads a checkpoint .*, but trainer 1 ends a step"
    ):
        trial(work)


def test_trainers_have_to_save_the_same_step(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CommunicatorError, match="do not save or load the same checkpoint: step 0, step 1"):
        trial(
            lambda exe, main, scope, index: save_checkpoint(exe, tmp_path, main, index, scope=scope) and None
        )
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_an_error_everywhere(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    errors = {}

    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        with pytest.raises((OSError, CommunicatorError)) as error:
            save_checkpoint(exe, tmp_path / "file", main, 1, scope=scope)
        errors[index] = error.value

    trial(work)
    assert isinstance(errors[0], OSError)
    assert "could not save the checkpoint" in str(errors[1])


def test_those_who_have_left_are_not_waited_for(tmp_path: pathlib.Path) -> None:
    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        if index == 0:
            exe.close()
        else:
            save_checkpoint(exe, tmp_path, main, 1, scope=scope)

    trial(work)
    assert Checkpoint.open(latest_checkpoint(tmp_path) or "").facts["trainers"][0]["number"] == 1


def test_servers_have_to_load_what_trainers_load(tmp_path: pathlib.Path) -> None:
    run(job_of(), tmp_path, [SAVED], SAVED)
    with pytest.raises(
        CommunicatorError,
        match="has loaded no checkpoint, but this trainer should continue from .*step_00000002: call",
    ):
        trial(lambda exe, main, scope, index: load_checkpoint(exe, tmp_path, main, scope) and None)


def test_what_does_not_fit_changes_nothing(tmp_path: pathlib.Path) -> None:
    main, startup, _ = net()
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    exe.run(startup, scope=scope)
    save_checkpoint(exe, tmp_path, main, 3, scope=scope)
    other, start = fluid.Program(), fluid.Program()
    with fluid.program_guard(other, start), fluid.unique_name.guard():
        fluid.layers.fc(fluid.data("x", [None, 20]), 11, param_attr="w", bias_attr="b")
        fluid.layers.fc(fluid.data("y", [None, 20]), 11, param_attr="strange", bias_attr=False)
    for program, error, text in (
        (other, RuntimeError, "w"),
        (prune_to(other, "strange"), FormatError, "holds no variable 'strange'"),
    ):
        scope = Scope()
        exe.run(start, scope=scope)
        before = state(scope, program)
        with pytest.raises(error, match=text):
            load_checkpoint(exe, tmp_path, program, scope)
        same(before, state(scope, program))


def prune_to(program: Any, name: str) -> Any:
    found = program.clone()
    for other in [var for var in found.list_vars() if var.persistable and var.name != name]:
        other.persistable = False
    return found


def test_arguments() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    for wrong in ({"step": -1}, {"step": 1.5}, {"step": True}, {"max_num": 0}):
        with pytest.raises(ArgumentError):
            save_checkpoint(exe, "never", net()[0], **wrong)
    with pytest.raises(ArgumentError, match="only trainers save"):
        save_checkpoint(exe, "never", job_of().server("127.0.0.1:6174").main)
