"""Jobs through Fleet: two trainers and two servers, each a process that runs the script of a user."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import fleet_job
import numpy as np
import pytest
from ports import free_ports

import fluidlite as fluid

SCRIPT = pathlib.Path(__file__).with_name("fleet_job.py")


def start(mode: str, **variables: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "FLUIDLITE_JOB_KEY": "fleet",
        "FLAGS_rpc_deadline": "200000",
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), mode],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out


def job(mode: str, folder: pathlib.Path) -> list[dict[str, Any]]:
    """The output of the two trainers."""
    ports = free_ports(2)
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports),
        "PADDLE_TRAINERS_NUM": "2",
        "SAVE_TO": str(folder),
    }
    processes = [
        start(mode, TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1", PADDLE_PORT=str(port), **common)
        for port in ports
    ]
    processes += [
        start(mode, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(number), **common) for number in range(2)
    ]
    try:
        outputs = [finished(process) for process in processes[::-1]]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads(text) for text in outputs[1::-1]]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return json.loads(finished(start("alone")))


def test_two_trainers_in_step_are_one_process(alone: dict[str, Any], tmp_path: pathlib.Path) -> None:
    for trainer in job("sync", tmp_path):
        for name in ("w", "v"):
            np.testing.assert_allclose(trainer[name], alone[name], rtol=2e-5, atol=1e-6)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        assert "lookup_table" in [op.type for op in program.global_block().ops]  # as the user wrote it
        feed = fleet_job.batches(0, 8)[0]
        (guess,) = exe.run(program, {name: feed[name] for name in feeds}, targets)
        held = np.array(scope.find_var("w").get_tensor()).ravel()
    assert guess.shape == (8, 1)
    np.testing.assert_allclose(held, alone["w"], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["half_async", "async", "geo"])
def test_trainers_that_do_not_wait_learn(mode: str, alone: dict[str, Any], tmp_path: pathlib.Path) -> None:
    start = np.full(100 * 100, 0.02)
    for trainer in job(mode, tmp_path):
        assert np.isfinite(trainer["w"]).all()
        moved, wanted = np.array(trainer["w"]) - start, np.array(alone["w"]) - start
        # so few steps may be over before anything has come back
        assert moved @ wanted >= 0.5 * np.linalg.norm(moved) * np.linalg.norm(wanted)
