"""Examples, and a script of 2019, as processes that are started one by one with fluid's environment
variables.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest
from ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
AS_PADDLE = """
import runpy, sys
from fluidlite.cli.scripts.names import paddle_names
with paddle_names():
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


def job(command: Sequence[str], trainers: int = 2, servers: int = 2) -> list[str]:
    """The output of the trainers of a job, after all processes have ended well."""
    ports = free_ports(servers)
    common = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "FLUIDLITE_JOB_KEY": "test",
        "FLAGS_rpc_deadline": "200000",
        "POD_IP": "127.0.0.1",
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports),
        "PADDLE_TRAINERS_NUM": str(trainers),
    }
    roles = [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(number)} for number in range(trainers)]
    roles += [{"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": str(port)} for port in ports]
    started = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**common, **role},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    try:
        said = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(process.returncode == 0 for process in started), "\n".join(err for _, err in said)
    return [out for out, _ in said[:trainers]]


@pytest.mark.parametrize(
    "example, mode, allowed",
    [
        (["fit_a_line", "--epochs", "2"], "pserver", 1e-5),
        (["word2vec", "--epochs", "1", "--steps", "20"], "pserver", 2e-3),
        pytest.param(["fit_a_line", "--epochs", "2"], "async", 100.0, marks=pytest.mark.slow),
        pytest.param(["fit_a_line", "--epochs", "2"], "half_async", 100.0, marks=pytest.mark.slow),
        pytest.param(
            ["word2vec", "--epochs", "1", "--steps", "20"], "geo_sgd", 100.0, marks=pytest.mark.slow
        ),
        pytest.param(["recognize_digits", "--epochs", "1"], "pserver", 2e-5, marks=pytest.mark.slow),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_example_over_tcp(example: list[str], mode: str, allowed: float) -> None:
    name, *options = example
    first, other = job([str(ROOT / "examples" / f"{name}.py"), *options, "--mode", mode, "--compare"])
    said = re.search(
        rf"^{mode}: 2 trainers, 2 servers: \d+ parameters, largest relative difference from one process "
        rf"(\S+) ",
        first,
        re.M,
    )
    assert said is not None and float(said[1]) <= allowed, first
    assert other == ""  # trainer 0 speaks for all


def test_a_script_of_2019() -> None:
    script = str(ROOT / "tests" / "distributed" / "old_dist_script.py")
    env = {name: value for name, value in os.environ.items() if name != "TRAINING_ROLE"}
    alone = subprocess.run(
        [sys.executable, "-c", AS_PADDLE, script], capture_output=True, text=True, check=True, env=env
    ).stdout
    first, second = job(["-c", AS_PADDLE, script])
    assert first.splitlines()[-1] == second.splitlines()[-1]
    found, wanted = ([float(text) for text in said.splitlines()[-1].split()[1:]] for said in (first, alone))
    assert max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True)) < 1e-5
    assert len(re.findall(r"^pass \d batch 9 loss ", first, re.M)) == 2
