"""Every example program in every mode: 20 steps of the whole job in one process equal what the mode should
compute.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.cli.capture import Captured
from fluidlite.cli.sources import load
from fluidlite.distributed import join_job, roles_from_environment, script_modes, verify
from fluidlite.distributed.feeds import random_feeds
from fluidlite.errors import TranspilerError

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = {
    "fit_a_line": [],
    "recognize_digits": ["--net", "mlp"],
    "word2vec": [],
    "ctr_dnn": ["--rows", "260"],
    "transformer_lm": ["--length", "8", "--width", "16"],
}
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "pserver": ("pserver", {}),
    "async": ("pserver", {"sync_mode": False}),
    "half_async": ("pserver", {"sync_mode": False, "runtime_split_send_recv": True, "half_async": True}),
    "geo_sgd": ("geo_sgd", {"geo_sgd_need_push_nums": 5}),
    "grad_allreduce": ("grad_allreduce", {}),
    "local_sgd": ("local_sgd", {}),
    "nccl2": ("nccl2", {}),
    "single_process_multi_thread": ("single_process_multi_thread", {}),
    "multi_thread": ("multi_thread", {}),
}


@functools.cache
def program(example: str) -> Captured:
    return load(str(ROOT / "examples" / f"{example}.py"), SMALL[example])


LONG = {("transformer_lm", "half_async"), ("transformer_lm", "geo_sgd"), ("transformer_lm", "multi_thread")}


@pytest.mark.parametrize(
    "example, mode",
    [
        pytest.param(example, mode, marks=[pytest.mark.slow] if (example, mode) in LONG else [])
        for example in SMALL
        for mode in MODES
    ],
)
def test_equal_to_the_reference(example: str, mode: str) -> None:
    made = program(example)
    name, fields = MODES[mode]
    proof = verify(
        made.main,
        made.startup,
        random_feeds(made.main, 4, 20),
        name,
        config=fluid.DistributeTranspilerConfig.make(**fields),
    )
    assert proof.ok, str(proof)
    assert proof.steps == 20 and len(proof.differences) == len(made.main.all_parameters())


def test_all_script_modes_are_proven() -> None:
    assert {*script_modes()} - {"local"} <= {*MODES}


def lines_of_code(source: str) -> int:
    """Lines that are not blank, and neither in a comment nor in a docstring."""
    tree = ast.parse(source)
    docs = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    rest = [line.strip() for number, line in enumerate(source.splitlines(), 1) if number not in docs]
    return sum(bool(line) and not line.startswith("#") for line in rest)


@pytest.mark.parametrize("example", SMALL)
def test_examples_are_short(example: str) -> None:
    assert lines_of_code((ROOT / "examples" / f"{example}.py").read_text(encoding="utf8")) <= 100


def test_an_example_runs_alone_and_compares_with_itself() -> None:
    command = [sys.executable, str(ROOT / "examples" / "fit_a_line.py"), "--epochs", "2", "--compare"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        "local: 1 trainers: 2 parameters, largest relative difference from one process 0.0e+00" in ran.stdout
    )


# ---------------------------------------------------------------------- who this process is
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"
SERVER = {"TRAINING_ROLE": "PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS, "PADDLE_TRAINERS_NUM": "3"}
TRAINER = {**SERVER, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "2"}


def test_roles_by_fluids_variables() -> None:
    seat = roles_from_environment(environ=TRAINER)
    assert (seat.kind, seat.index, seat.trainers, seat.servers, seat.by) == (
        "trainer",
        2,
        3,
        tuple(SERVERS.split(",")),
        "environment",
    )
    assert seat.processes == 5
    assert roles_from_environment(environ={**SERVER, "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:6175"}).index == 1
    assert (
        roles_from_environment(environ={**SERVER, "POD_IP": "127.0.0.1", "PADDLE_PORT": "6174"}).kind
        == "pserver"
    )
    older = {
        "TRAINING_ROLE": "trainer",
        "PADDLE_PSERVER_IPS": "10.0.0.1, 10.0.0.2",
        "PADDLE_PORT": "7000",
        "PADDLE_TRAINERS": "1",
        "PADDLE_TRAINER_ID": "0",
    }
    assert roles_from_environment(environ=older).servers == ("10.0.0.1:7000", "10.0.0.2:7000")
    assert roles_from_environment(environ={}).by == "alone"


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"TRAINING_ROLE": "WORKER"}, "TRAINING_ROLE is 'WORKER'"),
        ({"PADDLE_TRAINER_ID": "3"}, "there are 3 trainers, numbered from 0"),
        ({"PADDLE_TRAINER_ID": ""}, "PADDLE_TRAINER_ID is not"),
        ({"PADDLE_TRAINERS_NUM": "two"}, "PADDLE_TRAINERS_NUM is 'two'"),
        ({"PADDLE_TRAINERS_NUM": "0"}, "at least one trainer"),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": ""}, "set it to the endpoints"),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": "here"}, "not of the form 'ip:port'"),
        (
            {"TRAINING_ROLE": "PSERVER", "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:9"},
            "not in the list of servers",
        ),
    ],
)
def test_variables_that_do_not_fit(changed: dict[str, str], says: str) -> None:
    with pytest.raises(TranspilerError, match=says):
        roles_from_environment(environ={**TRAINER, **changed})


def test_modes_that_need_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program("fit_a_line")
    with pytest.raises(
        TranspilerError, match="mode 'pserver' needs the other processes of the job: start several processes"
    ):
        join_job("pserver", main=made.main, startup=made.startup)
    with pytest.raises(TranspilerError, match="no mode 'pservr'; did you mean 'pserver'"):
        join_job("pservr")
    for name, value in TRAINER.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TranspilerError, match="find each other by MPI only"):
        join_job("grad_allreduce", main=made.main, startup=made.startup)
    job = join_job("pserver", main=made.main, startup=made.startup)
    assert job.index == 2 and not job.reports and job.share(list(range(9))) == [6, 7, 8]
