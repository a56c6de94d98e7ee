"""Modes are objects: what the list promises, and a new mode made of one class and one entry in it."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.cli.transpile import main as command
from fluidlite.distributed import verify
from fluidlite.distributed.worker import script_modes
from fluidlite.errors import TranspilerError
from fluidlite.ir.operator import OpRole
from fluidlite.transpiler import DistributeTranspilerConfig, estimate, make_job, modes
from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.cost.model import CostCase, Load
from fluidlite.transpiler.modes import (
    MODES,
    Job,
    TrainingMode,
    all_modes,
    mode_called,
    mode_names,
    mode_of_config,
)
from fluidlite.transpiler.modes.grad_allreduce import GradAllReduceMode
from fluidlite.transpiler.modes.servers import ServerMode

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDPOINTS = "127.0.0.1:6170,127.0.0.1:6171"


def programs() -> tuple[fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 20]), fluid.data("y", [None, 1])
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup


def batches() -> list[Mapping[str, Any]]:
    random = np.random.RandomState(0)
    return [
        {"x": random.randn(4, 20).astype("float32"), "y": random.randn(4, 1).astype("float32")}
        for _ in range(3)
    ]


# ---------------------------------------------------------------------- the list
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_mode_says_what_everybody_asks(mode: TrainingMode) -> None:
    assert re.fullmatch("[a-z][a-z0-9_]*", mode.name)
    assert len(mode.about) > 20 and "\n" not in mode.about
    assert set(mode.options) <= set(DistributeTranspilerConfig.names())
    job = make_job(*programs(), mode)
    assert job.mode is mode and str(job.mode) == mode.name
    assert bool(job.slices) == mode.has_servers == any(not role.trains for role in job.roles)
    found = estimate(job)
    seconds, load = mode.step(job, found.case, 2)(2)
    assert seconds == pytest.approx(found.step_s) or mode.scaled_as == "hierarchical"
    assert load.out > 0


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_mode_lives_in_a_file_of_its_name(mode: TrainingMode) -> None:
    home = type(mode).__module__.rsplit(".", 1)[1]
    assert home.rstrip("_") == mode.name  # `async` is a word of Python's


def test_the_list_has_every_mode_once() -> None:
    assert len(set(mode_names())) == len(MODES) and all_modes() == MODES
    assert [mode_called(name) for name in mode_names()] == list(MODES)
    with pytest.raises(TranspilerError, match="no mode 'psrver'; did you mean 'pserver'"):
        mode_called("psrver")


def test_no_other_file_compares_with_a_modes_name() -> None:
    names = {mode.name for mode in (*MODES, modes.LOCAL)}
    for folder in ("transpiler", "executor", "fluidlite/distributed", "fluidlite/cli", "fluidlite/show"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
                if isinstance(node, ast.Compare):
                    sides = [side for side in ast.walk(node) if isinstance(side, ast.Constant)]
                    compared = {side.value for side in sides if isinstance(side.value, str)} & names
                    assert not compared, f"{path}:{node.lineno} compares with {compared}"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "pserver"),
        ({"mode": "nccl2"}, "nccl2"),
        ({"mode": "collective", "collective_mode": "local_sgd"}, "local_sgd"),
    ],
)
def test_fluids_configuration_asks_for_modes(fields: dict[str, str], name: str) -> None:
    assert mode_of_config(DistributeTranspilerConfig.make(**fields)).name == name


def test_without_steps_together_servers_are_in_another_mode() -> None:
    split = {"sync_mode": False, "runtime_split_send_recv": True}
    for fields, name in (
        ({"sync_mode": False}, "async"),
        ({"sync_mode": False, "half_async": True}, "async"),
        (split, "async"),
        (split | {"half_async": True}, "half_async"),
    ):
        config = DistributeTranspilerConfig.make(**fields)
        assert make_job(*programs(), "pserver", sync_mode=False, config=config).mode.name == name
    assert make_job(*programs(), "geo_sgd", sync_mode=False).mode.name == "geo_sgd"
    for name in ("grad_allreduce", "nccl2", "local_sgd"):
        with pytest.raises(TranspilerError, match=f"mode {name} has no asynchronous variant"):
            make_job(*programs(), name, sync_mode=False)


# ---------------------------------------------------------------------- a new one
class Counted(GradAllReduceMode):
    """A toy: each rank also keeps a copy of the gradient that the backward pass starts from."""

    name = "counted"
    about = "a toy, which is grad_allreduce with one more op a step"
    scaled_as = "counted"

    def rewrite(self, startup: Any, main: Any, rank: Any, options: Any) -> Any:
        """The programs of "grad_allreduce", with one op at the end of the step."""
        made = super().rewrite(startup, main, rank, options)
        block = made.main.global_block()
        start = next(op for op in block.ops if op.role == OpRole.Backward | OpRole.Loss)
        block.create_var(name="kept_copy", dtype="float32")
        attrs = {"op_role": int(OpRole.Optimize)}
        block.append_op("assign", {"X": start.output("Out")}, {"Out": "kept_copy"}, attrs)
        return made

    def load_of(self, job: Job, case: CostCase, count: int) -> Load:
        """As its parent, and a message for the toy."""
        return super().load_of(job, case, count) + Load(messages=1.0)


class Patient(ServerMode):
    """A toy with servers: synchronous, under another name."""

    name = "patient"
    about = "a toy, which is pserver under another name"
    scaled_as = "patient"
    in_step = True


@pytest.fixture(params=[Counted, Patient])
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TrainingMode:
    kind: Callable[[], TrainingMode] = request.param
    found = kind()
    monkeypatch.setattr(modes, "MODES", (*MODES, found))
    return found


def test_a_new_mode_makes_jobs_that_fit(toy: TrainingMode) -> None:
    job = make_job(*programs(), toy.name, trainers=3)
    assert job.mode is toy
    assert all(job.programs(role).main.global_block().ops for role in job.roles)
    assert check(job).ok, str(check(job))


def test_a_new_mode_is_estimated_and_compared(toy: TrainingMode) -> None:
    found = estimate(make_job(*programs(), toy.name))
    assert found.step_s > 0 and found.links
    lines = found.scaling([2, 4])
    assert [line.trainers for line in lines if line.mode == toy.scaled_as] == [2, 4]


def test_a_new_mode_is_proved(toy: TrainingMode) -> None:
    proof = verify(*programs(), batches(), toy.name)
    assert proof.ok and str(proof).startswith(f"{toy.name}, 2 trainers")


def test_a_new_mode_is_one_of_the_commands_and_the_scripts(
    toy: TrainingMode, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle.fluid as fluid\n"
        "x, y = fluid.data('x', [None, 20]), fluid.data('y', [None, 1])\n"
        "loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))\n"
        "fluid.optimizer.SGD(0.1).minimize(loss)\n"
        "fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())\n"
    )
    assert command([str(script), "--mode", toy.name, "--check", "--cost"]) == 0
    assert command([str(script), "--mode", toy.name, "--verify", "--steps", "2"]) == 0
    out = capsys.readouterr().out
    assert "ok: " in out and toy.scaled_as in out and out.endswith("\nok\n")
    with pytest.raises(SystemExit):
        command(["--help"])
    assert toy.about in " ".join(capsys.readouterr().out.split())
    assert toy.name in script_modes()
